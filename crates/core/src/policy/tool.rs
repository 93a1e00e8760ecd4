//! Tools: which kind of thing a call does, by the name of its tool, and what the call names.
//!
//! Agents name their tools differently. A name that is not listed here is of an unknown kind, and an unknown kind is never
//! allowed by a mode that allows a known one.

use std::{collections::HashMap, fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::Ask;

/// What kind of thing a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads files, searches, takes notes for itself.
    Read,
    /// Changes files.
    Edit,
    /// Runs a command.
    Run,
    /// Reads from the network.
    Network,
    /// Anything else, such as a tool of an MCP server.
    Unknown,
}

/// Every kind.
pub const KINDS: [Kind; 5] = [Kind::Read, Kind::Edit, Kind::Run, Kind::Network, Kind::Unknown];

impl Kind {
    /// The kind as a word; rules name it behind an `@`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Run => "run",
            Self::Network => "network",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of a tool with this name.
    pub fn of(tool: &str) -> Self {
        let name = tool.to_ascii_lowercase();
        BY_NAME.get(name.as_str()).copied().unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Tools that read, by the names of Claude Code, Codex, the ACP's kinds, Gemini, Qwen, OpenCode, Goose and others.
const READS: &str = "read read_file readfile read_many_files notebookread view view_image";

/// Tools that search in files, or for files. Without a folder they search the folder in which the agent works.
const SEARCHES: &str =
    "glob grep grep_search search_file_content search find find_files file_search codebase_search";

/// Tools that list a folder; without a name they list the folder in which the agent works.
const LISTS: &str = "ls list list_dir list_directory list_files";

/// Tools with which the agent takes notes for itself.
const NOTES: &str = "think todowrite todoread todo_write update_plan save_memory";

/// Tools that look for files by a pattern, which may begin in another folder.
const BY_PATTERN: [&str; 4] = ["glob", "find", "find_files", "file_search"];

/// What a search names besides folders: what it looks for, and what it shows.
const SEARCH_KEYS: [&str; 22] = [
    "pattern",
    "patterns",
    "query",
    "queries",
    "regex",
    "regexp",
    "text",
    "keyword",
    "keywords",
    "search_term",
    "glob",
    "include",
    "exclude",
    "include_pattern",
    "exclude_pattern",
    "file_pattern",
    "ignore",
    "type",
    "file_type",
    "output_mode",
    "description",
    "explanation",
];

/// Tools that change files and do nothing else.
const EDITS: &str = "edit multiedit multi_edit write notebookedit apply_patch patch write_file edit_file create_file \
    delete_file move_file replace str_replace search_replace delete move text_editor";

/// Tools that run commands.
const RUNS: &str = "bash shell powershell exec_command exec execute execute_command run_command run_shell_command \
    run_terminal_command run_terminal_cmd local_shell terminal cmd";

/// Tools that read from the network.
const NETWORK: &str = "webfetch websearch web_fetch web_search google_web_search fetch";

/// The kind of every known name, in lower case.
static BY_NAME: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    let lists = [
        (READS, Kind::Read),
        (SEARCHES, Kind::Read),
        (LISTS, Kind::Read),
        (NOTES, Kind::Read),
        (EDITS, Kind::Edit),
        (RUNS, Kind::Run),
        (NETWORK, Kind::Network),
    ];
    for (names, kind) in lists {
        for name in names.split_ascii_whitespace() {
            all.entry(name).or_insert(kind);
        }
    }
    all
});

/// Where a call names its command.
const COMMAND_KEYS: [&str; 4] = ["command", "cmd", "script", "commandLine"];

/// Where a call names the words behind its command, if the command is only the program.
const WORDS_KEYS: [&str; 3] = ["args", "arguments", "argv"];

/// Where calls name files, in the spellings of different agents.
pub(super) const FILE_KEYS: [&str; 16] = [
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
    "dir_path",
    "directory",
    "file",
    "files",
    "filename",
    "uri",
];

/// Where a call names the folder in which its command runs.
const FOLDER_KEYS: [&str; 8] = [
    "cwd",
    "workdir",
    "working_dir",
    "working_directory",
    "workingDirectory",
    "directory",
    "dir_path",
    "dir",
];

/// Where relative paths of a call begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorksIn {
    /// In the session's folder.
    SessionFolder,
    /// In this folder, which itself may begin in the session's folder.
    Folder(String),
    /// Not clear.
    Unclear,
}

impl WorksIn {
    /// This path of a call, as a path from the session's folder; `None` if it is not clear where it begins.
    pub(super) fn path(&self, path: String) -> Option<String> {
        match self {
            _ if path.starts_with('/') || path.starts_with("~/") => Some(path),
            Self::SessionFolder => Some(path),
            Self::Folder(folder) => Some(format!("{folder}/{path}")),
            Self::Unclear => None,
        }
    }
}

/// A tool that reads all files of a folder.
const READS_MANY: &str = "read_many_files";

/// Where a search names the files that it looks at, as a glob.
const GLOB_KEYS: [&str; 3] = ["glob", "include", "include_pattern"];

/// How the names of files of a type end, as searches call the types.
const TYPES: [(&str, &str); 14] = [
    ("rust", "*.rs"),
    ("py", "*.py *.pyi"),
    ("js", "*.js *.jsx *.mjs *.cjs *.vue"),
    ("ts", "*.ts *.tsx *.mts *.cts"),
    ("go", "*.go"),
    ("java", "*.java *.jsp *.jspx *.properties"),
    ("c", "*.c *.h *.C *.H *.cats *.in *.idc"),
    ("ruby", "*.rb *.rbw *.gemspec *.rake"),
    ("css", "*.css *.scss"),
    ("html", "*.htm *.html *.ejs"),
    ("md", "*.md *.mdx *.markdown *.mdown *.mdwn *.mkd *.mkdn"),
    ("json", "*.json"),
    ("toml", "*.toml"),
    ("yaml", "*.yaml *.yml"),
];

/// How many files one call may name. An edit names one; a person looks at more than this.
const FILES: usize = 64;

/// How deep in its input a call may name files.
const DEPTH: usize = 8;

/// A call of a tool, as policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What it is called with.
    pub input: &'a Value,
    /// Further files that the agent says it changes, or that made it ask.
    pub files: Vec<&'a str>,
    /// The folder in which the agent makes the call, if the agent says so outside of the input.
    pub folder: Option<&'a str>,
    /// The agent has a reason of its own to ask about this call.
    pub has_reason: bool,
}

impl<'a> Call<'a> {
    /// A call that only a name and an input are known of.
    pub fn new(tool: &'a str, input: &'a Value) -> Self {
        Self { tool, input, files: vec![], folder: None, has_reason: false }
    }

    /// The call that a request asks about; `None` if it asks something else.
    pub fn of(ask: &'a Ask) -> Option<Self> {
        let Ask::Permission { tool_name, input, changes, reason, blocked_path, folder, .. } = ask else {
            return None;
        };
        let mut files: Vec<&str> = Vec::new();
        for change in changes {
            files.push(change.path.as_str());
            files.extend(change.from.as_deref());
        }
        files.extend(blocked_path.as_deref());
        let has_reason = reason.is_some() || blocked_path.is_some();
        Some(Self { tool: tool_name, input, files, folder: folder.as_deref(), has_reason })
    }

    /// What kind of thing it does.
    pub fn kind(&self) -> Kind {
        Kind::of(self.tool)
    }

    /// The text of its command, as a shell reads it.
    pub fn command(&self) -> Option<String> {
        let value =
            |keys: &[&str]| keys.iter().find_map(|key| self.input.get(key).filter(|value| !value.is_null()));
        let quoted_words = |words: &[Value]| {
            let words: Option<Vec<String>> = words.iter().map(|word| Some(quoted(word.as_str()?))).collect();
            words.map(|words| words.join(" "))
        };
        let (command, takes_words) = match value(&COMMAND_KEYS)? {
            // Behind anything but plain words, nobody knows where further words go: behind a `#` to nowhere.
            Value::String(text) => (text.clone(), text.chars().all(is_plain)),
            // A list of words is run without a shell.
            Value::Array(words) => (quoted_words(words)?, true),
            _ => return None,
        };
        match value(&WORDS_KEYS) {
            None => Some(command),
            Some(Value::Array(words)) if words.is_empty() => Some(command),
            Some(Value::Array(words)) if takes_words => Some(format!("{command} {}", quoted_words(words)?)),
            Some(_) => None,
        }
    }

    /// Does a call that reads and names no file read only in the folder in which the agent works? Not if the input says
    /// something that is not understood, which may be a file.
    pub(super) fn reads_here(&self) -> bool {
        let is_one_of =
            |names: &str| names.split_ascii_whitespace().any(|name| self.tool.eq_ignore_ascii_case(name));
        if is_one_of(NOTES) {
            return true;
        }
        let Some(fields) = self.input.as_object() else { return false };
        let mut said =
            fields.iter().filter(|(_, value)| value.is_string() || value.is_array() || value.is_object());
        let is_known = said.clone().all(|(key, _)| SEARCH_KEYS.contains(&key.as_str()));
        is_known && (is_one_of(LISTS) || is_one_of(SEARCHES) && said.next().is_some())
    }

    /// Where its relative paths begin.
    pub fn works_in(&self) -> WorksIn {
        let mut folder: Option<String> = self.folder.map(str::to_owned);
        if self.kind() == Kind::Run {
            let mut named = None;
            for value in
                FOLDER_KEYS.iter().filter_map(|key| self.input.get(key)).filter(|value| !value.is_null())
            {
                match (value.as_str(), named) {
                    (Some(text), None) => named = Some(text),
                    (Some(text), Some(before)) if text == before => {}
                    _ => return WorksIn::Unclear,
                }
            }
            folder = match (folder, named) {
                (Some(folder), Some(named)) if !named.starts_with('/') => Some(format!("{folder}/{named}")),
                (_, Some(named)) => Some(named.to_owned()),
                (folder, None) => folder,
            };
        }
        match folder {
            None => WorksIn::SessionFolder,
            Some(folder) if is_unclear(&folder) => WorksIn::Unclear,
            Some(folder) => WorksIn::Folder(folder),
        }
    }

    /// The files that it names; `None` if that is not clear.
    pub fn files(&self) -> Option<Vec<String>> {
        let mut files = self.files.clone();
        named(self.input, DEPTH, &mut files)?;
        if self.kind() == Kind::Read
            && let Some(pattern) = self.input.get("pattern").and_then(Value::as_str)
            && BY_PATTERN.iter().any(|tool| self.tool.eq_ignore_ascii_case(tool))
        {
            // The folder that the pattern begins in.
            files.push(match pattern.find(['*', '?', '[', '{']) {
                Some(at) => pattern[..at].rfind('/').map_or("", |slash| &pattern[..=slash]),
                None => pattern,
            });
            files.retain(|file| !file.is_empty());
        }
        files.sort_unstable();
        files.dedup();
        let unclear = files.len() > FILES || files.iter().any(|file| is_unclear(file));
        (!unclear).then(|| files.into_iter().map(str::to_owned).collect())
    }

    /// The names, with `*`, of all files that it may look at at any depth; `None` if it is no search.
    pub(super) fn searched(&self) -> Option<Vec<String>> {
        let tool = self.tool.to_ascii_lowercase();
        if tool != READS_MANY && !SEARCHES.split_ascii_whitespace().any(|known| known == tool) {
            return None;
        }
        let text = |key: &str| self.input.get(key).and_then(Value::as_str);
        let glob = if tool == "glob" { text("pattern") } else { GLOB_KEYS.into_iter().find_map(text) };
        let by_glob = || glob.and_then(names_of_glob);
        let by_type = || {
            let (_, names) = TYPES.iter().find(|(known, _)| Some(*known) == text("type"))?;
            Some(names.split(' ').map(str::to_owned).collect())
        };
        Some(by_glob().or_else(by_type).unwrap_or_else(|| vec!["*".to_owned()]))
    }

    /// The addresses that it names: under a usual key, and wherever else something looks like an address.
    pub fn addresses(&self) -> Vec<&'a str> {
        let fields = self.input.as_object().into_iter().flatten();
        fields
            .flat_map(|(key, value)| {
                let texts = match value {
                    Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
                    value => value.as_str().into_iter().collect(),
                };
                let is_usual = ["url", "urls", "uri"].contains(&key.as_str());
                texts
                    .into_iter()
                    .filter(move |text| is_usual || text.starts_with("http:") || text.starts_with("https:"))
            })
            .collect()
    }
}

/// The last names of the paths that a glob matches; `None` if they cannot be told.
fn names_of_glob(glob: &str) -> Option<Vec<String>> {
    const MOST: usize = 64;
    let mut left = vec![glob.to_owned()];
    let mut names = Vec::new();
    while let Some(glob) = left.pop() {
        if left.len() + names.len() > MOST {
            return None;
        }
        let Some((before, rest)) = glob.split_once('{') else {
            // Several globs, one that leaves files out, or a set of characters.
            if glob.starts_with('!') || glob.contains([' ', ',', '[', '\\', '}']) {
                return None;
            }
            names.push(match glob.rsplit('/').next() {
                None | Some("" | "**") => "*".to_owned(),
                Some(name) => name.to_owned(),
            });
            continue;
        };
        let (inside, behind) = rest.split_once('}')?;
        if inside.contains('{') {
            return None;
        }
        left.extend(inside.split(',').map(|one| format!("{before}{one}{behind}")));
    }
    Some(names)
}

/// Does this character mean nothing but itself to every shell?
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || " /._-+=:,@%".contains(c)
}

/// One word for a shell that means exactly `text`.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Finds every file that an input names, at any depth.
fn named<'a>(input: &'a Value, depth: usize, files: &mut Vec<&'a str>) -> Option<()> {
    let deeper = depth.checked_sub(1)?;
    match input {
        Value::Object(fields) => {
            for (key, value) in fields {
                if FILE_KEYS.contains(&key.as_str()) {
                    match value {
                        Value::String(text) => files.push(text),
                        Value::Array(all) => files.extend(all.iter().filter_map(Value::as_str)),
                        _ => {}
                    }
                }
                named(value, deeper, files)?;
            }
        }
        Value::Array(all) => all.iter().try_for_each(|value| named(value, deeper, files))?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Some(())
}

/// Could the agent read this name in another way than we do? Agents cut off blanks, know `~`, and take addresses.
fn is_unclear(file: &str) -> bool {
    file.is_empty()
        || file.trim() != file
        || file.starts_with('~')
        || file.contains("://")
        || file.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{ChangeKind, FileChange};

    fn files(tool: &str, input: &Value) -> Option<Vec<String>> {
        Call::new(tool, input).files()
    }

    // covers: 000-003
    #[test]
    fn a_kind_is_known_by_the_exact_name_of_a_tool() {
        for (tool, kind) in [
            ("Edit", Kind::Edit),
            ("NotebookEdit", Kind::Edit),
            ("apply_patch", Kind::Edit),
            ("write_file", Kind::Edit),
            ("Bash", Kind::Run),
            ("exec_command", Kind::Run),
            ("run_shell_command", Kind::Run),
            ("execute", Kind::Run),
            ("Read", Kind::Read),
            ("WebFetch", Kind::Network),
            ("mcp__files__Edit", Kind::Unknown),
            ("Edit ", Kind::Unknown),
            ("EditX", Kind::Unknown),
            ("", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(tool), kind, "{tool:?}");
        }
    }

    #[test]
    fn every_file_that_is_named_anywhere_counts() {
        let found = |input: Value| files("Edit", &input).unwrap();
        assert_eq!(found(json!({ "file_path": "a", "path": "/etc/passwd" })), ["/etc/passwd", "a"]);
        assert_eq!(found(json!({ "edits": [{ "filePath": "b" }], "paths": ["a", "c"] })), ["a", "b", "c"]);
        let many: Vec<_> = (0..=FILES).map(|number| number.to_string()).collect();
        let deep = (0..2 * DEPTH).fold(json!({ "path": "a" }), |inner, _| json!({ "in": inner }));
        for unclear in [json!({ "paths": many }), deep] {
            assert_eq!(files("Edit", &unclear), None);
        }
    }

    #[test]
    fn what_the_agent_says_it_changes_and_what_made_it_ask_count_too() {
        let change = FileChange {
            path: "/etc/passwd".into(),
            change: ChangeKind::Rename,
            from: Some("before".into()),
            diff: None,
            left_out: None,
        };
        let ask = Ask::Permission {
            tool_name: "Edit".into(),
            input: json!({ "file_path": "a" }),
            description: None,
            changes: vec![change],
            reason: None,
            blocked_path: Some("/blocked".into()),
            folder: None,
            suggestions: vec![],
            options: vec![],
        };
        let call = Call::of(&ask).unwrap();
        assert_eq!(call.files().unwrap(), ["/blocked", "/etc/passwd", "a", "before"]);
        assert!(call.has_reason);
        assert_eq!(Call::of(&Ask::Plan { plan: None, input: json!({}) }), None);
    }

    #[test]
    fn a_name_that_an_agent_may_read_differently_is_unclear() {
        for name in ["", " /etc/passwd", "a ", "~/x", "~", "file:///etc/passwd", "a\nb", "a\0"] {
            assert_eq!(files("Write", &json!({ "file_path": name })), None, "{name:?}");
        }
    }

    #[test]
    fn a_glob_begins_in_the_folder_before_its_first_wildcard() {
        for (pattern, expected) in [
            ("src/**/*.rs", &["src/"][..]),
            ("src/ab*/c", &["src/"]),
            (".e*", &[]),
            ("/etc/{a,b}", &["/etc/"]),
            ("src/a.rs", &["src/a.rs"]),
        ] {
            assert_eq!(files("Glob", &json!({ "pattern": pattern })).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_search_says_which_names_it_looks_at() {
        let names = |tool: &str, input: Value| {
            Call::new(tool, &input).searched().map(|mut names| {
                names.sort();
                names.join(" ")
            })
        };
        assert_eq!(names("Read", json!({ "file_path": "a" })), None);
        assert_eq!(names("Grep", json!({ "pattern": "x" })).as_deref(), Some("*"));
        for (glob, expected) in [
            ("*.rs", "*.rs"),
            ("src/**/*.{ts,tsx}", "*.ts *.tsx"),
            ("{a,b}/{c,d}", "c c d d"),
            ("**", "*"),
            ("src/", "*"),
            (".env", ".env"),
            ("!*.rs", "*"),
            ("*.rs *.toml", "*"),
            ("*.rs,*.toml", "*"),
            ("[.]env", "*"),
            ("{a,{b,c}}", "*"),
            ("{a", "*"),
        ] {
            assert_eq!(names("Glob", json!({ "pattern": glob })).as_deref(), Some(expected), "{glob}");
            let grep = json!({ "pattern": "x", "glob": glob });
            assert_eq!(names("Grep", grep).as_deref(), Some(expected), "{glob}");
        }
        let of_type = |kind: &str| names("Grep", json!({ "pattern": "x", "type": kind }));
        assert_eq!((of_type("rust").as_deref(), of_type("new").as_deref()), (Some("*.rs"), Some("*")));
    }

    #[test]
    fn a_command_is_a_text_or_a_list_of_words() {
        let command = |input: Value| Call::new("Bash", &input).command();
        assert_eq!(command(json!({"command": "ls -l"})).as_deref(), Some("ls -l"));
        assert_eq!(
            command(json!({"command": ["bash", "-lc", "echo 'a'"]})).as_deref(),
            Some("'bash' '-lc' 'echo '\\''a'\\'''")
        );
        assert_eq!(
            command(json!({"command": "git", "args": ["push", "--force"]})).as_deref(),
            Some("git 'push' '--force'")
        );
        assert_eq!(
            command(json!({"command": ["git"], "arguments": ["push"]})).as_deref(),
            Some("'git' 'push'")
        );
        for none in [json!(null), json!([])] {
            assert_eq!(
                command(json!({"command": "git status", "args": none})).as_deref(),
                Some("git status")
            );
        }
        for unseen in [json!("push"), json!([1]), json!({"a": "push"}), json!(["push", ["--force"]])] {
            assert_eq!(command(json!({"command": "git", "args": unseen})), None, "{unseen}");
        }
        for command_line in ["ls #", "ls\n", "ls; git", "echo 'x", "(git", "git\\"] {
            assert_eq!(command(json!({"command": command_line, "args": ["push"]})), None, "{command_line}");
        }
        assert_eq!(command(json!({"command": [1]})), None);
        assert_eq!(command(json!({})), None);
    }
}
