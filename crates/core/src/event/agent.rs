//! What agents tell about themselves, and how they end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Capabilities,
    capabilities::{CommandInfo, ModelInfo},
};

/// What the agent told about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentInfo {
    /// The agent's own session id: what resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The folder it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(as = "Option<String>"))]
    pub cwd: Option<PathBuf>,
    /// The model in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The tools it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The MCP servers it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<McpServer>>,
    /// The slash commands it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<CommandInfo>>,
    /// The models it can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelInfo>>,
    /// The permission modes it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<String>>,
    /// Whose account it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// The subagents it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents: Option<Vec<String>>,
    /// Its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Its plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<Value>>,
    /// The style it writes in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    /// The styles it could write in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_styles: Option<Vec<String>>,
    /// Where its key comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_source: Option<String>,
    /// Fast mode, in the agent's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<String>,
    /// What it can do, where it tells only once it runs. Replaces what was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<Capabilities>>,
    /// Features the agent names beyond all this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl AgentInfo {
    /// Takes over what `newer` says; keeps the rest.
    pub fn merge(&mut self, newer: Self) {
        macro_rules! take {
            ($($field:ident),+) => { $(if newer.$field.is_some() { self.$field = newer.$field; })+ };
        }
        take!(agent_session, version, cwd, model, mode, tools, mcp_servers, commands, models, modes, account);
        take!(subagents, skills, plugins, output_style, output_styles, api_key_source, fast_mode, features);
    }
}

/// Whose account an agent uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(default)]
pub struct Account {
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Where the token comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<String>,
}

/// An MCP server as the agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// The agent's own word: `connected`, `failed`, `disabled`, …
    pub status: String,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<String>,
    /// The tools it gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub scope: Option<String>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Exit {
    /// Why.
    pub reason: ExitReason,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub signal: Option<i32>,
    /// In words.
    pub message: String,
    /// The last of what it wrote to stderr, secrets masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It was asked to stop, and did.
    Stopped,
    /// It ended by itself, in order.
    Finished,
    /// It failed.
    Failed,
    /// It could not be started.
    NotStarted,
    /// It never became ready.
    NotReady,
    /// Its connection stayed down for too long.
    LinkDown,
    /// It broke its own protocol's limits.
    Misbehaved,
    /// The daemon ended under it.
    DaemonGone,
    /// It had nothing to do and was ended; the next prompt starts it again.
    Idle,
}

impl ExitReason {
    /// The session shows this as an error.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Stopped | Self::Finished | Self::DaemonGone | Self::Idle)
    }
}

/// Why an agent begins with an empty conversation although its session has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// The agent was started again, and it cannot take up a conversation.
    CannotResume,
    /// The agent was to take up its conversation and no longer has it.
    Lost,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

impl ResetReason {
    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::CannotResume => {
                "the agent was started again and cannot take up a conversation: it knows nothing of what was said before"
            }
            Self::Lost => {
                "the agent has lost this conversation and begins anew: it knows nothing of what was said before"
            }
            Self::Other => "the agent begins anew: it knows nothing of what was said before",
        }
    }
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
}

/// How far a hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// It began.
    Started,
    /// It goes on.
    Progress,
    /// It ended.
    Completed,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Setting {
    /// The model; absent is the agent's default.
    Model {
        /// Which.
        #[serde(default)]
        model: Option<String>,
    },
    /// The permission mode.
    Mode {
        /// Which.
        mode: String,
    },
    /// The thinking budget; absent is the agent's default.
    Thinking {
        /// In tokens.
        #[serde(default)]
        tokens: Option<u32>,
    },
    /// Environment variables. The log keeps their names only.
    Environment {
        /// The names.
        names: Vec<String>,
    },
}
