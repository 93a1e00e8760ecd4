//! What an agent can do. Frontends offer only what is true here; core refuses the rest by name.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{Refusal, RefusalCode, ports::LoginWay, spec::SpecOption};

/// How the agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum NativeProtocol {
    /// Newline-delimited JSON over a WebSocket the agent dials.
    NdjsonWs,
    /// The Agent SDK's protocol: newline-delimited JSON over pipes.
    AgentSdk,
    /// HTTP requests and server-sent events.
    RestSse,
    /// JSON-RPC over pipes.
    JsonRpcStdio,
    /// The Agent Client Protocol.
    Acp,
    /// Agent to Agent.
    A2a,
    /// A terminal.
    Pty,
    /// The built-in demo agent's own lines.
    Demo,
}

/// Who holds a prompt that arrives while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PromptQueue {
    /// Portolan, until the turn ends.
    #[default]
    Held,
    /// The agent takes it at once and queues or merges it itself.
    Agent,
}

/// How much an agent asks in one of its modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// A person is asked before anything changes; or nothing changes, because the agent only plans, or denies by itself.
    Everything,
    /// Some things are done unasked: edits in the working folder, or commands inside the agent's own sandbox. A person is
    /// asked about the rest.
    Some,
    /// Commands run and files change, and no person is asked. At most a model decides.
    Nothing,
    /// Nobody has marked this mode, or it depends on the agent's own configuration.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A model the agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ModelInfo {
    /// What `set model` takes.
    pub id: String,
    /// What people read.
    pub display_name: String,
    /// One line about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub description: Option<String>,
}

/// A slash command the agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CommandInfo {
    /// Without the slash.
    pub name: String,
    /// One line about it.
    #[serde(default)]
    pub description: String,
    /// What may follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub argument_hint: Option<String>,
}

/// What an agent can do, known before a session exists and refined once it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct Capabilities {
    /// Text arrives while it is written.
    pub streaming: bool,
    /// A running turn can be stopped.
    pub interrupt: bool,
    /// A prompt that waits in Portolan's queue can be put into the turn that runs. Where `prompt_queue` is `agent`,
    /// nothing waits there: the agent has it already.
    pub steering: bool,
    /// A session can be taken up again after its process has ended.
    pub session_resume: bool,
    /// Taking it up again loses nothing, however often: the process may be ended while it has nothing to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reliable_resume: bool,
    /// The model can change in a running session.
    pub model_switching: bool,
    /// There are permission modes.
    pub permission_modes: bool,
    /// The mode can change in a running session.
    pub permission_mode_switching_mid_session: bool,
    /// Commands such as `/compact` work.
    pub slash_commands: bool,
    /// MCP servers can be used and asked about.
    pub mcp: bool,
    /// MCP servers can be added, restarted and switched in a running session.
    pub mcp_changes: bool,
    /// A permission can be given for an input that was edited.
    pub edited_input: bool,
    /// The result can be made to fit a JSON Schema.
    pub structured_output: bool,
    /// Prompts may hold images.
    pub image_input: bool,
    /// Files can be taken back to an earlier state.
    pub file_checkpointing: bool,
    /// Cost is told, or can be computed.
    pub cost_tracking: bool,
    /// Several agents work together as a team.
    pub agent_teams: bool,
    /// A session can be forked.
    pub session_fork: bool,
    /// A fork may begin at a point in the past.
    pub session_fork_at: bool,
    /// A session can be archived.
    pub session_archive: bool,
    /// The thinking budget can be set.
    pub thinking_budget: bool,
    /// Environment variables can change in a running session.
    pub environment: bool,
    /// The context window's contents can be asked for.
    pub context_usage: bool,
    /// Background tasks can be stopped.
    pub background_tasks: bool,
    /// Messages of the agent's own protocol can be sent to it.
    pub passthrough: bool,
    /// Who holds a prompt that arrives while a turn runs.
    pub prompt_queue: PromptQueue,
    /// How the agent is spoken to.
    pub native_protocol: NativeProtocol,
    /// Which options a new session of this agent takes.
    pub options: Vec<SpecOption>,
    /// The ways in which it can be logged in and out through Portolan; none where it cannot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logins: Vec<LoginWay>,
    /// A conversation that the agent has kept by itself can be put away in its own list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub past_archive: bool,
    /// The models, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_models: Option<Vec<ModelInfo>>,
    /// The permission modes, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_permission_modes: Option<Vec<String>>,
    /// How much the agent asks in each of its modes. A mode that is not named here is `unknown`. The first mode that asks
    /// everything is the one that the agent works in where nobody names another.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mode_asks: IndexMap<String, Asks>,
    /// The slash commands, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_commands: Option<Vec<CommandInfo>>,
}

/// How much of a mode's name a refusal repeats, in characters.
const SHOWN_MODE: usize = 64;

/// A mode's name as a refusal repeats it.
pub(crate) fn shown(mode: &str) -> String {
    mode.chars().filter(|c| !c.is_control()).take(SHOWN_MODE).collect()
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            streaming: false,
            interrupt: false,
            steering: false,
            session_resume: false,
            reliable_resume: false,
            model_switching: false,
            permission_modes: false,
            permission_mode_switching_mid_session: false,
            slash_commands: false,
            mcp: false,
            mcp_changes: false,
            edited_input: false,
            structured_output: false,
            image_input: false,
            file_checkpointing: false,
            cost_tracking: false,
            agent_teams: false,
            session_fork: false,
            session_fork_at: false,
            session_archive: true,
            thinking_budget: false,
            environment: false,
            context_usage: false,
            background_tasks: false,
            passthrough: false,
            prompt_queue: PromptQueue::Held,
            native_protocol: NativeProtocol::Pty,
            options: vec![SpecOption::Cwd, SpecOption::Prompt, SpecOption::Name, SpecOption::Env],
            logins: vec![],
            past_archive: false,
            supported_models: None,
            supported_permission_modes: None,
            mode_asks: IndexMap::new(),
            supported_commands: None,
        }
    }
}

impl Capabilities {
    /// How much the agent asks in this mode.
    pub fn asks(&self, mode: &str) -> Asks {
        self.mode_asks.get(mode).copied().unwrap_or_default()
    }

    /// Is there no such mode, as far as is known? The refusal names those there are.
    pub(crate) fn has_mode(&self, mode: &str) -> Result<(), Refusal> {
        match &self.supported_permission_modes {
            Some(known) if !known.iter().any(|known| known == mode) => {
                let message = format!("unknown mode `{}`; this agent has {}", shown(mode), known.join(", "));
                Err(Refusal::new(RefusalCode::Invalid, message))
            }
            _ => Ok(()),
        }
    }

    /// The mode in which the agent asks everything, where one is marked so.
    pub fn asking_mode(&self) -> Option<&str> {
        self.mode_asks.iter().find(|(_, asks)| **asks == Asks::Everything).map(|(mode, _)| mode.as_str())
    }

    /// `Ok` where `flag` is true, else a refusal that names the agent and what it cannot do.
    pub fn require(flag: bool, agent: &str, what: &str) -> Result<(), Refusal> {
        if flag {
            Ok(())
        } else {
            Err(Refusal::new(RefusalCode::Unsupported, format!("the agent `{agent}` cannot {what}")))
        }
    }
}
