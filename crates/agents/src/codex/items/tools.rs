//! Items that are tools: the input and the result of each. Pure.

use portolan_core::{
    Event,
    event::{Content, FileChange, ToolKind, ToolOutcome},
};
use serde_json::{Value, json};

use super::changes::{changes, input};
use crate::codex::wire::{some_text, text};

/// The longest line for people, in characters.
const TITLE: usize = 120;

/// An item that is a tool's.
pub(super) struct Tool {
    pub(super) name: String,
    kind: ToolKind,
    title: Option<String>,
    pub(super) input: Value,
    pub(super) changes: Vec<FileChange>,
}

impl Tool {
    /// By the name that the model uses.
    pub(super) fn of(item: &Value) -> Option<Self> {
        let named = |name: &str, kind, title: &str, input| Tool {
            name: name.to_owned(),
            kind,
            title: short(title),
            input,
            changes: vec![],
        };
        Some(match item["type"].as_str()? {
            "commandExecution" => {
                let command = text(item, "command");
                // The shell's input, without the shell.
                let inner = match item["commandActions"].as_array().map(Vec::as_slice) {
                    Some([action]) => text(action, "command"),
                    _ => command.clone(),
                };
                let kind = match item["commandActions"][0]["type"].as_str() {
                    Some("read") => ToolKind::Read,
                    Some("search" | "listFiles") => ToolKind::Search,
                    _ => ToolKind::Execute,
                };
                named("exec_command", kind, &inner, json!({ "command": command, "cwd": item["cwd"] }))
            }
            "fileChange" => {
                let changes = changes(&item["changes"]);
                let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
                let input = input(&item["changes"], &changes);
                let tool = named("apply_patch", ToolKind::Edit, &paths.join(", "), input);
                Self { changes, ..tool }
            }
            "mcpToolCall" => {
                let (server, tool) = (text(item, "server"), text(item, "tool"));
                named(&format!("mcp__{server}__{tool}"), ToolKind::Mcp, &tool, item["arguments"].clone())
            }
            "dynamicToolCall" => {
                let name = text(item, "tool");
                named(&name, ToolKind::Other, &name, item["arguments"].clone())
            }
            "webSearch" => {
                let query = text(item, "query");
                let input = json!({ "query": query, "action": item["action"] });
                named("web_search", ToolKind::Fetch, &query, input)
            }
            "imageView" => {
                let path = text(item, "path");
                named("view_image", ToolKind::Read, &path, json!({ "path": path }))
            }
            "imageGeneration" => named("image_generation", ToolKind::Other, "", json!({})),
            "collabAgentToolCall" => {
                let prompt = text(item, "prompt");
                let input = json!({ "prompt": item["prompt"], "model": item["model"], "to": item["receiverThreadIds"] });
                let name = text(item, "tool");
                let kind = if name == "spawnAgent" { ToolKind::Subagent } else { ToolKind::Think };
                named(&name, kind, &prompt, input)
            }
            _ => return None,
        })
    }

    pub(super) fn called(&self, id: String, parent: Option<String>) -> Event {
        Event::ToolCall {
            tool: id,
            item: None,
            message: None,
            parent,
            name: self.name.clone(),
            kind: self.kind,
            title: self.title.clone(),
            input: self.input.clone(),
            changes: self.changes.clone(),
        }
    }
}

fn short(words: &str) -> Option<String> {
    let line = words.lines().next().filter(|line| !line.is_empty())?;
    let short: String = line.chars().take(TITLE).collect();
    Some(if short.len() < line.len() { format!("{short}…") } else { short })
}

pub(super) fn outcome(item: &Value) -> ToolOutcome {
    let refused = item["error"]["message"].as_str().is_some_and(|message| message.contains("user rejected"));
    match item["status"].as_str() {
        Some("declined") => ToolOutcome::Denied,
        // A refused MCP call is reported as failed.
        Some("failed") if refused => ToolOutcome::Denied,
        Some("failed") => ToolOutcome::Failed,
        Some("interrupted" | "cancelled") => ToolOutcome::Interrupted,
        _ if item["success"] == false => ToolOutcome::Failed,
        _ => ToolOutcome::Done,
    }
}

pub(super) fn result(item: &Value, streamed: Option<&str>) -> Vec<Content> {
    let mut content = Vec::new();
    let streamed = || streamed.filter(|text| !text.is_empty()).map(str::to_owned);
    if item["type"] == "commandExecution" {
        // Deltas are lossy; this is the full output, as far as Codex keeps it.
        content.extend(some_text(item, "aggregatedOutput").or_else(streamed).map(Content::text));
    }
    let pieces = [&item["result"]["content"], &item["contentItems"]];
    for piece in pieces.into_iter().filter_map(Value::as_array).flatten() {
        content.push(match some_text(piece, "text") {
            Some(text) => Content::Text { text },
            None => Content::Other { body: piece.clone() },
        });
    }
    if item["result"]["structuredContent"].is_object() {
        content.push(Content::Data { data: item["result"]["structuredContent"].clone() });
    }
    content.extend(some_text(&item["error"], "message").map(Content::text));
    if let Some(code) = item["exitCode"].as_i64().filter(|code| *code != 0) {
        content.push(Content::Data { data: json!({ "exit_code": code }) });
    }
    if item["agentsStates"].as_object().is_some_and(|states| !states.is_empty()) {
        content.push(Content::Data { data: item["agentsStates"].clone() });
    }
    content
}
