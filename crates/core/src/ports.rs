//! Ports: the traits that the sides of core implement. Agents to the south, the store below, the clock.

mod account;
mod past;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use self::{account::*, past::*};
use crate::{
    Capabilities, CommandId, Event, Generation, LogId, Millis, Position, Seq, SessionId, SessionSpec, Stored,
    TokenId,
    capabilities::NativeProtocol,
    command::CommandKey,
    event::{Content, Exit, TurnOrigin, TurnResult},
    request::{Answer, Ask},
    session::state::Summary,
};

/// A future behind a trait object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

// ------------------------------------------------------------------------------------------ clock

/// Where core takes the wall clock from. Timers use tokio's clock, which tests can pause.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// A clock of one's own.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
    /// The machine's clock.
    pub fn system() -> Self {
        Self::new(Millis::now)
    }
    /// The time.
    pub fn now(&self) -> Millis {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now().0)
    }
}

// ----------------------------------------------------------------------------------------- agents

/// A kind of agent: what it can do, whether it is here, and how to start it.
pub trait Agent: fmt::Debug + Send + Sync {
    /// Its name, such as `claude`. Sessions and configuration use it.
    fn kind(&self) -> &str;

    /// What people call it.
    fn title(&self) -> String;

    /// What it can do, without a session.
    fn capabilities(&self) -> Capabilities;

    /// The environment it would start with, as an owner may see it; or why it would not start, so that a session is
    /// refused instead of failing later.
    fn environment(&self, spec: &SessionSpec) -> Result<indexmap::IndexMap<String, String>, String> {
        Ok(spec.env.clone())
    }

    /// What of this makes the agent ask nobody, whatever its mode is; nothing where it goes on asking. What somebody may not
    /// set as a mode they may not set past the modes either.
    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        let _ = means;
        None
    }

    /// Looks whether it is installed and usable, without starting a turn.
    fn probe(&self) -> Boxed<'_, Probe>;

    /// The conversations that it has kept by itself, where they can be read.
    fn past(&self) -> Option<Arc<dyn Past>> {
        None
    }

    /// Its login, where it can be looked at and changed by asking the agent itself.
    fn account(&self) -> Option<Arc<dyn Account>> {
        None
    }

    /// Starts it. Returns at once: what comes of it arrives as reports, the last of which is always
    /// [`Report::Exited`]. Dropping the link ends the agent.
    fn start(&self, launch: Launch) -> AgentLink;
}

/// Something that can change an agent's mode without naming one.
#[derive(Clone, Copy, Debug)]
pub enum Means<'a> {
    /// A message of its own protocol.
    Message(&'a Value),
    /// Variables that it is started with, or given while it runs.
    Variables(&'a indexmap::IndexMap<String, String>),
    /// One of its own options in a request, by id: some go on in another mode.
    Choice(&'a str),
}

/// What a look at an agent found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Probe {
    /// It can be started.
    pub available: bool,
    /// Its version, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub version: Option<String>,
    /// What was found, and the way out where something is missing.
    pub message: String,
    /// The program that would be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub program: Option<String>,
    /// How it would be spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub road: Option<Road>,
    /// Whether it is logged in, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub login: Option<Login>,
}

/// How an agent would be spoken to, and why so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Road {
    /// What people call it, such as `stdio`.
    pub name: String,
    /// Why this one and not another.
    pub why: String,
}

/// Whether an agent is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Login {
    /// It is.
    LoggedIn {
        /// How, in the agent's own words.
        how: String,
    },
    /// It is not.
    LoggedOut {
        /// What the user can do.
        way_out: String,
    },
}

/// Everything an agent needs to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// For which session.
    pub session: SessionId,
    /// Which start this is; part of every item's name, so that no two starts share one.
    pub generation: Generation,
    /// What was asked for, with the settings that changed since.
    pub spec: Arc<SessionSpec>,
    /// The conversation to take up.
    pub resume: Option<ResumePoint>,
}

/// A conversation to take up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The agent's own session id.
    pub agent_session: String,
    /// Leave that one as it is and go on in a copy.
    pub fork: bool,
    /// Only up to this message, by the agent's own id.
    pub at_message: Option<String>,
    /// The last message a conversation to fork holds, as far as its log knows. An agent may write its conversation
    /// down a little later than it speaks: a copy made before that would lack its end.
    pub last_message: Option<String>,
    /// Prompts of this conversation that the agent has answered, as far as the log knows: since it began, or since the
    /// agent last forgot it or made it smaller. Commands of the agent's own are not counted.
    pub exchanges: u64,
}

/// A running agent, as its session sees it.
#[derive(Debug)]
pub struct AgentLink {
    /// What the session wants. Bounded; a full queue makes the session answer Busy.
    pub instructions: mpsc::Sender<Instruction>,
    /// What the agent does. Bounded; a full queue stops the reading of the agent's pipe.
    pub reports: mpsc::Receiver<Report>,
    /// Cancel to end the agent by the stop ladder. The last report still arrives.
    pub stop: CancellationToken,
    /// Cancel to end it at once.
    pub kill: CancellationToken,
}

/// Agent reports waiting for the session task. Full means the agent is faster than its session can record;
/// the reader then stops reading its pipe.
pub const REPORTS: usize = 1024;

/// Instructions waiting for the agent. More than a few means that it does not read.
pub const INSTRUCTIONS: usize = 64;

/// Names an instruction until the agent has settled it: the number of the command's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Something for the agent to do. Each with a ticket is settled by exactly one of [`Report::Consumed`],
/// [`Report::Rejected`] and [`Report::Uncertain`], unless the agent ends first.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Under which name it is settled.
    pub ticket: Ticket,
    /// What.
    pub order: Order,
}

/// What an agent can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Take up this prompt.
    Prompt {
        /// What was said.
        content: Vec<Content>,
    },
    /// Take up this prompt in the turn that runs. Where none runs any more it is a prompt like any other: the turn may
    /// have ended on the way.
    Steer {
        /// What was said.
        content: Vec<Content>,
    },
    /// This is the answer to what you asked.
    Answer {
        /// The agent's own key for the request.
        key: String,
        /// What it asked, so that the original input can be echoed.
        ask: Box<Ask>,
        /// The answer.
        answer: Answer,
    },
    /// Stop the running turn.
    Interrupt,
    /// Use this model; the default when absent.
    SetModel(Option<String>),
    /// Use this permission mode.
    SetMode(String),
    /// Use this thinking budget; the default when absent.
    SetThinking(Option<u32>),
    /// Set these environment variables.
    SetEnvironment(indexmap::IndexMap<String, String>),
    /// Take files back.
    Rewind {
        /// The ticket of the prompt before which they are taken back.
        prompt: Ticket,
        /// Only tell what would change.
        dry_run: bool,
    },
    /// Tell the state of the MCP servers.
    McpStatus,
    /// Connect one again.
    McpReconnect(String),
    /// Switch one on or off.
    McpToggle {
        /// Which.
        server: String,
        /// On or off.
        enabled: bool,
    },
    /// Have these, beside the user's own.
    McpSet(indexmap::IndexMap<String, Value>),
    /// Pass this message on.
    McpMessage {
        /// To which.
        server: String,
        /// The message.
        message: Value,
    },
    /// Tell what fills the context window.
    Context,
    /// Stop a background task.
    StopTask(String),
    /// A message of the agent's own protocol.
    Native(Value),
}

/// What an agent does, as its session is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The process runs.
    Started {
        /// The process, where there is one of its own.
        pid: Option<u32>,
        /// The version, where known.
        version: Option<String>,
        /// How it is spoken to.
        protocol: NativeProtocol,
        /// What it can do.
        capabilities: Box<Capabilities>,
    },
    /// It takes instructions from now on. Nothing is sent to it before.
    Ready,
    /// Something happened that is an event as it stands: messages, tools, subagents, notices, info, usage.
    /// Never one of those that core makes itself (session, agent life, turns, requests, commands).
    Event {
        /// What.
        event: Event,
        /// What the agent really said, where that is worth keeping.
        raw: Option<Bytes>,
    },
    /// An item that streamed will not be finished. What there was of it is kept, and marked as cut off.
    CutOff {
        /// Which item.
        item: String,
        /// The model that wrote it.
        model: Option<String>,
    },
    /// A turn began.
    TurnStarted {
        /// What set it off.
        origin: TurnOrigin,
    },
    /// The turn ended.
    TurnEnded {
        /// What came of it.
        result: Box<TurnResult>,
        /// What the agent really said.
        raw: Option<Bytes>,
    },
    /// The agent waits for an answer.
    RequestOpened {
        /// The agent's own key for it.
        key: String,
        /// What it asks.
        ask: Box<Ask>,
        /// The subagent that asks.
        parent: Option<String>,
        /// The tool call it belongs to.
        tool: Option<String>,
        /// What the agent really said.
        raw: Option<Bytes>,
    },
    /// The agent takes a request back.
    RequestWithdrawn {
        /// The agent's own key for it.
        key: String,
    },
    /// The instruction is written to the agent in full.
    Delivered(Ticket),
    /// The agent took it up.
    Consumed {
        /// Which.
        ticket: Ticket,
        /// What came of it, where something did.
        result: Option<Value>,
    },
    /// The agent would not.
    Rejected {
        /// Which.
        ticket: Ticket,
        /// Its words.
        error: String,
    },
    /// It was written to the agent, and nobody knows whether the agent took it up: its answer did not come in time. One that
    /// comes late still settles a prompt.
    Uncertain {
        /// Which.
        ticket: Ticket,
        /// What happened.
        reason: String,
    },
    /// The connection to a living agent was lost.
    LinkLost {
        /// Why.
        reason: String,
    },
    /// It is back.
    LinkRestored,
    /// The agent has ended, with everything it started. Nothing follows.
    Exited(Exit),
}

// ------------------------------------------------------------------------------------------ store

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
