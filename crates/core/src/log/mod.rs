//! The log: one writer, any number of cursors.
//!
//! A log keeps the fold of everything that was appended, a short ring of recent entries for readers that keep up,
//! and the number up to which entries are *visible*: the committed prefix. History lies in the store; a reader that
//! is behind the ring reads from there. Who appends holds the [`Writer`], of which there is one, so numbers need no atomics;
//! everyone else holds the [`Log`], which can be read and nothing else.

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

/// How many numbers are reserved ahead. A restart skips what is left of them; asking for more happens at half, long
/// before readers would have to wait for it.
const RESERVE: u64 = 4096;

/// What a log is about: the events in it and the state they add up to.
pub trait Folded: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    /// What happens.
    type Event: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The type of a snapshot's frame.
    const SNAPSHOT: &'static str;

    /// What a kill costs.
    fn durability(event: &Self::Event) -> Durability;

    /// Takes one entry into the state.
    fn apply(&mut self, seq: Seq, at: Millis, by: Option<&Actor>, event: &Self::Event);

    /// For a reader that saw everything up to `after` but is to skip the streamed entries up to `upto`: what they
    /// added to items that are still open, merged, oldest first.
    /// Right only where no item has ended after `upto`: see [`Folded::newest_end`].
    fn merged(&self, after: Seq, upto: Seq) -> Vec<Self::Event>;

    /// The newest entry that ended an item. What had streamed into it before is no longer known here: the entry has it.
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
    /// Beside the book, so that readers never wait for what its owner folds in.
    ring: Mutex<Ring<F::Event>>,
    tip: watch::Sender<Tip>,
}

impl<F: Folded> fmt::Debug for Log<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("id", &self.id).field("tip", &*self.tip.borrow()).finish_non_exhaustive()
    }
}

/// The written part of a log, as its owner works on it: pure, no I/O. What is appended here becomes visible when the
/// owner has passed it to the store and the store has committed it.
pub struct Book<F: Folded> {
    id: LogId,
    head: Seq,
    /// The last number that was published: up to here the ring has everything.
    shown: Seq,
    /// When the last entry was appended.
    at: Millis,
    /// Asked of the store.
    reserving: Seq,
    /// Committed by the store: no number above it is shown.
    reserved: Seq,
    /// Durable entries that the store has not committed yet.
    uncommitted: VecDeque<Seq>,
    /// Changes for the store that have not been passed to it.
    ops: Vec<Op>,
    /// Called once they are committed.
    then: Vec<Box<dyn FnOnce() + Send>>,
    /// Writes that were passed to the store and that it has not committed: since when, in their order.
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
    /// A book that goes on after `head`, in this state.
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

    /// The same, with what the agent really said.
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

    /// Adds a change for the store that goes with the entries appended last.
    pub fn also(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Calls this once everything so far is committed, on the store's own thread: it must be quick and must not wait.
    pub(crate) fn when_committed(&mut self, then: impl FnOnce() + Send + 'static) {
        self.then.push(Box::new(then));
    }

    /// There is something that the store has not been given yet.
    pub(crate) fn has_changes(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Something was appended that the store or the readers have not been given yet.
    pub fn has_news(&self) -> bool {
        self.head > self.shown
    }

    /// A durable entry was.
    pub fn has_durable_news(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Append { .. }))
    }

    /// Keeps the state as it is now, so that opening the log need not read all of it.
    pub fn checkpoint(&mut self) {
        // Our own types serialise.
        let state = serde_json::to_vec(&self.state).unwrap_or_default().into();
        self.ops.push(Op::Checkpoint { seq: self.head, state });
    }

    /// What the store has not been given yet, for who writes a log that nobody reads.
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

/// The right to append to a log. It cannot be copied: whoever has it is the only one who writes.
#[derive(Debug)]
pub struct Writer<F: Folded> {
    log: Arc<Log<F>>,
}

/// What it writes can be read by it, too.
impl<F: Folded> std::ops::Deref for Writer<F> {
    type Target = Log<F>;
    fn deref(&self) -> &Log<F> {
        &self.log
    }
}

impl<F: Folded> Writer<F> {
    /// A log that goes on where `book` stands.
    pub fn new(store: Arc<dyn Store>, book: Book<F>) -> Self {
        let (tip, _) = watch::channel(Tip { visible: book.visible(), closed: None });
        let ring = Mutex::new(Ring::new(book.shown));
        Self { log: Arc::new(Log { id: book.id, store, book: Mutex::new(book), ring, tip }) }
    }

    /// The log, for those who read it.
    pub fn log(&self) -> Arc<Log<F>> {
        Arc::clone(&self.log)
    }

    /// The book, to append to. Never across an await.
    pub fn book(&self) -> MutexGuard<'_, Book<F>> {
        self.log.book()
    }

    /// Passes what was appended to the store and shows what may be shown. Waits only for room in the store's queue.
    /// Readers see durable entries once the store has committed them.
    pub async fn publish(&self) -> Result<(), StoreError> {
        let fresh = std::mem::take(&mut self.book().fresh);
        let newest = fresh.last().map(|entry| entry.seq);
        self.fill_ring(fresh);
        let (ops, then, upto, reserving) = {
            let mut book = self.book();
            // Only now: what may be seen must be in the ring.
            book.shown = newest.unwrap_or(book.shown);
            let (ops, then) = (std::mem::take(&mut book.ops), std::mem::take(&mut book.then));
            (ops, then, book.uncommitted.back().copied(), book.reserving)
        };
        // What streams does not wait for what is written along with it.
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

    /// Forgets the ring: readers that still need it read from the store. Called when nothing happens.
    pub fn release(&self) {
        self.ring().release();
    }
}

/// The state of a log, for a short look. Never across an await.
#[derive(Debug)]
pub struct Look<'a, F: Folded>(MutexGuard<'a, Book<F>>);

impl<F: Folded> std::ops::Deref for Look<'_, F> {
    type Target = F;
    fn deref(&self) -> &F {
        self.0.state()
    }
}

impl<F: Folded> Log<F> {
    /// Which log this is.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// The state now. It may be ahead of what is visible: see [`Log::wait_visible`].
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

    /// Puts entries into the ring, with their frames made: no reader waits for that, and none makes one anew.
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

    /// Since when the store owes a commit of something that was passed to it, where it does.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.book().owed.front().copied()
    }

    /// Why nothing more will come, once that is so.
    pub fn closed(&self) -> Option<Closed> {
        self.tip.borrow().closed
    }

    /// Waits until the entry with this number may be read, and so is committed. `false` when the log closed first.
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

    /// The state now, with its frame. It may be ahead of what is visible: see [`Log::wait_visible`].
    pub fn snapshot(&self) -> Snapshot<F> {
        let (seq, state) = {
            let book = self.book();
            (book.head, book.state.clone())
        };
        let frame = snapshot_frame(self.id, seq, &state);
        Snapshot { seq, state: Arc::new(state), frame }
    }

    /// Nothing more will come; readers are told once they have read everything.
    pub fn close(&self, why: Closed) {
        self.tip.send_modify(|tip| {
            tip.closed.get_or_insert(why);
        });
    }
}

/// What the store owes the log: to commit. A store that drops it has refused the write for good, and a log with a hole
/// in it shows nothing more.
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
