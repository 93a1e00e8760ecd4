//! Properties for any input of a client: the body of the fuzz target in fuzz/, and of a test that replays its seeds.

use super::{
    answers,
    context::user_words,
    parse::{Asked, approval, run_input, single, stop_body},
};

/// A body: a request that round-trips, or a short reason.
pub fn request(data: &[u8]) {
    let mut reasons = Vec::new();
    match single(data) {
        Ok(Asked::Connect(_, input) | Asked::Run(_, input)) => {
            let written = serde_json::to_vec(&*input).unwrap_or_default();
            assert_eq!(run_input(&written).as_ref(), Ok(&*input), "written and read back");
            for message in &input.messages {
                // Any parts give content or a reason.
                let _ = user_words(message);
            }
        }
        Ok(Asked::Info | Asked::Stop(..)) => {}
        Err(bad) => reasons.push(bad),
    }
    reasons.extend(run_input(data).err());
    reasons.extend(stop_body(data).err());
    match approval(data) {
        Ok(approval) => {
            let _ = answers::request_of(&approval);
        }
        Err(bad) => reasons.push(bad),
    }
    for bad in reasons {
        let text = bad.to_string();
        assert!(!text.is_empty() && text.len() < 4096, "a reason is short: {text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/agui_request");
        let files = std::fs::read_dir(folder).unwrap();
        let played = files.map(|file| super::request(&std::fs::read(file.unwrap().path()).unwrap())).count();
        assert!(played > 0, "there are no seeds");
    }
}
