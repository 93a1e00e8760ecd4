//! An engine without a disk, for tests: the same rules, the same order, and hooks to hold writes back or make them
//! fail.
//!
//! Writes are committed within [`Store::write`], so `done` may be called before that returns. This engine is not made
//! for speed or size.

mod data;

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use portolan_core::{
    LogId, Position, Seq, SessionId, Stored,
    command::CommandKey,
    ports::{
        Boxed, CommandRow, LogHead, Page, Place, Placed, SessionQuery, Store, StoreError, StoreHealth, Write,
    },
    session::state::Summary,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tracing::error;

use self::data::Data;
use crate::rules::{QUEUE, Refused};

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
    /// This many more writes are committed before the rest is held.
    left: Option<usize>,
    waiting: VecDeque<Job>,
}

enum Job {
    Write(Write, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
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

    /// From now on writes wait and the store reports a failure, as if the disk were full.
    pub fn fail(&self, reason: &str) {
        self.hold();
        self.health.send_replace(StoreHealth::Failing { reason: reason.to_owned() });
    }

    /// Commits the waiting writes, in order, and every later write at once.
    pub fn release(&self) {
        let mut queue = lock(&self.queue);
        queue.held = false;
        self.health.send_replace(StoreHealth::Good);
        self.work(&mut queue);
    }

    /// From now on this many writes are committed, and no more: as if the daemon were killed after the last of them.
    pub fn hold_after(&self, writes: usize) {
        lock(&self.queue).left = Some(writes);
    }

    /// Drops the waiting writes, as after a kill. Every later write is committed at once again.
    pub fn lose(&self) {
        let lost = {
            let mut queue = lock(&self.queue);
            (queue.held, queue.left) = (false, None);
            std::mem::take(&mut queue.waiting)
        };
        // Outside of the lock: a caller that learns of a lost write may read the store.
        drop(lost);
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
            if let (Job::Write(..), Some(left)) = (&job, &mut queue.left) {
                if *left == 0 {
                    queue.held = true;
                    return queue.waiting.push_front(job);
                }
                *left -= 1;
            }
            match job {
                Job::Write(write, _room) => self.commit(write),
                Job::Flush(waiting) => {
                    // It is fine if nobody waits any more.
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

/// A test that panicked elsewhere must not hide its reason behind a second panic here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            let later = (1..).zip(&data.positions).skip(after);
            a_page(later.filter_map(|place| placed(data, place)), page)
        })
    }

    fn before(&self, before: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
        self.look(|data| {
            let before = usize::try_from(before.0).unwrap_or(usize::MAX).saturating_sub(1);
            let earlier = &data.positions[..before.min(data.positions.len())];
            let newest_first = (1..).zip(earlier).collect::<Vec<_>>().into_iter().rev();
            a_page(newest_first.filter_map(|place| placed(data, place)), page)
        })
    }

    fn place(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Place>, StoreError>> {
        self.look(|data| {
            data.logs.get(&log)?.entries.get(&seq)?;
            let (position, _) = (1..).zip(&data.positions).find(|(_, place)| **place == (log, seq))?;
            Some(Place { position: Position(position), link: None })
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

/// The entry at a position, if it still exists.
fn placed(data: &Data, (position, (log, seq)): (u64, &(LogId, Seq))) -> Option<Placed> {
    let (frame, _) = data.logs.get(log)?.entries.get(seq)?;
    let entry = Stored { seq: *seq, frame: frame.clone() };
    Some(Placed { position: Position(position), log: *log, entry })
}

/// The first of these entries, as many as the page allows.
fn a_page(entries: impl Iterator<Item = Placed>, page: Page) -> Vec<Placed> {
    let mut bytes = 0;
    let fits = |(index, placed): &(usize, Placed)| {
        bytes += placed.entry.frame.len();
        *index == 0 || bytes <= page.bytes as usize
    };
    let some = entries.take(page.entries.max(1) as usize).enumerate();
    some.take_while(fits).map(|(_, placed)| placed).collect()
}
