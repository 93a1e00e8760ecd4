//! The changes of a patch, as diffs that people can read. Codex tells a new file by its content and a changed one by
//! hunks without a header. Pure.

use portolan_core::event::{ChangeKind, FileChange};
use serde_json::Value;

use crate::codex::wire::{some_text, text};

/// The largest diff that is shown. Beyond it people read the file.
const LARGEST_DIFF: usize = 256 * 1024;

/// All changes of an item.
pub(in crate::codex) fn changes(told: &Value) -> Vec<FileChange> {
    told.as_array().map(|all| all.iter().map(change).collect()).unwrap_or_default()
}

fn change(told: &Value) -> FileChange {
    let (path, body) = (text(told, "path"), text(told, "diff"));
    let moved = some_text(&told["kind"], "move_path");
    let (change, before, after, hunks) = match told["kind"]["type"].as_str() {
        Some("add") => (ChangeKind::Create, "/dev/null", path.as_str(), whole(&body, '+')),
        Some("delete") => (ChangeKind::Delete, path.as_str(), "/dev/null", whole(&body, '-')),
        _ => match &moved {
            Some(moved) => (ChangeKind::Rename, path.as_str(), moved.as_str(), body),
            None => (ChangeKind::Modify, path.as_str(), path.as_str(), body),
        },
    };
    let shown = !hunks.is_empty() && hunks.len() <= LARGEST_DIFF;
    let diff = shown.then(|| format!("--- {before}\n+++ {after}\n{hunks}"));
    FileChange { path: moved.unwrap_or(path), change, diff }
}

/// All lines of a file, as one hunk.
fn whole(content: &str, sign: char) -> String {
    let lines = content.lines().count();
    if lines == 0 {
        return String::new();
    }
    let range =
        if sign == '+' { format!("@@ -0,0 +1,{lines} @@\n") } else { format!("@@ -1,{lines} +0,0 @@\n") };
    content.lines().fold(range, |mut hunk, line| {
        hunk.push(sign);
        hunk.push_str(line);
        hunk.push('\n');
        hunk
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_changed_moved_and_deleted_files_have_diffs_that_say_so() {
        let told = json!([
            { "path": "/a", "kind": { "type": "add" }, "diff": "one\ntwo\n" },
            { "path": "/b", "kind": { "type": "update", "move_path": null }, "diff": "@@ -1 +1 @@\n-x\n+y\n" },
            { "path": "/c", "kind": { "type": "update", "move_path": "/d" }, "diff": "" },
            { "path": "/e", "kind": { "type": "delete" }, "diff": "gone\n" },
        ]);
        let shown: Vec<_> = changes(&told)
            .into_iter()
            .map(|change| (change.path, change.change, change.diff.unwrap_or_default()))
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "/a".into(),
                    ChangeKind::Create,
                    "--- /dev/null\n+++ /a\n@@ -0,0 +1,2 @@\n+one\n+two\n".into()
                ),
                ("/b".into(), ChangeKind::Modify, "--- /b\n+++ /b\n@@ -1 +1 @@\n-x\n+y\n".into()),
                ("/d".into(), ChangeKind::Rename, String::new()),
                ("/e".into(), ChangeKind::Delete, "--- /e\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone\n".into()),
            ]
        );
        assert_eq!(changes(&json!("nothing of the kind")), []);
    }

    #[test]
    fn a_new_file_that_looks_like_a_diff_is_a_new_file() {
        let told = json!([{ "path": "/a", "kind": { "type": "add" }, "diff": "@@ -1 +1 @@\n-x\n+y\n" }]);
        let diff = changes(&told).remove(0).diff.unwrap();
        assert_eq!(diff, "--- /dev/null\n+++ /a\n@@ -0,0 +1,3 @@\n+@@ -1 +1 @@\n+-x\n++y\n");
    }
}
