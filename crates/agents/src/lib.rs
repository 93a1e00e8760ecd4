//! The south side: one folder per coding agent.
//!
//! An agent is a folder with `mod.rs` (its capabilities, whether it is installed), `launch.rs` (what to start),
//! `wire.rs` (its own JSON types, which never leave the folder), `translate.rs` (a pure state machine between those and
//! Portolan's vocabulary) and `transcripts/` (recorded lines, and the expected result), plus one line in [`catalogue`].
//! The [`driver`] runs any of them over a supervised [`child`] process, which it reaches over a [`link`].

pub mod acp;
mod calls;
pub mod child;
pub mod claude;
pub mod codex;
pub mod counters;
pub mod demo;
pub mod dial_in;
pub mod driver;
mod foreign;
#[cfg(any(test, feature = "fuzz"))]
mod hostile;
mod hunks;
pub mod link;
#[cfg(test)]
mod mutations;
mod past;
pub mod prices;
#[cfg(test)]
mod talk;
pub mod transports;
mod unasking;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{ports::Agent, spec::MASK};

use crate::child::Ladder;
pub use crate::child::{
    environment::{Environment, RefusedVariable, environment},
    mask::{Masker, looks_secret},
    processes::{Swept, descends_from_agent, is_marked, sweep, sweep_session, sweep_sparing},
};

/// How long an agent may take until it takes instructions.
pub const READY: Duration = Duration::from_secs(30);

/// How long an agent may take to answer an instruction that it should answer at once.
pub const ANSWER: Duration = Duration::from_secs(30);

/// The waiter of a process notices its end at once; if it ever misses one, a look at this interval finds it.
pub const LIVENESS: Duration = Duration::from_secs(30);

/// How long the connection to an agent that dialled in may stay down. An agent that tries again does so after 1, 3, 7,
/// 16, 32 and 69 seconds; after that it will not come back.
pub const LINK_DOWN: Duration = Duration::from_secs(90);

/// The supervision of every agent's process.
#[derive(Clone, Debug)]
pub struct Supervision {
    /// Names this home among others on the machine: letters, digits and `-`. Every process of its agents carries it.
    pub home_key: String,
    /// The user's environment, as it was when the daemon started.
    pub environment: Vec<(OsString, OsString)>,
    /// How an agent is stopped.
    pub ladder: Ladder,
    /// How long it may take until it takes instructions.
    pub ready: Duration,
    /// How long it may take to answer an instruction that it should answer at once.
    pub answer: Duration,
    /// The longest line it may write, in bytes.
    pub max_line: usize,
    /// How long its connection may stay down, if it dials in.
    pub link_down: Duration,
    /// How often its process is looked for, in case its end was missed.
    pub liveness: Duration,
    /// The versions that programs have reported.
    pub versions: child::Versions,
}

impl Supervision {
    /// The usual limits, for the home with this key.
    pub fn new(home_key: impl Into<String>, environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            home_key: home_key.into(),
            environment,
            ladder: Ladder::default(),
            ready: READY,
            answer: ANSWER,
            max_line: portolan_wire::ndjson::MAX_LINE,
            link_down: LINK_DOWN,
            liveness: LIVENESS,
            versions: child::Versions::default(),
        }
    }

    /// The program of an agent: by its name in the path of the agent's own variables, or else in the user's. `None` if
    /// there is none.
    pub(crate) fn program(&self, name: &OsStr, variables: &IndexMap<String, String>) -> Option<PathBuf> {
        let own = variables.get("PATH").map(OsString::from);
        let users = || self.environment.iter().find(|(name, _)| name == "PATH");
        let path = own.or_else(|| users().map(|(_, value)| value.clone()));
        which::which_in(name, path.as_ref(), Path::new("/")).ok()
    }

    /// The environment that an agent gets with the session's variables, as an owner may see it: values that look like
    /// secrets are masked. Or why it would not start.
    pub fn shown_environment(
        &self,
        asked: &IndexMap<String, String>,
    ) -> Result<IndexMap<String, String>, String> {
        let all = environment(&self.environment, asked).map_err(|refused| refused.to_string())?;
        let shown = all.variables.iter().map(|(name, value)| {
            let name = name.to_string_lossy().into_owned();
            let value = if looks_secret(&name) { MASK.into() } else { value.to_string_lossy().into_owned() };
            (name, value)
        });
        Ok(shown.collect())
    }
}

/// The input of the catalogue.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The supervision of every agent's process.
    pub supervision: Arc<Supervision>,
    /// The command line that plays the demo agent: this program itself, and its hidden subcommand.
    pub demo: Vec<OsString>,
    /// The user's configuration for Claude Code.
    pub claude: claude::Config,
    /// The user's configuration for Codex.
    pub codex: codex::Config,
    /// The user's configuration for agents that speak ACP: those of the catalogue and any others.
    pub acp: Vec<acp::Config>,
    /// Where agents that dial in are expected.
    pub dial_in: dial_in::DialIn,
}

/// The kinds of all built-in agents, for callers that need them before any agent is made. The configuration adds
/// others, which speak ACP.
pub const KINDS: &[&str] = &[
    claude::KIND,
    codex::KIND,
    "claude-agent-acp",
    "codex-acp",
    "gemini",
    "qwen",
    "opencode",
    "kilo",
    "copilot",
    "goose",
    "cline",
    "kiro",
    demo::KIND,
];

/// Every agent, in the order of [`KINDS`], and then those that only the configuration names.
pub fn catalogue(settings: &Settings) -> Vec<Arc<dyn Agent>> {
    let supervision = &settings.supervision;
    let acp = |kind: &str| {
        let configured = settings.acp.iter().find(|config| config.kind == kind).cloned();
        let config =
            configured.unwrap_or_else(|| acp::Config { kind: kind.into(), ..acp::Config::default() });
        acp::Acp::new(config, supervision)
    };
    let claude =
        claude::Claude::new(settings.claude.clone(), Arc::clone(supervision), settings.dial_in.clone());
    let codex = codex::Codex::new(settings.codex.clone(), Arc::clone(supervision));
    let mut all: Vec<Arc<dyn Agent>> = vec![
        Arc::new(transports::WithFallback::new(claude, acp("claude-agent-acp"))),
        Arc::new(transports::WithFallback::new(codex, acp("codex-acp"))),
    ];
    all.extend(acp::catalogue::KNOWN.iter().map(|known| Arc::new(acp(known.kind)) as Arc<dyn Agent>));
    all.push(Arc::new(demo::Demo::new(settings.demo.clone(), Arc::clone(supervision))));
    let others = settings.acp.iter().filter(|config| !KINDS.contains(&config.kind.as_str()));
    all.extend(others.map(|config| Arc::new(acp::Acp::new(config.clone(), supervision)) as Arc<dyn Agent>));
    all
}
