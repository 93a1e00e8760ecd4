//! The log: one writer, any number of cursors.
//!
//! A log keeps the fold of all appended entries, a short ring of recent entries for readers that keep up, and the
//! number up to which entries are *visible*: the committed prefix. History is in the store; a reader that is behind the
//! ring reads from there. The one [`Writer`] appends, so numbers need no atomics; everyone else holds the read-only
//! [`Log`].

pub mod cursor;
pub mod delivery;
mod ring;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::watch, time::Instant};

use self::{
    delivery::{Closed, Snapshot},
    ring::Ring,
};
use crate::{
    Actor, Entry, LogId, Millis, Seq,
    event::Durability,
    ports::{Op, Store, StoreError, Write},
};

/// How many numbers are reserved ahead. A restart skips the unused ones. Portolan reserves more at half, long before
/// readers would have to wait.
const RESERVE: u64 = 4096;

/// The content of a log: its events and their fold.
pub trait Folded: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    /// The log's event type.
    type Event: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The type of a snapshot's frame.
    const SNAPSHOT: &'static str;

    /// What happens to the event's entry when the daemon is killed.
    fn durability(event: &Self::Event) -> Durability;

    /// Folds one entry into the state.
    fn apply(&mut self, seq: Seq, at: Millis, by: Option<&Actor>, event: &Self::Event);

    /// For a reader that saw everything up to `after` but skips the streamed entries up to `upto`: their additions to
    /// items that are still open, merged, oldest first. Correct only if no item ended after `upto`: see
    /// [`Folded::newest_end`].
    fn merged(&self, after: Seq, upto: Seq) -> Vec<Self::Event>;

    /// The newest entry that ended an item. The state no longer holds the item's streamed text: that entry holds it.
    fn newest_end(&self) -> Seq;
}

/// How far readers may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tip {
    pub(crate) visible: Seq,
    pub(crate) closed: Option<Closed>,
}

/// A log as its readers see it. Its [`Writer`] shares it with them.
pub struct Log<F: Folded> {
    id: LogId,
    store: Arc<dyn Store>,
    book: Mutex<Book<F>>,
    /// Separate from the book, so that readers never wait for the book's owner.
    ring: Mutex<Ring<F::Event>>,
    tip: watch::Sender<Tip>,
}

impl<F: Folded> fmt::Debug for Log<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("id", &self.id).field("tip", &*self.tip.borrow()).finish_non_exhaustive()
    }
}

/// The written part of a log, for its owner: pure, no I/O. An appended entry becomes visible when the owner has passed
/// it to the store and the store has committed it.
pub struct Book<F: Folded> {
    id: LogId,
    head: Seq,
    /// The last published number: the ring holds everything up to here.
    shown: Seq,
    /// When the last entry was appended.
    at: Millis,
    /// The highest number that the store was asked to reserve.
    reserving: Seq,
    /// The highest number that the store has reserved: no number above it is shown.
    reserved: Seq,
    /// Durable entries that the store has not committed yet.
    uncommitted: VecDeque<Seq>,
    /// Changes that have not been passed to the store.
    ops: Vec<Op>,
    /// Callbacks for after their commit.
    then: Vec<Box<dyn FnOnce() + Send>>,
    /// When each uncommitted write was passed to the store, in order.
    owed: VecDeque<Instant>,
    /// Entries that have not been published.
    fresh: Vec<Arc<Entry<F::Event>>>,
    state: F,
}

impl<F: Folded> fmt::Debug for Book<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("id", &self.id).field("head", &self.head).finish_non_exhaustive()
    }
}

impl<F: Folded> Book<F> {
    /// A book that continues after `head`, in this state.
    pub fn new(id: LogId, head: Seq, state: F) -> Self {
        Self {
            id,
            head,
            shown: head,
            at: Millis::default(),
            reserving: head,
            reserved: head,
            uncommitted: VecDeque::new(),
            ops: Vec::new(),
            then: Vec::new(),
            owed: VecDeque::new(),
            fresh: Vec::new(),
            state,
        }
    }

    /// The fold of everything appended so far.
    pub fn state(&self) -> &F {
        &self.state
    }

    /// The last number given out.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// When the last entry was appended.
    pub fn at(&self) -> Millis {
        self.at
    }

    /// Appends an entry and gives its number.
    pub fn append(&mut self, at: Millis, by: Option<Actor>, event: F::Event) -> Seq {
        self.append_raw(at, by, event, None)
    }

    /// The same, with the agent's original text.
    pub fn append_raw(&mut self, at: Millis, by: Option<Actor>, event: F::Event, raw: Option<Bytes>) -> Seq {
        let seq = self.head.next();
        self.head = seq;
        self.at = at;
        if self.reserving.0 < seq.0 + RESERVE / 2 {
            self.reserving = Seq(seq.0 + RESERVE);
            self.ops.push(Op::Reserve { upto: self.reserving });
        }
        self.state.apply(seq, at, by.as_ref(), &event);
        let durability = F::durability(&event);
        let entry = Arc::new(Entry::new(self.id, seq, at, by, event).with_raw(raw));
        if durability == Durability::Durable {
            self.uncommitted.push_back(seq);
            self.ops.push(Op::Append { seq, at, frame: entry.frame().clone(), raw: entry.raw.clone() });
        }
        self.fresh.push(entry);
        seq
    }

    /// Adds a change for the store to the entries appended last.
    pub fn also(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Calls this after everything so far is committed, on the store's own thread: it must be quick and must not wait.
    pub(crate) fn when_committed(&mut self, then: impl FnOnce() + Send + 'static) {
        self.then.push(Box::new(then));
    }

    /// Whether there are changes that the store does not have yet.
    pub(crate) fn has_changes(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether there are entries that the store or the readers do not have yet.
    pub fn has_news(&self) -> bool {
        self.head > self.shown
    }

    /// Whether there is a durable entry among them.
    pub fn has_durable_news(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Append { .. }))
    }

    /// Stores the current state, so that opening the log need not read all of it.
    pub fn checkpoint(&mut self) {
        // Our own types serialise.
        let state = serde_json::to_vec(&self.state).unwrap_or_default().into();
        self.ops.push(Op::Checkpoint { seq: self.head, state });
    }

    /// The changes that the store does not have yet, for the writer of a log that nobody reads.
    pub(crate) fn take_ops(&mut self) -> Vec<Op> {
        self.shown = self.head;
        self.fresh.clear();
        std::mem::take(&mut self.ops)
    }

    fn visible(&self) -> Seq {
        let committed = self.uncommitted.front().map_or(self.shown, |first| first.previous());
        committed.min(self.shown).min(self.reserved)
    }
}

/// The right to append to a log. A writer cannot be copied: its owner is the only one who writes.
#[derive(Debug)]
pub struct Writer<F: Folded> {
    log: Arc<Log<F>>,
}

/// A writer can also read its log.
impl<F: Folded> std::ops::Deref for Writer<F> {
    type Target = Log<F>;
    fn deref(&self) -> &Log<F> {
        &self.log
    }
}

impl<F: Folded> Writer<F> {
    /// A log that continues where `book` is.
    pub fn new(store: Arc<dyn Store>, book: Book<F>) -> Self {
        let (tip, _) = watch::channel(Tip { visible: book.visible(), closed: None });
        let ring = Mutex::new(Ring::new(book.shown));
        Self { log: Arc::new(Log { id: book.id, store, book: Mutex::new(book), ring, tip }) }
    }

    /// The log, for its readers.
    pub fn log(&self) -> Arc<Log<F>> {
        Arc::clone(&self.log)
    }

    /// The book, to append to. Never hold it across an await.
    pub fn book(&self) -> MutexGuard<'_, Book<F>> {
        self.log.book()
    }

    /// Passes the appended entries to the store and shows the streamed ones at once. It waits only for room in the
    /// store's queue. Readers see durable entries after the store has committed them.
    pub async fn publish(&self) -> Result<(), StoreError> {
        let fresh = std::mem::take(&mut self.book().fresh);
        let newest = fresh.last().map(|entry| entry.seq);
        self.fill_ring(fresh);
        let (ops, then, upto, reserving) = {
            let mut book = self.book();
            // Only after the ring is filled: every visible entry must be in the ring.
            book.shown = newest.unwrap_or(book.shown);
            let (ops, then) = (std::mem::take(&mut book.ops), std::mem::take(&mut book.then));
            (ops, then, book.uncommitted.back().copied(), book.reserving)
        };
        // Streamed entries do not wait for the entries that are written with them.
        self.show();
        if ops.is_empty() {
            return Ok(());
        }
        self.book().owed.push_back(Instant::now());
        let promise = Promise { log: self.log(), upto, reserving, kept: false };
        let done = Box::new(move || {
            promise.keep();
            for then in then {
                then();
            }
        });
        self.store.write(Write { log: self.id, ops, done: Some(done) }).await
    }

    /// Empties the ring: readers that still need entries read from the store. Called when nothing happens.
    pub fn release(&self) {
        self.ring().release();
    }
}

/// The state of a log, for a short look. Never hold it across an await.
#[derive(Debug)]
pub struct Look<'a, F: Folded>(MutexGuard<'a, Book<F>>);

impl<F: Folded> std::ops::Deref for Look<'_, F> {
    type Target = F;
    fn deref(&self) -> &F {
        self.0.state()
    }
}

impl<F: Folded> Log<F> {
    /// The log's id.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// The current state. It may be ahead of the visible entries: see [`Log::wait_visible`].
    pub fn state(&self) -> Look<'_, F> {
        Look(self.book())
    }

    /// The last number given out.
    pub fn head(&self) -> Seq {
        self.book().head()
    }

    fn book(&self) -> MutexGuard<'_, Book<F>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) -> MutexGuard<'_, Ring<F::Event>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts entries into the ring, with their frames made, so that no reader waits for a frame or makes one again.
    fn fill_ring(&self, entries: Vec<Arc<Entry<F::Event>>>) {
        if self.ring().has_readers() {
            for entry in &entries {
                entry.frame();
            }
        }
        let mut ring = self.ring();
        for entry in entries {
            let durability = F::durability(&entry.event);
            ring.push(entry, durability);
        }
    }

    fn committed(&self, upto: Option<Seq>, reserved: Seq) {
        let mut book = self.book();
        book.owed.pop_front();
        book.reserved = book.reserved.max(reserved);
        while let (Some(first), Some(upto)) = (book.uncommitted.front(), upto)
            && *first <= upto
        {
            book.uncommitted.pop_front();
        }
        drop(book);
        self.show();
    }

    fn show(&self) {
        let visible = self.book().visible();
        self.tip.send_if_modified(|tip| {
            let more = visible > tip.visible;
            tip.visible = tip.visible.max(visible);
            more
        });
    }

    /// The number up to which entries may be read.
    pub fn visible(&self) -> Seq {
        self.tip.borrow().visible
    }

    /// Since when the store has owed a commit of a write, if it does.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.book().owed.front().copied()
    }

    /// Why the log is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.tip.borrow().closed
    }

    /// Waits until the entry with this number is visible, and so committed. `false` if the log closed first.
    pub async fn wait_visible(&self, seq: Seq) -> bool {
        let mut tip = self.tip.subscribe();
        let reached = tip.wait_for(|tip| tip.visible >= seq || tip.closed.is_some()).await;
        reached.is_ok_and(|tip| tip.visible >= seq)
    }

    pub(crate) fn tips(&self) -> watch::Receiver<Tip> {
        self.tip.subscribe()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The current state, with its frame. It may be ahead of the visible entries: see [`Log::wait_visible`].
    pub fn snapshot(&self) -> Snapshot<F> {
        let (seq, state) = {
            let book = self.book();
            (book.head, book.state.clone())
        };
        let frame = snapshot_frame(self.id, seq, &state);
        Snapshot { seq, state: Arc::new(state), frame }
    }

    /// Closes the log. Readers are informed after they have read everything.
    pub fn close(&self, why: Closed) {
        self.tip.send_modify(|tip| {
            tip.closed.get_or_insert(why);
        });
    }
}

/// The store's promise to commit a write. A store that drops the promise has refused the write for good, and a log with
/// a missing entry shows nothing more.
struct Promise<F: Folded> {
    log: Arc<Log<F>>,
    upto: Option<Seq>,
    reserving: Seq,
    kept: bool,
}

impl<F: Folded> Promise<F> {
    fn keep(mut self) {
        self.kept = true;
        self.log.committed(self.upto, self.reserving);
    }
}

impl<F: Folded> Drop for Promise<F> {
    fn drop(&mut self) {
        if !self.kept {
            self.log.close(Closed::Failed);
        }
    }
}

/// The native frame of a snapshot.
pub(crate) fn snapshot_frame<F: Folded>(log: LogId, seq: Seq, state: &F) -> Bytes {
    #[derive(Serialize)]
    struct Frame<'a, F> {
        r#type: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<crate::SessionId>,
        seq: Seq,
        state: &'a F,
    }
    let session = match log {
        LogId::Daemon => None,
        LogId::Session(id) => Some(id),
    };
    // Our own types serialise.
    serde_json::to_vec(&Frame { r#type: F::SNAPSHOT, session, seq, state }).unwrap_or_default().into()
}
