//! Reading: a few read-only connections, used on tokio's blocking threads.
//!
//! Each read is short and has ended before its future gives the result, so no read transaction lives across an
//! await and none keeps the write-ahead log from being emptied.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use portolan_core::{
    LogId, Position, Seq, SessionId, Stored,
    command::CommandKey,
    ports::{CommandRow, LogHead, OpenItem, Page, Place, Placed, SessionQuery, StoreError},
    session::state::Summary,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};
use tokio::sync::Semaphore;
use tracing::warn;

use super::{
    apply::{entry_id, find_log, number},
    chain,
    faults::failed,
};
use crate::rules::HIGHEST;

/// The reads of a [`Store`](portolan_core::ports::Store) that has `readers`: every store of a database reads in the same
/// way. The file that uses this imports the types of the trait.
macro_rules! reads {
    () => {
        fn read(
            &self,
            log: LogId,
            after: Seq,
            upto: Seq,
            page: Page,
        ) -> Boxed<'_, Result<Vec<Stored>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::entries(connection, log, after, upto, page)))
        }

        fn since(&self, after: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::since(connection, after, page)))
        }

        fn before(&self, before: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::before(connection, before, page)))
        }

        fn place(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Place>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::place(connection, log, seq)))
        }

        fn tail(&self, log: LogId, upto: Seq, count: u32) -> Boxed<'_, Result<Seq, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::tail(connection, log, upto, count)))
        }

        fn raw(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::raw(connection, log, seq)))
        }

        fn load(&self, log: LogId) -> Boxed<'_, Result<Option<LogHead>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::head(connection, log)))
        }

        fn command(&self, log: LogId, key: CommandKey) -> Boxed<'_, Result<Option<CommandRow>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::command(connection, log, key)))
        }

        fn sessions(&self, query: SessionQuery) -> Boxed<'_, Result<Vec<Summary>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::sessions(connection, &query)))
        }

        fn matching(&self, part: String, limit: u32) -> Boxed<'_, Result<Vec<SessionId>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::matching(connection, &part, limit)))
        }

        fn records(&self, collection: &'static str) -> Boxed<'_, Result<Vec<(String, Bytes)>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::records(connection, collection)))
        }

        fn record(
            &self,
            collection: &'static str,
            key: String,
        ) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
            Box::pin(self.readers.run(move |connection| reader::record(connection, collection, &key)))
        }
    };
}
pub(super) use reads;

/// Read-only connections: two keep a long page from holding up a short one; each costs some 100 KiB.
const READERS: usize = 2;

/// The page cache of each connection, in KiB. The operating system caches the file better than we can.
const READER_CACHE: i64 = 256;

/// How long a read waits for a lock; readers need one only while a database is opened or recovered.
pub(super) const READ_PATIENCE: Duration = Duration::from_secs(2);

/// Entries of a range, in order.
pub(super) const ENTRIES: &str = "SELECT id, frame FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id";

/// Entries of all logs by position, except those that only wait to be swept.
pub(super) const SINCE: &str = "
    SELECT entries.position, logs.name, entries.id, entries.frame
    FROM entries INDEXED BY entries_by_position JOIN logs ON logs.key = entries.id >> 40
    WHERE entries.position > ?1 AND logs.name IS NOT NULL AND entries.id & 0xffffffffff > logs.trimmed
    ORDER BY entries.position";

/// The same, newest first.
pub(super) const BEFORE: &str = "
    SELECT entries.position, logs.name, entries.id, entries.frame
    FROM entries INDEXED BY entries_by_position JOIN logs ON logs.key = entries.id >> 40
    WHERE entries.position < ?1 AND logs.name IS NOT NULL AND entries.id & 0xffffffffff > logs.trimmed
    ORDER BY entries.position DESC";

/// The entry this many before the newest of a range.
pub(super) const TAIL: &str =
    "SELECT id FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3";

/// The chunks of a log, in the order they were written.
pub(super) const CHUNKS: &str = "SELECT item, started, text FROM chunks WHERE log = ?1 ORDER BY id";

/// Sessions, newest first.
pub(super) const SESSIONS: &str = "
    SELECT summary FROM sessions WHERE (?1 IS NULL OR archived = ?1) AND session < ?2
    ORDER BY session DESC LIMIT ?3";

/// The same for sessions whose agent may run; a separate statement, so that it uses its own small index.
pub(super) const LIVE_SESSIONS: &str = "
    SELECT summary FROM sessions WHERE live = 1 AND (?1 IS NULL OR archived = ?1) AND session < ?2
    ORDER BY session DESC LIMIT ?3";

/// Ids by their first characters. A range and not a pattern: so a user's text has no special characters.
pub(super) const MATCHING: &str = "
    SELECT session FROM sessions WHERE session >= ?1 AND session < ?1 || char(0x10FFFF)
    UNION SELECT session FROM sessions WHERE substr(session, -length(?1)) = ?1
    ORDER BY session LIMIT ?2";

/// The read-only connections, opened when first needed.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, turns: Arc::new(Semaphore::new(READERS)), idle: Mutex::default() })
    }

    /// Runs `work` with its own connection, in a read transaction: it sees one state of the database.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Held until the end, even if nobody waits for the result any more.
            let _turn = turn;
            readers.read(work).map_err(|error| failed(&readers.path, &error))
        });
        reading
            .await
            .unwrap_or_else(|problem| Err(StoreError::Failed(format!("a read did not finish: {problem}"))))
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| self.connect(), Ok)?;
        let transaction = connection.transaction()?;
        let result = work(&transaction)?;
        transaction.commit()?;
        // After an error the connection is not used again.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(result)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(READ_PATIENCE)?;
        connection.pragma_update(None, "cache_size", -READER_CACHE)?;
        Ok(connection)
    }

    /// Closes the idle connections.
    pub(super) fn close(&self) {
        self.turns.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A page of entries; stops reading in the middle of the rows when the page is full.
pub(super) fn entries(
    connection: &Connection,
    log: LogId,
    after: Seq,
    upto: Seq,
    page: Page,
) -> rusqlite::Result<Vec<Stored>> {
    let Some(head) = find_log(connection, log)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(ENTRIES)?;
    let low = entry_id(head.key, after.max(head.trimmed));
    let mut rows = statement.query([low, entry_id(head.key, upto)])?;
    let mut found = Vec::new();
    // One allocation for the whole page: its frames are sent and dropped together.
    let mut bytes = Vec::new();
    while let Some(row) = rows.next()? {
        let frame = row.get_ref(1)?.as_bytes()?;
        if !found.is_empty() && bytes.len() + frame.len() > page.bytes as usize {
            break;
        }
        let begin = bytes.len();
        bytes.extend_from_slice(frame);
        found.push((number(row.get(0)?), begin..bytes.len()));
        if found.len() >= page.entries as usize {
            break;
        }
    }
    let bytes = Bytes::from(bytes);
    Ok(found.into_iter().map(|(seq, place)| Stored { seq, frame: bytes.slice(place) }).collect())
}

/// A page of entries of all logs.
pub(super) fn since(connection: &Connection, after: Position, page: Page) -> rusqlite::Result<Vec<Placed>> {
    by_position(connection, SINCE, after, page)
}

/// The same before a position, newest first.
pub(super) fn before(connection: &Connection, before: Position, page: Page) -> rusqlite::Result<Vec<Placed>> {
    by_position(connection, BEFORE, before, page)
}

fn by_position(
    connection: &Connection,
    sql: &str,
    from: Position,
    page: Page,
) -> rusqlite::Result<Vec<Placed>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([i64::try_from(from.0).unwrap_or(i64::MAX)])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        // We never wrote an unreadable name.
        let Ok(log) = row.get_ref(1)?.as_str()?.parse() else { continue };
        let frame = row.get_ref(3)?.as_bytes()?;
        bytes += frame.len();
        if !found.is_empty() && bytes > page.bytes as usize {
            break;
        }
        let entry = Stored { seq: number(row.get(2)?), frame: Bytes::copy_from_slice(frame) };
        found.push(Placed { position: Position(row.get::<_, i64>(0)? as u64), log, entry });
        if found.len() >= page.entries as usize {
            break;
        }
    }
    Ok(found)
}

/// The position of an entry, and its seal.
pub(super) fn place(connection: &Connection, log: LogId, seq: Seq) -> rusqlite::Result<Option<Place>> {
    let Some(head) = find_log(connection, log)?.filter(|head| seq > head.trimmed && seq <= HIGHEST) else {
        return Ok(None);
    };
    let found = connection
        .prepare_cached("SELECT position, frame FROM entries WHERE id = ?1")?
        .query_row([entry_id(head.key, seq)], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get_ref(1)?.as_bytes()?.to_vec()))
        })
        .optional()?;
    let Some((position, frame)) = found else { return Ok(None) };
    let link = match log {
        chain::SEALED => Some(chain::link(connection, head.key, seq, &frame)?),
        LogId::Session(_) => None,
    };
    Ok(Some(Place { position: Position(position), link }))
}

/// The entry before the last `count` up to a number.
pub(super) fn tail(connection: &Connection, log: LogId, upto: Seq, count: u32) -> rusqlite::Result<Seq> {
    let Some(head) = find_log(connection, log)? else { return Ok(Seq::ZERO) };
    let before = connection
        .prepare_cached(TAIL)?
        .query_row([entry_id(head.key, head.trimmed), entry_id(head.key, upto), i64::from(count)], |row| {
            row.get(0).map(number)
        })
        .optional()?;
    Ok(before.unwrap_or_default())
}

/// The agent's original text of an entry.
pub(super) fn raw(connection: &Connection, log: LogId, seq: Seq) -> rusqlite::Result<Option<Bytes>> {
    let Some(head) = find_log(connection, log)?.filter(|head| seq > head.trimmed && seq <= HIGHEST) else {
        return Ok(None);
    };
    let raw = connection
        .prepare_cached("SELECT raw FROM entries WHERE id = ?1")?
        .query_row([entry_id(head.key, seq)], |row| row.get::<_, Option<Vec<u8>>>(0))
        .optional()?;
    Ok(raw.flatten().map(Bytes::from))
}

/// The end of a log.
pub(super) fn head(connection: &Connection, log: LogId) -> rusqlite::Result<Option<LogHead>> {
    let Some(head) = find_log(connection, log)? else { return Ok(None) };
    let checkpoint = connection
        .prepare_cached("SELECT seq, state FROM checkpoints WHERE log = ?1")?
        .query_row([head.key], |row| {
            Ok((Seq(row.get::<_, i64>(0)? as u64), Bytes::from(row.get::<_, Vec<u8>>(1)?)))
        })
        .optional()?;
    let last = head.last(connection)?;
    Ok(Some(LogHead {
        last,
        reserved: head.reserved.max(last),
        checkpoint,
        open_items: open_items(connection, head.key)?,
    }))
}

fn open_items(connection: &Connection, key: i64) -> rusqlite::Result<Vec<OpenItem>> {
    let mut statement = connection.prepare_cached(CHUNKS)?;
    let mut rows = statement.query([key])?;
    let mut items: Vec<OpenItem> = Vec::new();
    while let Some(row) = rows.next()? {
        let item = row.get_ref(0)?.as_str()?;
        let started = row.get_ref(1)?.as_bytes_or_null()?.map(Bytes::copy_from_slice);
        let text = row.get_ref(2)?.as_str()?;
        match items.iter_mut().find(|open| open.item == item) {
            Some(open) => open.text.push_str(text),
            None => items.push(OpenItem {
                item: item.to_owned(),
                started: started.unwrap_or_default(),
                text: text.to_owned(),
            }),
        }
    }
    Ok(items)
}

/// The stored progress of a command.
pub(super) fn command(
    connection: &Connection,
    log: LogId,
    key: CommandKey,
) -> rusqlite::Result<Option<CommandRow>> {
    let Some(head) = find_log(connection, log)? else { return Ok(None) };
    let found = connection
        .prepare_cached("SELECT seq, stage FROM commands WHERE log = ?1 AND token = ?2 AND id = ?3")?
        .query_row(params![head.key, key.token.as_str(), key.id.as_str()], |row| {
            Ok((Seq(row.get::<_, i64>(0)? as u64), Bytes::from(row.get::<_, Vec<u8>>(1)?)))
        })
        .optional()?;
    Ok(found.map(|(seq, stage)| CommandRow { key, seq, stage }))
}

/// Sessions, newest first.
pub(super) fn sessions(connection: &Connection, query: &SessionQuery) -> rusqlite::Result<Vec<Summary>> {
    let sql = if query.live { LIVE_SESSIONS } else { SESSIONS };
    // No id is above this: ids are hexadecimal.
    let before = query.before.map_or_else(|| "~".to_owned(), |session| session.to_string());
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![query.archived, before, query.limit], summary)?;
    rows.filter_map(Result::transpose).collect()
}

/// A summary that cannot be read costs its own line, not the list.
fn summary(row: &Row<'_>) -> rusqlite::Result<Option<Summary>> {
    let text = row.get_ref(0)?.as_bytes()?;
    let read = serde_json::from_slice(text);
    Ok(read
        .inspect_err(|error| warn!(%error, "a session's line in the list cannot be read and is left out"))
        .ok())
}

/// Session ids that begin or end with `part`.
pub(super) fn matching(connection: &Connection, part: &str, limit: u32) -> rusqlite::Result<Vec<SessionId>> {
    let mut statement = connection.prepare_cached(MATCHING)?;
    let rows = statement.query_map(params![part, limit], |row| Ok(row.get_ref(0)?.as_str()?.parse().ok()))?;
    rows.filter_map(Result::transpose).collect()
}

/// All records of a collection, by key.
pub(super) fn records(connection: &Connection, collection: &str) -> rusqlite::Result<Vec<(String, Bytes)>> {
    let mut statement =
        connection.prepare_cached("SELECT key, value FROM records WHERE collection = ?1 ORDER BY key")?;
    let rows =
        statement.query_map([collection], |row| Ok((row.get(0)?, Bytes::from(row.get::<_, Vec<u8>>(1)?))))?;
    rows.collect()
}

/// One record.
pub(super) fn record(
    connection: &Connection,
    collection: &str,
    key: &str,
) -> rusqlite::Result<Option<Bytes>> {
    connection
        .prepare_cached("SELECT value FROM records WHERE collection = ?1 AND key = ?2")?
        .query_row([collection, key], |row| row.get::<_, Vec<u8>>(0).map(Bytes::from))
        .optional()
}
