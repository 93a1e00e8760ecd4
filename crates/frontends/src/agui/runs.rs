//! The streams that are open, by session: what a stop is for, and where the next run of a thread goes on.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use indexmap::{IndexMap, IndexSet};
use portolan_core::{Action, Seq, SessionId};
use tokio_util::sync::CancellationToken;

use super::project::Projector;

/// Threads whose pages are remembered to have connected, and those where a run left something open. A page connects again
/// when it is loaded, so that what is forgotten comes back.
const REMEMBERED: usize = 4096;

/// Where a stream left a turn that goes on: the next run continues there.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) projector: Projector,
    /// The last entry it was told.
    pub(super) last: Seq,
}

#[derive(Debug)]
struct Running {
    number: u64,
    run: String,
    /// The thread, where the run says something.
    says_on: Option<String>,
    /// What it waits for is under way: an interrupt stops it. Else it only waits in the queue.
    began: Arc<AtomicBool>,
    stop: CancellationToken,
}

/// A run whose client has left it, while it is not yet certain that the client meant to stop it.
#[derive(Debug)]
struct Abandoned {
    number: u64,
    session: SessionId,
    thread: String,
    prompt: Seq,
    began: Arc<AtomicBool>,
    overtaken: CancellationToken,
}

/// The time in which that is not certain; dropping it ends it.
#[derive(Debug)]
pub(super) struct Grace {
    runs: Arc<Runs>,
    number: u64,
    /// The client goes on with something else, which has stopped the run.
    pub(super) overtaken: CancellationToken,
}

impl Drop for Grace {
    fn drop(&mut self) {
        let mut abandoned = self.runs.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|one| one.number != self.number);
    }
}

/// What a stop found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that it is for.
    Nothing,
    /// Runs that were still waiting; they are taken back.
    Waiting,
    /// A run that the agent is at.
    Begun,
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(super) struct Runs {
    numbers: AtomicU64,
    open: Mutex<HashMap<SessionId, Vec<Running>>>,
    left: Mutex<IndexMap<(SessionId, String), Left>>,
    connected: Mutex<IndexSet<String>>,
    /// At most as many as there are streams.
    abandoned: Mutex<Vec<Abandoned>>,
}

/// A stream's place; dropping it leaves.
#[derive(Debug)]
pub(super) struct Place {
    runs: Arc<Runs>,
    session: SessionId,
    number: u64,
    began: Arc<AtomicBool>,
    /// Someone wants it stopped.
    pub(super) stop: CancellationToken,
}

/// What stops a run: an interrupt, or its prompt is taken back.
fn stop_of(prompt: Seq, began: &AtomicBool) -> Action {
    if began.load(Ordering::Relaxed) { Action::Interrupt } else { Action::Withdraw { prompt } }
}

impl Place {
    /// What stops this run.
    pub(super) fn stop_of(&self, prompt: Seq) -> Action {
        stop_of(prompt, &self.began)
    }

    /// The agent is at it.
    pub(super) fn begin(&self) {
        self.began.store(true, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.runs.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = open.get_mut(&self.session) {
            running.retain(|one| one.number != self.number);
            if running.is_empty() {
                open.remove(&self.session);
            }
        }
    }
}

impl Runs {
    /// A stream of this session opens, under the client's name of its run; on which thread, where it says something.
    pub(super) fn enter(self: &Arc<Self>, session: SessionId, run: &str, says_on: Option<&str>) -> Place {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (began, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let running = Running {
            number,
            run: run.to_owned(),
            says_on: says_on.map(str::to_owned),
            began: Arc::clone(&began),
            stop: stop.clone(),
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default().push(running);
        Place { runs: Arc::clone(self), session, number, began, stop }
    }

    /// Tells streams that they are stopped: the one of this run, or all of the session.
    pub(super) fn stop(&self, session: SessionId, run: Option<&str>) -> Found {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Found::Nothing;
        for one in open.get(&session).into_iter().flatten() {
            if run.is_some_and(|run| one.run != run) {
                continue;
            }
            one.stop.cancel();
            if one.began.load(Ordering::Relaxed) {
                found = Found::Begun;
            } else if found == Found::Nothing {
                found = Found::Waiting;
            }
        }
        found
    }

    /// The client of this run has left. `None` when it already says something else on the thread: then it has stopped it.
    pub(super) fn abandon(self: &Arc<Self>, place: &Place, thread: &str, prompt: Seq) -> Option<Grace> {
        let (number, session) = (place.number, place.session);
        // Held until it is noted: a run that comes now finds it, one that came before is found.
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newer = |one: &Running| one.number > number && one.says_on.as_deref() == Some(thread);
        if open.get(&session).is_some_and(|running| running.iter().any(is_newer)) {
            return None;
        }
        let overtaken = CancellationToken::new();
        abandoned.push(Abandoned {
            number,
            session,
            thread: thread.to_owned(),
            prompt,
            began: Arc::clone(&place.began),
            overtaken: overtaken.clone(),
        });
        Some(Grace { runs: Arc::clone(self), number, overtaken })
    }

    /// Is there a run whose client has left it?
    #[cfg(test)]
    pub(super) fn has_abandoned(&self) -> bool {
        !self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The client of this thread says something new. Gives what stops the runs that it has left.
    pub(super) fn overtake(&self, session: SessionId, thread: &str) -> Vec<Action> {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let left = abandoned.extract_if(.., |one| one.session == session && one.thread == thread);
        let stop = |one: Abandoned| {
            one.overtaken.cancel();
            stop_of(one.prompt, &one.began)
        };
        left.map(stop).collect()
    }

    /// A stream ends in the middle of a turn.
    pub(super) fn leave(&self, session: SessionId, thread: &str, left: Left) {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.shift_remove_index(0);
        }
        all.insert((session, thread.to_owned()), left);
    }

    /// Where the last stream of a thread ended, once.
    pub(super) fn take_left(&self, session: SessionId, thread: &str) -> Option<Left> {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        all.shift_remove(&(session, thread.to_owned()))
    }

    /// A page has connected to this thread.
    pub(super) fn connected(&self, thread: &str) {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if connected.len() >= REMEMBERED {
            connected.shift_remove_index(0);
        }
        connected.insert(thread.to_owned());
    }

    /// Has a page connected to this thread?
    pub(super) fn has_connected(&self, thread: &str) -> bool {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).contains(thread)
    }
}
