//! The ends of turns: how a turn ended, what it used and what it cost.
//!
//! `is_error` shows whether it failed, never the subtype alone: a failed request to the model is a `success` that is an
//! error, and an interrupted turn is interrupted. Figures of the CLI add up over the process, some of them even over
//! processes; a turn's own figures are differences.

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    Event,
    event::{ErrorInfo, ErrorKind, Level, TurnOrigin, TurnOutcome, TurnResult},
    ports::Report,
    usage::{ByModel, ModelUsage, TokenUsage},
};

use super::{
    KIND,
    conversation::tokens,
    translate::{Translate, Turn},
    wire::{self, TurnEnd},
};
use crate::{driver::Output, prices::Prices};

/// How the CLI marks an error that is not for people.
const DIAGNOSTIC: &str = "[ede_diagnostic]";

type Figures = IndexMap<String, wire::ModelUsage>;

/// What the CLI has counted so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    before: Figures,
    /// The sum at the end of the last turn.
    cost_before: f64,
    windows: IndexMap<String, u64>,
}

impl Tally {
    /// How many tokens fit into a model's context, once reported.
    pub(super) fn window(&self, model: &str) -> Option<u64> {
        self.windows.get(model).copied()
    }

    /// A new conversation began: counting begins at zero.
    pub(super) fn restart(&mut self) {
        self.before.clear();
        self.cost_before = 0.0;
    }

    /// What the turn used, by model, subagents included.
    fn turn(&mut self, end: &TurnEnd) -> Figures {
        for (model, figures) in &end.model_usage {
            if let Some(window) = figures.context_window {
                self.windows.insert(model.clone(), window);
            }
        }
        let before = std::mem::replace(&mut self.before, end.model_usage.clone());
        // Newer versions report it; their sums continue over a resumed conversation, so a difference would be wrong.
        if let Some(since) = &end.model_usage_since_last_result {
            return since.clone();
        }
        let fresh = wire::ModelUsage::default();
        let differences = end.model_usage.iter().map(|(model, now)| {
            let then = before.get(model).unwrap_or(&fresh);
            (model.clone(), difference(now, then))
        });
        differences.filter(|(_, figures)| tokens_of(figures) != TokenUsage::default()).collect()
    }
}

fn difference(now: &wire::ModelUsage, then: &wire::ModelUsage) -> wire::ModelUsage {
    if now.input_tokens < then.input_tokens || now.output_tokens < then.output_tokens {
        // Counting began at zero again without a report.
        return now.clone();
    }
    wire::ModelUsage {
        input_tokens: now.input_tokens - then.input_tokens,
        output_tokens: now.output_tokens - then.output_tokens,
        cache_read_input_tokens: now.cache_read_input_tokens.saturating_sub(then.cache_read_input_tokens),
        cache_creation_input_tokens: now
            .cache_creation_input_tokens
            .saturating_sub(then.cache_creation_input_tokens),
        cost_usd: now.cost_usd.map(|cost| (cost - then.cost_usd.unwrap_or(0.0)).max(0.0)),
        context_window: now.context_window,
        max_output_tokens: now.max_output_tokens,
        cost_basis: now.cost_basis.clone(),
    }
}

fn tokens_of(figures: &wire::ModelUsage) -> TokenUsage {
    TokenUsage {
        input: figures.input_tokens,
        output: figures.output_tokens,
        cache_creation: figures.cache_creation_input_tokens,
        cache_read: figures.cache_read_input_tokens,
    }
}

/// The CLI's own figure, otherwise the price table's; unknown if neither has one.
fn cost(model: &str, figures: &wire::ModelUsage, prices: &Prices) -> Option<f64> {
    let usage = tokens_of(figures);
    let guessed = figures.cost_basis.as_deref() == Some("unknown");
    let told = figures.cost_usd.filter(|cost| !guessed && (*cost > 0.0 || usage == TokenUsage::default()));
    told.or_else(|| prices.cost(model, usage))
}

fn by_model(figures: Figures, prices: &Prices) -> ByModel {
    let share = |model: &str, figures: wire::ModelUsage| ModelUsage {
        usage: tokens_of(&figures),
        context_window: figures.context_window,
        max_output: figures.max_output_tokens,
        cost_usd: cost(model, &figures, prices),
    };
    figures
        .into_iter()
        .map(|(model, figures)| {
            let share = share(&model, figures);
            (model, share)
        })
        .collect()
}

impl Tally {
    /// The cost of the turn: its models together, unknown if one of them is unknown.
    fn cost(&mut self, end: &TurnEnd, shares: &ByModel) -> Option<f64> {
        let before = std::mem::replace(&mut self.cost_before, end.total_cost_usd.unwrap_or(0.0));
        let used = end.usage.map(tokens).unwrap_or_default() != TokenUsage::default();
        if shares.is_empty() && used {
            // No model is named: only the sum is known.
            return end.total_cost_usd.map(|total| total - before).filter(|cost| *cost > 0.0);
        }
        shares.values().try_fold(0.0, |sum, share| Some(sum + share.cost_usd?))
    }
}

impl Translate {
    pub(super) fn result(&mut self, line: &str, out: &mut Output) {
        let Ok(end) = serde_json::from_str::<TurnEnd>(line) else { return out.unknown(KIND, "result", line) };
        if !self.is_ready {
            // The turn could not begin at all, such as for a missing conversation.
            let message =
                if end.errors.is_empty() { end.result.unwrap_or_default() } else { end.errors.join("\n") };
            let error = ErrorInfo { kind: ErrorKind::Agent, message, way_out: None };
            return out.event(Event::Failure { error, recoverable: false });
        }
        self.prompts_named(&end.user_message_uuids, out);
        if self.turn.is_none() {
            match end.origin {
                Some(_) => self.ensure_turn(TurnOrigin::Agent, out),
                None => self.turn_begins(out),
            }
        }
        self.settle_unechoed(out);
        self.say_unsaid(&end, out);
        self.tell_denials(&end, out);
        self.close_streams();
        self.activity = None;
        let by_model = by_model(self.tally.turn(&end), &self.setup.prices);
        let cost_usd = self.tally.cost(&end, &by_model);
        let turn = self.turn.take();
        let (outcome, error) = outcome(&end, turn.as_ref());
        let milliseconds = |told: Option<f64>| told.map(|told| told.max(0.0) as u64);
        let result = TurnResult {
            outcome,
            error,
            text: end.result.filter(|text| !end.is_error && !text.is_empty()),
            structured: end.structured_output,
            stop_reason: end.stop_reason,
            steps: end.num_turns,
            duration_ms: milliseconds(end.duration_ms),
            duration_api_ms: milliseconds(end.duration_api_ms),
            usage: end.usage.map(tokens),
            cost_usd,
            by_model,
            lines_added: None,
            lines_removed: None,
        };
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::TurnEnded { result: Box::new(result), raw });
    }

    /// Denials that were not reported: a mode that never asks, on versions that report nothing.
    fn tell_denials(&mut self, end: &TurnEnd, out: &mut Output) {
        let interrupted = self.turn.as_ref().is_some_and(|turn| turn.interrupted);
        for denial in end.permission_denials.iter().filter(|_| !interrupted) {
            if !self.subagents.denied.contains(&denial.tool_use_id) {
                let text = format!("`{}` was not allowed", denial.tool_name);
                out.event(Event::Notice { level: Level::Info, text });
            }
        }
    }
}

fn outcome(end: &TurnEnd, turn: Option<&Turn>) -> (TurnOutcome, Option<ErrorInfo>) {
    let limit = |way_out: &str| {
        let message = if end.errors.is_empty() { end.subtype.clone() } else { end.errors.join("\n") };
        Some(ErrorInfo { kind: ErrorKind::Limit, message, way_out: Some(way_out.into()) })
    };
    match end.subtype.as_str() {
        "error_max_turns" => return (TurnOutcome::MaxTurns, limit("send another prompt to go on")),
        "error_max_budget_usd" => {
            return (TurnOutcome::MaxBudget, limit("start a session with a larger budget"));
        }
        "error_max_structured_output_retries" => {
            return (TurnOutcome::StructuredOutputFailed, limit("ask for less, or make the schema simpler"));
        }
        _ => {}
    }
    let aborted = end.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
    // An interrupt is not a failure, whatever the CLI reports: some versions set `is_error`, some do not.
    if end.subtype != "success" && (aborted || turn.is_some_and(|turn| turn.interrupted)) {
        return (TurnOutcome::Interrupted, None);
    }
    if !end.is_error && end.subtype == "success" {
        return (TurnOutcome::Completed, None);
    }
    let mut trouble = turn.and_then(|turn| turn.trouble.clone()).unwrap_or_default();
    // Diagnostics are for the CLI's makers.
    let errors: Vec<_> = end.errors.iter().filter(|text| !text.starts_with(DIAGNOSTIC)).cloned().collect();
    let said = end.result.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| errors.join("\n"));
    if !said.is_empty() {
        trouble.text = said;
    } else if trouble.text.is_empty() {
        // Only the diagnostic shows that a stream ended with an error. Witness: 2.1.325-stdio/k-sse-error.ndjson
        trouble.text = "the answer was cut off".into();
        trouble.word.get_or_insert_with(|| "server_error".into());
    }
    trouble.status = trouble.status.or(end.api_error_status);
    trouble.terminal.clone_from(&end.terminal_reason);
    trouble.stop_reason.clone_from(&end.stop_reason);
    (TurnOutcome::Failed, Some(trouble.info()))
}
