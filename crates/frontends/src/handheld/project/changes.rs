//! What an entry changes in a view: the beginnings and the ends of prompts, turns and agents.

use portolan_core::{
    Millis, Seq,
    command::{ActionName, Stage},
    event::{Exit, TurnOutcome, TurnResult},
};

use super::{EARLY_DEATH_MS, View};
use crate::{handheld::wire::SlotState, way_out};

impl View {
    /// The agent does something again.
    pub(super) fn progress(&mut self) {
        self.processing = false;
        self.forgot = None;
        self.trouble = None;
    }

    /// The agent does nothing for now; this text takes the place of its last one.
    pub(super) fn wait(&mut self, why: String) {
        self.said = Some(why);
        self.processing = false;
    }

    pub(super) fn begin_prompt(&mut self) {
        self.processing = true;
        self.trouble = None;
    }

    pub(super) fn end_agent(&mut self, exit: &Exit, at: Millis) {
        let early = |since: Millis| at.0.saturating_sub(since.0) <= EARLY_DEATH_MS;
        self.died_early = exit.reason.is_error() && self.resuming.take().is_some_and(early);
        self.exit = Some(exit.message.clone());
        self.calls.clear();
        self.processing = false;
        self.interrupting = false;
    }

    pub(super) fn begin_turn(&mut self, at: Seq) {
        self.turn_at = at;
        self.said = None;
        self.ended = None;
        self.trouble = None;
        self.interrupting = false;
    }

    pub(super) fn end_turn(&mut self, result: &TurnResult) {
        self.processing = self.prompt_underway();
        self.interrupting = false;
        self.trouble = None;
        self.calls.retain(|call, _| self.state.tools.contains(call));
        let error = || result.error.as_ref().map(|error| error.message.clone());
        self.ended = match result.outcome {
            TurnOutcome::Completed => {
                if let Some(text) = result.text.as_ref().filter(|text| !text.is_empty()) {
                    self.said = Some(text.clone());
                }
                None
            }
            TurnOutcome::Interrupted => Some((SlotState::Idle, "Interrupted".into())),
            TurnOutcome::MaxTurns => Some((SlotState::Idle, "Stopped at the limit of turns".into())),
            TurnOutcome::MaxBudget => Some((SlotState::Idle, "Stopped at the budget limit".into())),
            TurnOutcome::Failed => {
                Some((SlotState::Error, error().unwrap_or_else(|| "The turn failed".into())))
            }
            TurnOutcome::StructuredOutputFailed => Some((
                SlotState::Error,
                error().unwrap_or_else(|| "The result does not match its schema".into()),
            )),
        };
    }

    pub(super) fn settle(&mut self, name: Option<&ActionName>, stage: &Stage) {
        // A consumed prompt is about to begin a turn: the slot is not idle in between.
        let lost = matches!(stage, Stage::Refused { .. } | Stage::Uncertain { .. });
        if name == Some(&ActionName::Prompt) && lost && !self.prompt_underway() {
            self.processing = false;
        }
        if name == Some(&ActionName::Interrupt) && stage.is_final() && (lost || self.state.turn.is_none()) {
            self.interrupting = false;
        }
        if let Stage::Refused { refusal } = stage {
            self.note = Some(way_out::told(refusal));
        }
    }
}
