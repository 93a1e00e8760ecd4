//! The store, the port below.

use std::fmt;

use bytes::Bytes;
use tokio::sync::watch;

use super::Boxed;
use crate::{
    CommandId, LogId, Millis, Position, Seq, SessionId, Stored, TokenId, command::CommandKey,
    session::state::Summary,
};

/// The log on disk. One writer commits all waiting writes; reads are paged and never see uncommitted entries.
///
/// A store that cannot write (disk full, database locked) keeps its queued writes, retries, and reports this through
/// [`Store::health`]. A store never drops or reorders a write.
pub trait Store: fmt::Debug + Send + Sync {
    /// Queues a write as one transaction. Waits only for room in the queue. The store commits the writes of one log in
    /// the given order.
    fn write(&self, write: Write) -> Boxed<'_, Result<(), StoreError>>;

    /// The health of the store.
    fn health(&self) -> watch::Receiver<StoreHealth>;

    /// Durable entries with `after < seq <= upto`, oldest first, at most as many as `page` allows (but at least one if
    /// there is one, however large).
    fn read(
        &self,
        log: LogId,
        after: Seq,
        upto: Seq,
        page: Page,
    ) -> Boxed<'_, Result<Vec<Stored>, StoreError>>;

    /// Durable entries of all logs after a position, in the order of their commits: a reader that has seen one entry
    /// has seen every earlier entry that still exists. At most as many as `page` allows, but at least one if there is
    /// one.
    fn since(&self, after: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>>;

    /// Durable entries of all logs before a position, newest first; otherwise like [`Store::since`].
    fn before(&self, before: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>>;

    /// The position of an entry, and its seal; `None` if there is no such entry.
    fn place(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Place>, StoreError>>;

    /// The number after which exactly the last `count` durable entries up to `upto` follow.
    fn tail(&self, log: LogId, upto: Seq, count: u32) -> Boxed<'_, Result<Seq, StoreError>>;

    /// The agent's original text of this entry.
    fn raw(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Bytes>, StoreError>>;

    /// The head of a log; `None` if the log does not exist.
    fn load(&self, log: LogId) -> Boxed<'_, Result<Option<LogHead>, StoreError>>;

    /// The stored progress of a command, by its key.
    fn command(&self, log: LogId, key: CommandKey) -> Boxed<'_, Result<Option<CommandRow>, StoreError>>;

    /// Sessions, newest first.
    fn sessions(&self, query: SessionQuery) -> Boxed<'_, Result<Vec<Summary>, StoreError>>;

    /// The ids that begin or end with these characters, at most `limit`.
    fn matching(&self, part: String, limit: u32) -> Boxed<'_, Result<Vec<SessionId>, StoreError>>;

    /// All records of a collection, by key.
    fn records(&self, collection: &'static str) -> Boxed<'_, Result<Vec<(String, Bytes)>, StoreError>>;

    /// One record.
    fn record(&self, collection: &'static str, key: String) -> Boxed<'_, Result<Option<Bytes>, StoreError>>;

    /// The size of the store on disk, in bytes.
    fn size(&self) -> Boxed<'_, Result<u64, StoreError>>;

    /// Waits until everything queued so far is committed.
    fn flush(&self) -> Boxed<'_, Result<(), StoreError>>;
}

/// A durable entry of any log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The entry's position.
    pub position: Position,
    /// The entry's log.
    pub log: LogId,
    /// The entry.
    pub entry: Stored,
}

/// Where an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The entry's position.
    pub position: Position,
    /// The entry's place in the chain of seals; `None` if the store does not seal the entries of this log.
    pub link: Option<ChainLink>,
}

/// The place of an entry in the chain of seals.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct ChainLink {
    /// The entry's seal, in hexadecimal; absent if the seal is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// The seal of the entry before it, in hexadecimal: zeros before the first entry.
    pub before: String,
    /// The seal is the hash of the seal before it, the entry's number and the entry. This says nothing about other
    /// entries.
    pub matches: bool,
}

/// How much to read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The largest number of entries.
    pub entries: u32,
    /// The largest number of bytes of frames.
    pub bytes: u32,
}

impl Page {
    /// The page for one connection.
    pub const BATCH: Self = Self { entries: 64, bytes: 256 * 1024 };
    /// The page for reading history: as many bytes as a batch, and enough entries that a page of short entries is worth
    /// reading the disk.
    pub const HISTORY: Self = Self { entries: 1024, bytes: 256 * 1024 };
}

/// The changes of one transaction.
pub struct Write {
    /// The log.
    pub log: LogId,
    /// The changes, in order.
    pub ops: Vec<Op>,
    /// Called after the commit, on the writer's thread: it must be quick and must not wait. Dropped uncalled if the
    /// write can never succeed: the writer of that log must then stop, because later writes still commit.
    pub done: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").field("log", &self.log).field("ops", &self.ops).finish_non_exhaustive()
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Add a durable entry.
    Append {
        /// The entry's number, above every earlier number.
        seq: Seq,
        /// The time of the entry.
        at: Millis,
        /// The entry's frame.
        frame: Bytes,
        /// The agent's original text.
        raw: Option<Bytes>,
    },
    /// Reserve the numbers up to this one. After a restart none of them is used again.
    Reserve {
        /// The highest reserved number.
        upto: Seq,
    },
    /// Add text to an open item.
    Chunk {
        /// The item's name.
        item: String,
        /// The entry of the latest delta in this chunk.
        seq: Seq,
        /// With the first chunk: the frame of the item's `ItemStarted`.
        started: Option<Bytes>,
        /// The text after the chunks before.
        text: String,
    },
    /// The item is finished: remove its chunks.
    CloseItem {
        /// The item's name.
        item: String,
    },
    /// The fold of all entries up to `seq`, so that opening a log need not read all of it.
    Checkpoint {
        /// The number of the last entry in the state.
        seq: Seq,
        /// The state.
        state: Bytes,
    },
    /// The progress of a command. It replaces the stored progress under this key.
    Command(CommandRow),
    /// The session's line in lists. It replaces the line before.
    Summary(Box<Summary>),
    /// Copies another session's durable entries up to a number into this (empty) log, under the same numbers, without
    /// raw text and command keys.
    CopyFrom {
        /// The other session.
        source: SessionId,
        /// The last entry to copy.
        upto: Seq,
    },
    /// Deletes the log and everything that belongs to it.
    Delete,
    /// Deletes entries up to this number.
    Trim {
        /// The last entry to delete.
        upto: Seq,
    },
    /// Writes a record.
    Put {
        /// The collection.
        collection: &'static str,
        /// The record's key.
        key: String,
        /// The record's value.
        value: Bytes,
    },
    /// Deletes a record.
    Remove {
        /// The collection.
        collection: &'static str,
        /// The record's key.
        key: String,
    },
}

/// A command in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRow {
    /// The command's key.
    pub key: CommandKey,
    /// The command's entry.
    pub seq: Seq,
    /// The command's progress: the JSON of [`crate::command::Stage`].
    pub stage: Bytes,
}

impl CommandRow {
    /// For tests: a row with the sender's token and id.
    pub fn new(token: TokenId, id: CommandId, seq: Seq, stage: Bytes) -> Self {
        Self { key: CommandKey { token, id }, seq, stage }
    }
}

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogHead {
    /// The last durable entry.
    pub last: Seq,
    /// The highest number that may have been used.
    pub reserved: Seq,
    /// The newest checkpoint.
    pub checkpoint: Option<(Seq, Bytes)>,
    /// Items that were open when the daemon ended, oldest first.
    pub open_items: Vec<OpenItem>,
}

/// An item that was open when the daemon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// The item's name.
    pub item: String,
    /// The frame of the item's `ItemStarted`.
    pub started: Bytes,
    /// The item's stored text.
    pub text: String,
}

/// Which sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// `true`: only archived sessions. `false`: only the others. Absent: both.
    pub archived: Option<bool>,
    /// Only sessions whose agent may still run.
    pub live: bool,
    /// Only sessions older than this one, for the next page.
    pub before: Option<SessionId>,
    /// The largest number of sessions.
    pub limit: u32,
}

/// The health of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// The store accepts writes.
    Good,
    /// The store cannot write at the moment and retries.
    Failing {
        /// The reason.
        reason: String,
    },
}

/// Why the store cannot serve a call at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The database is from a newer version.
    #[error(
        "the database has version {found}, but this Portolan can read only versions up to {known}; use a newer Portolan, or \
         another PORTOLAN_HOME"
    )]
    Newer {
        /// The database's version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// Reading or opening failed.
    #[error("{0}")]
    Failed(String),
}
