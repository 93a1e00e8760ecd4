//! Tests of the frontend: the projection of entries, the effects of requests, access. Every response is checked against
//! the rules of both client generations.

mod approvals;
mod door;
mod heard;
mod hostile;
mod page_tools;
mod player;
mod projector;
mod recorded;
mod runs;
mod starting;
mod stopping;
mod threads;
mod verifier;

use std::sync::Arc;

use axum::{Router, body::Body};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use portolan_core::{
    Principal, Role, SessionId,
    ports::{Agent, SessionQuery},
    session::{
        machine::Policy,
        state::{State, Summary},
    },
};
use portolan_store::MemoryStore;
use portolan_testkit::sessions::{PATIENCE, eventually, owner, until};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use self::{
    player::{Starts, player},
    verifier::{Shown, verify},
};
use super::{
    Agui, Settings, own_routes,
    tools::{FrontendTools, Limits},
};
use crate::testing::Behind;
use portolan_host::door::{Authenticator as _, Guest, Stay};

/// Everything behind the routes.
struct Stand {
    agui: Agui,
    behind: Behind,
    router: Router,
    /// Cancelling this makes the agent `late` ready.
    ready: CancellationToken,
}

impl Stand {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::over(Arc::new(MemoryStore::new()), change).await
    }

    async fn over(store: Arc<MemoryStore>, change: impl FnOnce(&mut Settings)) -> Self {
        let ready = CancellationToken::new();
        let agents: Vec<Arc<dyn Agent>> = vec![
            player("player", Starts::AtOnce),
            player("other", Starts::AtOnce),
            player("sleeper", Starts::Never),
            player("late", Starts::After(ready.clone())),
            player("eager", Starts::AtOnce),
        ];
        let behind = Behind::over(store, agents, Policy::default()).await;
        let mut settings =
            Settings { agent: "player".into(), folder: Some("/".into()), ..Settings::default() };
        change(&mut settings);
        let registry = behind.registry.clone();
        let tools = FrontendTools::new(registry.clone(), Limits::default());
        let agui = Agui::new(registry, settings, tools, CancellationToken::new(), TaskTracker::new());
        let router = own_routes(agui.clone());
        Self { agui, behind, router, ready }
    }

    /// A person with a new token.
    async fn someone(&self, name: &str, role: Role) -> Client {
        let (who, secret) = self.behind.someone(name, role).await;
        let stay = self.behind.tokens.standing(&who.token).unwrap().stay;
        Client { router: self.router.clone(), who, stay, secret }
    }

    async fn ada(&self) -> Client {
        self.someone("ada", Role::Operator).await
    }

    async fn sessions(&self) -> Vec<Summary> {
        let query = SessionQuery { archived: None, live: false, before: None, limit: 100 };
        self.agui.registry.list(&owner(), query).await.unwrap()
    }

    async fn state(&self, session: SessionId) -> Arc<State> {
        self.agui.registry.snapshot(&owner(), session).await.unwrap().state
    }

    /// Waits until a session matches.
    async fn until(&self, session: SessionId, fits: impl Fn(&State) -> bool) -> Arc<State> {
        until(&self.agui.registry, session, fits).await
    }

    /// Until every stream has ended.
    async fn until_all_ended(&self) {
        eventually("every stream has ended", || self.agui.connections.is_empty()).await;
    }

    /// Waits until the server notices that a client has left its run.
    async fn until_abandoned(&self) {
        eventually("somebody noticed", || self.agui.runs.has_abandoned()).await;
    }
}

/// A client with a token.
#[derive(Clone)]
struct Client {
    router: Router,
    who: Principal,
    stay: Stay,
    secret: String,
}

/// A response whose body may still be open.
struct Answer {
    status: StatusCode,
    body: Body,
    text: String,
}

impl Client {
    async fn ask(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .extension(Guest(self.who.clone()))
            .extension(self.stay.clone())
            .body(body.into())
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        Answer { status: response.status(), body: response.into_body(), text: String::new() }
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, body.to_string()).await
    }

    /// A JSON answer.
    async fn json(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = self.ask(method, path, body).await;
        answer.read_all().await;
        (answer.status, serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("{}", answer.text)))
    }

    /// A run with this message, to its end.
    async fn say(&self, thread: &str, words: &str) -> Vec<Value> {
        self.run(input(thread, "r1", &[user("u1", words)])).await
    }

    async fn run(&self, input: Value) -> Vec<Value> {
        self.post("/agent/default/run", &input).await.events().await
    }

    async fn connect(&self, thread: &str) -> Vec<Value> {
        self.post("/agent/default/connect", &input(thread, "c1", &[])).await.events().await
    }

    async fn begin(&self, input: Value) -> Answer {
        self.post("/agent/default/run", &input).await
    }
}

impl Answer {
    async fn more(&mut self) -> bool {
        match tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("nothing came") {
            Some(frame) => {
                let bytes = frame.unwrap().into_data().unwrap_or_default();
                self.text.push_str(std::str::from_utf8(&bytes).unwrap());
                true
            }
            None => false,
        }
    }

    async fn read_all(&mut self) {
        while self.more().await {}
    }

    fn so_far(&self) -> Vec<Value> {
        let whole = self.text.rfind("\n\n").map_or("", |end| &self.text[..end]);
        let data = whole.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Every event, when the body has ended; checked with the rules of both clients.
    async fn events(mut self) -> Vec<Value> {
        assert_eq!(self.status, StatusCode::OK);
        self.read_all().await;
        let events = self.so_far();
        verify(&events).unwrap_or_else(|why| panic!("{why}\n{events:#?}"));
        events
    }

    /// Events up to and including the first match; the body stays open.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        loop {
            let events = self.so_far();
            if let Some(place) = events.iter().position(&fits) {
                return events[..=place].to_vec();
            }
            assert!(self.more().await, "the body ended: {events:#?}");
        }
    }
}

fn user(id: &str, words: &str) -> Value {
    json!({"id": id, "role": "user", "content": words})
}

fn input(thread: &str, run: &str, messages: &[Value]) -> Value {
    json!({"threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [], "state": {},
           "forwardedProps": {}})
}

/// A prompt that makes the player do this.
fn steps(steps: &Value) -> String {
    steps.to_string()
}

fn is(kind: &str) -> impl Fn(&Value) -> bool + '_ {
    move |event| event["type"] == kind
}

fn custom<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["type"] == "CUSTOM" && event["name"] == name)
        .map(|event| &event["value"])
        .collect()
}

/// Types in order, without those that are the same in every run.
fn outline(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.filter(|kind| !["STATE_SNAPSHOT", "CUSTOM"].contains(kind)).collect()
}

/// What a page shows after these responses.
fn shown(responses: &[&[Value]]) -> Vec<(String, String, String)> {
    let mut shown = Shown::default();
    for response in responses {
        shown.apply(response);
    }
    shown.messages
}

fn texts(shown: &[(String, String, String)]) -> Vec<(&str, &str)> {
    shown.iter().map(|(role, _, text)| (role.as_str(), text.as_str())).collect()
}

fn by_interrupt(mut input: Value) -> Value {
    input["forwardedProps"]["approvals"] = json!("interrupt");
    input
}

fn interrupts(events: &[Value]) -> Vec<Value> {
    let last = events.last().unwrap();
    assert_eq!(last["type"], "RUN_FINISHED", "{last}");
    last["outcome"]["interrupts"].as_array().cloned().unwrap_or_default()
}

/// The run that continues with an approval of this interrupt.
fn resumed(mut run: Value, asked: &Value, payload: &Value) -> Value {
    run = by_interrupt(run);
    run["resume"] = json!([{"interruptId": asked["id"], "status": "resolved", "payload": payload}]);
    run
}

fn permission() -> Value {
    json!({"kind": "permission", "tool_name": "Bash", "input": {"command": "ls"}})
}

/// The last state that a page got.
fn state_of(events: &[Value]) -> &Value {
    &events.iter().rfind(|event| event["type"] == "STATE_SNAPSHOT").unwrap()["snapshot"]
}

fn session_of(events: &[Value]) -> SessionId {
    state_of(events)["sessionId"].as_str().unwrap().parse().unwrap()
}
