//! CopilotKit and other AG-UI clients: any of our agents in any app that speaks the protocol, on the same live sessions
//! as every other frontend.
//!
//! docs/copilotkit.md specifies what is here. It stands at `/agui` on the main listener and, where configured, at the root
//! of a listener of its own. The door has found out who someone is before anything here runs. A request is a run, or a
//! connect: a stream of events that ends, made by one task from a cursor over the session's log.

pub mod answers;
pub mod context;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod info;
mod kept;
pub mod parse;
pub mod project;
mod prompt;
mod routes;
mod runs;
mod stream;
#[cfg(test)]
mod tests;
mod threads;
pub mod tools;
pub mod wire;

use std::{path::PathBuf, sync::Arc};

use portolan_core::registry::Registry;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::routes::{own_routes, routes, rules};
use self::{runs::Runs, threads::Threads, tools::FrontendTools};
use portolan_host::door::Keeper;

/// Where it stands on the main listener, with everything below it.
pub const PATH: &str = "/agui";

/// The agent that every page knows: the active session's, else the configured one.
pub const DEFAULT_AGENT: &str = "default";

/// What this frontend calls itself in the log.
pub const VIA: &str = "agui";

/// What the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The agent that `default` is while no session is active.
    pub agent: String,
    /// The folder that sessions of new threads work in.
    pub folder: PathBuf,
    /// How a client is asked that does not say how it wants to be.
    pub approvals: project::Approvals,
    /// What a thread that nobody knows begins.
    pub unknown_threads: UnknownThreads,
    /// What the end of a run's connection means.
    pub on_close: OnClose,
}

/// What a thread that nobody knows begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownThreads {
    /// A session of its own.
    #[default]
    New,
    /// It joins the active session, where there is one.
    JoinActive,
}

/// What the end of a run's connection means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnClose {
    /// A reload, on a thread that a page has connected to; a stop from a plain client, which never connects.
    #[default]
    Auto,
    /// Always a stop.
    Stop,
    /// Never: the turn goes on.
    Continue,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            agent: "claude".into(),
            folder: ".".into(),
            approvals: project::Approvals::Event,
            unknown_threads: UnknownThreads::New,
            on_close: OnClose::Auto,
        }
    }
}

/// Everything the frontend needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agui {
    registry: Registry,
    keeper: Arc<Keeper>,
    settings: Arc<Settings>,
    tools: FrontendTools,
    threads: Arc<Threads>,
    runs: Arc<Runs>,
    /// Cancel it once the registry has shut down: streams then end.
    stopping: CancellationToken,
    /// Every stream that is open.
    connections: TaskTracker,
}

impl Agui {
    /// Behind this keeper, with these sessions.
    pub fn new(
        registry: Registry,
        keeper: Arc<Keeper>,
        settings: Settings,
        tools: FrontendTools,
        stopping: CancellationToken,
        connections: TaskTracker,
    ) -> Self {
        Self {
            registry,
            keeper,
            settings: Arc::new(settings),
            tools,
            threads: Arc::default(),
            runs: Arc::default(),
            stopping,
            connections,
        }
    }

    /// The same threads and runs behind another keeper: for a listener of its own.
    #[must_use]
    pub fn behind(&self, keeper: Arc<Keeper>) -> Self {
        Self { keeper, ..self.clone() }
    }

    /// Answers permission prompts for tools of pages, and forgets what belongs to sessions that are gone, until
    /// `stopping`. Once for all listeners.
    pub fn start(&self, tasks: &TaskTracker, stopping: CancellationToken) {
        self.tools.start(tasks, stopping.clone());
        tasks.spawn(kept::watch(self.registry.clone(), stopping));
    }

    /// The keeper it stands behind.
    pub fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }
}
