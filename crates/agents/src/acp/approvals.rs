//! What the agent was allowed to do in this turn, so that nobody is asked twice about one thing: first by the agent's
//! request for permission, and then when the agent lets Portolan do the work. Policy still looks at the work: a rule may
//! deny it. Pure.
//!
//! An approval covers a task of Portolan if both are of the same kind (read, edit, run), and
//! - the task names the same file, until the call that was allowed has ended; or
//! - the task runs the same command in the session's folder, or in a folder that the approval names, once; or
//! - the task names the call that was allowed, and the approval names no file and no command.
//!
//! An approval ends with its turn.

use std::{
    collections::VecDeque,
    path::{Component, Path, PathBuf},
};

use portolan_core::{
    policy::{Call, Kind, commands::is_shell},
    ports as port,
    request::Ask,
};
use serde_json::Value;

/// Approvals that count at once. An agent with more calls in one turn has ended most of them.
const MAX: usize = 256;

/// The approvals of this turn.
#[derive(Debug, Default)]
pub(super) struct Approvals(VecDeque<Approval>);

/// What one answer allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Approval {
    /// The call that was allowed.
    tool: String,
    kind: Kind,
    files: Vec<PathBuf>,
    command: Option<String>,
    /// Every short text of the input, among them the folder of a command.
    texts: Vec<String>,
}

/// What Portolan is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) kind: Kind,
    /// The call that the agent names.
    pub(super) tool: Option<&'a str>,
    pub(super) what: What<'a>,
}

/// The file or the command.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'a> {
    File(&'a Path),
    Command { words: &'a [String], folder: Option<&'a str> },
}

impl Approval {
    /// What an approval of this request would allow. Relative paths begin in the session's folder.
    pub(super) fn of(tool: &str, ask: &Ask, session_folder: &Path) -> Option<Self> {
        let call = Call::of(ask)?;
        let named = call.files();
        let files: Option<Vec<PathBuf>> =
            named.and_then(|files| files.iter().map(|file| plain(&session_folder.join(file))).collect());
        // A call that names a file in an unclear way must not pass for a call that names none.
        let files = if call.kind() == Kind::Run { files.unwrap_or_default() } else { files? };
        let texts = match call.input {
            Value::Object(fields) => fields.values().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => vec![],
        };
        Some(Self { tool: tool.to_owned(), kind: call.kind(), files, command: call.command(), texts })
    }

    fn covers(&self, wanted: Wanted<'_>, session_folder: &Path) -> Option<port::Approval> {
        if self.kind != wanted.kind {
            return None;
        }
        let names_nothing = self.files.is_empty() && self.command.is_none();
        if names_nothing && wanted.tool == Some(self.tool.as_str()) {
            return Some(port::Approval::Bare);
        }
        let is_named = match wanted.what {
            What::File(path) => plain(path).is_some_and(|path| self.files.contains(&path)),
            What::Command { words, folder } => {
                let here = folder.is_none_or(|folder| {
                    Path::new(folder) == session_folder || self.texts.iter().any(|text| text == folder)
                });
                here && self.command.as_deref().is_some_and(|command| is_same(command, words))
            }
        };
        is_named.then_some(port::Approval::Named)
    }
}

impl Approvals {
    /// A person, a rule or a mode has allowed this.
    pub(super) fn add(&mut self, approval: Approval) {
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(approval);
    }

    /// The call that was allowed and covers this, and what it says about this. The approval of a command is used up.
    pub(super) fn take(
        &mut self,
        wanted: Wanted<'_>,
        session_folder: &Path,
    ) -> Option<(String, port::Approval)> {
        let mut all = self.0.iter().enumerate();
        let (at, approval) =
            all.find_map(|(at, approval)| Some((at, approval.covers(wanted, session_folder)?)))?;
        let tool = self.0[at].tool.clone();
        if wanted.kind == Kind::Run {
            self.0.remove(at);
        }
        Some((tool, approval))
    }

    /// The call has ended.
    pub(super) fn ended(&mut self, tool: &str) {
        self.0.retain(|approval| approval.tool != tool);
    }

    /// The turn has ended, or is stopped.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A path in its plain spelling; `None` if links decide where it leads.
fn plain(path: &Path) -> Option<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    Some(path.components().collect())
}

/// Is the command that was allowed the one that is to run? Agents give a shell line to a shell, or as it is.
fn is_same(allowed: &str, words: &[String]) -> bool {
    let allowed = allowed.trim();
    match words {
        [line] => line.trim() == allowed,
        [shell, flag, line] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => {
            line.trim() == allowed || words.join(" ") == allowed
        }
        // Words that a shell would read in another way are not what was shown.
        words => words.iter().all(|word| super::errands::is_bare(word)) && words.join(" ") == allowed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FOLDER: &str = "/repo";

    fn approval(tool_name: &str, input: Value) -> Approval {
        approval_if_clear(tool_name, input).unwrap()
    }

    fn approval_if_clear(tool_name: &str, input: Value) -> Option<Approval> {
        Approval::of("call", &Ask::permission(tool_name, input), Path::new(FOLDER))
    }

    #[test]
    fn a_file_that_is_named_in_an_unclear_way_is_no_approval_of_any_file() {
        for path in ["/repo/src/../a.txt", "~/a.txt"] {
            assert!(approval_if_clear("write_file", json!({ "file_path": path })).is_none(), "{path}");
        }
    }

    fn allows(approval: &Approval, kind: Kind, tool: Option<&str>, what: What<'_>) -> bool {
        let mut approvals = Approvals::default();
        approvals.add(approval.clone());
        approvals.take(Wanted { kind, tool, what }, Path::new(FOLDER)).is_some()
    }

    #[test]
    fn an_approval_covers_its_own_file_and_kind_and_nothing_else() {
        let write = approval("write_file", json!({ "file_path": "a.txt" }));
        let file = |path: &'static str| What::File(Path::new(path));
        assert!(allows(&write, Kind::Edit, None, file("/repo/a.txt")));
        assert!(allows(&write, Kind::Edit, None, file("/repo/./a.txt")));
        for other in ["/repo/b.txt", "/repo/x/../a.txt", "/a.txt"] {
            assert!(!allows(&write, Kind::Edit, Some("call"), file(other)), "{other}");
        }
        assert!(!allows(&write, Kind::Read, None, file("/repo/a.txt")));
        let read = approval("read_file", json!({ "path": "/repo/a.txt" }));
        assert!(!allows(&read, Kind::Edit, None, file("/repo/a.txt")));
    }

    #[test]
    fn an_approval_without_a_file_covers_the_call_that_the_agent_names() {
        let write = approval("edit", json!({}));
        let file = What::File(Path::new("/repo/a.txt"));
        assert!(allows(&write, Kind::Edit, Some("call"), file));
        assert!(!allows(&write, Kind::Edit, Some("other"), file));
        assert!(!allows(&write, Kind::Edit, None, file));
    }

    #[test]
    fn an_approval_covers_the_same_command_in_the_same_folder() {
        let run = approval("execute", json!({ "command": "cargo test --all", "cwd": "/repo/sub" }));
        let may = |words: &[&str], folder: Option<&str>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            allows(&run, Kind::Run, None, What::Command { words: &words, folder })
        };
        assert!(may(&["cargo test --all"], None));
        assert!(may(&["cargo", "test", "--all"], Some("/repo")));
        assert!(may(&["/bin/bash", "-lc", "cargo test --all"], Some("/repo/sub")));
        assert!(!may(&["cargo", "test --all"], None));
        assert!(!may(&["cargo", "test"], None));
        for shell in ["python", "./sh", "/tmp/bash", "/repo/bin/sh"] {
            assert!(!may(&[shell, "-c", "cargo test --all"], None), "{shell}");
        }
        assert!(!may(&["cargo", "test", "--all"], Some("/tmp")));
    }

    #[test]
    fn the_approval_of_a_command_counts_once_and_that_of_a_file_until_its_call_ends() {
        let mut approvals = Approvals::default();
        approvals.add(approval("execute", json!({ "command": "ls" })));
        approvals.add(approval("edit", json!({ "path": "/repo/a" })));
        let words = ["ls".to_owned()];
        let run = Wanted { kind: Kind::Run, tool: None, what: What::Command { words: &words, folder: None } };
        let edit = Wanted { kind: Kind::Edit, tool: None, what: What::File(Path::new("/repo/a")) };
        let mut take = |wanted| approvals.take(wanted, Path::new(FOLDER)).is_some();
        assert_eq!([take(run), take(run), take(edit), take(edit)], [true, false, true, true]);
        approvals.ended("call");
        assert_eq!(approvals.take(edit, Path::new(FOLDER)), None);
    }

    #[test]
    fn a_flood_of_approvals_keeps_the_newest() {
        let mut approvals = Approvals::default();
        for number in 0..=MAX {
            approvals.add(approval("edit", json!({ "path": format!("/repo/{number}") })));
        }
        assert_eq!(approvals.0.len(), MAX);
        let path = PathBuf::from(format!("/repo/{MAX}"));
        let newest = Wanted { kind: Kind::Edit, tool: None, what: What::File(&path) };
        assert!(approvals.take(newest, Path::new(FOLDER)).is_some());
    }
}
