//! Which events survive when the daemon is killed.

use super::Event;

/// What happens to an entry when the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The entry is committed before anyone sees it.
    Durable,
    /// The entry is shown at once and written later; the finished item's commit replaces it.
    Streamed,
}

impl Event {
    /// The streamed kinds, by their names on the wire; [`Event::durability`] says the same of an event.
    pub const STREAMED: [&str; 5] = ["item_started", "tool_named", "delta", "tool_progress", "activity"];

    /// What happens to the event's entry when the daemon is killed.
    pub fn durability(&self) -> Durability {
        match self {
            Self::ItemStarted { .. }
            | Self::ToolNamed { .. }
            | Self::Delta { .. }
            | Self::ToolProgress { .. }
            | Self::Activity { .. } => Durability::Streamed,
            Self::SessionCreated { .. }
            | Self::SessionRenamed { .. }
            | Self::SessionArchived { .. }
            | Self::Imported { .. }
            | Self::AgentStarting { .. }
            | Self::AgentStarted(..)
            | Self::AgentReady { .. }
            | Self::AgentInfo { .. }
            | Self::LinkLost { .. }
            | Self::LinkRestored
            | Self::AgentExited { .. }
            | Self::TurnStarted { .. }
            | Self::TurnEnded { .. }
            | Self::Prompt { .. }
            | Self::Message { .. }
            | Self::ToolCall { .. }
            | Self::ToolResult { .. }
            | Self::ToolSummary { .. }
            | Self::Plan { .. }
            | Self::Usage { .. }
            | Self::Compacted { .. }
            | Self::ConversationReset { .. }
            | Self::SubagentStarted { .. }
            | Self::SubagentEnded { .. }
            | Self::TaskChanged { .. }
            | Self::RequestOpened { .. }
            | Self::RequestClosed { .. }
            | Self::RequestDecided { .. }
            | Self::CommandAccepted { .. }
            | Self::Receipt { .. }
            | Self::SettingChanged { .. }
            | Self::RuleAdded { .. }
            | Self::RuleRemoved { .. }
            | Self::DeadlineChanged { .. }
            | Self::BudgetChanged { .. }
            | Self::BudgetReached { .. }
            | Self::McpServers { .. }
            | Self::Retry { .. }
            | Self::Failure { .. }
            | Self::Notice { .. }
            | Self::AuthStatus { .. }
            | Self::Hook { .. }
            | Self::FilesPersisted { .. }
            | Self::Unknown { .. } => Durability::Durable,
        }
    }
}
