//! Budgets: how much sessions may use, and how much of that they have used.
//!
//! A budget limits cost, tokens and turns. It counts what is used after it was made or last reset; a budget per day
//! counts from 00:00 UTC again. `limits` says when a budget warns or is spent, `spending` how use is added up, and
//! `scope` whose use counts. Nothing in here stops anything: the session's machine does.

mod limits;
mod scope;
mod spending;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use self::spending::shown;
pub use self::{
    limits::{BudgetTerms, Level, Limits, Measure, Period, Reached, judge},
    scope::{BudgetId, BudgetScope},
    spending::{Spending, Usd},
};
use crate::{Actor, Millis};

/// Budgets that one daemon keeps, besides those of sessions. Each is added up at every report of usage.
pub const BUDGETS: usize = 200;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// The calendar day of a time, in UTC, as the number of days since 1970.
pub fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY)
}

/// When the day after this time begins.
pub fn next_day(at: Millis) -> Millis {
    Millis((day_of(at) + 1).saturating_mul(DAY))
}

/// A budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Budget {
    /// The budget's id.
    pub budget: BudgetId,
    /// Whose use the budget counts.
    pub scope: BudgetScope,
    /// The limits.
    pub limits: Limits,
    /// When the budget begins again by itself; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Period>,
    /// When the budget was made or last reset.
    pub since: Millis,
    /// What was used before `since` on the same day, and does not count.
    #[serde(default)]
    pub before: Spending,
    /// When the limits were last set.
    pub made_at: Millis,
    /// Who set the limits.
    pub made_by: Actor,
}

impl Budget {
    /// The first day whose use counts.
    pub fn first_day(&self, now: Millis) -> i64 {
        match self.per {
            Some(Period::Day) => day_of(now),
            None => day_of(self.since),
        }
    }

    /// What counts of everything that was used from the first day on.
    pub fn counts(&self, used: Spending, now: Millis) -> Spending {
        if day_of(self.since) == self.first_day(now) { used.minus(self.before) } else { used }
    }

    /// How far the budget is spent.
    pub fn standing(&self, spent: &Spending) -> Option<Standing> {
        let (level, reached) = judge(&self.limits, spent)?;
        let Reached { measure, spent: amount, limit } = reached;
        Some(Standing {
            budget: self.budget.clone(),
            scope: self.scope.clone(),
            per: self.per,
            level,
            measure,
            spent: amount,
            limit,
            estimated: spent.estimated && measure == Measure::Tokens,
        })
    }
}

/// What someone asks a budget to be. A budget with the same scope and period gets these limits and keeps its spending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct BudgetDraft {
    /// Whose use the budget counts.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(as = "Option<BudgetScope>", optional))]
    pub scope: BudgetScope,
    /// The limits.
    pub limits: Limits,
    /// When the budget begins again by itself; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Period>,
}

/// How far a budget is spent, by the limit that binds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Standing {
    /// The budget's id.
    pub budget: BudgetId,
    /// Whose use the budget counts.
    pub scope: BudgetScope,
    /// When the budget begins again by itself; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Period>,
    /// How far the budget is spent.
    pub level: Level,
    /// The limit that binds.
    pub measure: Measure,
    /// What is spent, in the unit of the measure.
    pub spent: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// `spent` holds an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub estimated: bool,
}

impl Standing {
    /// The budget as the actor of an entry: `budget of this session`.
    pub fn name(&self) -> String {
        self.scope.words().trim_start_matches("the ").to_owned()
    }

    /// How far the budget is spent, for people.
    pub fn words(&self) -> String {
        let what = match self.level {
            Level::Fine => "has room again",
            Level::Warn => "is nearly spent",
            Level::Over => "is spent",
        };
        let per = if self.per.is_some() { " per day" } else { "" };
        let estimated = if self.estimated { " (an estimate while the turn runs)" } else { "" };
        let (spent, limit) = (self.spent, self.limit);
        let amounts = match self.measure {
            Measure::Cost => format!("${} of ${}", shown(spent), shown(limit)),
            Measure::Tokens => format!("{spent:.0} of {limit:.0} tokens"),
            Measure::Turns => format!("{spent:.0} of {limit:.0} turns"),
        };
        format!("{}{per} {what}: {amounts}{estimated}", self.scope.words())
    }
}
