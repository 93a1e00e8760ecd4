//! Calls that an agent makes without asking, and that may touch a place that no mode covers. Most calls do not, so the
//! names in a call are looked at before the disk is. Pure.

use std::path::Path;

use super::{commands, cover::Part, facts::Facts, places, reading::Reading, tool::Kind};

/// May this call touch such a place? If not, the disk need not be looked at. A file that a call reads may be a link, so
/// that its name says nothing.
pub fn may_be_touched(reading: &Reading<'_>) -> bool {
    reading.call().kind() == Kind::Read && !reading.paths().is_empty() || touched(reading, &Facts::default())
}

/// Does this call touch such a place?
pub fn touched(reading: &Reading<'_>, facts: &Facts) -> bool {
    let by_name = || {
        let kind = if reading.call().kind() == Kind::Edit { Kind::Edit } else { Kind::Read };
        reading.paths().iter().any(|path| !places::guarded(Path::new(path), kind, facts).is_empty())
    };
    let is_guarded = |part: &Part<'_>| match part {
        Part::File { kind, lies: Some(lies), .. } => {
            lies.iter().any(|path| !places::guarded(path, *kind, facts).is_empty())
        }
        Part::Command(command) => commands::protected(command).is_some(),
        _ => false,
    };
    reading.parts(facts).iter().any(is_guarded) || by_name()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::Call;

    #[test]
    fn a_call_that_names_no_secret_needs_no_look_at_the_disk_unless_it_reads_a_file() {
        for (tool, input, may) in [
            ("Bash", json!({ "command": "ls -l" }), false),
            ("Bash", json!({ "command": "cat .env" }), true),
            ("Bash", json!({ "command": "cat notes.txt" }), false),
            ("Bash", json!({ "command": "wc < .env" }), true),
            ("Read", json!({ "file_path": "notes.txt" }), true),
            ("TodoWrite", json!({ "todos": [] }), false),
            ("WebFetch", json!({ "url": "https://example.org/.env" }), false),
        ] {
            assert_eq!(may_be_touched(&Reading::of(Call::new(tool, &input))), may, "{tool} {input}");
        }
    }
}
