//! The machine: what a session decides. For every command, every report of its agent and every deadline it appends
//! entries to the book and says what the agent is to be told. It does no I/O and holds no clock.
//!
//! What it decides becomes real in this order: the entries are committed, then the agent is told. An instruction
//! therefore carries the number of the entry that must be visible first.

mod admission;
mod commands;
mod life;
pub(crate) mod memory;
mod prompts;
mod reports;
mod requests;
mod rest;
pub(crate) mod told;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

pub(crate) use self::commands::masked;
use self::memory::{Kept, Running};
pub use self::{memory::Memory, rest::Rest, told::Unsettled};
use super::{
    settle::{self, Left},
    state::{State, Status},
};
use crate::{
    Millis, Seq,
    access::Bypass,
    command::{CommandKey, Stage},
    event::Setting,
    log::Book,
    ports::{Instruction, OpenItem, Ticket},
};

/// Requests one session may have open at once. An agent with more of them is not asking people any more.
const OPEN_REQUESTS: usize = 256;

/// Prompts that may wait in one session.
const QUEUED_PROMPTS: usize = 256;

/// Commands whose receipts are remembered until the store certainly has them.
const RECENT_COMMANDS: usize = 1024;

/// How often an agent that failed is started again before its session stays down.
const RESTARTS: u32 = 3;

/// An agent that has had nothing to do for so long is ended, where nothing else is said. Long enough for a break, and short
/// enough that an afternoon of conversations that were left does not fill the memory.
pub const IDLE_AFTER: Duration = Duration::from_mins(30);

/// How many agents run at once, where nothing else is said. A Claude Code that waits takes some 300 MB: so many of them fit into
/// the memory of a usual machine, and are more than people keep busy at once.
pub const AGENTS_AT_ONCE: NonZeroUsize = const { NonZeroUsize::new(32).unwrap() };

/// What sessions may do, and what is done about requests and about agents with nothing to do.
#[derive(Clone, Debug)]
pub struct Policy {
    /// After this time a request is denied by itself; `None` waits for ever.
    pub request_deadline: Option<Duration>,
    /// The folders that sessions may work in, and all below them; empty is any.
    pub roots: std::sync::Arc<[std::path::PathBuf]>,
    /// Whether agents may work in modes in which they ask nobody.
    pub bypass: Bypass,
    /// After this time with nothing to do an agent is ended, where taking its conversation up again loses nothing
    /// ([`reliable_resume`](crate::Capabilities::reliable_resume)); the next prompt does so. `None` keeps it.
    pub idle_after: Option<Duration>,
    /// So many agents run at once at most; `None` is any number. To start one more, the one that has had nothing to do for
    /// the longest time is ended.
    pub agents_at_once: Option<NonZeroUsize>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            request_deadline: None,
            roots: std::sync::Arc::default(),
            bypass: Bypass::default(),
            idle_after: Some(IDLE_AFTER),
            agents_at_once: Some(AGENTS_AT_ONCE),
        }
    }
}

/// Something for the task to do that is neither an entry nor an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Start the agent after this wait.
    Start {
        /// How long.
        after: Duration,
    },
    /// End the agent by its stop ladder.
    Stop,
}

/// A command that was taken in not long ago.
#[derive(Debug)]
struct Recent {
    key: CommandKey,
    seq: Seq,
    stage: Stage,
    asked: [u8; 32],
}

/// What a session decides.
#[derive(Debug)]
pub struct Machine {
    policy: Policy,
    memory: Kept,
    /// What to tell the agent, each once the entry with that number is visible.
    outbox: VecDeque<(Seq, Instruction)>,
    /// Everything that was told and is not settled, with the setting that it is about.
    told: BTreeMap<Ticket, Option<Setting>>,
    /// The agent is to be ended once the entry with this number is visible.
    stop_after: Option<Seq>,
    wants: Vec<Want>,
    recent: VecDeque<Recent>,
    /// How the command that is being carried out was settled at once, where that has a result.
    settled: Option<Stage>,
    /// Prompts that are kept back from the agent, until whoever sent them has prepared it.
    held: HashSet<CommandKey>,
    shutting_down: bool,
}

impl Machine {
    /// A session whose agent does not run.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            memory: Kept::default(),
            outbox: VecDeque::new(),
            told: BTreeMap::new(),
            stop_after: None,
            wants: Vec::new(),
            recent: VecDeque::new(),
            settled: None,
            held: HashSet::new(),
            shutting_down: false,
        }
    }

    /// After the end of a daemon whose agent ended with it: settles what was left open.
    pub fn recover(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        open_items: &[OpenItem],
        unsettled: &[Unsettled],
    ) {
        if settle::recover(book, now, open_items) == Left::Running {
            self.told = unsettled.iter().map(|unsettled| (unsettled.ticket(), None)).collect();
            self.forget_told(book);
            // What was remembered of the agent goes with it.
            *self.memory = Memory::default();
        }
    }

    /// The agent's process exists, or is about to.
    pub fn is_running(&self) -> bool {
        self.memory.running != Running::No
    }

    /// The agent was told to end.
    pub fn is_stopping(&self) -> bool {
        self.memory.running == Running::Stopping
    }

    /// When the next request expires.
    pub fn next_deadline(state: &State) -> Option<Millis> {
        state.requests.iter().filter_map(|request| request.deadline).min()
    }

    /// The session has no process and nothing to do.
    pub fn is_idle(&self, state: &State) -> bool {
        self.memory.running == Running::No
            && self.outbox.is_empty()
            && matches!(state.summary.status, Status::Terminated | Status::Error | Status::Starting)
    }
}

/// Bytes as people read them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
