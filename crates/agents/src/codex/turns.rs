//! Turns: how they begin and end, what they use, how they are interrupted.
//!
//! A turn is known from the answer to `turn/start` or from `turn/started`, whichever comes first; Codex cannot
//! interrupt a turn by its id in between. The session closes what Codex leaves open when a turn ends.

use bytes::Bytes;
use portolan_core::{
    Event,
    event::{Content, PlanStep, ToolOutcome, TurnOrigin, TurnOutcome, TurnResult},
    ports::{InstructionId, Report},
    usage::{ByModel, TokenUsage},
};
use serde_json::{Value, json};

use super::{
    calls::What,
    errors,
    late::Held,
    prompts::Turning,
    threads::Whose,
    translate::Translate,
    wire::{Told, Turn as Wire, TurnError, text},
};
use crate::driver::Output;

/// Interrupts that may wait for a turn to begin: one is enough, the others only wait for its result.
const MAX_INTERRUPTS: usize = 64;

/// Prompts that may wait to enter a turn: as many as the session's queue holds.
const MAX_STEERING: usize = 256;

/// The running turn, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    current: Option<Turn>,
    /// The last ended turn: an answer about it may come late.
    last: Option<String>,
    /// Interrupts that cannot be sent yet; not every sender waits for a result.
    interrupts: Vec<Option<InstructionId>>,
    /// Prompts that are to enter a turn, and cannot yet.
    steering: Vec<(InstructionId, Vec<Content>)>,
    /// The running turn was started to make the context smaller.
    compacts: bool,
    /// Ends that wait for commands.
    pub(super) held: Held,
}

#[derive(Debug, Default)]
struct Turn {
    id: Option<String>,
    /// Codex has reported that it runs.
    runs: bool,
    said: Option<String>,
    trouble: Option<TurnError>,
    usage: Option<TokenUsage>,
    by_model: ByModel,
    requests: u32,
}

impl Turns {
    pub(super) fn running(&self) -> bool {
        self.current.is_some()
    }

    /// The turn that can be steered.
    pub(super) fn steerable(&self) -> Option<&str> {
        self.current.as_ref().filter(|turn| turn.runs)?.id.as_deref()
    }

    pub(super) fn says(&mut self, words: &str) {
        if let Some(turn) = &mut self.current {
            turn.said = Some(words.to_owned());
        }
    }

    /// Who asked for a smaller context.
    pub(super) fn compaction_trigger(&self) -> &'static str {
        if self.compacts { "manual" } else { "auto" }
    }
}

impl Translate {
    /// Codex has accepted a request that begins a turn.
    pub(super) fn turn_accepted(
        &mut self,
        instruction_id: Option<InstructionId>,
        turning: Turning,
        result: &Value,
        out: &mut Output,
    ) {
        let id = Some(text(&result["turn"], "id")).filter(|id| !id.is_empty());
        let over = id.is_some() && id == self.turns.last;
        if over {
            if let Some(instruction_id) = instruction_id {
                out.consumed(instruction_id, None);
            }
            return self.send_steering(out);
        }
        self.turns.compacts = turning == Turning::Compact;
        let begun = self.turns.current.is_none();
        let turn = self.turns.current.get_or_insert_default();
        turn.id = turn.id.take().or(id);
        if begun {
            out.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
        }
        // After the turn that it begins: if the prompt were consumed without a turn, the session would send the next
        // prompt.
        if let Some(instruction_id) = instruction_id {
            out.consumed(instruction_id, None);
        }
        if !self.turns.interrupts.is_empty() {
            self.send_interrupts(out);
        }
    }

    pub(super) fn turn_refused(
        &mut self,
        instruction_id: Option<InstructionId>,
        turning: Turning,
        error: &str,
        out: &mut Output,
    ) {
        if let Some(instruction_id) = instruction_id {
            out.rejected(instruction_id, format!("Codex refused to {}: {error}", turning.words()));
        }
        self.turn_in_doubt(out);
    }

    /// It is not known whether a requested turn will begin. If it begins, Codex reports it.
    pub(super) fn turn_in_doubt(&mut self, out: &mut Output) {
        self.let_interrupts_go(out);
        self.send_steering(out);
    }

    pub(super) fn turn_started(&mut self, told: &Told, out: &mut Output) {
        if !self.threads.is_main(&told.thread_id) {
            return self.subagent_begins(&told.thread_id, None, out);
        }
        self.end_held_turns(out);
        let origin = if self.calls.is_beginning_a_turn() { TurnOrigin::Prompt } else { TurnOrigin::Agent };
        let begun = self.turns.current.is_none();
        let turn = self.turns.current.get_or_insert_default();
        turn.id = Some(told.turn.id.clone()).filter(|id| !id.is_empty());
        turn.runs = true;
        if begun {
            out.report(Report::TurnStarted { origin });
        }
        self.send_interrupts(out);
        self.send_steering(out);
    }

    pub(super) fn turn_ends(&mut self, thread: &str, turn: Wire, line: &str, out: &mut Output) {
        if !self.threads.is_main(thread) {
            return self.subagent_ends(thread, &turn, out);
        }
        let Wire { id, status, error, duration_ms } = turn;
        let outcome = match status.as_str() {
            "interrupted" => TurnOutcome::Interrupted,
            "failed" => TurnOutcome::Failed,
            _ => TurnOutcome::Completed,
        };
        let turn = self.turns.current.take().unwrap_or_default();
        self.turns.last = Some(id);
        self.turns.compacts = false;
        self.items.turn_ends(thread, outcome, out);
        let error = error.or(turn.trouble).filter(|_| outcome == TurnOutcome::Failed);
        let structured = self.setup.schema.as_ref().filter(|_| outcome == TurnOutcome::Completed);
        let structured =
            structured.and(turn.said.as_deref()).and_then(|said| serde_json::from_str(said).ok());
        let priced = turn.by_model.values().map(|share| share.cost_usd);
        let cost_usd = priced.sum::<Option<f64>>().filter(|_| !turn.by_model.is_empty());
        let result = TurnResult {
            error: error.as_ref().map(errors::info),
            text: turn.said,
            structured,
            steps: Some(turn.requests).filter(|requests| *requests > 0),
            duration_ms,
            usage: turn.usage,
            by_model: turn.by_model,
            cost_usd,
            ..TurnResult::bare(outcome)
        };
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::TurnEnded { result: Box::new(result), raw });
        self.let_interrupts_go(out);
        if outcome == TurnOutcome::Interrupted {
            // Commands would otherwise go on.
            let params = self.of_thread(json!({}));
            self.ask(None, What::Quiet, "thread/backgroundTerminals/clean", Some(params), out);
        }
        self.send_steering(out);
    }

    // -------------------------------------------------------------------------------------- subagents

    /// With its first prompt, if the subagent has waited for it to be identified.
    pub(super) fn subagent_begins(&mut self, thread: &str, first_words: Option<&str>, out: &mut Output) {
        if !self.threads.is_named(thread, first_words) {
            return;
        }
        let Some(child) = self.threads.child(thread).filter(|child| !child.runs) else { return };
        child.runs = true;
        let child = child.clone();
        let first_line = child.prompt.as_deref().and_then(|prompt| prompt.lines().next()).map(str::to_owned);
        out.event(Event::SubagentStarted {
            subagent: child.subagent,
            parent: child.parent,
            subagent_type: None,
            description: child.nickname.or(first_line).unwrap_or_default(),
            prompt: child.prompt,
            model: child.model,
            background: true,
            team: None,
        });
    }

    fn subagent_ends(&mut self, thread: &str, turn: &Wire, out: &mut Output) {
        let outcome = match turn.status.as_str() {
            "completed" => ToolOutcome::Done,
            "interrupted" => ToolOutcome::Interrupted,
            _ => ToolOutcome::Failed,
        };
        if self.threads.waits(thread) {
            self.subagent_begins(thread, Some(""), out);
        }
        self.items.subagent_ends(thread, out);
        let Some(child) = self.threads.child(thread).filter(|child| child.runs) else { return };
        child.runs = false;
        let (subagent, summary) = (child.subagent.clone(), child.said.take());
        out.event(Event::SubagentEnded { subagent, outcome, summary, work: None });
    }

    // --------------------------------------------------------------------------------- usage and failures

    pub(super) fn used(&mut self, told: &Told, out: &mut Output) {
        let whose = self.whose(told);
        // Resuming a thread reports the usage of its last turn once more.
        let Some(turn) = &mut self.turns.current else { return };
        let usage = TokenUsage::from(told.token_usage.last);
        let context_window = told.token_usage.model_context_window;
        let model = match &whose {
            Whose::Main => self.threads.model().map(str::to_owned),
            Whose::Subagent(_) => self.threads.child(&told.thread_id).and_then(|child| child.model.clone()),
        };
        if whose == Whose::Main {
            turn.usage = Some(turn.usage.unwrap_or_default().plus(usage));
            turn.requests += 1;
        }
        if let Some(model) = &model {
            let share = turn.by_model.entry(model.clone()).or_default();
            share.usage = share.usage.plus(usage);
            share.context_window = context_window;
            share.cost_usd = self.setup.prices.cost(model, share.usage);
        }
        out.event(Event::Usage { usage, model, parent: whose.parent(), context_window, context_only: false });
    }

    pub(super) fn failed(&mut self, told: &Told, out: &mut Output) {
        let error: TurnError = serde_json::from_value(told.error.clone()).unwrap_or_default();
        if told.will_retry {
            // `Reconnecting... 2/5`
            let count = error.message.rsplit(' ').next().and_then(|last| last.split_once('/'));
            let attempt = count.and_then(|(attempt, _)| attempt.parse().ok()).unwrap_or(1);
            let max = count.and_then(|(_, max)| max.parse().ok());
            return out.event(Event::Retry { attempt, max, delay_ms: None, error: errors::info(&error) });
        }
        match &mut self.turns.current {
            // The end of the turn reports it again.
            Some(turn) if self.threads.is_main(&told.thread_id) => turn.trouble = Some(error),
            _ => out.event(Event::Failure { error: errors::info(&error), recoverable: true }),
        }
    }

    pub(super) fn plan_updated(&mut self, told: Told, out: &mut Output) {
        let parent = self.whose(&told).parent();
        let status = |word: String| if word == "inProgress" { "in_progress".into() } else { word };
        let steps = told
            .plan
            .into_iter()
            .map(|step| PlanStep { text: step.step, status: status(step.status) })
            .collect();
        out.event(Event::Plan { steps, parent });
    }

    // -------------------------------------------------------------------------------------- interrupts

    pub(super) fn interrupt(&mut self, instruction_id: Option<InstructionId>, out: &mut Output) {
        match &self.turns.current {
            Some(turn) => {
                // Before Codex has reported that the turn runs, it refuses the turn's id and takes no other.
                let id = turn.id.clone().filter(|_| turn.runs).unwrap_or_default();
                let params = self.of_thread(json!({ "turnId": id }));
                self.ask(instruction_id, What::Interrupt, "turn/interrupt", Some(params), out);
            }
            None if self.calls.is_beginning_a_turn() && self.turns.interrupts.len() < MAX_INTERRUPTS => {
                self.turns.interrupts.push(instruction_id);
            }
            None => {
                if let Some(instruction_id) = instruction_id {
                    out.consumed(instruction_id, None);
                }
            }
        }
    }

    pub(super) fn not_interrupted(
        &mut self,
        instruction_id: Option<InstructionId>,
        error: &str,
        out: &mut Output,
    ) {
        match (&self.turns.current, instruction_id) {
            (Some(turn), instruction_id) if !turn.runs && self.turns.interrupts.len() < MAX_INTERRUPTS => {
                self.turns.interrupts.push(instruction_id);
            }
            (Some(_), Some(instruction_id)) if !error.contains("no active turn") => {
                out.rejected(instruction_id, error);
            }
            // There is nothing left to stop.
            (_, Some(instruction_id)) => out.consumed(instruction_id, None),
            (_, None) => {}
        }
    }

    fn send_interrupts(&mut self, out: &mut Output) {
        for instruction_id in std::mem::take(&mut self.turns.interrupts) {
            self.interrupt(instruction_id, out);
        }
    }

    // ---------------------------------------------------------------------------------------- steering

    /// A prompt for the running turn. Codex' own commands are turns themselves: they wait for the end.
    pub(super) fn steer(&mut self, instruction_id: InstructionId, content: Vec<Content>, out: &mut Output) {
        match (self.turns.steerable().map(str::to_owned), self.input(&content)) {
            (Some(turn), Some(input)) => {
                let name = self.name_of(instruction_id);
                let params = self.of_thread(
                    json!({ "input": input, "expectedTurnId": turn, "clientUserMessageId": name }),
                );
                self.ask(Some(instruction_id), What::Steer(content), "turn/steer", Some(params), out);
            }
            _ if self.turns.running() || self.calls.is_beginning_a_turn() => {
                self.wait_to_steer(instruction_id, content, out);
            }
            _ => self.prompt(instruction_id, &content, out),
        }
    }

    /// Codex certainly has not taken the prompt if it knows no such turn, or the turn takes nothing. Then the prompt is
    /// for the next turn: it enters that turn, or begins it.
    pub(super) fn not_steered(
        &mut self,
        instruction_id: Option<InstructionId>,
        content: Vec<Content>,
        error: &str,
        out: &mut Output,
    ) {
        let Some(instruction_id) = instruction_id else { return };
        let is_untaken = ["no active turn", "expected active turn", "cannot steer"];
        if !is_untaken.iter().any(|words| error.contains(words)) {
            return out.rejected(
                instruction_id,
                format!("Codex refused to take the prompt into the turn: {error}"),
            );
        }
        if self.turns.running() || self.calls.is_beginning_a_turn() {
            self.wait_to_steer(instruction_id, content, out);
        } else {
            self.prompt(instruction_id, &content, out);
        }
    }

    fn wait_to_steer(&mut self, instruction_id: InstructionId, content: Vec<Content>, out: &mut Output) {
        if self.turns.steering.len() < MAX_STEERING {
            self.turns.steering.push((instruction_id, content));
        } else {
            out.rejected(instruction_id, "too many prompts wait to enter a turn");
        }
    }

    /// A turn has begun or ended: sends waiting prompts, if possible.
    fn send_steering(&mut self, out: &mut Output) {
        for (instruction_id, content) in std::mem::take(&mut self.turns.steering) {
            self.steer(instruction_id, content, out);
        }
    }

    /// Interrupts of a turn that may still begin.
    pub(super) fn interrupts_in_doubt(&mut self, reason: &str, out: &mut Output) {
        for instruction_id in std::mem::take(&mut self.turns.interrupts).into_iter().flatten() {
            out.report(Report::Uncertain { instruction_id, reason: reason.to_owned() });
        }
    }

    fn let_interrupts_go(&mut self, out: &mut Output) {
        for instruction_id in std::mem::take(&mut self.turns.interrupts).into_iter().flatten() {
            out.consumed(instruction_id, None);
        }
    }
}
