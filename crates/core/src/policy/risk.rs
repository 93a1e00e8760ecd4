//! Risk: how dangerous a call is, and why. It decides nothing by itself; people read it.
//!
//! A command is high, an edit medium, a read low, the network and unknown tools medium. Reasons only raise that.

use portolan_shell::{Command, WrapperKind};
use serde::{Deserialize, Serialize};

use super::{commands, cover::Part, facts::Facts, places, reading::Reading, tool::Kind};

/// How dangerous a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(rename = "RiskLevel"), schemars(rename = "RiskLevel"))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It reads.
    Low,
    /// It changes files, or what it does is not known.
    Medium,
    /// It can do anything, or something that cannot be undone.
    High,
}

impl Level {
    /// The level as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How dangerous a call is, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Risk {
    /// How dangerous.
    pub level: Level,
    /// Why, a phrase each.
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// How many reasons one call gives. A person reads the first few.
const REASONS: usize = 12;

/// The risk of a call.
pub fn of(reading: &Reading<'_>, parts: &[Part<'_>], facts: &Facts) -> Risk {
    let (base, first) = match reading.call().kind() {
        Kind::Run => (Level::High, Some("runs a command")),
        Kind::Edit => (Level::Medium, Some("changes files")),
        Kind::Network => (Level::Medium, Some("uses the network")),
        Kind::Unknown => (Level::Medium, Some("does something that Portolan does not know")),
        Kind::Read => (Level::Low, None),
    };
    let mut found = Found { level: base, reasons: first.into_iter().map(str::to_owned).collect() };
    for part in parts {
        match part {
            Part::Command(command) => command_reasons(command, reading, facts, &mut found),
            Part::Unreadable => {
                let why = reading.script().and_then(|read| read.as_ref().err());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                found.add(Level::High, format!("cannot be read{why}"));
            }
            Part::Unseen => found.add(Level::High, "does not say what it runs"),
            Part::File { kind, lies: Some(lies), .. } => {
                for path in lies {
                    if let Some((place, name)) = places::guarded(path, *kind, facts) {
                        found.add(Level::High, format!("`{name}` belongs to {}", place.describe()));
                    }
                    if !facts.is_inside(path) {
                        let level = if *kind == Kind::Read { Level::Medium } else { Level::High };
                        found.add(level, "leaves the session's folder");
                    }
                }
                if *kind == Kind::Edit {
                    found.add(Level::Medium, "changes files");
                }
            }
            Part::File { lies: None, kind, .. } => {
                let level = if *kind == Kind::Read { Level::Medium } else { Level::High };
                found.add(level, "does not say clearly which file it names");
            }
            Part::Address(_) | Part::Arguments(_) => {}
        }
    }
    found.reasons.truncate(REASONS);
    Risk { level: found.level, reasons: found.reasons }
}

struct Found {
    level: Level,
    reasons: Vec<String>,
}

impl Found {
    fn add(&mut self, level: Level, reason: impl Into<String>) {
        let reason = reason.into();
        self.level = self.level.max(level);
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

/// What programs do that a person should know of: the program, a word it must have (a subcommand or a flag; empty is any),
/// and the reason.
const DOES: [(&str, &str, &str); 63] = [
    ("rm", "", DELETES),
    ("rmdir", "", DELETES),
    ("unlink", "", DELETES),
    ("shred", "", DELETES),
    ("truncate", "", DELETES),
    ("find", "-delete", DELETES),
    ("git", "clean", DELETES),
    ("dd", "", DELETES),
    ("mkfs", "", DELETES),
    ("git", "reset", "discards changes"),
    ("git", "checkout", "may discard changes"),
    ("git", "restore", "discards changes"),
    ("git", "stash", "hides changes"),
    ("git", "rebase", "rewrites history"),
    ("git", "filter-branch", "rewrites history"),
    ("git", "push", NETWORK),
    ("git", "pull", NETWORK),
    ("git", "fetch", NETWORK),
    ("git", "clone", NETWORK),
    ("curl", "", NETWORK),
    ("wget", "", NETWORK),
    ("nc", "", NETWORK),
    ("ncat", "", NETWORK),
    ("netcat", "", NETWORK),
    ("ssh", "", NETWORK),
    ("scp", "", NETWORK),
    ("sftp", "", NETWORK),
    ("rsync", "", NETWORK),
    ("ftp", "", NETWORK),
    ("telnet", "", NETWORK),
    ("socat", "", NETWORK),
    ("aria2c", "", NETWORK),
    ("http", "", NETWORK),
    ("npm", "install", INSTALLS),
    ("npm", "i", INSTALLS),
    ("npm", "ci", INSTALLS),
    ("npm", "exec", INSTALLS),
    ("npx", "", INSTALLS),
    ("pnpm", "add", INSTALLS),
    ("pnpm", "install", INSTALLS),
    ("pnpm", "dlx", INSTALLS),
    ("yarn", "add", INSTALLS),
    ("yarn", "dlx", INSTALLS),
    ("bunx", "", INSTALLS),
    ("pip", "install", INSTALLS),
    ("pip3", "install", INSTALLS),
    ("uvx", "", INSTALLS),
    ("pipx", "", INSTALLS),
    ("cargo", "install", INSTALLS),
    ("gem", "install", INSTALLS),
    ("go", "install", INSTALLS),
    ("apt", "install", INSTALLS),
    ("apt-get", "install", INSTALLS),
    ("npm", "publish", PUBLISHES),
    ("pnpm", "publish", PUBLISHES),
    ("yarn", "publish", PUBLISHES),
    ("cargo", "publish", PUBLISHES),
    ("twine", "upload", PUBLISHES),
    ("gem", "push", PUBLISHES),
    ("docker", "push", PUBLISHES),
    ("gh", "release", PUBLISHES),
    ("chmod", "777", "lets everybody write"),
    ("kill", "", "ends processes"),
];

const DELETES: &str = "deletes data";
const NETWORK: &str = "uses the network";
const INSTALLS: &str = "installs or runs code from the network";
const PUBLISHES: &str = "publishes something";

/// Programs that run what they read.
const INTERPRETERS: &str = "sh bash dash zsh ksh fish python python3 node perl ruby php";

/// Programs that download.
const DOWNLOADERS: &str = "curl wget aria2c http fetch";

fn command_reasons(command: &Command, reading: &Reading<'_>, facts: &Facts, found: &mut Found) {
    for wrapper in &command.wrappers {
        match wrapper.kind {
            WrapperKind::Transparent => {}
            WrapperKind::Privilege => {
                found.add(Level::High, format!("gains privileges with `{}`", wrapper.name));
            }
            WrapperKind::Elsewhere => found.add(
                Level::High,
                format!("runs on another machine or in another environment with `{}`", wrapper.name),
            ),
        }
    }
    for hidden in &command.hidden {
        found.add(Level::High, format!("runs something that Portolan cannot see: {}", hidden.describe()));
    }
    if let Some(assignment) = command.assignments.iter().find(|assignment| assignment.changes_what_runs) {
        found.add(Level::High, format!("`{}` changes what runs", assignment.name));
    }
    if let Some((place, name)) = commands::protected(command) {
        found.add(Level::High, format!("`{name}` belongs to {}", place.describe()));
    }
    if leaves(command, facts) {
        found.add(Level::High, "leaves the session's folder");
    }
    let Some(program) = commands::program(command) else { return };
    let arguments = commands::known_arguments(command);
    for (name, word, reason) in DOES {
        let is_named = name == program || (name == "mkfs" && program.starts_with("mkfs"));
        if is_named && (word.is_empty() || arguments.iter().any(|argument| argument == word)) {
            found.add(Level::High, reason);
        }
    }
    let is_forced =
        |argument: &String| argument.starts_with("--force") || argument == "-f" || argument.starts_with('+');
    if program == "git" && arguments.iter().any(|word| word == "push") && arguments.iter().any(is_forced) {
        found.add(Level::High, "forces a push");
    }
    let is_one_of = |names: &str, name: &str| names.split(' ').any(|known| known == name);
    if is_one_of(INTERPRETERS, &program)
        && let Some(Ok(script)) = reading.script()
        && let Some(portolan_shell::Part::Run(before)) = command.fed_by.and_then(|at| script.parts.get(at))
        && commands::program(before).is_some_and(|before| is_one_of(DOWNLOADERS, &before))
    {
        found.add(Level::High, "runs what it downloads");
    }
}

/// Does a word of the command name a path outside of the session's folder, as far as the word alone says that?
pub(super) fn leaves(command: &Command, facts: &Facts) -> bool {
    commands::known_arguments(command).iter().any(|word| {
        let path = word.rsplit_once('=').map_or(word.as_str(), |(_, value)| value);
        if path.starts_with("/dev/") {
            return false;
        }
        let absolute = path.starts_with('/') && !facts.is_inside(std::path::Path::new(path));
        absolute || path.split('/').any(|part| part == "..") || path == "~" || path.starts_with("~/")
    }) || command.words.iter().skip(1).any(|word| {
        let tilde = portolan_shell::Piece::Unknown(portolan_shell::Unknown::Tilde);
        word.pieces.first() == Some(&tilde)
    })
}
