//! The changes of a patch, as diffs that people can read. Codex reports a new file by its content and a changed file by
//! hunks without a header. Pure.

use portolan_core::event::{ChangeKind, FileChange};
use serde_json::{Value, json};

use crate::codex::wire::{some_text, text};

/// All changes of an item.
pub(in crate::codex) fn changes(told: &Value) -> Vec<FileChange> {
    told.as_array().map(|all| all.iter().map(change).collect()).unwrap_or_default()
}

/// The input of an item: its files, and the texts whose diffs are too large to show.
pub(super) fn input(told: &Value, changes: &[FileChange]) -> Value {
    let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
    let mut input = json!({ "paths": paths });
    let told = told.as_array().into_iter().flatten().zip(changes);
    let untold: Vec<_> =
        told.filter(|(_, change)| change.left_out.is_some()).map(|(told, _)| told.clone()).collect();
    if !untold.is_empty() {
        input["left_out"] = untold.into();
    }
    input
}

fn change(told: &Value) -> FileChange {
    let (path, body) = (text(told, "path"), text(told, "diff"));
    match told["kind"]["type"].as_str() {
        Some("add") => FileChange::new(path, ChangeKind::Create, &whole(&body, '+')),
        Some("delete") => FileChange::new(path, ChangeKind::Delete, &whole(&body, '-')),
        _ => match some_text(&told["kind"], "move_path") {
            Some(moved) => FileChange::renamed(path, moved, &body),
            None => FileChange::new(path, ChangeKind::Modify, &body),
        },
    }
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
    use super::*;

    #[test]
    fn the_input_holds_what_a_diff_leaves_out() {
        let told = json!([
            { "path": "/big", "kind": { "type": "add" }, "diff": "x\n".repeat(200_000) },
            { "path": "/small", "kind": { "type": "add" }, "diff": "y\n" },
        ]);
        let changes = changes(&told);
        assert_eq!(changes[0].left_out.map(|left_out| left_out.added), Some(200_000));
        assert_eq!(input(&told, &changes), json!({ "paths": ["/big", "/small"], "left_out": [told[0]] }));
        let small = json!([told[1]]);
        assert_eq!(input(&small, &changes[1..]), json!({ "paths": ["/small"] }));
    }

    #[test]
    fn a_file_that_only_moves_is_shown_with_its_old_path() {
        let told = json!([{ "path": "/c", "kind": { "type": "update", "move_path": "/d" }, "diff": "" }]);
        let moved = changes(&told).remove(0);
        assert_eq!((moved.from.as_deref(), moved.path.as_str(), moved.diff), (Some("/c"), "/d", None));
    }

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
