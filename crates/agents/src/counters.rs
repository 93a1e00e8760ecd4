//! Counters of all agents of this process. Numbers only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Agents started.
pub static STARTED: Counter = Counter::new();
/// Lines read from agents.
pub static LINES: Counter = Counter::new();
/// Lines that could not be read.
pub static UNREADABLE: Counter = Counter::new();
/// Messages of an unknown kind.
pub static UNKNOWN: Counter = Counter::new();
/// Lines beyond the limit.
pub static TOO_LONG: Counter = Counter::new();
/// Processes that agents left behind and Portolan ended.
pub static SWEPT: Counter = Counter::new();
