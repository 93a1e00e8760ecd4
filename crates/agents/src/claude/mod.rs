//! Claude Code: the real CLI, over its pipes or, for old versions, over a connection that it makes to Portolan.
//!
//! Both transports carry the same messages, so one codec serves both. The installed version decides which is used,
//! unless the configuration names one: pipes, or a connection for versions up to 2.1.120.

mod control;
mod conversation;
mod errors;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod history;
mod launch;
mod modes;
mod names;
pub mod probe;
mod prompts;
mod requests;
mod results;
mod subagents;
mod system;
#[cfg(test)]
mod tests;
mod tools;
mod translate;
mod version;
mod wire;

use std::{ffi::OsString, sync::Arc};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionSpec,
    capabilities::{Asks, NativeProtocol, PromptQueue, RulesBind},
    ports::{Agent, AgentLink, Boxed, Launch, Means, Past, Probe},
    spec::SpecOption,
};
use serde::{Deserialize, Serialize};

use self::probe::{Found, Prober};
pub use self::version::Version;
use crate::{
    Supervision,
    dial_in::DialIn,
    driver,
    link::{DialInLink, Link, PipeLink},
    prices::Price,
    unasking,
};

/// Its name.
pub const KIND: &str = "claude";

/// What the user configures: `agents.claude`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The program and arguments before Portolan's; `claude` if empty.
    pub command: Vec<OsString>,
    /// The transport; chosen by its version if absent.
    pub transport: Option<Way>,
    /// The prices of models, by name or prefix, before the list prices.
    pub prices: IndexMap<String, Price>,
    /// Variables that every session gets. They decide where it is logged in and where its conversations are.
    pub env: IndexMap<String, String>,
}

/// The transport of Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Over its stdin and stdout.
    Stdio,
    /// It dials in over a WebSocket; versions up to 2.1.120.
    Websocket,
}

impl Way {
    fn protocol(self) -> NativeProtocol {
        match self {
            Self::Stdio => NativeProtocol::AgentSdk,
            Self::Websocket => NativeProtocol::NdjsonWs,
        }
    }
}

/// Claude Code.
#[derive(Clone, Debug)]
pub struct Claude {
    config: Config,
    supervision: Arc<Supervision>,
    dial_in: DialIn,
    prober: Arc<Prober>,
}

impl Claude {
    /// The agent from its configuration.
    pub fn new(config: Config, supervision: Arc<Supervision>, dial_in: DialIn) -> Self {
        let prober = Prober::new(&config, Arc::clone(&supervision), dial_in.clone());
        Self { config, supervision, dial_in, prober: Arc::new(prober) }
    }

    /// Looks for the program: its path, version, transport and why, and whether it is logged in.
    pub async fn look(&self) -> Result<Found, String> {
        self.prober.look().await
    }

    /// The translator alone, for callers that start the program by other means: lines of the CLI become events, and
    /// instructions become lines. Pure: it starts nothing, waits for nothing and holds no clock.
    pub fn translator(&self, launch: &Launch, version: Option<Version>) -> impl driver::Translator + use<> {
        let (way, _) = self.prober.way(version);
        let (config, supervision) = (&self.config, &*self.supervision);
        let plan = launch::Plan { launch, version, config, supervision };
        translate::Translate::new(plan.setup(way))
    }

    /// The conversations that the CLI has on disk.
    pub fn history(&self) -> Option<history::Home> {
        let environment = launch::environment(&self.supervision, &self.config.env).ok()?;
        history::home(&environment.variables, &self.supervision.home_key)
    }
}

impl Agent for Claude {
    fn kind(&self) -> &str {
        KIND
    }

    fn title(&self) -> String {
        "Claude Code".into()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(self.prober.known(), self.config.transport.unwrap_or(Way::Stdio))
    }

    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        // Portolan answers in some modes, and the CLI works in another one.
        let works_in = spec.mode.as_deref().map(|mode| self.capabilities().working_mode(mode));
        launch::may_bypass(works_in.as_deref(), &spec.env, &self.supervision)?;
        self.supervision.shown_environment(&spec.env)
    }

    /// `Bash(git:*)` is any command that begins with `git`, and `mcp__files` is every tool of that MCP server.
    fn rule_for(&self, tool: &str) -> String {
        if let Some(beginning) = tool.strip_suffix(":*)") {
            return format!("{beginning} *)");
        }
        match tool.strip_prefix("mcp__") {
            Some(server) if !server.contains("__") => format!("{tool}__*"),
            Some(_) | None => tool.to_owned(),
        }
    }

    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        let Means::Message(body) = means else { return None };
        let names_mode =
            |name: &str| matches!(name, "mode" | "permissionMode" | "permission_mode" | "defaultMode");
        unasking::find(body, |name, text| names_mode(name) && version::asks(text) == Asks::Nothing)
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            match self.look().await {
                Ok(found) => found.probe(),
                Err(message) => self.prober.unusable(message),
            }
        })
    }

    fn past(&self) -> Option<Arc<dyn Past>> {
        Some(Arc::new(self.history()?))
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let (this, session) = (self.clone(), launch.session);
        let prepare = async move { this.job(launch).await };
        driver::start_prepared(KIND, session, Arc::clone(&self.supervision), prepare)
    }
}

impl Claude {
    async fn job(&self, launch: Launch) -> driver::Job {
        let found = self.prober.version().await;
        let version = found.as_ref().ok().copied();
        let (way, expected) = match self.prober.way(version).0 {
            Way::Stdio => (Way::Stdio, None),
            Way::Websocket => match self.dial_in.expect(launch.session) {
                Some(expected) => (Way::Websocket, Some(expected)),
                None => (Way::Stdio, None),
            },
        };
        let (launch, reset) = launch::without_lost_conversation(launch, &self.supervision).await;
        let plan =
            launch::Plan { launch: &launch, version, config: &self.config, supervision: &self.supervision };
        let program = match found {
            Ok(_) => plan.program(expected.as_ref()).await,
            Err(why) => Err(why),
        };
        let setup = translate::Setup { reset, ..plan.setup(way) };
        let link: Box<dyn Link> = match expected {
            Some(expected) => Box::new(DialInLink::new(expected)),
            None => Box::new(PipeLink),
        };
        driver::Job {
            agent: KIND.into(),
            program,
            link,
            version: version.map(|version| version.to_string()),
            protocol: way.protocol(),
            capabilities: capabilities(version, way),
            translator: Box::new(translate::Translate::new(setup)),
            desk: None,
            launch,
        }
    }
}

/// The capabilities of a version; the most if the version is not known.
fn capabilities(version: Option<Version>, way: Way) -> Capabilities {
    let since = |first: Version| version.is_none_or(|version| version >= first);
    Capabilities {
        streaming: true,
        interrupt: true,
        // Nothing waits in Portolan's queue: the agent gets a prompt during a turn at once.
        steering: false,
        session_resume: true,
        reliable_resume: true,
        model_switching: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        slash_commands: true,
        mcp: true,
        mcp_changes: true,
        edited_input: true,
        structured_output: true,
        image_input: true,
        file_checkpointing: true,
        cost_tracking: true,
        // Teams are files of an experiment that newer versions no longer have.
        agent_teams: false,
        session_fork: true,
        session_fork_at: true,
        session_archive: true,
        thinking_budget: true,
        environment: true,
        context_usage: since(Version(2, 1, 120)),
        background_tasks: true,
        passthrough: true,
        prompt_queue: PromptQueue::Agent,
        native_protocol: way.protocol(),
        options: SpecOption::ALL.to_vec(),
        // Login works only in its own terminal.
        logins: vec![],
        past_archive: false,
        supported_models: None,
        supported_permission_modes: Some(version::modes(version)),
        mode_asks: version::mode_asks(),
        mode_means: version::mode_means(),
        mode_works: IndexMap::new(),
        // Its hook asks Portolan before every call.
        rules: RulesBind::Enforced,
        supported_commands: None,
    }
}

impl crate::transports::OwnProtocol for Claude {
    async fn unusable(&self) -> Option<String> {
        self.prober.version().await.err()
    }

    async fn prepare(&self, launch: Launch) -> driver::Job {
        self.job(launch).await
    }

    fn supervision(&self) -> Arc<Supervision> {
        Arc::clone(&self.supervision)
    }
}
