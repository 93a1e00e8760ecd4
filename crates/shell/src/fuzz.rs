//! What must hold for any text: the body of a fuzz target in fuzz/, and of a test that plays its seeds again.

use crate::{Part, limits, read, words};

/// Any text, as a command line and as the pattern of a rule: nothing fails, the same text always has the same parts, and
/// what was read agrees with itself.
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A pattern that cannot be read says why.
    if let Err(why) = words(text) {
        assert!(!why.to_string().is_empty());
    }
    let once = read(text);
    assert_eq!(once, read(text), "the same text has the same parts");
    if text.len() > limits::MAX_BYTES {
        assert!(once.is_err(), "too long");
    }
    let Ok(script) = once else { return };
    for part in &script.parts {
        let Part::Run(command) = part else { continue };
        assert_eq!(Some(command.words.as_slice()), command.whole.get(command.inner_at..));
        if let Some(before) = command.fed_by {
            assert!(before < script.parts.len(), "a pipe begins with a part");
        }
    }
    if text.len() < limits::MAX_BYTES {
        assert_eq!(read(&format!(" {text}")), Ok(script), "a blank before a command changes nothing");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/shell_text");
        let mut seeds = 0;
        for file in fs::read_dir(folder).unwrap() {
            let seed = fs::read(file.unwrap().path()).unwrap();
            super::text(&seed);
            seeds += 1;
        }
        assert!(seeds > 0, "seeds are missing");
    }
}
