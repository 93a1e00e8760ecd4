//! The simulated usage of the demo agent: tokens, money, time. Four characters make a token.

use portolan_core::{
    Event,
    event::{TurnOutcome, TurnResult},
    usage::{ByModel, DEFAULT_CONTEXT_WINDOW, ModelUsage, TokenUsage},
};
use tokio::time::Instant;

/// Tokens that every request reads before any prompt.
const OVERHEAD: u64 = 1800;

const CHARACTERS_PER_TOKEN: usize = 4;

/// Simulated prices: dollars per million tokens read and written.
fn prices(model: &str) -> (f64, f64) {
    match model {
        "demo-small" => (0.8, 4.0),
        "demo-thinker" => (5.0, 25.0),
        _ => (3.0, 15.0),
    }
}

fn cost(model: &str, usage: TokenUsage) -> f64 {
    let (read, written) = prices(model);
    let cached = usage.cache_read as f64 * read * 0.1;
    // Whole micro-dollars, so that figures read well.
    let micro = usage.input as f64 * read + cached + usage.output as f64 * written;
    micro.round() / 1e6
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// Tokens of the conversation so far.
    context: u64,
    read: u64,
    written: u64,
    turn: TokenUsage,
    turn_cost: f64,
    steps: u32,
    calls: u32,
    lines: (u64, u64),
    started: Instant,
    turns: u32,
    total: TokenUsage,
    total_cost: f64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            context: OVERHEAD,
            read: 0,
            written: 0,
            turn: TokenUsage::default(),
            turn_cost: 0.0,
            steps: 0,
            calls: 0,
            lines: (0, 0),
            started: Instant::now(),
            turns: 0,
            total: TokenUsage::default(),
            total_cost: 0.0,
        }
    }
}

impl Ledger {
    pub(super) fn begin_turn(&mut self, read: usize) {
        let kept = Self {
            context: self.context,
            turns: self.turns + 1,
            total: self.total,
            total_cost: self.total_cost,
            ..Self::default()
        };
        *self = Self { read: (read / CHARACTERS_PER_TOKEN + 1) as u64, ..kept };
    }

    pub(super) fn wrote(&mut self, _model: &str, characters: usize) {
        self.written += (characters / CHARACTERS_PER_TOKEN + 1) as u64;
    }

    pub(super) fn called(&mut self) {
        self.calls += 1;
        self.written += 24;
    }

    pub(super) fn edited(&mut self, added: u64, removed: u64) {
        self.lines = (self.lines.0 + added, self.lines.1 + removed);
    }

    /// One simulated request to a model.
    pub(super) fn step(&mut self, model: &str, parent: Option<&str>) -> Event {
        let usage = TokenUsage {
            input: std::mem::take(&mut self.read),
            output: std::mem::take(&mut self.written),
            cache_creation: 0,
            cache_read: self.context,
        };
        self.context += usage.input + usage.output;
        self.turn = self.turn.plus(usage);
        self.turn_cost += cost(model, usage);
        self.steps += 1;
        Event::Usage {
            usage,
            model: Some(model.into()),
            parent: parent.map(Into::into),
            context_window: Some(DEFAULT_CONTEXT_WINDOW),
            context_only: false,
        }
    }

    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    pub(super) fn turn_cost(&self) -> f64 {
        self.turn_cost
    }

    pub(super) fn context(&self) -> u64 {
        self.context
    }

    /// Makes the conversation smaller; returns its size before and after.
    pub(super) fn compact(&mut self) -> (u64, u64) {
        let before = self.context;
        self.context = OVERHEAD + (before - OVERHEAD) / 10;
        (before, self.context)
    }

    pub(super) fn clear(&mut self) {
        self.context = OVERHEAD;
    }

    /// The whole session, this turn included: turns, tokens, dollars.
    pub(super) fn so_far(&self) -> (u32, TokenUsage, f64) {
        (self.turns, self.total.plus(self.turn), self.total_cost + self.turn_cost)
    }

    /// The result of the turn, with its usage.
    pub(super) fn result(&mut self, model: &str, outcome: TurnOutcome) -> TurnResult {
        self.total = self.total.plus(self.turn);
        self.total_cost += self.turn_cost;
        let took = self.started.elapsed().as_millis() as u64;
        let share = ModelUsage {
            usage: self.turn,
            context_window: Some(DEFAULT_CONTEXT_WINDOW),
            max_output: Some(32_000),
            cost_usd: Some(self.turn_cost),
        };
        TurnResult {
            steps: Some(self.steps),
            duration_ms: Some(took),
            duration_api_ms: Some(took * 9 / 10),
            usage: Some(self.turn),
            by_model: ByModel::from_iter([(model.to_owned(), share)]),
            cost_usd: Some(self.turn_cost),
            lines_added: Some(self.lines.0),
            lines_removed: Some(self.lines.1),
            ..TurnResult::bare(outcome)
        }
    }
}
