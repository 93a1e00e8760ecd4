//! A registry over a store in memory, with an agent that does what the test says.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use portolan_core::{
    Action, Capabilities, CommandId, Event, Principal, Role, Seq, SessionId, SessionSpec, TokenId,
    capabilities::{Asks, NativeProtocol},
    event::{AgentInfo, Content, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult},
    log::delivery::{Delivery, Mode, Start},
    ports::{
        Account, Agent, AgentLink, Boxed, Clock, INSTRUCTIONS, Instruction, Launch, LoginWay, Means, Order,
        Past, Probe, REPORTS, Report, Store, Ticket,
    },
    registry::{Registry, SessionReader},
    request::Ask,
    session::machine::Policy,
    spec::SpecOption,
};
use portolan_store::MemoryStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The test's end of a running agent.
pub(crate) struct Puppet {
    pub(crate) launch: Launch,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) instructions: mpsc::Receiver<Instruction>,
    pub(crate) stop: CancellationToken,
}

impl Puppet {
    pub(crate) async fn say(&self, report: Report) {
        self.reports.send(report).await.expect("the session listens");
    }

    pub(crate) async fn event(&self, event: Event) {
        self.say(Report::Event { event, raw: None }).await;
    }

    pub(crate) async fn ready(&self) {
        let capabilities = Box::new(capabilities());
        let (pid, version, protocol) = (Some(4242), Some("1.0".into()), NativeProtocol::Demo);
        self.say(Report::Started { pid, version, protocol, capabilities }).await;
        let info = AgentInfo { agent_session: Some("agent-session".into()), ..AgentInfo::default() };
        self.event(Event::AgentInfo { info: Box::new(info) }).await;
        self.say(Report::Ready).await;
    }

    pub(crate) async fn told(&mut self) -> Instruction {
        let told = tokio::time::timeout(Duration::from_secs(5), self.instructions.recv()).await;
        told.expect("the agent is told something").expect("the session lives")
    }

    pub(crate) async fn take_prompt(&mut self) -> Ticket {
        let instruction = self.told().await;
        assert!(matches!(instruction.order, Order::Prompt { .. }), "{instruction:?}");
        self.say(Report::Delivered(instruction.ticket)).await;
        self.say(Report::TurnStarted { origin: TurnOrigin::Prompt }).await;
        self.say(Report::Consumed { ticket: instruction.ticket, result: None }).await;
        instruction.ticket
    }

    pub(crate) async fn begin_item(&self, item: &str) {
        let (kind, message, parent) = (ItemKind::Text, None, None);
        self.event(Event::ItemStarted { item: item.into(), kind, message, parent }).await;
    }

    pub(crate) async fn delta(&self, item: &str, text: &str) {
        self.event(Event::Delta { item: item.into(), text: text.into() }).await;
    }

    pub(crate) async fn finish_item(&self, item: &str, text: &str) {
        self.event(message(item, text)).await;
    }

    pub(crate) async fn end_turn(&self) {
        let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
        self.say(Report::TurnEnded { result, raw: None }).await;
    }

    pub(crate) async fn ask(&self, key: &str) {
        let ask = Ask::Permission {
            tool_name: "Bash".into(),
            input: serde_json::json!({ "command": "ls" }),
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        };
        self.say(Report::RequestOpened {
            key: key.into(),
            ask: Box::new(ask),
            parent: None,
            tool: None,
            raw: None,
        })
        .await;
    }

    pub(crate) async fn exit(&self, reason: ExitReason) {
        let exit =
            Exit { reason, code: Some(0), signal: None, message: "it ended".into(), stderr: String::new() };
        self.say(Report::Exited(exit)).await;
    }
}

pub(crate) fn message(item: &str, text: &str) -> Event {
    Event::Message {
        item: item.into(),
        message: Some(format!("m-{item}")),
        parent: None,
        model: None,
        content: vec![Content::text(text)],
        interrupted: false,
        stop_reason: None,
    }
}

/// An agent whose every start hands a [`Puppet`] to the test.
#[derive(Debug)]
struct Fake {
    starts: mpsc::Sender<Puppet>,
    past: Option<Arc<dyn Past>>,
    account: Option<Arc<dyn Account>>,
}

pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        interrupt: true,
        session_resume: true,
        reliable_resume: true,
        mcp: true,
        mcp_changes: true,
        session_fork: true,
        session_fork_at: true,
        model_switching: true,
        environment: true,
        past_archive: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        passthrough: true,
        mode_asks: [("ask", Asks::Everything), ("edit", Asks::Some), ("off", Asks::Nothing)]
            .map(|(mode, asks)| (mode.to_owned(), asks))
            .into(),
        options: SpecOption::ALL.to_vec(),
        ..Capabilities::default()
    }
}

impl Agent for Fake {
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn title(&self) -> String {
        "Fake".into()
    }
    fn capabilities(&self) -> Capabilities {
        let logins = [LoginWay::Browser, LoginWay::ApiKey].into_iter().filter(|_| self.account.is_some());
        Capabilities { logins: logins.collect(), ..capabilities() }
    }
    fn environment(&self, spec: &SessionSpec) -> Result<indexmap::IndexMap<String, String>, String> {
        if spec.env.contains_key("LD_PRELOAD") {
            return Err("`LD_PRELOAD` is refused".into());
        }
        Ok(spec.env.clone())
    }
    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        match means {
            Means::Message(body) => body["off"].as_str().map(str::to_owned),
            Means::Choice(option) => (option == "ask-no-more").then(|| option.to_owned()),
            Means::Variables(variables) => variables.get_key_value("OFF").map(|(name, _)| name.clone()),
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            Probe { available: true, version: None, message: "here".into(), ..Probe::default() }
        })
    }
    fn past(&self) -> Option<Arc<dyn Past>> {
        self.past.clone()
    }
    fn account(&self) -> Option<Arc<dyn Account>> {
        self.account.clone()
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions_in, instructions) = mpsc::channel(INSTRUCTIONS);
        let (reports, reports_out) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let asked_to_stop = stop.clone();
        let last_word = reports.downgrade();
        tokio::spawn(async move {
            asked_to_stop.cancelled().await;
            if let Some(reports) = last_word.upgrade() {
                let message = "stopped as asked".to_owned();
                let exit = Exit {
                    reason: ExitReason::Stopped,
                    code: Some(0),
                    signal: None,
                    message,
                    stderr: String::new(),
                };
                let _ = reports.send(Report::Exited(exit)).await;
            }
        });
        self.starts
            .try_send(Puppet { launch, reports, instructions, stop: stop.clone() })
            .expect("the test takes every start");
        AgentLink { instructions: instructions_in, reports: reports_out, stop, kill, recorded: None }
    }
}

/// What an agent has beside its sessions.
#[derive(Default)]
struct Kept {
    past: Option<Arc<dyn Past>>,
    account: Option<Arc<dyn Account>>,
}

/// A registry and the agents it starts.
pub(crate) struct World {
    pub(crate) registry: Registry,
    pub(crate) store: Arc<MemoryStore>,
    starts: Mutex<mpsc::Receiver<Puppet>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), Policy::default()).await
    }

    pub(crate) async fn over(store: Arc<MemoryStore>, policy: Policy) -> Self {
        Self::at(Clock::system(), store, policy).await
    }

    pub(crate) async fn at(clock: Clock, store: Arc<MemoryStore>, policy: Policy) -> Self {
        Self::made(clock, store, policy, Kept::default()).await
    }

    /// One whose agent has kept conversations.
    pub(crate) async fn with_past(store: Arc<MemoryStore>, policy: Policy, past: Arc<dyn Past>) -> Self {
        let kept = Kept { past: Some(past), account: None };
        Self::made(Clock::system(), store, policy, kept).await
    }

    /// One whose agent has an account.
    pub(crate) async fn with_account(account: Arc<dyn Account>) -> Self {
        let kept = Kept { past: None, account: Some(account) };
        Self::made(Clock::system(), Arc::new(MemoryStore::new()), Policy::default(), kept).await
    }

    async fn made(clock: Clock, store: Arc<MemoryStore>, policy: Policy, kept: Kept) -> Self {
        let Kept { past, account } = kept;
        let (starts, started) = mpsc::channel(64);
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let registry =
            Registry::open(shared, vec![Arc::new(Fake { starts, past, account })], clock, policy).await;
        Self { registry: registry.expect("a registry"), store, starts: Mutex::new(started) }
    }

    /// An agent that was started and not taken yet.
    pub(crate) fn started(&self) -> Option<Puppet> {
        self.starts.lock().expect("one test").try_recv().ok()
    }

    pub(crate) async fn puppet(&self) -> Puppet {
        for _ in 0..500 {
            if let Some(puppet) = self.started() {
                return puppet;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no agent was started");
    }

    pub(crate) async fn session(&self) -> (SessionId, Puppet) {
        let summary = self.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
        let puppet = self.puppet().await;
        puppet.ready().await;
        (summary.session, puppet)
    }

    pub(crate) async fn attach(&self, session: SessionId, start: Start) -> Reader {
        let reader = self.registry.attach(&owner(), session, start, Mode::Every).await.expect("a reader");
        Reader { reader, seen: Vec::new() }
    }

    pub(crate) async fn prompt(&self, session: SessionId, text: &str) -> Seq {
        let action = Action::Prompt { content: vec![Content::text(text)] };
        self.registry.submit(&owner(), session, CommandId::random(), action).await.expect("taken in").seq
    }
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec { agent: "fake".into(), cwd: std::env::temp_dir(), ..SessionSpec::default() }
}

pub(crate) fn principal(name: &str, role: Role) -> Principal {
    let token: TokenId = name.parse().expect("an id");
    Principal { token, name: name.into(), role, sessions: None, via: "test".into() }
}

pub(crate) fn owner() -> Principal {
    principal("owner", Role::Owner)
}

/// A reader that remembers what it was given.
pub(crate) struct Reader {
    pub(crate) reader: SessionReader,
    /// Number and event of every entry, in the order of arrival.
    pub(crate) seen: Vec<(Seq, Event)>,
}

impl Reader {
    /// Reads until an entry fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        let wait = async {
            loop {
                if let Delivery::Entries(pieces) = self.reader.next().await {
                    let mut found = None;
                    for piece in pieces {
                        let entry = piece.entry().expect("readable");
                        self.seen.push((entry.seq, entry.event.clone().into_owned()));
                        if found.is_none() && fits(&entry.event) {
                            found = Some(entry.event.into_owned());
                        }
                    }
                    if let Some(found) = found {
                        return found;
                    }
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("the entry arrives")
    }

    /// All the text of an item that has arrived.
    pub(crate) fn text(&self, item: &str) -> String {
        let deltas = self.seen.iter().filter_map(|(_, event)| match event {
            Event::Delta { item: of, text } if of == item => Some(text.as_str()),
            _ => None,
        });
        deltas.collect()
    }
}
