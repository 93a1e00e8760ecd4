//! Tests of the native protocol as a whole: a registry over memory, an agent that plays along, and clients.

mod allowed;
mod connection;
mod documented;
mod golden;
mod http;
mod standing;

use std::{collections::VecDeque, sync::Arc};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{
    Capabilities, Principal, Role, SessionId,
    capabilities::{Asks, NativeProtocol},
    event::{Content, Event, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult, plain_text},
    ports::{
        Agent, AgentLink, Boxed, Clock, INSTRUCTIONS, Instruction, Launch, Login, Order, Probe, REPORTS,
        Report,
    },
    registry::Registry,
    request::Ask,
    session::machine::Policy,
    spec::SpecOption,
};
use portolan_store::MemoryStore;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Metrics, Native, connection::serve};
use portolan_host::door::{
    AccessCheck, Admit, Authenticator as _, DoorSettings, Guest, Tickets, Tokens, Visitor,
};

// ------------------------------------------------------------------------------------- the agent

/// Does what a prompt says: `say WORDS` streams them, `ask` asks for permission, `flood N` streams N KiB.
#[derive(Debug)]
struct Obedient;

impl Agent for Obedient {
    fn kind(&self) -> &'static str {
        "obedient"
    }
    fn title(&self) -> String {
        "Obedient".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            interrupt: true,
            native_protocol: NativeProtocol::Demo,
            ..Capabilities::default()
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        let found = Probe {
            available: true,
            version: Some("1.0".into()),
            message: "at /opt/obedient".into(),
            program: Some("/opt/obedient".into()),
            login: Some(Login::LoggedIn { how: "by ada@example.org".into() }),
            ..Probe::default()
        };
        Box::pin(std::future::ready(found))
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (done, reports) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let end = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = play(launch, wanted, done.clone()) => {}
                () = end.cancelled() => {}
            }
            let exit = Exit {
                reason: ExitReason::Stopped,
                code: Some(0),
                signal: None,
                message: "stopped".into(),
                stderr: String::new(),
            };
            let _ = done.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports, stop, kill, recorded: None }
    }
}

/// Does the same, and takes whatever a session can be made of and be asked.
#[derive(Debug)]
struct Willing;

impl Agent for Willing {
    fn kind(&self) -> &'static str {
        "willing"
    }
    fn title(&self) -> String {
        "Willing".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            steering: true,
            session_resume: true,
            model_switching: true,
            permission_modes: true,
            permission_mode_switching_mid_session: true,
            mcp: true,
            mcp_changes: true,
            edited_input: true,
            image_input: true,
            file_checkpointing: true,
            session_fork: true,
            session_fork_at: true,
            thinking_budget: true,
            environment: true,
            context_usage: true,
            background_tasks: true,
            passthrough: true,
            options: SpecOption::ALL.to_vec(),
            mode_asks: [("ask", Asks::Everything), ("off", Asks::Nothing)]
                .map(|(mode, asks)| (mode.into(), asks))
                .into(),
            ..Obedient.capabilities()
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Obedient.probe()
    }
    fn start(&self, launch: Launch) -> AgentLink {
        Obedient.start(launch)
    }
}

type Done = mpsc::Sender<Report>;
type Played = Result<(), mpsc::error::SendError<Report>>;

async fn play(launch: Launch, mut wanted: mpsc::Receiver<Instruction>, done: Done) -> Played {
    let is_willing = launch.spec.agent == Willing.kind();
    let capabilities = Box::new(if is_willing { Willing.capabilities() } else { Obedient.capabilities() });
    done.send(Report::Started { pid: None, version: None, protocol: NativeProtocol::Demo, capabilities })
        .await?;
    done.send(Report::Ready).await?;
    let mut turn = 0;
    while let Some(Instruction { ticket, order }) = wanted.recv().await {
        done.send(Report::Delivered(ticket)).await?;
        done.send(Report::Consumed { ticket, result: None }).await?;
        match order {
            Order::Prompt { content } => {
                turn += 1;
                let item = format!("{}-{turn}", launch.generation);
                done.send(Report::TurnStarted { origin: TurnOrigin::Prompt }).await?;
                obey(&plain_text(&content), item, &done).await?;
            }
            Order::Answer { answer, .. } => {
                say(&format!("{answer:?}"), format!("answer-{}", ticket.0), &done).await?;
                end(&done).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn obey(words: &str, item: String, done: &Done) -> Played {
    match words.split_once(' ') {
        Some(("say", words)) => say(words, item, done).await?,
        Some(("flood", kib)) => flood(kib.parse().unwrap(), item, done).await?,
        _ => {
            let ask = Ask::Permission {
                tool_name: "Bash".into(),
                input: json!({"command": "ls"}),
                description: None,
                changes: vec![],
                reason: None,
                blocked_path: None,
                suggestions: vec![],
                options: vec![],
            };
            let raw = Some(bytes::Bytes::from_static(b"the agent's own words"));
            let opened =
                Report::RequestOpened { key: item, ask: Box::new(ask), parent: None, tool: None, raw };
            return done.send(opened).await;
        }
    }
    end(done).await
}

async fn end(done: &Done) -> Played {
    let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
    done.send(Report::TurnEnded { result, raw: None }).await
}

async fn event(event: Event, done: &Done) -> Played {
    done.send(Report::Event { event, raw: None }).await
}

async fn say(words: &str, item: String, done: &Done) -> Played {
    let started =
        Event::ItemStarted { item: item.clone(), kind: ItemKind::Text, message: None, parent: None };
    event(started, done).await?;
    for word in words.split_inclusive(' ') {
        event(Event::Delta { item: item.clone(), text: word.into() }, done).await?;
    }
    event(message(item, words), done).await
}

async fn flood(kib: usize, item: String, done: &Done) -> Played {
    let started =
        Event::ItemStarted { item: item.clone(), kind: ItemKind::Text, message: None, parent: None };
    event(started, done).await?;
    for _ in 0..kib {
        event(Event::Delta { item: item.clone(), text: "x".repeat(1024) }, done).await?;
    }
    event(message(item, &"x".repeat(kib * 1024)), done).await
}

fn message(item: String, words: &str) -> Event {
    Event::Message {
        item,
        message: None,
        parent: None,
        model: None,
        content: vec![Content::text(words)],
        interrupted: false,
        stop_reason: None,
    }
}

// ------------------------------------------------------------------------------------- the stand

/// Everything behind a connection.
struct Stand {
    native: Native,
    store: Arc<MemoryStore>,
    settings: DoorSettings,
}

impl Stand {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut DoorSettings)) -> Self {
        Self::of(vec![Arc::new(Obedient)], Policy::default(), change).await
    }

    /// One with these agents.
    async fn under(agents: Vec<Arc<dyn Agent>>, policy: Policy) -> Self {
        Self::of(agents, policy, |_| {}).await
    }

    async fn of(agents: Vec<Arc<dyn Agent>>, policy: Policy, change: impl FnOnce(&mut DoorSettings)) -> Self {
        let (store, clock) = (Arc::new(MemoryStore::new()), Clock::system());
        let registry = Registry::open(store.clone(), agents, clock.clone(), policy).await.unwrap();
        let tokens = Tokens::open(store.clone(), clock.clone()).await.unwrap();
        let tickets = Tickets::open(store.clone(), clock.clone(), tokens.clone()).await.unwrap();
        let mut settings =
            DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
        change(&mut settings);
        let access = AccessCheck::new(&settings, tokens.clone(), tickets, clock).unwrap();
        let native = Native {
            registry,
            access: Arc::new(access.admitting(Admit::open(super::is_open)).unwrap()),
            tokens,
            version: "0.0.0".into(),
            incarnation: None,
            metrics: Metrics::new(),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        Self { native, store, settings }
    }

    /// Someone with a new token.
    async fn someone(&self, name: &str, role: Role) -> Principal {
        let (info, _) = self.native.tokens.create(name, role, None, None).await.unwrap();
        Principal { token: info.token, name: info.name, role, sessions: None, via: "test".into() }
    }

    /// A connection before its hello; the network holds `room` bytes each way.
    fn connect(&self, who: &Principal, room: usize) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(room);
        let standing = self.native.tokens.standing(&who.token);
        let stay = standing.map(|standing| standing.stay).unwrap_or_default();
        let visitor = Visitor::Known(Guest(who.clone()), stay);
        (ours, self.native.connections.spawn(serve(self.native.clone(), visitor, theirs)))
    }

    /// A client that has said hello.
    async fn client(&self, name: &str, role: Role) -> Client<DuplexStream> {
        let who = self.someone(name, role).await;
        self.client_of(&who, 64 * 1024).await
    }

    async fn client_of(&self, who: &Principal, room: usize) -> Client<DuplexStream> {
        let mut client = Client::over(self.connect(who, room).0).await;
        client.hello().await;
        client
    }
}

// ------------------------------------------------------------------------------------ the client

/// A client by another implementation of WebSocket than ours.
struct Client<S> {
    socket: WebSocketStream<S>,
    /// Frames that came while another one was waited for.
    early: VecDeque<Value>,
    next_id: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn over(io: S) -> Self {
        let socket = WebSocketStream::from_raw_socket(io, protocol::Role::Client, None).await;
        Self { socket, early: VecDeque::new(), next_id: 0 }
    }

    async fn hello(&mut self) -> Value {
        self.send(json!({"type": "hello", "protocol": 1, "client": {"name": "test"}})).await;
        let welcome = self.next().await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        welcome
    }

    async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next frame as it comes.
    async fn next(&mut self) -> Value {
        match self.early.pop_front() {
            Some(frame) => frame,
            None => self.fresh().await,
        }
    }

    async fn fresh(&mut self) -> Value {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no frame but {other:?}"),
            }
        }
    }

    /// The close code, after every frame that still came.
    async fn closed(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut frames: Vec<Value> = self.early.drain(..).collect();
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => frames.push(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return (frames, frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (frames, None),
            }
        }
    }

    /// Asks, and gives the reply or error; other frames wait for [`Client::next`].
    async fn ask(&mut self, mut frame: Value) -> Value {
        self.next_id += 1;
        let id = format!("t-{}", self.next_id);
        frame["id"] = id.clone().into();
        self.send(frame).await;
        loop {
            let frame = self.fresh().await;
            if frame["id"] == id.as_str() {
                return frame;
            }
            self.early.push_back(frame);
        }
    }

    /// Frames up to the first that fits, which is the last of them.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            let last = fits(&frame);
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }

    async fn until_event(&mut self, kind: &str) -> Vec<Value> {
        self.until(|frame| frame["event"]["type"] == kind).await
    }

    async fn create(&mut self, prompt: &str) -> SessionId {
        let spec = json!({"agent": "obedient", "cwd": "/", "prompt": text(prompt)});
        let reply = self.ask(json!({"type": "create", "spec": spec})).await;
        serde_json::from_value(reply["session"]["session"].clone()).unwrap_or_else(|_| panic!("{reply}"))
    }

    async fn attach(&mut self, session: SessionId, start: Value) -> Value {
        self.ask(json!({"type": "attach", "session": session, "start": start})).await
    }

    async fn command(&mut self, session: SessionId, command: Value) -> Value {
        self.ask(json!({"type": "command", "session": session, "command": command})).await
    }
}

fn text(words: &str) -> Value {
    if words.is_empty() { json!([]) } else { json!([{"type": "text", "text": words}]) }
}

/// The text of an item, from its deltas.
fn streamed(frames: &[Value]) -> String {
    frames
        .iter()
        .filter(|frame| frame["event"]["type"] == "delta")
        .filter_map(|frame| frame["event"]["text"].as_str())
        .collect()
}

/// The numbers of entries.
fn seqs(frames: &[Value]) -> Vec<u64> {
    frames
        .iter()
        .filter(|frame| frame["type"] == "entry")
        .map(|frame| frame["seq"].as_u64().unwrap())
        .collect()
}
