//! Claude Code's own JSON, as it comes over the line. No type of this module leaves the folder.
//!
//! The envelope borrows from the line and leaves everything bulky unparsed; the `type` is matched by hand, so that a
//! kind, a field or a value of a newer version never costs a message. The translators document the meaning of each
//! part.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

pub(super) use crate::foreign::open;

/// Any message of the CLI, unparsed.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) agent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) request_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) request: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_result_meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(rename = "isReplay", default)]
    pub(super) is_replay: Option<bool>,
    #[serde(default)]
    pub(super) aborted: Option<bool>,
    #[serde(borrow, default)]
    pub(super) api_error_status: Option<&'a RawValue>,
}

/// The few fields of a line whose envelope cannot be parsed: enough to keep it under a name.
#[derive(Debug, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
}

/// A part as a value of any kind; null if absent.
pub(super) fn value(part: Option<&RawValue>) -> Value {
    open(part).unwrap_or_default()
}

/// A message of the model.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// One block of a message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) tool_use_id: Option<String>,
    pub(super) content: Option<Value>,
    pub(super) is_error: Option<bool>,
    pub(super) source: Option<Value>,
}

/// The content of a message: its blocks, unparsed. None if it is not a list of blocks.
pub(super) fn blocks(content: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    serde_json::from_str(content?.get()).ok()
}

/// An event of the model's stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: u64,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// How a piece of a message begins, as every version writes it.
const PIECE: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","#;

/// A piece of a message, parsed in one go: by far the most lines are such pieces.
#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) event: PieceEvent<'a>,
}

/// What the envelope of a piece holds.
#[derive(Debug, Deserialize)]
pub(super) struct PieceEvent<'a> {
    #[serde(default)]
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) delta: StreamDelta<'a>,
}

impl<'a> Piece<'a> {
    /// Reads a line that is exactly such a piece. Any other line is parsed step by step, which takes anything.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        if line.starts_with(PIECE) { serde_json::from_str(line).ok() } else { None }
    }
}

/// The next part of a block, or the end of a message.
#[derive(Debug, Deserialize)]
pub(super) struct StreamDelta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<Cow<'a, str>>,
}

/// The beginning of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageStart {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) usage: Usage,
}

/// Tokens, in the API's terms. An absent field or null means nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "they are the API's names")]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
}

/// One model's tokens, in the CLI's terms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: Option<f64>,
    pub(super) context_window: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    /// `unknown` if the CLI has no price for the model and used the price of another one.
    pub(super) cost_basis: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnEnd {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) result: Option<String>,
    pub(super) errors: Vec<String>,
    pub(super) duration_ms: Option<f64>,
    pub(super) duration_api_ms: Option<f64>,
    pub(super) num_turns: Option<u32>,
    pub(super) stop_reason: Option<String>,
    pub(super) terminal_reason: Option<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) total_cost_usd: Option<f64>,
    pub(super) usage: Option<Usage>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: indexmap::IndexMap<String, ModelUsage>,
    pub(super) model_usage_since_last_result: Option<indexmap::IndexMap<String, ModelUsage>>,
    pub(super) permission_denials: Vec<Denial>,
    pub(super) structured_output: Option<Value>,
    pub(super) user_message_uuids: Vec<String>,
    pub(super) origin: Option<Value>,
}

/// A tool that was not allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Denial {
    pub(super) tool_name: String,
    pub(super) tool_use_id: String,
}

/// A request of the CLI.
#[derive(Debug, Deserialize)]
pub(super) struct Asked<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Cow<'a, str>,
    #[serde(default)]
    pub(super) tool_name: Option<String>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) tool_use_id: Option<String>,
    #[serde(default)]
    pub(super) callback_id: Option<String>,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(borrow, default)]
    pub(super) permission_suggestions: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) blocked_path: Option<String>,
    #[serde(default)]
    pub(super) decision_reason: Option<String>,
    #[serde(default)]
    pub(super) agent_id: Option<String>,
    #[serde(default)]
    pub(super) server_name: Option<String>,
    #[serde(default)]
    pub(super) mcp_server_name: Option<String>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(borrow, default)]
    pub(super) requested_schema: Option<&'a RawValue>,
}

/// The CLI's answer to a request of Portolan.
#[derive(Debug, Deserialize)]
pub(super) struct Answered<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) request_id: Cow<'a, str>,
    /// Often absent, although it succeeded.
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error: Option<String>,
    /// Comes with the answer to a second `initialize`, even if that answer is an error.
    #[serde(borrow, default)]
    pub(super) pending_permission_requests: Option<&'a RawValue>,
}
