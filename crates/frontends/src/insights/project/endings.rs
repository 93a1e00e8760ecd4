//! How turns, agents and commands end.

use portolan_core::{
    Seq,
    command::Stage,
    event::{Exit, ExitReason, TurnOutcome, TurnResult},
};

use super::{MAIN, View, tree::Life};
use crate::{
    insights::wire::{ErrorCode, ServerMessage, SessionCompleted},
    way_out,
};

impl View {
    pub(super) fn turn_ended(&mut self, result: &TurnResult, out: &mut Vec<ServerMessage>) {
        self.finish_endings(out);
        self.turn_runs = false;
        self.prompts.clear();
        let life = match result.outcome {
            TurnOutcome::Completed | TurnOutcome::Interrupted => Life::Completed,
            TurnOutcome::Failed
            | TurnOutcome::MaxTurns
            | TurnOutcome::MaxBudget
            | TurnOutcome::StructuredOutputFailed => Life::Error,
        };
        if life == Life::Error {
            let message = match (&result.error, result.outcome) {
                (Some(error), _) => error.message.clone(),
                (None, TurnOutcome::MaxTurns) => "the step limit was reached".into(),
                (None, TurnOutcome::MaxBudget) => "the cost limit was reached".into(),
                (None, _) => "the turn failed".into(),
            };
            self.tell_error(ErrorCode::HandlerError, MAIN, &message, out);
            self.turn_error = Some(message);
        }
        self.meter.end_turn(result);
        self.rest(life, out);
        let (session_id, total_usage) = (self.session.clone(), self.meter.total());
        self.tell(ServerMessage::SessionCompleted(SessionCompleted { session_id, total_usage }), out);
    }

    /// Ends of subagents whose calls never got a result.
    fn finish_endings(&mut self, out: &mut Vec<ServerMessage>) {
        for (subagent, ending) in std::mem::take(&mut self.endings) {
            self.completed(&subagent, ending, out);
        }
    }

    pub(super) fn exited(&mut self, exit: &Exit, out: &mut Vec<ServerMessage>) {
        self.finish_endings(out);
        self.runs = false;
        self.turn_runs = false;
        if exit.reason == ExitReason::Idle {
            // The session continues with the next input, so nothing has ended.
            return;
        }
        let failed = exit.reason.is_error();
        let never_began = matches!(exit.reason, ExitReason::NotStarted | ExitReason::NotReady);
        if failed && self.turn_error.as_ref() != Some(&exit.message) {
            let create_failed = never_began && !self.was_ready;
            let code = if create_failed { ErrorCode::SessionCreateFailed } else { ErrorCode::HandlerError };
            self.tell_error(code, MAIN, &exit.message, out);
        }
        self.rest(if failed { Life::Error } else { Life::Completed }, out);
    }

    pub(super) fn receipt(&mut self, command: Seq, stage: &Stage, out: &mut Vec<ServerMessage>) {
        let why = match stage {
            Stage::Accepted | Stage::Sending | Stage::Delivered => return,
            Stage::Consumed { .. } => None,
            Stage::Refused { refusal } => Some(way_out::told(refusal)),
            Stage::Uncertain { reason } => Some(reason.clone()),
        };
        let own = self.own_accepted.remove(&command);
        if let (Some(code), Some(why)) = (own, &why) {
            self.tell_error(code, MAIN, why, out);
        }
        // The command has no effect, and nothing else runs.
        let was_last = self.prompts.remove(&command) && self.prompts.is_empty();
        if why.is_some() && was_last && !self.turn_runs {
            self.rest(Life::Error, out);
        }
    }
}
