//! The machine: what a session decides. For every command, every report of its agent and every deadline it appends
//! entries to the book and says what the agent is to be told. It does no I/O and holds no clock.
//!
//! What it decides becomes real in this order: the entries are committed, then the agent is told. An instruction
//! therefore carries the number of the entry that must be visible first.

mod admission;
mod requests;
mod rest;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::requests::Opened;
pub use self::rest::Rest;
use super::{
    parts::Parts,
    settle::{self, Reach, command_row, receipt},
    state::{OpenCommand, State, Status},
};
use crate::{
    Action, Actor, Capabilities, Event, Generation, Millis, Refusal, RefusalCode, RequestId, Seq,
    access::Bypass,
    capabilities::{Asks, PromptQueue},
    command::{Command, CommandKey, Receipt, Stage},
    event::{Content, Exit, ExitReason, Level, ResetReason, Setting, TurnOrigin, TurnOutcome, TurnResult},
    log::Book,
    ports::{Instruction, Op, OpenItem, Order, Report, Ticket},
    request::{Answer, Outcome},
    spec::MASK,
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
    /// ([`Capabilities::reliable_resume`]); the next prompt does so. `None` keeps it.
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

/// Where the agent's process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    No,
    /// A start was asked for.
    Starting,
    Ready,
    Stopping,
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
    running: Running,
    /// The agent's own keys of the open requests.
    keys: HashMap<RequestId, String>,
    /// What to tell the agent, each once the entry with that number is visible.
    outbox: VecDeque<(Seq, Instruction)>,
    wants: Vec<Want>,
    /// Settings that hold once the agent has confirmed them.
    settings: HashMap<Seq, Setting>,
    /// The MCP servers that were set since the agent started. It takes all of them or none.
    servers: IndexMap<String, Value>,
    recent: VecDeque<Recent>,
    /// How the command that is being carried out was settled at once, where that has a result.
    settled: Option<Stage>,
    parts: Parts,
    /// Prompts that are kept back from the agent, until whoever sent them has prepared it.
    held: HashSet<CommandKey>,
    restarts: u32,
    /// The start that is under way has failed for a reason that another one would meet too.
    hopeless: bool,
    shutting_down: bool,
    /// Why the agent is being ended, where it is to go on with the next prompt.
    rest: Option<Rest>,
    /// It is asked for again while it is being ended: it starts again as soon as it has ended.
    again: bool,
    /// Something was set in the running agent that no later start sets.
    unkept: bool,
}

impl Machine {
    /// A session whose agent does not run.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            running: Running::No,
            keys: HashMap::new(),
            outbox: VecDeque::new(),
            wants: Vec::new(),
            settings: HashMap::new(),
            servers: IndexMap::new(),
            recent: VecDeque::new(),
            settled: None,
            parts: Parts::default(),
            held: HashSet::new(),
            restarts: 0,
            hopeless: false,
            shutting_down: false,
            rest: None,
            again: false,
            unkept: false,
        }
    }

    /// After a crash: settles what was left open.
    pub fn recover(&mut self, book: &mut Book<State>, now: Millis, open_items: &[OpenItem]) {
        settle::recover(book, now, open_items);
    }

    /// The next instruction whose entry is visible.
    pub fn next_instruction(&mut self, visible: Seq) -> Option<Instruction> {
        let (gate, _) = self.outbox.front()?;
        if *gate > visible {
            return None;
        }
        self.outbox.pop_front().map(|(_, instruction)| instruction)
    }

    /// Puts an instruction back that the agent had no room for.
    pub fn put_back(&mut self, instruction: Instruction) {
        self.outbox.push_front((Seq::ZERO, instruction));
    }

    /// Is there anything to tell the agent?
    pub fn has_instructions(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// What the task is to do now.
    pub fn take_wants(&mut self) -> Vec<Want> {
        std::mem::take(&mut self.wants)
    }

    /// The agent's process exists, or is about to.
    pub fn is_running(&self) -> bool {
        self.running != Running::No
    }

    /// The agent was told to end.
    pub fn is_stopping(&self) -> bool {
        self.running == Running::Stopping
    }

    /// When the next request expires.
    pub fn next_deadline(state: &State) -> Option<Millis> {
        state.requests.iter().filter_map(|request| request.deadline).min()
    }

    // ------------------------------------------------------------------------------------ commands

    /// A receipt that this machine has given and the store may not have yet. Refused where that was for another command.
    fn remembered(&self, key: &CommandKey, asked: [u8; 32]) -> Result<Option<Receipt>, Refusal> {
        let Some(known) = self.recent.iter().rev().find(|known| known.key == *key) else { return Ok(None) };
        if known.asked != asked {
            return Err(Refusal::id_used(&key.id, known.seq));
        }
        Ok(Some(Receipt { seq: known.seq, stage: known.stage.clone() }))
    }

    /// Takes a command in, or says why not. The sender may be told once the receipt's entry is visible.
    pub fn command(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        command: Command,
    ) -> Result<Receipt, Refusal> {
        let asked = fingerprint(&command.action);
        if let Some(receipt) = self.remembered(&command.key, asked)? {
            self.send_parked(book.state(), Some(&command.key))?;
            return Ok(receipt);
        }
        self.admit(book.state(), &command.action)?;
        let Command { key, by, action } = command;
        let shown = Box::new(masked(&action));
        let seq =
            book.append(now, Some(by.clone()), Event::CommandAccepted { key: key.clone(), action: shown });
        book.also(Op::Command(command_row(&key, seq, &Stage::Accepted)));
        self.carry_out(book, now, seq, &by, action);
        let stage = book.state().commands.iter().find(|open| open.seq == seq).map(|open| open.stage.clone());
        let stage = stage.or(self.settled.take()).unwrap_or(Stage::Consumed { result: None });
        if self.recent.len() == RECENT_COMMANDS {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { key, seq, stage: stage.clone(), asked });
        Ok(Receipt { seq, stage })
    }

    fn carry_out(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, by: &Actor, action: Action) {
        let done = |book: &mut Book<State>| receipt(book, now, seq, Stage::Consumed { result: None });
        let order = match action {
            Action::Prompt { .. } | Action::SendAgain { .. } => {
                self.start_agent();
                return self.pump(book, now);
            }
            Action::Answer { request, answer, .. } => {
                return self.answer(book, now, seq, by, request, answer);
            }
            Action::Interrupt => {
                let state = book.state();
                let busy = state.turn.is_some() || !state.requests.is_empty() || prompt_underway(state);
                if self.running != Running::Ready || !busy {
                    return self.had_nothing_to_do(book, now, seq, "no turn was running");
                }
                let open: Vec<_> = book.state().requests.iter().map(|open| open.request).collect();
                for request in open {
                    self.close_request(book, now, request, Outcome::Interrupted { by: by.clone() });
                }
                Order::Interrupt
            }
            Action::Stop => {
                if !self.is_running() {
                    return self.had_nothing_to_do(book, now, seq, "the agent was not running");
                }
                receipt(book, now, seq, Stage::Sending);
                (self.again, self.rest) = (false, None);
                return self.stop_agent();
            }
            Action::Resume => {
                if matches!(self.running, Running::Ready) {
                    return self.had_nothing_to_do(book, now, seq, "the agent was running already");
                }
                receipt(book, now, seq, Stage::Sending);
                self.restarts = 0;
                return self.start_agent();
            }
            Action::Rename { title } => {
                let name = title.trim().to_owned();
                book.append(now, Some(by.clone()), Event::SessionRenamed { name });
                return done(book);
            }
            Action::Archive { archived } => {
                book.append(now, Some(by.clone()), Event::SessionArchived { archived });
                if archived && self.is_running() {
                    // An archived session keeps no process.
                    receipt(book, now, seq, Stage::Sending);
                    (self.again, self.rest) = (false, None);
                    return self.stop_agent();
                }
                return done(book);
            }
            Action::Withdraw { prompt } => {
                let message = format!("withdrawn by {by}");
                let refusal = Refusal::new(RefusalCode::Ended, message);
                receipt(book, now, prompt, Stage::Refused { refusal });
                return done(book);
            }
            Action::Steer { prompt } => {
                let waits = book.state().commands.iter().find(|open| open.seq == prompt).cloned();
                if let Some(waits) = waits {
                    self.hand_over(book, now, waits, |content| Order::Steer { content });
                }
                return done(book);
            }
            Action::RemoveRule { tool_name } => {
                book.append(now, Some(by.clone()), Event::RuleRemoved { tool_name });
                return done(book);
            }
            Action::SetModel { model } => {
                self.settings.insert(seq, Setting::Model { model: model.clone() });
                Order::SetModel(model)
            }
            Action::SetMode { mode } => {
                self.settings.insert(seq, Setting::Mode { mode: mode.clone() });
                Order::SetMode(mode)
            }
            Action::SetThinking { tokens } => {
                self.settings.insert(seq, Setting::Thinking { tokens });
                Order::SetThinking(tokens)
            }
            Action::SetEnvironment { variables } => {
                let names = variables.keys().cloned().collect();
                self.settings.insert(seq, Setting::Environment { names });
                Order::SetEnvironment(variables)
            }
            Action::Rewind { to, dry_run } => Order::Rewind { prompt: Ticket(to.0), dry_run },
            Action::McpStatus => Order::McpStatus,
            Action::McpReconnect { server } => Order::McpReconnect(server),
            Action::McpToggle { server, enabled } => {
                self.unkept = true;
                Order::McpToggle { server, enabled }
            }
            Action::McpSet { servers, keep } => {
                if !keep {
                    self.servers.clear();
                    // Who adds to those that are there adds them anew to the next start, as the tools of a page are.
                    self.unkept = true;
                }
                self.servers.extend(servers);
                Order::McpSet(self.servers.clone())
            }
            Action::McpMessage { server, message } => Order::McpMessage { server, message },
            Action::Context => Order::Context,
            Action::StopTask { task } => Order::StopTask(task),
            Action::Native { body } => Order::Native(body),
        };
        if let Some(setting) = self.settings.get(&seq).filter(|_| self.running != Running::Ready).cloned() {
            // It holds from the next start on.
            self.settings.remove(&seq);
            book.append(now, Some(by.clone()), Event::SettingChanged { setting });
            let why = "it holds from the next start of the agent on";
            return self.had_nothing_to_do(book, now, seq, why);
        }
        receipt(book, now, seq, Stage::Sending);
        self.tell(book, Ticket(seq.0), order);
    }

    /// The command is settled at once, and its receipt says why nothing was told to the agent.
    fn had_nothing_to_do(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, why: &str) {
        let stage = Stage::Consumed { result: Some(why.into()) };
        self.settled = Some(stage.clone());
        receipt(book, now, seq, stage);
    }

    fn tell(&mut self, book: &Book<State>, ticket: Ticket, order: Order) {
        self.outbox.push_back((book.head(), Instruction { ticket, order }));
    }

    fn start_agent(&mut self) {
        match self.running {
            Running::No => {
                self.running = Running::Starting;
                self.wants.push(Want::Start { after: Duration::ZERO });
            }
            Running::Stopping => self.again = true,
            Running::Starting | Running::Ready => {}
        }
    }

    fn stop_agent(&mut self) {
        if self.is_running() && !self.is_stopping() {
            self.running = Running::Stopping;
            self.wants.push(Want::Stop);
        }
    }

    /// Starts the agent of a session that was just made.
    pub fn begin(&mut self) {
        self.start_agent();
    }

    /// No more commands from now on; the agent is ended by [`Machine::end`].
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.again = false;
    }

    /// Ends the agent.
    pub fn end(&mut self) {
        (self.again, self.rest) = (false, None);
        self.stop_agent();
    }

    /// The task is about to start the agent: says so, and gives the number of this start.
    pub fn starting(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        capabilities: Capabilities,
        resume: Option<String>,
    ) -> Generation {
        self.hopeless = false;
        self.unkept = false;
        self.servers.clear();
        let generation = Generation(book.state().generation.0 + 1);
        let capabilities = Box::new(capabilities);
        let forgets = resume.is_none() && book.state().summary.turns > 0;
        book.append(now, Some(Actor::Daemon), Event::AgentStarting { generation, capabilities, resume });
        if forgets {
            let reason = Some(ResetReason::CannotResume);
            book.append(now, None, Event::ConversationReset { agent_session: None, reason });
        }
        generation
    }

    /// The mode to start in. One in which the agent asks nobody is not taken up again where that was switched off since: the
    /// agent then starts in the mode that asks, and the session says so.
    pub fn starting_mode(
        &self,
        book: &mut Book<State>,
        now: Millis,
        capabilities: &Capabilities,
    ) -> Option<String> {
        let mode = book.state().summary.mode.clone()?;
        let before = &book.state().capabilities;
        let unasked = [before, capabilities].iter().any(|known| known.asks(&mode) == Asks::Nothing);
        if !unasked || self.policy.bypass == Bypass::ForOwners {
            return Some(mode);
        }
        let asking = capabilities.asking_mode().map(str::to_owned);
        let text = format!(
            "the agent does not start in the mode `{mode}`, in which it asks nobody: such modes are switched off here"
        );
        book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
        if let Some(mode) = asking.clone() {
            let setting = Setting::Mode { mode };
            book.append(now, Some(Actor::Daemon), Event::SettingChanged { setting });
        }
        asking
    }

    /// From now on these prompts are kept back, with all that wait behind them.
    pub fn hold(&mut self, book: &mut Book<State>, now: Millis, held: HashSet<CommandKey>) {
        self.held = held;
        self.pump(book, now);
    }

    /// Sends queued prompts for which it is time.
    fn pump(&mut self, book: &mut Book<State>, now: Millis) {
        while self.running == Running::Ready {
            let state = book.state();
            let held = state.capabilities.prompt_queue == PromptQueue::Held;
            if held && (state.turn.is_some() || prompt_underway(state)) {
                return;
            }
            let Some(next) = state.commands.iter().find(|open| open.is_queued_prompt()).cloned() else {
                return;
            };
            if self.held.contains(&next.key) {
                return;
            }
            self.hand_over(book, now, next, |content| Order::Prompt { content });
        }
    }

    /// A prompt leaves the queue for the agent.
    fn hand_over(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        prompt: OpenCommand,
        order: fn(Vec<Content>) -> Order,
    ) {
        let OpenCommand { seq, by, content, .. } = prompt;
        receipt(book, now, seq, Stage::Sending);
        book.append(now, Some(by), Event::Prompt { command: seq, content: content.clone() });
        self.tell(book, Ticket(seq.0), order(content));
    }

    // ------------------------------------------------------------------------------------- reports

    /// Takes in what the agent did.
    pub fn report(&mut self, book: &mut Book<State>, now: Millis, report: Report) {
        match report {
            Report::Started { pid, version, protocol, capabilities } => {
                let generation = book.state().generation;
                book.append(
                    now,
                    None,
                    Event::AgentStarted { generation, pid, version, protocol, capabilities },
                );
            }
            Report::Ready => self.ready(book, now),
            // Nothing is lost where nothing was said.
            Report::Event { event: Event::ConversationReset { reason: Some(_), .. }, .. }
                if nothing_was_said(book.state()) => {}
            Report::Event { event, raw } => {
                let for_good = matches!(event, Event::Failure { recoverable: false, .. });
                self.hopeless |= for_good && self.running == Running::Starting;
                if let Some(event) = self.parts.rename(book, now, event) {
                    take_event(book, now, event, raw);
                }
            }
            Report::CutOff { item, model } => self.cut_off(book, now, &item, model),
            Report::TurnStarted { origin } => Self::turn_started(book, now, origin),
            Report::TurnEnded { result, raw } => self.turn_ended(book, now, result, raw),
            Report::RequestOpened { key, ask, parent, tool, raw } => {
                self.open_request(book, now, Opened { key, ask: *ask, parent, tool, raw });
            }
            Report::RequestWithdrawn { key } => {
                let request = self.keys.iter().find(|(_, open)| **open == key).map(|(request, _)| *request);
                // An agent that is being ended takes back what it waits for. That is not its own will: its end closes the
                // request, and says why.
                if let Some(request) = request.filter(|_| !self.is_stopping()) {
                    self.close_request(book, now, request, Outcome::Withdrawn);
                }
            }
            Report::Delivered(Ticket(seq)) => {
                let sending = |open: &&OpenCommand| open.seq.0 == seq && open.stage == Stage::Sending;
                if book.state().commands.iter().any(|open| sending(&open)) {
                    receipt(book, now, Seq(seq), Stage::Delivered);
                }
            }
            Report::Consumed { ticket, result } => self.consumed(book, now, Seq(ticket.0), result),
            Report::Rejected { ticket, error } => {
                self.settings.remove(&Seq(ticket.0));
                let refusal = Refusal::new(RefusalCode::AgentRefused, error);
                receipt(book, now, Seq(ticket.0), Stage::Refused { refusal });
                self.pump(book, now);
            }
            Report::Uncertain { ticket: Ticket(seq), reason } => {
                self.settings.remove(&Seq(seq));
                let underway = |open: &OpenCommand| matches!(open.stage, Stage::Sending | Stage::Delivered);
                if book.state().commands.iter().any(|open| open.seq.0 == seq && underway(open)) {
                    receipt(book, now, Seq(seq), Stage::Uncertain { reason });
                }
                self.pump(book, now);
            }
            Report::LinkLost { reason } => {
                book.append(now, None, Event::LinkLost { reason });
            }
            Report::LinkRestored => {
                book.append(now, None, Event::LinkRestored);
            }
            Report::Exited(exit) => self.exited(book, now, exit),
        }
    }

    fn cut_off(&mut self, book: &mut Book<State>, now: Millis, item: &str, wrote: Option<String>) {
        let name = self.parts.name_of(item);
        let Some(open) = book.state().items.iter().find(|open| open.item == name) else { return };
        let mut ended = settle::finished(open, settle::Ended::CutOff);
        if let Event::Message { model, .. } = &mut ended {
            *model = wrote;
        }
        book.append(now, None, ended);
    }

    fn ready(&mut self, book: &mut Book<State>, now: Millis) {
        if self.running != Running::Starting {
            return;
        }
        self.running = Running::Ready;
        let generation = book.state().generation;
        book.append(now, None, Event::AgentReady { generation });
        let resumes: Vec<_> =
            book.state().commands.iter().filter(|open| open.name == "resume").map(|open| open.seq).collect();
        for seq in resumes {
            receipt(book, now, seq, Stage::Consumed { result: None });
        }
        if generation > Generation(1)
            && let Some(tokens) = book.state().thinking
        {
            // No start takes it as an option. Nobody waits for it: no entry has the number 0.
            self.tell(book, Ticket(0), Order::SetThinking(Some(tokens)));
        }
        self.pump(book, now);
    }

    fn turn_started(book: &mut Book<State>, now: Millis, origin: TurnOrigin) {
        if book.state().turn.is_some() {
            return;
        }
        let turn = book.state().summary.turns + 1;
        book.append(now, None, Event::TurnStarted { turn, origin });
    }

    fn turn_ended(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        result: Box<TurnResult>,
        raw: Option<bytes::Bytes>,
    ) {
        // An end without a beginning still happened.
        Self::turn_started(book, now, TurnOrigin::Agent);
        settle::close_work(book, now, Reach::Foreground);
        self.parts.forget_closed(book.state());
        let turn = book.state().summary.turns;
        if result.outcome == TurnOutcome::Completed {
            self.restarts = 0;
        }
        book.append_raw(now, None, Event::TurnEnded { turn, result }, raw);
        self.pump(book, now);
    }

    fn consumed(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, result: Option<serde_json::Value>) {
        if let Some(setting) = self.settings.remove(&seq) {
            let by = book.state().commands.iter().find(|open| open.seq == seq).map(|open| open.by.clone());
            book.append(now, by, Event::SettingChanged { setting });
        }
        receipt(book, now, seq, Stage::Consumed { result });
        self.pump(book, now);
    }

    fn exited(&mut self, book: &mut Book<State>, now: Millis, exit: Exit) {
        let asked_to = self.running == Running::Stopping;
        let was_ready = self.running == Running::Ready;
        self.running = Running::No;
        self.keys.clear();
        self.outbox.clear();
        self.settings.clear();
        let failed = exit.reason.is_error();
        let rest = self.rest.take().filter(|_| asked_to && !failed);
        let exit = match rest {
            Some(rest) => Exit { reason: ExitReason::Idle, message: rest.words(), ..exit },
            None => exit,
        };
        settle::agent_ended(book, now, exit);
        self.parts.forget_closed(book.state());
        if std::mem::take(&mut self.again) {
            self.restarts = 0;
            return self.start_agent();
        }
        let can_resume =
            book.state().capabilities.session_resume && book.state().summary.agent_session.is_some();
        if !failed || asked_to || self.shutting_down || !(was_ready || self.restarts > 0) || !can_resume {
            return;
        }
        if self.hopeless {
            let text =
                "the agent cannot take up its conversation again and stays down; what it said tells why";
            book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text: text.into() });
            return;
        }
        if self.restarts == RESTARTS {
            let text = format!(
                "the agent failed {RESTARTS} times in a row and stays down; resume the session to try again"
            );
            book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
            return;
        }
        self.running = Running::Starting;
        let after = Duration::from_secs(1 << (2 * self.restarts));
        self.restarts += 1;
        self.wants.push(Want::Start { after });
    }

    /// The session has no process and nothing to do.
    pub fn is_idle(&self, state: &State) -> bool {
        self.running == Running::No
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

/// What a command asks, all of it, in a form that needs little room.
fn fingerprint(action: &Action) -> [u8; 32] {
    // Our own types serialise.
    Sha256::digest(serde_json::to_vec(action).unwrap_or_default()).into()
}

/// No turn ran, and there is no conversation that was to be taken up.
fn nothing_was_said(state: &State) -> bool {
    state.summary.turns == 0 && state.spec.resume.is_none() && state.spec.fork.is_none()
}

/// A prompt is on its way to the agent.
fn prompt_underway(state: &State) -> bool {
    let underway = |stage: &Stage| matches!(stage, Stage::Sending | Stage::Delivered);
    state.commands.iter().any(|open| open.name == "prompt" && underway(&open.stage))
}

/// An event that the agent reports as it stands.
fn take_event(book: &mut Book<State>, now: Millis, event: Event, raw: Option<bytes::Bytes>) {
    match &event {
        // Text for an item that was never announced, or is finished, still counts.
        Event::Delta { item, .. } if !book.state().items.iter().any(|open| open.item == *item) => {
            let kind = crate::event::ItemKind::Text;
            book.append(
                now,
                None,
                Event::ItemStarted { item: item.clone(), kind, message: None, parent: None },
            );
        }
        Event::ItemStarted { item, .. } if book.state().items.iter().any(|open| open.item == *item) => return,
        _ => {}
    }
    book.append_raw(now, None, event, raw);
}

/// The action as the log shows it to everyone.
pub(crate) fn masked(action: &Action) -> Action {
    match action {
        Action::SetEnvironment { variables } => {
            let hidden = variables.keys().map(|name| (name.clone(), MASK.to_owned())).collect();
            Action::SetEnvironment { variables: hidden }
        }
        Action::McpSet { servers, keep } => {
            let mut servers = servers.clone();
            servers.values_mut().for_each(crate::spec::mask_server);
            Action::McpSet { servers, keep: *keep }
        }
        // The answer is shown by the entry that closes the request, with secrets masked there.
        Action::Answer { request, digest, answer: Answer::Choices { .. } | Answer::Content { .. } } => {
            Action::Answer {
                request: *request,
                digest: digest.clone(),
                answer: Answer::Choices { answers: IndexMap::new() },
            }
        }
        other => other.clone(),
    }
}
