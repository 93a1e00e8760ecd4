//! The default engine: one SQLite file, in WAL mode, with one thread that writes and a few connections that read.
//!
//! Owns `portolan.db` and the files that SQLite puts beside it. The daemon ensures that only one daemon uses a home; if
//! another program locks the database, the store waits.

mod apply;
mod archive;
pub mod chain;
mod faults;
mod reader;
mod schema;
mod sweep;
#[cfg(test)]
mod tests;
mod tidy;
mod writer;

pub use archive::Archive;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
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
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    apply::{Leaves, Logs},
    faults::failed,
    reader::{Readers, reads},
    schema::{Contents, Step, create_private},
    sweep::Progress,
    writer::{Desk, Job, Lost, Pen, Tried, Writer},
};
use crate::rules::QUEUE;

/// How long a write waits inside SQLite for a lock before the store counts as failing. Longer than another program's
/// short read, shorter than people notice.
const WRITE_PATIENCE: Duration = Duration::from_millis(500);

/// The writer's page cache, in KiB: enough for the last page of some dozens of busy logs.
const WRITER_CACHE: i64 = 1024;

/// The write-ahead log is cut back to this after a long transaction, in bytes.
const WAL_KEPT: i64 = 8 * 1024 * 1024;

/// How many prepared statements are kept: more than there are.
const STATEMENTS: usize = 64;

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the daemon by any means, `kill -9` included; not a power cut.
    #[default]
    Normal,
    /// A power cut too; each commit waits for the disk.
    Full,
}

/// The log in one SQLite file. Dropping the store writes the waiting writes and blocks until that is done.
pub struct SqliteStore {
    path: PathBuf,
    readers: Arc<Readers>,
    health: watch::Receiver<StoreHealth>,
    closing: Arc<AtomicBool>,
    /// These exist until the store closes.
    desk: Option<Desk>,
    /// A commit does not wait for the disk, so that the caller of a write may make it.
    quick: bool,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<thread::JoinHandle<Lost>>,
    #[cfg(test)]
    page_limit: Arc<std::sync::atomic::AtomicU32>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .field("health", &*self.health.borrow())
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database, creates it if it does not exist, and upgrades it if it is older.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        Self::open_with(path, durability, schema::STEPS)
    }

    fn open_with(path: &Path, durability: Durability, steps: &[Step]) -> Result<Self, StoreError> {
        create_private(path, Contents::Kept).map_err(|error| cannot_create(path, &error))?;
        let connection = connect(path, durability, steps)?;
        let due = sweep::is_due(&connection).map_err(|error| failed(path, &error))?;

        let (jobs, waiting) = mpsc::channel(QUEUE);
        let (health_now, health) = watch::channel(StoreHealth::Good);
        let closing = Arc::new(AtomicBool::new(false));
        #[cfg(test)]
        let page_limit = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let (ledger, tidying) = tidy::start(path)?;
        let desk = Desk::new(Pen {
            connection,
            path: path.to_owned(),
            health: health_now,
            sweeping: if due { Progress::More } else { Progress::Done },
            logs: Logs::default(),
            ledger,
            #[cfg(test)]
            page_limit: page_limit.clone(),
        });
        let writer = Writer {
            desk: desk.clone(),
            path: path.to_owned(),
            jobs: waiting,
            closing: closing.clone(),
            flushes: Vec::new(),
            tidying,
        };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Failed(format!("the writing thread cannot be started: {error}")))?;
        Ok(Self {
            path: path.to_owned(),
            readers: Readers::new(path.to_owned()),
            health,
            closing,
            desk: Some(desk),
            quick: durability == Durability::Normal,
            jobs: Some(jobs),
            writer: Some(thread),
            #[cfg(test)]
            page_limit,
        })
    }

    /// Writes the waiting writes and closes the database. Blocks until that is done; a store that cannot write gives up
    /// after a few seconds and reports how much is lost. Dropping the store does the same, without a report.
    pub fn close(mut self) -> Result<(), StoreError> {
        match self.finish() {
            Some(Ok(Lost(0))) | None => Ok(()),
            Some(Ok(Lost(writes))) => {
                let health = self.health.borrow().clone();
                let reason = match health {
                    StoreHealth::Good => "the reason is unknown".to_owned(),
                    StoreHealth::Failing { reason } => reason,
                };
                Err(StoreError::Failed(format!("{writes} writes could not be written: {reason}")))
            }
            Some(Err(_)) => Err(StoreError::Failed("the writing thread panicked".to_owned())),
        }
    }

    fn finish(&mut self) -> Option<thread::Result<Lost>> {
        // First, so that the writer's connection is the last and can clean up.
        self.readers.close();
        self.closing.store(true, Ordering::Release);
        self.jobs = None;
        self.desk = None;
        let writer = self.writer.take()?;
        writer.thread().unpark();
        Some(writer.join())
    }

    /// Commits at once if that is quick, and otherwise leaves the write to the thread.
    async fn commit(&self, mut write: Write) -> Result<(), StoreError> {
        let (Some(desk), Some(jobs)) = (&self.desk, &self.jobs) else { return Err(StoreError::Closed) };
        if self.quick {
            match desk.commit_now(write) {
                Tried::Committed(leaves) => {
                    if leaves == Leaves::Rubbish {
                        // If the queue is full, the thread is awake.
                        let _ = jobs.try_send(Job::Sweep);
                    }
                    return Ok(());
                }
                Tried::NotNow(back) => write = back,
            }
        }
        let room = jobs.reserve().await.map_err(|_| StoreError::Closed)?;
        desk.expect_one();
        room.send(Job::Write(write));
        Ok(())
    }

    async fn submit(&self, job: Job) -> Result<(), StoreError> {
        let Some(jobs) = &self.jobs else { return Err(StoreError::Closed) };
        jobs.send(job).await.map_err(|_| StoreError::Closed)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The loss is already in the text log.
        let _ = self.finish();
    }
}

fn cannot_create(path: &Path, error: &io::Error) -> StoreError {
    let folder = path.parent().unwrap_or(path).display();
    let file = path.display();
    StoreError::Failed(match error.kind() {
        io::ErrorKind::NotFound => {
            format!("the folder `{folder}` does not exist; make it, or set PORTOLAN_HOME")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("the database `{file}` cannot be written; make it and its folder `{folder}` writable")
        }
        _ => format!("the database `{file}` cannot be opened: {error}"),
    })
}

fn connect(path: &Path, durability: Durability, steps: &[Step]) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(WRITE_PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        connection.pragma_update(None, "journal_size_limit", WAL_KEPT)?;
        connection.pragma_update(None, "wal_autocheckpoint", tidy::TOO_LONG)?;
        let synchronous = match durability {
            Durability::Normal => "NORMAL",
            Durability::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        let read_only = connection.is_readonly(MAIN_DB)?;
        Ok((connection, read_only))
    });
    let (mut connection, read_only) = opened.map_err(|error| failed(path, &error))?;
    if read_only {
        return Err(cannot_create(path, &io::ErrorKind::PermissionDenied.into()));
    }
    schema::bring_up_to_date(&mut connection, path, steps)?;
    Ok(connection)
}

impl Store for SqliteStore {
    fn write(&self, write: Write) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(self.commit(write))
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.clone()
    }

    reads!();

    fn size(&self) -> Boxed<'_, Result<u64, StoreError>> {
        let path = self.path.clone();
        Box::pin(async move {
            let database = fs::metadata(&path)
                .map_err(|error| StoreError::Failed(format!("the database `{}`: {error}", path.display())))?
                .len();
            let mut wal = path.into_os_string();
            wal.push("-wal");
            Ok(database + fs::metadata(wal).map_or(0, |file| file.len()))
        })
    }

    fn flush(&self) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (done, wait) = oneshot::channel();
            self.submit(Job::Flush(done)).await?;
            wait.await.map_err(|_| StoreError::Closed)
        })
    }
}
