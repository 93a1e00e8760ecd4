//! What an agent supports. Frontends offer only what is true here; core refuses the rest by name.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{Refusal, RefusalCode, policy, ports::LoginWay, spec::SpecOption};

/// The protocol between Portolan and the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum NativeProtocol {
    /// Newline-delimited JSON over a WebSocket that the agent dials.
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

/// Who keeps a prompt that arrives while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PromptQueue {
    /// Portolan keeps the prompt until the turn ends.
    #[default]
    Held,
    /// The agent takes the prompt at once and queues or merges it.
    Agent,
}

/// How much an agent asks in one of its modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// The agent asks a person before it changes anything. Or nothing changes, because the agent only plans, or denies
    /// by itself.
    Everything,
    /// The agent does some things without asking: edits in the working folder, or commands inside its own sandbox. It
    /// asks a person about the rest.
    Some,
    /// Commands run and files change without asking a person. At most, a model decides.
    Nothing,
    /// Nobody has marked this mode, or it depends on the agent's own configuration.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Whether rules bind an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RulesBind {
    /// Whatever a rule denies does not happen.
    Enforced,
    /// The agent does some things without asking. A rule cannot stop those.
    #[default]
    #[serde(other)]
    Advisory,
}

/// A model that the agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ModelInfo {
    /// The model's id, for `set_model`.
    pub id: String,
    /// The model's name for people.
    pub display_name: String,
    /// One line about the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub description: Option<String>,
}

/// A slash command that the agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CommandInfo {
    /// The command's name, without the slash.
    pub name: String,
    /// One line about the command.
    #[serde(default)]
    pub description: String,
    /// The command's arguments, as a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub argument_hint: Option<String>,
}

/// What an agent supports. Portolan knows this before a session exists, and refines it when the agent runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct Capabilities {
    /// Text arrives while the agent writes it.
    pub streaming: bool,
    /// A running turn can be interrupted.
    pub interrupt: bool,
    /// A prompt that waits in Portolan's queue can be moved into the running turn. Where `prompt_queue` is `agent`, no
    /// prompt waits in Portolan: the agent already has it.
    pub steering: bool,
    /// A session can resume after its agent's process ended.
    pub session_resume: bool,
    /// A resume loses nothing, however often it happens: the process may be ended while it has nothing to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reliable_resume: bool,
    /// The model can change in a running session.
    pub model_switching: bool,
    /// The agent has permission modes.
    pub permission_modes: bool,
    /// The mode can change in a running session.
    pub permission_mode_switching_mid_session: bool,
    /// Commands such as `/compact` work.
    pub slash_commands: bool,
    /// MCP servers can be used, and their state can be read.
    pub mcp: bool,
    /// MCP servers can be added, reconnected and switched on or off in a running session.
    pub mcp_changes: bool,
    /// A permission can be given for an edited input.
    pub edited_input: bool,
    /// The result can be required to match a JSON Schema.
    pub structured_output: bool,
    /// Prompts may hold images.
    pub image_input: bool,
    /// Files can be restored to an earlier state.
    pub file_checkpointing: bool,
    /// The agent reports its cost, or Portolan can compute the cost.
    pub cost_tracking: bool,
    /// Several agents work together as a team.
    pub agent_teams: bool,
    /// A session can be forked.
    pub session_fork: bool,
    /// A fork may begin at an earlier entry.
    pub session_fork_at: bool,
    /// A session can be archived.
    pub session_archive: bool,
    /// The thinking budget can be set.
    pub thinking_budget: bool,
    /// Environment variables can change in a running session.
    pub environment: bool,
    /// The contents of the context window can be read.
    pub context_usage: bool,
    /// Background tasks can be stopped.
    pub background_tasks: bool,
    /// Messages of the agent's own protocol can be sent to it.
    pub passthrough: bool,
    /// Who keeps a prompt that arrives while a turn runs.
    pub prompt_queue: PromptQueue,
    /// The protocol between Portolan and the agent.
    pub native_protocol: NativeProtocol,
    /// The options that a new session of this agent supports.
    pub options: Vec<SpecOption>,
    /// The ways to log this agent in and out through Portolan; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logins: Vec<LoginWay>,
    /// The agent can archive a past conversation in its own list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub past_archive: bool,
    /// The models, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_models: Option<Vec<ModelInfo>>,
    /// The permission modes, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_permission_modes: Option<Vec<String>>,
    /// How much the agent asks in each of its modes. A mode that is missing here is `unknown`. The first mode that asks
    /// everything is the agent's mode if nobody chooses another.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mode_asks: IndexMap<String, Asks>,
    /// The meaning of each of the agent's modes that Portolan knows. Any other mode means `default`: Portolan asks a
    /// person about everything that the agent asks.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mode_means: IndexMap<String, policy::Mode>,
    /// The mode that the agent itself works in, for each of its modes where that is another one and not its asking mode.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mode_works: IndexMap<String, String>,
    /// Whether the agent asks about everything that a rule can forbid.
    #[serde(default)]
    pub rules: RulesBind,
    /// The slash commands, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub supported_commands: Option<Vec<CommandInfo>>,
}

/// How many characters of a mode's name a refusal repeats.
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
            mode_means: IndexMap::new(),
            mode_works: IndexMap::new(),
            rules: RulesBind::default(),
            supported_commands: None,
        }
    }
}

impl Capabilities {
    /// How much the agent asks in this mode.
    pub fn asks(&self, mode: &str) -> Asks {
        self.mode_asks.get(mode).copied().unwrap_or_default()
    }

    /// Refuses an unknown mode, as far as the modes are known. The refusal lists the known modes.
    ///
    /// A mode in which Portolan answers needs only the agent's asking mode. Claude Code's ACP adapter, for example, does
    /// not list `bypassPermissions` for the user root.
    pub(crate) fn has_mode(&self, mode: &str) -> Result<(), Refusal> {
        let Some(known) = &self.supported_permission_modes else { return Ok(()) };
        let lists = |mode: &str| known.iter().any(|known| known == mode);
        let is_answered = |mode: &String| !lists(mode) && lists(&self.working_mode(mode));
        if lists(mode) || is_answered(&mode.to_owned()) {
            return Ok(());
        }
        let answered = self.mode_means.keys().filter(|mode| is_answered(mode));
        let all: Vec<_> = known.iter().chain(answered).map(String::as_str).collect();
        let message = format!("unknown mode `{}`; this agent has {}", shown(mode), all.join(", "));
        Err(Refusal::new(RefusalCode::Invalid, message))
    }

    /// The mode in which the agent asks everything, if one is marked so.
    pub fn asking_mode(&self) -> Option<&str> {
        self.mode_asks.iter().find(|(_, asks)| **asks == Asks::Everything).map(|(mode, _)| mode.as_str())
    }

    /// The meaning of a mode of this agent; no mode means `default`.
    pub fn meaning(&self, mode: Option<&str>) -> policy::Mode {
        mode.and_then(|mode| self.mode_means.get(mode)).copied().unwrap_or_default()
    }

    /// The mode that the agent itself works in while the session is in `mode`. If Portolan answers in the agent's place,
    /// the agent works in its asking mode.
    pub fn working_mode(&self, mode: &str) -> String {
        if let Some(works) = self.mode_works.get(mode) {
            return works.clone();
        }
        let answered = match self.mode_means.get(mode) {
            Some(policy::Mode::AcceptEdits | policy::Mode::DontAsk | policy::Mode::BypassPermissions) => {
                self.asking_mode()
            }
            Some(policy::Mode::Default | policy::Mode::Plan) | None => None,
        };
        answered.unwrap_or(mode).to_owned()
    }

    /// Can a rule stop what the agent does in this mode? Not if the agent then does some things without asking, lets a
    /// model decide, or if nobody knows how much the agent asks there. If an agent names another mode to work in, the
    /// agent asks there about everything, unless it says otherwise.
    pub fn rules_bind(&self, mode: &str) -> bool {
        let works = self.working_mode(mode);
        let asks = self.asks(&works);
        let is_for_asking = asks == Asks::Unknown && works != mode;
        self.rules == RulesBind::Enforced || asks == Asks::Everything || is_for_asking
    }

    /// `Ok` if `flag` is true; otherwise a refusal that names the agent and the missing capability.
    pub fn require(flag: bool, agent: &str, what: &str) -> Result<(), Refusal> {
        if flag {
            Ok(())
        } else {
            Err(Refusal::new(RefusalCode::Unsupported, format!("the agent `{agent}` cannot {what}")))
        }
    }
}
