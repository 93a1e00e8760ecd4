//! Reads a Messages request. Unknown fields, blocks and roles are ignored.

use std::collections::HashMap;

use http::HeaderMap;
use serde_json::Value;

use super::notes::{is_note, split_note};
use crate::asked::{Asked, Delivery, ToolResult, tokens_of};

/// The header in which Claude Code names the subagent that asks.
const AGENT: &str = "x-claude-code-agent-id";

pub(super) fn read(headers: &HeaderMap, body: &Value) -> Result<Asked, String> {
    let model = body["model"].as_str().ok_or("model: Field required")?;
    let messages = body["messages"].as_array().ok_or("messages: Field required")?;
    let mut asked = Asked {
        model: model.to_owned(),
        system: text_of(&body["system"]),
        prompts: Vec::new(),
        turns: 0,
        notes: Vec::new(),
        results: Vec::new(),
        tools: names(&body["tools"]),
        images: 0,
        documents: 0,
        delivery: if body["stream"] == Value::Bool(true) { Delivery::Streamed } else { Delivery::Whole },
        session: session(headers, body),
        tokens: 0,
    };
    let mut calls = HashMap::new();
    let mut bytes = asked.system.len() + length_of(&body["tools"]);
    let mut before = None;
    for message in messages {
        bytes += length_of(&message["content"]);
        match message["role"].as_str() {
            Some("assistant") => {
                // Parts of one turn may come as separate messages.
                asked.turns += usize::from(before != Some("assistant"));
                asked.results.clear();
                asked.notes.clear();
                for block in blocks(&message["content"]) {
                    if let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) {
                        calls.insert(id.to_owned(), name.to_owned());
                    }
                }
            }
            Some("user") => user(message, &calls, &mut asked),
            // Newer clients put notes between the turns instead of into them.
            Some("system") => asked.notes.push(text_of(&message["content"])),
            _ => {}
        }
        before = message["role"].as_str();
    }
    asked.tokens = tokens_of(bytes);
    Ok(asked)
}

fn user(message: &Value, calls: &HashMap<String, String>, asked: &mut Asked) {
    let mut said = Vec::new();
    if let Some(text) = message["content"].as_str() {
        said.push(text);
    }
    for block in blocks(&message["content"]) {
        match block["type"].as_str() {
            Some("text") => said.extend(block["text"].as_str()),
            Some("image") => asked.images += 1,
            Some("document") => asked.documents += 1,
            Some("tool_result") => {
                let inside = blocks(&block["content"]).iter();
                asked.images += inside.filter(|part| part["type"] == "image").count();
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let whole = text_of(&block["content"]);
                let (text, note) = split_note(&whole);
                asked.notes.extend(note.map(str::to_owned));
                asked.results.push(ToolResult {
                    id: id.to_owned(),
                    name: calls.get(id).cloned().unwrap_or_default(),
                    text: text.to_owned(),
                    is_error: block["is_error"] == Value::Bool(true),
                });
            }
            _ => {}
        }
    }
    for text in said {
        // A text that is followed by another one gets a newline; it is still the same prompt.
        let text = text.trim_end().to_owned();
        if is_note(&text) {
            asked.notes.push(text);
        } else {
            asked.prompts.push(text);
            asked.turns = 0;
        }
    }
}

fn session(headers: &HeaderMap, body: &Value) -> String {
    let session = body["metadata"]["user_id"].as_str().unwrap_or_default();
    let agent = headers.get(AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    format!("{session}{agent}")
}

fn blocks(content: &Value) -> &[Value] {
    content.as_array().map_or(&[], Vec::as_slice)
}

/// A text, or the texts of a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => blocks(content).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}

fn names(tools: &Value) -> Vec<String> {
    blocks(tools).iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}

/// Bytes of all texts inside. An image's base64 counts as nothing: its tokens do not follow from its bytes.
fn length_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(length_of).sum(),
        Value::Object(fields) if fields.get("type").is_some_and(|kind| kind == "base64") => 0,
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + length_of(field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}
