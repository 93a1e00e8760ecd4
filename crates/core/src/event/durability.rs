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
            _ => Durability::Durable,
        }
    }
}
