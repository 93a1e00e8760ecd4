//! A turn as the Messages API sends it: server-sent events in its order, or one body.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Beat, Mint, Stream, event};
use crate::{
    asked::Asked,
    step::{Block, Message, StopReason, Usage},
};

/// Tokens written by the time the first event is sent, as the API reports them.
const WRITTEN_AT_START: u64 = 1;

fn beat(wait: Duration, name: &str, data: &Value) -> Beat {
    Beat { wait, bytes: event(Some(name), data) }
}

pub(super) fn stream(asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
    let usage = message.usage_for(asked.tokens);
    let start = json!({"type": "message_start", "message": {
        "id": mint("msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage_value(Usage { output: WRITTEN_AT_START, ..usage }),
    }});
    let mut opening = vec![beat(Duration::ZERO, "message_start", &start)];
    let mut pending_stop = None;
    for (index, block) in message.blocks.iter().enumerate() {
        opening.extend(pending_stop.take());
        let (block_start, deltas) = block_events(block, message, mint);
        let data = json!({"type": "content_block_start", "index": index, "content_block": block_start});
        opening.push(beat(Duration::ZERO, "content_block_start", &data));
        if index == 0 {
            opening.push(beat(Duration::ZERO, "ping", &json!({"type": "ping"})));
        }
        for delta in deltas {
            let data = json!({"type": "content_block_delta", "index": index, "delta": delta});
            opening.push(beat(message.pace.delay, "content_block_delta", &data));
        }
        let stop = json!({"type": "content_block_stop", "index": index});
        pending_stop = Some(beat(Duration::ZERO, "content_block_stop", &stop));
    }
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_word(message.stop_reason()), "stop_sequence": null},
        "usage": usage_value(usage),
    });
    let mut closing = Vec::from_iter(pending_stop);
    closing.push(beat(Duration::ZERO, "message_delta", &delta));
    closing.push(beat(Duration::ZERO, "message_stop", &json!({"type": "message_stop"})));
    Stream { opening, closing }
}

/// How a block starts, and its deltas.
fn block_events(block: &Block, message: &Message, mint: Mint<'_>) -> (Value, Vec<Value>) {
    match block {
        Block::Text { text } => {
            let deltas = message.pace.deltas(text).map(|text| json!({"type": "text_delta", "text": text}));
            (json!({"type": "text", "text": ""}), deltas.collect())
        }
        Block::Thinking { text, signature } => {
            let deltas =
                message.pace.deltas(text).map(|text| json!({"type": "thinking_delta", "thinking": text}));
            let signed = json!({"type": "signature_delta", "signature": signature});
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas.chain([signed]).collect())
        }
        Block::Redacted { data } => (json!({"type": "redacted_thinking", "data": data}), Vec::new()),
        Block::Tool(call) => {
            let id = call.id.clone().unwrap_or_else(|| mint("toolu_"));
            let input = call.input.to_string();
            // The API's first piece of an input is empty, and an empty input has no other piece.
            let rest = if input == "{}" { "" } else { &input };
            let pieces = [""].into_iter().chain(message.pace.deltas(rest));
            let deltas = pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
            (json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}), deltas.collect())
        }
    }
}

pub(super) fn whole(asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
    let id = mint("msg_");
    let content = message.blocks.iter().map(|block| match block {
        Block::Text { text } => json!({"type": "text", "text": text}),
        Block::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        Block::Redacted { data } => json!({"type": "redacted_thinking", "data": data}),
        Block::Tool(call) => {
            let id = call.id.clone().unwrap_or_else(|| mint("toolu_"));
            json!({"type": "tool_use", "id": id, "name": call.name, "input": call.input})
        }
    });
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content.collect::<Vec<_>>(),
        "stop_reason": stop_word(message.stop_reason()),
        "stop_sequence": null,
        "usage": usage_value(message.usage_for(asked.tokens)),
    })
}

fn usage_value(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    })
}

fn stop_word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal => "refusal",
    }
}
