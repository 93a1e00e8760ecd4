//! A session without a task, for tests: the machine, its book, and everything that the store and the agent got.
//!
//! - `decisions`: the machine's decisions, one case each
//! - `properties`: what always holds, whatever people, the agent, time and crashes do
//! - `folding`: the state

mod budgets;
mod decisions;
mod folding;
mod properties;

use std::collections::BTreeMap;

use super::{
    machine::{Machine, Policy, Unsettled, Want, instructions::INSTRUCTIONS, memory::MEMORIES},
    settle::reopened,
    state::{self, State, Status},
};
use crate::{
    Action, Actor, Capabilities, CommandId, Event, LogId, Millis, RefusalCode, RequestId, Seq, SessionId,
    SessionSpec, Stored, TokenId,
    command::{Command, CommandKey, Stage},
    event::{Content, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult},
    log::{Book, Folded as _},
    ports::{Instruction, InstructionId, Op, OpenItem, Order, Report},
    request::{Answer, Ask, Outcome, Scope},
};

const SESSION: SessionId = SessionId::from_u128(7);

/// A session without a task: the machine, its book, and everything that the store and the agent got.
struct World {
    machine: Machine,
    book: Book<State>,
    now: Millis,
    /// Appended, not yet committed.
    fresh: Vec<Stored>,
    committed: Vec<Stored>,
    /// The highest number that is committed.
    visible: Seq,
    /// Uncommitted changes of records, and the records.
    fresh_records: Vec<Op>,
    records: BTreeMap<(&'static str, String), bytes::Bytes>,
    /// The items that were open at the last commit.
    chunks: Vec<OpenItem>,
    /// All reports of this start of the agent, and how many of them the last commit holds.
    reports: Vec<Report>,
    recorded: (u32, usize),
    /// Only reports came since the last commit.
    only_reports: bool,
    /// The agent's instructions, by its generation.
    told: Vec<(u32, Instruction)>,
    started: u32,
    next_key: u32,
    next_id: u32,
    /// The outcomes that senders of late answers got: after the commit, and for good.
    learning: Vec<(RequestId, Outcome)>,
    learned: Vec<(RequestId, Outcome)>,
}

fn capabilities() -> Capabilities {
    Capabilities {
        interrupt: true,
        steering: true,
        session_resume: true,
        model_switching: true,
        mcp: true,
        mcp_changes: true,
        edited_input: true,
        ..Capabilities::default()
    }
}

fn policy() -> Policy {
    Policy { request_deadline: Some(std::time::Duration::from_mins(1)), ..Policy::default() }
}

impl World {
    fn new() -> Self {
        let spec = SessionSpec { agent: "fake".into(), cwd: "/".into(), ..SessionSpec::default() };
        let now = Millis(1_000);
        let mut book = Book::new(LogId::Session(SESSION), Seq::ZERO, State::new(SESSION, spec.clone(), now));
        book.append(now, None, Event::SessionCreated { spec: Box::new(spec) });
        let mut world = Self {
            machine: Machine::new(policy()),
            book,
            now,
            fresh: Vec::new(),
            committed: Vec::new(),
            visible: Seq::ZERO,
            fresh_records: Vec::new(),
            records: BTreeMap::new(),
            chunks: Vec::new(),
            reports: Vec::new(),
            recorded: (0, 0),
            only_reports: false,
            told: Vec::new(),
            started: 0,
            next_key: 0,
            next_id: 0,
            learning: Vec::new(),
            learned: Vec::new(),
        };
        world.machine.begin();
        world.settle();
        world
    }

    /// Does the task's work after each step, without committing.
    fn settle(&mut self) {
        let mut wants = self.machine.take_wants(self.visible);
        while !wants.is_empty() {
            for want in std::mem::take(&mut wants) {
                match want {
                    Want::Start { .. } => {
                        self.reports.clear();
                        self.started =
                            self.machine.starting(&mut self.book, self.now, capabilities(), None).0;
                        let info = crate::event::AgentInfo {
                            agent_session: Some("agent-1".into()),
                            ..crate::event::AgentInfo::default()
                        };
                        let event = Event::AgentInfo { info: Box::new(info) };
                        self.take(Report::Event { event, raw: None });
                    }
                    Want::Stop => self.exit(ExitReason::Stopped),
                }
            }
            wants = self.machine.take_wants(self.visible);
        }
        self.machine.note_memory(&mut self.book);
        for op in self.book.take_ops() {
            match op {
                Op::Append { seq, frame, .. } => self.fresh.push(Stored { seq, frame }),
                op @ (Op::Put { .. } | Op::Remove { .. }) => self.fresh_records.push(op),
                _ => {}
            }
        }
    }

    /// The store commits everything so far, in the task's way: open items are written first.
    fn commit_only(&mut self) {
        self.settle();
        self.committed.append(&mut self.fresh);
        self.learned.append(&mut self.learning);
        for op in self.fresh_records.drain(..) {
            match op {
                Op::Put { collection, key, value } => drop(self.records.insert((collection, key), value)),
                Op::Remove { collection, key } => drop(self.records.remove(&(collection, key))),
                _ => {}
            }
        }
        self.chunks = self.book.state().items.iter().map(stored_item).collect();
        self.recorded = (self.started, self.reports.len());
        self.visible = self.book.head();
        self.only_reports = true;
    }

    /// The store commits, and the agent gets the instructions that waited for the commit.
    fn commit(&mut self) {
        self.commit_only();
        // A committed stop is carried out.
        self.commit_only();
        while let Some(instruction) = self.machine.next_instruction(self.visible) {
            self.told.push((self.started, instruction));
        }
    }

    /// A report is kept until a commit holds it.
    fn take(&mut self, report: Report) {
        self.reports.push(report.clone());
        self.machine.report(&mut self.book, self.now, report);
    }

    /// The daemon is killed and restarts: uncommitted changes are lost.
    fn crash(&mut self) {
        self.settle();
        let unsettled = self.lose();
        let skipped = Seq(self.book.head().0 + 4096);
        self.book = Book::new(LogId::Session(SESSION), skipped, self.folded());
        self.machine = Machine::new(policy());
        let open_items = std::mem::take(&mut self.chunks);
        self.machine.recover(&mut self.book, self.now, &open_items, &unsettled);
        self.commit();
        let told = self.records.keys().filter(|(collection, _)| *collection == INSTRUCTIONS).count();
        assert_eq!(told, 0, "{:?} is left of an agent that has ended", self.records);
    }

    /// The daemon is killed and restarts beside the agent, which still runs and repeats the reports that no commit
    /// holds.
    fn rejoin(&mut self) {
        self.settle();
        let before = self.only_reports.then(|| self.at_work());
        let state = self.folded();
        let memory = self.records.get(&(MEMORIES, SESSION.to_string())).cloned();
        let known = state.summary.is_live() && self.recorded.0 == self.started;
        let (true, Some(memory)) = (known, memory) else { return self.crash() };
        let unsettled = self.lose();
        let skipped = Seq(self.book.head().0 + 4096);
        let state = State { items: reopened(&self.chunks, skipped), ..state };
        let taken = self.told.iter().filter(|(generation, _)| *generation == self.started);
        let taken = taken.map(|(_, instruction)| instruction.id).collect();
        self.machine = Machine::new(policy());
        self.machine.restore(&state, serde_json::from_slice(&memory).expect("our own"), unsettled, &taken);
        self.book = Book::new(LogId::Session(SESSION), skipped, state);
        for report in self.reports.split_off(self.recorded.1) {
            self.take(report);
        }
        self.settle();
        if let Some(before) = before {
            assert_eq!(before, self.at_work(), "what the agent works at is what it was before the kill");
        }
    }

    /// Drops uncommitted changes. Returns the agent's unsettled instructions.
    fn lose(&mut self) -> Vec<Unsettled> {
        self.fresh.clear();
        self.fresh_records.clear();
        self.learning.clear();
        let told = self.records.iter().filter(|((collection, _), _)| *collection == INSTRUCTIONS);
        let told = told.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        Unsettled::of(SESSION, told).expect("our own")
    }

    /// All the agent's open work, without numbers: those are assigned again.
    fn at_work(&self) -> String {
        let state = self.book.state();
        let items: Vec<_> = state.items.iter().map(|open| (&open.item, open.kind, &open.text)).collect();
        let requests: Vec<_> = state.requests.iter().map(|open| &open.ask).collect();
        let commands: Vec<_> = state.commands.iter().map(|open| (open.seq, &open.stage)).collect();
        let turn = state.turn.as_ref().map(|turn| (turn.turn, turn.origin));
        let tools: Vec<_> = state.tools.iter().collect();
        let subagents: Vec<_> = state.subagents.iter().collect();
        format!(
            "{:?} {turn:?} {items:?} {requests:?} {commands:?} {tools:?} {subagents:?} {:?}",
            state.summary.status, state.tasks
        )
    }

    fn folded(&self) -> State {
        let mut state = State::new(SESSION, SessionSpec::default(), Millis(0));
        for stored in &self.committed {
            let entry = stored.decode::<Event>().expect("our own frame");
            state.apply(entry.seq, entry.at, entry.by.as_ref(), &entry.event);
        }
        state
    }

    fn send(&mut self, who: u8, action: Action) -> Result<crate::command::Receipt, crate::Refusal> {
        self.next_id += 1;
        let id: CommandId = format!("c{}", self.next_id).parse().expect("an id");
        self.send_as(who, id, action)
    }

    fn send_as(
        &mut self,
        who: u8,
        id: CommandId,
        action: Action,
    ) -> Result<crate::command::Receipt, crate::Refusal> {
        let token: TokenId = format!("t{who}").parse().expect("an id");
        let by = Actor::Person { token: token.clone(), name: format!("person {who}"), via: "test".into() };
        let asked = match &action {
            Action::Answer { request, .. } => Some(*request),
            _ => None,
        };
        let command = Command { key: CommandKey { token, id }, by, action };
        self.only_reports = false;
        let result = self.machine.command(&mut self.book, self.now, command);
        if let (Some(request), Err(refusal)) = (asked, &result)
            && let Some(outcome) = refusal.outcome.as_deref()
        {
            self.learning.push((request, outcome.clone()));
        }
        self.settle();
        result
    }

    fn report(&mut self, report: Report) {
        self.take(report);
        self.settle();
    }

    fn exit(&mut self, reason: ExitReason) {
        let exit =
            Exit { reason, code: Some(1), signal: None, message: "it ended".into(), stderr: String::new() };
        self.take(Report::Exited(exit));
    }

    fn ask(&mut self, tool: &str) -> RequestId {
        self.next_key += 1;
        let ask = Ask::permission(tool, serde_json::json!({ "n": self.next_key }));
        let request = RequestId(self.book.head().0 + 1);
        let key = format!("k{}", self.next_key);
        self.report(Report::RequestOpened { key, ask: Box::new(ask), parent: None, tool: None, raw: None });
        request
    }

    fn open(&self) -> Vec<RequestId> {
        self.book.state().requests.iter().map(|open| open.request).collect()
    }

    fn events(&self) -> Vec<(Seq, Event)> {
        let all = self.committed.iter().chain(&self.fresh);
        all.map(|stored| (stored.seq, stored.decode::<Event>().expect("our own frame").event)).collect()
    }

    fn answers_told(&self) -> BTreeMap<(u32, String), usize> {
        let mut count = BTreeMap::new();
        for (generation, instruction) in &self.told {
            if let Order::Answer { key, .. } = &instruction.order {
                *count.entry((*generation, key.clone())).or_default() += 1;
            }
        }
        count
    }

    /// How often each prompt was sent to an agent, as a new turn or into a running one.
    fn prompts_told(&self) -> BTreeMap<InstructionId, usize> {
        let mut count = BTreeMap::new();
        for (_, instruction) in &self.told {
            if matches!(instruction.order, Order::Prompt { .. } | Order::Steer { .. }) {
                *count.entry(instruction.id).or_default() += 1;
            }
        }
        count
    }
}

/// An open item as the store keeps it.
fn stored_item(open: &state::OpenItem) -> OpenItem {
    let event = Event::ItemStarted {
        item: open.item.clone(),
        kind: open.kind,
        message: open.message.clone(),
        parent: open.parent.clone(),
    };
    let entry = crate::Entry::new(LogId::Session(SESSION), open.started, Millis(0), None, event);
    OpenItem { item: open.item.clone(), started: entry.frame().clone(), text: open.text.clone() }
}

fn ready() -> World {
    let mut world = World::new();
    world.report(Report::Ready);
    world.commit();
    world
}

fn prompt(text: &str) -> Action {
    Action::Prompt { content: vec![Content::text(text)] }
}

fn yes(request: RequestId) -> Action {
    Action::Answer { request, digest: None, answer: Answer::allow(), persist: None }
}
