//! The chain: every entry of the daemon's log is sealed with a hash over the seal before it, its number and its frame.
//!
//! A seal is written in the transaction of its entry, on the writer's thread; sessions' logs have none. Changing,
//! removing or adding an entry later breaks the chain there, unless every later seal is made again, or the end is cut
//! off: only a head that was recorded elsewhere shows those.

mod head;
mod verify;

#[cfg(test)]
mod tests;

use portolan_core::{LogId, Seq, ports::ChainLink};
use rusqlite::{Connection, OptionalExtension as _, params};

pub use self::{
    head::{Head, NotAHead, Seal},
    verify::{Broken, Verified, verify},
};
use super::apply::{entry_id, find_log, number};
use crate::rules::HIGHEST;

/// The sealed log.
pub(super) const SEALED: LogId = LogId::Daemon;

/// The newest seal up to an entry.
fn newest(connection: &Connection, key: i64, upto: Seq) -> rusqlite::Result<Seal> {
    let newest: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT hash FROM seals WHERE entry > ?1 AND entry <= ?2 ORDER BY entry DESC LIMIT 1",
        )?
        .query_row([entry_id(key, Seq::ZERO), entry_id(key, upto)], |row| row.get(0))
        .optional()?;
    // An invalid seal breaks the chain where it is read, not the writing.
    Ok(newest.and_then(|bytes| Seal::read(&bytes)).unwrap_or(Seal::NONE))
}

/// The place of an entry in the chain.
pub(super) fn link(connection: &Connection, key: i64, seq: Seq, frame: &[u8]) -> rusqlite::Result<ChainLink> {
    let before = newest(connection, key, seq.previous())?;
    let seal: Option<Vec<u8>> = connection
        .prepare_cached("SELECT hash FROM seals WHERE entry = ?1")?
        .query_row([entry_id(key, seq)], |row| row.get(0))
        .optional()?;
    let seal = seal.and_then(|bytes| Seal::read(&bytes));
    let matches = seal == Some(before.next(seq, frame));
    Ok(ChainLink { seal: seal.map(|seal| seal.to_string()), before: before.to_string(), matches })
}

/// Seals a new entry after the seal before it, if that is known. Returns the new seal.
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

/// Seals the entries of a database without a chain, and records where they end.
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
