//! A turn as the Chat Completions API sends it: server-sent chunks without names, or one body.
//!
//! Shown thinking has the name that other providers of the API use, `reasoning_content`: the API itself shows none.
//! Tokens are always reported, in a separate last chunk, whether or not the client asked for them.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{Beat, Mint, Stream, event};
use crate::{
    asked::Asked,
    step::{Block, Call, Message, StopReason, Usage},
};

/// The creation time of every turn, in seconds: the same turn is the same bytes.
const CREATED: u64 = 1_700_000_000;

/// The end of a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

pub(super) fn stream(asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
    let id = mint("chatcmpl-");
    let beat = |wait: Duration, choices: Value, usage: Value| {
        let chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": CREATED, "model": asked.model,
            "choices": choices, "usage": usage });
        Beat { wait, bytes: event(None, &chunk) }
    };
    let choice =
        |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
    let said = |wait, delta| beat(wait, choice(delta, Value::Null), Value::Null);

    let mut opening = vec![said(Duration::ZERO, json!({ "role": "assistant", "content": "" }))];
    let mut calls = 0;
    for block in &message.blocks {
        match block {
            Block::Text { text } => {
                for delta in message.pace.deltas(text) {
                    opening.push(said(message.pace.delay, json!({ "content": delta })));
                }
            }
            Block::Thinking { text, .. } => {
                for delta in message.pace.deltas(text) {
                    opening.push(said(message.pace.delay, json!({ "reasoning_content": delta })));
                }
            }
            // This API has no field for it.
            Block::Redacted { .. } => {}
            Block::Tool(call) => {
                let mut begun = tool_call(call, mint);
                let arguments = begun["function"]["arguments"].take();
                begun["function"]["arguments"] = json!("");
                begun["index"] = json!(calls);
                opening.push(said(Duration::ZERO, json!({ "tool_calls": [begun] })));
                for delta in message.pace.deltas(arguments.as_str().unwrap_or_default()) {
                    let more = json!({ "index": calls, "function": { "arguments": delta } });
                    opening.push(said(message.pace.delay, json!({ "tool_calls": [more] })));
                }
                calls += 1;
            }
        }
    }
    let finish = json!(finish_word(message.stop_reason()));
    let closing = vec![
        beat(Duration::ZERO, choice(json!({}), finish), Value::Null),
        beat(Duration::ZERO, json!([]), usage(message.usage_for(asked.tokens))),
        Beat { wait: Duration::ZERO, bytes: Bytes::from_static(DONE) },
    ];
    Stream { opening, closing }
}

pub(super) fn whole(asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
    let id = mint("chatcmpl-");
    let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for block in &message.blocks {
        match block {
            Block::Text { text } => content.push_str(text),
            Block::Thinking { text, .. } => reasoning.push_str(text),
            Block::Redacted { .. } => {}
            Block::Tool(call) => calls.push(tool_call(call, mint)),
        }
    }
    let text = if content.is_empty() { Value::Null } else { json!(content) };
    let mut said = json!({ "role": "assistant", "content": text, "refusal": null });
    if !reasoning.is_empty() {
        said["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        said["tool_calls"] = json!(calls);
    }
    json!({ "id": id, "object": "chat.completion", "created": CREATED, "model": asked.model,
        "choices": [{ "index": 0, "message": said, "finish_reason": finish_word(message.stop_reason()) }],
        "usage": usage(message.usage_for(asked.tokens)) })
}

fn tool_call(call: &Call, mint: Mint<'_>) -> Value {
    let id = call.id.clone().unwrap_or_else(|| mint("call_"));
    json!({ "id": id, "type": "function",
        "function": { "name": call.name, "arguments": call.input.to_string() } })
}

/// The API counts tokens read from the cache, and tokens written to it, as read; it does not report the latter.
fn usage(usage: Usage) -> Value {
    let read = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "prompt_tokens": read,
        "completion_tokens": usage.output,
        "total_tokens": read + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}

fn finish_word(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}
