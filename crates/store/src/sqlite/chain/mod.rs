//! The chain: every entry of the daemon's log is sealed with a hash over the seal before it, its number and its frame.
//!
//! A seal is written in the transaction of its entry, on the writer's thread; sessions' logs have none. Whoever
//! changes, removes or adds an entry later breaks the chain there, unless they make every seal after it anew, or cut
//! the end off: only a head that was noted elsewhere shows those.

mod head;
mod verify;

#[cfg(test)]
mod tests;

use portolan_core::{LogId, Seq};
use rusqlite::{Connection, OptionalExtension as _, params};

pub use self::{
    head::{Head, NotAHead, Seal},
    verify::{Broken, Verified, newest_frames, verify},
};
use super::apply::{entry_id, find_log, number};
use crate::rules::HIGHEST;

/// The log that is sealed.
pub(super) const SEALED: LogId = LogId::Daemon;

/// The newest seal up to an entry.
fn newest(connection: &Connection, key: i64, upto: Seq) -> rusqlite::Result<Seal> {
    let newest: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT hash FROM seals WHERE entry > ?1 AND entry <= ?2 ORDER BY entry DESC LIMIT 1",
        )?
        .query_row([entry_id(key, Seq::ZERO), entry_id(key, upto)], |row| row.get(0))
        .optional()?;
    // A seal that is none breaks the chain where it is looked at, not the writing.
    Ok(newest.and_then(|bytes| Seal::read(&bytes)).unwrap_or(Seal::NONE))
}

/// Seals an entry that was just added, after the seal before it, where that is known. Gives its own.
pub(super) fn seal(
    connection: &Connection,
    key: i64,
    seq: Seq,
    frame: &[u8],
    before: Option<Seal>,
) -> rusqlite::Result<Seal> {
    let before = before.map_or_else(|| newest(connection, key, seq), Ok)?;
    let seal = before.next(seq, frame);
    connection
        .prepare_cached("INSERT INTO seals (entry, hash) VALUES (?1, ?2)")?
        .execute(params![entry_id(key, seq), seal.bytes()])?;
    Ok(seal)
}

/// Seals what a database without a chain has, and notes up to where that was.
pub(super) fn seal_what_is_there(connection: &Connection) -> rusqlite::Result<()> {
    let Some(log) = find_log(connection, SEALED)? else { return Ok(()) };
    let mut statement =
        connection.prepare("SELECT id, frame FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id")?;
    let mut rows = statement.query([entry_id(log.key, log.trimmed), entry_id(log.key, HIGHEST)])?;
    let (mut before, mut last) = (Seal::NONE, Seq::ZERO);
    while let Some(row) = rows.next()? {
        last = number(row.get(0)?);
        let frame = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        before = seal(connection, log.key, last, frame, Some(before))?;
    }
    connection
        .execute("UPDATE logs SET sealed_later = ?2 WHERE key = ?1", params![log.key, last.0 as i64])?;
    Ok(())
}
