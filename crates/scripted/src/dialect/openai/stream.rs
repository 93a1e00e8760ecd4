//! A turn as the Responses API sends it: server-sent events in its order, or one body.
//!
//! A tool named `namespace/name` is called in that namespace. A tool whose input is exactly `{"input": "…"}` is a
//! custom tool, which takes plain text.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{Beat, Mint, Stream};
use crate::{
    asked::Asked,
    step::{Block, Message, Usage},
};

pub(super) fn event(data: &Value) -> Bytes {
    super::super::event(data["type"].as_str(), data)
}

fn beat(wait: Duration, data: &Value) -> Beat {
    Beat { wait, bytes: event(data) }
}

pub(super) fn stream(asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
    let id = mint("resp_");
    let created = json!({ "type": "response.created", "response": { "id": id, "status": "in_progress" } });
    let mut opening = vec![beat(Duration::ZERO, &created)];
    let mut pending_done = None;
    for (index, block) in message.blocks.iter().enumerate() {
        opening.extend(pending_done.take());
        let item = item(block, mint);
        let name = item["id"].clone();
        let mut begun = item.clone();
        match block {
            Block::Text { .. } => begun["content"] = json!([]),
            Block::Thinking { .. } => begun["summary"] = json!([]),
            Block::Redacted { .. } | Block::Tool(_) => {}
        }
        let added = json!({ "type": "response.output_item.added", "output_index": index, "item": begun });
        opening.push(beat(Duration::ZERO, &added));
        let (kind, text) = match block {
            Block::Text { text } => ("response.output_text.delta", text.as_str()),
            Block::Thinking { text, .. } => {
                let part = json!({ "type": "response.reasoning_summary_part.added", "item_id": name,
                    "output_index": index, "summary_index": 0 });
                opening.push(beat(Duration::ZERO, &part));
                ("response.reasoning_summary_text.delta", text.as_str())
            }
            Block::Redacted { .. } | Block::Tool(_) => ("", ""),
        };
        for delta in message.pace.deltas(text) {
            let data = json!({ "type": kind, "item_id": name, "output_index": index, "content_index": 0,
                "summary_index": 0, "delta": delta });
            opening.push(beat(message.pace.delay, &data));
        }
        let done = json!({ "type": "response.output_item.done", "output_index": index, "item": item });
        pending_done = Some(beat(Duration::ZERO, &done));
    }
    let mut closing = Vec::from_iter(pending_done);
    let response =
        json!({ "id": id, "status": "completed", "usage": usage(message.usage_for(asked.tokens)) });
    closing.push(beat(Duration::ZERO, &json!({ "type": "response.completed", "response": response })));
    Stream { opening, closing }
}

pub(super) fn whole(asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
    let id = mint("resp_");
    let output: Vec<_> = message.blocks.iter().map(|block| item(block, mint)).collect();
    json!({ "id": id, "object": "response", "status": "completed", "model": asked.model, "output": output,
        "usage": usage(message.usage_for(asked.tokens)) })
}

/// A finished part of a turn.
fn item(block: &Block, mint: Mint<'_>) -> Value {
    match block {
        Block::Text { text } => json!({ "type": "message", "id": mint("msg_"), "role": "assistant",
            "status": "completed", "content": [{ "type": "output_text", "text": text, "annotations": [] }] }),
        Block::Thinking { text, .. } => json!({ "type": "reasoning", "id": mint("rs_"),
            "summary": [{ "type": "summary_text", "text": text }], "encrypted_content": null }),
        Block::Redacted { data } => {
            json!({ "type": "reasoning", "id": mint("rs_"), "summary": [], "encrypted_content": data })
        }
        Block::Tool(call) => {
            let call_id = call.id.clone().unwrap_or_else(|| mint("call_"));
            let plain = call.input["input"].as_str();
            let only = call.input.as_object().is_some_and(|input| input.len() == 1);
            if let Some(text) = plain.filter(|_| only) {
                return json!({ "type": "custom_tool_call", "id": mint("ctc_"), "status": "completed",
                    "call_id": call_id, "name": call.name, "input": text });
            }
            let (namespace, name) = match call.name.split_once('/') {
                Some((namespace, name)) => (Some(namespace), name),
                None => (None, call.name.as_str()),
            };
            let mut item = json!({ "type": "function_call", "id": mint("fc_"), "status": "completed",
                "call_id": call_id, "name": name, "arguments": call.input.to_string() });
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    }
}

/// The API counts tokens read from the cache, and tokens written to it, as read.
fn usage(usage: Usage) -> Value {
    let read = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "input_tokens": read,
        "input_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_creation },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": read + usage.output,
    })
}
