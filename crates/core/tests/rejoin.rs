//! A daemon that is killed and restarts beside an agent that still runs: nothing is lost, nothing is done twice, and
//! waiting requests still wait.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{capabilities, spec};
use portolan_core::{
    Action, Capabilities, CommandId, DaemonEvent, Event, LogId, Millis, Seq, SessionId, SessionSpec, Stored,
    capabilities::NativeProtocol,
    event::{AgentInfo, Content, Exit, ExitReason, ItemKind, Level, TurnOrigin, TurnOutcome, TurnResult},
    log::delivery::{Delivery, Start},
    ports::{
        Agent, AgentLink, Boxed, Clock, INSTRUCTIONS, Instruction, InstructionId, Launch, LeftRunning, Order,
        Page, Probe, REPORTS, Rejoined, Report, Store,
    },
    registry::Registry,
    request::{Answer, Ask},
    session::{machine::Policy, state::Status},
};
use portolan_store::MemoryStore;
use portolan_testkit::{agents::finished, sessions::owner};
use tokio::sync::{mpsc, watch};

/// The state of an agent that outlives the daemon: its reports, the instructions that it took, and its connection.
#[derive(Debug)]
struct Running {
    reports: Vec<Report>,
    taken: Vec<Instruction>,
    connected: Option<mpsc::Sender<Report>>,
    recorded: Option<watch::Receiver<u64>>,
}

impl Running {
    fn say(&mut self, report: Report) {
        self.reports.push(report.clone());
        if let Some(connected) = &self.connected {
            // A killed daemon no longer listens; it gets the report after its restart.
            let _ = connected.try_send(report);
        }
    }

    fn is_recorded(&self) -> bool {
        let recorded = self.recorded.as_ref().map_or(0, |recorded| *recorded.borrow());
        recorded >= self.reports.len() as u64
    }

    /// The agent answers every prompt with a text, a question and another text.
    fn take(&mut self, instruction: Instruction) -> Vec<Report> {
        self.taken.push(instruction.clone());
        let instruction_id = instruction.id;
        let delta = |text: &str| Event::Delta { item: "text".into(), text: text.into() };
        match instruction.order {
            Order::Prompt { .. } => {
                let (kind, message, parent) = (ItemKind::Thinking, None, None);
                let later = Event::ItemStarted { item: "later".into(), kind, message, parent };
                vec![
                    Report::Delivered(instruction_id),
                    Report::TurnStarted { origin: TurnOrigin::Prompt },
                    Report::Consumed { instruction_id, result: None },
                    event(delta("let ")),
                    event(delta("me ")),
                    event(delta("see")),
                    event(later),
                    ask("may-i"),
                ]
            }
            Order::Answer { .. } => {
                let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
                vec![
                    Report::Consumed { instruction_id, result: None },
                    event(delta(", done")),
                    event(finished("text", "let me see, done")),
                    event(finished("later", "I thought")),
                    Report::TurnEnded { result, raw: None },
                ]
            }
            _ => vec![Report::Consumed { instruction_id, result: None }],
        }
    }
}

fn event(event: Event) -> Report {
    Report::Event { event, raw: None }
}

/// Sends one report after the other, so that most of them have a commit of their own.
async fn say_all(agent: &Mutex<Running>, reports: Vec<Report>) {
    for report in reports {
        agent.lock().expect("one test").say(report);
        for _ in 0..10 {
            if agent.lock().expect("one test").is_recorded() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn ask(key: &str) -> Report {
    let ask = Ask::permission("Bash", serde_json::json!({ "command": "ls" }));
    Report::RequestOpened { key: key.into(), ask: Box::new(ask), parent: None, tool: None, raw: None }
}

/// An agent whose process does not belong to the daemon: it runs on the test's own runtime.
#[derive(Clone, Debug)]
struct Survivor {
    runtime: tokio::runtime::Handle,
    running: Arc<Mutex<BTreeMap<SessionId, Arc<Mutex<Running>>>>>,
    rejoined: Arc<AtomicUsize>,
}

impl Survivor {
    fn new() -> Self {
        let runtime = tokio::runtime::Handle::current();
        Self { runtime, running: Arc::default(), rejoined: Arc::default() }
    }

    fn of(&self, session: SessionId) -> Arc<Mutex<Running>> {
        Arc::clone(self.running.lock().expect("one test").get(&session).expect("it runs"))
    }

    /// Connects a daemon, which gets the reports that it lacks.
    fn connect(&self, running: &Arc<Mutex<Running>>, after: u64) -> AgentLink {
        let (instructions, mut told) = mpsc::channel(INSTRUCTIONS);
        let (reports, given) = mpsc::channel(REPORTS);
        let mut link = AgentLink::new(instructions, given);
        let (recorded, watched) = watch::channel(after);
        link.recorded = Some(recorded);
        {
            let mut agent = running.lock().expect("one test");
            for report in agent.reports.iter().skip(usize::try_from(after).expect("few")) {
                reports.try_send(report.clone()).expect("room");
            }
            (agent.connected, agent.recorded) = (Some(reports.clone()), Some(watched));
        }
        let (agent, stop) = (Arc::clone(running), link.stop.clone());
        self.runtime.spawn(async move {
            loop {
                tokio::select! {
                    instruction = told.recv() => match instruction {
                        Some(instruction) if is_connected(&agent, &reports) => {
                            let reports = agent.lock().expect("one test").take(instruction);
                            say_all(&agent, reports).await;
                        }
                        // Another daemon has connected: nobody reads this one any more.
                        _ => return,
                    },
                    () = stop.cancelled() => {
                        let (reason, message) = (ExitReason::Stopped, "stopped as asked".to_owned());
                        let (code, signal, stderr) = (Some(0), None, String::new());
                        let exit = Exit { reason, code, signal, message, stderr };
                        let mut agent = agent.lock().expect("one test");
                        if !agent.reports.iter().any(|report| matches!(report, Report::Exited(_))) {
                            agent.say(Report::Exited(exit));
                        }
                        return;
                    }
                }
            }
        });
        link
    }
}

fn is_connected(agent: &Mutex<Running>, reports: &mpsc::Sender<Report>) -> bool {
    let agent = agent.lock().expect("one test");
    agent.connected.as_ref().is_some_and(|connected| connected.same_channel(reports))
}

impl Agent for Survivor {
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn title(&self) -> String {
        "Survivor".into()
    }
    fn capabilities(&self) -> Capabilities {
        capabilities()
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async { Probe { available: true, message: "here".into(), ..Probe::default() } })
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let running = Arc::new(Mutex::new(Running {
            reports: Vec::new(),
            taken: Vec::new(),
            connected: None,
            recorded: None,
        }));
        self.running.lock().expect("one test").insert(launch.session, Arc::clone(&running));
        {
            let mut agent = running.lock().expect("one test");
            let capabilities = Box::new(capabilities());
            let (pid, version, protocol) = (Some(4242), Some("1.0".into()), NativeProtocol::Demo);
            agent.say(Report::Started { pid, version, holder: None, protocol, capabilities });
            let info = AgentInfo { agent_session: Some("agent-session".into()), ..AgentInfo::default() };
            agent.say(event(Event::AgentInfo { info: Box::new(info) }));
            agent.say(Report::Ready);
        }
        self.connect(&running, 0)
    }
    fn rejoin(&self, left: LeftRunning) -> Boxed<'_, Option<Rejoined>> {
        Box::pin(async move {
            self.rejoined.fetch_add(1, Ordering::Relaxed);
            let running = self.of(left.session);
            let link = self.connect(&running, left.recorded);
            let agent = running.lock().expect("one test");
            let taken: BTreeSet<InstructionId> =
                agent.taken.iter().map(|instruction| instruction.id).collect();
            let taken =
                left.unsettled.into_iter().filter(|instruction_id| taken.contains(instruction_id)).collect();
            Some(Rejoined { link, taken, away: Duration::ZERO })
        })
    }
}

async fn open(store: &Arc<MemoryStore>, agent: &Survivor) -> Registry {
    open_at(Clock::system(), store, agent).await
}

async fn open_at(clock: Clock, store: &Arc<MemoryStore>, agent: &Survivor) -> Registry {
    let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(agent.clone())];
    Registry::open(store, agents, clock, Policy::default()).await.expect("a registry")
}

/// A daemon that is killed at the end of its life, or a moment after the store took its last write. Returns the life's
/// result, if it got there.
fn killed<T, F>(
    store: &Arc<MemoryStore>,
    agent: &Survivor,
    life: impl FnOnce(Registry) -> F + Send + 'static,
) -> Option<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send,
{
    let (opened_over, agent) = (Arc::clone(store), agent.clone());
    let lived = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let lived = runtime.block_on(async move {
            let registry = open(&opened_over, &agent).await;
            let lived = tokio::select! {
                lived = life(registry.clone()) => Some(lived),
                () = no_more_is_written(&opened_over) => None,
            };
            // Nothing is ended in an orderly way.
            std::mem::forget(registry);
            lived
        });
        runtime.shutdown_background();
        lived
    });
    let lived = lived.join().expect("a life");
    store.lose();
    lived
}

async fn no_more_is_written(store: &MemoryStore) {
    while store.waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Time for work that does not wait for the store.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn id(name: &str) -> CommandId {
    name.parse().expect("an id")
}

/// A person's actions, repeated under the same ids after each restart: none of them is done twice.
async fn one_conversation(registry: Registry, session: SessionId) {
    let content = vec![Content::text("go")];
    registry.submit(&owner(), session, id("prompt"), Action::Prompt { content }).await.expect("taken in");
    let request = loop {
        let state = registry.snapshot(&owner(), session).await.expect("a state").state;
        let closed = state.closed_requests.first().map(|closed| closed.request);
        if let Some(request) = state.requests.first().map(|open| open.request).or(closed) {
            break request;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let answer = Action::Answer { request, digest: None, answer: Answer::allow(), persist: None };
    registry.submit(&owner(), session, id("answer"), answer).await.expect("taken in");
    until(&registry, session, |status| status == Status::Idle || status == Status::Terminated).await;
    registry.submit(&owner(), session, id("stop"), Action::Stop).await.expect("taken in");
    until(&registry, session, |status| status == Status::Terminated).await;
}

async fn until(registry: &Registry, session: SessionId, fits: impl Fn(Status) -> bool) {
    loop {
        let state = registry.snapshot(&owner(), session).await.expect("a state").state;
        if fits(state.summary.status) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Every report so far is acknowledged.
async fn recorded(agent: &Survivor, session: SessionId) {
    while !agent.of(session).lock().expect("one test").is_recorded() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The life of a daemon up to a request that waits, is recorded, and is in the inbox.
fn asked(
    store: &Arc<MemoryStore>,
    agent: &Survivor,
) -> impl FnOnce(Registry) -> Pin<Box<dyn Future<Output = SessionId> + Send>> + Send + 'static {
    asked_within(None, store, agent)
}

/// The same, with a deadline in seconds for the request.
fn asked_within(
    deadline_seconds: Option<u32>,
    store: &Arc<MemoryStore>,
    agent: &Survivor,
) -> impl FnOnce(Registry) -> Pin<Box<dyn Future<Output = SessionId> + Send>> + Send + 'static {
    let (store, agent) = (Arc::clone(store), agent.clone());
    let spec = SessionSpec { deadline_seconds, ..spec() };
    move |registry| {
        Box::pin(async move {
            let session = registry.create(&owner(), id("made"), spec).await.expect("a session").session;
            let prompt = Action::Prompt { content: vec![Content::text("go")] };
            registry.submit(&owner(), session, id("prompt"), prompt).await.expect("taken in");
            while store.records("inbox").await.expect("a store").is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            recorded(&agent, session).await;
            session
        })
    }
}

/// The durable entries of a session.
async fn entries(store: &MemoryStore, session: SessionId) -> Vec<Stored> {
    let log = LogId::Session(session);
    let last = store.load(log).await.expect("a store").expect("a log").last;
    store.read(log, Seq::ZERO, last, Page { entries: 1000, bytes: 1 << 20 }).await.expect("entries")
}

/// Everything durable that happened, in words without numbers and times.
async fn told(store: &MemoryStore, session: SessionId) -> Vec<String> {
    let entries = entries(store, session).await;
    let words = entries.iter().map(|entry| {
        let event = entry.decode::<Event>().expect("our own").event;
        match event {
            Event::RequestClosed { outcome, .. } => format!("request closed: {outcome:?}"),
            Event::RequestOpened { request } => format!("request opened: {:?}", request.ask),
            Event::Receipt { stage, .. } => format!("receipt: {stage:?}"),
            Event::CommandAccepted { action, .. } => format!("accepted: {}", action.name()),
            Event::Prompt { content, .. } => format!("prompt: {content:?}"),
            other => format!("{other:?}"),
        }
    });
    words.collect()
}

/// The waiting requests, according to the daemon's own log from its first entry on.
async fn inbox(registry: &Registry) -> Vec<String> {
    let mut reader = registry.watch(&owner(), Start::After(Seq::ZERO)).await.expect("a reader");
    let mut told = Vec::new();
    loop {
        match reader.next().await {
            Delivery::Entries(pieces) => {
                for piece in pieces {
                    match piece.entry().expect("readable").event.into_owned() {
                        DaemonEvent::RequestOpened { .. } => told.push("opened".to_owned()),
                        DaemonEvent::RequestClosed { outcome, .. } => {
                            told.push(format!("closed: {outcome:?}"));
                        }
                        _ => {}
                    }
                }
            }
            Delivery::Snapshot(snapshot) => {
                assert!(snapshot.state.requests.is_empty(), "nothing waits any more");
                return told;
            }
            _ => {}
        }
    }
}

// Marks, stored instructions, restored items and the inbox together.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_any_commit_does_not_change_the_work_of_an_agent_that_still_runs() {
    let expected = conversation_killed_after(usize::MAX).await;
    assert!(expected.finished, "nothing was in the way");
    let mut kills = 0;
    loop {
        let found = conversation_killed_after(kills).await;
        assert_eq!(found.told, expected.told, "killed after {kills} commits");
        assert_eq!(found.taken, expected.taken, "killed after {kills} commits");
        assert_eq!(found.inbox, expected.inbox, "killed after {kills} commits");
        if found.finished {
            break;
        }
        kills += 1;
    }
    assert!(kills > 5, "there were more commits than {kills}");
}

struct Conversation {
    /// The first daemon got to the end.
    finished: bool,
    told: Vec<String>,
    taken: Vec<String>,
    inbox: Vec<String>,
}

async fn conversation_killed_after(commits: usize) -> Conversation {
    let (store, agent) = (Arc::new(MemoryStore::new()), Survivor::new());
    let started = agent.clone();
    let begun = killed(&store, &agent, |registry| async move {
        let made = registry.create(&owner(), id("made"), spec()).await.expect("a session");
        until(&registry, made.session, |status| status == Status::Connected).await;
        recorded(&started, made.session).await;
        made.session
    });
    let session = begun.expect("a session");
    let first = Arc::clone(&store);
    let finished = killed(&store, &agent, move |registry| async move {
        until(&registry, session, |status| status == Status::Connected).await;
        if commits != usize::MAX {
            first.hold_after(commits);
        }
        one_conversation(registry, session).await;
    });
    let registry = open(&store, &agent).await;
    tokio::time::timeout(Duration::from_secs(20), one_conversation(registry.clone(), session))
        .await
        .expect("the second daemon comes to the end");
    let taken = agent
        .of(session)
        .lock()
        .expect("one test")
        .taken
        .iter()
        .map(|told| format!("{:?}", told.order))
        .collect();
    Conversation {
        finished: finished.is_some(),
        told: told(&store, session).await,
        taken,
        inbox: inbox(&registry).await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_text_is_restored_and_a_report_is_acknowledged_when_it_is_recorded() {
    let (store, agent) = (Arc::new(MemoryStore::new()), Survivor::new());
    let session = killed(&store, &agent, asked(&store, &agent)).expect("a session");
    let running = agent.of(session);
    let reports = running.lock().expect("one test").reports.len() as u64;
    let recorded = running.lock().expect("one test").recorded.clone().expect("a daemon was connected");
    assert_eq!(*recorded.borrow(), reports, "every report is acknowledged, with those that make no entry");
    let registry = open(&store, &agent).await;
    let state = registry.snapshot(&owner(), session).await.expect("a state").state;
    let items: Vec<_> =
        state.items.iter().map(|open| (open.item.as_str(), open.kind, open.text.as_str())).collect();
    assert_eq!(items, [("text", ItemKind::Text, "let me see"), ("later", ItemKind::Thinking, "")]);
    assert_eq!(state.requests.len(), 1, "the request still waits");
    assert_eq!(running.lock().expect("one test").taken.len(), 1, "the prompt was sent once");
    // More of the same item, and a held store: nothing uncommitted is acknowledged.
    store.hold();
    running.lock().expect("one test").say(event(Event::Delta { item: "text".into(), text: " …".into() }));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let recorded = running.lock().expect("one test").recorded.clone().expect("a daemon is connected");
    assert_eq!(*recorded.borrow(), reports, "what is not committed is not acknowledged");
    store.release();
    let mut acknowledged = recorded.clone();
    let wait = acknowledged.wait_for(|count| *count == reports + 1);
    tokio::time::timeout(Duration::from_secs(5), wait).await.expect("in time").expect("connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_of_an_agent_that_ended_with_its_daemon_is_emptied_before_anyone_is_let_in() {
    let store = Arc::new(MemoryStore::new());
    let agent = Survivor::new();
    killed(&store, &agent, asked(&store, &agent)).expect("a session");
    // The agents of this daemon end with it.
    let world = common::World::over(Arc::clone(&store), Policy::default()).await;
    let inbox = inbox(&world.registry).await;
    assert_eq!(inbox.len(), 2, "{inbox:?}");
    assert_eq!(inbox[0], "opened");
    assert!(inbox[1].starts_with("closed: AgentGone"), "{inbox:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_between_two_daemons_neither_denies_a_request_nor_gives_it_more_time() {
    const HOUR: i64 = 3_600_000;
    for jump in [24 * HOUR, -24 * HOUR, HOUR / 2, -HOUR / 2] {
        let (store, agent) = (Arc::new(MemoryStore::new()), Survivor::new());
        let life = asked_within(Some(3600), &store, &agent);
        let session = killed(&store, &agent, life).expect("a session");
        let before = entries(&store, session).await;
        let registry = open_at(Clock::new(move || Millis(Millis::now().0 + jump)), &store, &agent).await;
        let state = registry.snapshot(&owner(), session).await.expect("a state").state;
        let request = state.requests.first().expect("the request still waits");
        let left = request.deadline.expect("a deadline").0 - (Millis::now().0 + jump);
        // What a smaller jump takes cannot be told from time that has passed.
        let at_least = if jump == HOUR / 2 { HOUR / 3 } else { HOUR - 60_000 };
        assert!((at_least..=HOUR).contains(&left), "{left} ms after a jump of {jump} ms");
        let answer =
            Action::Answer { request: request.request, digest: None, answer: Answer::allow(), persist: None };
        registry.submit(&owner(), session, id("answer"), answer).await.expect("taken in");
        until(&registry, session, |status| status == Status::Idle).await;
        let after = entries(&store, session).await;
        assert_eq!(after[..before.len()], before, "nothing that was written has changed");
        assert!(after.is_sorted_by(|one, next| one.seq < next.seq), "each entry has a number of its own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_panics_rejoins_its_agent_at_once_but_not_again_and_again() {
    let (store, agent) = (Arc::new(MemoryStore::new()), Survivor::new());
    // The session's task looks at the clock when its agent reports something.
    let panics = Arc::new(AtomicBool::new(false));
    let fuse = Arc::clone(&panics);
    let clock = Clock::new(move || {
        assert!(!fuse.swap(false, Ordering::Relaxed), "the test wants this panic");
        Millis::now()
    });
    let registry = open_at(clock, &store, &agent).await;
    let session = asked(&store, &agent)(registry.clone()).await;
    let notice = |text: &str| Event::Notice { level: Level::Info, text: text.into() };
    let panic_at = async |text: &str| {
        // Nobody else has anything left to do.
        tokio::time::sleep(Duration::from_secs(5)).await;
        panics.store(true, Ordering::Relaxed);
        agent.of(session).lock().expect("one test").say(event(notice(text)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!panics.load(Ordering::Relaxed), "the session's task has panicked");
        agent.rejoined.load(Ordering::Relaxed)
    };
    let state = async || registry.snapshot(&owner(), session).await.expect("a state").state;
    let request = state().await.requests.first().expect("the request").request;

    assert_eq!(panic_at("first").await, 1, "nobody had to ask for the session");
    assert!(agent.of(session).lock().expect("one test").is_recorded());
    assert_eq!(panic_at("second").await, 1, "that was a short time ago");
    assert_eq!(state().await.requests.first().map(|open| open.request), Some(request));
    assert_eq!(agent.rejoined.load(Ordering::Relaxed), 2, "somebody asked for the session");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(panic_at("third").await, 3, "that was long ago");

    let answer = Action::Answer { request, digest: None, answer: Answer::allow(), persist: None };
    registry.submit(&owner(), session, id("answer"), answer).await.expect("taken in");
    until(&registry, session, |status| status == Status::Idle).await;
    let told = told(&store, session).await;
    for text in ["first", "second", "third"] {
        let notice = format!("{:?}", notice(text));
        assert_eq!(told.iter().filter(|one| **one == notice).count(), 1, "{told:?}");
    }
    assert_eq!(
        agent.of(session).lock().expect("one test").taken.len(),
        2,
        "the prompt and the answer, once each"
    );
}
