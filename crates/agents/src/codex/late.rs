//! Late ends: 0.144.6 reports the end of a command about 40 ms after the end of the turn. Such a turn waits a moment
//! for its commands, so that only commands that really continue are shown as background tasks.

use std::time::Duration;

use indexmap::IndexMap;

use super::{
    translate::Translate,
    wire::{Told, Turn},
};
use crate::driver::{Output, Timer};

/// How long the end of a turn waits for the ends of its commands. Ten times the longest delay that was seen.
const WAITS: Duration = Duration::from_millis(400);

/// Turns whose end waits at once: the session's own and its subagents'. A further turn does not wait.
const MAX_HELD: usize = 64;

/// Runs while the end of a turn waits. Timers of requests count from one.
pub(super) const LATE: Timer = Timer(u64::MAX - 1);

/// Ends of turns that wait, by thread.
#[derive(Debug, Default)]
pub(super) struct Held(IndexMap<String, (Turn, String)>);

impl Translate {
    pub(super) fn turn_completed(&mut self, told: Told, line: &str, out: &mut Output) {
        let Told { thread_id: thread, turn, .. } = told;
        let waits = turn.status != "interrupted"
            && self.items.runs_commands(&thread)
            && self.turns.held.0.len() < MAX_HELD
            && !self.turns.held.0.contains_key(&thread);
        if !waits {
            // A subagent's turn ends before its caller's turn.
            self.end_held_turns(out);
            return self.turn_ends(&thread, turn, line, out);
        }
        out.set_timer(LATE, WAITS);
        self.turns.held.0.insert(thread, (turn, line.to_owned()));
    }

    /// A command has ended: ends the turn if it was the last command that the turn waits for.
    pub(super) fn command_ended(&mut self, thread: &str, out: &mut Output) {
        if self.items.runs_commands(thread) {
            return;
        }
        if let Some((turn, line)) = self.turns.held.0.shift_remove(thread) {
            self.turn_ends(thread, turn, &line, out);
            if self.turns.held.0.is_empty() {
                out.clear_timer(LATE);
            }
        }
    }

    /// The wait is over: commands that still run continue in the background.
    pub(super) fn end_held_turns(&mut self, out: &mut Output) {
        if self.turns.held.0.is_empty() {
            return;
        }
        out.clear_timer(LATE);
        for (thread, (turn, line)) in std::mem::take(&mut self.turns.held.0) {
            self.turn_ends(&thread, turn, &line, out);
        }
    }
}
