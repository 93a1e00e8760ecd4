//! The store, the port below.

use std::fmt;

use bytes::Bytes;
use tokio::sync::watch;

use super::Boxed;
use crate::{
    CommandId, LogId, Millis, Position, Seq, SessionId, Stored, TokenId, command::CommandKey,
    session::state::Summary,
};

/// The log on disk. One writer commits whatever waits; reads are paged and never see what is uncommitted.
///
/// A store that cannot write (disk full, database locked) keeps the writes it was given, retries, and says so
/// through [`Store::health`]; it never drops or reorders one.
pub trait Store: fmt::Debug + Send + Sync {
    /// Queues a write, all of it in one transaction. Waits only for room in the queue. Writes of one log are
    /// committed in the order given.
    fn write(&self, write: Write) -> Boxed<'_, Result<(), StoreError>>;

    /// How the store is.
    fn health(&self) -> watch::Receiver<StoreHealth>;

    /// Durable entries with `after < seq <= upto`, oldest first, at most as many as `page` says (at least one
    /// where there is one, however large).
    fn read(
        &self,
        log: LogId,
        after: Seq,
        upto: Seq,
        page: Page,
    ) -> Boxed<'_, Result<Vec<Stored>, StoreError>>;

    /// Durable entries of all logs after a position, in the order in which they were committed: whoever has seen one has been
    /// given every one before it that still exists. At most as many as `page` says, at least one where there is one.
    fn since(&self, after: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>>;

    /// The number after which exactly the last `count` durable entries up to `upto` lie.
    fn tail(&self, log: LogId, upto: Seq, count: u32) -> Boxed<'_, Result<Seq, StoreError>>;

    /// What the agent really said at this entry.
    fn raw(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Bytes>, StoreError>>;

    /// Where a log stands; `None` where there is none.
    fn load(&self, log: LogId) -> Boxed<'_, Result<Option<LogHead>, StoreError>>;

    /// What is known of a command, by its key.
    fn command(&self, log: LogId, key: CommandKey) -> Boxed<'_, Result<Option<CommandRow>, StoreError>>;

    /// Sessions, newest first.
    fn sessions(&self, query: SessionQuery) -> Boxed<'_, Result<Vec<Summary>, StoreError>>;

    /// The ids that begin or end with these characters, at most `limit`.
    fn matching(&self, part: String, limit: u32) -> Boxed<'_, Result<Vec<SessionId>, StoreError>>;

    /// All records of a collection, by key.
    fn records(&self, collection: &'static str) -> Boxed<'_, Result<Vec<(String, Bytes)>, StoreError>>;

    /// One record.
    fn record(&self, collection: &'static str, key: String) -> Boxed<'_, Result<Option<Bytes>, StoreError>>;

    /// How many bytes it takes on disk.
    fn size(&self) -> Boxed<'_, Result<u64, StoreError>>;

    /// Waits until everything queued so far is committed.
    fn flush(&self) -> Boxed<'_, Result<(), StoreError>>;
}

/// A durable entry among those of all logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where it lies.
    pub position: Position,
    /// In which log.
    pub log: LogId,
    /// The entry.
    pub entry: Stored,
}

/// How much to read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most so many entries.
    pub entries: u32,
    /// At most so many bytes of frames.
    pub bytes: u32,
}

impl Page {
    /// What one connection is given at once.
    pub const BATCH: Self = Self { entries: 64, bytes: 256 * 1024 };
    /// What is read of a history at once: as large as a batch may be, and so many entries that a page of short ones
    /// is worth the way to the disk.
    pub const HISTORY: Self = Self { entries: 1024, bytes: 256 * 1024 };
}

/// What is written in one transaction.
pub struct Write {
    /// To which log.
    pub log: LogId,
    /// What, in order.
    pub ops: Vec<Op>,
    /// Called once it is committed, on the writer's thread: it must be quick and must not wait. Dropped uncalled where
    /// the write can never succeed: the writer of that log must then stop, since later writes still commit.
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
        /// Its number, above every one before it.
        seq: Seq,
        /// When.
        at: Millis,
        /// Its frame.
        frame: Bytes,
        /// What the agent really said.
        raw: Option<Bytes>,
    },
    /// Numbers up to this one may be given out; none of them is given out again after a restart.
    Reserve {
        /// The highest.
        upto: Seq,
    },
    /// More of an open item.
    Chunk {
        /// Which item.
        item: String,
        /// The entry of its latest delta in this chunk.
        seq: Seq,
        /// With the first chunk: the frame of its `ItemStarted`.
        started: Option<Bytes>,
        /// What follows what was written before.
        text: String,
    },
    /// The item is finished: its chunks go.
    CloseItem {
        /// Which.
        item: String,
    },
    /// fold(entries <= seq), so that opening a log need not read all of it.
    Checkpoint {
        /// The last entry in it.
        seq: Seq,
        /// The state.
        state: Bytes,
    },
    /// How far a command is. Replaces what was known under the key.
    Command(CommandRow),
    /// The session's line in lists. Replaces the one before.
    Summary(Box<Summary>),
    /// Copies the durable entries, raw text and command keys excluded, of another session's log up to a number
    /// into this (empty) one, under the same numbers.
    CopyFrom {
        /// From which.
        source: SessionId,
        /// Up to which entry.
        upto: Seq,
    },
    /// Deletes the log and everything that belongs to it.
    Delete,
    /// Deletes entries up to this number.
    Trim {
        /// The last to go.
        upto: Seq,
    },
    /// Writes a record.
    Put {
        /// Of which collection.
        collection: &'static str,
        /// Under which key.
        key: String,
        /// What.
        value: Bytes,
    },
    /// Deletes a record.
    Remove {
        /// Of which collection.
        collection: &'static str,
        /// Under which key.
        key: String,
    },
}

/// What the store knows of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRow {
    /// Its key.
    pub key: CommandKey,
    /// Its entry.
    pub seq: Seq,
    /// How far it is: the JSON of [`crate::command::Stage`].
    pub stage: Bytes,
}

impl CommandRow {
    /// For tests: a row with the sender's token and id.
    pub fn new(token: TokenId, id: CommandId, seq: Seq, stage: Bytes) -> Self {
        Self { key: CommandKey { token, id }, seq, stage }
    }
}

/// Where a log stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogHead {
    /// The last durable entry.
    pub last: Seq,
    /// The highest number that may have been given out.
    pub reserved: Seq,
    /// The newest checkpoint.
    pub checkpoint: Option<(Seq, Bytes)>,
    /// Items that were open when the daemon ended, oldest first.
    pub open_items: Vec<OpenItem>,
}

/// An item that was open when the daemon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// Its name.
    pub item: String,
    /// The frame of its `ItemStarted`.
    pub started: Bytes,
    /// What was written of it.
    pub text: String,
}

/// Which sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Archived ones, others, or (absent) both.
    pub archived: Option<bool>,
    /// Only those whose agent may still run.
    pub live: bool,
    /// Only those older than this one, for the next page.
    pub before: Option<SessionId>,
    /// At most so many.
    pub limit: u32,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// It takes writes.
    Good,
    /// It cannot write at the moment and retries.
    Failing {
        /// Why.
        reason: String,
    },
}

/// The store cannot do it at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It is closed.
    #[error("the store is closed")]
    Closed,
    /// The database is from a newer version.
    #[error(
        "the database has version {found}, this Portolan knows {known}; use a newer Portolan, or another PORTOLAN_HOME"
    )]
    Newer {
        /// Its version.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// Reading or opening failed.
    #[error("{0}")]
    Failed(String),
}
