//! The crew: the running agents, how many may run at once, and which one has had nothing to do for the longest time.
//!
//! A session takes a berth before it starts its agent and returns the berth when the agent has ended. If no berth is
//! free, the agent that has rested longest is asked to make room; its own session ends it, or reports that it is busy
//! again.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use crate::{Refusal, SessionId, WayOut};

/// The running agents. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Crew(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: Option<NonZeroUsize>,
    roll: Mutex<Roll>,
    /// A berth was returned, or an agent began or stopped to rest.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Roll {
    berths: HashMap<SessionId, Resting>,
    /// How many sessions wait for a berth.
    waiting: usize,
}

/// The rest of one running agent.
#[derive(Debug, Default)]
struct Resting {
    /// Since when the agent has nothing to do.
    since: Option<Instant>,
    make_room: Arc<Notify>,
    is_asked: bool,
}

/// The right to run an agent. Dropping it frees it for another agent.
#[derive(Debug)]
pub(crate) struct Berth {
    crew: Crew,
    session: SessionId,
    make_room: Arc<Notify>,
}

enum Found {
    Free(Berth),
    /// A resting agent is being ended.
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

    /// The largest number of agents that may run at once.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.0.limit.map(NonZeroUsize::get)
    }

    /// The number of running agents.
    pub(crate) fn running(&self) -> usize {
        self.roll().berths.len()
    }

    /// Refuses if all berths belong to agents that are busy or may not be ended.
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
        let message = format!("{limit} agents run, which is the limit, and Portolan may end none of them");
        let setting = "limits.agents_at_once".into();
        Refusal::busy(message, 2000).with_way_out(WayOut::EndAnotherAgent { setting })
    }

    /// A berth, if one is free now.
    pub(crate) fn free_berth(&self, session: SessionId) -> Option<Berth> {
        let mut roll = self.roll();
        let is_free = self.limit().is_none_or(|limit| roll.berths.len() < limit) && roll.waiting == 0;
        is_free.then(|| self.take(&mut roll, session))
    }

    /// The berth of an agent that already runs, whatever the limit is.
    pub(crate) fn berth_of_running(&self, session: SessionId) -> Berth {
        self.take(&mut self.roll(), session)
    }

    /// Waits for a free berth. If none is free, it ends a resting agent; if none rests, it refuses.
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

/// One more session waits while this exists.
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
    /// Since when the agent has nothing to do and may be ended; `None` if it is busy.
    pub(crate) fn rests(&mut self, since: Option<Instant>) {
        // A new bell each time: a request to an agent that became busy meanwhile goes to another agent.
        self.make_room = Arc::default();
        let resting = Resting { since, make_room: Arc::clone(&self.make_room), is_asked: false };
        self.crew.roll().berths.insert(self.session, resting);
        self.crew.0.changed.notify_waiters();
    }

    /// Rings when the agent must make room for another.
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
