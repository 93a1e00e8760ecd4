//! Tokens and costs of a session, over all its agents, counted once.

use std::collections::HashMap;

use portolan_core::{
    event::{TurnResult, WorkDone},
    usage::{ModelUsage, TokenUsage},
};

use crate::insights::wire::Usage;

/// Dollars per million tokens if the agent reports no cost: input, output, from the cache, into the cache.
const PRICES: [f64; 4] = [3.0, 15.0, 0.30, 3.75];

/// How many subagents' tokens are kept until they are sent; more than run at once.
const SUBAGENTS: usize = 4096;

/// The cost of tokens with the protocol's own prices.
pub fn price(tokens: TokenUsage) -> f64 {
    let counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation];
    counts.iter().zip(PRICES).map(|(count, price)| *count as f64 * price).sum::<f64>() / 1e6
}

fn usage(tokens: TokenUsage, cost_usd: f64) -> Usage {
    Usage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_creation_tokens: tokens.cache_creation,
        cost_usd,
    }
}

/// What a session used.
#[derive(Debug, Default)]
pub(super) struct Meter {
    total: TokenUsage,
    cost: f64,
    /// The usage of the running turn, summed over its requests: counts only if the end of the turn reports no usage.
    turn_main: TokenUsage,
    turn_subagents: TokenUsage,
    subagents: HashMap<String, TokenUsage>,
}

impl Meter {
    pub(super) fn begin_turn(&mut self) {
        self.turn_main = TokenUsage::default();
        self.turn_subagents = TokenUsage::default();
    }

    /// A request to the model, of this subagent or of the main agent.
    pub(super) fn add(&mut self, subagent: Option<&str>, tokens: TokenUsage) {
        match subagent {
            None => self.turn_main = self.turn_main.plus(tokens),
            Some(subagent) => {
                self.turn_subagents = self.turn_subagents.plus(tokens);
                if self.subagents.len() < SUBAGENTS || self.subagents.contains_key(subagent) {
                    let own = self.subagents.entry(subagent.to_owned()).or_default();
                    *own = own.plus(tokens);
                }
            }
        }
    }

    /// The usage of an ended subagent. An agent may report only a total, or a total above the sum of its requests:
    /// tokens of unknown kind count as input.
    pub(super) fn of(&mut self, subagent: &str, work: Option<WorkDone>) -> Usage {
        let mut tokens = self.subagents.remove(subagent).unwrap_or_default();
        let known = tokens.context().saturating_add(tokens.output);
        let sum = work.map_or(0, |work| work.tokens);
        tokens.input = tokens.input.saturating_add(sum.saturating_sub(known));
        usage(tokens, price(tokens))
    }

    pub(super) fn end_turn(&mut self, result: &TurnResult) {
        // The usage by model includes the subagents; the turn's own figure does not.
        let tokens = if result.by_model.is_empty() {
            result.usage.unwrap_or(self.turn_main).plus(self.turn_subagents)
        } else {
            result.by_model.values().fold(TokenUsage::default(), |sum, share| sum.plus(share.usage))
        };
        let by_model = || {
            let costs: Option<Vec<f64>> = result.by_model.values().map(known_cost).collect();
            costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum())
        };
        self.total = self.total.plus(tokens);
        self.cost += result.cost_usd.or_else(by_model).unwrap_or_else(|| price(tokens));
        self.begin_turn();
    }

    pub(super) fn total(&self) -> Usage {
        usage(self.total, self.cost)
    }
}

fn known_cost(share: &ModelUsage) -> Option<f64> {
    share.cost_usd
}
