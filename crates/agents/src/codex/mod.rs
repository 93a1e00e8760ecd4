//! Codex: `codex app-server`, JSON-RPC over its pipes.
//!
//! One process per session, with one thread of Codex in it. The user's own configuration and login are used as they
//! are, and are not changed: the settings of a session are sent as messages, never written to `config.toml`.

mod account;
mod asking;
mod calls;
mod errors;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod items;
mod late;
mod launch;
mod modes;
mod notices;
mod past;
pub mod probe;
mod prompts;
mod requests;
mod settings;
#[cfg(test)]
mod tests;
mod threads;
mod translate;
mod turns;
mod wire;

use std::{ffi::OsString, sync::Arc};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionSpec,
    capabilities::{NativeProtocol, PromptQueue, RulesBind},
    ports::{Account, Agent, AgentLink, Boxed, Launch, Means, Past, Probe},
    spec::SpecOption,
};

use self::probe::Prober;
use crate::{Supervision, driver, link::PipeLink, prices::Price, unasking};

/// Its name.
pub const KIND: &str = "codex";

/// What the user configures: `agents.codex`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The program and arguments before Portolan's; `codex` if empty.
    pub command: Vec<OsString>,
    /// The prices of models, by name or prefix. Codex reports no cost, and Portolan has no price list for it.
    pub prices: IndexMap<String, Price>,
    /// Variables that every session gets.
    pub env: IndexMap<String, String>,
}

/// Codex.
#[derive(Clone, Debug)]
pub struct Codex {
    config: Config,
    supervision: Arc<Supervision>,
    prober: Arc<Prober>,
}

impl Codex {
    /// The agent from its configuration.
    pub fn new(config: Config, supervision: Arc<Supervision>) -> Self {
        let prober = Prober::new(&config, Arc::clone(&supervision));
        Self { config, supervision, prober: Arc::new(prober) }
    }

    async fn job(&self, launch: Launch) -> driver::Job {
        let found = self.prober.found().await;
        let plan = launch::Plan { launch: &launch, config: &self.config, supervision: &self.supervision };
        let (program, version) = match found {
            Ok(found) => {
                let unheld = plan.require_unheld().await;
                (unheld.and_then(|()| plan.program(found.command)), Some(found.version))
            }
            Err(why) => (Err(why), None),
        };
        if let Ok(program) = &program {
            self.prober.prepare_home(program).await;
        }
        let translator = Box::new(translate::Translate::new(plan.setup()));
        driver::Job {
            agent: KIND.into(),
            program,
            link: Box::new(PipeLink),
            version,
            protocol: NativeProtocol::JsonRpcStdio,
            capabilities: capabilities(&self.config),
            translator,
            desk: None,
            launch,
        }
    }
}

impl Agent for Codex {
    fn kind(&self) -> &str {
        KIND
    }

    fn title(&self) -> String {
        "Codex".into()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(&self.config)
    }

    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        self.supervision.shown_environment(&spec.env)
    }

    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        let Means::Message(body) = means else { return None };
        unasking::find(body, modes::switches_asking_off)
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            match self.prober.look().await {
                Ok(probe) => probe,
                Err(message) => self.prober.unusable(message),
            }
        })
    }

    fn past(&self) -> Option<Arc<dyn Past>> {
        Some(Arc::new(past::Kept::new(Arc::clone(&self.prober))))
    }

    fn account(&self) -> Option<Arc<dyn Account>> {
        Some(Arc::new(account::Purse::new(Arc::clone(&self.prober))))
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let (this, session) = (self.clone(), launch.session);
        let prepare = async move { this.job(launch).await };
        driver::start_prepared(KIND, session, Arc::clone(&self.supervision), prepare)
    }
}

/// What Codex can do through Portolan.
fn capabilities(config: &Config) -> Capabilities {
    Capabilities {
        streaming: true,
        interrupt: true,
        steering: true,
        session_resume: true,
        reliable_resume: true,
        model_switching: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        slash_commands: true,
        mcp: true,
        mcp_changes: false,
        edited_input: false,
        structured_output: true,
        image_input: true,
        // Its revert cuts the history and leaves the files as they are.
        file_checkpointing: false,
        // Codex reports tokens and no cost.
        cost_tracking: !config.prices.is_empty(),
        agent_teams: false,
        session_fork: true,
        session_fork_at: true,
        session_archive: true,
        // It has efforts, but no token budget.
        thinking_budget: false,
        environment: false,
        context_usage: false,
        background_tasks: true,
        passthrough: true,
        // A prompt that is sent while a turn runs would cut off that turn.
        prompt_queue: PromptQueue::Held,
        native_protocol: NativeProtocol::JsonRpcStdio,
        options: vec![
            SpecOption::Cwd,
            SpecOption::Prompt,
            SpecOption::Name,
            SpecOption::Model,
            SpecOption::Mode,
            SpecOption::Env,
            SpecOption::SystemPrompt,
            SpecOption::McpServers,
            SpecOption::ExtraDirs,
            SpecOption::JsonSchema,
            SpecOption::Resume,
            SpecOption::Fork,
        ],
        logins: account::WAYS.to_vec(),
        past_archive: true,
        supported_models: None,
        supported_permission_modes: Some(modes::names()),
        mode_asks: modes::mode_asks(),
        mode_means: modes::mode_means(),
        mode_works: modes::mode_works(),
        rules: RulesBind::Advisory,
        supported_commands: None,
    }
}

impl crate::transports::OwnProtocol for Codex {
    async fn unusable(&self) -> Option<String> {
        self.prober.found().await.err()
    }

    async fn prepare(&self, launch: Launch) -> driver::Job {
        self.job(launch).await
    }

    fn supervision(&self) -> Arc<Supervision> {
        Arc::clone(&self.supervision)
    }
}
