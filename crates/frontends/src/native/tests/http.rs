//! REST, SSE, the page and the upgrade, behind the door.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use ::http::{Request, StatusCode, header};
use axum::{Router, body::Body, response::Response};
use http_body_util::BodyExt as _;
use portolan_core::{TokenId, access::Bypass};
use portolan_protocol::ClosingReason;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tower::ServiceExt as _;

use super::*;
use crate::native::{
    page,
    rest::{
        daemon::OPENAPI,
        route::{Method, Needs},
        table,
    },
};
use portolan_host::door::{Arrival, COOKIE, Caller, KEY_HEADER, guard};

/// Requests to the routes behind the guard, without a socket.
pub(super) struct Http {
    pub(super) stand: Stand,
    router: Router,
    pub(super) secret: String,
}

impl Http {
    async fn new() -> Self {
        Self::with(Stand::new().await).await
    }

    pub(super) async fn with(stand: Stand) -> Self {
        let router = guard(crate::native::routes(stand.native.clone()), stand.native.access.clone());
        let secret = stand.native.tokens.create("ada", Role::Owner, None, None).await.unwrap().1;
        Self { stand, router, secret }
    }

    pub(super) async fn token(&self, role: Role) -> String {
        self.stand.native.tokens.create("other", role, None, None).await.unwrap().1
    }

    pub(super) async fn send(&self, request: ::http::request::Builder, body: impl Into<Body>) -> Response {
        let address: SocketAddr = "127.0.0.1:7420".parse().unwrap();
        let arrival = Arrival::Tcp { peer: address, local: address, secure: false };
        let request = request.header(header::HOST, "127.0.0.1:7420").extension(arrival);
        self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap()
    }

    pub(super) fn request(&self, method: &str, path: &str) -> ::http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        request.header(header::AUTHORIZATION, format!("Bearer {}", self.secret))
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        read(self.send(self.request("GET", path), Body::empty()).await).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let request = self.request("POST", path).header(header::CONTENT_TYPE, "application/json");
        read(self.send(request, body.to_string()).await).await
    }

    async fn delete(&self, path: &str) -> (u16, Value) {
        read(self.send(self.request("DELETE", path), Body::empty()).await).await
    }

    async fn create(&self, prompt: &str) -> String {
        let spec = json!({"agent": "obedient", "cwd": "/", "prompt": text(prompt)});
        let (status, body) = self.post("/api/v1/sessions", json!({"spec": spec})).await;
        assert_eq!(status, 201, "{body}");
        body["session"]["session"].as_str().unwrap().to_owned()
    }

    /// Waits until a turn of the session has ended.
    async fn turn_ended(&self, session: &str) {
        let mut events = self.stream(&format!("/api/v1/sessions/{session}/events"), None).await;
        while events.next().await.unwrap().data["event"]["type"] != "turn_ended" {}
    }

    async fn stream(&self, path: &str, last: Option<&str>) -> Events {
        let mut request = self.request("GET", path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.send(request, Body::empty()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Events { body: response.into_body(), text: String::new(), heartbeats: 0 }
    }
}

pub(super) async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

/// A reader of an event stream.
struct Events {
    body: Body,
    text: String,
    heartbeats: usize,
}

#[derive(Debug)]
struct SentEvent {
    id: Option<u64>,
    name: String,
    data: Value,
}

impl Events {
    async fn next(&mut self) -> Option<SentEvent> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                let sent = field("event").map(|name| SentEvent {
                    id: field("id").map(|id| id.parse().unwrap()),
                    name: name.to_owned(),
                    data: serde_json::from_str(field("data").unwrap()).unwrap(),
                });
                self.text = rest.to_owned();
                match sent {
                    Some(sent) => return Some(sent),
                    None => self.heartbeats += 1,
                }
                continue;
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Delete => "DELETE",
    }
}

#[test]
fn the_openapi_document_names_every_route_and_no_other() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let documented: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let served = table().map(|route| (name(route.method).to_owned(), route.path.to_owned())).collect();
    assert_eq!(documented, served);
}

// covers: 002-005, 003-153
#[tokio::test]
async fn every_route_is_served_and_all_but_the_open_ones_take_a_token() {
    let http = Http::new().await;
    for route in table() {
        let path = route.path.replace("{id}", "00000000-0000-0000-0000-000000000001").replace("{seq}", "1");
        let bare = Request::builder().method(name(route.method)).uri(&path);
        let (status, body) = read(http.send(bare, Body::empty()).await).await;
        if route.needs == Needs::Nobody {
            assert!(status < 300 || status == 415, "{path}: {status}");
            continue;
        }
        assert_eq!(
            (status, &body["error"]["code"]),
            (401, &json!("unauthenticated")),
            "{} {path}",
            name(route.method)
        );
        let response = http.send(http.request(name(route.method), &path), Body::empty()).await;
        if response.status() == StatusCode::OK {
            continue;
        }
        let (status, body) = read(response).await;
        let answered = status < 300 || body["error"]["code"].is_string();
        assert!(answered && status != 405, "{} {path}: {status} {body}", name(route.method));
    }
    for nowhere in ["/api/v1/nothing", "/nothing", "/api/v1/sessions/x/y/z", "/api/v2/sessions"] {
        let (status, body) = http.get(nowhere).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")), "{nowhere}: {body}");
    }
    let (status, body) = http.delete("/api/v1/agents").await;
    assert_eq!((status, &body["error"]["code"]), (405, &json!("invalid")), "{body}");
}

#[tokio::test]
async fn a_query_flag_without_a_value_is_true_and_a_limit_is_at_least_one() {
    let http = Http::new().await;
    let session = http.create("say one").await;
    let away = json!({"name": "archive", "archived": true});
    assert_eq!(http.post(&format!("/api/v1/sessions/{session}/commands"), away).await.0, 202);
    let listed = async |query: &str| {
        let (status, body) = http.get(&format!("/api/v1/sessions{query}")).await;
        assert_eq!(status, 200, "{query}: {body}");
        body["sessions"].as_array().unwrap().len()
    };
    assert_eq!((listed("?archived").await, listed("?archived=true&limit=5").await), (1, 1));
    assert_eq!((listed("?archived=false").await, listed("").await), (0, 1));
    for path in ["/api/v1/past?archived", "/api/v1/agents?probe", "/api/v1/agents?probe=false"] {
        assert_eq!(http.get(path).await.0, 200, "{path}");
    }
    let events = http.request("GET", &format!("/api/v1/sessions/{session}/events?items_only"));
    assert_eq!(http.send(events, Body::empty()).await.status(), StatusCode::OK);
    for path in [
        "/api/v1/sessions?limit=0".to_owned(),
        "/api/v1/past?limit=0".to_owned(),
        format!("/api/v1/sessions/{session}/entries?limit=0"),
        format!("/api/v1/sessions/{session}/files?limit=0"),
        "/api/v1/sessions?archived=perhaps".to_owned(),
    ] {
        let (status, body) = http.get(&path).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid")), "{path}: {body}");
    }
}

#[tokio::test]
async fn over_rest_and_websocket_only_an_owner_may_use_a_mode_that_asks_nobody() {
    let allowed = Policy { bypass: Bypass::ForOwners, ..Policy::default() };
    let forbidden = Some("forbidden");
    for (policy, for_owner) in [(Policy::default(), forbidden), (allowed, None)] {
        let mut http = Http::with(Stand::under(vec![willing()], policy).await).await;
        let spec = |mode: &str| json!({"agent": "willing", "cwd": "/", "mode": mode});
        let (_, made) = http.post("/api/v1/sessions", json!({"spec": spec("ask")})).await;
        let session = made["session"]["session"].as_str().unwrap().to_owned();
        for (role, expected) in [(Role::Operator, forbidden), (Role::Owner, for_owner)] {
            let (info, secret) =
                http.stand.native.tokens.create(&role.to_string(), role, None, None).await.unwrap();
            http.secret = secret;
            let off = json!({"name": "set_mode", "mode": "off"});
            let commands = format!("/api/v1/sessions/{session}/commands");
            let mut client =
                http.stand.client_of(&Principal { token: info.token, ..owner(role) }, 65_536).await;
            let answers = [
                http.post("/api/v1/sessions", json!({"spec": spec("off")})).await.1["error"]["code"].clone(),
                http.post(&commands, off.clone()).await.1["error"]["code"].clone(),
                client.ask(json!({"type": "create", "spec": spec("off")})).await["code"].clone(),
                client.command(session.parse().unwrap(), off).await["code"].clone(),
            ];
            for answer in answers {
                assert_eq!(answer.as_str(), expected, "{role}");
            }
        }
    }
}

fn owner(role: Role) -> Principal {
    Principal { token: TokenId::random(), name: role.to_string(), role, sessions: None, via: "test".into() }
}

#[tokio::test]
async fn health_says_only_ok_and_the_page_is_there_for_anyone() {
    let http = Http::new().await;
    let open = |path: &'static str| Request::builder().uri(path);
    assert_eq!(read(http.send(open("/healthz"), Body::empty()).await).await, (200, json!("ok\n")));
    for path in page::paths() {
        let response = http.send(open(path), Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    }
}

// covers: 002-038, 002-041
#[tokio::test]
async fn a_session_lives_its_whole_life_by_rest() {
    let http = Http::new().await;
    let session = http.create("say one two").await;
    http.turn_ended(&session).await;
    let (_, listed) = http.get("/api/v1/sessions?limit=10").await;
    assert_eq!(listed["sessions"][0]["session"], session.as_str());
    let prefix = &session[..35];
    assert_eq!(http.get(&format!("/api/v1/sessions/{prefix}")).await.1["session"]["agent"], "obedient");
    assert_eq!(
        http.get(&format!("/api/v1/sessions/{session}/state")).await.1["state"]["summary"]["turns"],
        1
    );
    let (_, page) = http.get(&format!("/api/v1/sessions/{session}/entries?limit=1")).await;
    assert_eq!(page["entries"][0]["event"]["type"], "session_created");
    let after = page["entries"][0]["seq"].as_u64().unwrap();
    let (_, next) = http.get(&format!("/api/v1/sessions/{session}/entries?after={after}&limit=1")).await;
    assert!(next["entries"][0]["seq"].as_u64().unwrap() > after);
    let (status, receipt) = http
        .post(&format!("/api/v1/sessions/{session}/commands"), json!({"name": "rename", "to": "new name"}))
        .await;
    assert_eq!((status, receipt["reply"].as_str()), (202, Some("receipt")), "{receipt}");
    assert_eq!(http.get(&format!("/api/v1/sessions/{session}")).await.1["session"]["name"], "new name");
    assert_eq!(http.delete(&format!("/api/v1/sessions/{prefix}")).await.0, 400, "never by a part");
    assert_eq!(http.delete(&format!("/api/v1/sessions/{session}")).await, (200, json!({"reply": "done"})));
    assert_eq!(http.get(&format!("/api/v1/sessions/{session}")).await.0, 404);
}

#[tokio::test]
async fn past_conversations_are_listed_and_imported_by_rest() {
    let mut http = Http::new().await;
    let nothing = json!({"reply": "past", "past": []});
    assert_eq!(http.get("/api/v1/past?limit=5&cwd=/").await, (200, nothing));
    let (status, body) = http.get("/api/v1/past?agent=obedient").await;
    assert_eq!((status, &body["error"]["code"]), (422, &json!("unsupported")), "it keeps none");
    let (status, body) = http.get("/api/v1/past?cwd=nowhere").await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid")));
    let asked = json!({"past": "0aaaaaaa", "spec": {"agent": ""}});
    let (status, body) = http.post("/api/v1/past", asked.clone()).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")), "{body}");
    let (status, body) = http.post("/api/v1/past", json!({"past": "0a", "spec": {"agent": ""}})).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid")), "{body}");
    assert_eq!(http.get("/api/v1/past?archived=true").await.0, 200);
    let away = json!({"past": "0aaaaaaa", "agent": "obedient", "archived": true});
    let (status, body) = http.post("/api/v1/past/archived", away).await;
    assert_eq!((status, &body["error"]["code"]), (422, &json!("unsupported")), "{body}");
    http.secret = http.token(Role::Viewer).await;
    assert_eq!(http.get("/api/v1/past").await.0, 403);
    assert_eq!(http.post("/api/v1/past", asked).await.0, 403);
}

#[tokio::test]
async fn an_agent_that_has_no_account_is_looked_at_and_cannot_be_logged_in() {
    let mut http = Http::new().await;
    let path = "/api/v1/agents/obedient/account";
    let login = json!({"state": "logged_in", "how": "by ada@example.org"});
    let told = json!({"reply": "account", "account": {"agent": "obedient", "login": login}});
    assert_eq!(http.get(path).await, (200, told));
    let (status, body) = http.post(path, json!({"way": "browser"})).await;
    assert_eq!((status, &body["error"]["code"]), (422, &json!("unsupported")), "{body}");
    assert_eq!(http.delete(path).await.0, 422);
    assert_eq!(http.post(path, json!({"way": "by_ship"})).await.0, 400);
    assert_eq!(http.get("/api/v1/agents/nobody/account").await.0, 404);
    http.secret = http.token(Role::Operator).await;
    assert_eq!(http.get(path).await.0, 200);
    assert_eq!(http.post(path, json!({"way": "browser"})).await.0, 403);
    assert_eq!(http.delete(path).await.0, 403);
}

#[tokio::test]
async fn an_idempotency_key_or_an_id_makes_one_session_and_one_command() {
    let http = Http::new().await;
    let spec = json!({"spec": {"agent": "obedient", "cwd": "/"}});
    let mut made = BTreeSet::new();
    for _ in 0..2 {
        let request =
            http.request("POST", "/api/v1/sessions").header(header::CONTENT_TYPE, "application/json");
        let request = request.header("idempotency-key", "k-1");
        let (_, body) = read(http.send(request, spec.to_string()).await).await;
        made.insert(body["session"]["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(made.len(), 1);
    let session = made.pop_first().unwrap();
    let command = json!({"id": "c-1", "name": "rename", "to": "x"});
    let path = format!("/api/v1/sessions/{session}/commands");
    let first = http.post(&path, command.clone()).await.1["receipt"]["seq"].clone();
    assert_eq!(http.post(&path, command).await.1["receipt"]["seq"], first);
    let request = http.request("POST", &path).header(header::CONTENT_TYPE, "application/json");
    let bad = request.header("idempotency-key", "not allowed");
    assert_eq!(read(http.send(bad, r#"{"name":"interrupt"}"#).await).await.0, 400);
}

#[tokio::test]
async fn a_refusal_has_the_status_of_its_kind_and_says_why() {
    let mut http = Http::new().await;
    let session = http.create("").await;
    let nowhere = "/api/v1/sessions/00000000-0000-0000-0000-000000000001";
    let bad_spec = json!({"spec": {"agent": "obedient", "colour": "red"}});
    for ((status, body), expected, code) in [
        (http.get(nowhere).await, 404, "not_found"),
        (http.get("/api/v1/sessions/zzzz").await, 400, "invalid"),
        (http.get("/api/v1/sessions?limit=many").await, 400, "invalid"),
        (http.get(&format!("/api/v1/sessions/{session}/entries/x/raw")).await, 400, "invalid"),
        (http.post("/api/v1/sessions", bad_spec).await, 400, "invalid"),
        (http.post("/api/v1/sessions", json!({"spec": {"agent": "nobody"}})).await, 404, "not_found"),
        (
            http.post("/api/v1/sessions", json!({"spec": {"agent": "obedient", "cwd": "/", "model": "m"}}))
                .await,
            422,
            "unsupported",
        ),
        (
            http.post(&format!("/api/v1/sessions/{session}/commands"), json!({"name": "fly"})).await,
            400,
            "invalid",
        ),
        (http.delete("/api/v1/tokens/nobody").await, 404, "not_found"),
    ] {
        assert_eq!((status, body["error"]["code"].as_str()), (expected, Some(code)), "{body}");
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    http.secret = http.token(Role::Viewer).await;
    assert_eq!(http.get("/api/v1/tokens").await.0, 403);
    assert_eq!(http.get("/metrics").await.0, 200);
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked_by_rest_and_the_log_tells() {
    let mut http = Http::new().await;
    let body = json!({"name": "phone", "role": "operator", "expires_in_seconds": 3600});
    let (status, made) = http.post("/api/v1/tokens", body).await;
    assert_eq!(status, 201, "{made}");
    let id = made["token"]["token"].as_str().unwrap();
    let (_, listed) = http.get("/api/v1/tokens").await;
    assert!(listed["tokens"].as_array().unwrap().iter().any(|token| token["token"] == id));
    assert!(!listed.to_string().contains(made["secret"].as_str().unwrap()));
    let mut events = http.stream("/api/v1/events", None).await;
    loop {
        let event = events.next().await.unwrap();
        if event.data["event"]["type"] == "token_created" {
            assert_eq!((event.name.as_str(), event.data["event"]["token"].as_str()), ("daemon", Some(id)));
            break;
        }
    }
    assert_eq!(http.delete(&format!("/api/v1/tokens/{id}")).await.0, 200);
    http.secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(http.get("/api/v1/sessions").await.0, 401);
}

#[tokio::test]
async fn an_owner_reads_the_audit_by_rest_page_by_page_and_nobody_else_does() {
    let mut http = Http::new().await;
    for name in ["phone", "tablet"] {
        assert_eq!(http.post("/api/v1/tokens", json!({"name": name, "role": "operator"})).await.0, 201);
    }
    let path = "/api/v1/audit?order=oldest&limit=1&who=ada";
    let (status, first) = http.get(path).await;
    assert_eq!((status, &first["records"][0]["event"]["name"]), (200, &json!("phone")), "{first}");
    let (_, second) = http.get(&format!("{path}&from={}", first["next"])).await;
    assert_eq!(second["records"][0]["event"]["name"], "tablet", "{second}");
    let (status, shown) = http.get(&format!("/api/v1/audit/{}", first["records"][0]["position"])).await;
    assert_eq!((status, &shown["details"]["record"]), (200, &first["records"][0]), "{shown}");
    assert_eq!(shown["details"]["entry"]["event"]["type"], "token_created");
    let asked = [("/api/v1/audit/x", 400), ("/api/v1/audit/999999", 404), ("/api/v1/audit?limit=0", 400)];
    for (path, expected) in asked {
        assert_eq!(http.get(path).await.0, expected, "{path}");
    }
    for role in [Role::Viewer, Role::Operator] {
        http.secret = http.token(role).await;
        assert_eq!(http.get("/api/v1/audit").await.0, 403);
        assert_eq!(http.get("/api/v1/audit/1").await.0, 403);
    }
}

#[tokio::test]
async fn events_come_by_sse_and_last_event_id_goes_on_where_they_broke_off() {
    let http = Http::new().await;
    let session = http.create("say one two").await;
    let path = format!("/api/v1/sessions/{session}/events");
    http.turn_ended(&session).await;
    let mut events = http.stream(&path, None).await;
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        if event.name == "snapshot" {
            assert_eq!(event.data["seq"].as_u64(), event.id);
            break;
        }
        if event.name == "entry" {
            assert_eq!(event.data["seq"].as_u64(), event.id);
            seen.push(event.id.unwrap());
        }
    }
    assert!(seen.len() > 3 && seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    let middle = seen[seen.len() / 2];
    let mut rest = http.stream(&format!("{path}?after=0"), Some(&middle.to_string())).await;
    let mut again = Vec::new();
    loop {
        let event = rest.next().await.unwrap();
        match event.name.as_str() {
            "entry" => again.push(event.id.unwrap()),
            "snapshot" => break,
            _ => assert_eq!((event.name.as_str(), event.id), ("presence", None)),
        }
    }
    assert_eq!(again, seen[seen.len() / 2 + 1..]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_sends_heartbeats_and_ends_with_its_token() {
    let mut http = Http::new().await;
    let session = http.create("").await;
    let (info, secret) = http.stand.native.tokens.create("bob", Role::Viewer, None, None).await.unwrap();
    http.secret = secret;
    let mut events = http.stream(&format!("/api/v1/sessions/{session}/events?tail=0"), None).await;
    let quiet = tokio::time::timeout(Duration::from_secs(50), async {
        while events.next().await.is_some_and(|event| event.name != "closing") {}
    });
    assert!(quiet.await.is_err());
    assert!(events.heartbeats >= 3, "{}", events.heartbeats);
    http.stand.native.tokens.revoke(&info.token).await.unwrap();
    let last = events.next().await.unwrap();
    let why =
        json!({"reason": "token_gone", "message": ClosingReason::TokenGone.message(), "resumable": false});
    assert_eq!((last.name.as_str(), &last.data), ("closing", &why));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_is_closed() {
    let http = Http::new().await;
    let session = http.create("flood 100").await;
    http.turn_ended(&session).await;
    let unread = http.stream(&format!("/api/v1/sessions/{session}/events"), None).await;
    let session = session.parse().unwrap();
    let present = || http.stand.native.registry.presence(session).len();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(present(), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(present(), 0);
    assert!(
        http.get("/metrics")
            .await
            .1
            .as_str()
            .unwrap()
            .contains("portolan_closed_total{reason=\"too_slow\"} 1\n")
    );
    drop(unread);
}

#[tokio::test]
async fn metrics_count_what_happens() {
    let http = Http::new().await;
    let session = http.create("say one").await;
    http.turn_ended(&session).await;
    let (status, text) = http.get("/metrics").await;
    let text = text.as_str().unwrap();
    assert_eq!(status, 200);
    assert!(
        text.contains("portolan_sessions_live 1\n") && text.contains("portolan_store_healthy 1\n"),
        "{text}"
    );
    assert!(text.contains("portolan_answers_total{outcome=\"ok\"} 1\n"), "{text}");
}

// ------------------------------------------------------------------------------ over real sockets

pub(super) struct Daemon {
    pub(super) stand: Stand,
    pub(super) address: SocketAddr,
    secret: String,
    shutdown: CancellationToken,
}

impl Daemon {
    pub(super) async fn new() -> Self {
        let stand = Stand::new().await;
        let secret = stand.native.tokens.create("ada", Role::Owner, None, None).await.unwrap().1;
        let shutdown = CancellationToken::new();
        let router = crate::native::routes(stand.native.clone());
        let access = stand.native.access.clone();
        let serving =
            portolan_host::door::serve(&stand.behind.door, access, router, shutdown.clone()).await.unwrap();
        let address = serving.addresses.iter().find_map(|listening| match &listening.address {
            portolan_host::door::ListenAddress::Tcp(address) => Some(*address),
            portolan_host::door::ListenAddress::Unix(_) => None,
        });
        Self { stand, address: address.unwrap(), secret, shutdown }
    }

    pub(super) async fn upgrade(&self, headers: &[(&'static str, String)]) -> Result<Client<TcpStream>, u16> {
        let mut request = format!("ws://{}/ws", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let io = TcpStream::connect(self.address).await.unwrap();
        match tokio_tungstenite::client_async(request, io).await {
            Ok((socket, _)) => Ok(Client { frames: Frames::new(socket, |_| {}, Duration::MAX), next_id: 0 }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test]
async fn a_client_with_a_token_comes_in_over_tcp_and_streams() {
    let daemon = Daemon::new().await;
    assert_eq!(daemon.upgrade(&[]).await.err(), Some(401));
    let mut client = daemon.upgrade(&[("authorization", format!("Bearer {}", daemon.secret))]).await.unwrap();
    client.hello().await;
    let session = client.create("").await;
    client.attach(session, json!({"tail": 0})).await;
    client.command(session, json!({"name": "prompt", "content": text("flood 3000")})).await;
    let frames = client.until_event("turn_ended").await;
    // This much text is kept in parts.
    let messages = frames.iter().filter(|frame| frame["event"]["type"] == "message");
    let lengths = messages.map(|frame| frame["event"]["content"][0]["text"].as_str().unwrap().len());
    assert_eq!(lengths.collect::<Vec<_>>(), [1024 * 1024, 1024 * 1024, 952 * 1024]);
}

#[tokio::test]
async fn a_browser_comes_in_by_ticket_cookie_and_key_and_by_nothing_less() {
    let daemon = Daemon::new().await;
    let who = daemon.stand.someone("ada", Role::Operator).await;
    let (ticket, _) = daemon.stand.native.access.tickets().create(&who).unwrap();
    let browser =
        daemon.stand.native.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().unwrap();
    let cookie = format!("{COOKIE}={}", browser.cookie.expose());
    let origin = format!("http://{}", daemon.address);
    let headers = [("cookie", cookie), ("origin", origin)];

    let mut without = daemon.upgrade(&headers).await.unwrap();
    without.send(json!({"type": "hello", "protocol": 1, "client": {"name": "page"}})).await;
    let (frames, code) = without.closed().await;
    assert_eq!((frames[0]["code"].as_str(), code), (Some("unauthenticated"), Some(4001)));

    let mut client = daemon.upgrade(&headers).await.unwrap();
    let key = browser.key.expose();
    client.send(json!({"type": "hello", "protocol": 1, "client": {"name": "page"}, "key": key})).await;
    assert_eq!(client.next().await["you"]["name"], "ada");
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");

    daemon.stand.native.access.tickets().forget(&browser.cookie, &browser.key).await.unwrap();
    assert_eq!(client.closed().await.1, Some(4001));
    assert_eq!(KEY_HEADER, "x-portolan-key", "the page sends it by this name");
}

#[tokio::test]
async fn a_browser_that_an_owner_logs_out_is_cut_off_and_listed_no_more() {
    let daemon = Daemon::new().await;
    let mut owner = daemon.stand.client("ada", Role::Owner).await;
    let ticket = owner.ask(json!({"type": "pair", "name": "phone", "role": "viewer"})).await;
    let tickets = daemon.stand.native.access.tickets();
    let caller = Caller { address: Some("192.0.2.7".into()), user_agent: Some("Phone\u{7} 1.0".into()) };
    let browser = tickets.redeem(ticket["ticket"].as_str().unwrap(), caller).await.unwrap().unwrap();
    let headers = [
        ("cookie", format!("{COOKIE}={}", browser.cookie.expose())),
        ("origin", format!("http://{}", daemon.address)),
    ];
    let mut phone = daemon.upgrade(&headers).await.unwrap();
    let key = browser.key.expose();
    phone.send(json!({"type": "hello", "protocol": 1, "client": {"name": "page"}, "key": key})).await;
    let welcome = phone.next().await;
    assert_eq!((&welcome["you"]["name"], &welcome["you"]["role"]), (&json!("phone"), &json!("viewer")));

    let listed = owner.ask(json!({"type": "browser_list"})).await["browsers"].clone();
    let shown: Vec<_> =
        ["browser", "name", "role", "address", "user_agent"].iter().map(|field| &listed[0][field]).collect();
    assert_eq!(
        shown,
        [
            &json!(browser.browser),
            &json!("phone"),
            &json!("viewer"),
            &json!("192.0.2.7"),
            &json!("Phone 1.0")
        ]
    );
    let gone = json!({"type": "browser_log_out", "browser": browser.browser});
    assert_eq!(owner.ask(gone.clone()).await["reply"], "done");
    assert_eq!(phone.closed().await.1, Some(4001));
    assert_eq!(owner.ask(json!({"type": "browser_list"})).await["browsers"], json!([]));
    assert_eq!(owner.ask(gone).await["code"], "not_found");
}

// covers: 002-061, 002-070
#[tokio::test]
async fn rules_are_made_changed_tried_simulated_and_removed_over_rest_by_those_who_may() {
    let http = Http::new().await;
    let draft = |effect: &str, text: &str| json!({ "effect": effect, "text": text });
    let (status, made) = http.post("/api/v1/rules", draft("deny", "Bash(rm *)")).await;
    assert_eq!(status, 201, "{made}");
    let id = made["rule"]["rule"].as_str().unwrap().to_owned();
    let (status, wrong) = http.post("/api/v1/rules", draft("deny", "Bash(rm")).await;
    assert_eq!((status, &wrong["error"]["code"]), (400, &json!("invalid")), "{wrong}");
    let asked = json!({ "tool": "Bash", "input": { "command": "rm -r x" }, "cwd": "/", "mode": "default" });
    let (status, judged) = http.post("/api/v1/policy/test", asked).await;
    assert_eq!((status, &judged["judgement"]["decision"]), (200, &json!("deny")), "{judged}");
    let rule = draft("allow", "Bash");
    let (status, found) = http.post("/api/v1/policy/simulate", json!({ "rule": rule })).await;
    assert_eq!((status, &found["simulation"]["requests"]), (200, &json!(0)), "{found}");
    let (status, changed) = http.post(&format!("/api/v1/rules/{id}"), draft("ask", "Bash(rm *)")).await;
    assert_eq!((status, &changed["rule"]["effect"]), (200, &json!("ask")), "{changed}");
    let (_, listed) = http.get("/api/v1/rules").await;
    assert_eq!(listed["rules"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!((&listed["rules"][0]["rule"], &listed["rules"][0]["effect"]), (&json!(id), &json!("ask")));
    // Operators read rules, and make none for every session.
    let operator = Http { secret: http.token(Role::Operator).await, ..http };
    assert_eq!(operator.get("/api/v1/rules").await.0, 200);
    assert_eq!(operator.post("/api/v1/rules", draft("allow", "Bash")).await.0, 403);
    assert_eq!(operator.delete(&format!("/api/v1/rules/{id}")).await.0, 403);
    let owner = operator.stand.native.tokens.create("eve", Role::Owner, None, None).await.unwrap().1;
    let owner = Http { secret: owner, ..operator };
    assert_eq!(owner.delete(&format!("/api/v1/rules/{id}")).await.0, 200);
    assert_eq!(owner.delete(&format!("/api/v1/rules/{id}")).await.0, 404);
}
