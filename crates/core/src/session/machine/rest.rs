//! Rest: when an agent with nothing to do is ended, and when it is started again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Machine, memory::Running};
use crate::{
    Refusal,
    command::CommandKey,
    session::state::{OpenCommand, State, Status},
};

/// Why an agent with nothing to do is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// The agent had nothing to do for this long.
    Idle(Duration),
    /// Another agent needs its place, because only so many run at once.
    Room(usize),
}

impl Rest {
    pub(super) fn words(self) -> String {
        match self {
            Self::Idle(time) => {
                format!(
                    "the agent had nothing to do for {} and was ended; the next prompt starts it again",
                    spell(time)
                )
            }
            Self::Room(limit) => format!(
                "the agent had nothing to do and was ended, because another agent was starting and at most {limit} run at \
                 once; the next prompt starts it again"
            ),
        }
    }
}

/// A time in words, in the largest unit that fits.
fn spell(time: Duration) -> String {
    let (count, unit) = match time.as_secs() {
        seconds if seconds > 0 && seconds % 60 == 0 => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

impl Machine {
    /// An accepted prompt comes again under its id; `None` means any prompt. If the daemon's end parked the prompt, its
    /// sender waits for it, and the agent is started. Not if somebody stopped the agent since, or if it failed.
    pub fn send_parked(&mut self, state: &State, key: Option<&CommandKey>) -> Result<(), Refusal> {
        let is_meant = |open: &OpenCommand| key.is_none_or(|key| open.key == *key);
        let waits = state.commands.iter().any(|open| open.is_queued_prompt() && is_meant(open));
        let parked = waits && self.memory.running == Running::No && !self.shutting_down;
        // A prompt that waits for a budget goes on when the budget has room.
        let parked = parked && state.summary.over_budget.is_none();
        if parked && !state.stopped && state.summary.status != Status::Error {
            self.can_start(state)?;
            self.start_agent();
        }
        Ok(())
    }

    /// The agent runs and has nothing to do, and ending it costs only the time of the next start.
    pub fn may_rest(&self, state: &State) -> bool {
        let can_go_on = state.summary.agent_session.is_some() || state.summary.turns == 0;
        self.memory.running == Running::Ready
            && state.turn.is_none()
            && self.outbox.is_empty()
            && !self.memory.unkept
            && state.capabilities.reliable_resume
            && can_go_on
            && has_nothing_to_do(state)
    }

    /// Ends the agent; the next prompt starts it again.
    pub fn put_to_rest(&mut self, state: &State, rest: Rest) {
        if self.may_rest(state) {
            self.memory.rest = Some(rest);
            self.stop_agent();
        }
    }
}

/// The agent has no work, waits for nothing, and has no new instruction.
fn has_nothing_to_do(state: &State) -> bool {
    state.requests.is_empty()
        && state.items.is_empty()
        && state.tools.is_empty()
        && state.subagents.is_empty()
        && state.tasks.is_empty()
        && state.summary.status != Status::Disconnected
        && state.commands.iter().all(|open| open.stage.is_final())
}
