//! Reads a Chat Completions request. Unknown fields, parts and roles are ignored.

use std::collections::HashMap;

use serde_json::Value;

use crate::asked::{Asked, Delivery, tokens_of};

/// Prefixes of texts that agents write into user messages by themselves. None of them is a prompt: a script continues
/// with the current exchange.
const NOTES: [&str; 1] = ["<system-reminder>"];

/// What Goose puts before or after the user's text, in the same text.
const INFO: (&str, &str) = ("<info-msg>", "</info-msg>");

pub(super) fn read(body: &Value) -> Result<Asked, String> {
    let model = body["model"].as_str().ok_or("you must provide a model parameter")?;
    let messages = body["messages"].as_array().ok_or("Missing required parameter: 'messages'.")?;
    let mut asked = Asked {
        model: model.to_owned(),
        tools: names(&body["tools"]),
        delivery: if body["stream"] == Value::Bool(true) { Delivery::Streamed } else { Delivery::Whole },
        session: body["prompt_cache_key"].as_str().or(body["user"].as_str()).unwrap_or_default().to_owned(),
        ..Asked::default()
    };
    let mut bytes = body["tools"].to_string().len();
    let mut calls = HashMap::new();
    // A turn of the model is everything that it says between two inputs.
    let mut speaking = false;
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let is_models = role == "assistant";
        if is_models && !speaking {
            asked.begin_turn();
        }
        speaking = is_models;
        match role {
            "system" | "developer" => {
                let text = text_of(&message["content"]);
                bytes += text.len();
                if !asked.system.is_empty() {
                    asked.system.push('\n');
                }
                asked.system.push_str(&text);
            }
            "assistant" => {
                bytes += text_of(&message["content"]).len();
                for call in list(&message["tool_calls"]) {
                    if let (Some(id), Some(name)) = (call["id"].as_str(), call["function"]["name"].as_str()) {
                        calls.insert(id.to_owned(), name.to_owned());
                    }
                }
            }
            "user" => bytes += user(message, &mut asked),
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let text = text_of(&message["content"]);
                bytes += text.len();
                asked.images += images(&message["content"]);
                asked.add_result(id, &calls, text);
            }
            _ => {}
        }
    }
    asked.tokens = tokens_of(bytes);
    Ok(asked)
}

fn user(message: &Value, asked: &mut Asked) -> usize {
    let content = &message["content"];
    asked.images += images(content);
    asked.documents += list(content).iter().filter(|part| part["type"] == "file").count();
    let parts = list(content).iter().filter_map(|part| part["text"].as_str());
    let mut bytes = 0;
    for text in content.as_str().into_iter().chain(parts) {
        bytes += text.len();
        let (words, info) = without_info(text);
        asked.notes.extend(info);
        let words = words.trim();
        if NOTES.iter().any(|note| words.starts_with(note)) {
            asked.notes.push(words.to_owned());
            continue;
        }
        // Goose joins prompts that were never answered, with newlines; each is still a separate prompt.
        for line in words.lines().filter(|line| !line.trim().is_empty()) {
            asked.prompts.push(line.trim().to_owned());
            asked.turns = 0;
        }
    }
    bytes
}

/// The user's text, and the text that the agent put beside it.
fn without_info(text: &str) -> (String, Option<String>) {
    let (begin, end) = INFO;
    let found = text.find(begin).and_then(|from| Some((from, from + text[from..].find(end)? + end.len())));
    match found {
        Some((from, upto)) => {
            (format!("{}{}", &text[..from], &text[upto..]), Some(text[from..upto].to_owned()))
        }
        None => (text.to_owned(), None),
    }
}

fn images(content: &Value) -> usize {
    list(content).iter().filter(|part| part["type"] == "image_url").count()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text, or the texts of a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => list(content).iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}

fn names(tools: &Value) -> Vec<String> {
    list(tools).iter().filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
}
