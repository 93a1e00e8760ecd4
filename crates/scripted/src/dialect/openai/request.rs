//! Reads a Responses request. Unknown fields, items and roles are ignored.

use std::collections::HashMap;

use serde_json::Value;

use crate::asked::{Asked, Delivery, tokens_of};

/// Prefixes of texts that Codex, or Portolan, writes into user messages by itself. None of them is a prompt: a script
/// continues with the current exchange.
const NOTES: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "The user declined this tool call: ",
];

pub(super) fn read(body: &Value) -> Result<Asked, String> {
    let model = body["model"].as_str().ok_or("model: Field required")?;
    let mut asked = Asked {
        model: model.to_owned(),
        system: body["instructions"].as_str().unwrap_or_default().to_owned(),
        tools: names(&body["tools"], ""),
        delivery: if body["stream"] == Value::Bool(true) { Delivery::Streamed } else { Delivery::Whole },
        session: body["prompt_cache_key"].as_str().unwrap_or_default().to_owned(),
        ..Asked::default()
    };
    let mut bytes = asked.system.len() + body["tools"].to_string().len();
    if let Some(text) = body["input"].as_str() {
        asked.prompts.push(text.to_owned());
    }
    let mut calls = HashMap::new();
    // A turn of the model is everything that it says between two inputs.
    let mut speaking = false;
    for item in list(&body["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        let is_models = item["role"] == "assistant"
            || matches!(kind, "function_call" | "custom_tool_call" | "reasoning" | "web_search_call");
        if is_models {
            if !speaking {
                asked.begin_turn();
            }
            if let (Some(id), Some(name)) = (item["call_id"].as_str(), item["name"].as_str()) {
                calls.insert(id.to_owned(), name.to_owned());
            }
        }
        speaking = is_models;
        match kind {
            "message" if item["role"] == "user" => bytes += user(item, &mut asked),
            // To newer models Codex offers tools inside the conversation.
            "additional_tools" => asked.tools.extend(names(&item["tools"], "")),
            "function_call_output" | "custom_tool_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let text = text_of(&item["output"]);
                bytes += text.len();
                asked.add_result(id, &calls, text);
            }
            _ => {}
        }
    }
    asked.tokens = tokens_of(bytes);
    Ok(asked)
}

fn user(item: &Value, asked: &mut Asked) -> usize {
    let mut bytes = 0;
    let plain = item["content"].as_str();
    let pieces = list(&item["content"]).iter();
    asked.images += pieces.clone().filter(|piece| piece["type"] == "input_image").count();
    for text in plain.into_iter().chain(pieces.filter_map(|piece| piece["text"].as_str())) {
        bytes += text.len();
        let text = text.trim();
        if NOTES.iter().any(|note| text.starts_with(note)) {
            asked.notes.push(text.to_owned());
        } else if !text.is_empty() && !text.starts_with("<image") && !text.starts_with("</image") {
            asked.prompts.push(text.to_owned());
            asked.turns = 0;
        }
    }
    bytes
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(pieces) => {
            pieces.iter().filter_map(|piece| piece["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => other["content"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The names of tools; those inside a namespace as `namespace/name`.
fn names(tools: &Value, within: &str) -> Vec<String> {
    let mut names = Vec::new();
    for tool in list(tools) {
        let name = tool["name"].as_str().or(tool["type"].as_str()).unwrap_or_default();
        if tool["tools"].is_array() {
            names.extend(self::names(&tool["tools"], &format!("{name}/")));
        } else {
            names.push(format!("{within}{name}"));
        }
    }
    names
}
