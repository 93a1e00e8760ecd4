//! The agents that are known to speak ACP, as data: what to start, and where they differ from the norm.
//!
//! An agent that is not listed needs only its command in the configuration, and counts as [`UNKNOWN`].

use portolan_core::{capabilities::Asks, policy::Mode};

/// What is known about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name here.
    pub kind: &'static str,
    /// Its display name.
    pub title: &'static str,
    /// What to start.
    pub command: &'static [&'static str],
    /// How to install it.
    pub install: &'static str,
    /// How to log in.
    pub login: &'static str,
    /// The version that these facts were seen with; none if the agent was never run.
    pub tested: Option<&'static str>,
    /// The mode in which the agent asks before it acts: set if a session names no mode, even if the agent begins in
    /// this mode today. None if its modes are not about asking.
    pub asking_mode: Option<&'static str>,
    /// How much the agent asks in each of its modes, by the mode's word. A mode that is not listed is unknown.
    pub mode_asks: &'static [(&'static str, Asks)],
    /// The meaning of its modes. In those that Portolan answers in, the agent works in its asking mode. A mode in which
    /// the agent plans has no meaning here: the agent itself refuses changes, and asks in its own way to leave the mode.
    pub mode_means: &'static [(&'static str, Mode)],
    /// Options of its configuration that make it ask nothing in any mode: an option and its value.
    pub unasking_options: &'static [(&'static str, &'static str)],
    /// Its own answers to a plan or permission that lead to a mode: their ids, and the mode's word.
    pub choice_modes: &'static [(&'static str, &'static str)],
    /// Variables that make it ask nothing in any mode.
    pub unasking_variables: &'static [&'static str],
    /// The agent ends when its input is closed. Any other agent gets a signal soon after.
    pub ends_with_input: bool,
    /// The agent goes on replaying the past after it reported a conversation as loaded.
    pub replays_late: bool,
    /// The agent can fork a conversation.
    pub forks: bool,
    /// The agent takes folders other than the working folder.
    pub extra_folders: bool,
    /// The agent lets Portolan read and write files for it, if Portolan offers that.
    pub uses_files: bool,
    /// The agent names a command only in the title of its call, which is then the whole command.
    pub command_in_title: bool,
    /// Which past conversations the agent lists, if it lists any.
    pub lists: Lists,
    /// The agent names a conversation by the minute in which it began, and overwrites a conversation that is resumed in
    /// that minute.
    pub loses_young: bool,
    /// Prefixes of the agent's own methods that add nothing to a session.
    pub own_methods: &'static [&'static str],
    /// Prefixes of texts by which the agent reports a failed turn as if the model had spoken.
    pub tells_failure: &'static [&'static str],
    /// Variables it needs, unless the user has set them.
    pub env: &'static [(&'static str, &'static str)],
    /// What else a user should know.
    pub remark: &'static str,
}

impl Known {
    /// The mode to which one of its own answers leads.
    pub fn mode_behind(&self, choice: &str) -> Option<&'static str> {
        self.choice_modes.iter().find(|(id, _)| *id == choice).map(|(_, mode)| *mode)
    }

    /// Does it ask nothing in this mode?
    pub fn asks_nothing_in(&self, mode: &str) -> bool {
        self.mode_asks.contains(&(mode, Asks::Nothing))
    }

    /// Resuming its conversation loses nothing, however often: seen with the real program. An agent that was never run
    /// does not count. Gemini CLI deletes the file of a conversation that is resumed a second time.
    pub fn resumes_reliably(&self) -> bool {
        self.tested.is_some() && !self.loses_young
    }
}

/// The folders whose past conversations an agent lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// All folders.
    Everywhere,
    /// The folder in the request.
    ByFolder,
}

/// The assumptions about an agent that is not in the catalogue: the worst case.
pub const UNKNOWN: Known = Known {
    kind: "",
    title: "",
    command: &[],
    install: "install it, or set its `command` in the configuration",
    login: "log in with the agent's own program",
    tested: None,
    asking_mode: None,
    mode_asks: &[],
    mode_means: &[],
    unasking_options: &[],
    choice_modes: &[],
    unasking_variables: &[],
    ends_with_input: true,
    replays_late: true,
    forks: false,
    extra_folders: false,
    uses_files: true,
    command_in_title: false,
    lists: Lists::Everywhere,
    loses_young: false,
    own_methods: &[],
    tells_failure: &[],
    env: &[],
    remark: "",
};

/// Every agent that is known.
pub const KNOWN: &[Known] = &[
    Known {
        kind: "claude-agent-acp",
        title: "Claude Code (ACP adapter)",
        command: &["claude-agent-acp"],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
        login: "run `claude` and log in, or set `ANTHROPIC_API_KEY`",
        tested: Some("0.99.0"),
        asking_mode: Some("default"),
        mode_asks: &[
            ("default", Asks::Everything),
            ("acceptEdits", Asks::Some),
            ("plan", Asks::Everything),
            ("dontAsk", Asks::Everything),
            ("auto", Asks::Nothing),
            ("bypassPermissions", Asks::Nothing),
        ],
        mode_means: &[
            ("default", Mode::Default),
            ("acceptEdits", Mode::AcceptEdits),
            ("dontAsk", Mode::DontAsk),
            ("bypassPermissions", Mode::BypassPermissions),
        ],
        // The agent offers these choices when a plan is to be approved (0.99.0).
        choice_modes: &[
            ("exit-plan-default", "default"),
            ("exit-plan-accept-edits", "acceptEdits"),
            ("exit-plan-auto", "auto"),
            ("exit-plan-bypass", "bypassPermissions"),
            ("exit-plan-clear-accept-edits", "acceptEdits"),
            ("exit-plan-clear-auto", "auto"),
            ("exit-plan-clear-bypass", "bypassPermissions"),
        ],
        replays_late: false,
        forks: true,
        extra_folders: true,
        uses_files: false,
        remark: "runs its bundled Claude Code, not the installed one",
        ..UNKNOWN
    },
    Known {
        kind: "codex-acp",
        title: "Codex (ACP adapter)",
        command: &["codex-acp"],
        install: "npm install -g @agentclientprotocol/codex-acp",
        login: "run `codex login`, or set the key of your model provider",
        tested: Some("2.6.0"),
        asking_mode: Some("read-only"),
        // `agent` lets a model decide. The last two modes are from the previous adapter.
        mode_asks: &[
            ("read-only", Asks::Everything),
            ("workspace-write", Asks::Some),
            ("agent", Asks::Nothing),
            ("agent-full-access", Asks::Nothing),
            ("auto", Asks::Some),
            ("full-access", Asks::Nothing),
        ],
        replays_late: false,
        forks: true,
        extra_folders: true,
        uses_files: false,
        remark: "begins in a mode where a model decides instead of you; Portolan sets `read-only`, which asks",
        ..UNKNOWN
    },
    Known {
        kind: "gemini",
        title: "Gemini CLI",
        command: &["gemini", "--acp"],
        install: "npm install -g @google/gemini-cli",
        login: "run `gemini` once and choose how to log in, or set `GEMINI_API_KEY`",
        tested: Some("0.61.0"),
        asking_mode: Some("default"),
        mode_asks: &[
            ("default", Asks::Everything),
            ("autoEdit", Asks::Some),
            ("plan", Asks::Everything),
            ("yolo", Asks::Nothing),
        ],
        mode_means: &[
            ("default", Mode::Default),
            ("autoEdit", Mode::AcceptEdits),
            ("yolo", Mode::BypassPermissions),
        ],
        // The agent cannot tell a missing file from any other error of a client, and then creates no file: Portolan's
        // error reaches it as an object without a message (0.61.0).
        uses_files: false,
        command_in_title: true,
        // Otherwise the agent starts itself again as a child, which outlives a killed parent.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        loses_young: true,
        remark: "needs Node 20 or newer. Version 0.61.0 overwrites a conversation that is resumed in the same \
                 minute of the clock in which the conversation began; Portolan waits until that minute is over",
        ..UNKNOWN
    },
    Known {
        kind: "qwen",
        title: "Qwen Code",
        command: &["qwen", "--acp"],
        install: "npm install -g @qwen-code/qwen-code",
        login: "run `qwen` once and choose how to log in, or set `OPENAI_API_KEY`",
        tested: Some("0.24.4"),
        asking_mode: Some("default"),
        // In `auto` the agent decides by itself: it wrote a file without asking (0.24.4).
        mode_asks: &[
            ("default", Asks::Everything),
            ("plan", Asks::Everything),
            ("auto-edit", Asks::Some),
            ("auto", Asks::Nothing),
            ("yolo", Asks::Nothing),
        ],
        mode_means: &[
            ("default", Mode::Default),
            ("auto-edit", Mode::AcceptEdits),
            ("yolo", Mode::BypassPermissions),
        ],
        choice_modes: &[("proceed_once_and_switch_to_default", "default")],
        ends_with_input: false,
        replays_late: false,
        lists: Lists::ByFolder,
        // Modes, models and suggestions again; and the question whether a prompt waits, which is never so while a turn
        // runs.
        own_methods: &["qwen/notify/", "craft/drainMidTurnQueue"],
        remark: "begins in a mode where the agent decides; Portolan sets `default`, which asks. Needs Node \
                 22: under Node 20 npm installs a much older version",
        ..UNKNOWN
    },
    Known {
        kind: "opencode",
        title: "OpenCode",
        // Its modes are agents of its own configuration, which decides what they ask: no mode is marked.
        command: &["opencode", "acp"],
        install: "npm install -g opencode-ai",
        login: "run `opencode auth login`",
        tested: Some("1.18.33"),
        // Its modes, and those of Kilo Code, are the user's agents; its own configuration decides what they ask.
        replays_late: false,
        forks: true,
        ..UNKNOWN
    },
    Known {
        kind: "kilo",
        title: "Kilo Code",
        // As with OpenCode, its own configuration decides what its modes ask.
        command: &["kilo", "acp"],
        install: "npm install -g @kilocode/cli",
        login: "run `kilo auth login`",
        tested: Some("7.7.9"),
        replays_late: false,
        forks: true,
        remark: "its first start can take most of a minute",
        ..UNKNOWN
    },
    Known {
        kind: "copilot",
        title: "GitHub Copilot CLI",
        command: &["copilot", "--acp"],
        install: "npm install -g @github/copilot",
        login: "run `copilot login`",
        tested: Some("1.0.102"),
        asking_mode: Some("agent"),
        // It is not known whether `autopilot` asks.
        mode_asks: &[("agent", Asks::Everything), ("plan", Asks::Everything)],
        unasking_options: &[("allow_all", "on")],
        unasking_variables: &["COPILOT_ALLOW_ALL"],
        replays_late: false,
        uses_files: false,
        ..UNKNOWN
    },
    Known {
        kind: "goose",
        title: "Goose",
        command: &["goose", "acp", "--with-builtin", "developer"],
        // `@aaif/goose` is another program, which needs this program.
        install: if cfg!(target_arch = "aarch64") {
            "npm install -g @aaif/goose-binary-linux-arm64"
        } else {
            "npm install -g @aaif/goose-binary-linux-x64"
        },
        login: "run `goose configure`",
        tested: Some("1.34.0"),
        asking_mode: Some("approve"),
        mode_asks: &[
            ("approve", Asks::Everything),
            ("chat", Asks::Everything),
            ("smart_approve", Asks::Some),
            ("auto", Asks::Nothing),
        ],
        mode_means: &[("approve", Mode::Default), ("auto", Mode::BypassPermissions)],
        ends_with_input: false,
        replays_late: false,
        uses_files: false,
        tells_failure: &["Ran into this error: ", "Network error: Could not connect "],
        remark: "reports that a stopped turn ended by itself; Portolan shows the turn as stopped",
        ..UNKNOWN
    },
    Known {
        kind: "cline",
        title: "Cline",
        command: &["cline", "--acp"],
        install: "npm install -g cline",
        login: "run `cline auth`, which needs a sign-in in the browser",
        remark: "version 3.0.65 begins no session without a sign-in in the browser, and leaves its own \
                 daemon running",
        ..UNKNOWN
    },
    Known {
        kind: "kiro",
        title: "Kiro CLI",
        command: &["kiro-cli", "acp"],
        install: "see kiro.dev",
        login: "run `kiro-cli login`",
        remark: "not tested with Portolan yet",
        ..UNKNOWN
    },
];

/// What is known about an agent with this name.
pub fn known(kind: &str) -> &'static Known {
    KNOWN.iter().find(|known| known.kind == kind).unwrap_or(&UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The suite against real agents shows what runs, as far as agents install without an account.
    // covers: 003-012, 003-013, 003-014, 003-015, 003-016
    #[test]
    fn every_agent_is_started_by_its_own_command() {
        let commands: Vec<(&str, &[&str])> = KNOWN.iter().map(|known| (known.kind, known.command)).collect();
        let expected: [(&str, &[&str]); 10] = [
            ("claude-agent-acp", &["claude-agent-acp"]),
            ("codex-acp", &["codex-acp"]),
            ("gemini", &["gemini", "--acp"]),
            ("qwen", &["qwen", "--acp"]),
            ("opencode", &["opencode", "acp"]),
            ("kilo", &["kilo", "acp"]),
            ("copilot", &["copilot", "--acp"]),
            ("goose", &["goose", "acp", "--with-builtin", "developer"]),
            ("cline", &["cline", "--acp"]),
            ("kiro", &["kiro-cli", "acp"]),
        ];
        assert_eq!(commands, expected);
        // Known faults and untested agents are marked.
        assert!(known("cline").tested.is_none() && known("cline").remark.contains("leaves its own"));
        assert!(known("kiro").tested.is_none() && known("kiro").remark.contains("not tested with Portolan"));
    }

    #[test]
    fn every_agent_of_the_catalogue_can_be_started_installed_and_logged_in_to() {
        for known in KNOWN {
            assert!(!known.command.is_empty() && !known.title.is_empty(), "{known:?}");
            assert!(!known.install.is_empty() && !known.login.is_empty(), "{known:?}");
            assert!(
                known.tested.is_some() || !known.remark.is_empty(),
                "untested, and not marked so: {known:?}"
            );
        }
        assert_eq!(super::known("goose").command[0], "goose");
        assert_eq!(*super::known("somebody-elses"), UNKNOWN);
    }
}
