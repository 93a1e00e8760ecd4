//! Which edits may be approved without a person, while someone has said that edits are fine.
//!
//! Only tools that change files and do nothing else, by their exact names. Only files inside the session's folder, by
//! where they really lie. Never a protected place, and never where the agent itself has a reason to ask: an agent asks
//! about an ordinary edit without one, since its mode asks about every edit.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::places::{self, Kind};
use crate::request::Ask;

/// The tools that change files and do nothing else.
pub const TOOLS: [&str; 4] = ["Edit", "MultiEdit", "Write", "NotebookEdit"];

/// Where tools name the files that they change, in the spellings of different agents.
const FILE_KEYS: [&str; 14] = [
    "file_path",
    "filePath",
    "filepath",
    "file_paths",
    "filePaths",
    "notebook_path",
    "path",
    "paths",
    "abs_path",
    "absolute_path",
    "file",
    "files",
    "filename",
    "uri",
];

/// How many files one request may name. An edit names one; a person looks at more than this.
const FILES: usize = 16;

/// How deep in its input a tool may name files.
const DEPTH: usize = 8;

/// Why a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It is something else than an edit.
    #[error("it is not an edit")]
    NoEdit,
    /// The agent says that this path made it ask.
    #[error("the agent asks because of `{0}`")]
    BlockedPath(String),
    /// The agent says why it asks.
    #[error("the agent asks because: {0}")]
    Reason(String),
    /// It names no file, too many, or one that could be read in two ways.
    #[error("it is not clear which file it changes")]
    Unclear,
    /// Where the file lies cannot be told.
    #[error("where `{0}` leads cannot be told")]
    Unresolved(String),
    /// The file lies elsewhere.
    #[error("`{0}` is outside the session's folder")]
    Outside(String),
    /// The file is in a place that nobody approves unseen.
    #[error("`{name}` belongs to {}", kind.describe())]
    Protected {
        /// What it belongs to.
        kind: Kind,
        /// The part of its path that says so.
        name: String,
    },
}

/// The files that an edit names, as it names them. The reason where a person is asked whatever these files are.
pub fn files(ask: &Ask) -> Result<Vec<String>, Why> {
    let Ask::Permission { tool_name, input, changes, reason, blocked_path, .. } = ask else {
        return Err(Why::NoEdit);
    };
    if !TOOLS.contains(&tool_name.as_str()) {
        return Err(Why::NoEdit);
    }
    if let Some(path) = blocked_path {
        return Err(Why::BlockedPath(path.clone()));
    }
    if let Some(reason) = reason {
        return Err(Why::Reason(reason.clone()));
    }
    let mut files = Vec::new();
    named(input, DEPTH, &mut files)?;
    for change in changes {
        files.push(change.path.as_str());
        files.extend(change.from.as_deref());
    }
    files.sort_unstable();
    files.dedup();
    if files.is_empty() || files.len() > FILES || files.iter().any(|file| is_unclear(file)) {
        return Err(Why::Unclear);
    }
    Ok(files.into_iter().map(str::to_owned).collect())
}

/// Finds every file that an input names, at any depth.
fn named<'a>(input: &'a Value, depth: usize, files: &mut Vec<&'a str>) -> Result<(), Why> {
    let Some(deeper) = depth.checked_sub(1) else { return Err(Why::Unclear) };
    match input {
        Value::Object(fields) => {
            for (key, value) in fields {
                let texts = match value {
                    Value::String(text) => vec![text.as_str()],
                    Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
                    _ => vec![],
                };
                if FILE_KEYS.contains(&key.as_str()) {
                    files.extend(texts);
                }
                named(value, deeper, files)?;
            }
        }
        Value::Array(all) => {
            for value in all {
                named(value, deeper, files)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Could the agent read this name in another way than we do? Agents cut off blanks, know `~`, and take addresses.
fn is_unclear(file: &str) -> bool {
    file.is_empty()
        || file.trim() != file
        || file.starts_with('~')
        || file.contains("://")
        || file.contains(char::is_control)
}

/// What is known of an edit's files: where everything really lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The session's folder.
    pub folder: PathBuf,
    /// Every file that would be changed.
    pub files: Vec<PathBuf>,
    /// Folders of Portolan's own.
    pub own: Vec<PathBuf>,
}

/// May it be approved? The reason where a person is asked.
pub fn judge(facts: &Facts) -> Result<(), Why> {
    if facts.files.is_empty() || facts.folder.as_os_str().is_empty() {
        return Err(Why::Unclear);
    }
    facts.files.iter().try_for_each(|file| judge_file(file, facts))
}

fn judge_file(file: &Path, facts: &Facts) -> Result<(), Why> {
    if !file.starts_with(&facts.folder) || file == facts.folder {
        return Err(Why::Outside(file.display().to_string()));
    }
    if facts.own.iter().any(|own| file.starts_with(own)) {
        return Err(Why::Protected { kind: Kind::Portolan, name: file.display().to_string() });
    }
    match places::protected(file) {
        Some((kind, name)) => Err(Why::Protected { kind, name }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{ChangeKind, FileChange};

    fn asks(tool_name: &str, input: Value) -> Ask {
        Ask::Permission {
            tool_name: tool_name.into(),
            input,
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        }
    }

    fn changes(ask: Ask, path: &str) -> Ask {
        let Ask::Permission { tool_name, input, .. } = ask else { panic!("{ask:?}") };
        let (path, from) = (path.into(), Some("before".into()));
        let change = FileChange { path, change: ChangeKind::Rename, from, diff: None, left_out: None };
        Ask::Permission {
            tool_name,
            input,
            description: None,
            changes: vec![change],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        }
    }

    // covers: 000-045
    #[test]
    fn only_tools_that_change_files_are_edits_by_their_exact_names() {
        for tool in TOOLS {
            let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
            assert_eq!(files(&asks(tool, json!({ key: "a.rs" }))), Ok(vec!["a.rs".to_owned()]), "{tool}");
            assert_eq!(files(&asks(tool, json!({}))), Err(Why::Unclear), "{tool} without a file");
        }
        for tool in
            ["Bash", "Read", "edit", "mcp__files__Edit", "TodoWrite", "WebFetch", "Edit ", "apply_patch"]
        {
            assert_eq!(files(&asks(tool, json!({ "file_path": "a.rs" }))), Err(Why::NoEdit), "{tool}");
        }
        assert_eq!(files(&Ask::Plan { plan: None, input: json!({}) }), Err(Why::NoEdit));
    }

    #[test]
    fn every_file_that_is_named_anywhere_counts() {
        let found = |input: Value| files(&asks("Edit", input)).unwrap();
        assert_eq!(found(json!({ "file_path": "a", "path": "/etc/passwd" })), ["/etc/passwd", "a"]);
        assert_eq!(found(json!({ "edits": [{ "filePath": "b" }], "paths": ["a", "c"] })), ["a", "b", "c"]);
        let told = changes(asks("Edit", json!({ "file_path": "a" })), "/etc/passwd");
        assert_eq!(
            files(&told).unwrap(),
            ["/etc/passwd", "a", "before"],
            "what the agent says it changes counts too"
        );
        let many: Vec<_> = (0..=FILES).map(|number| number.to_string()).collect();
        let deep = (0..2 * DEPTH).fold(json!({ "path": "a" }), |inner, _| json!({ "in": inner }));
        for unclear in [json!({ "paths": many }), deep] {
            assert_eq!(files(&asks("Edit", unclear)), Err(Why::Unclear));
        }
    }

    #[test]
    fn a_name_that_an_agent_may_read_differently_is_unclear() {
        for name in ["", " /etc/passwd", "a ", "~/x", "~", "file:///etc/passwd", "a\nb", "a\0"] {
            assert_eq!(files(&asks("Write", json!({ "file_path": name }))), Err(Why::Unclear), "{name:?}");
        }
    }

    // Claude named a blocked path, and was told yes all the same.
    #[test]
    fn a_reason_of_the_agents_own_is_for_a_person() {
        let Ask::Permission { tool_name, input, .. } = asks("Write", json!({ "file_path": "a" })) else {
            panic!()
        };
        let asked = |reason: Option<&str>, blocked_path: Option<&str>| {
            files(&Ask::Permission {
                tool_name: tool_name.clone(),
                input: input.clone(),
                description: None,
                changes: vec![],
                reason: reason.map(Into::into),
                blocked_path: blocked_path.map(Into::into),
                suggestions: vec![],
                options: vec![],
            })
        };
        assert!(asked(None, None).is_ok());
        assert_eq!(asked(None, Some("/etc")), Err(Why::BlockedPath("/etc".into())));
        assert_eq!(asked(Some("outside"), None), Err(Why::Reason("outside".into())));
    }

    #[test]
    fn files_inside_the_folder_are_approved_and_nothing_else() {
        let judged = |folder: &str, files: &[&str]| {
            judge(&Facts {
                folder: folder.into(),
                files: files.iter().map(Into::into).collect(),
                own: vec!["/home/ada/shop/daemon".into()],
            })
        };
        let shop = "/home/ada/shop";
        assert_eq!(judged(shop, &["/home/ada/shop/a.rs", "/home/ada/shop/src/b.rs"]), Ok(()));
        for outside in ["/home/ada/x", "/home/ada/shop", "/home/ada/shopping/x", "/home/ada/Shop/x", "/"] {
            let judgement = judged(shop, &["/home/ada/shop/a.rs", outside]);
            assert_eq!(judgement, Err(Why::Outside(outside.into())), "{outside}");
        }
        let git = Why::Protected { kind: Kind::VersionControl, name: ".git".into() };
        assert_eq!(judged(shop, &["/home/ada/shop/.git/hooks/pre-commit"]), Err(git.clone()));
        assert_eq!(judged("/home/ada/shop/.git", &["/home/ada/shop/.git/hooks/pre-commit"]), Err(git));
        let own = "/home/ada/shop/daemon/portolan.db";
        assert_eq!(judged(shop, &[own]), Err(Why::Protected { kind: Kind::Portolan, name: own.into() }));
        assert_eq!((judged(shop, &[]), judged("", &["/a"])), (Err(Why::Unclear), Err(Why::Unclear)));
    }
}
