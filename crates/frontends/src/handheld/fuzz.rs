//! Properties for any input of a device: the body of the fuzz target `handheld_message`, and of a test that replays its
//! seeds.

use super::{
    names,
    parse::{Button, FromDevice, parse},
    wire::SLOTS,
};

/// A message is read, or refused with a reason; and its slot exists.
pub fn message(data: &[u8]) {
    match parse(data) {
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
        }
        Ok(FromDevice::Press { to, button }) => {
            assert!(matches!(button, Button::Yes | Button::Always | Button::No | Button::Escape));
            is_a_slot(&to);
        }
        Ok(FromDevice::Command { to, text }) => {
            assert!(!text.trim().is_empty() && text.trim() != "spawn");
            is_a_slot(&to);
        }
        Ok(FromDevice::AutoEdit(_) | FromDevice::Spawn(_)) => {}
    }
}

fn is_a_slot(to: &super::parse::Address) {
    let known = std::array::from_fn(names::of_empty);
    assert!(names::route(&known, to).is_none_or(|slot| slot < SLOTS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/handheld_message");
        let files = std::fs::read_dir(folder).unwrap();
        let played = files.map(|file| message(&std::fs::read(file.unwrap().path()).unwrap())).count();
        assert!(played > 5, "seeds are missing");
    }
}
