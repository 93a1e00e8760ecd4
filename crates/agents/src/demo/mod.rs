//! The demo agent: scripted conversations that show everything Portolan can do, with no account and no network.
//!
//! It is a real process, so that killing, hanging and flooding are real too. This module has its capabilities and its
//! start; [`play`] is the process itself.

mod launch;
pub mod play;
#[cfg(test)]
mod tests;
mod translate;
mod wire;

use std::{ffi::OsString, sync::Arc};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionSpec,
    capabilities::{Asks, CommandInfo, ModelInfo, NativeProtocol, PromptQueue, RulesBind},
    policy::Mode,
    ports::{Agent, AgentLink, Boxed, Launch, Probe},
    spec::SpecOption,
};

pub use self::play::run;
use crate::{Supervision, driver, link::PipeLink};

/// Its name.
pub const KIND: &str = "demo";

/// Its permission modes.
const MODES: [&str; 4] = ["default", "acceptEdits", "plan", "bypassPermissions"];

/// How much it asks in each mode.
const ASKS: [(&str, Asks); 4] = [
    ("default", Asks::Everything),
    ("acceptEdits", Asks::Some),
    ("plan", Asks::Everything),
    ("bypassPermissions", Asks::Nothing),
];

/// The meaning of each mode.
const MEANS: [(&str, Mode); 4] = [
    ("default", Mode::Default),
    ("acceptEdits", Mode::AcceptEdits),
    ("plan", Mode::Plan),
    ("bypassPermissions", Mode::BypassPermissions),
];

/// The demo agent.
#[derive(Clone, Debug)]
pub struct Demo {
    command: Vec<OsString>,
    supervision: Arc<Supervision>,
}

impl Demo {
    /// A demo agent with this command line.
    pub fn new(command: Vec<OsString>, supervision: Arc<Supervision>) -> Self {
        Self { command, supervision }
    }
}

impl Agent for Demo {
    fn kind(&self) -> &str {
        KIND
    }

    fn title(&self) -> String {
        "Demo".into()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        self.supervision.shown_environment(&spec.env)
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let message = "built in; no account, no network".to_owned();
        Box::pin(std::future::ready(Probe { available: true, version, message, ..Probe::default() }))
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let program = launch::program(&self.command, &launch, &self.supervision);
        let hello = launch::hello(&launch);
        let job = driver::Job {
            agent: KIND.into(),
            program: program.map_err(|refused| refused.to_string()),
            link: Box::new(PipeLink),
            launch,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            protocol: NativeProtocol::Demo,
            capabilities: capabilities(),
            translator: Box::new(translate::Translate::new(hello, self.supervision.answer)),
            desk: None,
        };
        driver::start(job, Arc::clone(&self.supervision))
    }
}

/// The capabilities of the demo agent: everything but settings files, which it does not have.
fn capabilities() -> Capabilities {
    let options =
        SpecOption::ALL.into_iter().filter(|option| *option != SpecOption::SettingSources).collect();
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
        mcp_changes: true,
        edited_input: true,
        structured_output: true,
        image_input: true,
        file_checkpointing: true,
        cost_tracking: true,
        agent_teams: true,
        session_fork: true,
        session_fork_at: true,
        session_archive: true,
        thinking_budget: true,
        environment: true,
        context_usage: true,
        background_tasks: true,
        passthrough: true,
        prompt_queue: PromptQueue::Held,
        native_protocol: NativeProtocol::Demo,
        options,
        logins: vec![],
        past_archive: false,
        supported_models: Some(models()),
        supported_permission_modes: Some(MODES.map(Into::into).to_vec()),
        mode_asks: ASKS.map(|(mode, asks)| (mode.into(), asks)).into(),
        mode_means: MEANS.map(|(mode, means)| (mode.into(), means)).into(),
        mode_works: IndexMap::new(),
        rules: RulesBind::Enforced,
        supported_commands: Some(commands()),
    }
}

fn models() -> Vec<ModelInfo> {
    let model = |id: &str, display_name: &str, description: &str| ModelInfo {
        id: id.into(),
        display_name: display_name.into(),
        description: Some(description.into()),
    };
    vec![
        model("demo-large", "Demo Large", "slower, with longer texts"),
        model("demo-small", "Demo Small", "faster and cheaper"),
        model("demo-thinker", "Demo Thinker", "shows its thinking before its answer"),
    ]
}

fn commands() -> Vec<CommandInfo> {
    let command = |name: &str, description: &str, hint: Option<&str>| CommandInfo {
        name: name.into(),
        description: description.into(),
        argument_hint: hint.map(Into::into),
    };
    vec![
        command("help", "what you can ask for", None),
        command("compact", "make the conversation smaller", Some("what to keep in mind")),
        command("clear", "forget the conversation", None),
        command("cost", "what this session has used", None),
    ]
}
