//! The timers of one translator: few, so a list is enough.

use tokio::time::{Duration, Instant};

use super::Timer;

/// Timers of one translator at once: one per instruction that waits for the agent's answer, and the session sends no
/// more instructions than this. Beyond it no further instruction is taken until a timer has run out.
pub(super) const MAX_TIMERS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Timers(Vec<(Instant, Timer)>);

impl Timers {
    pub(super) fn change(&mut self, timer: Timer, after: Option<Duration>) {
        self.0.retain(|(_, known)| *known != timer);
        if let Some(after) = after {
            self.0.push((Instant::now() + after, timer));
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX_TIMERS
    }

    /// When the next timer runs out.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().map(|(at, _)| *at).min()
    }

    /// Takes out a timer that has run out, the earliest first.
    pub(super) fn expired(&mut self, now: Instant) -> Option<Timer> {
        let (place, _) =
            self.0.iter().enumerate().filter(|(_, (at, _))| *at <= now).min_by_key(|(_, (at, _))| *at)?;
        Some(self.0.remove(place).1)
    }
}
