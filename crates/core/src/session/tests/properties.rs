//! Properties of the machine: whatever people, the agent, time and crashes do, in whatever order, every request gets at
//! most one answer and is closed for everybody, every command gets a true final stage, and the log records it all.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

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
    Steer(u8),
    SendAgain(u8),
    Ready,
    Ask(u8),
    Take(u8),
    TurnStarted,
    TurnEnded,
    Delivered(u8),
    Consumed(u8),
    Rejected(u8),
    Uncertain(u8),
    Text(u8),
    Message(u8),
    Other(u8),
    Rename(u8),
    Archive(bool),
    SetMode(u8),
    Exit(bool),
    LinkLost,
    LinkRestored,
    Time(u16),
    Commit,
    CommitOnly,
    Crash,
    Rejoin,
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
        3 => any::<u8>().prop_map(Step::Steer),
        1 => any::<u8>().prop_map(Step::SendAgain),
        4 => Just(Step::Ready),
        6 => any::<u8>().prop_map(Step::Ask),
        2 => any::<u8>().prop_map(Step::Take),
        2 => Just(Step::TurnStarted),
        2 => Just(Step::TurnEnded),
        3 => any::<u8>().prop_map(Step::Delivered),
        3 => any::<u8>().prop_map(Step::Consumed),
        1 => any::<u8>().prop_map(Step::Rejected),
        1 => any::<u8>().prop_map(Step::Uncertain),
        4 => any::<u8>().prop_map(Step::Text),
        2 => any::<u8>().prop_map(Step::Message),
        6 => any::<u8>().prop_map(Step::Other),
        1 => any::<u8>().prop_map(Step::Rename),
        1 => any::<bool>().prop_map(Step::Archive),
        1 => any::<u8>().prop_map(Step::SetMode),
        1 => any::<bool>().prop_map(Step::Exit),
        1 => Just(Step::LinkLost),
        1 => Just(Step::LinkRestored),
        1 => any::<u16>().prop_map(Step::Time),
        8 => Just(Step::Commit),
        2 => Just(Step::CommitOnly),
        1 => Just(Step::Crash),
        1 => Just(Step::Rejoin),
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

    fn instruction_id(&self, which: u8) -> Option<InstructionId> {
        let now: Vec<_> = self.told.iter().filter(|(generation, _)| *generation == self.started).collect();
        (!now.is_empty()).then(|| now[which as usize % now.len()].1.id)
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
                    let _ = self.send(who, Action::Answer { request, digest: None, answer, persist: None });
                }
            }
            Step::Deny(who, which) => {
                if let Some(request) = self.pick(which) {
                    let answer = Answer::deny(None);
                    let _ = self.send(who, Action::Answer { request, digest: None, answer, persist: None });
                }
            }
            Step::Rename(who) => drop(self.send(who, Action::Rename { title: format!("name {who}") })),
            Step::Archive(archived) => drop(self.send(1, Action::Archive { archived })),
            Step::SetMode(who) => drop(self.send(who, Action::SetMode { mode: "plan".into() })),
            Step::Interrupt(who) => drop(self.send(who, Action::Interrupt)),
            Step::Stop(who) => drop(self.send(who, Action::Stop)),
            Step::Resume(who) => drop(self.send(who, Action::Resume)),
            Step::SetModel(who) => drop(self.send(who, Action::SetModel { model: Some("m".into()) })),
            Step::Withdraw(which) | Step::Steer(which) | Step::SendAgain(which) => {
                let open = &self.book.state().commands;
                if !open.is_empty() {
                    let seq = open[which as usize % open.len()].seq;
                    let action = match step {
                        Step::SendAgain(_) => Action::SendAgain { command: seq },
                        Step::Steer(_) => Action::Steer { prompt: seq },
                        _ => Action::Withdraw { prompt: seq },
                    };
                    let _ = self.send(1, action);
                }
            }
            // An agent that does not run reports nothing.
            _ if !self.machine.is_running() => match step {
                Step::Time(seconds) => self.pass(seconds),
                Step::Commit => self.commit(),
                Step::CommitOnly => self.commit_only(),
                Step::Crash => self.crash(),
                Step::Rejoin => self.rejoin(),
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
                if let Some(instruction_id) = self.instruction_id(which) {
                    self.report(Report::Delivered(instruction_id));
                }
            }
            Step::Consumed(which) => {
                if let Some(instruction_id) = self.instruction_id(which) {
                    self.report(Report::Consumed { instruction_id, result: None });
                }
            }
            Step::Rejected(which) => {
                if let Some(instruction_id) = self.instruction_id(which) {
                    self.report(Report::Rejected { instruction_id, error: "no".into() });
                }
            }
            Step::Uncertain(which) => {
                if let Some(instruction_id) = self.instruction_id(which) {
                    self.report(Report::Uncertain { instruction_id, reason: "no answer".into() });
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
            Step::Other(which) => {
                let event = other_event(which, self.started);
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
            Step::CommitOnly => self.commit_only(),
            Step::Crash => self.crash(),
            Step::Rejoin => self.rejoin(),
        }
    }

    fn pass(&mut self, seconds: u16) {
        self.now = Millis(self.now.0 + i64::from(seconds % 100) * 1000);
        self.only_reports = false;
        self.machine.expire(&mut self.book, self.now);
        self.settle();
    }

    fn check(&mut self) {
        self.commit();
        assert_eq!(self.folded(), *self.book.state_without_streams(), "fold(log) is the live state");
        for (key, answers) in self.answers_told() {
            assert_eq!(answers, 1, "{key:?} was answered more than once");
        }
        for (prompt, times) in self.prompts_told() {
            assert_eq!(times, 1, "the agent was told prompt {prompt:?} more than once");
        }
        let events = self.events();
        assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers only grow");
        let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
        let (mut accepted, mut settled) = (BTreeSet::new(), BTreeMap::new());
        let mut queued = BTreeSet::new();
        for (seq, event) in &events {
            match event {
                Event::RequestOpened { request } => assert!(opened.insert(request.request)),
                Event::RequestClosed { request, .. } => {
                    assert!(closed.insert(*request), "{request} was closed twice");
                    assert!(opened.contains(request));
                }
                Event::CommandAccepted { action, .. } => {
                    accepted.insert(*seq);
                    if matches!(**action, Action::Prompt { .. } | Action::SendAgain { .. }) {
                        queued.insert(*seq);
                    }
                }
                Event::Receipt { command, stage } => {
                    assert!(accepted.contains(command));
                    match stage {
                        Stage::Accepted => queued.insert(*command),
                        _ => queued.remove(command),
                    };
                    if stage.is_final() {
                        let before = settled.insert(*command, stage.clone());
                        // An uncertain prompt may be withdrawn or answered late; nothing else ends twice.
                        assert!(
                            matches!(before, None | Some(Stage::Uncertain { .. })),
                            "{command}: {before:?}"
                        );
                    }
                }
                _ => {}
            }
        }
        for (request, outcome) in &self.learned {
            let told = events.iter().find_map(|(_, event)| match event {
                Event::RequestClosed { request: closed, outcome } if closed == request => Some(outcome),
                _ => None,
            });
            assert_eq!(told, Some(outcome), "a late answer to {request} got the same outcome as everyone");
        }
        let open: BTreeSet<_> = self.open().into_iter().collect();
        assert_eq!(open, opened.difference(&closed).copied().collect(), "the state knows what waits");
        assert_eq!(self.book.state().summary.queued as usize, queued.len(), "the state counts who waits");
        if !self.machine.is_running() {
            let told = self.records.keys().filter(|(collection, _)| *collection == INSTRUCTIONS).count();
            assert_eq!(told, 0, "{:?} is left of an agent that has ended", self.records);
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

/// Another event of an agent that the state tracks.
fn other_event(which: u8, generation: u32) -> Event {
    use crate::event::{AgentInfo, McpServer, PlanStep, Setting, Task, TaskStatus, ToolKind, ToolOutcome};
    let name = |kind: &str| format!("{generation}-{kind}-{}", which / 16 % 3);
    match which % 12 {
        0 => Event::ToolCall {
            tool: name("tool"),
            item: None,
            message: None,
            parent: None,
            name: "Bash".into(),
            kind: ToolKind::Execute,
            title: None,
            input: serde_json::json!({}),
            changes: vec![],
        },
        1 => Event::ToolResult {
            tool: name("tool"),
            parent: None,
            outcome: ToolOutcome::Done,
            content: vec![],
            changes: vec![],
        },
        2 => Event::SubagentStarted {
            subagent: name("subagent"),
            parent: None,
            subagent_type: None,
            description: "look around".into(),
            prompt: None,
            model: None,
            background: which & 16 == 0,
            team: None,
        },
        3 => Event::SubagentEnded {
            subagent: name("subagent"),
            outcome: ToolOutcome::Done,
            summary: None,
            work: None,
        },
        4 => Event::Plan {
            steps: vec![PlanStep { text: name("step"), status: "pending".into() }],
            parent: None,
        },
        5 => Event::Usage {
            usage: crate::usage::TokenUsage { input: u64::from(which), ..Default::default() },
            model: Some("m".into()),
            parent: None,
            context_window: None,
            context_only: false,
        },
        6 => Event::ConversationReset { agent_session: Some(name("conversation")), reason: None },
        7 => Event::McpServers { servers: vec![McpServer { name: name("server"), ..McpServer::default() }] },
        8 => Event::TaskChanged {
            task: Box::new(Task {
                task: name("task"),
                status: if which & 16 == 0 { TaskStatus::Running } else { TaskStatus::Completed },
                ..Task::default()
            }),
        },
        9 => Event::AgentInfo {
            info: Box::new(AgentInfo { mode: Some(name("mode")), ..AgentInfo::default() }),
        },
        10 => Event::SettingChanged { setting: Setting::Mode { mode: name("mode") } },
        _ => Event::Activity { activity: Some(name("activity")) },
    }
}

impl Book<State> {
    /// What the log alone can show: deltas are not durable.
    fn state_without_streams(&self) -> Box<State> {
        let mut state = self.state().clone();
        state.forget_streamed();
        Box::new(State {
            activity_since: Seq::ZERO,
            item_ended: Seq::ZERO,
            summary: state.summary.clone(),
            ..state
        })
    }
}

/// How many orders a run tries. The tests try few orders, because the tests run often and try other orders each time.
/// `cargo xtask soak` sets a larger number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(128)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_gives_each_request_at_most_one_answer_and_each_command_an_end(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in steps {
            world.play(step);
        }
        world.check();
        // Nothing waits for ever: after its deadline a request is closed, whatever happened before.
        world.pass(99);
        world.commit();
        assert_eq!(world.open(), []);
        world.check();
        world.exit(ExitReason::Finished);
        world.settle();
        world.check();
        world.crash();
        world.check();
    }

    // covers: 000-057
    #[test]
    fn of_any_number_of_answers_one_reaches_the_agent_and_the_others_learn_whose(
        clients in prop::collection::vec((any::<u8>(), 0_u8..4), 2..50),
        commits in prop::collection::vec(any::<bool>(), 50),
    ) {
        let mut world = ready();
        let request = world.ask("Bash");
        let mut winner = None;
        for ((who, kind), commit) in clients.into_iter().zip(commits) {
            let answer = match kind {
                0 => Answer::allow(),
                1 => Answer::deny(Some(format!("no, says {who}"))),
                2 => Answer::Allow { input: Some(serde_json::json!({ "by": who })), scope: Scope::Once, mode: None, option: None },
                _ => Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None },
            };
            let result = world.send(who, Action::Answer { request, digest: None, answer: answer.clone(), persist: None });
            let by = Actor::Person {
                token: format!("t{who}").parse().expect("an id"),
                name: format!("person {who}"),
                via: "test".into(),
            };
            match &winner {
                None => {
                    prop_assert!(result.is_ok());
                    winner = Some(Outcome::Answered { answer, by });
                }
                Some(outcome) => {
                    let refusal = result.unwrap_err();
                    prop_assert_eq!(refusal.code, RefusalCode::AlreadyClosed);
                    prop_assert_eq!(refusal.outcome.as_deref(), Some(outcome));
                }
            }
            if commit {
                world.commit();
            }
        }
        world.check();
        let told: Vec<_> = world.told.iter().filter_map(|(_, told)| match &told.order {
            Order::Answer { answer, .. } => Some(answer),
            _ => None,
        }).collect();
        let Some(Outcome::Answered { answer, .. }) = &winner else { unreachable!("somebody was first") };
        prop_assert_eq!(told, [answer]);
    }
}
