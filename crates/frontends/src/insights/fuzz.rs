//! Properties for any input of a client: the body of the fuzz target in fuzz/, and of a test that replays its seeds.

use super::{
    parse::parse,
    wire::{ErrorCode, ServerMessage},
};

/// A WebSocket text: a message that round-trips, or an error of the protocol.
pub fn message(data: &[u8]) {
    match parse(data) {
        Ok(parsed) => {
            let written = serde_json::to_vec(&parsed.message).unwrap_or_default();
            let again = parse(&written).map(|again| again.message);
            assert_eq!(again, Ok(parsed.message), "written and read back");
        }
        Err(error) => {
            assert!(matches!(error.code, ErrorCode::InvalidJson | ErrorCode::InvalidMessage));
            assert!(!error.message.is_empty() && !error.message.chars().any(char::is_control), "{error:?}");
            assert!(
                ServerMessage::Error(error).to_text().len() < 4096,
                "an error is short, whatever it is about"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/insights_message");
        let files = std::fs::read_dir(folder).unwrap();
        let played = files.map(|file| super::message(&std::fs::read(file.unwrap().path()).unwrap())).count();
        assert!(played > 0, "there are no seeds");
    }
}
