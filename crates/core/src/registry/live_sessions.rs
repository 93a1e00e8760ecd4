//! The live sessions: those that are open. Everyone who asks for the same session gets the same handle.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::{Asked, Registry, broken, ledger::User};
use crate::{
    Event, LogId, Refusal, RefusalCode, Seq, SessionId,
    log::{Book, Folded as _, Writer, delivery::Closed},
    ports::{AgentLink, LeftRunning, LogHead, Page, Rejoined},
    session::{
        machine::{Machine, Memory, Unsettled, instructions::INSTRUCTIONS, memory::MEMORIES},
        marks::{MARKS, Mark},
        settle::reopened,
        state::{State, Summary},
        stop_handle::StopHandle,
        task::{Ground, Handle, MAILBOX, Origin, Task},
    },
};

/// A session whose task panics is opened again by itself, but only once in this time: the same report of its agent may
/// make it panic again.
const OPENED_AGAIN: Duration = Duration::from_mins(1);

type Slot = Arc<OnceCell<Arc<Handle>>>;

/// Sessions that are open, or are just being opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSessions {
    slots: Arc<Mutex<Slots>>,
}

#[derive(Debug, Default)]
struct Slots {
    by_id: HashMap<SessionId, Slot>,
    /// When the task of a session panicked, for the last [`OPENED_AGAIN`].
    panicked: HashMap<SessionId, Instant>,
    closed: bool,
}

/// The live sessions for a session's own task: a weak reference, so that dropping the registry ends the sessions.
#[derive(Clone, Debug)]
pub(crate) struct LiveSessionsRef {
    slots: Weak<Mutex<Slots>>,
}

impl LiveSessionsRef {
    /// Drops a session that only `LiveSessions` still holds. `false` if somebody else took it first.
    pub(crate) fn forget(&self, id: SessionId) -> bool {
        self.slots.upgrade().is_none_or(|slots| LiveSessions { slots }.forget(id))
    }

    /// Drops a session that has failed: the next caller opens it again.
    pub(crate) fn remove(&self, id: SessionId) {
        if let Some(slots) = self.slots.upgrade() {
            LiveSessions { slots }.remove(id);
        }
    }
}

impl LiveSessions {
    fn reference(&self) -> LiveSessionsRef {
        LiveSessionsRef { slots: Arc::downgrade(&self.slots) }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: SessionId) -> Result<Slot, Refusal> {
        let mut slots = self.slots();
        if slots.closed {
            return Err(Refusal::new(RefusalCode::ShuttingDown, "Portolan is shutting down"));
        }
        Ok(Arc::clone(slots.by_id.entry(id).or_default()))
    }

    /// The session, if it is open.
    pub(super) fn awake(&self, id: SessionId) -> Option<Arc<Handle>> {
        self.slots().by_id.get(&id)?.get().cloned()
    }

    pub(super) fn remove(&self, id: SessionId) {
        self.slots().by_id.remove(&id);
    }

    fn forget(&self, id: SessionId) -> bool {
        let mut slots = self.slots();
        let held = slots.by_id.get(&id).is_some_and(|slot| {
            Arc::strong_count(slot) > 1 || slot.get().is_some_and(|handle| Arc::strong_count(handle) > 1)
        });
        if !held {
            slots.by_id.remove(&id);
        }
        !held
    }

    /// Drops a session whose task has panicked. `false` if it panicked a short time ago too.
    fn panicked(&self, id: SessionId) -> bool {
        let (mut slots, now) = (self.slots(), Instant::now());
        slots.by_id.remove(&id);
        slots.panicked.retain(|_, before| now.duration_since(*before) < OPENED_AGAIN);
        slots.panicked.insert(id, now).is_none()
    }

    /// Opens no more sessions, and returns the open ones.
    pub(super) fn close(&self) -> Vec<Arc<Handle>> {
        self.slots().closed = true;
        self.all_awake()
    }

    /// Every open session.
    pub(super) fn all_awake(&self) -> Vec<Arc<Handle>> {
        self.slots().by_id.values().filter_map(|slot| slot.get().cloned()).collect()
    }
}

/// What a session is opened with, besides its log and its machine.
struct Woken {
    origin: Origin,
    published: Summary,
    asked: Asked,
    rejoined: Option<(AgentLink, u64)>,
}

/// The stored data about an agent that may still run.
struct Left {
    known: LeftRunning,
    memory: Option<Memory>,
    unsettled: Vec<Unsettled>,
}

impl Registry {
    /// The session, opened. Opening settles what a crash left open.
    pub(super) async fn wake(&self, id: SessionId) -> Result<Arc<Handle>, Refusal> {
        let slot = self.shared.live_sessions.slot(id)?;
        let woken = slot.get_or_try_init(|| self.load(id)).await.cloned();
        drop(slot);
        if woken.is_err() {
            self.shared.live_sessions.forget(id);
        }
        woken
    }

    /// Opens a session again whose task has panicked: its agent may still run, and ask something. The next caller opens
    /// a session that panics again and again.
    async fn open_again(&self, id: SessionId) {
        if !self.shared.live_sessions.panicked(id) {
            tracing::error!("the session panicked again, and stays closed until somebody opens it");
        } else if let Err(refusal) = self.wake(id).await {
            tracing::error!(%refusal, "the session cannot be opened again");
        }
    }

    async fn load(&self, id: SessionId) -> Result<Arc<Handle>, Refusal> {
        let log = LogId::Session(id);
        let head = self.shared.store.load(log).await.map_err(broken)?;
        let head = head.ok_or_else(|| Refusal::no_session(id))?;
        let origin = self.origin(id).await?;
        let mut state = self.fold_stored(id, &origin, &head).await?;
        let published = state.summary.clone();
        let newest = head.last.max(head.reserved);
        let mut machine = Machine::new(self.shared.policy.clone());
        let left = if published.is_live() { Some(self.left_running(id, &state).await?) } else { None };
        let rejoined = match &left {
            Some(left) => self.rejoin(&origin, left).await,
            None => None,
        };
        let (book, rejoined) = match (left, rejoined) {
            (Some(Left { known, memory: Some(memory), unsettled }), Some(Rejoined { link, taken, away })) => {
                tracing::info!(session = %id, "the agent was found running");
                state.items = reopened(&head.open_items, newest);
                machine.restore(&state, memory, unsettled, &taken);
                let mut book = Book::new(log, newest, state);
                Machine::extend_deadlines(&mut book, self.shared.clock.now(), away);
                (book, Some((link, known.recorded)))
            }
            (left, _) => {
                let unsettled = left.map(|left| left.unsettled).unwrap_or_default();
                let mut book = Book::new(log, newest, state);
                machine.recover(&mut book, self.shared.clock.now(), &head.open_items, &unsettled);
                (book, None)
            }
        };
        self.shared.daemon.compare(id, book.state()).await;
        Ok(self.spawn(book, machine, Woken { origin, published, asked: Asked::unknown(), rejoined }))
    }

    /// What a session's log says about an agent that may still run.
    async fn left_running(&self, id: SessionId, state: &State) -> Result<Left, Refusal> {
        let store = &self.shared.store;
        let unreadable = |error: serde_json::Error| {
            let message = format!("the state of session `{id}` cannot be read: {error}");
            Refusal::new(RefusalCode::Internal, message)
        };
        let memory = store.record(MEMORIES, id.to_string()).await.map_err(broken)?;
        let memory = memory.map(|memory| serde_json::from_slice(&memory)).transpose().map_err(unreadable)?;
        let mark = store.record(MARKS, id.to_string()).await.map_err(broken)?;
        let mark = mark.map(|mark| serde_json::from_slice::<Mark>(&mark)).transpose().map_err(unreadable)?;
        // A mark of an earlier start says nothing about this one.
        let recorded = mark.filter(|mark| mark.generation == state.generation).map_or(0, |mark| mark.reports);
        let records = store.records(INSTRUCTIONS).await.map_err(broken)?;
        let unsettled = Unsettled::of(id, records).map_err(unreadable)?;
        let told = unsettled.iter().map(Unsettled::instruction_id).collect();
        let known = LeftRunning { session: id, generation: state.generation, recorded, unsettled: told };
        Ok(Left { known, memory, unsettled })
    }

    /// The agent, if it still runs and its work is known.
    async fn rejoin(&self, origin: &Origin, left: &Left) -> Option<Rejoined> {
        left.memory.as_ref()?;
        self.agent(&origin.spec.agent)?.rejoin(left.known.clone()).await
    }

    /// The fold of the log: its newest checkpoint and all later entries.
    async fn fold_stored(&self, id: SessionId, origin: &Origin, head: &LogHead) -> Result<State, Refusal> {
        let unreadable = |seq: Seq, error: serde_json::Error| {
            let message = format!("entry {seq} of session `{id}` cannot be read: {error}");
            Refusal::new(RefusalCode::Internal, message)
        };
        let (mut seen, mut state) = match &head.checkpoint {
            Some((seq, state)) => {
                (*seq, serde_json::from_slice(state).map_err(|error| unreadable(*seq, error))?)
            }
            None => (Seq::ZERO, State::new(id, origin.spec.masked(), self.shared.clock.now())),
        };
        // Streamed entries are not in the log; the chunks of open items hold their text.
        State::forget_streamed(&mut state);
        while seen < head.last {
            let page = self
                .shared
                .store
                .read(LogId::Session(id), seen, head.last, Page::BATCH)
                .await
                .map_err(broken)?;
            let Some(newest) = page.last() else { break };
            seen = newest.seq;
            for stored in &page {
                let entry = stored.decode::<Event>().map_err(|error| unreadable(stored.seq, error))?;
                state.apply(entry.seq, entry.at, entry.by.as_ref(), &entry.event);
            }
        }
        Ok(state)
    }

    /// Puts a newly created session among the live sessions.
    pub(super) async fn shelve(
        &self,
        id: SessionId,
        book: Book<State>,
        machine: Machine,
        origin: Origin,
    ) -> Result<Arc<Handle>, Refusal> {
        let slot = self.shared.live_sessions.slot(id)?;
        let published = book.state().summary.clone();
        let woken = Woken { origin, published, asked: Asked::nothing(), rejoined: None };
        let spawn = || async { self.spawn(book, machine, woken) };
        Ok(Arc::clone(slot.get_or_init(spawn).await))
    }

    fn spawn(&self, book: Book<State>, machine: Machine, woken: Woken) -> Arc<Handle> {
        let Woken { origin, published, asked, rejoined } = woken;
        let id = published.session;
        let writer = Writer::new(self.store(), book);
        let log = writer.log();
        let (mailbox, inbox) = tokio::sync::mpsc::channel(MAILBOX);
        let stop_handle = StopHandle::default();
        let (held, held_back) = tokio::sync::watch::channel(HashMap::new());
        let task = Task {
            id,
            log: writer,
            mailbox: inbox,
            machine,
            agent: self.agent(&origin.spec.agent).cloned(),
            origin,
            clock: self.shared.clock.clone(),
            daemon: self.shared.daemon.clone(),
            live_sessions: self.shared.live_sessions.reference(),
            stop_handle: stop_handle.clone(),
            held: held_back,
            crew: self.shared.crew.clone(),
            idle_after: self.shared.policy.idle_after,
            rules: self.shared.daemon.rules(),
            lent: self.shared.lending.watch(),
            ground: Ground {
                folder: published.cwd.clone(),
                home: self.shared.policy.home.clone(),
                own: Arc::clone(&self.shared.policy.own),
                known: None,
            },
            ledger: self.shared.daemon.ledger(),
            user: User { agent: published.agent.clone(), folder: published.cwd.clone() },
            published,
            rejoined,
        };
        let shared = Arc::downgrade(&self.shared);
        let watched = Arc::clone(&log);
        // Without a parent: the caller that opened the session has nothing to do with its later log lines.
        let span = tracing::info_span!(parent: None, "session", id = %id);
        tokio::spawn(tracing::Instrument::instrument(
            async move {
                // A panic ends only this task.
                let ended = tokio::spawn(tracing::Instrument::in_current_span(task.run())).await;
                if ended.is_err() {
                    tracing::error!("the session's task panicked");
                    watched.close(Closed::Failed);
                    if let Some(shared) = shared.upgrade() {
                        Registry { shared }.open_again(id).await;
                    }
                }
            },
            span,
        ));
        let (presence, _) = tokio::sync::watch::channel(Arc::default());
        Arc::new(Handle { id, log, mailbox, presence, held, agent: stop_handle, asked })
    }
}
