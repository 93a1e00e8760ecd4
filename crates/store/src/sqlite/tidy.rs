//! Tidying: the write-ahead log is taken into the database by a thread and a connection of their own.
//!
//! That waits for the disk, sometimes for a second where others use it too, and SQLite would else do it in the middle of a
//! commit, while everybody waits. A commit that goes on meanwhile is not held up by it.

use std::{
    path::Path,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use portolan_core::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use tracing::debug;

use super::writer::run_all;

/// How much is written between two tidyings, in bytes: few enough that each is short, enough that most pages that are
/// written again and again are taken over once.
const EVERY: usize = 1024 * 1024;

/// A commit counts for at least this much: it writes whole pages.
const LEAST: usize = 16 * 1024;

/// A log of so many pages (16 MiB) is taken in by who commits after all: who writes without a pause would else keep the
/// thread from ever reaching the log's end, and it would grow for as long.
pub(super) const TOO_LONG: i64 = 4096;

/// Counts what is written, and wakes the thread when there is enough.
#[derive(Debug)]
pub(super) struct Ledger {
    wake: Option<SyncSender<()>>,
    written: usize,
}

impl Ledger {
    /// So many bytes were committed.
    pub(super) fn committed(&mut self, bytes: usize) {
        self.written += bytes.max(LEAST);
        if self.written >= EVERY {
            self.written = 0;
            // It is awake already: then it will see this, too.
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
            // Somebody reads what would be overwritten, or the disk is full: the next one does it.
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
