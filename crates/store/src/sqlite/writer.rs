//! Writing: a thread commits all waiting writes, then those that arrived meanwhile. No timer.
//!
//! If nothing waits, the caller commits a small write at once: waking the thread and waiting for it takes many times
//! longer than the commit. There is one [`Pen`], so there is one writer at any time. A caller that cannot get the pen
//! soon, or would overtake a waiting write, leaves the write to the thread.
//!
//! A write that fails now is tried again until it works or the store is closed; nothing is dropped or overtaken. A
//! write that can never succeed (see `rules`) fails alone: the batch is rolled back and tried again without it, so that
//! the good case needs no savepoints.

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use portolan_core::ports::{StoreHealth, Write};
use rusqlite::Connection;
use tokio::sync::{
    mpsc::{self, error::TryRecvError},
    oneshot, watch,
};
use tracing::{debug, error, warn};

use super::{
    apply::{Leaves, Logs, apply},
    faults::{Fault, in_plain_words},
    sweep::{self, Progress},
    tidy::Ledger,
};
use crate::rules::weight;

/// The largest number of changes in one transaction (except for a single larger write): it takes a few milliseconds,
/// and later writes wait no longer.
const BATCH_OPS: usize = 1024;

/// How often a flush tries to make the file shorter while another connection is in the way, and the pause between two
/// tries: a merge takes some milliseconds, a reader may take as long as it wants.
const SHORTEN_TRIES: u32 = 100;
const SHORTEN_PAUSE: Duration = Duration::from_millis(5);

/// The largest number of bytes in one transaction (except for a single larger write): its memory in addition to the
/// queue.
const BATCH_BYTES: usize = 1024 * 1024;

/// The first wait after a failure: a lock often lasts only a moment.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The longest wait after a failure: how late we may notice that the disk has room again.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long a closing store tries to write the waiting writes.
const CLOSING_PATIENCE: Duration = Duration::from_secs(3);

/// The caller does not commit a write larger than this, in bytes: others wait for its thread.
const SMALL: usize = 16 * 1024;

/// How long the caller of a small write waits for another commit: less than waking the thread and waiting for it takes,
/// and little compared with a stalled disk.
const PEN_PATIENCE: Duration = Duration::from_micros(200);

/// Work for the writer.
pub(super) enum Job {
    /// Write this.
    Write(Write),
    /// A write that was committed at once left something to sweep.
    Sweep,
    /// Answer when everything before is committed and deleted entries are swept.
    Flush(oneshot::Sender<()>),
}

/// The tools for writing. Only its holder writes.
pub(super) struct Pen {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) health: watch::Sender<StoreHealth>,
    pub(super) sweeping: Progress,
    pub(super) logs: Logs,
    pub(super) ledger: Ledger,
    /// How many pages the database may have: simulates a full disk.
    #[cfg(test)]
    pub(super) page_limit: Arc<std::sync::atomic::AtomicU32>,
}

/// The pen, shared by the thread and the callers of writes.
#[derive(Clone)]
pub(super) struct Desk {
    pen: Arc<Mutex<Pen>>,
    /// Writes that were left to the thread and are not committed.
    waiting: Arc<AtomicUsize>,
}

/// The result of committing a write at once.
pub(super) enum Tried {
    /// The write is committed, and its waiter was informed.
    Committed(Leaves),
    /// Nothing has happened: the write is for the thread.
    NotNow(Write),
}

impl Desk {
    pub(super) fn new(pen: Pen) -> Self {
        Self { pen: Arc::new(Mutex::new(pen)), waiting: Arc::default() }
    }

    /// Waits for the pen.
    fn pen(&self) -> MutexGuard<'_, Pen> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pen, if it is free now or soon.
    fn pen_soon(&self) -> Option<MutexGuard<'_, Pen>> {
        let mut began = None;
        loop {
            match self.pen.try_lock() {
                Ok(pen) => return Some(pen),
                Err(TryLockError::Poisoned(pen)) => return Some(pen.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            let for_the_thread = self.waiting.load(Ordering::Acquire) > 0;
            if for_the_thread || began.get_or_insert_with(Instant::now).elapsed() > PEN_PATIENCE {
                return None;
            }
            thread::yield_now();
        }
    }

    /// A write will be left to the thread.
    pub(super) fn expect_one(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// Commits the write at once, if that is quick and overtakes nothing.
    pub(super) fn commit_now(&self, write: Write) -> Tried {
        let bytes: usize = write.ops.iter().map(weight).sum();
        if bytes > SMALL {
            return Tried::NotNow(write);
        }
        let Some(mut pen) = self.pen_soon() else { return Tried::NotNow(write) };
        if self.waiting.load(Ordering::Acquire) > 0 {
            return Tried::NotNow(write);
        }
        let batch = vec![(write, None)];
        // The thread waits for a lock that another program holds.
        let patient = pen.connection.busy_timeout(Duration::ZERO).is_ok();
        let attempt = pen.attempt(&batch);
        let restored = pen.connection.busy_timeout(super::WRITE_PATIENCE).is_ok();
        debug_assert!(patient && restored, "only a closed connection has no timeout");
        if let Attempt::Committed(leaves) = attempt {
            pen.committed(leaves, batch);
            return Tried::Committed(leaves);
        }
        match batch.into_iter().next() {
            Some((write, _)) => Tried::NotNow(write),
            None => Tried::Committed(Leaves::Nothing),
        }
    }
}

/// The state of the writing thread.
pub(super) struct Writer {
    pub(super) desk: Desk,
    pub(super) path: PathBuf,
    pub(super) jobs: mpsc::Receiver<Job>,
    /// Set when the store is dropped.
    pub(super) closing: Arc<AtomicBool>,
    /// Waiters of a flush whose writes are committed.
    pub(super) flushes: Vec<oneshot::Sender<()>>,
    /// Ends when the pen's ledger is closed.
    pub(super) tidying: thread::JoinHandle<()>,
}

/// How many writes a closing store could not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost(pub(super) usize);

/// Writes for one transaction, each with the reason if it was refused.
type Batch = Vec<(Write, Option<String>)>;

/// The result of trying a batch.
enum Attempt {
    Committed(Leaves),
    Refused { index: usize, reason: String },
    Failed { reason: String },
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) -> Lost {
        let mut lost = Lost(0);
        while let Some(first) = self.next() {
            let batch = self.take_waiting(first);
            if let Err(given_up) = self.commit(batch) {
                lost = given_up;
                break;
            }
        }
        if lost == Lost(0) {
            self.answer_flushes();
        } else {
            error!(path = %self.path.display(), writes = lost.0, "the store closed with writes it could not write");
        }
        let mut pen = self.desk.pen();
        pen.ledger.close();
        if self.tidying.join().is_err() {
            error!("the tidying thread panicked");
        }
        // Another connection in the way does not matter: the next start does it.
        if let Err(problem) = run_all(&pen.connection, "PRAGMA wal_checkpoint(TRUNCATE)") {
            debug!(error = %problem, "the write-ahead log stays as it is");
        }
        lost
    }

    /// The next job; while there is none, deleted entries are swept.
    fn next(&mut self) -> Option<Job> {
        if !self.flushes.is_empty() {
            // Somebody waits for the sweep: it continues even if the queue is never empty.
            self.sweep();
        }
        let mut tries = 0;
        loop {
            let sweeping = self.desk.pen().sweeping;
            // Without anybody who waits for the room, a later sweep does it.
            let is_over =
                sweeping == Progress::Blocked && (self.flushes.is_empty() || tries >= SHORTEN_TRIES);
            if sweeping == Progress::Done || is_over {
                break;
            }
            match self.jobs.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    if sweeping == Progress::Blocked {
                        tries += 1;
                        thread::sleep(SHORTEN_PAUSE);
                    }
                    self.sweep();
                }
            }
        }
        self.answer_flushes();
        self.jobs.blocking_recv()
    }

    /// All waiting writes, as far as they fit into one transaction.
    fn take_waiting(&mut self, first: Job) -> Batch {
        let mut batch = Batch::new();
        let (mut ops, mut bytes) = (0, 0);
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Flush(waiting) => self.flushes.push(waiting),
                // It only woke the thread: sweeping happens when nothing waits.
                Job::Sweep => {}
                Job::Write(write) => {
                    ops += write.ops.len();
                    bytes += write.ops.iter().map(weight).sum::<usize>();
                    batch.push((write, None));
                }
            }
            let full = ops >= BATCH_OPS || bytes >= BATCH_BYTES;
            next = if full { None } else { self.jobs.try_recv().ok() };
        }
        batch
    }

    /// Commits the batch, however long that takes, unless the store closes meanwhile.
    fn commit(&mut self, mut batch: Batch) -> Result<(), Lost> {
        let mut wait = FIRST_WAIT;
        let mut closing_since = None;
        loop {
            let mut pen = self.desk.pen();
            match pen.attempt(&batch) {
                Attempt::Committed(leaves) => {
                    let count = batch.len();
                    pen.committed(leaves, batch);
                    // Only now may callers commit again.
                    self.desk.waiting.fetch_sub(count, Ordering::AcqRel);
                    return Ok(());
                }
                Attempt::Refused { index, reason } => {
                    let (write, refused) = &mut batch[index];
                    error!(log = %write.log, reason, "a write that can never succeed was left out; this is a bug");
                    *refused = Some(reason);
                }
                Attempt::Failed { reason } => {
                    pen.fail(reason);
                    drop(pen);
                    if self.closing.load(Ordering::Acquire) {
                        let since: Instant = *closing_since.get_or_insert_with(Instant::now);
                        if since.elapsed() >= CLOSING_PATIENCE {
                            return Err(self.give_up(&batch));
                        }
                        wait = FIRST_WAIT;
                    }
                    // Closing the store unparks this thread.
                    thread::park_timeout(wait);
                    wait = LONGEST_WAIT.min(wait * 2);
                }
            }
        }
    }

    /// Counts the rest: after one lost write, the writes behind it must not be written either.
    fn give_up(&mut self, batch: &Batch) -> Lost {
        let mut lost = batch.len();
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            lost += usize::from(matches!(job, Job::Write(_)));
        }
        self.flushes.clear();
        Lost(lost)
    }

    fn sweep(&self) {
        self.desk.pen().sweep();
    }

    fn answer_flushes(&mut self) {
        for waiting in self.flushes.drain(..) {
            // It is fine if nobody waits any more.
            let _ = waiting.send(());
        }
    }
}

impl Pen {
    fn attempt(&mut self, batch: &Batch) -> Attempt {
        #[cfg(test)]
        self.limit_pages();
        let mut at = None;
        let (connection, logs) = (&self.connection, &mut self.logs);
        let result = in_transaction(connection, || {
            let mut leaves = Leaves::Nothing;
            for (index, (write, refused)) in batch.iter().enumerate() {
                if refused.is_none() {
                    at = Some(index);
                    if apply(connection, logs, write)? == Leaves::Rubbish {
                        leaves = Leaves::Rubbish;
                    }
                }
            }
            at = None;
            Ok(leaves)
        });
        match (result, at) {
            (Ok(leaves), _) => Attempt::Committed(leaves),
            (Err(fault), at) => {
                self.logs.forget_all();
                match (fault, at) {
                    (Fault::Refused(reason), Some(index)) => Attempt::Refused { index, reason },
                    (Fault::Refused(reason), None) => Attempt::Failed { reason },
                    (Fault::Database(error), _) => {
                        Attempt::Failed { reason: in_plain_words(&self.path, &error) }
                    }
                }
            }
        }
    }

    fn committed(&mut self, leaves: Leaves, batch: Batch) {
        if leaves == Leaves::Rubbish {
            self.sweeping = Progress::More;
        }
        self.ledger.committed(batch.iter().flat_map(|(write, _)| &write.ops).map(weight).sum());
        self.announce(batch);
    }

    /// Informs the waiters, in order, and updates the store's health.
    fn announce(&self, batch: Batch) {
        let mut health = StoreHealth::Good;
        for (write, refused) in batch {
            if let Some(reason) = refused {
                let reason =
                    format!("a write to log {} was refused: {reason}; please report this", write.log);
                health = StoreHealth::Failing { reason };
                continue;
            }
            let Some(done) = write.done else { continue };
            // A callback of other code: its panic must not stop the writing for all.
            if catch_unwind(AssertUnwindSafe(done)).is_err() {
                error!(log = %write.log, "a callback after a commit panicked");
            }
        }
        self.health.send_if_modified(|now| {
            let before = std::mem::replace(now, health);
            *now != before
        });
    }

    fn fail(&self, reason: String) {
        let failing = StoreHealth::Failing { reason: reason.clone() };
        let news = self.health.send_if_modified(|now| {
            let before = std::mem::replace(now, failing);
            *now != before
        });
        if news {
            warn!(reason, "the store cannot write and retries");
        }
    }

    fn sweep(&mut self) {
        if self.sweeping == Progress::Done {
            return;
        }
        self.sweeping = sweep::step(&self.connection).unwrap_or_else(|problem| {
            warn!(error = %problem, "deleted entries still take room; the next deletion or start removes them");
            Progress::Done
        });
    }

    #[cfg(test)]
    fn limit_pages(&self) {
        let limit = self.page_limit.load(Ordering::Acquire);
        if limit > 0 {
            run_all(&self.connection, &format!("PRAGMA max_page_count = {limit}")).unwrap();
        }
    }
}

/// Runs `work` in one transaction: all of it, or nothing.
pub(super) fn in_transaction<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let run = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("BEGIN IMMEDIATE")?;
    let result = work().and_then(|done| {
        run("COMMIT")?;
        Ok(done)
    });
    // Some failures have already rolled back.
    if result.is_err() && !connection.is_autocommit() {
        run("ROLLBACK")?;
    }
    result
}

/// Runs a statement to its end, whatever rows it gives.
pub(super) fn run_all(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
