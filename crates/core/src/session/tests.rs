//! Properties of the machine: whatever people, the agent, time and crashes do, in whatever order, every request gets at
//! most one answer and is closed for everybody, every command comes to an honest end, and the log tells it all.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    machine::{Machine, Policy, Want},
    state::{State, Status},
};
use crate::{
    Action, Actor, Capabilities, CommandId, Event, LogId, Millis, RefusalCode, RequestId, Seq, SessionId,
    SessionSpec, Stored, TokenId,
    command::{Command, CommandKey, Stage},
    event::{Content, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult},
    log::{Book, Folded as _},
    ports::{Instruction, Op, OpenItem, Order, Report, Ticket},
    request::{Answer, Ask, Outcome, Scope},
};

const SESSION: SessionId = SessionId::from_u128(7);

/// A session without a task: the machine, its book, and what the store and the agent have been given.
struct World {
    machine: Machine,
    book: Book<State>,
    now: Millis,
    /// Appended, not yet committed.
    fresh: Vec<Stored>,
    committed: Vec<Stored>,
    chunks: Vec<OpenItem>,
    /// What the agent was told, by its generation.
    told: Vec<(u32, Instruction)>,
    started: u32,
    next_key: u32,
    next_id: u32,
}

fn capabilities() -> Capabilities {
    Capabilities { interrupt: true, session_resume: true, model_switching: true, ..Capabilities::default() }
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
            chunks: Vec::new(),
            told: Vec::new(),
            started: 0,
            next_key: 0,
            next_id: 0,
        };
        world.machine.begin();
        world.settle();
        world
    }

    /// Does what the task does after each step, without committing.
    fn settle(&mut self) {
        for want in self.machine.take_wants() {
            match want {
                Want::Start { .. } => {
                    self.started = self.machine.starting(&mut self.book, self.now, capabilities(), None).0;
                    let info = crate::event::AgentInfo {
                        agent_session: Some("agent-1".into()),
                        ..crate::event::AgentInfo::default()
                    };
                    let event = Event::AgentInfo { info: Box::new(info) };
                    self.machine.report(&mut self.book, self.now, Report::Event { event, raw: None });
                }
                Want::Stop => self.exit(ExitReason::Stopped),
            }
        }
        for op in self.book.take_ops() {
            if let Op::Append { seq, frame, .. } = op {
                self.fresh.push(Stored { seq, frame });
            }
        }
    }

    /// The store commits, and the agent is told what waited for that.
    fn commit(&mut self) {
        self.settle();
        self.committed.append(&mut self.fresh);
        let visible = self.book.head();
        while let Some(instruction) = self.machine.next_instruction(visible) {
            self.told.push((self.started, instruction));
        }
    }

    /// The daemon is killed and comes back: what was not committed is gone.
    fn crash(&mut self) {
        self.settle();
        let skipped = Seq(self.book.head().0 + 4096);
        self.fresh.clear();
        self.book = Book::new(LogId::Session(SESSION), skipped, self.folded());
        self.machine = Machine::new(policy());
        self.machine.recover(&mut self.book, self.now, &std::mem::take(&mut self.chunks));
        self.commit();
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
        let result = self.machine.command(
            &mut self.book,
            self.now,
            Command { key: CommandKey { token, id }, by, action },
        );
        self.settle();
        result
    }

    fn report(&mut self, report: Report) {
        self.machine.report(&mut self.book, self.now, report);
        self.settle();
    }

    fn exit(&mut self, reason: ExitReason) {
        let exit =
            Exit { reason, code: Some(1), signal: None, message: "it ended".into(), stderr: String::new() };
        self.machine.report(&mut self.book, self.now, Report::Exited(exit));
    }

    fn ask(&mut self, tool: &str) -> RequestId {
        self.next_key += 1;
        let ask = Ask::Permission {
            tool_name: tool.into(),
            input: serde_json::json!({ "n": self.next_key }),
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        };
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
    Action::Answer { request, digest: None, answer: Answer::allow() }
}

#[test]
fn nothing_is_told_to_the_agent_before_it_is_committed() {
    let mut world = ready();
    let receipt = world.send(1, prompt("hello")).unwrap();
    assert_eq!(receipt.stage, Stage::Sending);
    assert_eq!(world.machine.next_instruction(receipt.seq), None, "its entries are not visible yet");
    world.commit();
    let expected = Instruction {
        ticket: Ticket(receipt.seq.0),
        order: Order::Prompt { content: vec![Content::text("hello")] },
    };
    assert_eq!(world.told, [(1, expected)]);
}

// covers: 000-057
#[test]
fn the_second_answer_is_refused_and_learns_who_was_first() {
    let mut world = ready();
    let request = world.ask("Bash");
    world.send(1, yes(request)).unwrap();
    let refusal = world.send(2, yes(request)).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::AlreadyClosed);
    assert_eq!(refusal.message, format!("request {request} was already answered by person 1 (test)"));
    world.commit();
    assert_eq!(world.answers_told().into_values().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_same_command_id_is_done_once() {
    let mut world = ready();
    let id: CommandId = "once".parse().unwrap();
    let first = world.send_as(1, id.clone(), prompt("hello")).unwrap();
    let again = world.send_as(1, id.clone(), prompt("hello")).unwrap();
    assert_eq!(first, again);
    let other = world.send_as(2, id, prompt("hello")).unwrap();
    assert_ne!(first.seq, other.seq, "an id is the sender's own");
}

// covers: 000-098
#[test]
fn after_always_the_same_tool_is_not_asked_again() {
    let mut world = ready();
    let request = world.ask("Bash");
    let answer = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    world.send(1, Action::Answer { request, digest: None, answer }).unwrap();
    world.ask("Bash");
    assert_eq!(world.open(), [], "the rule answered");
    world.ask("Write");
    assert_eq!(world.open().len(), 1, "a rule is about one tool");
    world.commit();
    let by_rule =
        Outcome::Answered { answer: Answer::allow(), by: Actor::Policy { rule: "always allow Bash".into() } };
    assert!(
        world
            .events()
            .iter()
            .any(|(_, e)| matches!(e, Event::RequestClosed { outcome, .. } if *outcome == by_rule))
    );
}

#[test]
fn an_answer_to_what_was_not_shown_is_refused() {
    let mut world = ready();
    let request = world.ask("Bash");
    let action = Action::Answer { request, digest: Some("other".into()), answer: Answer::allow() };
    assert_eq!(world.send(1, action).unwrap_err().code, RefusalCode::Stale);
    assert_eq!(world.open(), [request]);
}

#[test]
fn an_unanswered_request_is_denied_at_its_deadline_and_everyone_is_told() {
    let mut world = ready();
    let request = world.ask("Bash");
    world.now = Millis(world.now.0 + 59_999);
    world.machine.expire(&mut world.book, world.now);
    assert_eq!(world.open(), [request]);
    world.now = Millis(world.now.0 + 1);
    world.machine.expire(&mut world.book, world.now);
    world.commit();
    assert_eq!(world.open(), []);
    assert!(
        world
            .events()
            .iter()
            .any(|(_, e)| matches!(e, Event::RequestClosed { outcome: Outcome::Expired, .. }))
    );
    assert_eq!(world.answers_told().len(), 1, "the agent is told no");
    assert_eq!(world.send(1, yes(request)).unwrap_err().code, RefusalCode::AlreadyClosed);
}

// covers: 002-077
#[test]
fn an_interrupt_closes_what_waits_for_everybody() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let (first, second) = (world.ask("Bash"), world.ask("Write"));
    world.send(3, Action::Interrupt).unwrap();
    assert_eq!(world.open(), []);
    for request in [first, second] {
        let refusal = world.send(1, yes(request)).unwrap_err();
        assert!(matches!(refusal.outcome.as_deref(), Some(Outcome::Interrupted { .. })), "{refusal:?}");
    }
}

#[test]
fn a_prompt_during_a_turn_waits_for_its_end() {
    let mut world = ready();
    world.send(1, prompt("first")).unwrap();
    world.commit();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    let second = world.send(1, prompt("second")).unwrap();
    assert_eq!(second.stage, Stage::Accepted);
    assert_eq!(world.book.state().summary.queued, 1);
    let first = world.told[0].1.ticket;
    world.report(Report::Consumed { ticket: first, result: None });
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    world.commit();
    assert_eq!(world.told.last().unwrap().1.ticket, Ticket(second.seq.0));
}

#[test]
fn a_queued_prompt_can_be_taken_back_once() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let queued = world.send(1, prompt("later")).unwrap();
    world.send(2, Action::Withdraw { prompt: queued.seq }).unwrap();
    assert_eq!(world.book.state().summary.queued, 0);
    let again = world.send(2, Action::Withdraw { prompt: queued.seq }).unwrap_err();
    assert_eq!(again.code, RefusalCode::NotFound);
}

#[test]
fn a_crash_while_sending_leaves_the_prompt_uncertain_and_it_can_be_sent_again() {
    let mut world = ready();
    let sent = world.send(1, prompt("fragile")).unwrap();
    world.commit();
    world.crash();
    let state = world.book.state().clone();
    assert!(matches!(state.commands[0].stage, Stage::Uncertain { .. }), "{:?}", state.commands);
    assert_eq!(state.summary.status, Status::Terminated);
    world.send(1, Action::SendAgain { command: sent.seq }).unwrap();
    world.report(Report::Ready);
    world.commit();
    let prompts: Vec<_> =
        world.told.iter().filter(|(_, i)| matches!(i.order, Order::Prompt { .. })).collect();
    assert_eq!(prompts.len(), 2, "once before the crash, once because someone said so");
    assert_eq!(prompts[1].0, 2, "to the next start of the agent");
}

#[test]
fn a_crash_before_sending_leaves_the_prompt_in_the_queue() {
    let mut world = World::new();
    world.send(1, prompt("patient")).unwrap();
    world.commit();
    world.crash();
    assert_eq!(world.book.state().summary.queued, 1);
    world.send(1, Action::Resume).unwrap();
    world.report(Report::Ready);
    world.commit();
    assert!(
        matches!(&world.told[0].1.order, Order::Prompt { content } if *content == [Content::text("patient")])
    );
}

#[test]
fn an_agent_that_fails_is_started_again_three_times_and_then_stays_down() {
    let mut world = ready();
    for expected in 2..=4 {
        world.exit(ExitReason::Failed);
        world.settle();
        assert_eq!(world.started, expected);
    }
    world.exit(ExitReason::Failed);
    world.settle();
    assert_eq!(world.started, 4);
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().summary.status, Status::Error);
}

// covers: 000-072
#[test]
fn an_agent_that_never_started_is_not_tried_again() {
    let mut world = World::new();
    world.exit(ExitReason::NotStarted);
    world.settle();
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().summary.error.as_deref(), Some("it ended"));
}

#[test]
fn the_text_of_an_item_that_was_cut_off_is_kept() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    let started =
        Event::ItemStarted { item: "1.1".into(), kind: ItemKind::Text, message: None, parent: None };
    world.report(Report::Event { event: started, raw: None });
    for text in ["half a ", "sentence"] {
        world.report(Report::Event {
            event: Event::Delta { item: "1.1".into(), text: text.into() },
            raw: None,
        });
    }
    world.exit(ExitReason::Failed);
    world.settle();
    let kept = world.events().into_iter().find_map(|(_, event)| match event {
        Event::Message { item, content, interrupted: true, .. } if item == "1.1" => Some(content),
        _ => None,
    });
    assert_eq!(kept, Some(vec![Content::text("half a sentence")]));
    let ended = world.events().into_iter().any(|(_, event)| {
        matches!(event, Event::TurnEnded { result, .. } if result.outcome == TurnOutcome::Failed)
    });
    assert!(ended);
}

#[test]
fn an_archived_session_keeps_no_process() {
    let mut world = ready();
    world.send(1, Action::Archive { archived: true }).unwrap();
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().commands, []);
    assert!(world.book.state().summary.archived);
}

#[test]
fn a_slow_reader_is_given_just_the_text_it_lacks() {
    let mut world = ready();
    let started = Event::ItemStarted { item: "i".into(), kind: ItemKind::Text, message: None, parent: None };
    world.report(Report::Event { event: started, raw: None });
    let before = world.book.head();
    let delta =
        |text: &str| Report::Event { event: Event::Delta { item: "i".into(), text: text.into() }, raw: None };
    world.report(delta("one "));
    let after_one = world.book.head();
    world.report(delta("two "));
    world.report(delta("three"));
    let head = world.book.head();
    let text = |text: &str| vec![Event::Delta { item: "i".into(), text: text.into() }];
    assert_eq!(world.book.state().merged(after_one, head), text("two three"));
    assert_eq!(world.book.state().merged(before, after_one), text("one "));
    assert_eq!(world.book.state().merged(head, head), []);
    assert_eq!(
        world.book.state().merged(Seq::ZERO, head).len(),
        2,
        "with its beginning for who missed that too"
    );
}

// ------------------------------------------------------------------------------------- properties

#[derive(Clone, Debug)]
enum Step {
    Prompt(u8),
    Answer(u8, u8),
    Always(u8, u8),
    Deny(u8, u8),
    Interrupt(u8),
    Stop(u8),
    Resume(u8),
    SetModel(u8),
    Withdraw(u8),
    SendAgain(u8),
    Ready,
    Ask(u8),
    Take(u8),
    TurnStarted,
    TurnEnded,
    Delivered(u8),
    Consumed(u8),
    Rejected(u8),
    Text(u8),
    Message(u8),
    Exit(bool),
    LinkLost,
    LinkRestored,
    Time(u16),
    Commit,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<u8>().prop_map(Step::Prompt),
        6 => any::<(u8, u8)>().prop_map(|(who, which)| Step::Answer(who, which)),
        1 => any::<(u8, u8)>().prop_map(|(who, which)| Step::Always(who, which)),
        2 => any::<(u8, u8)>().prop_map(|(who, which)| Step::Deny(who, which)),
        1 => any::<u8>().prop_map(Step::Interrupt),
        1 => any::<u8>().prop_map(Step::Stop),
        1 => any::<u8>().prop_map(Step::Resume),
        1 => any::<u8>().prop_map(Step::SetModel),
        1 => any::<u8>().prop_map(Step::Withdraw),
        1 => any::<u8>().prop_map(Step::SendAgain),
        4 => Just(Step::Ready),
        6 => any::<u8>().prop_map(Step::Ask),
        2 => any::<u8>().prop_map(Step::Take),
        2 => Just(Step::TurnStarted),
        2 => Just(Step::TurnEnded),
        3 => any::<u8>().prop_map(Step::Delivered),
        3 => any::<u8>().prop_map(Step::Consumed),
        1 => any::<u8>().prop_map(Step::Rejected),
        4 => any::<u8>().prop_map(Step::Text),
        2 => any::<u8>().prop_map(Step::Message),
        1 => any::<bool>().prop_map(Step::Exit),
        1 => Just(Step::LinkLost),
        1 => Just(Step::LinkRestored),
        1 => any::<u16>().prop_map(Step::Time),
        8 => Just(Step::Commit),
        1 => Just(Step::Crash),
    ]
}

impl World {
    fn pick(&self, which: u8) -> Option<RequestId> {
        let ever: Vec<_> = self
            .events()
            .into_iter()
            .filter_map(|(_, event)| match event {
                Event::RequestOpened { request } => Some(request.request),
                _ => None,
            })
            .collect();
        (!ever.is_empty()).then(|| ever[which as usize % ever.len()])
    }

    fn ticket(&self, which: u8) -> Option<Ticket> {
        let now: Vec<_> = self.told.iter().filter(|(generation, _)| *generation == self.started).collect();
        (!now.is_empty()).then(|| now[which as usize % now.len()].1.ticket)
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Prompt(who) => drop(self.send(who, prompt("do it"))),
            Step::Answer(who, which) => {
                if let Some(request) = self.pick(which) {
                    let _ = self.send(who, yes(request));
                }
            }
            Step::Always(who, which) => {
                if let Some(request) = self.pick(which) {
                    let answer =
                        Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
                    let _ = self.send(who, Action::Answer { request, digest: None, answer });
                }
            }
            Step::Deny(who, which) => {
                if let Some(request) = self.pick(which) {
                    let answer = Answer::deny(None);
                    let _ = self.send(who, Action::Answer { request, digest: None, answer });
                }
            }
            Step::Interrupt(who) => drop(self.send(who, Action::Interrupt)),
            Step::Stop(who) => drop(self.send(who, Action::Stop)),
            Step::Resume(who) => drop(self.send(who, Action::Resume)),
            Step::SetModel(who) => drop(self.send(who, Action::SetModel { model: Some("m".into()) })),
            Step::Withdraw(which) | Step::SendAgain(which) => {
                let open = &self.book.state().commands;
                if !open.is_empty() {
                    let seq = open[which as usize % open.len()].seq;
                    let again = matches!(step, Step::SendAgain(_));
                    let action = if again {
                        Action::SendAgain { command: seq }
                    } else {
                        Action::Withdraw { prompt: seq }
                    };
                    let _ = self.send(1, action);
                }
            }
            // An agent says nothing while it does not run.
            _ if !self.machine.is_running() => match step {
                Step::Time(seconds) => self.pass(seconds),
                Step::Commit => self.commit(),
                Step::Crash => self.crash(),
                _ => {}
            },
            Step::Ready => self.report(Report::Ready),
            Step::Ask(tool) => drop(self.ask(["Bash", "Write", "Read"][tool as usize % 3])),
            Step::Take(which) => {
                let key = format!("k{}", u32::from(which) % (self.next_key + 1));
                self.report(Report::RequestWithdrawn { key });
            }
            Step::TurnStarted => self.report(Report::TurnStarted { origin: TurnOrigin::Agent }),
            Step::TurnEnded => {
                let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
                self.report(Report::TurnEnded { result, raw: None });
            }
            Step::Delivered(which) => {
                if let Some(ticket) = self.ticket(which) {
                    self.report(Report::Delivered(ticket));
                }
            }
            Step::Consumed(which) => {
                if let Some(ticket) = self.ticket(which) {
                    self.report(Report::Consumed { ticket, result: None });
                }
            }
            Step::Rejected(which) => {
                if let Some(ticket) = self.ticket(which) {
                    self.report(Report::Rejected { ticket, error: "no".into() });
                }
            }
            Step::Text(item) => {
                let event = Event::Delta { item: format!("{}.{}", self.started, item % 3), text: "x".into() };
                self.report(Report::Event { event, raw: None });
            }
            Step::Message(item) => {
                let event = Event::Message {
                    item: format!("{}.{}", self.started, item % 3),
                    message: None,
                    parent: None,
                    model: None,
                    content: vec![Content::text("x")],
                    interrupted: false,
                    stop_reason: None,
                };
                self.report(Report::Event { event, raw: None });
            }
            Step::Exit(failed) => {
                self.exit(if failed { ExitReason::Failed } else { ExitReason::Finished });
                self.settle();
            }
            Step::LinkLost => self.report(Report::LinkLost { reason: "cut".into() }),
            Step::LinkRestored => self.report(Report::LinkRestored),
            Step::Time(seconds) => self.pass(seconds),
            Step::Commit => self.commit(),
            Step::Crash => self.crash(),
        }
    }

    fn pass(&mut self, seconds: u16) {
        self.now = Millis(self.now.0 + i64::from(seconds % 100) * 1000);
        self.machine.expire(&mut self.book, self.now);
        self.settle();
    }

    fn check(&mut self) {
        self.commit();
        assert_eq!(self.folded(), *self.book.state_without_streams(), "fold(log) is the live state");
        for (key, answers) in self.answers_told() {
            assert_eq!(answers, 1, "{key:?} was answered more than once");
        }
        let events = self.events();
        assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers only grow");
        let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
        let (mut accepted, mut settled) = (BTreeSet::new(), BTreeMap::new());
        for (seq, event) in &events {
            match event {
                Event::RequestOpened { request } => assert!(opened.insert(request.request)),
                Event::RequestClosed { request, .. } => {
                    assert!(closed.insert(*request), "{request} was closed twice");
                    assert!(opened.contains(request));
                }
                Event::CommandAccepted { .. } => drop(accepted.insert(*seq)),
                Event::Receipt { command, stage } => {
                    assert!(accepted.contains(command));
                    if stage.is_final() {
                        let before = settled.insert(*command, stage.clone());
                        // A prompt that was uncertain may be withdrawn; nothing else ends twice.
                        assert!(
                            matches!(before, None | Some(Stage::Uncertain { .. })),
                            "{command}: {before:?}"
                        );
                    }
                }
                _ => {}
            }
        }
        let open: BTreeSet<_> = self.open().into_iter().collect();
        assert_eq!(open, opened.difference(&closed).copied().collect(), "the state knows what waits");
        if !self.machine.is_running() {
            assert_eq!(self.open(), [], "nothing waits for an agent that is gone");
            assert!(self.book.state().turn.is_none() && self.book.state().items.is_empty());
            for open in &self.book.state().commands {
                let fine = open.is_queued_prompt() || matches!(open.stage, Stage::Uncertain { .. });
                assert!(fine, "{open:?} has no end");
            }
            let unsettled: Vec<_> = accepted.iter().filter(|seq| !settled.contains_key(seq)).collect();
            let known: Vec<_> = self.book.state().commands.iter().map(|open| open.seq).collect();
            assert!(unsettled.iter().all(|seq| known.contains(seq)), "a command vanished");
        }
    }
}

impl Book<State> {
    /// What the log alone can tell: deltas are not durable.
    fn state_without_streams(&self) -> Box<State> {
        let mut state = self.state().clone();
        state.forget_streamed();
        Box::new(State { activity_since: Seq::ZERO, summary: state.summary.clone(), ..state })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    // covers: 002-060
    #[test]
    fn any_interleaving_gives_each_request_at_most_one_answer_and_each_command_an_end(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in steps {
            world.play(step);
        }
        world.check();
        world.exit(ExitReason::Finished);
        world.settle();
        world.check();
        world.crash();
        world.check();
    }
}

// ------------------------------------------------------------------------------------------ status

fn status(world: &World) -> Status {
    world.book.state().summary.status
}

// covers: 004-003, 004-004, 004-005, 004-006, 004-007, 004-008, 004-009, 003-100
#[test]
fn the_status_follows_the_life_of_the_agent() {
    let mut world = World::new();
    assert_eq!(status(&world), Status::Starting);
    world.report(Report::Ready);
    assert_eq!(status(&world), Status::Connected);
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    assert_eq!(status(&world), Status::Active, "a turn may start by itself");
    world.report(Report::LinkLost { reason: "cut".into() });
    assert_eq!(status(&world), Status::Disconnected);
    world.report(Report::LinkRestored);
    assert_eq!(status(&world), Status::Active);
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    assert_eq!(status(&world), Status::Idle);
    let summary = &world.book.state().summary;
    assert_eq!((summary.session, summary.agent.as_str()), (SESSION, "fake"));
    world.exit(ExitReason::Finished);
    assert_eq!(status(&world), Status::Terminated);
    let mut failed = World::new();
    failed.exit(ExitReason::NotReady);
    assert_eq!(status(&failed), Status::Error);
    assert_eq!(failed.book.state().summary.error.as_deref(), Some("it ended"));
}

// covers: 000-039, 000-047, 003-136, 004-107
#[test]
fn tokens_turns_and_money_add_up_and_unknown_cost_stays_unknown() {
    use crate::usage::{ModelUsage, TokenUsage};
    let mut world = ready();
    let info = crate::event::AgentInfo { model: Some("m".into()), ..crate::event::AgentInfo::default() };
    world.report(Report::Event { event: Event::AgentInfo { info: Box::new(info) }, raw: None });
    assert_eq!(world.book.state().context_window, 200_000);
    assert_eq!(world.book.state().summary.cost_usd, None);
    let usage = TokenUsage { input: 10, output: 5, cache_creation: 3, cache_read: 2 };
    let used = Event::Usage { usage, model: None, parent: None, context_window: None };
    world.report(Report::Event { event: used, raw: None });
    assert_eq!(world.book.state().context_used, Some(15));
    for cost_usd in [Some(0.5), None, Some(0.25)] {
        let mut result = TurnResult::bare(TurnOutcome::Completed);
        result.usage = Some(usage);
        result.cost_usd = cost_usd;
        let share = ModelUsage { usage, context_window: Some(1_000_000), max_output: Some(8_000), cost_usd };
        result.by_model.insert("m".into(), share);
        world.report(Report::TurnEnded { result: Box::new(result), raw: None });
    }
    let state = world.book.state();
    assert_eq!((state.summary.turns, state.summary.cost_usd), (3, Some(0.75)));
    assert_eq!(state.usage, TokenUsage { input: 30, output: 15, cache_creation: 9, cache_read: 6 });
    assert_eq!(state.context_window, 1_000_000);
    let model = &state.by_model["m"];
    assert_eq!((model.cost_usd, model.max_output), (Some(0.75), Some(8_000)));
    world.report(Report::Event { event: Event::Activity { activity: Some("compacting".into()) }, raw: None });
    assert_eq!(world.book.state().activity.as_deref(), Some("compacting"));
}

// covers: 003-078
#[test]
fn ten_subagents_at_once_form_a_tree_each_with_its_own_stream() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    for number in 0..10 {
        let started = Event::SubagentStarted {
            subagent: format!("s{number}"),
            parent: (number > 0).then(|| format!("s{}", (number - 1) / 2)),
            subagent_type: None,
            description: "look around".into(),
            prompt: None,
            model: None,
            background: true,
            team: None,
        };
        world.report(Report::Event { event: started, raw: None });
        let (item, parent) = (format!("1.{number}"), Some(format!("s{number}")));
        let begun = Event::ItemStarted { item: item.clone(), kind: ItemKind::Text, message: None, parent };
        world.report(Report::Event { event: begun, raw: None });
        let delta = Event::Delta { item, text: format!("from {number}") };
        world.report(Report::Event { event: delta, raw: None });
    }
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    let state = world.book.state();
    assert_eq!(state.subagents.len(), 10, "what runs in the background goes on after the turn");
    let parents: Vec<_> = state.subagents.iter().map(|subagent| subagent.parent.as_deref()).collect();
    assert_eq!(parents[..4], [None, Some("s0"), Some("s0"), Some("s1")]);
    for (number, item) in state.items.iter().enumerate() {
        assert_eq!(
            (item.parent.as_deref(), item.text.as_str()),
            (Some(&*format!("s{number}")), &*format!("from {number}"))
        );
    }
}

// covers: 002-037, 002-050
#[test]
fn every_message_of_the_agent_moves_the_time_of_last_activity() {
    let mut world = ready();
    let before = world.book.state().summary.active_at;
    world.now = Millis(world.now.0 + 5_000);
    let event = Event::Notice { level: crate::event::Level::Info, text: "still here".into() };
    world.report(Report::Event { event, raw: None });
    let summary = &world.book.state().summary;
    assert_eq!(summary.active_at.0, before.0 + 5_000);
    assert_eq!(summary.created_at, Millis(1_000));
}

// covers: 003-118, 003-119, 003-121
#[test]
fn what_the_agent_cannot_do_is_refused_and_what_it_tells_of_itself_is_known() {
    let mut world = ready();
    let refusal = world.send(1, Action::SetMode { mode: "plan".into() }).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Unsupported, "the flag is false");
    world.send(1, Action::SetModel { model: Some("m".into()) }).unwrap();
    let commands = vec![crate::capabilities::CommandInfo { name: "compact".into(), ..Default::default() }];
    let info = crate::event::AgentInfo {
        modes: Some(vec!["default".into()]),
        commands: Some(commands.clone()),
        ..crate::event::AgentInfo::default()
    };
    world.report(Report::Event { event: Event::AgentInfo { info: Box::new(info) }, raw: None });
    let known = &world.book.state().capabilities;
    assert_eq!(known.supported_commands, Some(commands));
    assert_eq!(known.supported_permission_modes, Some(vec!["default".into()]));
    assert!(known.session_archive);
    world.send(1, Action::Archive { archived: true }).unwrap();
}
