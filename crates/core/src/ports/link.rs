//! A running agent as its session sees it: instructions go to the agent, reports come back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Capabilities, Event, Generation, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{Content, Exit, HolderInfo, Level, TurnOrigin, TurnResult},
    policy::Decision,
    request::{Answer, Ask},
};

/// Everything that an agent needs to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The session.
    pub session: SessionId,
    /// The number of this start. It is part of every item's name, so that no two starts share a name.
    pub generation: Generation,
    /// The session's settings, with later changes.
    pub spec: Arc<SessionSpec>,
    /// The conversation to resume.
    pub resume: Option<ResumePoint>,
}

/// A conversation to resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// The agent's own session id.
    pub agent_session: String,
    /// Keep the original conversation unchanged and continue in a copy.
    pub fork: bool,
    /// Resume only up to this message, by the agent's own id.
    pub at_message: Option<String>,
    /// The last message of a conversation to fork, as far as its log knows. An agent may write its conversation to disk
    /// a little later than it speaks: a copy made before that would lack its end.
    pub last_message: Option<String>,
    /// The number of prompts of this conversation that the agent has answered, as far as the log knows: since its
    /// beginning, or since the agent last lost or compacted it. The agent's own commands are not counted.
    pub exchanges: u64,
}

/// A running agent as its session sees it.
#[derive(Debug)]
pub struct AgentLink {
    /// Instructions from the session. The queue is bounded; if it is full, the session answers Busy.
    pub instructions: mpsc::Sender<Instruction>,
    /// Reports from the agent. The queue is bounded; if it is full, the agent's pipe is not read.
    pub reports: mpsc::Receiver<Report>,
    /// Cancel this to end the agent by the stop ladder. The last report still arrives.
    pub stop: CancellationToken,
    /// Cancel this to end the agent at once.
    pub kill: CancellationToken,
    /// For an agent that outlives the daemon: the number of its recorded reports, counted from the first one. The link
    /// keeps later reports and gives them to the next daemon. Absent if the agent ends with the daemon.
    pub recorded: Option<watch::Sender<u64>>,
}

impl AgentLink {
    /// The link to an agent that ends with the daemon, over these two queues.
    pub fn new(instructions: mpsc::Sender<Instruction>, reports: mpsc::Receiver<Report>) -> Self {
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        Self { instructions, reports, stop, kill, recorded: None }
    }
}

/// An agent that an earlier daemon left running, according to its log.
#[derive(Clone, Debug)]
pub struct LeftRunning {
    /// The session.
    pub session: SessionId,
    /// The number of the agent's start.
    pub generation: Generation,
    /// The number of recorded reports. The link must begin with the next report.
    pub recorded: u64,
    /// Instructions that the agent has not settled, as far as the log knows.
    pub unsettled: Vec<InstructionId>,
}

/// An agent that still runs.
#[derive(Debug)]
pub struct Rejoined {
    /// The link to the agent. No other daemon is connected to the agent.
    pub link: AgentLink,
    /// The unsettled instructions that have reached the agent. A report settles each of them; Portolan sends the others
    /// once more.
    pub taken: BTreeSet<InstructionId>,
    /// How long the agent was without a daemon. This time does not count toward the deadlines of its requests.
    pub away: Duration,
}

/// Agent reports that wait for the session task. A full queue means that the agent is faster than its session can
/// record; its pipe is then not read.
pub const REPORTS: usize = 1024;

/// Instructions that wait for the agent. More than a few mean that the agent does not read.
pub const INSTRUCTIONS: usize = 64;

/// Names an instruction until the agent has settled it: the number of the entry that caused it. That is the entry of a
/// command, of a request that was answered without a command, or of a start that sets something again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstructionId(pub u64);

impl InstructionId {
    /// The id of an instruction without an entry, because nothing can be recorded.
    pub const UNRECORDED: Self = Self(0);
}

/// An instruction to the agent. Exactly one of [`Report::Consumed`], [`Report::Rejected`] and [`Report::Uncertain`]
/// settles each instruction, unless the agent ends first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instruction {
    /// The name under which the instruction is settled.
    pub id: InstructionId,
    /// The order.
    pub order: Order,
}

/// An order to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start working on this prompt.
    Prompt {
        /// The prompt.
        content: Vec<Content>,
    },
    /// Take this prompt into the running turn. If no turn runs any more, it is an ordinary prompt: the turn may have
    /// ended meanwhile.
    Steer {
        /// The prompt.
        content: Vec<Content>,
    },
    /// The answer to a request of the agent.
    Answer {
        /// The agent's own key for the request.
        key: String,
        /// The request, so that the original input can be repeated.
        ask: Box<Ask>,
        /// The answer.
        answer: Answer,
    },
    /// What policy says about a [`Report::Unasked`]: `allow` goes on, `ask` makes the agent ask first. Nothing settles
    /// this order, and its instruction has the id [`InstructionId::UNRECORDED`].
    Checked {
        /// The agent's own key for the report.
        key: String,
        /// `allow` or `ask`. A denial is an [`Order::Answer`], because everybody sees it.
        decision: Decision,
    },
    /// Interrupt the running turn.
    Interrupt,
    /// Use this model; the default when absent.
    SetModel(Option<String>),
    /// Use this permission mode.
    SetMode(String),
    /// Use this thinking budget; the default when absent.
    SetThinking(Option<u32>),
    /// Set these environment variables.
    SetEnvironment(indexmap::IndexMap<String, String>),
    /// Restore files.
    Rewind {
        /// The instruction id of the prompt before which the files had their state.
        prompt: InstructionId,
        /// Only report what would change.
        dry_run: bool,
    },
    /// Report the state of the MCP servers.
    McpStatus,
    /// Connect an MCP server again.
    McpReconnect(String),
    /// Switch an MCP server on or off.
    McpToggle {
        /// The server's name.
        server: String,
        /// `true` switches the server on.
        enabled: bool,
    },
    /// Use these MCP servers, in addition to the user's own.
    McpSet(indexmap::IndexMap<String, Value>),
    /// Send this message to an MCP server.
    McpMessage {
        /// The server's name.
        server: String,
        /// The message.
        message: Value,
    },
    /// Report what fills the context window.
    Context,
    /// Stop a background task.
    StopTask(String),
    /// A message of the agent's own protocol.
    Native(Value),
}

/// Who does what the agent asks no person about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doer {
    /// Portolan does it for the agent. What neither a rule nor the mode allows becomes a request.
    Portolan,
    /// The agent does it, and has its own ways to decide. Only a rule that denies or asks counts.
    Agent,
    /// Portolan does it as part of a call that was allowed in this turn: the report names that call. A rule that denies
    /// or asks still counts, and so does everything else if only a mode allowed the call.
    Approved(Approval),
}

/// What an approved call says about the work that is done as a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It names the same file or the same command.
    Named,
    /// It names no file and no command.
    Bare,
}

/// A report from an agent to its session.
///
/// The serialised form lacks the agent's original text, which may be any bytes: [`Report::raw`] carries it beside that
/// form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The process runs.
    Started {
        /// The process id, if the agent has a process of its own.
        pid: Option<u32>,
        /// The agent's version, if known.
        version: Option<String>,
        /// The process that holds the agent. Only a holder knows it: everyone else says nothing.
        #[serde(default)]
        holder: Option<HolderInfo>,
        /// The protocol between Portolan and the agent.
        protocol: NativeProtocol,
        /// What the agent supports.
        capabilities: Box<Capabilities>,
    },
    /// The agent takes instructions from now on. Nothing is sent to the agent before.
    Ready,
    /// Something happened that is already an event: messages, tools, subagents, notices, info, usage. Never an event
    /// that core makes itself (session, agent life, turns, requests, commands).
    Event {
        /// The event.
        event: Event,
        /// The agent's original text, if it is worth keeping.
        #[serde(skip)]
        raw: Option<Bytes>,
    },
    /// A streamed item will not be finished. Its text so far is kept and marked as cut off.
    CutOff {
        /// The item's name.
        item: String,
        /// The model that wrote the item.
        model: Option<String>,
    },
    /// A turn began.
    TurnStarted {
        /// The cause of the turn.
        origin: TurnOrigin,
    },
    /// The turn ended.
    TurnEnded {
        /// The result of the turn.
        result: Box<TurnResult>,
        /// The agent's original text.
        #[serde(skip)]
        raw: Option<Bytes>,
    },
    /// The agent waits for an answer.
    RequestOpened {
        /// The agent's own key for the request.
        key: String,
        /// The question.
        ask: Box<Ask>,
        /// The subagent that asks.
        parent: Option<String>,
        /// The tool call that the request belongs to.
        tool: Option<String>,
        /// The agent's original text.
        #[serde(skip)]
        raw: Option<Bytes>,
    },
    /// Something is about to be done about which the agent asks no person. It waits for what policy says: an
    /// [`Order::Checked`], which nobody sees, or an [`Order::Answer`] to the request that it becomes.
    Unasked {
        /// The agent's own key, which is unique among its requests.
        key: String,
        /// What is about to be done, as a permission.
        ask: Box<Ask>,
        /// The subagent that does it.
        parent: Option<String>,
        /// The tool call that it belongs to.
        tool: Option<String>,
        /// Who does it.
        doer: Doer,
        /// The agent's original text.
        #[serde(skip)]
        raw: Option<Bytes>,
    },
    /// The agent withdraws a request.
    RequestWithdrawn {
        /// The agent's own key for the request.
        key: String,
    },
    /// The instruction was completely written to the agent.
    Delivered(InstructionId),
    /// The agent accepted the instruction.
    Consumed {
        /// The instruction's id.
        instruction_id: InstructionId,
        /// The result, if there is one.
        result: Option<Value>,
    },
    /// The agent refused the instruction.
    Rejected {
        /// The instruction's id.
        instruction_id: InstructionId,
        /// The agent's words.
        error: String,
    },
    /// The instruction was written to the agent, and nobody knows whether the agent accepted it: the agent's answer did
    /// not come in time. A late answer still settles a prompt.
    Uncertain {
        /// The instruction's id.
        instruction_id: InstructionId,
        /// The reason.
        reason: String,
    },
    /// So many reports are lost: they stood on a disk that changed them, or could not be read.
    Missing {
        /// The number of lost reports.
        reports: u64,
    },
    /// What a person should know about the agent. Not the agent says it, so it does not count as a report.
    Remark {
        /// How serious it is.
        level: Level,
        /// The remark.
        text: String,
    },
    /// The connection to a running agent was lost.
    LinkLost {
        /// The reason.
        reason: String,
    },
    /// The connection to the agent is back.
    LinkRestored,
    /// The agent and everything it started have ended. No report follows.
    Exited(Exit),
}

impl Report {
    /// The place of the agent's original text, if this report can have one.
    pub fn raw(&mut self) -> Option<&mut Option<Bytes>> {
        match self {
            Self::Event { raw, .. }
            | Self::TurnEnded { raw, .. }
            | Self::RequestOpened { raw, .. }
            | Self::Unasked { raw, .. } => Some(raw),
            Self::Started { .. }
            | Self::Ready
            | Self::CutOff { .. }
            | Self::TurnStarted { .. }
            | Self::RequestWithdrawn { .. }
            | Self::Delivered(_)
            | Self::Consumed { .. }
            | Self::Rejected { .. }
            | Self::Uncertain { .. }
            | Self::Missing { .. }
            | Self::Remark { .. }
            | Self::LinkLost { .. }
            | Self::LinkRestored
            | Self::Exited(_) => None,
        }
    }

    /// How many of the agent's reports this one stands for.
    pub fn count(&self) -> u64 {
        match self {
            Self::Missing { reports } => *reports,
            Self::Remark { .. } => 0,
            _ => 1,
        }
    }
}
