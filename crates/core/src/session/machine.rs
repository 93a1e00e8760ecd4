//! The machine: what a session decides. For every command, every report of its agent and every deadline it appends
//! entries to the book and says what the agent is to be told. It does no I/O and holds no clock.
//!
//! What it decides becomes real in this order: the entries are committed, then the agent is told. An instruction
//! therefore carries the number of the entry that must be visible first.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use super::{
    settle::{self, Reach, command_row, receipt},
    state::{State, Status},
};
use crate::{
    Action, Actor, Capabilities, Event, Generation, Millis, Refusal, RefusalCode, RequestId, Seq,
    capabilities::PromptQueue,
    command::{Command, CommandKey, Receipt, Stage},
    event::{Content, Exit, Level, Setting, TurnOrigin, TurnOutcome, TurnResult},
    log::Book,
    ports::{Instruction, Op, OpenItem, Order, Report, Ticket},
    request::{Answer, Ask, Outcome, Request, Scope},
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

/// What a session does about requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// After this time a request is denied by itself; `None` waits for ever.
    pub request_deadline: Option<Duration>,
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
    recent: VecDeque<(CommandKey, Seq, Stage)>,
    restarts: u32,
    shutting_down: bool,
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
            recent: VecDeque::new(),
            restarts: 0,
            shutting_down: false,
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

    /// A receipt that this machine has given and the store may not have yet.
    pub fn remembered(&self, key: &CommandKey) -> Option<Receipt> {
        let (_, seq, stage) = self.recent.iter().rev().find(|(known, ..)| known == key)?;
        Some(Receipt { seq: *seq, stage: stage.clone() })
    }

    /// Takes a command in, or says why not. The sender may be told once the receipt's entry is visible.
    pub fn command(&mut self, book: &mut Book<State>, now: Millis, command: Command) -> Result<Receipt, Refusal> {
        if let Some(receipt) = self.remembered(&command.key) {
            return Ok(receipt);
        }
        self.admit(book.state(), &command.action)?;
        let Command { key, by, action } = command;
        let shown = Box::new(masked(&action));
        let seq = book.append(now, Some(by.clone()), Event::CommandAccepted { key: key.clone(), action: shown });
        book.also(Op::Command(command_row(&key, seq, &Stage::Accepted)));
        self.carry_out(book, now, seq, &by, action);
        let stage = book.state().commands.iter().find(|open| open.seq == seq).map(|open| open.stage.clone());
        let stage = stage.unwrap_or(Stage::Consumed { result: None });
        if self.recent.len() == RECENT_COMMANDS {
            self.recent.pop_front();
        }
        self.recent.push_back((key, seq, stage.clone()));
        Ok(Receipt { seq, stage })
    }

    fn admit(&self, state: &State, action: &Action) -> Result<(), Refusal> {
        let refuse = |code, message: &str| Err(Refusal::new(code, message));
        if self.shutting_down {
            return refuse(RefusalCode::ShuttingDown, "Portolan is shutting down; try again when it is back");
        }
        let can = &state.capabilities;
        let agent = state.summary.agent.as_str();
        let running = || {
            if matches!(self.running, Running::Ready) {
                Ok(())
            } else {
                refuse(RefusalCode::NotRunning, "the agent is not running; `portolan resume` starts it again")
            }
        };
        match action {
            Action::Prompt { content } => {
                if content.is_empty() || content.iter().all(|c| matches!(c, Content::Text { text } if text.is_empty())) {
                    return refuse(RefusalCode::Invalid, "a prompt needs words, or a picture");
                }
                let picture = content.iter().any(|piece| matches!(piece, Content::Image { .. }));
                Capabilities::require(!picture || can.image_input || self.running == Running::No, agent, "take pictures")?;
                if state.summary.queued as usize >= QUEUED_PROMPTS {
                    return Err(Refusal::busy("too many prompts wait in this session already", 1000));
                }
                self.can_start(state)
            }
            Action::Answer { request, digest, answer } => admit_answer(state, *request, digest.as_deref(), answer),
            Action::Interrupt => Capabilities::require(can.interrupt || self.running == Running::No, agent, "be interrupted"),
            Action::Resume => self.can_start(state),
            Action::Rename { title } if title.trim().is_empty() || title.chars().count() > crate::spec::MAX_NAME => {
                refuse(RefusalCode::Invalid, "a name has 1 to 200 characters")
            }
            Action::Rename { .. } | Action::Stop | Action::Archive { .. } => Ok(()),
            Action::SetModel { .. } => Capabilities::require(can.model_switching, agent, "change its model while it runs"),
            Action::SetMode { mode } => {
                Capabilities::require(can.permission_mode_switching_mid_session, agent, "change its mode while it runs")?;
                match &can.supported_permission_modes {
                    Some(known) if !known.contains(mode) => refuse(
                        RefusalCode::Invalid,
                        &format!("unknown mode `{mode}`; this agent has {}", known.join(", ")),
                    ),
                    _ => Ok(()),
                }
            }
            Action::SetThinking { .. } => Capabilities::require(can.thinking_budget, agent, "set a thinking budget"),
            Action::SetEnvironment { variables } => {
                if variables.is_empty() {
                    return refuse(RefusalCode::Invalid, "no variable is named");
                }
                if variables.iter().any(|(name, value)| {
                    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
                }) {
                    return refuse(RefusalCode::Invalid, "a variable's name is empty or holds `=`, or a value holds NUL");
                }
                Capabilities::require(can.environment || self.running == Running::No, agent, "change its environment while it runs")
            }
            Action::Rewind { to, .. } => {
                Capabilities::require(can.file_checkpointing, agent, "take files back")?;
                running()?;
                if to.0 == 0 {
                    return refuse(RefusalCode::Invalid, "name the prompt's entry to go back to");
                }
                Ok(())
            }
            Action::McpStatus
            | Action::McpReconnect { .. }
            | Action::McpToggle { .. }
            | Action::McpSet { .. }
            | Action::McpMessage { .. } => {
                Capabilities::require(can.mcp, agent, "use MCP servers")?;
                running()
            }
            Action::Context => {
                Capabilities::require(can.context_usage, agent, "tell what fills its context")?;
                running()
            }
            Action::StopTask { .. } => {
                Capabilities::require(can.background_tasks, agent, "stop background tasks")?;
                running()
            }
            Action::Withdraw { prompt } => {
                let open = state.commands.iter().find(|open| open.seq == *prompt);
                match open {
                    Some(open) if open.is_queued_prompt() || matches!(open.stage, Stage::Uncertain { .. }) => Ok(()),
                    Some(_) => refuse(RefusalCode::AlreadyClosed, "it is on its way to the agent already"),
                    None => refuse(RefusalCode::NotFound, "no prompt with that number waits"),
                }
            }
            Action::SendAgain { command } => {
                let known = state.commands.iter().any(|open| {
                    open.seq == *command && matches!(open.stage, Stage::Uncertain { .. })
                });
                if !known {
                    return refuse(RefusalCode::NotFound, "no uncertain prompt has that number");
                }
                self.can_start(state)
            }
            Action::RemoveRule { tool_name } => {
                if state.rules.contains(tool_name) {
                    Ok(())
                } else {
                    refuse(RefusalCode::NotFound, "there is no rule for that tool")
                }
            }
            Action::Native { .. } => {
                Capabilities::require(can.passthrough, agent, "be sent messages of its own protocol")?;
                running()
            }
        }
    }

    /// The agent runs, or can be started (again).
    fn can_start(&self, state: &State) -> Result<(), Refusal> {
        let first = state.generation == Generation(0);
        let knows = state.summary.agent_session.is_some();
        if self.is_running() || first || state.capabilities.session_resume || !knows {
            return Ok(());
        }
        let message = format!("the agent `{}` has ended and cannot resume; start a new session", state.summary.agent);
        Err(Refusal::new(RefusalCode::NotRunning, message))
    }

    fn carry_out(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, by: &Actor, action: Action) {
        let done = |book: &mut Book<State>| receipt(book, now, seq, Stage::Consumed { result: None });
        let order = match action {
            Action::Prompt { .. } | Action::SendAgain { .. } => {
                self.start_agent();
                return self.pump(book, now);
            }
            Action::Answer { request, answer, .. } => return self.answer(book, now, seq, by, request, answer),
            Action::Interrupt => {
                let state = book.state();
                let busy = state.turn.is_some() || !state.requests.is_empty() || prompt_underway(state);
                if self.running != Running::Ready || !busy {
                    return done(book);
                }
                let open: Vec<_> = book.state().requests.iter().map(|open| open.request).collect();
                for request in open {
                    self.close_request(book, now, request, Outcome::Interrupted { by: by.clone() });
                }
                Order::Interrupt
            }
            Action::Stop => {
                if !self.is_running() {
                    return done(book);
                }
                receipt(book, now, seq, Stage::Sending);
                return self.stop_agent();
            }
            Action::Resume => {
                if matches!(self.running, Running::Ready) {
                    return done(book);
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
            Action::McpToggle { server, enabled } => Order::McpToggle { server, enabled },
            Action::McpSet { servers } => Order::McpSet(servers),
            Action::McpMessage { server, message } => Order::McpMessage { server, message },
            Action::Context => Order::Context,
            Action::StopTask { task } => Order::StopTask(task),
            Action::Native { body } => Order::Native(body),
        };
        if let Some(setting) = self.settings.get(&seq).filter(|_| self.running != Running::Ready).cloned() {
            // It holds from the next start on.
            self.settings.remove(&seq);
            book.append(now, Some(by.clone()), Event::SettingChanged { setting });
            return done(book);
        }
        receipt(book, now, seq, Stage::Sending);
        self.tell(book, Ticket(seq.0), order);
    }

    fn tell(&mut self, book: &Book<State>, ticket: Ticket, order: Order) {
        self.outbox.push_back((book.head(), Instruction { ticket, order }));
    }

    fn start_agent(&mut self) {
        if self.running == Running::No {
            self.running = Running::Starting;
            self.wants.push(Want::Start { after: Duration::ZERO });
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
    }

    /// Ends the agent.
    pub fn end(&mut self) {
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
        let generation = Generation(book.state().generation.0 + 1);
        let capabilities = Box::new(capabilities);
        book.append(now, Some(Actor::Daemon), Event::AgentStarting { generation, capabilities, resume });
        generation
    }

    /// Sends queued prompts for which it is time.
    fn pump(&mut self, book: &mut Book<State>, now: Millis) {
        while self.running == Running::Ready {
            let state = book.state();
            let held = state.capabilities.prompt_queue == PromptQueue::Held;
            if held && (state.turn.is_some() || prompt_underway(state)) {
                return;
            }
            let Some(next) = state.commands.iter().find(|open| open.is_queued_prompt()).cloned() else { return };
            receipt(book, now, next.seq, Stage::Sending);
            let content = next.content;
            book.append(now, Some(next.by), Event::Prompt { command: next.seq, content: content.clone() });
            self.tell(book, Ticket(next.seq.0), Order::Prompt { content });
        }
    }

    // ------------------------------------------------------------------------------------ requests

    fn answer(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        seq: Seq,
        by: &Actor,
        request: RequestId,
        answer: Answer,
    ) {
        receipt(book, now, seq, Stage::Sending);
        let ask = book.state().requests.iter().find(|open| open.request == request).map(|open| open.ask.clone());
        // Admitted just before: it is open.
        let Some(ask) = ask else { return };
        if let (Answer::Allow { scope: Scope::Session, .. }, Ask::Permission { tool_name, .. }) = (&answer, &ask) {
            book.append(now, Some(by.clone()), Event::RuleAdded { tool_name: tool_name.clone() });
        }
        self.settle_request(book, now, Ticket(seq.0), request, ask, answer, by.clone());
    }

    /// The one place where an answer goes to the agent: the request is open, is closed here, and so is answered once.
    #[expect(clippy::too_many_arguments, reason = "one call shows the whole of what an answer is")]
    fn settle_request(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        ticket: Ticket,
        request: RequestId,
        ask: Ask,
        answer: Answer,
        by: Actor,
    ) {
        let shown = masked_answer(&ask, &answer);
        let outcome = if by == Actor::Deadline {
            Outcome::Expired
        } else {
            Outcome::Answered { answer: shown, by }
        };
        let Some(key) = self.close_request(book, now, request, outcome) else { return };
        self.tell(book, ticket, Order::Answer { key, ask: Box::new(ask), answer });
    }

    /// Closes an open request for everybody; gives the agent's key of it.
    fn close_request(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        request: RequestId,
        outcome: Outcome,
    ) -> Option<String> {
        if book.state().requests.iter().any(|open| open.request == request) {
            book.append(now, None, Event::RequestClosed { request, outcome });
        }
        self.keys.remove(&request)
    }

    /// Denies what has waited for too long.
    pub fn expire(&mut self, book: &mut Book<State>, now: Millis) {
        let late: Vec<_> = book
            .state()
            .requests
            .iter()
            .filter(|request| request.deadline.is_some_and(|deadline| deadline <= now))
            .map(|request| (request.request, request.ask.clone()))
            .collect();
        for (request, ask) in late {
            let answer = Answer::deny(Some("nobody answered in time".into()));
            self.settle_request(book, now, Ticket(request.0), request, ask, answer, Actor::Deadline);
        }
    }

    fn open_request(&mut self, book: &mut Book<State>, now: Millis, opened: Opened) {
        let Opened { key, ask, parent, tool, raw } = opened;
        if self.keys.values().any(|open| *open == key) {
            return;
        }
        let seq = book.head().next();
        let request = RequestId(seq.0);
        let deadline = self.policy.request_deadline.map(|wait| Millis(now.0 + wait.as_millis() as i64));
        let opened = Request {
            request,
            generation: book.state().generation,
            digest: digest(&ask),
            ask: ask.clone(),
            parent,
            tool,
            opened_at: now,
            deadline,
        };
        let too_many = self.keys.len() >= OPEN_REQUESTS;
        self.keys.insert(request, key);
        book.append_raw(now, None, Event::RequestOpened { request: Box::new(opened) }, raw);
        let by_rule = match &ask {
            Ask::Permission { tool_name, .. } if book.state().rules.contains(tool_name) => Some(tool_name.clone()),
            _ => None,
        };
        if let Some(tool_name) = by_rule {
            let by = Actor::Policy { rule: format!("always allow {tool_name}") };
            self.settle_request(book, now, Ticket(request.0), request, ask, Answer::allow(), by);
        } else if too_many {
            let by = Actor::Policy { rule: format!("at most {OPEN_REQUESTS} open requests") };
            let answer = Answer::deny(Some("too many requests are open".into()));
            self.settle_request(book, now, Ticket(request.0), request, ask, answer, by);
        }
    }

    // ------------------------------------------------------------------------------------- reports

    /// Takes in what the agent did.
    pub fn report(&mut self, book: &mut Book<State>, now: Millis, report: Report) {
        match report {
            Report::Started { pid, version, protocol, capabilities } => {
                let generation = book.state().generation;
                book.append(now, None, Event::AgentStarted { generation, pid, version, protocol, capabilities });
            }
            Report::Ready => self.ready(book, now),
            Report::Event { event, raw } => take_event(book, now, event, raw),
            Report::TurnStarted { origin } => self.turn_started(book, now, origin),
            Report::TurnEnded { result, raw } => self.turn_ended(book, now, result, raw),
            Report::RequestOpened { key, ask, parent, tool, raw } => {
                self.open_request(book, now, Opened { key, ask: *ask, parent, tool, raw });
            }
            Report::RequestWithdrawn { key } => {
                let request = self.keys.iter().find(|(_, open)| **open == key).map(|(request, _)| *request);
                if let Some(request) = request {
                    self.close_request(book, now, request, Outcome::Withdrawn);
                }
            }
            Report::Delivered(Ticket(seq)) => {
                let sending = |open: &&super::state::OpenCommand| open.seq.0 == seq && open.stage == Stage::Sending;
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
            Report::LinkLost { reason } => {
                book.append(now, None, Event::LinkLost { reason });
            }
            Report::LinkRestored => {
                book.append(now, None, Event::LinkRestored);
            }
            Report::Exited(exit) => self.exited(book, now, exit),
        }
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
        self.pump(book, now);
    }

    fn turn_started(&mut self, book: &mut Book<State>, now: Millis, origin: TurnOrigin) {
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
        self.turn_started(book, now, TurnOrigin::Agent);
        settle::close_work(book, now, Reach::Foreground);
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
        settle::agent_ended(book, now, exit);
        let can_resume = book.state().capabilities.session_resume && book.state().summary.agent_session.is_some();
        if !failed || asked_to || self.shutting_down || !(was_ready || self.restarts > 0) || !can_resume {
            return;
        }
        if self.restarts == RESTARTS {
            let text = format!("the agent failed {RESTARTS} times in a row and stays down; `portolan resume` tries again");
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

/// A prompt is on its way to the agent.
fn prompt_underway(state: &State) -> bool {
    let underway = |stage: &Stage| matches!(stage, Stage::Sending | Stage::Delivered);
    state.commands.iter().any(|open| open.name == "prompt" && underway(&open.stage))
}

struct Opened {
    key: String,
    ask: Ask,
    parent: Option<String>,
    tool: Option<String>,
    raw: Option<bytes::Bytes>,
}

/// An event that the agent reports as it stands.
fn take_event(book: &mut Book<State>, now: Millis, event: Event, raw: Option<bytes::Bytes>) {
    match &event {
        // Text for an item that was never announced, or is finished, still counts.
        Event::Delta { item, .. } if !book.state().items.iter().any(|open| open.item == *item) => {
            let kind = crate::event::ItemKind::Text;
            book.append(now, None, Event::ItemStarted { item: item.clone(), kind, message: None, parent: None });
        }
        Event::ItemStarted { item, .. } if book.state().items.iter().any(|open| open.item == *item) => return,
        _ => {}
    }
    book.append_raw(now, None, event, raw);
}

fn admit_answer(state: &State, request: RequestId, digest: Option<&str>, answer: &Answer) -> Result<(), Refusal> {
    let Some(open) = state.requests.iter().find(|open| open.request == request) else {
        let closed = state.closed_requests.iter().rev().find(|closed| closed.request == request);
        return Err(closed.map_or_else(
            || Refusal::new(RefusalCode::NotFound, format!("no request {request} waits in this session")),
            |closed| Refusal::already_closed(request, closed.outcome.clone()),
        ));
    };
    if open.generation != state.generation {
        return Err(Refusal::new(RefusalCode::Stale, "it was asked by an earlier start of the agent"));
    }
    if digest.is_some_and(|digest| digest != open.digest) {
        return Err(Refusal::new(RefusalCode::Stale, "what is asked is not what you were shown; look again"));
    }
    answer.fits(&open.ask).map_err(|why| Refusal::new(RefusalCode::Invalid, why))
}

/// SHA-256 of what is asked, hex.
fn digest(ask: &Ask) -> String {
    // Our own types serialise.
    let text = serde_json::to_vec(ask).unwrap_or_default();
    Sha256::digest(&text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The action as the log shows it to everyone.
fn masked(action: &Action) -> Action {
    match action {
        Action::SetEnvironment { variables } => {
            let hidden = variables.keys().map(|name| (name.clone(), MASK.to_owned())).collect();
            Action::SetEnvironment { variables: hidden }
        }
        Action::McpSet { servers } => {
            let mut servers = servers.clone();
            servers.values_mut().for_each(crate::spec::mask_server);
            Action::McpSet { servers }
        }
        // The answer is shown by the entry that closes the request, with secrets masked there.
        Action::Answer { request, digest, answer: Answer::Choices { .. } | Answer::Content { .. } } => Action::Answer {
            request: *request,
            digest: digest.clone(),
            answer: Answer::Choices { answers: indexmap::IndexMap::new() },
        },
        other => other.clone(),
    }
}

fn masked_answer(ask: &Ask, answer: &Answer) -> Answer {
    let (Ask::Question { questions }, Answer::Choices { answers }) = (ask, answer) else { return answer.clone() };
    let mut answers = answers.clone();
    for question in questions.iter().filter(|question| question.secret) {
        if let Some(given) = answers.get_mut(&question.question) {
            *given = vec![MASK.to_owned()];
        }
    }
    Answer::Choices { answers }
}
