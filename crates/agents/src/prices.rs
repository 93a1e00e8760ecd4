//! The prices of models, if the CLI does not report the cost: US dollars for a million tokens.
//!
//! Built-in list prices, after the user's own from the configuration. A model that is in neither has no price: its cost
//! is unknown, which is not zero.

use indexmap::IndexMap;
use portolan_core::usage::TokenUsage;
use serde::{Deserialize, Serialize};

/// The price of a model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens read that were not cached.
    #[serde(deserialize_with = "dollars")]
    pub input: f64,
    /// Tokens written.
    #[serde(deserialize_with = "dollars")]
    pub output: f64,
    /// Tokens written to the cache.
    #[serde(default, deserialize_with = "dollars")]
    pub cache_write: f64,
    /// Tokens read from the cache.
    #[serde(default, deserialize_with = "dollars")]
    pub cache_read: f64,
}

/// An amount of money: finite and not negative. `3` and `3.0` are both valid.
fn dollars<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(from)?;
    if amount.is_finite() && amount >= 0.0 {
        return Ok(amount);
    }
    Err(serde::de::Error::custom(format!("`{amount}` is not a price; give zero or more US dollars")))
}

impl Price {
    const fn list(input: f64, output: f64) -> Self {
        // The vendor's usual rule: a quarter more to write the cache, a tenth to read it.
        Self { input, output, cache_write: input * 1.25, cache_read: input / 10.0 }
    }

    fn of(&self, usage: TokenUsage) -> f64 {
        let dollars = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        dollars(usage.input, self.input)
            + dollars(usage.output, self.output)
            + dollars(usage.cache_creation, self.cache_write)
            + dollars(usage.cache_read, self.cache_read)
    }
}

/// List prices by the model's name without its date.
const LIST: &[(&str, Price)] = &[
    ("claude-opus-4-5", Price::list(5.0, 25.0)),
    ("claude-opus-4-6", Price::list(5.0, 25.0)),
    ("claude-opus-4-7", Price::list(5.0, 25.0)),
    ("claude-opus-4-1", Price::list(15.0, 75.0)),
    ("claude-opus-4-0", Price::list(15.0, 75.0)),
    ("claude-opus-4", Price::list(15.0, 75.0)),
    ("claude-3-opus", Price::list(15.0, 75.0)),
    ("claude-sonnet-4-6", Price::list(3.0, 15.0)),
    ("claude-sonnet-4-5", Price::list(3.0, 15.0)),
    ("claude-sonnet-4-0", Price::list(3.0, 15.0)),
    ("claude-sonnet-4", Price::list(3.0, 15.0)),
    ("claude-3-7-sonnet", Price::list(3.0, 15.0)),
    ("claude-3-5-sonnet", Price::list(3.0, 15.0)),
    ("claude-haiku-4-5", Price::list(1.0, 5.0)),
    ("claude-3-5-haiku", Price::list(0.8, 4.0)),
    ("claude-3-haiku", Price::list(0.25, 1.25)),
];

/// The price of every model that has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    own: IndexMap<String, Price>,
}

impl Prices {
    /// List prices, and these before them: by the model's name or prefix.
    pub fn new(own: IndexMap<String, Price>) -> Self {
        Self { own }
    }

    /// The cost of these tokens of this model; unknown if it has no price.
    pub fn cost(&self, model: &str, usage: TokenUsage) -> Option<f64> {
        let name = plain(model);
        let own = self.own.iter().filter(|(known, _)| model.starts_with(*known) || name.starts_with(*known));
        let own = own.max_by_key(|(known, _)| known.len()).map(|(_, price)| price);
        let listed = || LIST.iter().find(|(known, _)| is_version_of(name, known)).map(|(_, price)| price);
        let price = own.or_else(listed)?;
        Some(price.of(usage))
    }
}

/// The model's name without the provider before it and the context size after it.
fn plain(model: &str) -> &str {
    let name = model.split('[').next().unwrap_or(model);
    name.find("claude-").map_or(name, |at| &name[at..])
}

/// `claude-opus-4` is `claude-opus-4-20250514` too, but neither `claude-opus-45` nor `claude-opus-4-9`.
fn is_version_of(name: &str, known: &str) -> bool {
    let Some(rest) = name.strip_prefix(known) else { return false };
    let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    rest.is_empty() || (rest.starts_with(['-', '@', ':']) && !(1..=2).contains(&digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: TokenUsage =
        TokenUsage { input: 1_000_000, output: 1_000_000, cache_creation: 0, cache_read: 0 };

    #[test]
    fn a_model_costs_its_list_price_whatever_date_provider_or_context_size_its_name_carries() {
        let prices = Prices::default();
        for name in [
            "claude-sonnet-4-6",
            "claude-sonnet-4-5-20250929",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-sonnet-4-6[1m]",
        ] {
            assert_eq!(prices.cost(name, MILLION), Some(18.0), "{name}");
        }
        assert_eq!(prices.cost("claude-opus-4-20250514", MILLION), Some(90.0));
        assert_eq!(prices.cost("claude-opus-4-6", MILLION), Some(30.0));
    }

    #[test]
    fn tokens_of_every_kind_are_counted() {
        let usage = TokenUsage { input: 1200, output: 25, cache_creation: 1000, cache_read: 300 };
        let cost = Prices::default().cost("claude-sonnet-4-6", usage).unwrap();
        assert!((cost - (0.0036 + 0.000_375 + 0.003_75 + 0.000_09)).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn the_cost_of_an_unknown_model_is_unknown_and_not_zero() {
        assert_eq!(Prices::default().cost("no-such-model", MILLION), None);
        assert_eq!(Prices::default().cost("claude-opus-4-9", MILLION), None);
    }

    #[test]
    fn the_users_own_price_comes_first() {
        let own = Price { input: 1.0, output: 2.0, cache_write: 0.0, cache_read: 0.0 };
        let prices = Prices::new(
            [("claude-sonnet-4-6".to_owned(), own), ("no-such".to_owned(), own)].into_iter().collect(),
        );
        assert_eq!(prices.cost("claude-sonnet-4-6", MILLION), Some(3.0));
        assert_eq!(prices.cost("no-such-model", MILLION), Some(3.0));
    }
}
