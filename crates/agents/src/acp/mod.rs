//! Every agent that speaks the Agent Client Protocol, version 1: JSON-RPC over its pipes, with Portolan as the client.
//!
//! One process per session, with one session of the agent in it. Agents are data: an agent needs only a command, and
//! the [`catalogue`] lists where an agent behaves in its own way. An agent reports its capabilities when it begins.

mod approvals;
mod calls;
pub mod catalogue;
mod changes;
mod desk;
mod errands;
mod errors;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod launch;
mod messages;
mod past;
mod probe;
mod requests;
mod sessions;
mod settings;
mod subagents;
#[cfg(test)]
mod tests;
mod tools;
mod translate;
mod turns;
mod updates;
mod wire;

use std::{ffi::OsString, sync::Arc, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionSpec,
    capabilities::{NativeProtocol, PromptQueue, RulesBind},
    ports::{Agent, AgentLink, Boxed, Launch, Means, Past, Probe},
    spec::SpecOption,
};

use self::{catalogue::Known, past::Kept, probe::Prober};
use crate::{Supervision, child::Ladder, driver, link::PipeLink, prices::Price, unasking};

/// An agent that does not end with its input gets only this long.
const DEAF: Duration = Duration::from_millis(500);

/// What the user configures: `agents.<kind>`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The agent's name.
    pub kind: String,
    /// The program and its arguments; the catalogue's if empty.
    pub command: Vec<OsString>,
    /// The login method that is used before a session begins, by the agent's own name for it.
    pub login: Option<String>,
    /// What Portolan does for the agent on request.
    pub serves: Serves,
    /// The prices of models, by name or prefix.
    pub prices: IndexMap<String, Price>,
    /// Variables that every session gets.
    pub env: IndexMap<String, String>,
}

/// What Portolan does for an agent on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serves {
    /// Files are read and written.
    pub files: bool,
    /// Commands are run.
    pub terminals: bool,
}

/// An agent that speaks ACP.
#[derive(Clone, Debug)]
pub struct Acp {
    config: Config,
    known: &'static Known,
    supervision: Arc<Supervision>,
    prober: Arc<Prober>,
    kept: Kept,
}

impl Acp {
    /// The agent from its configuration.
    pub fn new(config: Config, supervision: &Supervision) -> Self {
        let known = catalogue::known(&config.kind);
        let mut ladder = supervision.ladder;
        if !known.ends_with_input {
            ladder = Ladder { close: ladder.close.min(DEAF), ..ladder };
        }
        let mut ready = supervision.ready.max(launch::START);
        if known.loses_young {
            ready += launch::YOUNG;
        }
        let supervision = Arc::new(Supervision { ladder, ready, ..supervision.clone() });
        let prober = Arc::new(Prober::new(&config, known, Arc::clone(&supervision)));
        let title = name(&config, known);
        let kept = Kept::new(&config, title, known, Arc::clone(&supervision), Arc::clone(&prober));
        Self { config, known, supervision, prober, kept }
    }

    fn name(&self) -> String {
        name(&self.config, self.known)
    }

    /// Whether its program is installed.
    pub(crate) fn is_here(&self) -> bool {
        self.prober.program().is_ok()
    }

    pub(crate) fn supervision(&self) -> Arc<Supervision> {
        Arc::clone(&self.supervision)
    }

    /// What to start and how to talk to it; with a notice to show first, if ACP replaces another transport.
    pub(crate) async fn prepare(&self, launch: Launch, notice: Option<String>) -> driver::Job {
        self.kept.remember(&launch.spec.cwd);
        let found = self.prober.found().await;
        let capabilities = capabilities(self.known, &self.config);
        let plan = launch::Plan {
            launch: &launch,
            config: &self.config,
            known: self.known,
            supervision: &self.supervision,
        };
        let (program, version) = match found {
            Ok(found) => {
                // An agent that replaces another transport may take fewer options.
                let taken = SessionSpec::clone(&launch.spec).admit(&capabilities);
                let program = taken.map_err(|refusal| refusal.message);
                (program.and_then(|_| plan.program(found.command)), found.version)
            }
            Err(why) => (Err(why), None),
        };
        let old = version.as_deref().and_then(|version| probe::too_old(&self.name(), version, self.known));
        let notices = notice.into_iter().chain(old).collect();
        let setup = plan.setup(&self.name(), capabilities.clone(), notices);
        let desk = program.as_ref().ok().map(|program| plan.desk(program, &setup));
        driver::Job {
            agent: self.config.kind.clone(),
            program,
            link: Box::new(PipeLink),
            version,
            protocol: NativeProtocol::Acp,
            capabilities,
            translator: Box::new(translate::Translate::new(setup)),
            desk,
            launch,
        }
    }
}

impl Agent for Acp {
    fn kind(&self) -> &str {
        &self.config.kind
    }

    fn title(&self) -> String {
        self.name()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(self.known, &self.config)
    }

    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        self.supervision.shown_environment(&spec.env)
    }

    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        match means {
            Means::Message(body) => {
                let (option, value) = (&body["params"]["configId"], &body["params"]["value"]);
                let switch = |(name, on): &&(&str, &str)| option == *name && value == *on;
                if let Some((name, on)) = self.known.unasking_options.iter().find(switch) {
                    return Some(format!("{name}={on}"));
                }
                unasking::find(body, |name, text| {
                    matches!(name, "modeId" | "value") && self.known.asks_nothing_in(settings::word(text))
                })
            }
            Means::Choice(option) => {
                let mode = self.known.mode_behind(option)?;
                self.known.asks_nothing_in(mode).then(|| option.to_owned())
            }
            Means::Variables(variables) => {
                let set = |name: &&&str| variables.contains_key(**name);
                self.known.unasking_variables.iter().find(set).map(|name| (*name).to_owned())
            }
        }
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            match self.prober.look().await {
                Ok(probe) => probe,
                Err(message) => Probe { message, ..Probe::default() },
            }
        })
    }

    fn past(&self) -> Option<Arc<dyn Past>> {
        self.kept.can_be_asked().then(|| Arc::new(self.kept.clone()) as Arc<dyn Past>)
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let (this, session) = (self.clone(), launch.session);
        let prepare = async move { this.prepare(launch, None).await };
        driver::start_prepared(&self.config.kind, session, Arc::clone(&self.supervision), prepare)
    }
}

/// Its display name.
fn name(config: &Config, known: &Known) -> String {
    if known.title.is_empty() { config.kind.clone() } else { known.title.to_owned() }
}

/// The capabilities of an agent, as far as they are known before it reports them.
fn capabilities(known: &Known, config: &Config) -> Capabilities {
    let mut options = vec![
        SpecOption::Cwd,
        SpecOption::Prompt,
        SpecOption::Name,
        SpecOption::Model,
        SpecOption::Mode,
        SpecOption::Env,
        SpecOption::McpServers,
        SpecOption::Resume,
    ];
    options.extend(known.forks.then_some(SpecOption::Fork));
    options.extend(known.extra_folders.then_some(SpecOption::ExtraDirs));
    Capabilities {
        streaming: true,
        interrupt: true,
        steering: false,
        session_resume: true,
        reliable_resume: known.resumes_reliably(),
        model_switching: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        slash_commands: true,
        mcp: true,
        mcp_changes: false,
        edited_input: false,
        structured_output: false,
        image_input: true,
        file_checkpointing: false,
        // Some agents report the cost; the others need prices.
        cost_tracking: !config.prices.is_empty(),
        agent_teams: false,
        session_fork: known.forks,
        session_fork_at: false,
        session_archive: true,
        thinking_budget: false,
        environment: false,
        context_usage: false,
        background_tasks: false,
        passthrough: true,
        // Agents differ in how they treat a prompt that comes while a turn runs.
        prompt_queue: PromptQueue::Held,
        native_protocol: NativeProtocol::Acp,
        options,
        // Its login methods are set in the configuration: `agents.*.login`.
        logins: vec![],
        past_archive: false,
        supported_models: None,
        supported_permission_modes: None,
        mode_asks: known.mode_asks.iter().map(|(mode, asks)| ((*mode).to_owned(), *asks)).collect(),
        mode_means: known.mode_means.iter().map(|(mode, means)| ((*mode).to_owned(), *means)).collect(),
        mode_works: IndexMap::new(),
        rules: RulesBind::Advisory,
        supported_commands: None,
    }
}
