//! Codex' own JSON, as far as it is read. Lenient: missing fields are empty, extra fields are ignored, and no type of
//! this module leaves this folder.

use serde::Deserialize;
use serde_json::Value;

pub(super) use crate::foreign::{open, some_text, text};

/// The parameters of every notification about a turn or an item.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Told {
    pub(super) thread_id: String,
    pub(super) turn_id: String,
    pub(super) item_id: String,
    pub(super) item: Value,
    pub(super) turn: Turn,
    pub(super) thread: Value,
    pub(super) delta: String,
    pub(super) summary_index: u64,
    pub(super) token_usage: TokenUsage,
    pub(super) error: Value,
    pub(super) will_retry: bool,
    pub(super) message: Option<String>,
    pub(super) plan: Vec<Step>,
    pub(super) thread_settings: Value,
    pub(super) rate_limits: Value,
    pub(super) request_id: Value,
    pub(super) name: Option<String>,
    pub(super) status: Value,
    pub(super) summary: Option<String>,
    pub(super) details: Option<String>,
    pub(super) success: Option<bool>,
    pub(super) goal: Value,
    pub(super) run: Value,
    pub(super) from_model: String,
    pub(super) to_model: String,
    pub(super) reason: Value,
}

/// A turn.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) error: Option<TurnError>,
    pub(super) duration_ms: Option<u64>,
}

/// Why a turn failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TurnError {
    pub(super) message: String,
    pub(super) codex_error_info: Value,
    pub(super) additional_details: Option<String>,
}

/// One step of a plan.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub(super) step: String,
    pub(super) status: String,
}

/// Tokens of a thread.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TokenUsage {
    pub(super) last: Tokens,
    pub(super) model_context_window: Option<u64>,
}

/// Tokens of one request to the model. The input includes the cached tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(rename = "inputTokens")]
    pub(super) read: u64,
    #[serde(rename = "cachedInputTokens")]
    pub(super) cached: u64,
    #[serde(rename = "cacheWriteInputTokens")]
    pub(super) put_into_cache: u64,
    #[serde(rename = "outputTokens")]
    pub(super) written: u64,
}

impl From<Tokens> for portolan_core::usage::TokenUsage {
    fn from(tokens: Tokens) -> Self {
        let cached = tokens.cached.saturating_add(tokens.put_into_cache);
        Self {
            input: tokens.read.saturating_sub(cached),
            output: tokens.written,
            cache_creation: tokens.put_into_cache,
            cache_read: tokens.cached,
        }
    }
}
