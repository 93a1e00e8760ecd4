//! What agents report about themselves, and how they end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Capabilities, Generation,
    capabilities::{CommandInfo, ModelInfo, NativeProtocol},
};

/// The agent's process runs and can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentStart {
    /// The number of this start.
    pub generation: Generation,
    /// The process id, if the agent has a process of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The agent's version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The process that holds the agent, if the agent outlives the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderInfo>,
    /// The protocol between Portolan and the agent.
    pub protocol: NativeProtocol,
    /// What the agent supports.
    pub capabilities: Box<Capabilities>,
}

/// The process that holds an agent, so that the agent outlives the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct HolderInfo {
    /// The process id.
    pub pid: u32,
    /// The window of tmux in which the holder runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux: Option<String>,
}

/// What the agent reported about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentInfo {
    /// The agent's own session id, with which the agent resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// The agent's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The agent's working folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(as = "Option<String>"))]
    pub cwd: Option<PathBuf>,
    /// The model in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The current permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The mode that the agent reports about itself, if nobody has set it: the session stays in its own mode, and policy
    /// goes by that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_mode: Option<String>,
    /// The agent's tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The agent's MCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<McpServer>>,
    /// The agent's slash commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<CommandInfo>>,
    /// The agent's models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelInfo>>,
    /// The agent's permission modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<String>>,
    /// The account that the agent uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// The agent's kinds of subagents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents: Option<Vec<String>>,
    /// The agent's skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// The agent's plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<Value>>,
    /// The agent's output style.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    /// The agent's output styles to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_styles: Option<Vec<String>>,
    /// Where the agent's API key comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_source: Option<String>,
    /// Fast mode, in the agent's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<String>,
    /// What the agent supports, if the agent reports this only when it runs. It replaces what was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<Capabilities>>,
    /// Other features that the agent names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl AgentInfo {
    /// Takes every field that `newer` has and keeps the rest.
    pub fn merge(&mut self, newer: Self) {
        macro_rules! take {
            ($($field:ident),+) => { $(if newer.$field.is_some() { self.$field = newer.$field; })+ };
        }
        take!(
            agent_session,
            version,
            cwd,
            model,
            mode,
            own_mode,
            tools,
            mcp_servers,
            commands,
            models,
            modes
        );
        take!(
            account,
            subagents,
            skills,
            plugins,
            output_style,
            output_styles,
            api_key_source,
            fast_mode,
            features
        );
    }
}

/// The account that an agent uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(default)]
pub struct Account {
    /// The account's e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The account's organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The account's plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Where the token comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<String>,
}

/// An MCP server, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct McpServer {
    /// The server's name.
    pub name: String,
    /// The server's state in the agent's own word: `connected`, `failed`, `disabled`, …
    pub status: String,
    /// The error, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<String>,
    /// The server's tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where the server is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub scope: Option<String>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Exit {
    /// The reason, as a kind.
    pub reason: ExitReason,
    /// The process's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub code: Option<i32>,
    /// The signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub signal: Option<i32>,
    /// The reason, in words.
    pub message: String,
    /// The last lines that the process wrote to stderr, with secrets masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The process was asked to stop, and stopped.
    Stopped,
    /// The process ended by itself, without an error.
    Finished,
    /// The process failed.
    Failed,
    /// The process could not be started.
    NotStarted,
    /// The process never became ready.
    NotReady,
    /// The connection to the process was down for too long.
    LinkDown,
    /// The process broke the limits of its own protocol.
    Misbehaved,
    /// The daemon ended while the process ran.
    DaemonGone,
    /// The agent had nothing to do, and Portolan ended it; the next prompt starts it again.
    Idle,
}

impl ExitReason {
    /// Whether the session shows this as an error.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Stopped | Self::Finished | Self::DaemonGone | Self::Idle)
    }
}

/// Why an agent begins with an empty conversation although its session has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// The agent was started again and cannot resume a conversation.
    CannotResume,
    /// The agent no longer has the conversation that it was asked to resume.
    Lost,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

impl ResetReason {
    /// The reason, in words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::CannotResume => {
                "the agent was started again and cannot resume a conversation; the agent does not know the earlier messages"
            }
            Self::Lost => {
                "the agent has lost this conversation and begins a new one; the agent does not know the earlier messages"
            }
            Self::Other => {
                "the agent begins a new conversation; the agent does not know the earlier messages"
            }
        }
    }
}

/// How important a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
}

/// The progress of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// The hook began.
    Started,
    /// The hook is running.
    Progress,
    /// The hook ended.
    Completed,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Setting {
    /// The model.
    Model {
        /// The model's id; the agent's default when absent.
        #[serde(default)]
        model: Option<String>,
    },
    /// The permission mode.
    Mode {
        /// The mode's name.
        mode: String,
    },
    /// The thinking budget.
    Thinking {
        /// The budget in tokens; the agent's default when absent.
        #[serde(default)]
        tokens: Option<u32>,
    },
    /// Environment variables. The log keeps only their names.
    Environment {
        /// The names.
        names: Vec<String>,
    },
}
