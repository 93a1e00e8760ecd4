//! Tests of the dashboard: what entries become, what messages do, and who gets in. Everything that is sent or received
//! is held against the schema in the repository.

mod connection;
mod door;
mod hostile;
mod projector;
mod puppet;
pub(crate) mod recorded;

use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use jsonschema::Validator;
use portolan_core::{Principal, Role, SessionId, ports::Clock, registry::Registry, session::machine::Policy};
use portolan_store::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::puppet::Puppet;
use super::{Insights, Settings, connection::serve, enter::Visitor};
use portolan_host::door::{AccessCheck, Admit, Authenticator as _, DoorSettings, Tickets, Tokens};

/// How long anything may take before a test gives up on it. Far longer than it ever should.
const PATIENCE: Duration = Duration::from_mins(1);

// ------------------------------------------------------------------------------------ the schema

fn schema_of(name: &str) -> Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/insights.schema.json");
    let text = std::fs::read_to_string(path).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema.as_object_mut().unwrap().remove("anyOf");
    schema["$ref"] = format!("#/$defs/{name}").into();
    jsonschema::validator_for(&schema).unwrap()
}

static CLIENT: LazyLock<Validator> = LazyLock::new(|| schema_of("ClientMessage"));
static SERVER: LazyLock<Validator> = LazyLock::new(|| schema_of("ServerMessage"));

fn fits(schema: &Validator, message: &Value) {
    let problems: Vec<String> = schema.iter_errors(message).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{message} does not fit the schema: {problems:?}");
}

// ------------------------------------------------------------------------------------- the stand

/// Everything behind a connection.
struct Stand {
    insights: Insights,
    tokens: Arc<Tokens>,
    store: Arc<MemoryStore>,
    door: DoorSettings,
}

impl Stand {
    async fn new() -> Self {
        Self::with(Settings { agent: "puppet".into(), ..Settings::default() }).await
    }

    async fn with(settings: Settings) -> Self {
        Self::under(settings, Policy::default()).await
    }

    async fn under(settings: Settings, policy: Policy) -> Self {
        Self::built(|_| {}, settings, policy).await
    }

    /// Behind a door with other settings.
    async fn behind(change: impl FnOnce(&mut DoorSettings), settings: Settings) -> Self {
        Self::built(change, settings, Policy::default()).await
    }

    async fn built(change: impl FnOnce(&mut DoorSettings), settings: Settings, policy: Policy) -> Self {
        let (store, clock) = (Arc::new(MemoryStore::new()), Clock::system());
        let registry =
            Registry::open(store.clone(), vec![Arc::new(Puppet)], clock.clone(), policy).await.unwrap();
        let tokens = Tokens::open(store.clone(), clock.clone()).await.unwrap();
        let tickets = Tickets::open(store.clone(), clock.clone(), tokens.clone()).await.unwrap();
        let mut door =
            DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
        change(&mut door);
        let access = AccessCheck::new(&door, tokens.clone(), tickets, clock).unwrap();
        let access = Arc::new(access.admitting(Admit::late(super::is_late_on_own)).unwrap());
        let insights = Insights {
            registry,
            access,
            settings: Arc::new(settings),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        Self { insights, tokens, store, door }
    }

    /// Someone with a new token, and its secret.
    async fn someone(&self, name: &str, role: Role) -> (Principal, String) {
        let (info, secret) = self.tokens.create(name, role, None, None).await.unwrap();
        (Principal { token: info.token, name: info.name, role, sessions: None, via: "test".into() }, secret)
    }

    /// A client of someone with this role.
    async fn client(&self, name: &str, role: Role) -> Client<DuplexStream> {
        let (who, _) = self.someone(name, role).await;
        self.client_of(&who, 64 * 1024).await
    }

    /// A client of this person; the network holds `room` bytes each way.
    async fn client_of(&self, who: &Principal, room: usize) -> Client<DuplexStream> {
        let (ours, theirs) = duplex(room);
        let stay = self.tokens.standing(&who.token).map(|standing| standing.stay).unwrap_or_default();
        let visitor = Visitor::Known(who.clone(), stay);
        self.insights.connections.spawn(serve(self.insights.clone(), visitor, theirs));
        Client::over(ours).await
    }
}

// ------------------------------------------------------------------------------------ the client

/// A client by another implementation of WebSocket than ours.
struct Client<S> {
    socket: WebSocketStream<S>,
    /// Messages that came while another one was waited for.
    early: VecDeque<Value>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn over(io: S) -> Self {
        let socket = WebSocketStream::from_raw_socket(io, protocol::Role::Client, None).await;
        Self { socket, early: VecDeque::new() }
    }

    /// Sends a message that fits the schema.
    async fn send(&mut self, kind: &str, payload: Value) {
        self.send_as(&uuid::Uuid::new_v4().to_string(), kind, payload).await;
    }

    async fn send_as(&mut self, id: &str, kind: &str, payload: Value) {
        let message = json!({"type": kind, "id": id, "payload": payload});
        fits(&CLIENT, &message);
        self.send_text(&message.to_string()).await;
    }

    async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message as it comes.
    async fn next(&mut self) -> Value {
        if let Some(message) = self.early.pop_front() {
            return message;
        }
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match next.unwrap_or_else(|_| panic!("no message came")) {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    fits(&SERVER, &message);
                    return message;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no message but {other:?}"),
            }
        }
    }

    /// The close code, after every message that still came.
    async fn closed(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut messages: Vec<Value> = self.early.drain(..).collect();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match next.unwrap_or_else(|_| panic!("it was not closed")) {
                Some(Ok(Message::Text(text))) => messages.push(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return (messages, frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (messages, None),
            }
        }
    }

    /// Messages up to the first of this type, which is the last of them.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        self.until_fits(|message| message["type"] == kind).await
    }

    async fn until_fits(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await;
            let last = fits(&message);
            messages.push(message);
            if last {
                return messages;
            }
        }
    }

    /// The next message of this type, all of them before it left out.
    async fn one(&mut self, kind: &str) -> Value {
        self.until(kind).await.pop().unwrap()["payload"].clone()
    }

    /// The next error: its code and its words.
    async fn error(&mut self) -> (String, String) {
        let error = self.one("error").await;
        (error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    }

    /// A new session that does what the prompt says.
    async fn create(&mut self, prompt: &str) -> String {
        self.create_with(json!({"prompt": prompt})).await
    }

    async fn create_with(&mut self, more: Value) -> String {
        let mut payload =
            json!({"cwd": "/", "prompt": "", "allowed_tools": [], "permission_mode": null, "model": null});
        for (key, value) in more.as_object().unwrap() {
            payload[key] = value.clone();
        }
        self.send("session.create", payload).await;
        self.one("session.created").await["session_id"].as_str().unwrap().to_owned()
    }
}

/// Types and, where there is one, the agent: what happened in which order.
fn outline(messages: &[Value]) -> Vec<String> {
    let line = |message: &Value| {
        let payload = &message["payload"];
        let text = |key: &str| payload[key].as_str().map(str::to_owned);
        let detail = text("status").or_else(|| text("tool_use_id")).or_else(|| text("content"));
        let parts = [message["type"].as_str().map(str::to_owned), text("agent_id"), detail];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    messages.iter().map(line).collect()
}

fn id(session: &str) -> SessionId {
    session.parse().unwrap()
}
