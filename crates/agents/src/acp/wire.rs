//! ACP's own JSON, as far as it is read. Lenient: a message is first any JSON and then inspected, so that missing
//! fields are empty, extra fields are ignored, and unknown content can still be kept. No type of this module leaves
//! this folder.

use portolan_core::{event::Content, usage::TokenUsage};
use serde_json::{Value, json};

pub(super) use crate::foreign::{open, some_text, text};

/// A list in an object; empty if missing.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A piece of content from the agent.
pub(super) fn content(block: &Value) -> Content {
    match block["type"].as_str() {
        Some("text") => Content::text(text(block, "text")),
        Some("image") if block["data"].is_string() => {
            Content::Image { media_type: text(block, "mimeType"), data: text(block, "data") }
        }
        Some("resource_link") => Content::Resource {
            uri: text(block, "uri"),
            name: some_text(block, "title").or_else(|| some_text(block, "name")),
            text: None,
        },
        Some("resource") if block["resource"]["text"].is_string() => Content::Resource {
            uri: text(&block["resource"], "uri"),
            name: None,
            text: some_text(&block["resource"], "text"),
        },
        _ => Content::Other { body: block.clone() },
    }
}

/// Which content a prompt may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Takes {
    pub(super) images: bool,
    /// Resources with their text in them.
    pub(super) embedded: bool,
}

/// A piece of a prompt; or why the agent cannot take it.
pub(super) fn block(content: &Content, takes: Takes) -> Result<Value, String> {
    let words = |text: String| json!({ "type": "text", "text": text });
    Ok(match content {
        Content::Text { text } | Content::Thinking { text } => words(text.clone()),
        Content::Image { media_type, data } if takes.images => {
            json!({ "type": "image", "mimeType": media_type, "data": data })
        }
        Content::Image { .. } => return Err("does not take images".into()),
        Content::Resource { uri, text: Some(text), .. } if takes.embedded => {
            json!({ "type": "resource", "resource": { "uri": uri, "text": text } })
        }
        Content::Resource { uri, name, text: Some(text) } => {
            words(format!("{} ({uri}):\n{text}", name.as_deref().unwrap_or(uri)))
        }
        Content::Resource { uri, name, text: None } => {
            let name = name.as_deref().or_else(|| uri.rsplit('/').next()).unwrap_or(uri);
            json!({ "type": "resource_link", "uri": uri, "name": name })
        }
        Content::Data { data } => words(data.to_string()),
        Content::RedactedThinking => words(String::new()),
        Content::Other { body } => body.clone(),
    })
}

/// Tokens, in any of the spellings that agents use. Nothing if there are no figures.
pub(super) fn tokens(told: &Value) -> Option<TokenUsage> {
    let figure = |keys: &[&str]| keys.iter().find_map(|key| told[*key].as_u64());
    let input = figure(&["inputTokens", "input_tokens"]);
    let output = figure(&["outputTokens", "output_tokens"]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
    let cache_creation = figure(&["cachedWriteTokens", "cacheWriteInputTokens"]).unwrap_or_default();
    let cache_read = figure(&["cachedReadTokens", "cachedInputTokens"]).unwrap_or_default();
    // Qwen also counts cached tokens as newly read; its total shows this.
    let twice = figure(&["totalTokens"]) == Some(input + output);
    let input = if twice { input.saturating_sub(cache_read + cache_creation) } else { input };
    Some(TokenUsage { input, output, cache_creation, cache_read })
}

/// An MCP server in ACP's form, from the form of `.mcp.json`.
pub(super) fn server(name: &str, config: &Value) -> Value {
    let pairs = |told: &Value| match told {
        Value::Object(map) => {
            map.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
        }
        Value::Array(list) => list.clone(),
        _ => vec![],
    };
    if config["url"].is_string() {
        let kind = if config["type"] == "sse" { "sse" } else { "http" };
        return json!({ "type": kind, "name": name, "url": config["url"], "headers": pairs(&config["headers"]) });
    }
    json!({
        "name": name,
        "command": text(config, "command"),
        "args": list(config, "args"),
        "env": pairs(&config["env"]),
    })
}
