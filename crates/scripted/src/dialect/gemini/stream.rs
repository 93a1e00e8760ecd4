//! A turn as the Gemini API sends it: server-sent events that are each a whole response with a piece of the turn, or one
//! body. A function call comes in one piece, and a turn that waits for tools ends like any other.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Beat, Mint, Stream, event};
use crate::{
    asked::Asked,
    step::{Block, Message, StopReason, Usage},
};

pub(super) fn stream(asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
    let id = mint("response-");
    let beat =
        |wait, parts: Value| Beat { wait, bytes: event(None, &response(asked, &id, candidate(parts))) };
    let mut opening = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text } => {
                for delta in message.pace.deltas(text) {
                    opening.push(beat(message.pace.delay, json!([{ "text": delta }])));
                }
            }
            Block::Thinking { text, .. } => {
                for delta in message.pace.deltas(text) {
                    opening.push(beat(message.pace.delay, json!([{ "text": delta, "thought": true }])));
                }
            }
            Block::Redacted { .. } | Block::Tool(_) => {
                opening.push(beat(message.pace.delay, json!([part(block, mint)])));
            }
        }
    }
    let mut last = response(asked, &id, ended(candidate(json!([{ "text": "" }])), message));
    last["usageMetadata"] = usage(message.usage_for(asked.tokens));
    Stream { opening, closing: vec![Beat { wait: Duration::ZERO, bytes: event(None, &last) }] }
}

pub(super) fn whole(asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
    let id = mint("response-");
    let parts: Vec<Value> = message.blocks.iter().map(|block| part(block, mint)).collect();
    let mut whole = response(asked, &id, ended(candidate(json!(parts)), message));
    whole["usageMetadata"] = usage(message.usage_for(asked.tokens));
    whole
}

fn part(block: &Block, mint: Mint<'_>) -> Value {
    match block {
        Block::Text { text } => json!({ "text": text }),
        Block::Thinking { text, .. } => json!({ "text": text, "thought": true }),
        Block::Redacted { data } => json!({ "text": "", "thoughtSignature": data }),
        Block::Tool(call) => {
            let id = call.id.clone().unwrap_or_else(|| mint("call-"));
            json!({ "functionCall": { "id": id, "name": call.name, "args": call.input } })
        }
    }
}

fn candidate(parts: Value) -> Value {
    json!({ "content": { "role": "model", "parts": parts }, "index": 0 })
}

fn ended(mut candidate: Value, message: &Message) -> Value {
    candidate["finishReason"] = json!(match message.stop_reason() {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    });
    candidate
}

fn response(asked: &Asked, id: &str, candidate: Value) -> Value {
    json!({ "candidates": [candidate], "modelVersion": asked.model, "responseId": id })
}

/// The API counts tokens read from the cache, and tokens written to it, as read; it does not report the latter.
fn usage(usage: Usage) -> Value {
    let read = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "promptTokenCount": read,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": read + usage.output,
    })
}
