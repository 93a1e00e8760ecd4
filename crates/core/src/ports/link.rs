//! A running agent as its session sees it: instructions go down, reports come up.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Capabilities, Event, Generation, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{Content, Exit, TurnOrigin, TurnResult},
    request::{Answer, Ask},
};

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
    /// For an agent that outlives the daemon: told how many of its reports are recorded, counted from the first one. The link
    /// keeps those that come after, and gives them again to the daemon that joins it next. Absent where the agent ends
    /// with the daemon.
    pub recorded: Option<watch::Sender<u64>>,
}

impl AgentLink {
    /// The link to an agent that ends with the daemon, over these two queues.
    pub fn new(instructions: mpsc::Sender<Instruction>, reports: mpsc::Receiver<Report>) -> Self {
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        Self { instructions, reports, stop, kill, recorded: None }
    }
}

/// An agent that a daemon before this one has left running, as its log tells.
#[derive(Clone, Debug)]
pub struct LeftRunning {
    /// Of which session.
    pub session: SessionId,
    /// Which start of it.
    pub generation: Generation,
    /// So many of its reports are recorded. The link is to begin with the next one.
    pub recorded: u64,
    /// What it was told, as far as the log knows, and has not settled.
    pub unsettled: Vec<Ticket>,
}

/// An agent that was found running.
#[derive(Debug)]
pub struct Rejoined {
    /// The link to it. No other daemon is connected to it any more.
    pub link: AgentLink,
    /// Those of the unsettled instructions that have reached it. Each of them is settled by a report; the others are sent
    /// once more.
    pub taken: BTreeSet<Ticket>,
}

/// Agent reports waiting for the session task. Full means the agent is faster than its session can record;
/// the reader then stops reading its pipe.
pub const REPORTS: usize = 1024;

/// Instructions waiting for the agent. More than a few means that it does not read.
pub const INSTRUCTIONS: usize = 64;

/// Names an instruction until the agent has settled it: the number of the entry that it comes from. That is the entry of a
/// command, of a request that was answered without a command, or of a start that sets something again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Of an instruction that comes from no entry, because nothing can be recorded.
    pub const UNRECORDED: Self = Self(0);
}

/// Something for the agent to do. Each with a ticket is settled by exactly one of [`Report::Consumed`],
/// [`Report::Rejected`] and [`Report::Uncertain`], unless the agent ends first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instruction {
    /// Under which name it is settled.
    pub ticket: Ticket,
    /// What.
    pub order: Order,
}

/// What an agent can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
