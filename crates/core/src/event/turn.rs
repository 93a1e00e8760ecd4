//! Turns: what sets one off, and what comes of it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::{ByModel, TokenUsage};

/// What set a turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// Someone's prompt.
    Prompt,
    /// The agent itself: a background task ended, a timer, a hook.
    Agent,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct TurnResult {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<ErrorInfo>,
    /// The last words, where the agent tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub text: Option<String>,
    /// The result that fits the JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub structured: Option<Value>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub stop_reason: Option<String>,
    /// Steps the agent took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub steps: Option<u32>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_ms: Option<u64>,
    /// How long the model took of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_api_ms: Option<u64>,
    /// Tokens of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub usage: Option<TokenUsage>,
    /// Tokens of this turn by model, subagents included.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_model: ByModel,
    /// What this turn cost; absent is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub cost_usd: Option<f64>,
    /// Lines added to files, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_added: Option<u64>,
    /// Lines removed from files, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_removed: Option<u64>,
}

impl TurnResult {
    /// A result that says only how it ended.
    pub fn bare(outcome: TurnOutcome) -> Self {
        Self {
            outcome,
            error: None,
            text: None,
            structured: None,
            stop_reason: None,
            steps: None,
            duration_ms: None,
            duration_api_ms: None,
            usage: None,
            by_model: IndexMap::new(),
            cost_usd: None,
            lines_added: None,
            lines_removed: None,
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent was done.
    Completed,
    /// Someone stopped it, or its agent ended.
    Interrupted,
    /// It failed; `error` says why.
    Failed,
    /// It came to the limit of steps.
    MaxTurns,
    /// It came to the limit of money.
    MaxBudget,
    /// The result did not fit the JSON Schema, however often it was tried.
    StructuredOutputFailed,
}

/// An error in words and as a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ErrorInfo {
    /// The kind.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub way_out: Option<String>,
}

/// Errors as kinds a user understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Not logged in, or the key is wrong.
    Auth,
    /// No credit.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The model's service has too much to do.
    Overloaded,
    /// The model's service failed.
    Server,
    /// No connection.
    Network,
    /// The context is full.
    ContextFull,
    /// There is no such model.
    ModelNotFound,
    /// The request was wrong.
    InvalidRequest,
    /// The model wrote as much as it can at once.
    OutputLimit,
    /// The model would not.
    Refused,
    /// A limit of the session was reached.
    Limit,
    /// The agent's process failed.
    Agent,
    /// The agent sent what cannot be read.
    Protocol,
    /// Something else.
    #[serde(other)]
    Unknown,
}
