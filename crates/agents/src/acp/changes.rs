//! Changes to files. ACP reports a file before and after the change; people read a diff. Pure.

use portolan_core::event::{ChangeKind, FileChange};
use serde_json::Value;

use super::wire::text;
use crate::hunks;

/// Unchanged lines around a change.
const AROUND: usize = 3;

/// The changes among the content of a call.
pub(super) fn changes(content: &[Value]) -> Vec<FileChange> {
    content.iter().filter(|piece| piece["type"] == "diff").map(change).collect()
}

fn change(told: &Value) -> FileChange {
    let (path, before, after) = (text(told, "path"), text(told, "oldText"), text(told, "newText"));
    // Some agents report a missing file as an empty file.
    let change = match (before.is_empty(), told["newText"].is_null()) {
        (_, true) => ChangeKind::Delete,
        (true, false) => ChangeKind::Create,
        (false, false) => ChangeKind::Modify,
    };
    FileChange::new(path, change, &hunk(&before, &after).unwrap_or_default())
}

/// The whole input of a call to allow: its input, plus the texts whose diffs are too large to show and that its input
/// does not contain.
pub(super) fn whole_input(mut input: Value, content: &[Value]) -> Value {
    let diffs = content.iter().filter(|piece| piece["type"] == "diff");
    let untold: Vec<Value> = diffs
        .filter(|piece| change(piece).left_out.is_some() && !holds(&input, &piece["newText"]))
        .cloned()
        .collect();
    if !untold.is_empty()
        && let Some(fields) = input.as_object_mut()
    {
        fields.insert("left_out".into(), untold.into());
    }
    input
}

fn holds(input: &Value, text: &Value) -> bool {
    match input {
        Value::Array(all) => all.iter().any(|one| holds(one, text)),
        Value::Object(all) => all.values().any(|one| holds(one, text)),
        one => one == text,
    }
}

/// One hunk from the first line that differs to the last; none if no line differs.
fn hunk(before: &str, after: &str) -> Option<String> {
    let (old, new) = hunks::lines(before, after);
    let same = |pairs: usize| pairs.min(old.len()).min(new.len());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let tail = tail.min(same(usize::MAX) - head);
    if head + tail == old.len() && head + tail == new.len() {
        return None;
    }
    let begin = head.saturating_sub(AROUND);
    let shown_tail = tail.min(AROUND);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let count = |end: usize| end + shown_tail - begin;
    let start = |length: usize| if length == 0 { 0 } else { begin + 1 };
    let (removed, added) = (count(old_end), count(new_end));
    let mut hunk = format!("@@ -{},{removed} +{},{added} @@\n", start(old.len()), start(new.len()));
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            hunk.push(sign);
            hunk.push_str(line);
            hunk.push('\n');
        }
    };
    put(' ', &old[begin..head]);
    put('-', &old[head..old_end]);
    put('+', &new[head..new_end]);
    put(' ', &old[old_end..old_end + shown_tail]);
    Some(hunk)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn new_changed_and_deleted_files_have_diffs_that_say_so() {
        let told = [
            json!({ "type": "diff", "path": "/a", "oldText": null, "newText": "one\ntwo\n" }),
            json!({ "type": "diff", "path": "/b", "oldText": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "newText": "1\n2\n3\n4\nfive\n6\n7\n8\n9\n" }),
            json!({ "type": "diff", "path": "/c", "oldText": "gone\n", "newText": null }),
            json!({ "type": "diff", "path": "/d", "oldText": "same\n", "newText": "same\n" }),
            json!({ "type": "content" }),
        ];
        let shown: Vec<_> = changes(&told)
            .into_iter()
            .map(|change| (change.path, change.change, change.diff.unwrap_or_default()))
            .collect();
        let modified = "--- /b\n+++ /b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(
            shown,
            [
                (
                    "/a".into(),
                    ChangeKind::Create,
                    "--- /dev/null\n+++ /a\n@@ -0,0 +1,2 @@\n+one\n+two\n".into()
                ),
                ("/b".into(), ChangeKind::Modify, modified.into()),
                ("/c".into(), ChangeKind::Delete, "--- /c\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone\n".into()),
                ("/d".into(), ChangeKind::Modify, String::new()),
            ]
        );
    }

    #[test]
    fn the_input_holds_what_a_diff_leaves_out() {
        let text = "x\n".repeat(200_000);
        let content = [
            json!({ "type": "diff", "path": "/big", "oldText": null, "newText": text }),
            json!({ "type": "diff", "path": "/small", "oldText": null, "newText": "y" }),
        ];
        assert_eq!(changes(&content)[0].left_out.map(|left_out| left_out.added), Some(200_000));
        assert_eq!(whole_input(json!({ "path": "/big" }), &content)["left_out"], json!([content[0]]));
        let told = json!({ "edit": { "content": text } });
        assert_eq!(whole_input(told.clone(), &content), told, "it stands there already");
    }

    #[test]
    fn a_change_of_line_ends_is_a_change() {
        let told = json!({ "type": "diff", "path": "/a", "oldText": "x\r\n", "newText": "x\n" });
        assert!(change(&told).diff.unwrap().contains("-x\r\n+x\n"));
    }

    proptest! {
        #[test]
        fn a_hunk_holds_every_line_that_differs(old in "[ab\n]{0,40}", new in "[ab\n]{0,40}") {
            let lines = |sign: char, hunk: &str| {
                let fits = |line: &&str| line.starts_with(sign) || line.starts_with(' ');
                hunk.lines().skip(1).filter(fits).map(|line| line[1..].to_owned()).collect::<Vec<_>>()
            };
            match hunk(&old, &new) {
                None => prop_assert_eq!(old, new),
                Some(hunk) => {
                    // Few lines: the shown part of each side is one contiguous piece.
                    let (old, new) = hunks::lines(&old, &new);
                    prop_assert!(old.join("\n").contains(&lines('-', &hunk).join("\n")));
                    prop_assert!(new.join("\n").contains(&lines('+', &hunk).join("\n")));
                }
            }
        }
    }
}
