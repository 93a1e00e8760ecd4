//! Events: what happened in a session, in one vocabulary for every agent; and what happened in the daemon.
//!
//! Translators turn an agent's own messages into events; projectors turn events into a frontend's frames. A message
//! without an event of its own becomes [`Event::Unknown`] with its raw text, so that nothing a newer agent says is
//! lost.
//!
//! # Where the unified messages of other bridges went
//!
//! A test reads this table and fails on a kind without a row, or a row that names no event.
//!
//! | unified message | here |
//! |---|---|
//! | assistant_message | Message, ToolCall |
//! | partial_message | ItemStarted, Delta |
//! | result | TurnEnded |
//! | system_init | AgentInfo |
//! | status | Activity, SettingChanged |
//! | compact_boundary | Compacted |
//! | tool_progress | ToolProgress |
//! | tool_use_summary | ToolSummary |
//! | permission_request | RequestOpened |
//! | auth_status | AuthStatus |
//! | task_notification | TaskChanged |
//! | hook_event | Hook |
//! | error | Failure |
//! | keep_alive | - (answers nothing, says nothing) |
//! | system | AgentInfo, Activity, Compacted, TaskChanged, FilesPersisted, Hook |
//! | assistant | Message, ToolCall |
//! | stream_event | ItemStarted, ToolNamed, Delta, Usage |
//! | control_request | RequestOpened |
//! | control_response | Receipt |
//! | user | Prompt, ToolResult, Notice |
//! | system/init | AgentInfo |
//! | system/status | Activity, SettingChanged |
//! | system/compact_boundary | Compacted |
//! | system/task_notification | TaskChanged |
//! | system/files_persisted | FilesPersisted |
//! | system/hook_started | Hook |
//! | system/hook_progress | Hook |
//! | system/hook_response | Hook |
//! | control_request/can_use_tool | RequestOpened |
//! | control_request/initialize | AgentInfo |
//! | control_request/interrupt | Receipt, TurnEnded |
//! | control_request/set_permission_mode | SettingChanged |
//! | control_request/set_model | SettingChanged |
//! | control_request/set_max_thinking_tokens | SettingChanged |
//! | control_request/mcp_status | McpServers |
//! | control_request/mcp_message | Receipt |
//! | control_request/mcp_reconnect | McpServers |
//! | control_request/mcp_toggle | McpServers |
//! | control_request/mcp_set_servers | McpServers |
//! | control_request/rewind_files | Receipt |
//! | control_request/hook_callback | RequestOpened |
//! | control_cancel_request | RequestClosed |
//! | update_environment_variables | SettingChanged |

mod agent;
mod content;
mod daemon;
mod durability;
mod session;
mod turn;
mod work;

pub use self::{agent::*, content::*, daemon::*, durability::*, session::*, turn::*, work::*};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The unified message kinds of seed 003, and the messages and subtypes of seed 004.
    const KINDS: &[&str] = &[
        "assistant_message",
        "partial_message",
        "result",
        "system_init",
        "status",
        "compact_boundary",
        "tool_progress",
        "tool_use_summary",
        "permission_request",
        "auth_status",
        "task_notification",
        "hook_event",
        "error",
        "keep_alive",
        "system",
        "assistant",
        "stream_event",
        "control_request",
        "control_response",
        "user",
        "system/init",
        "system/status",
        "system/compact_boundary",
        "system/task_notification",
        "system/files_persisted",
        "system/hook_started",
        "system/hook_progress",
        "system/hook_response",
        "control_request/can_use_tool",
        "control_request/initialize",
        "control_request/interrupt",
        "control_request/set_permission_mode",
        "control_request/set_model",
        "control_request/set_max_thinking_tokens",
        "control_request/mcp_status",
        "control_request/mcp_message",
        "control_request/mcp_reconnect",
        "control_request/mcp_toggle",
        "control_request/mcp_set_servers",
        "control_request/rewind_files",
        "control_request/hook_callback",
        "control_cancel_request",
        "update_environment_variables",
    ];

    #[test]
    fn every_foreign_kind_is_mapped_to_an_event_that_exists() {
        let (source, enumeration) = (include_str!("event.rs"), include_str!("event/session.rs"));
        let body = enumeration.split("pub enum Event {").nth(1).unwrap().split("\n}").next().unwrap();
        let events: BTreeSet<&str> = body
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(char::is_uppercase))
            .map(|line| line.trim_end_matches([' ', '{', ',']).split('(').next().unwrap())
            .collect();
        assert!(events.contains("Delta") && events.contains("LinkRestored"), "{events:?}");
        let rows = source.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
        let mut mapped = BTreeSet::new();
        for row in rows {
            let mut cells = row.split('|').map(str::trim);
            let (kind, here) = (cells.next().unwrap(), cells.next().unwrap());
            assert!(mapped.insert(kind), "`{kind}` stands twice");
            if !here.starts_with('-') {
                for event in here.split(", ") {
                    assert!(events.contains(event), "`{kind}` is mapped to `{event}`, which is no event");
                }
            }
        }
        assert_eq!(mapped, KINDS.iter().copied().collect());
    }
}
