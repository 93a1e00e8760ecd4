//! Tests of the dashboard: the projection of entries, the effects of messages, and access. Every message is checked
//! against the schema in the repository.

mod connection;
mod door;
mod hostile;
mod projector;
mod puppet;
mod recorded;

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, LazyLock},
};

use jsonschema::Validator;
use portolan_core::{Principal, Role, SessionId, session::machine::Policy};
use portolan_testkit::sessions::PATIENCE;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::puppet::puppet;
use super::{Insights, Settings, connection::serve, enter::Visitor};
use crate::testing::{Behind, Frames};
use portolan_host::door::{Admit, Authenticator as _, DoorSettings};

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

fn is_of_the_server(message: &Value) {
    fits(&SERVER, message);
}

// ------------------------------------------------------------------------------------- the stand

/// Everything behind a connection.
struct Stand {
    insights: Insights,
    behind: Behind,
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

    /// The same, behind a door with other settings.
    async fn behind(change: impl FnOnce(&mut DoorSettings), settings: Settings) -> Self {
        Self::built(change, settings, Policy::default()).await
    }

    async fn built(change: impl FnOnce(&mut DoorSettings), settings: Settings, policy: Policy) -> Self {
        let mut behind = Behind::new(vec![puppet()], policy).await;
        change(&mut behind.door);
        let access = behind.access().await.admitting(Admit::late(super::is_late_on_own)).unwrap();
        let insights = Insights {
            registry: behind.registry.clone(),
            access: Arc::new(access),
            settings: Arc::new(settings),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        Self { insights, behind }
    }

    /// A person with a new token, and its secret.
    async fn someone(&self, name: &str, role: Role) -> (Principal, String) {
        self.behind.someone(name, role).await
    }

    /// A client with this role.
    async fn client(&self, name: &str, role: Role) -> Client<DuplexStream> {
        let (who, _) = self.someone(name, role).await;
        self.client_of(&who, 64 * 1024).await
    }

    /// A client of this person; the network buffers `room` bytes each way.
    async fn client_of(&self, who: &Principal, room: usize) -> Client<DuplexStream> {
        let (ours, theirs) = duplex(room);
        let stay = self.behind.tokens.standing(&who.token).map(|standing| standing.stay).unwrap_or_default();
        let visitor = Visitor::Known(who.clone(), stay);
        self.insights.connections.spawn(serve(self.insights.clone(), visitor, theirs));
        Client::over(ours).await
    }
}

// ------------------------------------------------------------------------------------ the client

/// A client of the dashboard's protocol.
struct Client<S> {
    frames: Frames<S>,
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
    fn new(socket: WebSocketStream<S>) -> Self {
        Self { frames: Frames::new(socket, is_of_the_server, PATIENCE) }
    }

    async fn over(io: S) -> Self {
        Self { frames: Frames::over(io, is_of_the_server, PATIENCE).await }
    }

    /// Sends a message that matches the schema.
    async fn send(&mut self, kind: &str, payload: Value) {
        self.send_as(&uuid::Uuid::new_v4().to_string(), kind, payload).await;
    }

    async fn send_as(&mut self, id: &str, kind: &str, payload: Value) {
        let message = json!({"type": kind, "id": id, "payload": payload});
        fits(&CLIENT, &message);
        self.send_text(&message.to_string()).await;
    }

    /// Messages up to and including the first message of this type.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        self.until_fits(|message| message["type"] == kind).await
    }

    /// The next message of this type; earlier messages are dropped.
    async fn one(&mut self, kind: &str) -> Value {
        self.until(kind).await.pop().unwrap()["payload"].clone()
    }

    /// The next error: its code and its message.
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
