//! Ends that come late: 0.144.6 tells that a command has ended some 40 ms after it has told that the turn has. Such a turn
//! waits a moment for its commands, so that only those that really go on are shown as going on.

use std::time::Duration;

use indexmap::IndexMap;

use super::{
    translate::Translate,
    wire::{Told, Turn},
};
use crate::driver::{Timer, Turnout};

/// How long the end of a turn waits for the ends of its commands. Ten times what was seen.
const WAITS: Duration = Duration::from_millis(400);

/// Turns whose end waits at once: the session's own and its subagents'. One more does not wait.
const MAX_HELD: usize = 64;

/// Runs while the end of a turn waits. Requests count theirs from one.
pub(super) const LATE: Timer = Timer(u64::MAX - 1);

/// Ends of turns that wait, by thread.
#[derive(Debug, Default)]
pub(super) struct Held(IndexMap<String, (Turn, String)>);

impl Translate {
    pub(super) fn turn_completed(&mut self, told: Told, line: &str, out: &mut Turnout) {
        let Told { thread_id: thread, turn, .. } = told;
        let waits = turn.status != "interrupted"
            && self.items.runs_commands(&thread)
            && self.turns.held.0.len() < MAX_HELD
            && !self.turns.held.0.contains_key(&thread);
        if !waits {
            // A subagent's turn ends before that of whoever called it.
            self.end_held_turns(out);
            return self.turn_ends(&thread, turn, line, out);
        }
        out.set_timer(LATE, WAITS);
        self.turns.held.0.insert(thread, (turn, line.to_owned()));
    }

    /// A command has ended: was it the last that the end of its turn waits for?
    pub(super) fn command_ended(&mut self, thread: &str, out: &mut Turnout) {
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

    /// Nothing waits any longer: what still runs goes on in the background.
    pub(super) fn end_held_turns(&mut self, out: &mut Turnout) {
        if self.turns.held.0.is_empty() {
            return;
        }
        out.clear_timer(LATE);
        for (thread, (turn, line)) in std::mem::take(&mut self.turns.held.0) {
            self.turn_ends(&thread, turn, &line, out);
        }
    }
}
