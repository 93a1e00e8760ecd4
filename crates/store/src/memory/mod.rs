//! An engine without a disk, for tests: same rules, same order, and hooks to hold writes back or have them fail.
//!
//! Writes are committed within [`Store::write`], so a `done` may be called before that returns. It is not made
//! for speed or size.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use portolan_core::{
    CommandId, LogId, Position, Seq, SessionId, Stored, TokenId,
    command::CommandKey,
    ports::{
        Boxed, CommandRow, LogHead, Op, OpenItem, Page, Placed, SessionQuery, Store, StoreError, StoreHealth,
        Write,
    },
    session::state::Summary,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tracing::error;

use crate::rules::{HIGHEST, QUEUE, Refused, copied_frame, may_append, may_copy, may_summarise, weight};

/// The log in memory.
pub struct MemoryStore {
    /// Locked while writes are committed and their `done` is called; a `done` may read.
    queue: Mutex<Queue>,
    data: Mutex<Data>,
    room: Arc<Semaphore>,
    health: watch::Sender<StoreHealth>,
}

#[derive(Default)]
struct Queue {
    held: bool,
    waiting: VecDeque<Job>,
}

enum Job {
    Write(Write, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
}

#[derive(Default)]
struct Data {
    logs: BTreeMap<LogId, Log>,
    sessions: BTreeMap<SessionId, Summary>,
    records: BTreeMap<(&'static str, String), Bytes>,
    /// Every durable entry there was, by its position. Those that are gone are not found in their logs.
    positions: Vec<(LogId, Seq)>,
    bytes: u64,
}

#[derive(Default)]
struct Log {
    entries: BTreeMap<Seq, (Bytes, Option<Bytes>)>,
    last: Seq,
    reserved: Seq,
    checkpoint: Option<(Seq, Bytes)>,
    open_items: Vec<OpenItem>,
    commands: BTreeMap<(TokenId, CommandId), (Seq, Bytes)>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("health", &*self.health.borrow()).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            queue: Mutex::default(),
            data: Mutex::default(),
            room: Arc::new(Semaphore::new(QUEUE)),
            health: watch::channel(StoreHealth::Good).0,
        }
    }

    /// From now on writes wait, as if the disk were slow.
    pub fn hold(&self) {
        lock(&self.queue).held = true;
    }

    /// From now on writes wait and the store says that it fails, as if the disk were full.
    pub fn fail(&self, reason: &str) {
        self.hold();
        self.health.send_replace(StoreHealth::Failing { reason: reason.to_owned() });
    }

    /// Commits what waits, in order, and everything after it at once again.
    pub fn release(&self) {
        let mut queue = lock(&self.queue);
        queue.held = false;
        self.health.send_replace(StoreHealth::Good);
        self.work(&mut queue);
    }

    /// How many writes wait.
    pub fn waiting(&self) -> usize {
        lock(&self.queue).waiting.iter().filter(|job| matches!(job, Job::Write(..))).count()
    }

    fn submit(&self, job: Job) {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(job);
        if !queue.held {
            self.work(&mut queue);
        }
    }

    fn work(&self, queue: &mut Queue) {
        while let Some(job) = queue.waiting.pop_front() {
            match job {
                Job::Write(write, _room) => self.commit(write),
                Job::Flush(waiting) => {
                    // Nobody waits any more: fine.
                    let _ = waiting.send(());
                }
            }
        }
    }

    fn commit(&self, write: Write) {
        let mut data = lock(&self.data);
        let checked = data.check(&write);
        let health = match checked {
            Ok(()) => {
                for op in write.ops {
                    data.apply(write.log, op);
                }
                drop(data);
                if let Some(done) = write.done {
                    done();
                }
                StoreHealth::Good
            }
            Err(Refused(reason)) => {
                error!(log = %write.log, reason, "a write that can never succeed was left out; this is a bug");
                let reason =
                    format!("a write to log {} was refused: {reason}; please report this", write.log);
                StoreHealth::Failing { reason }
            }
        };
        self.health.send_if_modified(|now| {
            let before = std::mem::replace(now, health);
            *now != before
        });
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Data) -> T) -> Boxed<'_, Result<T, StoreError>> {
        let result = look(&lock(&self.data));
        Box::pin(std::future::ready(Ok(result)))
    }
}

/// The log of entries that are gone with theirs.
const GONE: LogId = LogId::Session(SessionId::from_u128(0));

/// A test that panicked elsewhere must not hide its reason behind a second panic here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Data {
    /// All of a write or nothing of it: every rule is looked at before the first change.
    fn check(&self, write: &Write) -> Result<(), Refused> {
        let mut last = self.logs.get(&write.log).map_or(Seq::ZERO, |log| log.last);
        for op in &write.ops {
            match op {
                Op::Append { seq, .. } => {
                    may_append(last, *seq)?;
                    last = *seq;
                }
                Op::CopyFrom { source, upto } => {
                    may_copy(write.log, last)?;
                    last = self
                        .copy_of(write.log, *source, *upto)
                        .last_key_value()
                        .map_or(last, |(seq, _)| *seq);
                }
                Op::Summary(summary) => may_summarise(write.log, summary)?,
                Op::Delete => last = Seq::ZERO,
                Op::Reserve { .. }
                | Op::Chunk { .. }
                | Op::CloseItem { .. }
                | Op::Checkpoint { .. }
                | Op::Command(_)
                | Op::Trim { .. }
                | Op::Put { .. }
                | Op::Remove { .. } => {}
            }
        }
        Ok(())
    }

    fn copy_of(&self, log: LogId, source: SessionId, upto: Seq) -> BTreeMap<Seq, (Bytes, Option<Bytes>)> {
        let source = LogId::Session(source);
        let Some(from) = self.logs.get(&source).filter(|_| source != log) else { return BTreeMap::new() };
        let entries = from.entries.range(..=upto);
        entries.map(|(seq, (frame, _))| (*seq, (Bytes::from(copied_frame(log, frame)), None))).collect()
    }

    fn apply(&mut self, log: LogId, op: Op) {
        self.bytes += weight(&op) as u64;
        match op {
            Op::Append { seq, at: _, frame, raw } => {
                self.positions.push((log, seq));
                let log = self.logs.entry(log).or_default();
                log.entries.insert(seq, (frame, raw));
                log.last = seq;
            }
            Op::Reserve { upto } => {
                let log = self.logs.entry(log).or_default();
                log.reserved = log.reserved.max(upto.min(HIGHEST));
            }
            Op::Chunk { item, seq: _, started, text } => {
                let items = &mut self.logs.entry(log).or_default().open_items;
                match items.iter_mut().find(|open| open.item == item) {
                    Some(open) => open.text.push_str(&text),
                    None => items.push(OpenItem { item, started: started.unwrap_or_default(), text }),
                }
            }
            Op::CloseItem { item } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    log.open_items.retain(|open| open.item != item);
                }
            }
            Op::Checkpoint { seq, state } => {
                self.logs.entry(log).or_default().checkpoint = Some((seq.min(HIGHEST), state));
            }
            Op::Command(CommandRow { key, seq, stage }) => {
                let commands = &mut self.logs.entry(log).or_default().commands;
                commands.insert((key.token, key.id), (seq.min(HIGHEST), stage));
            }
            Op::Summary(summary) => {
                self.sessions.insert(summary.session, *summary);
            }
            Op::CopyFrom { source, upto } => {
                let copy = self.copy_of(log, source, upto);
                self.bytes += copy.values().map(|(frame, _)| frame.len() as u64).sum::<u64>();
                self.positions.extend(copy.keys().map(|seq| (log, *seq)));
                let log = self.logs.entry(log).or_default();
                log.last = copy.last_key_value().map_or(log.last, |(seq, _)| *seq);
                log.entries = copy;
            }
            Op::Delete => {
                let gone = self.logs.remove(&log).map_or(0, |log| size_of_entries(log.entries.values()));
                // The log may begin anew under the same numbers.
                for (place, _) in self.positions.iter_mut().filter(|(place, _)| *place == log) {
                    *place = GONE;
                }
                self.bytes = self.bytes.saturating_sub(gone);
                if let LogId::Session(session) = log {
                    self.sessions.remove(&session);
                }
            }
            Op::Trim { upto } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    let kept = log.entries.split_off(&upto.min(HIGHEST).next());
                    let gone = size_of_entries(log.entries.values());
                    log.entries = kept;
                    self.bytes = self.bytes.saturating_sub(gone);
                }
            }
            Op::Put { collection, key, value } => {
                self.records.insert((collection, key), value);
            }
            Op::Remove { collection, key } => {
                self.records.remove(&(collection, key));
            }
        }
    }
}

fn size_of_entries<'a>(entries: impl Iterator<Item = &'a (Bytes, Option<Bytes>)>) -> u64 {
    entries.map(|(frame, raw)| (frame.len() + raw.as_ref().map_or(0, Bytes::len)) as u64).sum()
}

impl Log {
    fn between(
        &self,
        after: Seq,
        upto: Seq,
    ) -> impl DoubleEndedIterator<Item = (&Seq, &(Bytes, Option<Bytes>))> {
        // A range that ends before it begins would panic.
        let upto = upto.max(after);
        let range = (Bound::Excluded(after), Bound::Included(upto));
        let none = after == upto;
        self.entries.range(if none { (Bound::Included(after), Bound::Excluded(after)) } else { range })
    }
}

impl Store for MemoryStore {
    fn write(&self, write: Write) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let room = self.room.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
            self.submit(Job::Write(write, room));
            Ok(())
        })
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    fn read(
        &self,
        log: LogId,
        after: Seq,
        upto: Seq,
        page: Page,
    ) -> Boxed<'_, Result<Vec<Stored>, StoreError>> {
        self.look(|data| {
            let Some(log) = data.logs.get(&log) else { return Vec::new() };
            let mut bytes = 0;
            log.between(after, upto)
                .take(page.entries.max(1) as usize)
                .enumerate()
                .take_while(|(index, (_, (frame, _)))| {
                    bytes += frame.len();
                    *index == 0 || bytes <= page.bytes as usize
                })
                .map(|(_, (seq, (frame, _)))| Stored { seq: *seq, frame: frame.clone() })
                .collect()
        })
    }

    fn since(&self, after: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
        self.look(|data| {
            let after = usize::try_from(after.0).unwrap_or(usize::MAX);
            let mut bytes = 0;
            (1..)
                .zip(&data.positions)
                .skip(after)
                .filter_map(|(position, (log, seq))| {
                    let (frame, _) = data.logs.get(log)?.entries.get(seq)?;
                    let entry = Stored { seq: *seq, frame: frame.clone() };
                    Some(Placed { position: Position(position), log: *log, entry })
                })
                .take(page.entries.max(1) as usize)
                .enumerate()
                .take_while(|(index, placed)| {
                    bytes += placed.entry.frame.len();
                    *index == 0 || bytes <= page.bytes as usize
                })
                .map(|(_, placed)| placed)
                .collect()
        })
    }

    fn tail(&self, log: LogId, upto: Seq, count: u32) -> Boxed<'_, Result<Seq, StoreError>> {
        self.look(|data| {
            let log = data.logs.get(&log);
            let before = log.and_then(|log| log.between(Seq::ZERO, upto).rev().nth(count as usize));
            before.map_or(Seq::ZERO, |(seq, _)| *seq)
        })
    }

    fn raw(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
        self.look(|data| data.logs.get(&log)?.entries.get(&seq)?.1.clone())
    }

    fn load(&self, log: LogId) -> Boxed<'_, Result<Option<LogHead>, StoreError>> {
        self.look(|data| {
            data.logs.get(&log).map(|log| LogHead {
                last: log.last,
                reserved: log.reserved.max(log.last),
                checkpoint: log.checkpoint.clone(),
                open_items: log.open_items.clone(),
            })
        })
    }

    fn command(&self, log: LogId, key: CommandKey) -> Boxed<'_, Result<Option<CommandRow>, StoreError>> {
        self.look(|data| {
            let by_key = (key.token.clone(), key.id.clone());
            let (seq, stage) = data.logs.get(&log)?.commands.get(&by_key)?;
            Some(CommandRow { key, seq: *seq, stage: stage.clone() })
        })
    }

    fn sessions(&self, query: SessionQuery) -> Boxed<'_, Result<Vec<Summary>, StoreError>> {
        self.look(|data| {
            let newest_first = data.sessions.values().rev();
            newest_first
                .filter(|summary| query.archived.is_none_or(|archived| summary.archived == archived))
                .filter(|summary| !query.live || summary.is_live())
                .filter(|summary| query.before.is_none_or(|before| summary.session < before))
                .take(query.limit as usize)
                .cloned()
                .collect()
        })
    }

    fn matching(&self, part: String, limit: u32) -> Boxed<'_, Result<Vec<SessionId>, StoreError>> {
        self.look(|data| {
            let ids = data.sessions.keys().filter(|session| session.is_named_by(&part));
            ids.take(limit as usize).copied().collect()
        })
    }

    fn records(&self, collection: &'static str) -> Boxed<'_, Result<Vec<(String, Bytes)>, StoreError>> {
        self.look(|data| {
            let records = data.records.iter().filter(|((of, _), _)| *of == collection);
            records.map(|((_, key), value)| (key.clone(), value.clone())).collect()
        })
    }

    fn record(&self, collection: &'static str, key: String) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
        self.look(|data| data.records.get(&(collection, key)).cloned())
    }

    fn size(&self) -> Boxed<'_, Result<u64, StoreError>> {
        self.look(|data| data.bytes)
    }

    fn flush(&self) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (done, wait) = oneshot::channel();
            self.submit(Job::Flush(done));
            wait.await.map_err(|_| StoreError::Closed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Notes, append, everything, fill, log, numbers};

    #[tokio::test]
    async fn held_writes_are_neither_shown_nor_done_until_they_are_released_in_order() {
        let store = MemoryStore::new();
        fill(&store, log(1), [1]).await;
        store.hold();
        let notes = Notes::default();
        for seq in 2..=4 {
            let write =
                Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: Some(notes.when_done(seq)) };
            store.write(write).await.unwrap();
        }
        assert_eq!(store.waiting(), 3);
        assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
        assert_eq!(notes.all(), [0; 0]);
        assert_eq!(*store.health().borrow(), StoreHealth::Good);
        store.release();
        assert_eq!(notes.all(), [2, 3, 4]);
        assert_eq!(numbers(&everything(&store, log(1)).await), [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_failing_store_says_so_until_it_is_released() {
        let store = MemoryStore::new();
        store.fail("no space left");
        let failing = StoreHealth::Failing { reason: "no space left".to_owned() };
        assert_eq!(*store.health().borrow(), failing);
        store.write(Write { log: log(1), ops: vec![append(log(1), 1, "x")], done: None }).await.unwrap();
        assert_eq!(store.load(log(1)).await.unwrap(), None);
        store.release();
        assert_eq!(*store.health().borrow(), StoreHealth::Good);
        assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
    }

    #[tokio::test]
    async fn a_flush_of_a_held_store_waits() {
        let store = Arc::new(MemoryStore::new());
        store.hold();
        store.write(Write { log: log(1), ops: vec![append(log(1), 1, "x")], done: None }).await.unwrap();
        let mut flush = std::pin::pin!(store.flush());
        assert!(polled_once(flush.as_mut()).await.is_none());
        store.release();
        flush.await.unwrap();
    }

    #[tokio::test]
    async fn a_full_queue_of_a_held_store_makes_writers_wait() {
        let store = MemoryStore::new();
        store.hold();
        let write = |seq| store.write(Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: None });
        for seq in 1..=QUEUE as u64 {
            write(seq).await.unwrap();
        }
        let mut one_more = write(QUEUE as u64 + 1);
        assert!(polled_once(one_more.as_mut()).await.is_none());
        store.release();
        one_more.await.unwrap();
        assert_eq!(everything(&store, log(1)).await.len(), QUEUE + 1);
    }

    /// One poll: what is not ready now gives nothing.
    async fn polled_once<T>(
        mut future: std::pin::Pin<&mut (dyn Future<Output = T> + Send + '_)>,
    ) -> Option<T> {
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
