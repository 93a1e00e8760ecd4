//! Auto-edit: which requests are approved by themselves while it is on. Pure.
//!
//! Tools that change files, by their exact names, and only for files inside the session's folder. A shell command is
//! never approved by it, whatever it is called with.

use std::path::{Component, Path, PathBuf};

use portolan_core::request::Ask;

/// The tools that auto-edit approves.
pub const TOOLS: [&str; 4] = ["Edit", "MultiEdit", "Write", "NotebookEdit"];

/// Where these tools name their file.
const FILE_KEYS: [&str; 3] = ["file_path", "notebook_path", "path"];

/// Is this approved by itself in a session that works in `folder`?
pub fn matches(ask: &Ask, folder: &Path) -> bool {
    let Ask::Permission { tool_name, input, .. } = ask else { return false };
    if !TOOLS.contains(&tool_name.as_str()) {
        return false;
    }
    let mut files = FILE_KEYS.iter().filter_map(|key| input.get(key)?.as_str()).peekable();
    // One that does not say which file it changes is asked about.
    files.peek().is_some() && files.all(|file| is_inside(Path::new(file), folder))
}

/// By its words alone: a link inside the folder may lead out of it, as it may for the agent's own edit mode.
fn is_inside(file: &Path, folder: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    !folder.as_os_str().is_empty() && plain.starts_with(folder) && plain != folder
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asks(tool_name: &str, input: Value) -> bool {
        let ask = Ask::Permission {
            tool_name: tool_name.into(),
            input,
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        };
        matches(&ask, Path::new("/home/ada/shop"))
    }

    // covers: 000-045
    #[test]
    fn edits_inside_the_folder_are_approved_and_nothing_else() {
        for tool in TOOLS {
            let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
            assert!(asks(tool, json!({ key: "/home/ada/shop/a.rs" })), "{tool}");
            assert!(asks(tool, json!({ key: "src/./a.rs" })), "{tool}");
            for outside in ["/home/ada/.bashrc", "../x", "/home/ada/shop/../x", "/home/ada/shopping/x", ""] {
                assert!(!asks(tool, json!({ key: outside })), "{tool} {outside}");
            }
            assert!(!asks(tool, json!({})), "{tool} without a file");
        }
        let inside = json!({ "file_path": "/home/ada/shop/a.rs", "command": "rm" });
        for tool in ["Bash", "Read", "edit", "mcp__files__Edit", "TodoWrite", "WebFetch", "Edit "] {
            assert!(!asks(tool, inside.clone()), "{tool}");
        }
        let two = json!({ "file_path": "/home/ada/shop/a.rs", "path": "/etc/passwd" });
        assert!(!asks("Edit", two), "every file it names lies inside");
        let question = Ask::Plan { plan: None, input: json!({}) };
        assert!(!matches(&question, Path::new("/home/ada/shop")));
        assert!(!matches(
            &Ask::Permission {
                tool_name: "Edit".into(),
                input: json!({ "file_path": "/a" }),
                description: None,
                changes: vec![],
                reason: None,
                blocked_path: None,
                suggestions: vec![],
                options: vec![],
            },
            Path::new("")
        ));
    }
}
