//! The result of a turn: its figures, and how the run ends with it.

use portolan_core::event::{TurnOutcome, TurnResult};
use serde_json::json;

use crate::agui::wire::AguiEvent;

/// How a run ends with its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is done, or was stopped.
    Finished,
    /// It failed.
    Failed {
        /// What happened.
        message: String,
        /// The kind.
        code: String,
    },
}

impl Ended {
    /// With this result.
    pub fn of(result: &TurnResult) -> Self {
        let code = word(result.outcome);
        let words = match result.outcome {
            TurnOutcome::Completed | TurnOutcome::Interrupted => return Self::Finished,
            TurnOutcome::Failed => "the turn failed",
            TurnOutcome::MaxTurns => "the step limit was reached",
            TurnOutcome::MaxBudget => "the cost limit was reached",
            TurnOutcome::StructuredOutputFailed => "the result did not match its schema",
        };
        let message = result.error.as_ref().map_or(words, |error| error.message.as_str()).to_owned();
        let kind = result.error.as_ref().and_then(|error| serde_json::to_value(error.kind).ok());
        let code = kind.and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_else(|| code.to_owned());
        Self::Failed { message, code }
    }
}

fn word(outcome: TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Completed => "success",
        TurnOutcome::Interrupted => "interrupted",
        TurnOutcome::Failed => "error_during_execution",
        TurnOutcome::MaxTurns => "error_max_turns",
        TurnOutcome::MaxBudget => "error_max_budget_usd",
        TurnOutcome::StructuredOutputFailed => "error_max_structured_output_retries",
    }
}

/// The figures of a turn, under the names that apps use.
pub(super) fn stats(result: &TurnResult, turns: u32, total_cost: Option<f64>) -> AguiEvent {
    let usage = result.usage.map(|usage| {
        json!({
            "inputTokens": usage.input, "outputTokens": usage.output,
            "cacheCreationInputTokens": usage.cache_creation, "cacheReadInputTokens": usage.cache_read,
        })
    });
    let value = json!({
        "subtype": word(result.outcome),
        "isError": matches!(Ended::of(result), Ended::Failed { .. }),
        "durationMs": result.duration_ms,
        "durationApiMs": result.duration_api_ms,
        "numTurns": result.steps,
        "sessionTurns": turns,
        "costUsd": result.cost_usd,
        "totalCostUsd": total_cost,
        "usage": usage,
        "stopReason": result.stop_reason,
        "structuredOutput": result.structured,
    });
    AguiEvent::Custom { name: "result_stats".into(), value }
}
