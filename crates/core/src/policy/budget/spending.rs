//! What sessions used, and how that is added up.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{event::TurnResult, usage::TokenUsage};

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
pub(super) fn shown(dollars: f64) -> String {
    if dollars >= 0.1 || dollars == 0.0 { format!("{dollars:.2}") } else { format!("{dollars:.4}") }
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
