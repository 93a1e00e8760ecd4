//! One write, change by change, as SQL. The transaction around it belongs to the writer.

use std::collections::HashMap;

use portolan_core::{
    LogId, Millis, Seq, SessionId,
    entry::ENTRY_VERSION,
    ports::{CommandRow, Op, Write},
    session::state::Summary,
};
use rusqlite::{
    Connection, OptionalExtension as _, ToSql, params,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    chain::{self, SEALED, Seal},
    faults::Fault,
};
use crate::rules::{HIGHEST, Refused, SEQ_BITS, copied_frame, may_append, may_copy, may_summarise};

/// The highest key a log may have, so that key and number fit into one integer: eight million logs at a time.
const HIGHEST_KEY: i64 = (1 << (63 - SEQ_BITS)) - 1;

/// How many logs' keys and last numbers the writer remembers; with more active logs it looks them up again.
const REMEMBERED: usize = 1024;

/// A log by its name.
pub(super) const LOG: &str = "SELECT key, last, trimmed, reserved FROM logs WHERE name = ?1";

/// The newest entry of a range.
pub(super) const NEWEST: &str = "SELECT id FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1";

/// The highest used position; its entries may be gone.
const HIGHEST_POSITION: &str =
    "SELECT max(given, coalesce((SELECT max(position) FROM entries), 0)) FROM positions";

/// An entry's id in the database.
pub(super) fn entry_id(key: i64, seq: Seq) -> i64 {
    key << SEQ_BITS | seq.0.min(HIGHEST.0) as i64
}

/// The number in an entry's id.
pub(super) fn number(id: i64) -> Seq {
    Seq(id as u64 & HIGHEST.0)
}

/// A number as the database keeps it.
fn stored(seq: Seq) -> i64 {
    seq.0.min(HIGHEST.0) as i64
}

/// Bytes that are already text: stored as text without another check.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// What the writer remembers of a log.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: i64,
    last: Seq,
}

/// What the writer remembers of its logs. Forgotten when a transaction is rolled back.
#[derive(Debug, Default)]
pub(super) struct Logs {
    known: HashMap<LogId, Known>,
    /// The newest seal of the chain.
    seal: Option<Seal>,
    /// The highest used position.
    position: Option<i64>,
}

impl Logs {
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        (self.seal, self.position) = (None, None);
    }

    /// The highest used position.
    fn position(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        if let Some(position) = self.position {
            return Ok(position);
        }
        let position = connection.prepare_cached(HIGHEST_POSITION)?.query_row([], |row| row.get(0))?;
        self.position = Some(position);
        Ok(position)
    }

    /// The position of one more entry.
    fn next_position(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        let position = self.position(connection)? + 1;
        self.position = Some(position);
        Ok(position)
    }

    fn remember(&mut self, log: LogId, known: Known) {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(log, known);
    }

    /// The log, if it exists.
    fn find(&mut self, connection: &Connection, log: LogId) -> rusqlite::Result<Option<Known>> {
        if let Some(known) = self.known.get(&log) {
            return Ok(Some(*known));
        }
        let Some(head) = find_log(connection, log)? else { return Ok(None) };
        let known = Known { key: head.key, last: head.last(connection)? };
        self.remember(log, known);
        Ok(Some(known))
    }

    /// The log, created if it does not exist.
    fn open(&mut self, connection: &Connection, log: LogId) -> Result<Known, Fault> {
        if let Some(known) = self.find(connection, log)? {
            return Ok(known);
        }
        connection.prepare_cached("INSERT INTO logs (name) VALUES (?1)")?.execute([log.to_string()])?;
        let key = connection.last_insert_rowid();
        if key > HIGHEST_KEY {
            return Err(Refused(format!("there is no room for more than {HIGHEST_KEY} logs")).into());
        }
        let known = Known { key, last: Seq::ZERO };
        self.remember(log, known);
        Ok(known)
    }
}

/// A log's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) key: i64,
    pub(super) trimmed: Seq,
    pub(super) reserved: Seq,
    last_when_trimmed: Seq,
}

impl Head {
    /// The last entry, even if it is trimmed.
    pub(super) fn last(&self, connection: &Connection) -> rusqlite::Result<Seq> {
        let newest: Option<i64> = connection
            .prepare_cached(NEWEST)?
            .query_row([entry_id(self.key, Seq::ZERO), entry_id(self.key, HIGHEST)], |row| row.get(0))
            .optional()?;
        Ok(newest.map(number).unwrap_or_default().max(self.last_when_trimmed))
    }
}

/// The row of a log.
pub(super) fn find_log(connection: &Connection, log: LogId) -> rusqlite::Result<Option<Head>> {
    connection
        .prepare_cached(LOG)?
        .query_row([log.to_string()], |row| {
            Ok(Head {
                key: row.get(0)?,
                last_when_trimmed: Seq(row.get::<_, i64>(1)? as u64),
                trimmed: Seq(row.get::<_, i64>(2)? as u64),
                reserved: Seq(row.get::<_, i64>(3)? as u64),
            })
        })
        .optional()
}

/// Whether a write leaves something to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    Rubbish,
}

/// Makes all changes of a write.
pub(super) fn apply(connection: &Connection, logs: &mut Logs, write: &Write) -> Result<Leaves, Fault> {
    let log = write.log;
    let mut leaves = Leaves::Nothing;
    for op in &write.ops {
        match op {
            Op::Append { seq, at, frame, raw } => {
                append(connection, logs, log, *seq, *at, frame, raw.as_deref())?;
            }
            Op::Reserve { upto } => {
                let key = logs.open(connection, log)?.key;
                connection
                    .prepare_cached("UPDATE logs SET reserved = max(reserved, ?2) WHERE key = ?1")?
                    .execute([key, stored(*upto)])?;
            }
            Op::Chunk { item, seq, started, text } => {
                let key = logs.open(connection, log)?.key;
                connection
                    .prepare_cached(
                        "INSERT INTO chunks (log, item, seq, started, text) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![key, item, stored(*seq), started.as_deref().map(Text), text])?;
            }
            Op::CloseItem { item } => {
                if let Some(known) = logs.find(connection, log)? {
                    connection
                        .prepare_cached("DELETE FROM chunks WHERE log = ?1 AND item = ?2")?
                        .execute(params![known.key, item])?;
                }
            }
            Op::Checkpoint { seq, state } => {
                let key = logs.open(connection, log)?.key;
                connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO checkpoints (log, seq, state) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![key, stored(*seq), &state[..]])?;
            }
            Op::Command(row) => command(connection, logs.open(connection, log)?.key, row)?,
            Op::Summary(summary) => {
                may_summarise(log, summary)?;
                summarise(connection, summary)?;
            }
            Op::CopyFrom { source, upto } => copy(connection, logs, log, *source, *upto)?,
            Op::Delete => {
                delete(connection, logs, log)?;
                leaves = Leaves::Rubbish;
            }
            Op::Trim { upto } => {
                if let Some(known) = logs.find(connection, log)? {
                    trim(connection, known, *upto)?;
                    keep_position(connection, logs)?;
                    leaves = Leaves::Rubbish;
                }
            }
            Op::Put { collection, key, value } => {
                connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO records (collection, key, value) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![collection, key, &value[..]])?;
            }
            Op::Remove { collection, key } => {
                connection
                    .prepare_cached("DELETE FROM records WHERE collection = ?1 AND key = ?2")?
                    .execute(params![collection, key])?;
            }
        }
    }
    Ok(leaves)
}

fn append(
    connection: &Connection,
    logs: &mut Logs,
    log: LogId,
    seq: Seq,
    at: Millis,
    frame: &[u8],
    raw: Option<&[u8]>,
) -> Result<(), Fault> {
    let known = logs.open(connection, log)?;
    may_append(known.last, seq)?;
    let position = logs.next_position(connection)?;
    connection
        .prepare_cached(
            "INSERT INTO entries (id, version, at, frame, raw, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![entry_id(known.key, seq), ENTRY_VERSION, at.0, Text(frame), raw, position])?;
    logs.remember(log, Known { last: seq, ..known });
    if log == SEALED {
        logs.seal = Some(chain::seal(connection, known.key, seq, frame, logs.seal)?);
    }
    Ok(())
}

fn command(connection: &Connection, key: i64, row: &CommandRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO commands (log, token, id, seq, stage) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            key,
            row.key.token.as_str(),
            row.key.id.as_str(),
            stored(row.seq),
            &row.stage[..]
        ])?;
    Ok(())
}

fn summarise(connection: &Connection, summary: &Summary) -> Result<(), Fault> {
    let text = serde_json::to_vec(summary).map_err(|error| {
        Refused(format!("the summary of session {} is not text: {error}", summary.session))
    })?;
    let (session, live) = (summary.session.to_string(), summary.is_live());
    // Most summaries change nothing that queries search; then no index is touched.
    let changed = connection
        .prepare_cached(
            "UPDATE sessions SET summary = ?2 WHERE session = ?1 AND archived = ?3 AND live = ?4",
        )?
        .execute(params![session, Text(&text), summary.archived, live])?;
    if changed == 0 {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO sessions (session, summary, archived, live) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![session, Text(&text), summary.archived, live])?;
    }
    Ok(())
}

/// Entry by entry, so that a long log takes no memory. Reading continues while rows are added to the same table: the
/// new rows have another log's key, which the reading never reaches.
fn copy(
    connection: &Connection,
    logs: &mut Logs,
    log: LogId,
    source: SessionId,
    upto: Seq,
) -> Result<(), Fault> {
    let target = logs.open(connection, log)?;
    may_copy(log, target.last)?;
    let source = LogId::Session(source);
    let Some(from) = find_log(connection, source)?.filter(|_| source != log) else { return Ok(()) };
    let mut last = Seq::ZERO;
    let mut select = connection.prepare_cached(
        "SELECT id, version, at, frame FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id",
    )?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO entries (id, version, at, frame, position) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut rows = select.query([entry_id(from.key, from.trimmed), entry_id(from.key, upto)])?;
    while let Some(row) = rows.next()? {
        last = number(row.get(0)?);
        let (version, at): (i64, i64) = (row.get(1)?, row.get(2)?);
        let frame = copied_frame(log, row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?);
        let position = logs.next_position(connection)?;
        insert.execute(params![entry_id(target.key, last), version, at, Text(&frame), position])?;
    }
    logs.remember(log, Known { last, ..target });
    Ok(())
}

/// For readers everything is gone at once. The entries, which may be a million, stay until they are swept.
fn delete(connection: &Connection, logs: &mut Logs, log: LogId) -> rusqlite::Result<()> {
    if let LogId::Session(session) = log {
        connection
            .prepare_cached("DELETE FROM sessions WHERE session = ?1")?
            .execute([session.to_string()])?;
    }
    let Some(known) = logs.find(connection, log)? else { return Ok(()) };
    logs.known.remove(&log);
    connection.prepare_cached("DELETE FROM chunks WHERE log = ?1")?.execute([known.key])?;
    connection.prepare_cached("DELETE FROM checkpoints WHERE log = ?1")?.execute([known.key])?;
    connection.prepare_cached("UPDATE logs SET name = NULL WHERE key = ?1")?.execute([known.key])?;
    keep_position(connection, logs)?;
    sweep_later(connection, known.key, HIGHEST)
}

/// The newest entries may be about to be deleted; their positions are not used again.
fn keep_position(connection: &Connection, logs: &mut Logs) -> rusqlite::Result<()> {
    let position = logs.position(connection)?;
    connection.prepare_cached("UPDATE positions SET given = max(given, ?1)")?.execute([position])?;
    Ok(())
}

fn trim(connection: &Connection, known: Known, upto: Seq) -> rusqlite::Result<()> {
    let upto = upto.min(known.last);
    connection
        .prepare_cached("UPDATE logs SET last = max(last, ?2), trimmed = max(trimmed, ?3) WHERE key = ?1")?
        .execute([known.key, stored(known.last), stored(upto)])?;
    sweep_later(connection, known.key, upto)
}

fn sweep_later(connection: &Connection, key: i64, upto: Seq) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO sweeps (log, upto) VALUES (?1, ?2)
             ON CONFLICT (log) DO UPDATE SET upto = max(upto, excluded.upto)",
        )?
        .execute([key, stored(upto)])?;
    Ok(())
}
