//! What a budget limits, and how far a limit is spent.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Spending, Usd};

/// From this part of a limit on, a budget warns.
const WARN_AT: f64 = 0.8;

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
        if *cost_usd == Some(Usd::default()) || *tokens == Some(0) || *turns == Some(0) {
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
