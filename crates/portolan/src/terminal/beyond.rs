//! The fields of a call's input that its diffs do not show. People read the diff, but they allow the input: a
//! `replace_all`, a cell of a notebook, a text that was too large, a field that is newer than this program.

use std::collections::HashSet;

use portolan_core::event::FileChange;
use serde_json::Value;

/// The fields that neither the diffs nor the texts in `shown` contain, by name.
pub(crate) fn beyond<'a>(
    input: &'a Value,
    changes: &[FileChange],
    shown: &[Option<&str>],
) -> Vec<(&'a str, &'a Value)> {
    let told = Told::of(changes, shown);
    let fields: Vec<(&str, &Value)> = match input {
        Value::Null => vec![],
        Value::Object(map) => map.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        other => vec![("input", other)],
    };
    fields.into_iter().filter(|(_, value)| !told.holds_field(value)).collect()
}

struct Told<'a> {
    /// Paths, and texts that are shown beside the diffs.
    texts: HashSet<&'a str>,
    lines: HashSet<&'a str>,
    has_changes: Changes,
}

#[derive(PartialEq, Eq)]
enum Changes {
    Some,
    None,
}

impl<'a> Told<'a> {
    fn of(changes: &'a [FileChange], shown: &[Option<&'a str>]) -> Self {
        let paths = changes.iter().flat_map(|change| [Some(change.path.as_str()), change.from.as_deref()]);
        let diffs = changes.iter().filter_map(|change| change.diff.as_deref());
        // The text after the `+`, `-` or space. A character of several bytes is none of these.
        let lines = diffs.flat_map(str::lines).filter_map(|line| line.get(1..)).collect();
        Self {
            texts: paths.chain(shown.iter().copied()).flatten().collect(),
            lines,
            has_changes: if changes.is_empty() { Changes::None } else { Changes::Some },
        }
    }

    fn holds_field(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => self.holds(text),
            Value::Bool(_) | Value::Number(_) => false,
            Value::Array(_) | Value::Object(_) => {
                self.has_changes == Changes::Some && self.holds_within(value)
            }
        }
    }

    /// A flag that is not set inside a list needs no line.
    fn holds_within(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(false) => true,
            Value::Bool(true) | Value::Number(_) => false,
            Value::String(text) => self.holds(text),
            Value::Array(all) => all.iter().all(|one| self.holds_within(one)),
            Value::Object(all) => all.values().all(|one| self.holds_within(one)),
        }
    }

    fn holds(&self, text: &str) -> bool {
        self.texts.contains(text)
            || self.has_changes == Changes::Some
                && text.lines().all(|line| line.is_empty() || self.lines.contains(line))
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::event::ChangeKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_shown_in_the_diff_or_separately() {
        let change = FileChange::new("/a", ChangeKind::Modify, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        let names = |input: &Value, changes: &[FileChange]| -> Vec<String> {
            beyond(input, changes, &[Some("told")]).into_iter().map(|(name, _)| name.to_owned()).collect()
        };
        let changes = [change];
        let mut edit = json!({"file_path": "/a", "old_string": "one\ntwo", "new_string": "one\n2"});
        assert_eq!(names(&edit, &changes), Vec::<String>::new());
        assert_eq!(names(&edit, &[]), ["file_path", "old_string", "new_string"]);
        edit["replace_all"] = json!(true);
        edit["newer"] = json!("field");
        edit["nothing"] = json!(null);
        edit["description"] = json!("told");
        edit["new_string"] = json!("one\n2\nrm -rf /");
        assert_eq!(names(&edit, &changes), ["new_string", "replace_all", "newer"]);
        let edits = |new: &str, all: bool| json!({"edits": [{"old": "two", "new": new, "all": all}]});
        assert_eq!(names(&edits("2", false), &changes), Vec::<String>::new());
        assert_eq!(names(&edits("3", false), &changes), ["edits"]);
        assert_eq!(names(&edits("2", true), &changes), ["edits"]);
        assert_eq!(names(&json!(["a"]), &[]), ["input"]);
        assert_eq!(names(&json!({}), &changes), Vec::<String>::new());
    }
}
