//! Commands: what a client asks of a session or of the daemon, and why Portolan may refuse.
//!
//! A refusal is a value, not an error: the sender gets it as the answer, and it changes nothing.

mod name;
mod refusal;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    name::ActionName,
    refusal::{Refusal, RefusalCode},
};
use crate::{
    Actor, CommandId, RequestId, Role, Seq, TokenId,
    event::Content,
    policy::{BudgetTerms, RuleDraft, RuleId},
    request::{Answer, persist::Persist},
};

/// A command to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Action {
    /// Send a prompt to the agent. If the agent has ended and can resume, Portolan starts it again.
    Prompt {
        /// The prompt.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::some_prompt"))]
        content: Vec<Content>,
    },
    /// Answer a request.
    Answer {
        /// The request.
        request: RequestId,
        /// The digest of the request that the person saw, to be sure that the request has not changed since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        digest: Option<String>,
        /// The answer.
        answer: Answer,
        /// A rule to make together with the answer, for later calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        persist: Option<Persist>,
    },
    /// Interrupt the running turn.
    Interrupt,
    /// End the agent.
    Stop,
    /// Start the agent again where it left off.
    Resume,
    /// Give the session another name.
    Rename {
        /// The new name.
        #[serde(rename = "to")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::title"))]
        title: String,
    },
    /// Archive the session, or restore it.
    Archive {
        /// `true` archives, `false` restores.
        archived: bool,
    },
    /// Change the model.
    SetModel {
        /// The new model; the agent's default when absent.
        #[serde(default)]
        model: Option<String>,
    },
    /// Change the permission mode.
    SetMode {
        /// The new mode.
        mode: String,
    },
    /// Change the thinking budget.
    SetThinking {
        /// The new budget in tokens; the agent's default when absent.
        #[serde(default)]
        tokens: Option<u32>,
    },
    /// Set environment variables for every process that the agent starts from now on.
    SetEnvironment {
        /// The variables by name.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::some_variables"))]
        variables: IndexMap<String, String>,
    },
    /// Restore files to their state before a prompt.
    Rewind {
        /// The prompt's entry.
        #[cfg_attr(feature = "schema", schemars(extend("minimum" = 1)))]
        to: Seq,
        /// Only report what would change.
        #[serde(default)]
        dry_run: bool,
    },
    /// Ask for the state of the MCP servers.
    McpStatus,
    /// Connect an MCP server again.
    McpReconnect {
        /// The server's name.
        server: String,
    },
    /// Switch an MCP server on or off.
    McpToggle {
        /// The server's name.
        server: String,
        /// `true` switches the server on, `false` switches it off.
        enabled: bool,
    },
    /// Set the session's own MCP servers, in addition to the user's.
    McpSet {
        /// The servers by name, in the agent's own form.
        servers: IndexMap<String, Value>,
        /// Keep earlier servers, except those named here. Otherwise these servers replace all earlier ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep: bool,
    },
    /// Send a JSON-RPC message to an MCP server.
    McpMessage {
        /// The server's name.
        server: String,
        /// The message.
        message: Value,
    },
    /// Ask what fills the context window.
    Context,
    /// Stop a background task.
    StopTask {
        /// The task's id.
        task: String,
    },
    /// Withdraw a prompt that still waits in the queue.
    Withdraw {
        /// The prompt's entry.
        prompt: Seq,
    },
    /// Move a waiting prompt from the queue into the running turn.
    Steer {
        /// The prompt's entry.
        prompt: Seq,
    },
    /// Send again a command that ended as uncertain.
    SendAgain {
        /// The command's entry.
        command: Seq,
    },
    /// Add a rule that holds in this session alone.
    AddRule {
        /// The rule. Its scope is this session, whatever the draft says.
        rule: Box<RuleDraft>,
    },
    /// Remove a rule of this session.
    RemoveRule {
        /// The rule's `TOOL` or `TOOL(PATTERN)`.
        tool_name: String,
        /// The rule's id; absent for every rule with that text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        rule: Option<RuleId>,
    },
    /// Change how long requests wait for an answer before Portolan denies them.
    SetDeadline {
        /// The open request; absent for every later request of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        request: Option<RequestId>,
        /// The seconds from now, or from the opening of each later request; absent for no deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        seconds: Option<u32>,
    },
    /// Set the limits of this session's own budget; what was used so far still counts.
    SetBudget {
        /// The limits; absent removes the budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        budget: Option<BudgetTerms>,
    },
    /// Let this session's own budget count from zero again.
    ResetBudget,
    /// Send a message of the agent's own protocol.
    Native {
        /// The message.
        body: Value,
    },
}

impl Action {
    /// Every action's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 27] = [
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
        "add_rule",
        "remove_rule",
        "set_deadline",
        "set_budget",
        "reset_budget",
    ];
    /// The one action that sends the agent's own protocol.
    pub const NATIVE: &'static str = "native";

    /// The action's name on the wire.
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
            Self::AddRule { .. } => ActionName::AddRule,
            Self::RemoveRule { .. } => ActionName::RemoveRule,
            Self::SetDeadline { .. } => ActionName::SetDeadline,
            Self::SetBudget { .. } => ActionName::SetBudget,
            Self::ResetBudget => ActionName::ResetBudget,
            Self::Native { .. } => ActionName::Native,
        }
    }

    /// The role that the action needs.
    pub fn needs(&self) -> Role {
        match self {
            // These actions change what the agent runs or which servers it uses, without any approval, or how much it may
            // use.
            Self::SetBudget { .. }
            | Self::ResetBudget
            | Self::SetEnvironment { .. }
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
            | Self::AddRule { .. }
            | Self::RemoveRule { .. }
            | Self::SetDeadline { .. } => Role::Operator,
        }
    }
}

/// Commands to the daemon. Creating and deleting sessions have calls of their own.
pub const DAEMON_ACTIONS: [&str; 14] = [
    "create",
    "take_up",
    "archive_past",
    "delete",
    "log_in",
    "log_out",
    "rule_add",
    "rule_edit",
    "rule_remove",
    "budget_set",
    "budget_reset",
    "budget_remove",
    "token_create",
    "token_revoke",
];

/// A command's sender and id. The same key runs at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CommandKey {
    /// The sender's token.
    pub token: TokenId,
    /// The command's id, made by the sender.
    pub id: CommandId,
}

/// The progress of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// The command is in the log and not yet sent.
    Accepted,
    /// Portolan is about to write the command to the agent. After a crash at this point nobody knows whether it
    /// arrived.
    Sending,
    /// The command was written to the agent.
    Delivered,
    /// The agent accepted the command, or Portolan itself carried it out.
    Consumed {
        /// The result of the command, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        result: Option<Value>,
    },
    /// The command was not carried out and never will be.
    Refused {
        /// The reason.
        refusal: Refusal,
    },
    /// The command may or may not have reached the agent. Portolan never sends it again by itself.
    Uncertain {
        /// The reason.
        reason: String,
    },
}

impl Stage {
    /// The stage is the last one.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Consumed { .. } | Self::Refused { .. } | Self::Uncertain { .. })
    }
}

/// The reply to a command: the number of its entry, and its progress. The same id sent again gets the same number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Receipt {
    /// The entry of the command.
    pub seq: Seq,
    /// The command's progress.
    #[serde(flatten)]
    pub stage: Stage,
}

/// A command on its way into a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The command's sender and id. The same key runs at most once.
    pub key: CommandKey,
    /// Who sent it.
    pub by: Actor,
    /// The action.
    pub action: Action,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Action> {
        let text = |t: &str| t.to_owned();
        vec![
            Action::Prompt { content: vec![] },
            Action::Answer { request: RequestId(1), digest: None, answer: Answer::allow(), persist: None },
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
            Action::AddRule {
                rule: Box::new(RuleDraft {
                    effect: crate::policy::Effect::Deny,
                    text: text("Bash(rm -r)"),
                    scope: crate::policy::rule::ScopeDraft::User,
                    overridable: true,
                    expires_in_seconds: Some(60),
                    comment: None,
                    matches: vec![],
                    does_not_match: vec![],
                }),
            },
            Action::RemoveRule { tool_name: text("Bash"), rule: None },
            Action::SetDeadline { request: Some(RequestId(1)), seconds: Some(60) },
            Action::SetBudget {
                budget: Some(BudgetTerms {
                    limits: crate::policy::Limits { turns: Some(3), ..crate::policy::Limits::default() },
                    per: Some(crate::policy::budget::Period::Day),
                }),
            },
            Action::ResetBudget,
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
