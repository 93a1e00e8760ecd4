//! Entries without their own event in the protocol.

use portolan_core::{
    Event,
    event::{HookStatus, TaskStatus},
    policy::budget::Level,
};
use serde_json::{Value, json};

use super::Projector;
use crate::agui::wire::AguiEvent;

impl Projector {
    /// An entry without its own event in the protocol is sent as a custom event.
    pub(super) fn aside(&self, event: &Event, out: &mut Vec<AguiEvent>) {
        let mut custom = |name: &str, value: Value| {
            out.push(AguiEvent::Custom { name: name.into(), value });
        };
        match event {
            Event::ToolProgress { tool, name, elapsed_seconds, .. } => {
                let name = self.names.of(name).unwrap_or_else(|| name.clone());
                let value =
                    json!({"toolUseId": tool, "toolName": name, "elapsedTimeSeconds": elapsed_seconds});
                custom("tool_progress", value);
            }
            Event::ToolSummary { summary, tools } => {
                custom("tool_use_summary", json!({"summary": summary, "precedingToolUseIds": tools}));
            }
            Event::AuthStatus { authenticating, output, error } => {
                let value = json!({"isAuthenticating": authenticating, "output": output, "error": error});
                custom("auth_status", value);
            }
            Event::Compacted { trigger, tokens_before, tokens_after } => {
                let value =
                    json!({"trigger": trigger, "preTokens": tokens_before, "postTokens": tokens_after});
                custom("compact_boundary", value);
            }
            Event::TaskChanged { task } => {
                let status = match task.status {
                    TaskStatus::Running => "running",
                    TaskStatus::Completed => "completed",
                    TaskStatus::Failed => "failed",
                    TaskStatus::Stopped => "stopped",
                };
                let value = json!({
                    "taskId": task.task, "taskStatus": status, "outputFile": task.output_file,
                    "summary": task.summary, "description": task.description, "toolUseId": task.tool,
                });
                custom("task_notification", value);
            }
            Event::FilesPersisted { files, failed } => {
                custom("files_persisted", json!({"files": files, "failed": failed}));
            }
            Event::Hook { hook, name, event, status, data } => {
                let kind = match status {
                    HookStatus::Started => "hook_started",
                    HookStatus::Progress => "hook_progress",
                    HookStatus::Completed => "hook_response",
                };
                let mut value = json!({"hookId": hook, "hookName": name, "hookEvent": event});
                if let Some(Value::Object(data)) = data {
                    for (key, more) in data {
                        value[camel_case(key)] = more.clone();
                    }
                }
                custom(kind, value);
            }
            Event::Plan { steps, .. } => custom("plan", json!({ "steps": steps })),
            Event::Retry { attempt, max, delay_ms, error } => {
                let value = json!({"attempt": attempt, "max": max, "delayMs": delay_ms, "message": error.message});
                custom("api_retry", value);
            }
            Event::Failure { error, recoverable } => {
                let value = json!({"kind": error.kind, "message": error.message, "recoverable": recoverable});
                custom("failure", value);
            }
            Event::Notice { level, text } => custom("notice", json!({"level": level, "text": text})),
            Event::BudgetReached { standing } => {
                let level = if standing.level == Level::Fine { "info" } else { "warning" };
                custom("notice", json!({"level": level, "text": standing.words()}));
            }
            Event::LinkLost { reason } => custom("notice", json!({"level": "warning", "text": reason})),
            // The run itself handles commands and the agent's starts and ends; the rest is for other clients.
            Event::SessionCreated { .. }
            | Event::SessionRenamed { .. }
            | Event::SessionArchived { .. }
            | Event::Imported { .. }
            | Event::AgentStarting { .. }
            | Event::AgentStarted { .. }
            | Event::AgentReady { .. }
            | Event::AgentExited { .. }
            | Event::LinkRestored
            | Event::CommandAccepted { .. }
            | Event::Receipt { .. }
            | Event::RuleAdded { .. }
            | Event::DeadlineChanged { .. }
            | Event::BudgetChanged { .. }
            | Event::RuleRemoved { .. }
            | Event::Usage { .. }
            | Event::Unknown { .. }
            // Handled above.
            | Event::ItemStarted { .. }
            | Event::ToolNamed { .. }
            | Event::Delta { .. }
            | Event::Message { .. }
            | Event::ToolCall { .. }
            | Event::ToolResult { .. }
            | Event::SubagentStarted { .. }
            | Event::SubagentEnded { .. }
            | Event::Prompt { .. }
            | Event::RequestOpened { .. }
            | Event::RequestClosed { .. }
            | Event::RequestDecided { .. }
            | Event::AgentInfo { .. }
            | Event::SettingChanged { .. }
            | Event::Activity { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::McpServers { .. }
            | Event::ConversationReset { .. } => {}
        }
    }
}

/// `exit_code` as JavaScript writes it.
fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for character in name.chars() {
        if character == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.extend(character.to_uppercase());
        } else {
            out.push(character);
        }
    }
    out
}
