//! CopilotKit and other AG-UI clients: any of our agents in any app that speaks the protocol, on the same live sessions
//! as every other frontend.
//!
//! docs/copilotkit.md specifies this frontend. It is at `/agui` on the main listener and, if configured, at the root of
//! its own listener. The door authenticates clients before this code runs. A request is a run, or a connect: a stream
//! of events that ends, made by one task from a cursor over the session's log.

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

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use portolan_core::{ports::Boxed, registry::Registry};
use portolan_host::{
    Frontend, Host, MountError, Mounted, Place,
    door::{Admit, Listening},
    settings::{folder, optional_address},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::routes::{own_routes, routes, rules};
use self::{runs::Runs, threads::Threads, tools::FrontendTools};

/// The path on the main listener, with everything below it.
pub const PATH: &str = "/agui";

/// The agent that every page knows: the agent of the active session, otherwise the configured agent.
pub const DEFAULT_AGENT: &str = "default";

/// The name of this frontend in the log.
pub const VIA: &str = "agui";

/// `[agui]` in portolan.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// An extra listener only for CopilotKit and other AG-UI clients, such as `127.0.0.1:3000`. Default: none. The main
    /// listener always serves these clients at `/agui`. An address that other machines can reach needs TLS.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// Origins of web apps that may use AG-UI from the browser, such as `http://localhost:5173`. Compared exactly. Such
    /// an app reaches nothing else of the daemon.
    pub origins: Vec<String>,
    /// If a run asks for the agent `default` and there is no active session, Portolan uses this agent.
    pub agent: String,
    /// The folder that sessions of new threads work in, within `sessions.roots`. Default: the folder that the daemon
    /// was started in.
    pub folder: Option<PathBuf>,
    /// How an app gets requests, unless the app chooses another way: `event` uses the custom event
    /// `tool_approval_request`, `interrupt` uses the protocol's own interrupt.
    pub approvals: project::Approvals,
    /// The session of a thread that Portolan does not know: `new` starts a session, `join_active` joins the active
    /// session if there is one.
    pub unknown_threads: UnknownThreads,
    /// What happens to a turn when the app closes the connection of its AG-UI run. `continue`: the turn goes on.
    /// `stop`: the turn stops. `auto`: the turn goes on if an app has made an AG-UI `connect` call for the thread;
    /// otherwise the turn stops. Reason: apps that make this call also close the connection when the page reloads.
    /// Other apps close the connection to stop the turn.
    pub on_close: OnClose,
}

/// The session of a thread that Portolan does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownThreads {
    /// A new session.
    #[default]
    New,
    /// The active session, if there is one.
    JoinActive,
}

/// The effect when the connection of a run closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnClose {
    /// A stop, but only on a thread that no page has connected to. A page that reloads must not stop its turn; a plain
    /// client never connects.
    #[default]
    Auto,
    /// Always a stop.
    Stop,
    /// Never a stop: the turn continues.
    Continue,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: None,
            origins: Vec::new(),
            agent: "claude".into(),
            folder: None,
            approvals: project::Approvals::Event,
            unknown_threads: UnknownThreads::New,
            on_close: OnClose::Auto,
        }
    }
}

/// AG-UI, on the main listener and on its own listener. On its own listener, the root is the frontend, not the page.
pub fn frontend(settings: Settings) -> Box<dyn Frontend> {
    Box::new(AguiFrontend(settings))
}

#[derive(Debug)]
struct AguiFrontend(Settings);

impl Frontend for AguiFrontend {
    fn name(&self) -> &'static str {
        VIA
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.0.listen.into_iter().collect()
    }

    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        let Self(mut settings) = *self;
        match folder(VIA, settings.folder.take()) {
            Ok(found) => settings.folder = Some(found),
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        }
        let (listen, rules) = (settings.listen, rules(&settings.origins));
        let tools = FrontendTools::new(host.registry.clone(), tools::Limits::default());
        let (stopping, connections) = (host.stopping.clone(), host.connections.clone());
        let agui = Agui::new(host.registry.clone(), settings, tools.clone(), stopping, connections);
        let (on_main, on_own, served) = (agui.clone(), agui.clone(), tools.clone());
        let main = Place::new(move |_| routes(on_main).merge(served.routes()));
        let checking = tools.clone();
        let (tasks, closing) = (host.tasks.clone(), host.closing.clone());
        let start = move |main: &[Listening]| {
            // Agents reach the tools of pages on the main listener, if it needs no certificate.
            let plain = main.iter().filter(|listening| !listening.secure).find_map(Listening::url);
            if let Some(url) = plain {
                tools.listens_at(url);
            }
            agui.start(&tasks, closing);
        };
        Box::pin(std::future::ready(Ok(Mounted {
            main: Some(
                main.admitting(Admit::Below(PATH, rules.clone()))
                    .admitting(Admit::secret(move |parts| checking.check_secret(parts))),
            ),
            own: listen.map(|_| Place::new(move |_| own_routes(on_own)).admitting(Admit::Below("", rules))),
            start: Some(Box::new(start)),
            ..Mounted::default()
        })))
    }
}

/// Everything the frontend needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agui {
    registry: Registry,
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
    /// With these sessions.
    pub fn new(
        registry: Registry,
        settings: Settings,
        tools: FrontendTools,
        stopping: CancellationToken,
        connections: TaskTracker,
    ) -> Self {
        Self {
            registry,
            settings: Arc::new(settings),
            tools,
            threads: Arc::default(),
            runs: Arc::default(),
            stopping,
            connections,
        }
    }

    /// Answers permission requests for tools of pages, and forgets the data of deleted sessions, until `stopping`. Once
    /// for all listeners.
    pub fn start(&self, tasks: &TaskTracker, stopping: CancellationToken) {
        self.tools.start(tasks, stopping.clone());
        tasks.spawn(kept::watch(self.registry.clone(), stopping));
    }
}
