//! Turns: what starts a turn, and how it ends.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::{ByModel, TokenUsage};

/// The cause of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// A person's prompt.
    Prompt,
    /// The agent itself: a background task ended, a timer or a hook.
    Agent,
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct TurnResult {
    /// How the turn ended.
    pub outcome: TurnOutcome,
    /// The error, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<ErrorInfo>,
    /// The agent's last words, if the agent reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub text: Option<String>,
    /// The result that matches the JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub structured: Option<Value>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub stop_reason: Option<String>,
    /// The number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub steps: Option<u32>,
    /// The duration of the turn, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_ms: Option<u64>,
    /// The part of the duration that the model took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_api_ms: Option<u64>,
    /// The tokens of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub usage: Option<TokenUsage>,
    /// The tokens of this turn by model, subagents included.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_model: ByModel,
    /// The cost of this turn; unknown when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub cost_usd: Option<f64>,
    /// The number of lines added to files, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_added: Option<u64>,
    /// The number of lines removed from files, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_removed: Option<u64>,
}

impl TurnResult {
    /// A result that says only how the turn ended.
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
    /// The agent finished.
    Completed,
    /// Somebody interrupted the turn, or its agent ended.
    Interrupted,
    /// The turn failed; `error` says why.
    Failed,
    /// The turn reached the step limit.
    MaxTurns,
    /// The turn reached the cost limit.
    MaxBudget,
    /// The result did not match the JSON Schema after every attempt.
    StructuredOutputFailed,
}

/// An error, in words and as a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ErrorInfo {
    /// The error's kind.
    pub kind: ErrorKind,
    /// The error, in words.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub way_out: Option<String>,
}

/// Kinds of errors that a user understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The agent is not logged in, or its key is wrong.
    Auth,
    /// The account has no credit.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The model's service is overloaded.
    Overloaded,
    /// The model's service failed.
    Server,
    /// The network connection failed.
    Network,
    /// The context is full.
    ContextFull,
    /// The model does not exist.
    ModelNotFound,
    /// The request was wrong.
    InvalidRequest,
    /// The model reached its output limit.
    OutputLimit,
    /// The model refused.
    Refused,
    /// A limit of the session was reached.
    Limit,
    /// The agent's process failed.
    Agent,
    /// The agent sent something that cannot be read.
    Protocol,
    /// Another error.
    #[serde(other)]
    Unknown,
}
