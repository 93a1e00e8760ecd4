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

/// Where it stands on the main listener, with everything below it.
pub const PATH: &str = "/agui";

/// The agent that every page knows: the active session's, else the configured one.
pub const DEFAULT_AGENT: &str = "default";

/// What this frontend calls itself in the log.
pub const VIA: &str = "agui";

/// `[agui]` in portolan.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// A listener for CopilotKit and other AG-UI clients alone, such as `127.0.0.1:3000`; none when absent. They are at
    /// `/agui` of the main listener in any case. An address that others can reach needs TLS.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// Apps that may use it from the browser, such as `http://localhost:5173`. Compared exactly. They reach nothing else of
    /// the daemon.
    pub origins: Vec<String>,
    /// The agent that `default` is while no session is active.
    pub agent: String,
    /// The folder that sessions of new threads work in, within `sessions.roots`. The one that the daemon was started in
    /// when absent.
    pub folder: Option<PathBuf>,
    /// How apps are asked that do not say how they want to be: `event` by the custom event `tool_approval_request`,
    /// `interrupt` by the protocol's own interrupt.
    pub approvals: project::Approvals,
    /// What a thread that nobody knows begins: `new` a session of its own, `join_active` nothing where a session is active:
    /// it joins that one.
    pub unknown_threads: UnknownThreads,
    /// What the end of a run's connection means: `continue` nothing, `stop` a stop, `auto` a stop only where no page has
    /// connected to the thread, which is how plain clients stop.
    pub on_close: OnClose,
}

/// What a thread that nobody knows begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownThreads {
    /// A session of its own.
    #[default]
    New,
    /// It joins the active session, where there is one.
    JoinActive,
}

/// What the end of a run's connection means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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

/// AG-UI, on the main listener and on one of its own. There the root is the frontend, not the page.
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
            // Agents reach the tools of pages at the main listener, where they can without a certificate.
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

    /// Answers permission prompts for tools of pages, and forgets what belongs to sessions that are gone, until
    /// `stopping`. Once for all listeners.
    pub fn start(&self, tasks: &TaskTracker, stopping: CancellationToken) {
        self.tools.start(tasks, stopping.clone());
        tasks.spawn(kept::watch(self.registry.clone(), stopping));
    }
}
