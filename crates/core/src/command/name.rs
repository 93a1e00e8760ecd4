//! Which action a command is, as a type: the machine decides by this type, and its name goes over the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Action;

/// Which action a command is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionName {
    /// [`Action::Prompt`].
    Prompt,
    /// [`Action::Answer`].
    Answer,
    /// [`Action::Interrupt`].
    Interrupt,
    /// [`Action::Stop`].
    Stop,
    /// [`Action::Resume`].
    Resume,
    /// [`Action::Rename`].
    Rename,
    /// [`Action::Archive`].
    Archive,
    /// [`Action::SetModel`].
    SetModel,
    /// [`Action::SetMode`].
    SetMode,
    /// [`Action::SetThinking`].
    SetThinking,
    /// [`Action::SetEnvironment`].
    SetEnvironment,
    /// [`Action::Rewind`].
    Rewind,
    /// [`Action::McpStatus`].
    McpStatus,
    /// [`Action::McpReconnect`].
    McpReconnect,
    /// [`Action::McpToggle`].
    McpToggle,
    /// [`Action::McpSet`].
    McpSet,
    /// [`Action::McpMessage`].
    McpMessage,
    /// [`Action::Context`].
    Context,
    /// [`Action::StopTask`].
    StopTask,
    /// [`Action::Withdraw`].
    Withdraw,
    /// [`Action::Steer`].
    Steer,
    /// [`Action::SendAgain`].
    SendAgain,
    /// [`Action::AddRule`].
    AddRule,
    /// [`Action::RemoveRule`].
    RemoveRule,
    /// [`Action::SetDeadline`].
    SetDeadline,
    /// [`Action::SetBudget`].
    SetBudget,
    /// [`Action::ResetBudget`].
    ResetBudget,
    /// [`Action::Native`].
    Native,
    /// An action of a newer version.
    #[serde(untagged)]
    Other(String),
}

impl ActionName {
    /// The action's name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Interrupt => "interrupt",
            Self::Stop => "stop",
            Self::Resume => "resume",
            Self::Rename => "rename",
            Self::Archive => "archive",
            Self::SetModel => "set_model",
            Self::SetMode => "set_mode",
            Self::SetThinking => "set_thinking",
            Self::SetEnvironment => "set_environment",
            Self::Rewind => "rewind",
            Self::McpStatus => "mcp_status",
            Self::McpReconnect => "mcp_reconnect",
            Self::McpToggle => "mcp_toggle",
            Self::McpSet => "mcp_set",
            Self::McpMessage => "mcp_message",
            Self::Context => "context",
            Self::StopTask => "stop_task",
            Self::Withdraw => "withdraw",
            Self::Steer => "steer",
            Self::SendAgain => "send_again",
            Self::AddRule => "add_rule",
            Self::RemoveRule => "remove_rule",
            Self::SetDeadline => "set_deadline",
            Self::SetBudget => "set_budget",
            Self::ResetBudget => "reset_budget",
            Self::Native => Action::NATIVE,
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
