//! The crew: the agents that run, how many may at once, and which of them has had nothing to do for the longest time.
//!
//! A session takes a berth before it starts its agent and gives it back when that has ended. Where all are taken, the agent
//! that has rested longest is asked to make room; its own session ends it, or says that it has something to do by now.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use crate::{Refusal, SessionId, WayOut};

/// The agents that run. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Crew(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: Option<NonZeroUsize>,
    roll: Mutex<Roll>,
    /// A berth was given back, or an agent began or ceased to rest.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Roll {
    berths: HashMap<SessionId, Resting>,
    /// How many wait for one.
    waiting: usize,
}

/// What is known of one that runs.
#[derive(Debug, Default)]
struct Resting {
    /// Since when it has nothing to do.
    since: Option<Instant>,
    make_room: Arc<Notify>,
    is_asked: bool,
}

/// The right to run an agent. Dropped, it is free for another.
#[derive(Debug)]
pub(crate) struct Berth {
    crew: Crew,
    session: SessionId,
    make_room: Arc<Notify>,
}

enum Found {
    Free(Berth),
    /// One is being ended.
    Soon,
    None,
}

impl Crew {
    pub(crate) fn new(limit: Option<NonZeroUsize>) -> Self {
        Self(Arc::new(Shared { limit, roll: Mutex::default(), changed: Notify::new() }))
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.0.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many run at once at most.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.0.limit.map(NonZeroUsize::get)
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.roll().berths.len()
    }

    /// Refuses where all berths are taken by agents that have something to do, or may not be ended.
    pub(crate) fn require_room(&self) -> Result<(), Refusal> {
        let roll = self.roll();
        let is_full = self.limit().is_some_and(|limit| roll.berths.len() >= limit);
        if is_full && !roll.berths.values().any(|berth| berth.since.is_some()) {
            return Err(self.full());
        }
        Ok(())
    }

    fn full(&self) -> Refusal {
        let limit = self.limit().unwrap_or_default();
        let message =
            format!("{limit} agents run, which is the most at once, and none of them may be ended by itself");
        let setting = "limits.agents_at_once".into();
        Refusal::busy(message, 2000).with_way_out(WayOut::EndAnotherAgent { setting })
    }

    /// A berth, where one is free at once.
    pub(crate) fn free_berth(&self, session: SessionId) -> Option<Berth> {
        let mut roll = self.roll();
        let is_free = self.limit().is_none_or(|limit| roll.berths.len() < limit) && roll.waiting == 0;
        is_free.then(|| self.take(&mut roll, session))
    }

    /// The berth of an agent that runs already, however many do.
    pub(crate) fn berth_of_running(&self, session: SessionId) -> Berth {
        self.take(&mut self.roll(), session)
    }

    /// A berth, once one is free. Ends an agent that rests where none is; refuses where none rests.
    pub(crate) async fn berth(self, session: SessionId) -> Result<Berth, Refusal> {
        let _waiting = Waiting::enter(&self);
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.find(session) {
                Found::Free(berth) => return Ok(berth),
                Found::Soon => changed.await,
                Found::None => return Err(self.full()),
            }
        }
    }

    fn find(&self, session: SessionId) -> Found {
        let mut roll = self.roll();
        if self.limit().is_none_or(|limit| roll.berths.len() < limit) {
            return Found::Free(self.take(&mut roll, session));
        }
        let asked = roll.berths.values().filter(|berth| berth.is_asked).count();
        if asked < roll.waiting {
            let rests = roll.berths.values_mut().filter(|berth| berth.since.is_some() && !berth.is_asked);
            if let Some(longest) = rests.min_by_key(|berth| berth.since) {
                longest.is_asked = true;
                longest.make_room.notify_one();
                return Found::Soon;
            }
        }
        if asked > 0 { Found::Soon } else { Found::None }
    }

    fn take(&self, roll: &mut Roll, session: SessionId) -> Berth {
        roll.berths.insert(session, Resting::default());
        Berth { crew: self.clone(), session, make_room: Arc::default() }
    }
}

/// One more waits, as long as this lives.
struct Waiting<'a>(&'a Crew);

impl<'a> Waiting<'a> {
    fn enter(crew: &'a Crew) -> Self {
        crew.roll().waiting += 1;
        Self(crew)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.roll().waiting -= 1;
    }
}

impl Berth {
    /// The agent has nothing to do since then, and may be ended; or it has.
    pub(crate) fn rests(&mut self, since: Option<Instant>) {
        // Anew each time: what was asked of an agent that had something to do meanwhile is asked of another.
        self.make_room = Arc::default();
        let resting = Resting { since, make_room: Arc::clone(&self.make_room), is_asked: false };
        self.crew.roll().berths.insert(self.session, resting);
        self.crew.0.changed.notify_waiters();
    }

    /// Rings when the agent is to make room for another.
    pub(crate) fn make_room(&self) -> Arc<Notify> {
        Arc::clone(&self.make_room)
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        self.crew.roll().berths.remove(&self.session);
        self.crew.0.changed.notify_waiters();
    }
}
