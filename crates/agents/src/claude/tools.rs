//! Tools by their names: what sort they are, one line for people, the changes they make to files. Pure.

use std::fmt::Write as _;

use portolan_core::event::{ChangeKind, FileChange, PlanStep, ToolKind};
use serde::Deserialize;
use serde_json::Value;

/// The largest diff that is made of a change. Beyond it people read the file; the input holds it anyway.
const LARGEST_DIFF: usize = 256 * 1024;

/// The longest line for people, in characters.
const TITLE: usize = 120;

/// What sort of tool.
pub(super) fn kind(name: &str) -> ToolKind {
    match name {
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "Monitor" => ToolKind::Execute,
        "Read" | "NotebookRead" | "ReadMcpResourceTool" => ToolKind::Read,
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => ToolKind::Edit,
        "Glob" | "Grep" | "LS" | "ToolSearch" => ToolKind::Search,
        "WebFetch" | "WebSearch" => ToolKind::Fetch,
        _ if is_subagent(name) => ToolKind::Subagent,
        "TodoWrite" | "ExitPlanMode" | "EnterPlanMode" | "AskUserQuestion" | "TaskCreate" | "TaskUpdate"
        | "TaskList" | "TaskGet" => ToolKind::Think,
        _ if name.starts_with("mcp__") => ToolKind::Mcp,
        _ => ToolKind::Other,
    }
}

/// Does the tool start a subagent? It was called `Task` up to some version, and `Agent` from then on.
pub(super) fn is_subagent(name: &str) -> bool {
    matches!(name, "Agent" | "Task")
}

/// One line for people.
pub(super) fn title(input: &Value) -> Option<String> {
    let told =
        ["description", "command", "file_path", "notebook_path", "path", "pattern", "url", "query", "skill"]
            .iter()
            .find_map(|key| input.get(key)?.as_str())?;
    let line = told.lines().next().unwrap_or_default();
    let short: String = line.chars().take(TITLE).collect();
    Some(if short.len() < line.len() { format!("{short}…") } else { short })
}

/// The steps of a `TodoWrite`.
pub(super) fn todo(input: &Value) -> Option<Vec<PlanStep>> {
    #[derive(Deserialize)]
    struct Todo {
        content: String,
        #[serde(default)]
        status: String,
    }
    let todos: Vec<Todo> = serde_json::from_value(input.get("todos")?.clone()).ok()?;
    Some(todos.into_iter().map(|todo| PlanStep { text: todo.content, status: todo.status }).collect())
}

// ------------------------------------------------------------------------------- changes to files

/// The changes a call will make, as far as its input tells. Where in the file they lie is not known yet.
pub(super) fn changes_asked(name: &str, input: &Value) -> Vec<FileChange> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(path) = text(input, "file_path").or_else(|| text(input, "notebook_path")) else { return vec![] };
    let replaced = |edit: &Value| {
        let (old, new) = (text(edit, "old_string")?, text(edit, "new_string")?);
        Some(hunk(&old, &new, 1))
    };
    let body = match name {
        // Whether the file is new is not told: a file that is there would be replaced.
        "Write" => text(input, "content").map(|content| hunk("", &content, 1)),
        "Edit" => replaced(input),
        "MultiEdit" => input
            .get("edits")
            .and_then(Value::as_array)
            .map(|edits| edits.iter().filter_map(replaced).collect::<String>()),
        "NotebookEdit" => None,
        _ => return vec![],
    };
    let diff = body.and_then(|body| diff(&path, &path, &body));
    vec![FileChange { path, change: ChangeKind::Modify, diff }]
}

/// The changes a call has made, as its structured result tells.
pub(super) fn changes_made(result: &Value) -> Vec<FileChange> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Made {
        file_path: String,
        #[serde(rename = "type", default)]
        kind: Option<String>,
        #[serde(default)]
        content: Option<String>,
        structured_patch: Vec<Hunk>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Hunk {
        old_start: u64,
        old_lines: u64,
        new_start: u64,
        new_lines: u64,
        lines: Vec<String>,
    }
    if result.get("structuredPatch").is_none() {
        return vec![];
    }
    let Ok(made) = serde_json::from_value::<Made>(result.clone()) else { return vec![] };
    let path = made.file_path;
    if made.kind.as_deref() == Some("create") {
        let diff = made.content.and_then(|content| diff("/dev/null", &path, &hunk("", &content, 1)));
        return vec![FileChange { path, change: ChangeKind::Create, diff }];
    }
    let mut body = String::new();
    for hunk in made.structured_patch {
        // Writing into memory cannot fail.
        let _ = writeln!(
            body,
            "@@ -{},{} +{},{} @@",
            hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines
        );
        for line in hunk.lines {
            body.push_str(&line);
            body.push('\n');
        }
    }
    let diff = diff(&path, &path, &body);
    vec![FileChange { path, change: ChangeKind::Modify, diff }]
}

fn diff(before: &str, after: &str, body: &str) -> Option<String> {
    (!body.is_empty() && body.len() <= LARGEST_DIFF).then(|| format!("--- {before}\n+++ {after}\n{body}"))
}

/// One hunk that replaces `old` by `new`: what both begin and end with is context.
fn hunk(old: &str, new: &str, at: usize) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = rest.take_while(|(a, b)| a == b).count();
    let start = |lines: &[&str]| if lines.is_empty() { 0 } else { at };
    let mut text = format!("@@ -{},{} +{},{} @@\n", start(&old), old.len(), start(&new), new.len());
    let parts = [
        (' ', &old[..before]),
        ('-', &old[before..old.len() - after]),
        ('+', &new[before..new.len() - after]),
        (' ', &old[old.len() - after..]),
    ];
    for (sign, lines) in parts {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diff_of(changes: &[FileChange]) -> &str {
        changes[0].diff.as_deref().unwrap_or_default()
    }

    #[test]
    fn an_edit_is_shown_as_a_diff_with_its_context() {
        let input =
            json!({"file_path": "/a", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree"});
        let changes = changes_asked("Edit", &input);
        assert_eq!(diff_of(&changes), "--- /a\n+++ /a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
        assert_eq!(changes[0].change, ChangeKind::Modify);
    }

    #[test]
    fn several_edits_are_several_hunks() {
        let input = json!({"file_path": "/a", "edits": [
            {"old_string": "x", "new_string": "y"}, {"old_string": "p", "new_string": ""}]});
        let expected = "--- /a\n+++ /a\n@@ -1,1 +1,1 @@\n-x\n+y\n@@ -1,1 +0,0 @@\n-p\n";
        assert_eq!(diff_of(&changes_asked("MultiEdit", &input)), expected);
    }

    #[test]
    fn a_finished_edit_takes_its_diff_from_the_structured_result() {
        let result = json!({"filePath": "/a", "structuredPatch": [
            {"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" a", "-b", "+c"]}]});
        assert_eq!(diff_of(&changes_made(&result)), "--- /a\n+++ /a\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n");
    }

    #[test]
    fn a_new_file_is_a_creation() {
        let result =
            json!({"type": "create", "filePath": "/n", "content": "line one\n", "structuredPatch": []});
        let changes = changes_made(&result);
        assert_eq!(changes[0].change, ChangeKind::Create);
        assert_eq!(diff_of(&changes), "--- /dev/null\n+++ /n\n@@ -0,0 +1,1 @@\n+line one\n");
    }

    #[test]
    fn a_result_of_another_shape_makes_no_change() {
        for result in [json!("Error: no"), json!({"stdout": ""}), json!({"structuredPatch": 7}), json!([1])] {
            assert_eq!(changes_made(&result), vec![]);
        }
    }

    #[test]
    fn a_huge_file_is_named_without_its_diff() {
        let input = json!({"file_path": "/big", "content": "x".repeat(LARGEST_DIFF)});
        assert_eq!(
            changes_asked("Write", &input),
            [FileChange { path: "/big".into(), change: ChangeKind::Modify, diff: None }]
        );
    }

    #[test]
    fn a_todo_list_is_a_plan() {
        let input = json!({"todos": [{"content": "a", "status": "completed", "activeForm": "doing a"}, {"content": "b"}]});
        let steps = todo(&input).unwrap();
        assert_eq!(steps[0], PlanStep { text: "a".into(), status: "completed".into() });
        assert_eq!(steps[1].status, "");
        assert_eq!(todo(&json!({"todos": "x"})), None);
    }
}
