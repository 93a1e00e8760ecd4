//! Tokens, money and context. An unknown figure is absent, never zero.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Tokens of one request, turn, agent or session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens read that no cache held.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub input: u64,
    /// Tokens written.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub output: u64,
    /// Tokens put into the cache.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub cache_creation: u64,
    /// Tokens read from the cache.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub cache_read: u64,
}

impl TokenUsage {
    /// What of the context window these tokens take: everything that was read.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_creation).saturating_add(self.cache_read)
    }

    /// Both together.
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

/// One model's share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct ModelUsage {
    /// Its tokens.
    pub usage: TokenUsage,
    /// How many tokens fit into its context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub context_window: Option<u64>,
    /// How many tokens it can write at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub max_output: Option<u64>,
    /// What it cost, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub cost_usd: Option<f64>,
}

/// By model name.
pub type ByModel = IndexMap<String, ModelUsage>;

/// The context window of a session until its agent says otherwise.
pub const DEFAULT_CONTEXT_WINDOW: u64 = 200_000;
