//! What a session uses, folded from its entries: the sums that budgets count.

use serde::{Deserialize, Serialize};

use super::state::State;
use crate::{
    Millis,
    event::TurnResult,
    policy::{
        Budget, BudgetId, BudgetScope, BudgetTerms, Limits, Spending, Standing,
        budget::{Level, Period, day_of},
    },
    usage::TokenUsage,
};

/// A session's own budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct SessionBudget {
    /// The limits.
    pub limits: Limits,
    /// When the budget begins again by itself; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Period>,
    /// Since when the budget counts.
    pub since: Millis,
    /// What was used since, without the running turn.
    #[serde(default)]
    pub spent: Spending,
}

impl SessionBudget {
    fn new(terms: BudgetTerms, at: Millis) -> Self {
        let BudgetTerms { limits, per } = terms;
        Self { limits, per, since: at, spent: Spending::default() }
    }

    /// The limits, without what was used.
    pub(crate) fn terms(&self) -> BudgetTerms {
        BudgetTerms { limits: self.limits, per: self.per }
    }

    /// What counts at this time, without the running turn.
    pub fn spent_at(&self, now: Millis) -> Spending {
        let over = self.per == Some(Period::Day) && day_of(now) > day_of(self.since);
        if over { Spending::default() } else { self.spent }
    }

    fn add(&mut self, at: Millis, spent: Spending) {
        let before = self.spent_at(at);
        if self.per == Some(Period::Day) && day_of(at) > day_of(self.since) {
            self.since = at;
        }
        self.spent = before.plus(spent);
    }
}

/// What a session has used. For the daemon alone; stored, because after a restart only the checkpoint is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Used {
    /// The day of the last turn's end.
    pub(crate) day: i64,
    /// The turns that ended on that day.
    pub(crate) today: Spending,
    /// Every turn that ended.
    pub(crate) total: Spending,
    /// The running turn, or what was used between turns: an estimate.
    pub(crate) running: Spending,
}

impl Used {
    /// Everything so far, the running turn included.
    pub(crate) fn so_far(&self) -> Spending {
        self.total.plus(self.running)
    }
}

impl State {
    pub(super) fn take_usage(&mut self, usage: TokenUsage) {
        self.used.running = self.used.running.plus(Spending::of_request(usage));
    }

    pub(super) fn take_turn(&mut self, at: Millis, result: &TurnResult) {
        let spent = Spending::of_turn(result, std::mem::take(&mut self.used.running));
        let day = day_of(at);
        if day != self.used.day {
            (self.used.day, self.used.today) = (day, Spending::default());
        }
        self.used.today = self.used.today.plus(spent);
        self.used.total = self.used.total.plus(spent);
        if let Some(budget) = &mut self.budget {
            budget.add(at, spent);
        }
    }

    pub(super) fn take_budget(&mut self, at: Millis, terms: Option<BudgetTerms>, reset: bool) {
        let known = self.budget.take();
        self.budget = match (terms, known) {
            (None, _) => None,
            (Some(BudgetTerms { limits, per }), Some(known)) if !reset => {
                Some(SessionBudget { limits, per, ..known })
            }
            (Some(terms), _) => Some(SessionBudget::new(terms, at)),
        };
        if reset {
            // What the running turn has used so far belongs to the time before.
            self.used.running = Spending::default();
        }
    }

    pub(super) fn take_standing(&mut self, standing: &Standing) {
        self.budgets.retain(|known| known.budget != standing.budget);
        if standing.level != Level::Fine {
            self.budgets.push(standing.clone());
        }
        let over = self.budgets.iter().find(|known| known.level == Level::Over);
        self.summary.over_budget = over.map(Standing::words);
    }

    /// The session's own budget in the form of all budgets, and what counts of it now.
    pub(crate) fn own_budget(&self, now: Millis) -> Option<(Budget, Spending)> {
        let SessionBudget { limits, per, since, .. } = *self.budget.as_ref()?;
        let session = self.summary.session;
        let budget = Budget {
            budget: BudgetId::of_session(session),
            scope: BudgetScope::Session { session },
            limits,
            per,
            since,
            before: Spending::default(),
            made_at: since,
            made_by: crate::Actor::Daemon,
        };
        let spent = self.budget.as_ref().map(|own| own.spent_at(now)).unwrap_or_default();
        Some((budget, spent.plus(self.used.running)))
    }
}

/// The budget of a new session.
pub(super) fn first_budget(terms: Option<BudgetTerms>, at: Millis) -> Option<SessionBudget> {
    terms.map(|terms| SessionBudget::new(terms, at))
}
