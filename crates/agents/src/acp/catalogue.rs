//! The agents that are known to speak ACP, as data: what to start, and where they differ from what one would expect.
//!
//! An agent that is not here needs nothing but its command in the configuration; it then counts as [`UNKNOWN`].

use portolan_core::capabilities::Asks;

/// What is known of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name here.
    pub kind: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What to start.
    pub command: &'static [&'static str],
    /// How to get it.
    pub install: &'static str,
    /// How to log in.
    pub login: &'static str,
    /// The version that all of this was seen with; none where nobody has run it.
    pub tested: Option<&'static str>,
    /// The mode in which it asks before it acts: set where a session names none, even where the agent begins in it today.
    /// None where its modes are not about asking.
    pub asking_mode: Option<&'static str>,
    /// How much it asks in each of its modes, by the mode's word. One that is missing here is unknown.
    pub mode_asks: &'static [(&'static str, Asks)],
    /// Options of its configuration that make it ask nothing, whatever its mode is: an option and its value.
    pub unasking_options: &'static [(&'static str, &'static str)],
    /// Its own answers to a plan or permission that make it ask nothing from then on, by their ids.
    pub unasking_choices: &'static [&'static str],
    /// Variables that make it ask nothing, whatever its mode is.
    pub unasking_variables: &'static [&'static str],
    /// It ends when its input is closed. One that does not is told so by a signal, without a long wait.
    pub ends_with_input: bool,
    /// It goes on telling the past after it has said that a conversation is loaded.
    pub replays_late: bool,
    /// It can go on in a copy of a conversation.
    pub forks: bool,
    /// It takes folders beside the working folder.
    pub extra_folders: bool,
    /// It lets us read and write files for it where we offer that.
    pub uses_files: bool,
    /// What it tells of the conversations that it has kept, where it tells at all.
    pub lists: Lists,
    /// It names a conversation by the minute in which it began, and overwrites one that is taken up within that minute.
    pub loses_young: bool,
    /// How the names of methods begin that are its own and tell nothing that a session lacks.
    pub own_methods: &'static [&'static str],
    /// How the words begin with which it tells that a turn has failed, where it says so as if the model did.
    pub tells_failure: &'static [&'static str],
    /// Variables it needs, unless the user has set them.
    pub env: &'static [(&'static str, &'static str)],
    /// What else a user should know.
    pub remark: &'static str,
}

impl Known {
    /// Taking up its conversation loses nothing, however often: seen with the real program, which one that nobody has run is
    /// not. Gemini CLI deletes the file of a conversation that is taken up a second time.
    pub fn resumes_reliably(&self) -> bool {
        self.tested.is_some() && !self.loses_young
    }
}

/// Of which folders an agent tells the conversations that it has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Of all of them.
    Everywhere,
    /// Of the one that it is asked about.
    ByFolder,
}

/// What is assumed of an agent that is not in the catalogue: nothing good.
pub const UNKNOWN: Known = Known {
    kind: "",
    title: "",
    command: &[],
    install: "install it, or set its `command` in the configuration",
    login: "log in with the agent's own program",
    tested: None,
    asking_mode: None,
    mode_asks: &[],
    unasking_options: &[],
    unasking_choices: &[],
    unasking_variables: &[],
    ends_with_input: true,
    replays_late: true,
    forks: false,
    extra_folders: false,
    uses_files: true,
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
        // It offers them when a plan is to be approved (0.99.0).
        unasking_choices: &[
            "exit-plan-auto",
            "exit-plan-bypass",
            "exit-plan-clear-auto",
            "exit-plan-clear-bypass",
        ],
        replays_late: false,
        forks: true,
        extra_folders: true,
        uses_files: false,
        remark: "runs the Claude Code that is bundled with it, not the one you have",
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
        // `agent` lets a model decide. The last two are those of the adapter before this one.
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
        remark: "begins in a mode in which a model decides instead of you; Portolan sets `read-only`, which asks",
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
        // It cannot tell a file that is not there from any other trouble with a client, and then creates none: what we
        // answer reaches it as an object without words (0.61.0).
        uses_files: false,
        // It would else start itself again as a child, which outlives a killed parent.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        loses_young: true,
        remark: "needs Node 20 or newer. 0.61.0 overwrites a conversation that is taken up within the minute in which \
                 it began; Portolan waits until that is over",
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
        // In `auto` it decides itself: it wrote a file unasked (0.24.4).
        mode_asks: &[
            ("default", Asks::Everything),
            ("plan", Asks::Everything),
            ("auto-edit", Asks::Some),
            ("auto", Asks::Nothing),
            ("yolo", Asks::Nothing),
        ],
        ends_with_input: false,
        replays_late: false,
        lists: Lists::ByFolder,
        // Modes, models and suggestions once more; and whether a prompt waits here, which none does while a turn runs.
        own_methods: &["qwen/notify/", "craft/drainMidTurnQueue"],
        remark: "begins in a mode in which it decides itself; Portolan sets `default`, which asks. Needs Node 22: \
                 under Node 20 npm installs a much older one",
        ..UNKNOWN
    },
    Known {
        kind: "opencode",
        title: "OpenCode",
        // Its modes are agents of its own configuration, and so is what they ask: none is marked.
        command: &["opencode", "acp"],
        install: "npm install -g opencode-ai",
        login: "run `opencode auth login`",
        tested: Some("1.18.33"),
        // Its modes, and those of Kilo Code, are agents of the user's; what is asked is in its own configuration.
        replays_late: false,
        forks: true,
        ..UNKNOWN
    },
    Known {
        kind: "kilo",
        title: "Kilo Code",
        // As with OpenCode, what its modes ask is a matter of its own configuration.
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
        // Whether `autopilot` asks nobody has seen.
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
        // `@aaif/goose` is another program, which needs this one.
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
        ends_with_input: false,
        replays_late: false,
        uses_files: false,
        tells_failure: &["Ran into this error: ", "Network error: Could not connect "],
        remark: "calls a turn that was stopped one that ended by itself; Portolan knows better",
        ..UNKNOWN
    },
    Known {
        kind: "cline",
        title: "Cline",
        command: &["cline", "--acp"],
        install: "npm install -g cline",
        login: "run `cline auth`; it takes a sign-in by the browser only",
        remark: "version 3.0.65 began no session without a sign-in by the browser, and leaves a daemon of its own \
                 running",
        ..UNKNOWN
    },
    Known {
        kind: "kiro",
        title: "Kiro CLI",
        command: &["kiro-cli", "acp"],
        install: "see kiro.dev",
        login: "run `kiro-cli login`",
        remark: "nobody has run it with Portolan yet",
        ..UNKNOWN
    },
];

/// What is known of an agent with this name.
pub fn known(kind: &str) -> &'static Known {
    KNOWN.iter().find(|known| known.kind == kind).unwrap_or(&UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    // What runs is shown by the suite against real agents, as far as they install without an account.
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
        // What is known to be wrong, or not known at all, is said.
        assert!(known("cline").tested.is_none() && known("cline").remark.contains("leaves a daemon"));
        assert!(known("kiro").tested.is_none() && known("kiro").remark.contains("nobody has run it"));
    }

    #[test]
    fn every_agent_of_the_catalogue_can_be_started_installed_and_logged_in_to() {
        for known in KNOWN {
            assert!(!known.command.is_empty() && !known.title.is_empty(), "{known:?}");
            assert!(!known.install.is_empty() && !known.login.is_empty(), "{known:?}");
            assert!(
                known.tested.is_some() || !known.remark.is_empty(),
                "untested, and it is not said: {known:?}"
            );
        }
        assert_eq!(super::known("goose").command[0], "goose");
        assert_eq!(*super::known("somebody-elses"), UNKNOWN);
    }
}
