//! Reads a Gemini request. Unknown fields, parts and roles are ignored.

use serde_json::Value;

use crate::asked::{Asked, Delivery, ToolResult, tokens_of};

/// Prefixes of texts that the Gemini CLI writes into user messages by itself. None of them is a prompt: a script
/// continues with the current exchange.
const NOTES: [&str; 2] = ["<session_context>", "<hook_context>"];

pub(super) fn read(model: &str, task: &str, body: &Value) -> Result<Asked, String> {
    // A token count may wrap the request.
    let wrapped = &body["generateContentRequest"];
    let body = if wrapped.is_object() { wrapped } else { body };
    let contents = body["contents"].as_array().ok_or("contents is not specified")?;
    let mut asked = Asked {
        model: model.to_owned(),
        system: texts(&body["systemInstruction"]["parts"]).collect::<Vec<_>>().join("\n"),
        tools: names(&body["tools"]),
        delivery: if task == "streamGenerateContent" { Delivery::Streamed } else { Delivery::Whole },
        ..Asked::default()
    };
    let mut bytes = asked.system.len() + body["tools"].to_string().len();
    // A turn of the model is everything that it says between two inputs.
    let mut speaking = false;
    for content in contents {
        let is_models = content["role"] == "model";
        if is_models && !speaking {
            asked.turns += 1;
            asked.results.clear();
            asked.notes.clear();
        }
        speaking = is_models;
        bytes += texts(&content["parts"]).map(str::len).sum::<usize>();
        if !is_models {
            for part in list(&content["parts"]) {
                told(part, &mut asked);
            }
        }
    }
    asked.tokens = tokens_of(bytes);
    Ok(asked)
}

/// A part of the model's input.
fn told(part: &Value, asked: &mut Asked) {
    if let Some(text) = part["text"].as_str().map(str::trim).filter(|text| !text.is_empty()) {
        if NOTES.iter().any(|note| text.starts_with(note)) {
            asked.notes.push(text.to_owned());
        } else {
            asked.prompts.push(text.to_owned());
            asked.turns = 0;
        }
    }
    for data in [&part["inlineData"], &part["fileData"]] {
        match data["mimeType"].as_str() {
            Some(kind) if kind.starts_with("image/") => asked.images += 1,
            Some(_) => asked.documents += 1,
            None => {}
        }
    }
    let result = &part["functionResponse"];
    if let Some(name) = result["name"].as_str() {
        let response = &result["response"];
        let (text, is_error) = match (&response["output"], &response["error"]) {
            (Value::Null, Value::Null) => (response.to_string(), false),
            (Value::Null, error) => (plain(error), true),
            (output, _) => (plain(output), false),
        };
        let id = result["id"].as_str().unwrap_or_default();
        asked.results.push(ToolResult { id: id.to_owned(), name: name.to_owned(), text, is_error });
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(parts: &Value) -> impl Iterator<Item = &str> {
    list(parts).iter().filter_map(|part| part["text"].as_str())
}

fn names(tools: &Value) -> Vec<String> {
    let declared = list(tools).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    declared.filter_map(|function| function["name"].as_str()).map(str::to_owned).collect()
}
