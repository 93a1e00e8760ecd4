//! The time on a connection: a silent client is pinged, and a client that reads nothing is closed.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use super::ending::{Cause, Ending};

/// After this much silence the client is pinged.
const SILENCE: Duration = Duration::from_secs(30);

/// How many pings may stay unanswered. A phone that sleeps through two of them has lost its connection.
const MISSED: u32 = 2;

/// How long the network has accepted none of the unsent bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    /// Since when, and at which count of sent bytes.
    since: Option<(Instant, u64)>,
}

impl Stall {
    /// A client for which the network accepted nothing for this long is closed; the client can reconnect.
    pub const LIMIT: Duration = Duration::from_secs(10);

    /// Something is unsent, and the network has accepted this many bytes so far.
    pub fn waits(&mut self, sent: u64) {
        if self.since.is_none_or(|(_, before)| before != sent) {
            self.since = Some((Instant::now(), sent));
        }
    }

    /// Nothing is unsent.
    pub fn ends(&mut self) {
        self.since = None;
    }

    /// When the network will have accepted nothing for too long; `None` while nothing waits.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|(since, _)| since + Self::LIMIT)
    }

    /// Whether the network has accepted nothing for too long.
    pub fn is_too_long(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The clock of one connection.
#[derive(Debug)]
pub(super) struct Clock {
    heard: Instant,
    missed: u32,
    stall: Stall,
    timer: Pin<Box<Sleep>>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Wait,
    /// Ping the client.
    Ask,
}

impl Clock {
    pub(super) fn start() -> Self {
        let (heard, timer) = (Instant::now(), Box::pin(sleep(SILENCE)));
        Self { heard, missed: 0, stall: Stall::default(), timer }
    }

    /// The client sent something.
    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
        self.missed = 0;
    }

    /// The client's silence so far does not count: the client was not read.
    pub(super) fn excuse_silence(&mut self) {
        self.heard = Instant::now();
    }

    /// Nothing is unsent.
    pub(super) fn all_is_sent(&mut self) {
        self.stall.ends();
    }

    /// Something is unsent, and the network has accepted this many bytes so far.
    pub(super) fn waits_for_the_network(&mut self, sent: u64) {
        self.stall.waits(sent);
        // Only moved forward: a timer that fires too early is set again.
        if let Some(deadline) = self.stall.deadline()
            && self.timer.deadline() > deadline
        {
            self.timer.as_mut().reset(deadline);
        }
    }

    /// Ready when it is time to [`Clock::look`].
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(context)
    }

    /// What to do now, or why the connection ends. Sets the timer again.
    pub(super) fn look(&mut self) -> Result<Look, Ending> {
        if self.stall.is_too_long() {
            return Err(Ending::Close(Cause::TooSlow));
        }
        let mut look = Look::Wait;
        if Instant::now() >= self.silent_until() {
            if self.missed == MISSED {
                return Err(Ending::Gone);
            }
            self.missed += 1;
            look = Look::Ask;
        }
        let silent = self.silent_until();
        self.timer.as_mut().reset(self.stall.deadline().map_or(silent, |stalled| silent.min(stalled)));
        Ok(look)
    }

    /// Until when the client may be silent.
    fn silent_until(&self) -> Instant {
        self.heard + SILENCE * (self.missed + 1)
    }
}
