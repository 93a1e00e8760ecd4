//! Budgets: when one warns, when one stops the running turn, and when waiting prompts go on.
//!
//! The session's own budget is in its state. The others are told by the task with what every session has used of them;
//! what this session uses from then on is added here, so that the next prompt is judged by it at once.

use super::{Machine, memory::Running};
use crate::{
    Action, Actor, Event, Millis, Refusal, RefusalCode, WayOut,
    access::PolicySource,
    event::{Level as Importance, TurnOrigin},
    log::Book,
    policy::{
        Budget, BudgetTerms, Spending, Standing,
        budget::{Level, Measure},
    },
    ports::{InstructionId, Order},
    request::Outcome,
    session::{
        spending::SessionBudget,
        state::{State, Status},
    },
};

/// The budgets that count this session besides its own, and what is used of them.
#[derive(Debug, Default)]
pub(super) struct Shared {
    budgets: Vec<(Budget, Spending)>,
    /// What this session had used when the budgets were told.
    own: Spending,
}

/// When budgets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A turn has just begun.
    TurnStarted,
    /// Any other time.
    Other,
}

impl Machine {
    /// From now on these budgets count this session besides its own, with what every session has used of them. Prompts
    /// that waited for a budget with room go on.
    pub fn know_budgets(&mut self, book: &mut Book<State>, now: Millis, budgets: Vec<(Budget, Spending)>) {
        let own = book.state().used.so_far();
        self.shared = Shared { budgets, own };
        let state = book.state();
        // What others use is no activity of a session with nothing to do.
        if state.turn.is_some() || state.summary.queued > 0 || !state.budgets.is_empty() {
            self.go_on_if_room(book, now);
        }
    }

    /// Does a budget count this session?
    pub(super) fn is_budgeted(&self, state: &State) -> bool {
        state.budget.is_some() || !self.shared.budgets.is_empty()
    }

    /// Every budget of this session, and how far it is spent.
    fn standings(&self, state: &State, now: Millis) -> Vec<Standing> {
        let since = state.used.so_far().minus(self.shared.own);
        let shared = self.shared.budgets.iter();
        let shared = shared.filter_map(|(budget, spent)| budget.standing(&spent.plus(since)));
        let own = state.own_budget(now).and_then(|(budget, spent)| budget.standing(&spent));
        own.into_iter().chain(shared).collect()
    }

    /// Looks at every budget: says what has changed, and stops the running turn if a budget is spent. Returns whether
    /// prompts must wait.
    pub(super) fn weigh(&mut self, book: &mut Book<State>, now: Millis, moment: Moment) -> bool {
        if !self.is_budgeted(book.state()) && book.state().budgets.is_empty() {
            return false;
        }
        let standings = self.standings(book.state(), now);
        let known = book.state().budgets.clone();
        for standing in &standings {
            let before = known.iter().find(|known| known.budget == standing.budget);
            if before.map_or(Level::Fine, |before| before.level) != standing.level {
                say(book, now, standing.clone());
            }
        }
        for gone in known.iter().filter(|known| !standings.iter().any(|now| now.budget == known.budget)) {
            say(book, now, Standing { level: Level::Fine, ..gone.clone() });
        }
        let mut over = standings.into_iter().filter(|standing| standing.level == Level::Over).peekable();
        let is_over = over.peek().is_some();
        let agent_began = book.state().turn.as_ref().is_some_and(|turn| turn.origin == TurnOrigin::Agent);
        let stops = |standing: &Standing| {
            // The turn that reaches the number of turns may end; the agent begins no turn of its own after it.
            standing.measure != Measure::Turns || moment == Moment::TurnStarted && agent_began
        };
        if let Some(standing) = over.find(stops) {
            self.stop_turn(book, now, standing);
        }
        is_over
    }

    /// Interrupts the running turn, once.
    fn stop_turn(&mut self, book: &mut Book<State>, now: Millis, standing: Standing) {
        let Some(turn) = book.state().turn.as_ref().map(|turn| turn.turn) else { return };
        let can_stop = self.memory.running == Running::Ready && book.state().capabilities.interrupt;
        if !can_stop || self.memory.stopped_turn == Some(turn) {
            return;
        }
        self.memory.stopped_turn = Some(turn);
        let by = Actor::policy(PolicySource::Budget, standing.name());
        let open: Vec<_> = book.state().requests.iter().map(|open| open.request).collect();
        for request in open {
            self.close_request(book, now, request, Outcome::Interrupted { by: by.clone() });
        }
        // The entry gives the reason, and its number names the instruction.
        let seq = say(book, now, standing);
        self.tell(book, InstructionId(seq.0), Order::Interrupt, None);
    }

    /// A prompt came: must it wait for a budget? Then the log says why.
    pub(super) fn must_wait(&mut self, book: &mut Book<State>, now: Millis) -> bool {
        let said = book.head();
        let waits = self.weigh(book, now, Moment::Other);
        let spent = book.state().budgets.iter().find(|standing| standing.level == Level::Over).cloned();
        if let (true, Some(standing)) = (waits && book.head() == said, spent) {
            say(book, now, standing);
        }
        waits
    }

    /// Sends the prompts that waited for a budget, if none is spent any more.
    fn go_on_if_room(&mut self, book: &mut Book<State>, now: Millis) {
        let waited = book.state().summary.over_budget.is_some();
        if self.weigh(book, now, Moment::Other) || !waited {
            return;
        }
        let state = book.state();
        let parked = self.memory.running == Running::No && state.summary.queued > 0 && !self.shutting_down;
        if parked && !state.stopped && state.summary.status != Status::Error && self.can_start(state).is_ok()
        {
            self.start_agent();
        }
        self.pump(book, now);
    }

    pub(super) fn set_budget(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        by: &Actor,
        budget: Option<BudgetTerms>,
    ) {
        book.append(now, Some(by.clone()), Event::BudgetChanged { budget, reset: false });
        Self::say_unpriced(book, now);
        self.go_on_if_room(book, now);
    }

    pub(super) fn reset_budget(&mut self, book: &mut Book<State>, now: Millis, by: &Actor) {
        let budget = book.state().budget.as_ref().map(SessionBudget::terms);
        book.append(now, Some(by.clone()), Event::BudgetChanged { budget, reset: true });
        self.go_on_if_room(book, now);
    }

    /// A limit of the cost never binds if the agent does not report its cost.
    pub(super) fn say_unpriced(book: &mut Book<State>, now: Millis) {
        let state = book.state();
        let limited = state.budget.as_ref().is_some_and(|budget| budget.limits.cost_usd.is_some());
        if limited && !state.capabilities.cost_tracking {
            let text = "the agent does not report its cost, so the cost limit of this session's budget does not stop \
                        the session"
                .to_owned();
            book.append(now, Some(Actor::Daemon), Event::Notice { level: Importance::Warning, text });
        }
    }
}

/// May this command about the budget be accepted?
pub(super) fn admit(state: &State, action: &Action) -> Result<(), Refusal> {
    match action {
        Action::SetBudget { budget: Some(BudgetTerms { limits, .. }) } => {
            limits.check().map_err(|why| Refusal::new(RefusalCode::Invalid, why))
        }
        Action::SetBudget { budget: None } | Action::ResetBudget if state.budget.is_none() => {
            Err(Refusal::new(RefusalCode::NotFound, "this session has no budget of its own"))
        }
        _ => Ok(()),
    }
}

/// Says how far a budget is spent.
fn say(book: &mut Book<State>, now: Millis, standing: Standing) -> crate::Seq {
    let by = Actor::policy(PolicySource::Budget, standing.name());
    book.append(now, Some(by), Event::BudgetReached { standing: Box::new(standing) })
}

/// Why a prompt cannot go into the running turn: a spent budget stops that turn.
pub(super) fn refuse_steering(state: &State) -> Result<(), Refusal> {
    let stops = |standing: &&Standing| standing.level == Level::Over && standing.measure != Measure::Turns;
    state.budgets.iter().find(stops).map_or(Ok(()), |standing| {
        let message = format!("{}; the prompt waits", standing.words());
        Err(Refusal::new(RefusalCode::Busy, message).with_way_out(WayOut::ListBudgets))
    })
}
