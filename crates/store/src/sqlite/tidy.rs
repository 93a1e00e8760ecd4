//! Tidying: the write-ahead log is merged into the database by its own thread and connection.
//!
//! Merging waits for the disk, sometimes for a second if others use the disk too. Otherwise SQLite would do it in the
//! middle of a commit, while everybody waits. It does not delay commits that happen meanwhile.

use std::{
    path::Path,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use portolan_core::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use tracing::debug;

use super::writer::run_all;

/// How many bytes are written between two merges: few enough that each is short, enough that most pages that are
/// written repeatedly are merged once.
const EVERY: usize = 1024 * 1024;

/// A commit counts for at least this much: it writes whole pages.
const LEAST: usize = 16 * 1024;

/// A log of this many pages (16 MiB) is merged by a commit after all: a writer without a pause would otherwise keep the
/// thread from ever reaching the log's end, and the log would keep growing.
pub(super) const TOO_LONG: i64 = 4096;

/// Counts the written bytes, and wakes the thread when there are enough.
#[derive(Debug)]
pub(super) struct Ledger {
    wake: Option<SyncSender<()>>,
    written: usize,
}

impl Ledger {
    /// This many bytes were committed.
    pub(super) fn committed(&mut self, bytes: usize) {
        self.written += bytes.max(LEAST);
        if self.written >= EVERY {
            self.written = 0;
            // A thread that is already awake will see this too.
            let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
        }
    }

    /// Lets the thread end.
    pub(super) fn close(&mut self) {
        self.wake = None;
    }
}

/// Starts the thread. It ends when the ledger is closed.
pub(super) fn start(path: &Path) -> Result<(Ledger, JoinHandle<()>), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| super::faults::failed(path, &error))?;
    let (wake, woken) = sync_channel(1);
    let work = move || {
        for () in woken {
            // A reader needs the pages, or the disk is full: the next merge does it.
            if let Err(problem) = run_all(&connection, "PRAGMA wal_checkpoint(PASSIVE)") {
                debug!(error = %problem, "the write-ahead log stays as it is for now");
            }
        }
    };
    let thread = thread::Builder::new()
        .name("store-tidy".to_owned())
        .spawn(work)
        .map_err(|error| StoreError::Failed(format!("the tidying thread cannot be started: {error}")))?;
    Ok((Ledger { wake: Some(wake), written: 0 }, thread))
}
