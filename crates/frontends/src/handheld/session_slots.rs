//! The four slots: keeps them up to date and carries out the messages of devices.
//!
//! One follower per slot reads its session, whatever the number of devices; devices read the board when it has changed.
//! Nothing is queued between the two. Devices act in their own name: core decides what they may do.
//!
//! Devices get only the latest face of a slot ([`super::desk`]: thirty a second, nothing in between), but this follower
//! reads the log in the mode `Every`. A snapshot has only the state: the agent's last text, the end of a turn and the
//! reason of a process's end are entries and not in the state, and a slot shows exactly these. Snapshots would not cost
//! less: each is a copy of the whole state and its JSON, while an entry takes a microsecond (docs/performance.md),
//! once, however many devices there are. `Items` leaves out the streaming entries, which show that an agent compacts
//! and how long a tool runs.

mod actions;
mod automatic;
mod filling;
mod keeping;
mod spawning;

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use portolan_core::{
    Principal, Refusal, RefusalCode, RequestId, Role, SessionId, TokenId,
    log::delivery::{Closed, Delivery, Mode, Start},
    ports::Clock,
    registry::Registry,
    session::state::Summary,
};
use tokio::{
    sync::{Semaphore, broadcast, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    board::{Board, How, Kept},
    desk::SlotNow,
    devices::Devices,
    project::Effect,
    wire::{AutoEdit, Health, SLOTS, SpawnResult},
};

/// How many past entries of a session are read when it comes into a slot: enough for its last text and the end of its
/// last turn.
const PAST: u32 = 64;

/// How many spawn results may wait for a device. A result that comes too late is worthless.
const SPAWN_RESULTS: usize = 16;

/// The pause before another attempt after a session could not be read.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// What the owner configured for the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The agent that a spawn starts.
    pub agent: String,
    /// The folder that this agent works in.
    pub folder: PathBuf,
    /// Whether active sessions fill free slots automatically.
    pub fill: bool,
    /// Whether slot 0 is spawned at the start.
    pub autospawn: bool,
}

/// The four slots and everything that keeps them up to date. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    clock: Clock,
    slots: Slots,
    devices: Devices,
    board: Mutex<Board>,
    /// Grows whenever the board may have changed.
    changed: watch::Sender<u64>,
    /// Grows whenever every slot must be sent again.
    rounds: watch::Sender<u64>,
    spawned: broadcast::Sender<SpawnResult>,
    /// The slots in the store.
    saved: watch::Sender<[Option<Kept>; SLOTS]>,
    /// Whether the slots from the store are restored.
    restored: watch::Sender<bool>,
    /// One switch of auto-edit at a time, so that the log has them in order.
    switching: Semaphore,
    /// Requests that auto-edit is answering.
    automatic: Mutex<HashSet<(SessionId, RequestId)>>,
    /// Sessions that auto-edit has lent its rule to.
    lent: Mutex<Vec<SessionId>>,
    clients: AtomicUsize,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl SessionSlots {
    /// Slots without sessions; [`SessionSlots::start`] restores the slots.
    pub fn new(registry: Registry, clock: Clock, slots: Slots, devices: Devices) -> Self {
        Self(Arc::new(Shared {
            registry,
            clock,
            slots,
            devices,
            board: Mutex::default(),
            changed: watch::Sender::new(0),
            rounds: watch::Sender::new(0),
            spawned: broadcast::Sender::new(SPAWN_RESULTS),
            saved: watch::Sender::new(Default::default()),
            restored: watch::Sender::new(false),
            switching: Semaphore::new(1),
            automatic: Mutex::default(),
            lent: Mutex::default(),
            clients: AtomicUsize::new(0),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Restores the slots, then keeps them up to date until [`SessionSlots::stop`].
    pub fn start(&self) {
        let minding = self.clone();
        self.spawn_task(async move { minding.mind_revocations().await });
        let session_slots = self.clone();
        self.spawn_task(async move {
            session_slots.restore().await;
            session_slots.0.restored.send_replace(true);
            let keeping = session_slots.clone();
            session_slots.0.tasks.spawn(async move { keeping.keep().await });
            if session_slots.0.slots.fill {
                let filling = session_slots.clone();
                session_slots.spawn_task(async move { filling.fill().await });
            }
            if session_slots.0.slots.autospawn {
                session_slots.autospawn().await;
            }
        });
    }

    /// Returns when the slots are restored.
    pub async fn restored(&self) {
        // `self` keeps the sender.
        let _ = self.0.restored.subscribe().wait_for(|restored| *restored).await;
    }

    /// Later events do not change the stored slots: agents end with the daemon, not by themselves.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Cancelled by [`SessionSlots::stop`].
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Returns when everything has ended; call it after [`SessionSlots::stop`].
    pub async fn closed(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Everything that runs for the slots.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Runs something until it is done or the slots stop.
    pub(super) fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Which devices may connect.
    pub fn devices(&self) -> &Devices {
        &self.0.devices
    }

    /// The sessions.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The board, for a short read or change. Never across an await.
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bump(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    /// Signals when the board may have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Signals when every slot must be sent again.
    pub fn rounds(&self) -> watch::Receiver<u64> {
        self.0.rounds.subscribe()
    }

    /// The results of spawns.
    pub fn spawned(&self) -> broadcast::Receiver<SpawnResult> {
        self.0.spawned.subscribe()
    }

    /// Every slot as it is now.
    pub fn slots(&self) -> [SlotNow; SLOTS] {
        let now = self.0.clock.now();
        self.board().slots(now)
    }

    /// The content of `/health`.
    pub fn health(&self) -> Health {
        let now = self.0.clock.now();
        let board = self.board();
        Health {
            status: "ok",
            agents: board.slots(now).into_iter().map(|slot| slot.status).collect(),
            auto_edit: board.auto_edit() == AutoEdit::On,
            ws_clients: self.0.clients.load(Ordering::Relaxed),
            sessions: board.sessions(),
        }
    }

    /// Counts a device as long as the returned value is kept.
    pub fn count(&self) -> Counted {
        self.0.clients.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    /// The identity of the slots themselves, for actions by configuration and not for a device.
    fn own() -> Principal {
        principal("handheld", "handheld")
    }

    /// Waits until the board matches.
    async fn until<T>(&self, mut look: impl FnMut(&Board) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let found = look(&self.board());
            if let Some(found) = found {
                return found;
            }
            // `self` keeps the sender.
            let _ = changes.changed().await;
        }
    }

    // ----------------------------------------------------------------------------------- following

    /// Puts a session into a slot and follows it.
    fn bind(&self, slot: usize, summary: &Summary, how: How) {
        let follower = self.board().bind(slot, summary, how);
        self.lend_edits();
        self.bump();
        let (session_slots, session) = (self.clone(), summary.session);
        self.spawn_task(async move {
            tokio::select! {
                () = follower.cancelled() => {}
                () = session_slots.follow(slot, session) => {}
            }
        });
    }

    async fn follow(&self, slot: usize, session: SessionId) {
        loop {
            match self.read(slot, session).await {
                Ok(Closed::Deleted) => break,
                Ok(Closed::Stopping) => return,
                Ok(Closed::Failed) => {}
                Err(refusal) if refusal.code == RefusalCode::NotFound => break,
                Err(refusal) => tracing::warn!(%session, %refusal, "a slot's session cannot be read"),
            }
            tokio::time::sleep(READ_AGAIN).await;
        }
        let mut board = self.board();
        if board.slot_of(session) == Some(slot) {
            board.leave(slot);
        }
        drop(board);
        self.lend_edits();
        self.bump();
    }

    async fn read(&self, slot: usize, session: SessionId) -> Result<Closed, Refusal> {
        let registry = &self.0.registry;
        let mut reader = registry.attach(&Self::own(), session, Start::Tail(PAST), Mode::Every).await?;
        loop {
            let delivery = reader.next().await;
            if self.0.stop.is_cancelled() {
                return Ok(Closed::Stopping);
            }
            let effect = match delivery {
                Delivery::Entries(pieces) => {
                    let mut board = self.board();
                    let mut effect = Effect::Unseen;
                    for piece in &pieces {
                        match piece.entry() {
                            Ok(entry) if board.apply(slot, session, &entry) == Effect::Seen => {
                                effect = Effect::Seen;
                            }
                            Ok(_) => {}
                            // The snapshot after the past entries has everything that counts.
                            Err(error) => tracing::debug!(%session, %error, "an entry cannot be read"),
                        }
                    }
                    effect
                }
                Delivery::Snapshot(snapshot) => {
                    self.board().reset(slot, session, &snapshot.state);
                    Effect::Seen
                }
                Delivery::Presence(_) => Effect::Unseen,
                Delivery::Closed(why) => return Ok(why),
            };
            if effect == Effect::Seen {
                self.bump();
                self.react(slot, session);
            }
        }
    }

    /// Its own reactions to entries.
    fn react(&self, slot: usize, session: SessionId) {
        self.answer_edits();
        let anew = {
            let mut board = self.board();
            let bound = board.bound_mut(slot, session);
            bound.is_some_and(|bound| {
                let since = bound.view.state().generation;
                let anew = bound.resumed.is_some_and(|before| since > before) && bound.view.died_early();
                if anew {
                    bound.resumed = None;
                }
                anew
            })
        };
        if anew {
            let session_slots = self.clone();
            self.spawn_task(async move { session_slots.start_anew(slot, session).await });
        }
    }
}

/// An identity of the slots themselves.
fn principal(token: &str, name: &str) -> Principal {
    Principal {
        // Both are constants that fit.
        token: token.parse().unwrap_or_else(|_| TokenId::random()),
        name: name.to_owned(),
        role: Role::Operator,
        sessions: None,
        via: "handheld".into(),
    }
}

/// A device that is connected.
#[derive(Debug)]
pub struct Counted(SessionSlots);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The timeout of a wait.
fn deadline(after: Duration) -> Instant {
    Instant::now() + after
}
