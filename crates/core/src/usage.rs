//! Tokens, cost and context. An unknown figure is absent, never zero.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Tokens of one request, turn, agent or session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct TokenUsage {
    /// Input tokens that were not in a cache.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub input: u64,
    /// Output tokens.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub output: u64,
    /// Tokens written into the cache.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub cache_creation: u64,
    /// Tokens read from the cache.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub cache_read: u64,
}

impl TokenUsage {
    /// The part of the context window that these tokens take: all input tokens.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_creation).saturating_add(self.cache_read)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_creation: self.cache_creation.saturating_add(other.cache_creation),
            cache_read: self.cache_read.saturating_add(other.cache_read),
        }
    }
}

/// The usage of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct ModelUsage {
    /// The model's tokens.
    pub usage: TokenUsage,
    /// The size of the model's context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub context_window: Option<u64>,
    /// The model's output limit in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub max_output: Option<u64>,
    /// The model's cost, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub cost_usd: Option<f64>,
}

/// Usage by model name.
pub type ByModel = IndexMap<String, ModelUsage>;

/// The context window of a session until its agent reports another.
pub const DEFAULT_CONTEXT_WINDOW: u64 = 200_000;
