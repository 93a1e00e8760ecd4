//! Risk: how dangerous a call is, and why. It decides nothing by itself; people read it.
//!
//! A command is high, an edit medium, a read low, the network and unknown tools medium. Reasons only raise that.

use portolan_shell::{Command, WrapperKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    input_reasons(reading.call().input, &mut found);
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
                    for (place, name) in places::guarded(path, *kind, facts) {
                        found.belongs(place, &name);
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
            Part::Arguments { guarded, .. } => {
                for (place, name) in guarded.iter().flat_map(|found| &found.places) {
                    found.belongs(*place, name);
                }
            }
            Part::Address(_) => {}
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

    fn belongs(&mut self, place: places::Kind, name: &str) {
        self.add(Level::High, format!("`{name}` belongs to {}", place.describe()));
    }
}

/// What an input says besides what the call does, in the words of Claude Code, Codex, Gemini CLI and Qwen Code.
fn input_reasons(input: &Value, found: &mut Found) {
    if input["dangerouslyDisableSandbox"] == true {
        found.add(Level::High, "leaves the sandbox");
    }
    let more = ["additional_permissions", "permissions"].iter().any(|key| input[key].is_object());
    if more || input["grant_root"].is_string() {
        found.add(Level::High, "asks for more permissions");
    }
    if input["run_in_background"] == true || input["is_background"] == true {
        found.add(Level::Low, "keeps running in the background");
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

/// Clients of databases.
const DATABASES: &str = "psql mysql mariadb sqlite3 mongo mongosh";

/// The names of the user that `sudo` means if it names none.
const ROOT: [&str; 2] = ["root", "#0"];

/// Programs that download.
const DOWNLOADERS: &str = "curl wget aria2c http fetch";

fn command_reasons(command: &Command, reading: &Reading<'_>, facts: &Facts, found: &mut Found) {
    for wrapper in &command.wrappers {
        match wrapper.kind {
            WrapperKind::Transparent => {}
            WrapperKind::Privilege => {
                found.add(Level::High, format!("gains privileges with `{}`", wrapper.name));
                if wrapper.user.as_ref().is_some_and(|user| !ROOT.contains(&user.as_str())) {
                    found.add(Level::High, "runs as another user");
                }
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
        found.belongs(place, &name);
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
    let is_one_of = |names: &str, name: &str| names.split(' ').any(|known| known == name);
    if is_one_of(DATABASES, &program) && arguments.iter().any(|argument| deletes_data(argument)) {
        found.add(Level::High, DELETES);
    }
    let is_forced =
        |argument: &String| argument.starts_with("--force") || argument == "-f" || argument.starts_with('+');
    if program == "git" && arguments.iter().any(|word| word == "push") && arguments.iter().any(is_forced) {
        found.add(Level::High, "forces a push");
    }
    if is_one_of(INTERPRETERS, &program)
        && let Some(Ok(script)) = reading.script()
        && let Some(portolan_shell::Part::Run(before)) = command.fed_by.and_then(|at| script.parts.get(at))
        && commands::program(before).is_some_and(|before| is_one_of(DOWNLOADERS, &before))
    {
        found.add(Level::High, "runs what it downloads");
    }
}

/// Does a text for a database delete rows, tables or more?
fn deletes_data(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let words: Vec<_> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.iter().any(|word| matches!(*word, "drop" | "truncate"))
        || words.windows(2).any(|two| two == ["delete", "from"])
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::Call;

    fn reasons(tool: &str, input: &Value) -> Vec<String> {
        let reading = Reading::of(Call::new(tool, input));
        let facts = Facts { folder: "/home/ada/shop".into(), ..Facts::default() };
        let risk = of(&reading, &reading.parts(&facts), &facts);
        risk.reasons
    }

    // covers: 002-083, 002-084
    #[test]
    fn what_a_command_destroys_hides_or_rewrites_is_a_reason() {
        for (command, reason) in [
            ("git reset --hard HEAD~1", "discards changes"),
            ("git restore .", "discards changes"),
            ("git checkout -- a.rs", "may discard changes"),
            ("git stash", "hides changes"),
            ("git rebase main", "rewrites history"),
            ("find . -name '*.o' -delete", DELETES),
            ("dd if=/dev/zero of=disk.img", DELETES),
            ("psql -c 'DROP TABLE ships'", DELETES),
            ("sqlite3 a.db \"delete  from ships\"", DELETES),
            ("mongosh --eval 'db.ships.drop()'", DELETES),
        ] {
            let found = reasons("Bash", &json!({ "command": command }));
            assert_eq!(found.first().map(String::as_str), Some("runs a command"), "{command}");
            assert!(found.iter().any(|each| each == reason), "{command}: {found:?}");
        }
        for command in ["git log", "find . -name x", "echo drop table"] {
            let found = reasons("Bash", &json!({ "command": command }));
            assert_eq!(found, ["runs a command"], "{command}");
        }
        let found = reasons("Bash", &json!({ "command": "psql -c 'select dropped from ships'" }));
        assert!(!found.iter().any(|reason| reason == DELETES), "{found:?}");
    }

    #[test]
    fn a_command_that_runs_as_another_user_than_root_says_so() {
        let other = "runs as another user".to_owned();
        for (command, named) in [
            ("sudo ls", false),
            ("sudo -u root ls", false),
            ("sudo env -u HOME ls", false),
            ("sudo -u postgres ls", true),
            ("sudo -nupostgres ls", true),
            // Nobody knows the user; that the program cannot be seen either is the more serious reason.
            ("sudo --user=$NAME ls", false),
            ("doas -u ada ls", true),
            ("pkexec --user ada ls", true),
            ("gosu ada ls", true),
            ("su - postgres -c ls", true),
            ("su root -c ls", false),
        ] {
            let found = reasons("Bash", &json!({ "command": command }));
            assert!(
                found.iter().any(|reason| reason.starts_with("gains privileges")),
                "{command}: {found:?}"
            );
            assert_eq!(found.contains(&other), named, "{command}: {found:?}");
        }
    }

    #[test]
    fn what_the_input_says_besides_the_command_is_a_reason() {
        let network = json!({ "network": { "enabled": true } });
        for (tool, input, reason) in [
            ("Bash", json!({ "command": "make", "dangerouslyDisableSandbox": true }), "leaves the sandbox"),
            (
                "exec_command",
                json!({ "command": "make", "additional_permissions": network }),
                "asks for more permissions",
            ),
            (
                "request_permissions",
                json!({ "permissions": network, "cwd": "/home/ada/shop" }),
                "asks for more permissions",
            ),
            ("apply_patch", json!({ "grant_root": "/home/ada/shop" }), "asks for more permissions"),
            (
                "Bash",
                json!({ "command": "make", "run_in_background": true }),
                "keeps running in the background",
            ),
            (
                "run_shell_command",
                json!({ "command": "make", "is_background": true }),
                "keeps running in the background",
            ),
        ] {
            let found = reasons(tool, &input);
            assert!(found.iter().any(|found| found == reason), "{tool} {input}: {found:?}");
        }
        let unset = json!({
            "command": "make", "dangerouslyDisableSandbox": false, "run_in_background": false,
            "is_background": false, "additional_permissions": null
        });
        assert_eq!(reasons("Bash", &unset), ["runs a command"]);
    }
}
