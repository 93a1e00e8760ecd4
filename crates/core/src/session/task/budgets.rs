//! The session and the ledger: what this session uses goes to the ledger, and what is spent of its budgets comes back.

use std::time::Duration;

use tokio::time::Instant;

use super::{Task, Working};
use crate::{
    log::Book,
    policy::budget::next_day,
    registry::ledger,
    session::{spending::Used, state::State},
};

impl Task {
    /// Tells the machine what all sessions have used of the budgets that count this one.
    pub(super) fn look_at_budgets(&mut self, working: &mut Working) {
        let now = self.clock.now();
        let used = self.log.state().used.clone();
        self.tell_ledger(working, &used);
        let budgets = self.ledger.budgets_of(&self.user, now);
        let mut book = self.log.book();
        self.machine.know_budgets(&mut book, now, budgets);
    }

    /// Prompts wait for a budget that may begin again with the next day.
    pub(super) fn waits_for_a_day(&self) -> bool {
        let state = self.log.state();
        state.summary.over_budget.is_some() && state.budgets.iter().any(|standing| standing.per.is_some())
    }

    /// When the next day begins, if prompts wait for it.
    pub(super) fn next_day(&self) -> Option<Instant> {
        let now = self.clock.now();
        let wait = next_day(now).0.saturating_sub(now.0).max(0);
        self.waits_for_a_day().then(|| Instant::now() + Duration::from_millis(wait.unsigned_abs()))
    }
}

impl Task {
    /// Tells the ledger what this session has used.
    fn tell_ledger(&self, working: &mut Working, used: &Used) {
        if working.used.as_ref() != Some(used) {
            self.ledger.record(self.id, &self.user, used);
            working.used = Some(used.clone());
        }
    }

    /// Tells the ledger what this session has used, and adds the row of the day to the entries that are to be written.
    pub(super) fn keep_used(&self, working: &mut Working, book: &mut Book<State>) {
        let used = book.state().used.clone();
        self.tell_ledger(working, &used);
        let row = (used.day, used.today);
        if working.row != Some(row) && used.today.turns > 0 {
            working.row = Some(row);
            book.also(ledger::row(self.id, &self.user, &used));
        }
    }
}
