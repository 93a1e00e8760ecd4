//! Tools by their names: their kind, one line for people, the changes they make to files. Pure.

use std::fmt::Write as _;

use portolan_core::event::{ChangeKind, FileChange, PlanStep, ToolKind};
use serde::Deserialize;
use serde_json::Value;

use crate::hunks;

/// The longest line for people, in characters.
const TITLE: usize = 120;

/// The kind of a tool.
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

/// Whether the tool starts a subagent. It was called `Task` up to some version, and `Agent` from then on.
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

/// The changes that a call will make, as far as its input shows them. Their place in the file is not known yet.
pub(super) fn changes_asked(name: &str, input: &Value) -> Vec<FileChange> {
    let path = text(input, "file_path").or_else(|| text(input, "notebook_path"));
    let Some(path) = path else { return vec![] };
    let hunks = match name {
        // The input does not show whether the file is new: an existing file would be replaced.
        "Write" => text(input, "content").map(|content| hunk("", content, WRITTEN)),
        "Edit" => replaced(input),
        "MultiEdit" => input
            .get("edits")
            .and_then(Value::as_array)
            .map(|edits| edits.iter().filter_map(replaced).collect::<String>()),
        "NotebookEdit" => Some(cell(input)),
        _ => return vec![],
    };
    vec![FileChange::new(path, ChangeKind::Modify, &hunks.unwrap_or_default())]
}

/// The heading of a written file, because its lines cannot show it.
const WRITTEN: &str = "the whole file; what is there is replaced";

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// One edit, in one place or in all places.
fn replaced(edit: &Value) -> Option<String> {
    let (old, new) = (text(edit, "old_string")?, text(edit, "new_string")?);
    let everywhere = edit.get("replace_all").is_some_and(|all| *all != Value::Bool(false) && !all.is_null());
    Some(hunk(old, new, if everywhere { "every occurrence is replaced" } else { "" }))
}

/// One cell of a notebook. Its current content is not reported.
fn cell(input: &Value) -> String {
    let source = text(input, "new_source").unwrap_or_default();
    // An id that the model made up stays on its line.
    let cell = match input.get("cell_id").or_else(|| input.get("cell_number")) {
        None | Some(Value::Null) => "the first cell".to_owned(),
        Some(Value::String(cell)) => format!("cell {}", cell.escape_debug()),
        Some(other) => format!("cell {other}"),
    };
    let kind = text(input, "cell_type").map(|kind| format!("{} ", kind.escape_debug())).unwrap_or_default();
    let what = match text(input, "edit_mode").unwrap_or("replace") {
        "replace" => format!("{cell} is replaced"),
        "insert" => format!("a new {kind}cell after {cell}"),
        "delete" => return hunk("", "", &format!("{cell} is deleted")),
        other => format!("{cell}: {}", other.escape_debug()),
    };
    hunk("", source, &what)
}

/// The changes that a call has made, from its structured result.
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
        let hunks = made.content.map(|content| hunk("", &content, "")).unwrap_or_default();
        return vec![FileChange::new(path, ChangeKind::Create, &hunks)];
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
    vec![FileChange::new(path, ChangeKind::Modify, &body)]
}

/// One hunk that replaces `old` by `new`: their common beginning and end are context. `heading` holds what the lines
/// cannot show.
fn hunk(old: &str, new: &str, heading: &str) -> String {
    let (old, new) = hunks::lines(old, new);
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = rest.take_while(|(a, b)| a == b).count();
    let start = |lines: &[&str]| usize::from(!lines.is_empty());
    let heading = if heading.is_empty() { String::new() } else { format!(" {heading}") };
    let mut text = format!("@@ -{},{} +{},{} @@{heading}\n", start(&old), old.len(), start(&new), new.len());
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
    fn the_heading_of_a_hunk_says_what_its_lines_cannot() {
        let hunks = |name: &str, input: &Value| {
            let diff = changes_asked(name, input)[0].diff.clone().unwrap_or_default();
            diff.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let edit = json!({"file_path": "/a", "old_string": "x", "new_string": "y", "replace_all": true});
        assert_eq!(hunks("Edit", &edit), ["@@ -1,1 +1,1 @@ every occurrence is replaced", "-x", "+y"]);
        let edits = json!({"file_path": "/a", "edits": [
            {"old_string": "x", "new_string": "y", "replace_all": false},
            {"old_string": "p", "new_string": "", "replace_all": true}]});
        assert_eq!(
            hunks("MultiEdit", &edits),
            ["@@ -1,1 +1,1 @@", "-x", "+y", "@@ -1,1 +0,0 @@ every occurrence is replaced", "-p"]
        );
        let write = json!({"file_path": "/a", "content": "new"});
        assert_eq!(hunks("Write", &write), [&format!("@@ -0,0 +1,1 @@ {WRITTEN}"), "+new"]);
        let ends = json!({"file_path": "/a", "old_string": "x\r\n", "new_string": "x\n"});
        assert_eq!(
            hunks("Edit", &ends)[1..],
            ["-x", "+x", " "],
            "line ends differ: `lines` takes them off here"
        );
        assert!(changes_asked("Edit", &ends)[0].diff.as_ref().unwrap().contains("-x\r\n+x\n"));
    }

    #[test]
    fn an_edit_of_a_notebook_shows_its_cell_and_its_source() {
        let diff = |mode: Option<&str>, cell: Value| {
            let mut input = json!({"notebook_path": "/n.ipynb", "new_source": "import os\nos.system('x')"});
            input["cell_id"] = cell;
            if let Some(mode) = mode {
                input["edit_mode"] = json!(mode);
                input["cell_type"] = json!("code");
            }
            let change = changes_asked("NotebookEdit", &input).remove(0);
            assert_eq!(change.path, "/n.ipynb");
            change.diff.unwrap().lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let source = ["+import os".to_owned(), "+os.system('x')".to_owned()];
        let replaced = diff(None, json!("ab12"));
        assert_eq!(
            (replaced[0].as_str(), &replaced[1..]),
            ("@@ -0,0 +1,2 @@ cell ab12 is replaced", &source[..])
        );
        let inserted = diff(Some("insert"), json!("ab12"));
        assert_eq!(inserted[0], "@@ -0,0 +1,2 @@ a new code cell after cell ab12");
        assert_eq!(inserted[1..], source);
        assert_eq!(diff(Some("delete"), json!("ab12")), ["@@ -0,0 +0,0 @@ cell ab12 is deleted"]);
        let newer = diff(Some("swap\n+x"), json!("evil\n+line"));
        assert_eq!(newer[0], "@@ -0,0 +1,2 @@ cell evil\\n+line: swap\\n+x");
        assert_eq!(newer[1..], source);
    }

    #[test]
    fn a_huge_file_is_shown_by_its_size() {
        let input = json!({"file_path": "/big", "content": "xyz\n".repeat(100_000)});
        let change = changes_asked("Write", &input).remove(0);
        let left_out = change.left_out.unwrap();
        assert_eq!((change.diff, left_out.added, left_out.removed), (None, 100_000, 0));
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
