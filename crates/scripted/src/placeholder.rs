//! Placeholders: parts of the request inside scripted text, so that a script proves what reached the model.
//!
//! Only the names listed here are replaced; every other brace is left unchanged, and inserted text is not read again.

use serde_json::Value;

use crate::{
    asked::Asked,
    step::{Block, Message},
};

/// Fills every text and tool input of `message` from the request.
pub(crate) fn fill(message: &mut Message, asked: &Asked) {
    for block in &mut message.blocks {
        match block {
            Block::Text { text } => fill_text(text, asked),
            Block::Thinking { text, .. } => fill_text(text, asked),
            Block::Redacted { .. } => {}
            Block::Tool(call) => fill_value(&mut call.input, asked),
        }
    }
}

fn fill_value(value: &mut Value, asked: &Asked) {
    match value {
        Value::String(text) => fill_text(text, asked),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_value(item, asked)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_value(field, asked)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fill_text(text: &mut String, asked: &Asked) {
    if !text.contains('{') {
        return;
    }
    let mut filled = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let named = rest.find('}').and_then(|close| Some((value_of(&rest[1..close], asked)?, close)));
        if let Some((value, close)) = named {
            filled.push_str(&value);
            rest = &rest[close + 1..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    *text = filled;
}

fn value_of(name: &str, asked: &Asked) -> Option<String> {
    Some(match name {
        "last_user" => asked.prompt().to_owned(),
        "last_tool_result" => asked.results.last().map(|result| result.text.clone()).unwrap_or_default(),
        "tool_results" => {
            asked.results.iter().map(|result| result.text.as_str()).collect::<Vec<_>>().join("\n")
        }
        "last_note" => asked.notes.last().cloned().unwrap_or_default(),
        "model" => asked.model.clone(),
        "tools" => asked.tools.join(", "),
        "images" => asked.images.to_string(),
        "documents" => asked.documents.to_string(),
        "prompts" => asked.prompts.len().to_string(),
        _ => return None,
    })
}
