//! Turns: a prompt begins a turn, and its answer ends the turn, however long that takes. Agents report its usage in
//! four ways.
//!
//! After a stop, the answer has a time limit; whatever the answer is, the turn was stopped.
//!
//! An agent may be silent for minutes: ACP cannot report a request to the model that failed and is tried again, and
//! Gemini keeps even its stderr to itself until it ends. Only the silence is known, so a notice reports the silence.

use std::time::Duration;

use bytes::Bytes;
use portolan_core::{
    Event,
    event::{Content, ErrorInfo, ErrorKind, Level, TurnOrigin, TurnOutcome, TurnResult},
    ports::{InstructionId, Report},
    usage::{ByModel, TokenUsage},
};
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};

use super::{
    calls::What,
    errors,
    messages::Ending,
    translate::{CANCELLED_BY, DIALECT, HEARD_SINCE, Translate, notice},
    wire,
};
use crate::driver::Output;

/// How often a turn is looked at for silence.
const LOOK: Duration = Duration::from_secs(10);

/// After this many silent looks a notice reports the silence; and again each time it has lasted twice as long. A model
/// may think for half a minute.
const SILENT_LOOKS: u32 = 3;

/// The turn that runs, and what the session has cost so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    current: Option<Turn>,
    /// In dollars, over the whole session: the last reported value, and the value at the end of the last turn.
    cost: Option<f64>,
    cost_before: Option<f64>,
}

#[derive(Debug, Default)]
struct Turn {
    /// The prompt, until the agent has shown that it took it.
    instruction_id: Option<InstructionId>,
    /// The turn was asked to stop.
    cancelled: bool,
    /// The agent has reported a failure.
    failed: bool,
    /// The usage of requests to the model, if each is reported.
    usage: Option<TokenUsage>,
    /// Looks in a row without output of the agent.
    silent_looks: u32,
    heard: bool,
}

impl Turns {
    pub(super) fn running(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the running turn was asked to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.current.as_ref().is_some_and(|turn| turn.cancelled)
    }

    /// The agent has said something.
    pub(super) fn heard(&mut self) {
        if let Some(turn) = &mut self.current {
            turn.heard = true;
        }
    }

    /// Counts a look at a turn; returns how long the agent has been silent if that is to be reported.
    fn look(&mut self, waits: Waits) -> Option<Duration> {
        let turn = self.current.as_mut()?;
        if std::mem::take(&mut turn.heard) || waits == Waits::ForUs {
            turn.silent_looks = 0;
            return None;
        }
        turn.silent_looks = turn.silent_looks.saturating_add(1);
        let told = turn.silent_looks.is_multiple_of(SILENT_LOOKS)
            && (turn.silent_looks / SILENT_LOOKS).is_power_of_two();
        told.then(|| LOOK * turn.silent_looks)
    }

    /// The agent reports a failure, before it reports the end.
    pub(super) fn mark_failed(&mut self) {
        if let Some(turn) = &mut self.current {
            turn.failed = true;
        }
    }

    /// Whether the agent has reported that the running turn failed.
    fn is_failed(&self) -> bool {
        self.current.as_ref().is_some_and(|turn| turn.failed)
    }

    /// The updates are a turn of the past, which no prompt begins and nothing ends.
    pub(super) fn tell_past(&mut self) {
        self.current = Some(Turn::default());
    }

    /// A new session has cost nothing.
    pub(super) fn begins_anew(&mut self) {
        self.cost_before = Some(0.0);
    }

    pub(super) fn used(&mut self, usage: TokenUsage) {
        if let Some(turn) = &mut self.current {
            turn.usage = Some(turn.usage.unwrap_or_default().plus(usage));
        }
    }

    pub(super) fn costs(&mut self, dollars: f64) {
        if self.cost_before.is_none() && self.current.is_none() {
            self.cost_before = Some(dollars);
        }
        self.cost = Some(dollars);
    }

    fn cost_of_turn(&mut self) -> Option<f64> {
        let (before, now) = (self.cost_before, self.cost);
        self.cost_before = now.or(before);
        let cost = now? - before?;
        (cost > 0.0).then_some(cost)
    }
}

/// What a silent agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// An answer, a command or a file from Portolan, or a tool of its own, which may take long.
    ForUs,
    /// The reason is not known.
    Unknown,
}

impl Translate {
    /// Reports a long silence of the agent during a turn, if nothing else explains it.
    pub(super) fn look_for_silence(&mut self, out: &mut Output) {
        if !self.turns.running() {
            return;
        }
        let busy = self.tools.any_open() || self.requests.any() || self.under_way.any();
        let waits = if busy { Waits::ForUs } else { Waits::Unknown };
        if let Some(silence) = self.turns.look(waits) {
            let text = format!(
                "{} has said nothing for {} s; it may be waiting for its model or trying again. To stop the \
                 turn, interrupt it",
                self.setup.title,
                silence.as_secs()
            );
            notice(Level::Warning, text, out);
        }
        out.set_timer(HEARD_SINCE, LOOK);
    }

    pub(super) fn prompt(&mut self, instruction_id: InstructionId, content: &[Content], out: &mut Output) {
        if self.turns.running() {
            // The session holds prompts back; agents differ in how they treat a second prompt.
            return out.rejected(instruction_id, "a turn is running; the agent takes one prompt at a time");
        }
        let takes = self.session.takes();
        let blocks: Result<Vec<Value>, String> =
            content.iter().map(|piece| wire::block(piece, takes)).collect();
        let blocks = match blocks {
            Ok(blocks) => blocks,
            Err(why) => return out.rejected(instruction_id, format!("{} {why}", self.setup.title)),
        };
        self.session.live();
        let params = self.of_session(json!({ "prompt": blocks }));
        if self.ask(Some(instruction_id), What::Prompt, "session/prompt", params, out) {
            self.turns.current = Some(Turn { instruction_id: Some(instruction_id), ..Turn::default() });
            out.set_timer(HEARD_SINCE, LOOK);
            out.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
        }
    }

    /// The agent is at work: it has taken its prompt.
    pub(super) fn sign_of_life(&mut self, out: &mut Output) {
        if let Some(instruction_id) = self.turns.current.as_mut().and_then(|turn| turn.instruction_id.take())
        {
            out.consumed(instruction_id, None);
        }
    }

    pub(super) fn prompt_undelivered(&mut self, instruction_id: InstructionId, out: &mut Output) {
        if self.turns.current.take_if(|turn| turn.instruction_id == Some(instruction_id)).is_some() {
            out.clear_timer(HEARD_SINCE);
            let result = TurnResult::bare(TurnOutcome::Interrupted);
            out.report(Report::TurnEnded { result: Box::new(result), raw: None });
        }
    }

    // -------------------------------------------------------------------------------------- how it ends

    pub(super) fn prompt_answered(&mut self, result: Result<Value, Error>, line: &str, out: &mut Output) {
        if !self.turns.running() {
            return;
        }
        let stopped = self.turns.is_cancelled();
        // The last message shows whether the turn failed. A message that was cut off is ended as cut off.
        let cut_off = stopped || matches!(&result, Ok(told) if told["stopReason"] == "cancelled");
        if !cut_off {
            self.end_all_words(Ending::Whole, out);
        }
        let mut ended = match result.and_then(|result| self.told_failure().map_or(Ok(result), Err)) {
            Ok(result) => {
                let reason = wire::text(&result, "stopReason");
                TurnResult {
                    error: self.said_why(&reason),
                    stop_reason: Some(reason.clone()).filter(|reason| !reason.is_empty()),
                    usage: wire::tokens(&result["usage"]),
                    by_model: self.by_model(&result["_meta"]["quota"]),
                    ..TurnResult::bare(outcome(&reason))
                }
            }
            Err(error) => {
                if errors::wants_login(&error) && !stopped {
                    self.tell_login(&error, out);
                }
                let info = errors::info(&error, &self.way_to_log_in());
                TurnResult { error: Some(info), ..TurnResult::bare(TurnOutcome::Failed) }
            }
        };
        if stopped {
            // Goose reports it as a normal end, Qwen as an error.
            ended = TurnResult { outcome: TurnOutcome::Interrupted, error: None, ..ended };
        }
        self.end_turn(ended, Some(line), out);
    }

    /// Ends the turn that runs.
    fn end_turn(&mut self, mut result: TurnResult, line: Option<&str>, out: &mut Output) {
        self.sign_of_life(out);
        out.clear_timer(CANCELLED_BY);
        out.clear_timer(HEARD_SINCE);
        let Some(turn) = self.turns.current.take() else { return };
        let cut = result.outcome == TurnOutcome::Interrupted;
        self.end_all_words(if cut { Ending::CutOff } else { Ending::Whole }, out);
        self.tools_left_open(out);
        self.subagents_left(result.outcome, out);
        self.withdraw_all(out);
        let total = |by_model: &ByModel| {
            let shares = by_model.values().map(|share| share.usage);
            shares.reduce(TokenUsage::plus)
        };
        result.text = self.messages.take_said();
        result.usage = result.usage.or(turn.usage).or_else(|| total(&result.by_model));
        if let (Some(usage), Some(model), true) =
            (result.usage, self.settings.model(), result.by_model.is_empty())
        {
            let share = result.by_model.entry(model.to_owned()).or_default();
            share.usage = usage;
            share.cost_usd = self.setup.prices.cost(model, usage);
        }
        let priced: Option<f64> = result.by_model.values().map(|share| share.cost_usd).sum();
        let priced = priced.filter(|_| !result.by_model.is_empty());
        result.cost_usd = self.turns.cost_of_turn().or(priced);
        if result.cost_usd.is_some() {
            self.cost_told(out);
        }
        let raw = line.map(|line| Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::TurnEnded { result: Box::new(result), raw });
    }

    /// Tokens by model, if the agent reports them.
    fn by_model(&self, quota: &Value) -> ByModel {
        let mut by_model = ByModel::new();
        for told in wire::list(quota, "model_usage") {
            let (Some(model), Some(usage)) =
                (wire::some_text(told, "model"), wire::tokens(&told["token_count"]))
            else {
                continue;
            };
            let share = by_model.entry(model.clone()).or_default();
            share.usage = share.usage.plus(usage);
            share.cost_usd = self.setup.prices.cost(&model, share.usage);
        }
        by_model
    }

    /// The failure of a turn that the agent reports as if the model had spoken.
    fn told_failure(&self) -> Option<Error> {
        let said = self.messages.said().unwrap_or_default().trim();
        let told = self.turns.is_failed()
            || self.setup.known.tells_failure.iter().any(|words| said.starts_with(words));
        told.then(|| Error { code: Error::INTERNAL, message: said.to_owned(), data: None })
    }

    fn said_why(&self, reason: &str) -> Option<ErrorInfo> {
        let (kind, message, way_out) = match reason {
            "max_tokens" => {
                (ErrorKind::OutputLimit, "the model reached its output limit", "ask the model to go on")
            }
            "refusal" => {
                (ErrorKind::Refused, "the model refused", "rephrase the prompt, or start a new session")
            }
            _ => return None,
        };
        let message = format!("{}: {message}", self.setup.title);
        Some(ErrorInfo { kind, message, way_out: Some(way_out.into()) })
    }

    // -------------------------------------------------------------------------------------- interrupts

    pub(super) fn interrupt(&mut self, instruction_id: Option<InstructionId>, out: &mut Output) {
        let Some(turn) = &mut self.turns.current else {
            if let Some(instruction_id) = instruction_id {
                out.consumed(instruction_id, None);
            }
            return self.withdraw_all(out);
        };
        turn.cancelled = true;
        let message = DIALECT.notification("session/cancel", Some(self.of_session(json!({}))));
        match instruction_id {
            Some(instruction_id) => out.write_and_consume(instruction_id, &message),
            None => out.write(&message),
        }
        out.set_timer(CANCELLED_BY, self.setup.patience);
        // The session has closed the requests; the agent still waits for an answer.
        self.withdraw_all(out);
    }

    /// The agent was asked to stop and does not answer.
    pub(super) fn never_cancelled(&mut self, out: &mut Output) {
        if !self.turns.running() {
            return;
        }
        self.calls.give_up(|call| call.what == What::Prompt, out);
        let within = self.setup.patience.as_secs_f32();
        let text = format!(
            "{} did not report within {within} s that it stopped; it may still be at work. To end it, stop \
             the session",
            self.setup.title
        );
        notice(Level::Warning, text, out);
        self.end_turn(TurnResult::bare(TurnOutcome::Interrupted), None, out);
    }

    pub(super) fn usage_told(&mut self, update: &Value, out: &mut Output) {
        if update["cost"]["currency"] == "USD"
            && let Some(dollars) = update["cost"]["amount"].as_f64()
        {
            self.turns.costs(dollars);
            // Agents that know no prices also report zero.
            if dollars > 0.0 {
                self.cost_told(out);
            }
        }
        let Some(used) = update["used"].as_u64() else { return };
        // How much of the context is used; the cached part is not reported.
        let usage = TokenUsage { input: used, ..TokenUsage::default() };
        let context_window = update["size"].as_u64().filter(|size| *size > 0);
        let model = self.settings.model().map(str::to_owned);
        out.event(Event::Usage { usage, model, parent: None, context_window, context_only: true });
    }
}

fn outcome(reason: &str) -> TurnOutcome {
    match reason {
        "cancelled" => TurnOutcome::Interrupted,
        "max_turn_requests" => TurnOutcome::MaxTurns,
        "max_tokens" | "refusal" => TurnOutcome::Failed,
        _ => TurnOutcome::Completed,
    }
}
