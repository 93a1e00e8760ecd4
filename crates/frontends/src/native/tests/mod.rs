//! Tests of the native protocol as a whole: a registry in memory, an agent for tests, and clients.

mod allowed;
mod connection;
mod documented;
mod folds;
mod golden;
mod http;
mod standing;

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use portolan_core::{
    Capabilities, Principal, Role, SessionId,
    capabilities::{Asks, NativeProtocol},
    event::{AgentInfo, Exit, TurnOutcome, TurnResult, plain_text},
    ports::{Agent, Boxed, Login, Probe},
    session::machine::Policy,
    spec::SpecOption,
};
use portolan_testkit::agents::{Played, Puppet, Strings, permission};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Metrics, Native, connection::serve};
use crate::testing::{Behind, Frames};
use portolan_host::door::{Admit, Authenticator as _, DoorSettings, Guest, Visitor};

// ------------------------------------------------------------------------------------- the agent

/// Does what a prompt says: `say WORDS` streams them, `ask` asks for permission, `flood N` streams N KiB.
fn obedient() -> Arc<Puppet> {
    Arc::new(obeying("obedient", abilities()))
}

/// The same, and accepts every session option and every action.
fn willing() -> Arc<Puppet> {
    let capabilities = Capabilities {
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
        ..abilities()
    };
    Arc::new(obeying("willing", capabilities))
}

fn abilities() -> Capabilities {
    Capabilities {
        streaming: true,
        interrupt: true,
        native_protocol: NativeProtocol::Demo,
        ..Capabilities::default()
    }
}

fn obeying(kind: &str, capabilities: Capabilities) -> Puppet {
    let probe = Probe {
        available: true,
        version: Some("1.0".into()),
        message: "at /opt/obedient".into(),
        program: Some("/opt/obedient".into()),
        login: Some(Login::LoggedIn { how: "by ada@example.org".into() }),
        ..Probe::default()
    };
    Puppet::new(kind).with_capabilities(capabilities).with_probe(probe).playing(obey)
}

fn obey(strings: &mut Strings) -> Boxed<'_, Exit> {
    Box::pin(async move {
        strings.ready_as(AgentInfo::default()).await;
        strings
            .act(|strings, content| Box::pin(async move { scene(strings, &plain_text(&content)).await }))
            .await
    })
}

async fn scene(strings: &mut Strings, words: &str) -> Played {
    match words.split_once(' ') {
        Some(("say", words)) => strings.stream(words.split_inclusive(' ')).await,
        Some(("flood", kib)) => {
            let (count, piece) = (kib.parse().unwrap(), "x".repeat(1024));
            strings.stream(std::iter::repeat_n(piece.as_str(), count)).await;
        }
        _ => {
            let ask = permission("Bash", json!({"command": "ls"}));
            let answer = strings.answer_to(ask, None, None).await?;
            strings.stream(format!("{answer:?}").split_inclusive(' ')).await;
        }
    }
    Ok(TurnResult::bare(TurnOutcome::Completed))
}

// ------------------------------------------------------------------------------------- the stand

/// Everything behind a connection.
struct Stand {
    native: Native,
    behind: Behind,
}

impl Stand {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut DoorSettings)) -> Self {
        Self::of(vec![obedient()], Policy::default(), change).await
    }

    /// One with these agents.
    async fn under(agents: Vec<Arc<dyn Agent>>, policy: Policy) -> Self {
        Self::of(agents, policy, |_| {}).await
    }

    async fn of(agents: Vec<Arc<dyn Agent>>, policy: Policy, change: impl FnOnce(&mut DoorSettings)) -> Self {
        let mut behind = Behind::new(agents, policy).await;
        change(&mut behind.door);
        let native = Native {
            registry: behind.registry.clone(),
            access: Arc::new(behind.access().await.admitting(Admit::open(super::is_open)).unwrap()),
            tokens: behind.tokens.clone(),
            version: "0.0.0".into(),
            incarnation: None,
            metrics: Metrics::new(),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        Self { native, behind }
    }

    /// A person with a new token.
    async fn someone(&self, name: &str, role: Role) -> Principal {
        self.behind.someone(name, role).await.0
    }

    /// A connection before its `hello`; the network buffers `room` bytes each way.
    fn connect(&self, who: &Principal, room: usize) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(room);
        let standing = self.native.tokens.standing(&who.token);
        let stay = standing.map(|standing| standing.stay).unwrap_or_default();
        let visitor = Visitor::Known(Guest(who.clone()), stay);
        (ours, self.native.connections.spawn(serve(self.native.clone(), visitor, theirs)))
    }

    /// A client that has sent `hello`.
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

/// A client of the native protocol.
struct Client<S> {
    frames: Frames<S>,
    next_id: u32,
}

impl<S> Deref for Client<S> {
    type Target = Frames<S>;
    fn deref(&self) -> &Self::Target {
        &self.frames
    }
}

impl<S> DerefMut for Client<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.frames
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn over(io: S) -> Self {
        // Some tests use a paused clock, so the test runner limits their time.
        Self { frames: Frames::over(io, |_| {}, Duration::MAX).await, next_id: 0 }
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

    /// Sends a call and returns the reply or error; other frames wait for [`Client::next`].
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

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until_fits(fits).await
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
