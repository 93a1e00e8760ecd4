//! The machine: the decisions of a session. For every command, every report of its agent and every deadline, the
//! machine appends entries to the book and decides the agent's instructions. It does no I/O and holds no clock.
//!
//! First the entries are committed, then the agent gets the instruction. An instruction therefore carries the number of
//! the entry that must be visible first.

mod admission;
mod budgets;
mod commands;
pub(crate) mod instructions;
mod life;
pub(crate) mod memory;
mod modes;
mod prompts;
mod reports;
mod requests;
mod rest;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use self::memory::{Kept, Running};
pub(crate) use self::{commands::masked, requests::allowed_tools};
pub use self::{instructions::Unsettled, memory::Memory, rest::Rest};
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
    policy::{Facts, Lent, RuleSet},
    ports::{Instruction, InstructionId, OpenItem},
};

/// How many requests one session may have open at once. An agent with more does not wait for people any more.
const OPEN_REQUESTS: usize = 256;

/// How many prompts may wait in one session.
const QUEUED_PROMPTS: usize = 256;

/// How many commands' receipts are kept until the store certainly has them.
const RECENT_COMMANDS: usize = 1024;

/// How often a failed agent is started again before its session stays stopped.
const RESTARTS: u32 = 3;

/// The default time after which an agent with nothing to do is ended. Long enough for a break, and short enough that an
/// afternoon of abandoned conversations does not fill the memory.
pub const IDLE_AFTER: Duration = Duration::from_mins(30);

/// The default number of agents that run at once. An idle Claude Code takes about 300 MB: this many fit into the memory
/// of a usual machine, and are more than people keep busy at once.
pub const AGENTS_AT_ONCE: NonZeroUsize = const { NonZeroUsize::new(32).unwrap() };

/// The rules for sessions, requests and idle agents.
#[derive(Clone, Debug)]
pub struct Policy {
    /// After this time Portolan denies a request by itself; `None` waits for ever.
    pub request_deadline: Option<Duration>,
    /// The folders that sessions may use, with everything below them; empty means any folder.
    pub roots: std::sync::Arc<[std::path::PathBuf]>,
    /// Whether agents may work in modes in which they ask nobody.
    pub bypass: Bypass,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Portolan's own folders, which no rule and no mode covers unless a rule names them.
    pub own: Arc<[PathBuf]>,
    /// After this time with nothing to do an agent is ended, if a resume loses nothing
    /// ([`reliable_resume`](crate::Capabilities::reliable_resume)); the next prompt resumes it. `None` keeps the agent
    /// running.
    pub idle_after: Option<Duration>,
    /// The largest number of agents that run at once; `None` means unlimited. To start one more, Portolan ends the
    /// agent that has had nothing to do for the longest time.
    pub agents_at_once: Option<NonZeroUsize>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            request_deadline: None,
            roots: std::sync::Arc::default(),
            bypass: Bypass::default(),
            home: None,
            own: Arc::default(),
            idle_after: Some(IDLE_AFTER),
            agents_at_once: Some(AGENTS_AT_ONCE),
        }
    }
}

/// Work for the task that is neither an entry nor an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Start the agent after this wait.
    Start {
        /// The wait.
        after: Duration,
    },
    /// End the agent by its stop ladder.
    Stop,
}

/// A command that was accepted recently.
#[derive(Debug)]
struct Recent {
    key: CommandKey,
    seq: Seq,
    stage: Stage,
    asked: [u8; 32],
}

/// The decisions of a session.
#[derive(Debug)]
pub struct Machine {
    policy: Policy,
    /// The daemon's rules, and what is known of the disk, for the next request.
    rules: Arc<RuleSet>,
    /// What frontends allow in this session while they are there.
    lent: Lent,
    facts: Facts,
    /// The budgets that count this session besides its own.
    shared: budgets::Shared,
    memory: Kept,
    /// Instructions for the agent, each with the entry that must be visible first.
    outbox: VecDeque<(Seq, Instruction)>,
    /// All unsettled instructions, with the setting that each changes.
    told: BTreeMap<InstructionId, Option<Setting>>,
    /// The agent's own keys of what was answered before this daemon began, without a sign that the answer arrived.
    answered_before: HashSet<String>,
    /// The agent is ended after the entry with this number is visible.
    stop_after: Option<Seq>,
    wants: Vec<Want>,
    recent: VecDeque<Recent>,
    /// The stage of the current command, if it was settled at once with a result.
    settled: Option<Stage>,
    /// Prompts that are held back until their sender has prepared the agent.
    held: HashSet<CommandKey>,
    shutting_down: bool,
}

impl Machine {
    /// A session whose agent does not run.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            rules: Arc::default(),
            lent: Lent::default(),
            facts: Facts::default(),
            shared: budgets::Shared::default(),
            memory: Kept::default(),
            outbox: VecDeque::new(),
            told: BTreeMap::new(),
            answered_before: HashSet::new(),
            stop_after: None,
            wants: Vec::new(),
            recent: VecDeque::new(),
            settled: None,
            held: HashSet::new(),
            shutting_down: false,
        }
    }

    /// The daemon's rules of this moment.
    pub fn know_rules(&mut self, rules: Arc<RuleSet>) {
        self.rules = rules;
    }

    /// What the next requests are judged by.
    pub fn know(&mut self, rules: Arc<RuleSet>, lent: Lent, facts: Facts) {
        (self.rules, self.lent, self.facts) = (rules, lent, facts);
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
            self.told = unsettled.iter().map(|unsettled| (unsettled.instruction_id(), None)).collect();
            self.forget_told(book);
            // The memory of the agent ends with the agent.
            *self.memory = Memory::default();
        }
    }

    /// The agent's process exists, or is about to.
    pub fn is_running(&self) -> bool {
        self.memory.running != Running::No
    }

    /// The agent was asked to end.
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
            // A prompt that waits for a budget goes on when the budget has room again.
            && (state.summary.queued == 0 || state.summary.over_budget.is_none())
    }
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
