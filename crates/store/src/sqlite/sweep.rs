//! Removing deleted entries, a few at a time, so that no write waits long for it.
//!
//! A deleted log, or the trimmed part of one, is invisible from the commit that deleted it. Its entries are removed in
//! steps while the writer is idle, and the room is released to the disk. A kill in between costs nothing: the database
//! records what is left to sweep.

use portolan_core::Seq;
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    apply::entry_id,
    writer::{in_transaction, run_all},
};

/// Entries removed in one step: a few milliseconds, which a write may have to wait.
const STEP_ENTRIES: i64 = 1000;

/// Pages released to the disk in one step.
const STEP_PAGES: u32 = 256;

/// Free pages that are kept for the next writes.
const KEPT_PAGES: i64 = 256;

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// Only the file is still too long: another connection is at work on it.
    Blocked,
    Done,
}

/// Whether an earlier run left something.
pub(super) fn is_due(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM sweeps)", [], |row| row.get(0))
}

/// One step.
pub(super) fn step(connection: &Connection) -> rusqlite::Result<Progress> {
    let next: Option<(i64, i64)> = connection
        .prepare_cached("SELECT log, upto FROM sweeps LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((key, upto)) = next {
        in_transaction(connection, || sweep(connection, key, Seq(upto as u64)))?;
        return Ok(Progress::More);
    }
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > KEPT_PAGES {
        let pages = STEP_PAGES.min((free - KEPT_PAGES) as u32);
        run_all(connection, &format!("PRAGMA incremental_vacuum({pages})"))?;
        return Ok(Progress::More);
    }
    // The file itself gets shorter only now. A merge in the other thread, or a reader, may be in the way.
    let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(if busy { Progress::Blocked } else { Progress::Done })
}

fn sweep(connection: &Connection, key: i64, upto: Seq) -> rusqlite::Result<()> {
    let (low, high) = (entry_id(key, Seq::ZERO), entry_id(key, upto));
    let reach: Option<i64> = connection
        .prepare_cached("SELECT id FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT 1 OFFSET ?3")?
        .query_row([low, high, STEP_ENTRIES], |row| row.get(0))
        .optional()?;
    connection
        .prepare_cached("DELETE FROM entries WHERE id > ?1 AND id <= ?2")?
        .execute([low, reach.unwrap_or(high)])?;
    if reach.is_some() {
        return Ok(());
    }
    connection.prepare_cached("DELETE FROM sweeps WHERE log = ?1")?.execute([key])?;
    let gone =
        connection.prepare_cached("DELETE FROM logs WHERE key = ?1 AND name IS NULL")?.execute([key])?;
    if gone > 0 {
        connection.prepare_cached("DELETE FROM commands WHERE log = ?1")?.execute([key])?;
    }
    Ok(())
}
