//! Budgets: how much sessions may use, and how much of that they have used.
//!
//! A budget limits cost, tokens and turns. It counts what is used after it was made or last reset; a budget per day
//! counts from 00:00 UTC again. Here is what a budget is made of, how spending is added up, and when a budget warns or
//! is spent. Nothing in here stops anything: the session's machine does.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Actor, Millis, SessionId, event::TurnResult, usage::TokenUsage};

/// Budgets that one daemon keeps, besides those of sessions. Each is added up at every report of usage.
pub const BUDGETS: usize = 200;

/// From this part of a limit on, a budget warns.
const WARN_AT: f64 = 0.8;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// The calendar day of a time, in UTC, as the number of days since 1970.
pub fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY)
}

/// When the day after this time begins.
pub fn next_day(at: Millis) -> Millis {
    Millis((day_of(at) + 1).saturating_mul(DAY))
}

/// US dollars. Whole billionths inside, so that the order of a sum does not matter; a number of dollars on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", schemars(with = "f64"), ts(as = "f64"))]
#[serde(from = "f64", into = "f64")]
pub struct Usd(u64);

impl From<f64> for Usd {
    fn from(dollars: f64) -> Self {
        // Negative amounts and what is no number become zero; the largest amounts stop at the largest number. An
        // amount above zero stays above zero.
        Self(((dollars * 1e9).round() as u64).max(u64::from(dollars > 0.0)))
    }
}

impl From<Usd> for f64 {
    fn from(usd: Usd) -> Self {
        usd.0 as Self / 1e9
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", shown(f64::from(*self)))
    }
}

/// Dollars in as many digits as people need: cents, and more digits below ten cents.
fn shown(dollars: f64) -> String {
    if dollars >= 0.1 || dollars == 0.0 { format!("{dollars:.2}") } else { format!("{dollars:.4}") }
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// US dollars, as far as the agent reports them.
    Cost,
    /// Tokens that the model read and wrote. Tokens from a cache do not count.
    Tokens,
    /// Turns that ended.
    Turns,
}

/// When a budget begins again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// Every calendar day, at 00:00 UTC.
    Day,
}

/// The limits of a budget. At least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(
    feature = "schema",
    schemars(rename = "BudgetLimits", extend("minProperties" = 1)),
    ts(rename = "BudgetLimits")
)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The most US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "f64", extend("exclusiveMinimum" = 0)))]
    pub cost_usd: Option<Usd>,
    /// The most tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(type = "number"), schemars(with = "u64", extend("minimum" = 1)))]
    pub tokens: Option<u64>,
    /// The most turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "u32", extend("minimum" = 1)))]
    pub turns: Option<u32>,
}

impl Limits {
    /// Refuses limits that limit nothing, or that nothing could ever keep.
    pub fn check(&self) -> Result<(), String> {
        let Self { cost_usd, tokens, turns } = self;
        if cost_usd.is_none() && tokens.is_none() && turns.is_none() {
            return Err("a budget needs a limit: cost, tokens or turns".into());
        }
        if *cost_usd == Some(Usd(0)) || *tokens == Some(0) || *turns == Some(0) {
            return Err("a limit must be above zero".into());
        }
        Ok(())
    }

    /// Each limit with the part of it that is spent, in its unit.
    fn measured(&self, spent: &Spending) -> impl Iterator<Item = Reached> {
        let cost = self.cost_usd.map(|limit| {
            let spent = f64::from(spent.cost_usd.unwrap_or_default());
            Reached { measure: Measure::Cost, spent, limit: limit.into() }
        });
        let tokens = self.tokens.map(|limit| Reached {
            measure: Measure::Tokens,
            spent: spent.tokens as f64,
            limit: limit as f64,
        });
        let turns = self.turns.map(|limit| Reached {
            measure: Measure::Turns,
            spent: f64::from(spent.turns),
            limit: f64::from(limit),
        });
        [cost, tokens, turns].into_iter().flatten()
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = self.cost_usd.map(|usd| usd.to_string());
        let tokens = self.tokens.map(|tokens| format!("{tokens} tokens"));
        let turns = self.turns.map(|turns| format!("{turns} turns"));
        let all: Vec<String> = [cost, tokens, turns].into_iter().flatten().collect();
        f.write_str(&all.join(", "))
    }
}

/// The limits of a session's own budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct BudgetTerms {
    /// The limits.
    pub limits: Limits,
    /// When the budget begins again by itself; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Period>,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(default)]
pub struct Spending {
    /// The cost, as far as agents report it; absent if no turn reported its cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// Tokens that models read and wrote. Tokens from a cache do not count.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub tokens: u64,
    /// Turns that ended.
    pub turns: u32,
    /// The turns of unknown cost, because the agent did not report it. `cost_usd` does not include them.
    pub unpriced_turns: u32,
    /// A part of `tokens` is an estimate: the sum of a turn that still runs, or that ended without a figure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub estimated: bool,
}

impl Spending {
    /// The tokens of a request while its turn still runs.
    pub fn of_request(usage: TokenUsage) -> Self {
        let tokens = counted(usage);
        Self { tokens, estimated: tokens > 0, ..Self::default() }
    }

    /// A turn that ended. `so_far` is what its requests reported while it ran: it counts only if the result names no
    /// tokens, as the result of a turn that was cut off may.
    pub fn of_turn(result: &TurnResult, so_far: Self) -> Self {
        let shares = result.by_model.values().map(|share| share.usage).reduce(TokenUsage::plus);
        let told = shares.or(result.usage).map(counted).filter(|tokens| *tokens > 0);
        Self {
            cost_usd: result.cost_usd.map(Usd::from),
            tokens: told.unwrap_or(so_far.tokens),
            turns: 1,
            unpriced_turns: u32::from(result.cost_usd.is_none()),
            estimated: told.is_none() && so_far.estimated,
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(Usd(a)), Some(Usd(b))) => Some(Usd(a.saturating_add(b))),
            (one, other) => one.or(other),
        };
        Self {
            cost_usd,
            tokens: self.tokens.saturating_add(other.tokens),
            turns: self.turns.saturating_add(other.turns),
            unpriced_turns: self.unpriced_turns.saturating_add(other.unpriced_turns),
            estimated: self.estimated || other.estimated,
        }
    }

    /// What remains of this without `other`; nothing goes below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let Usd(gone) = other.cost_usd.unwrap_or_default();
        Self {
            cost_usd: self.cost_usd.map(|Usd(all)| Usd(all.saturating_sub(gone))),
            tokens: self.tokens.saturating_sub(other.tokens),
            turns: self.turns.saturating_sub(other.turns),
            unpriced_turns: self.unpriced_turns.saturating_sub(other.unpriced_turns),
            estimated: self.estimated,
        }
    }
}

/// A conversation is read from the cache again at every request. That costs little, and counting it would use up any
/// budget by the number of requests alone.
fn counted(usage: TokenUsage) -> u64 {
    usage.input.saturating_add(usage.output).saturating_add(usage.cache_creation)
}

/// How far one limit is spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// What is limited.
    pub measure: Measure,
    /// What is spent, in the unit of the measure.
    pub spent: f64,
    /// The limit, in the same unit.
    pub limit: f64,
}

impl Reached {
    fn level(&self) -> Level {
        match self.spent / self.limit {
            part if part >= 1.0 => Level::Over,
            part if part >= WARN_AT => Level::Warn,
            _ => Level::Fine,
        }
    }
}

/// How far a budget is spent. A later level is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", schemars(rename = "BudgetLevel"), ts(rename = "BudgetLevel"))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Below 80 % of every limit.
    Fine,
    /// At 80 % of a limit or above.
    Warn,
    /// At 100 % of a limit or above: the running turn is stopped, and prompts wait.
    Over,
}

/// The limit that binds, and how far it is spent; `None` without a limit. Of several spent limits, one that stops a
/// running turn comes first: only the number of turns lets the running turn end.
pub fn judge(limits: &Limits, spent: &Spending) -> Option<(Level, Reached)> {
    let stops = |reached: &Reached| reached.level() == Level::Over && reached.measure != Measure::Turns;
    let worse = |a: &Reached, b: &Reached| {
        let parts = (a.spent / a.limit).total_cmp(&(b.spent / b.limit));
        (a.level(), stops(a)).cmp(&(b.level(), stops(b))).then(parts)
    };
    let binding = limits.measured(spent).max_by(worse)?;
    Some((binding.level(), binding))
}

/// Whose use a budget counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BudgetScope {
    /// Every session.
    #[default]
    User,
    /// Every session that works in this folder or below it.
    Project {
        /// An absolute path on the daemon's machine.
        #[cfg_attr(feature = "schema", ts(type = "string"))]
        folder: PathBuf,
    },
    /// Every session of this agent.
    Agent {
        /// The agent's kind.
        agent: String,
    },
    /// One session.
    Session {
        /// The session.
        session: SessionId,
    },
}

impl BudgetScope {
    /// Does the scope hold this session? Sessions' own budgets are kept with the sessions.
    pub fn holds(&self, agent: &str, folder: &std::path::Path) -> bool {
        match self {
            Self::User => true,
            Self::Project { folder: top } => folder.starts_with(top),
            Self::Agent { agent: kind } => kind == agent,
            Self::Session { .. } => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::User => "the budget for every session".into(),
            Self::Project { folder } => format!("the budget of the project {}", folder.display()),
            Self::Agent { agent } => format!("the budget of the agent {agent}"),
            Self::Session { .. } => "the budget of this session".into(),
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Project { folder } => write!(f, "project:{}", folder.display()),
            Self::Agent { agent } => write!(f, "agent:{agent}"),
            Self::Session { session } => write!(f, "session:{session}"),
        }
    }
}

/// The id of a budget: eight characters that people can type; `session:ID` for the budget of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(transparent)]
pub struct BudgetId(pub String);

impl BudgetId {
    const SESSION: &str = "session:";

    /// A new id.
    pub fn random() -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        Self(id[..8].to_owned())
    }

    /// The id of a session's own budget.
    pub fn of_session(session: SessionId) -> Self {
        Self(format!("{}{session}", Self::SESSION))
    }

    /// The session, if this is the id of a session's own budget.
    pub fn session(&self) -> Option<SessionId> {
        self.0.strip_prefix(Self::SESSION)?.parse().ok()
    }
}

impl fmt::Display for BudgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::TurnOutcome;

    fn spending() -> impl Strategy<Value = Spending> {
        let cost = prop::option::of(0.0..100.0_f64);
        (cost, 0..1_000_000_u64, 0..100_u32, any::<bool>()).prop_map(|(cost, tokens, turns, estimated)| {
            let unpriced_turns = if cost.is_none() { turns } else { 0 };
            Spending { cost_usd: cost.map(Usd::from), tokens, turns, unpriced_turns, estimated }
        })
    }

    fn limits() -> impl Strategy<Value = Limits> {
        let cost = prop::option::of(0.01..100.0_f64);
        (cost, prop::option::of(1..1_000_000_u64), prop::option::of(1..100_u32))
            .prop_map(|(cost, tokens, turns)| Limits { cost_usd: cost.map(Usd::from), tokens, turns })
    }

    fn level(limits: &Limits, spent: &Spending) -> Level {
        judge(limits, spent).map_or(Level::Fine, |(level, _)| level)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_over_a_budget_without_limits(spent in spending()) {
            prop_assert_eq!(judge(&Limits::default(), &spent), None);
        }

        #[test]
        fn raising_a_limit_never_makes_a_budget_worse(
            limits in limits(), spent in spending(), cost in 0.0..50.0_f64, tokens in 0..1_000_000_u64, turns in 0..99_u32,
        ) {
            let Limits { cost_usd, tokens: most_tokens, turns: most_turns } = limits;
            let raised = Limits {
                cost_usd: cost_usd.map(|limit| Usd::from(f64::from(limit) + cost)),
                tokens: most_tokens.map(|limit| limit + tokens),
                turns: most_turns.map(|limit| limit + turns),
            };
            prop_assert!(level(&raised, &spent) <= level(&limits, &spent));
        }

        #[test]
        fn the_order_of_reports_does_not_matter(
            (reports, shuffled) in prop::collection::vec(spending(), 0..20)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            limits in limits(),
        ) {
            let sum = |all: &[Spending]| all.iter().fold(Spending::default(), |sum, one| sum.plus(*one));
            prop_assert_eq!(sum(&reports), sum(&shuffled));
            prop_assert_eq!(judge(&limits, &sum(&reports)), judge(&limits, &sum(&shuffled)));
        }

        #[test]
        fn spending_more_never_makes_a_budget_better(limits in limits(), spent in spending(), more in spending()) {
            prop_assert!(level(&limits, &spent.plus(more)) >= level(&limits, &spent));
        }

        #[test]
        fn what_is_left_out_comes_back_as_nothing(before in spending(), after in spending()) {
            let counted = before.plus(after).minus(before);
            prop_assert_eq!((counted.tokens, counted.turns), (after.tokens, after.turns));
        }

        #[test]
        fn dollars_survive_the_wire(dollars in 0.0..1_000_000.0_f64) {
            let usd = Usd::from(dollars);
            let read: Usd = serde_json::from_str(&serde_json::to_string(&usd).unwrap()).unwrap();
            prop_assert_eq!(read, usd);
        }
    }

    #[test]
    fn a_budget_warns_at_80_percent_and_is_spent_at_100() {
        let limits = Limits { tokens: Some(100), ..Limits::default() };
        let at = |tokens| level(&limits, &Spending { tokens, ..Spending::default() });
        assert_eq!(
            [0, 79, 80, 99, 100, 500].map(at),
            [Level::Fine, Level::Fine, Level::Warn, Level::Warn, Level::Over, Level::Over]
        );
    }

    #[test]
    fn of_several_spent_limits_the_one_that_stops_a_turn_binds() {
        let limits = Limits { tokens: Some(10), turns: Some(1), ..Limits::default() };
        let spent = Spending { tokens: 10, turns: 9, ..Spending::default() };
        let (level, reached) = judge(&limits, &spent).unwrap();
        assert_eq!((level, reached.measure), (Level::Over, Measure::Tokens));
        let (level, reached) = judge(&limits, &Spending { tokens: 9, ..spent }).unwrap();
        assert_eq!((level, reached.measure), (Level::Over, Measure::Turns));
    }

    #[test]
    fn limits_that_limit_nothing_are_refused() {
        assert!(Limits::default().check().is_err());
        assert!(Limits { turns: Some(0), ..Limits::default() }.check().is_err());
        assert!(Limits { cost_usd: Some(Usd::from(-1.0)), ..Limits::default() }.check().is_err());
        assert!(Limits { tokens: Some(1), ..Limits::default() }.check().is_ok());
        serde_json::from_str::<Limits>(r#"{"dollars": 1}"#).unwrap_err();
    }

    #[test]
    fn the_result_of_a_turn_replaces_what_its_requests_reported() {
        let usage = |input| TokenUsage { input, output: 1, cache_creation: 2, cache_read: 1_000_000 };
        let so_far = Spending::of_request(usage(10)).plus(Spending::of_request(usage(20)));
        assert_eq!((so_far.tokens, so_far.estimated), (36, true), "tokens from the cache do not count");
        let mut result = TurnResult::bare(TurnOutcome::Completed);
        let unknown = Spending::of_turn(&result, so_far);
        let expected = Spending { cost_usd: None, tokens: 36, turns: 1, unpriced_turns: 1, estimated: true };
        assert_eq!(unknown, expected, "a turn without figures keeps the estimate, and says so");
        (result.usage, result.cost_usd) = (Some(usage(100)), Some(0.5));
        let told = Spending::of_turn(&result, so_far);
        let cost_usd = Some(Usd::from(0.5));
        assert_eq!(told, Spending { cost_usd, tokens: 103, turns: 1, unpriced_turns: 0, estimated: false });
    }

    #[test]
    fn a_budget_per_day_begins_again_at_midnight_in_utc() {
        let noon = Millis(20_000 * DAY + DAY / 2);
        let (spent, before) =
            (Spending { tokens: 10, ..Spending::default() }, Spending { tokens: 4, ..Spending::default() });
        let budget = Budget {
            budget: BudgetId("b".into()),
            scope: BudgetScope::User,
            limits: Limits { tokens: Some(10), ..Limits::default() },
            per: Some(Period::Day),
            since: noon,
            before,
            made_at: noon,
            made_by: Actor::Daemon,
        };
        assert_eq!(budget.counts(spent, noon).tokens, 6, "what was used before it was made does not count");
        let tomorrow = next_day(noon);
        assert_eq!(tomorrow, Millis(20_001 * DAY));
        assert_eq!((budget.first_day(noon), budget.first_day(tomorrow)), (20_000, 20_001));
        assert_eq!(
            budget.counts(spent, tomorrow).tokens,
            10,
            "on the next day everything of that day counts"
        );
        let total = Budget { per: None, ..budget };
        assert_eq!((total.first_day(tomorrow), total.counts(spent, tomorrow).tokens), (20_000, 6));
    }

    #[test]
    fn a_standing_says_what_is_spent_of_what() {
        let standing = Standing {
            budget: BudgetId("b".into()),
            scope: BudgetScope::Agent { agent: "codex".into() },
            per: Some(Period::Day),
            level: Level::Over,
            measure: Measure::Cost,
            spent: 5.126,
            limit: 5.0,
            estimated: false,
        };
        assert_eq!(standing.words(), "the budget of the agent codex per day is spent: $5.13 of $5.00");
        let tokens = Standing { measure: Measure::Tokens, level: Level::Warn, estimated: true, ..standing };
        assert_eq!(
            tokens.words(),
            "the budget of the agent codex per day is nearly spent: 5 of 5 tokens (an estimate while the turn runs)"
        );
        assert_eq!(tokens.name(), "budget of the agent codex");
    }
}
