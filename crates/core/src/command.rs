//! Commands: what someone asks of a session or of the daemon, and why it may be refused.
//!
//! A refusal is a value, not an error: it is answered to the sender and changes nothing.

mod name;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::name::ActionName;
use crate::{
    Actor, CommandId, RequestId, Role, Seq, SessionId, TokenId, WayOut,
    event::Content,
    request::{Answer, Outcome},
};

/// What someone asks of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Action {
    /// Say something to the agent. Starts the agent again where it has ended and can resume.
    Prompt {
        /// What.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::some_prompt"))]
        content: Vec<Content>,
    },
    /// Answer a request.
    Answer {
        /// Which.
        request: RequestId,
        /// The digest that was shown, to be sure that it is still what is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        digest: Option<String>,
        /// What.
        answer: Answer,
    },
    /// Stop the running turn.
    Interrupt,
    /// End the agent.
    Stop,
    /// Start the agent again where it left off.
    Resume,
    /// Give the session another name.
    Rename {
        /// The new one.
        #[serde(rename = "to")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::title"))]
        title: String,
    },
    /// Put the session away, or take it out again.
    Archive {
        /// Away or out.
        archived: bool,
    },
    /// Change the model.
    SetModel {
        /// To which; the agent's default when absent.
        #[serde(default)]
        model: Option<String>,
    },
    /// Change the permission mode.
    SetMode {
        /// To which.
        mode: String,
    },
    /// Change the thinking budget.
    SetThinking {
        /// To how many tokens; the agent's default when absent.
        #[serde(default)]
        tokens: Option<u32>,
    },
    /// Set environment variables for what the agent starts from now on.
    SetEnvironment {
        /// By name.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::some_variables"))]
        variables: IndexMap<String, String>,
    },
    /// Take files back to what they were before a prompt.
    Rewind {
        /// The prompt's entry.
        #[cfg_attr(feature = "schema", schemars(extend("minimum" = 1)))]
        to: Seq,
        /// Only tell what would change.
        #[serde(default)]
        dry_run: bool,
    },
    /// Ask for the state of the MCP servers.
    McpStatus,
    /// Connect an MCP server again.
    McpReconnect {
        /// Which.
        server: String,
    },
    /// Switch an MCP server on or off.
    McpToggle {
        /// Which.
        server: String,
        /// On or off.
        enabled: bool,
    },
    /// Set the session's own MCP servers, beside the user's.
    McpSet {
        /// By name, in the agent's own form.
        servers: IndexMap<String, Value>,
        /// Those set before stay, but for the ones named here. Else these are all there are.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep: bool,
    },
    /// Send a JSON-RPC message to an MCP server.
    McpMessage {
        /// Which.
        server: String,
        /// The message.
        message: Value,
    },
    /// Ask what fills the context window.
    Context,
    /// Stop a background task.
    StopTask {
        /// Which.
        task: String,
    },
    /// Take back a prompt that still waits in the queue.
    Withdraw {
        /// The prompt's entry.
        prompt: Seq,
    },
    /// Put a prompt that waits in the queue into the turn that runs, now.
    Steer {
        /// The prompt's entry.
        prompt: Seq,
    },
    /// Send again what ended as uncertain.
    SendAgain {
        /// The command's entry.
        command: Seq,
    },
    /// Drop a rule that an "always" made.
    RemoveRule {
        /// The tool it is about.
        tool_name: String,
    },
    /// Send a message of the agent's own protocol.
    Native {
        /// The message.
        body: Value,
    },
}

impl Action {
    /// Every action's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 23] = [
        "prompt",
        "answer",
        "interrupt",
        "stop",
        "resume",
        "rename",
        "archive",
        "set_model",
        "set_mode",
        "set_thinking",
        "set_environment",
        "rewind",
        "mcp_status",
        "mcp_reconnect",
        "mcp_toggle",
        "mcp_set",
        "mcp_message",
        "context",
        "stop_task",
        "withdraw",
        "steer",
        "send_again",
        "remove_rule",
    ];
    /// The one action that reaches past the unified surface.
    pub const NATIVE: &'static str = "native";

    /// Its name on the wire.
    pub fn name(&self) -> ActionName {
        match self {
            Self::Prompt { .. } => ActionName::Prompt,
            Self::Answer { .. } => ActionName::Answer,
            Self::Interrupt => ActionName::Interrupt,
            Self::Stop => ActionName::Stop,
            Self::Resume => ActionName::Resume,
            Self::Rename { .. } => ActionName::Rename,
            Self::Archive { .. } => ActionName::Archive,
            Self::SetModel { .. } => ActionName::SetModel,
            Self::SetMode { .. } => ActionName::SetMode,
            Self::SetThinking { .. } => ActionName::SetThinking,
            Self::SetEnvironment { .. } => ActionName::SetEnvironment,
            Self::Rewind { .. } => ActionName::Rewind,
            Self::McpStatus => ActionName::McpStatus,
            Self::McpReconnect { .. } => ActionName::McpReconnect,
            Self::McpToggle { .. } => ActionName::McpToggle,
            Self::McpSet { .. } => ActionName::McpSet,
            Self::McpMessage { .. } => ActionName::McpMessage,
            Self::Context => ActionName::Context,
            Self::StopTask { .. } => ActionName::StopTask,
            Self::Withdraw { .. } => ActionName::Withdraw,
            Self::Steer { .. } => ActionName::Steer,
            Self::SendAgain { .. } => ActionName::SendAgain,
            Self::RemoveRule { .. } => ActionName::RemoveRule,
            Self::Native { .. } => ActionName::Native,
        }
    }

    /// The role it takes.
    pub fn needs(&self) -> Role {
        match self {
            // These change what the agent runs or who it talks to, past any approval.
            Self::SetEnvironment { .. }
            | Self::McpSet { .. }
            | Self::McpMessage { .. }
            | Self::Native { .. } => Role::Owner,
            Self::Prompt { .. }
            | Self::Answer { .. }
            | Self::Interrupt
            | Self::Stop
            | Self::Resume
            | Self::Rename { .. }
            | Self::Archive { .. }
            | Self::SetModel { .. }
            | Self::SetMode { .. }
            | Self::SetThinking { .. }
            | Self::Rewind { .. }
            | Self::McpStatus
            | Self::McpReconnect { .. }
            | Self::McpToggle { .. }
            | Self::Context
            | Self::StopTask { .. }
            | Self::Withdraw { .. }
            | Self::Steer { .. }
            | Self::SendAgain { .. }
            | Self::RemoveRule { .. } => Role::Operator,
        }
    }
}

/// What someone asks of the daemon, beside making and deleting sessions which have calls of their own.
pub const DAEMON_ACTIONS: [&str; 8] =
    ["create", "take_up", "archive_past", "delete", "log_in", "log_out", "token_create", "token_revoke"];

/// Who sent a command and under which id: the key under which it is done at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CommandKey {
    /// The sender's token.
    pub token: TokenId,
    /// The sender's id for it.
    pub id: CommandId,
}

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// In the log; not yet on its way.
    Accepted,
    /// About to be written to the agent. After a crash at this point nobody knows whether it arrived.
    Sending,
    /// Written to the agent.
    Delivered,
    /// The agent took it up, or Portolan itself carried it out.
    Consumed {
        /// What came of it, where something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        result: Option<Value>,
    },
    /// Not done, and it will not be.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// It may or may not have reached the agent; it is never sent again by itself.
    Uncertain {
        /// What happened.
        reason: String,
    },
}

impl Stage {
    /// Nothing more will come.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Consumed { .. } | Self::Refused { .. } | Self::Uncertain { .. })
    }
}

/// Why not, as a kind that a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// There is no such session, request, agent or entry, or you may not know of it.
    NotFound,
    /// No token, or none that opens the door.
    Unauthenticated,
    /// Your role or token does not allow it.
    Forbidden,
    /// This agent cannot do it.
    Unsupported,
    /// What was sent makes no sense.
    Invalid,
    /// Too much waits already; try again later.
    Busy,
    /// Someone or something was faster; `outcome` says who.
    AlreadyClosed,
    /// It was asked by an earlier start of the agent, or has changed since you saw it.
    Stale,
    /// The agent is not running.
    NotRunning,
    /// The agent said no.
    AgentRefused,
    /// The session was taken back, ended or deleted before it was done.
    Ended,
    /// The disk does not take entries at the moment; nothing was changed.
    StoreFailing,
    /// Portolan is shutting down.
    ShuttingDown,
    /// A fault of ours.
    Internal,
}

/// Why a command was not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[error("{message}")]
pub struct Refusal {
    /// The kind.
    pub code: RefusalCode,
    /// For people: what is wrong.
    pub message: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub way_out: Option<WayOut>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub retry_after_ms: Option<u32>,
    /// With `already_closed`: how the request ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub outcome: Option<Box<Outcome>>,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), way_out: None, retry_after_ms: None, outcome: None }
    }

    /// The same, with what can be done about it.
    #[must_use]
    pub fn with_way_out(self, way_out: WayOut) -> Self {
        Self { way_out: Some(way_out), ..self }
    }

    /// No such session, or none that you may know of.
    pub fn no_session(session: SessionId) -> Self {
        Self::new(RefusalCode::NotFound, format!("no session `{session}`")).with_way_out(WayOut::ListSessions)
    }

    /// The id was used for another command.
    pub(crate) fn id_used(id: &CommandId, seq: Seq) -> Self {
        let message = format!(
            "the id `{id}` was used for another command (entry {seq}), so this one is not done; send it under a new id"
        );
        Self::new(RefusalCode::Invalid, message)
    }

    /// Try again after so long.
    pub fn busy(message: impl Into<String>, retry_after_ms: u32) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..Self::new(RefusalCode::Busy, message) }
    }

    /// The request is closed already.
    pub fn already_closed(request: RequestId, outcome: Outcome) -> Self {
        let message = match &outcome {
            Outcome::Answered { by, .. } => format!("request {request} was already answered by {by}"),
            Outcome::Expired => format!("request {request} has expired"),
            Outcome::Interrupted { by } => format!("request {request} was closed by an interrupt from {by}"),
            Outcome::Withdrawn => format!("the agent took request {request} back"),
            Outcome::AgentGone { reason } => format!("the agent that asked is gone: {reason}"),
        };
        Self { outcome: Some(Box::new(outcome)), ..Self::new(RefusalCode::AlreadyClosed, message) }
    }
}

/// The answer to a sender: taken into the log under this number, and how far it has come.
/// The same id sent again gets the same number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Receipt {
    /// The entry of the command.
    pub seq: Seq,
    /// How far it has come.
    #[serde(flatten)]
    pub stage: Stage,
}

/// A command on its way into a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The key under which it is done at most once.
    pub key: CommandKey,
    /// Who sent it.
    pub by: Actor,
    /// What it asks.
    pub action: Action,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Action> {
        let text = |t: &str| t.to_owned();
        vec![
            Action::Prompt { content: vec![] },
            Action::Answer { request: RequestId(1), digest: None, answer: Answer::allow() },
            Action::Interrupt,
            Action::Stop,
            Action::Resume,
            Action::Rename { title: text("n") },
            Action::Archive { archived: true },
            Action::SetModel { model: None },
            Action::SetMode { mode: text("plan") },
            Action::SetThinking { tokens: None },
            Action::SetEnvironment { variables: IndexMap::new() },
            Action::Rewind { to: Seq(1), dry_run: false },
            Action::McpStatus,
            Action::McpReconnect { server: text("s") },
            Action::McpToggle { server: text("s"), enabled: true },
            Action::McpSet { servers: IndexMap::new(), keep: false },
            Action::McpMessage { server: text("s"), message: Value::Null },
            Action::Context,
            Action::StopTask { task: text("t") },
            Action::Withdraw { prompt: Seq(1) },
            Action::Steer { prompt: Seq(1) },
            Action::SendAgain { command: Seq(1) },
            Action::RemoveRule { tool_name: text("Bash") },
            Action::Native { body: Value::Null },
        ]
    }

    #[test]
    fn the_list_of_names_is_complete_and_reads_back() {
        let all = one_of_each();
        let names: Vec<_> = all.iter().map(|action| action.name().to_string()).collect();
        assert_eq!(names[..names.len() - 1], Action::NAMES);
        for action in all {
            let json = serde_json::to_value(&action).unwrap();
            assert_eq!(json["name"], action.name().as_str());
            assert_eq!(json["name"], serde_json::to_value(action.name()).unwrap());
            assert_eq!(serde_json::from_value::<Action>(json).unwrap(), action);
        }
    }
}
