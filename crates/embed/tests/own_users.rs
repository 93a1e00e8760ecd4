//! A program with its own users: who has access, what each may do, and how the program ends the access of a user.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../examples/own_users/mod.rs"]
mod own_users;
#[path = "../examples/parrot/mod.rs"]
mod parrot;

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::TokenId;
use portolan_embed::{Portolan, RefusalCode, Role, Settings};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

use own_users::Users;

/// Long enough for a slow machine, short enough for a test that fails.
const SOON: Duration = Duration::from_secs(20);

/// A program with two users.
struct Program {
    portolan: Portolan,
    users: Arc<Users>,
    host: String,
}

fn ada() -> TokenId {
    "ada".parse().unwrap()
}

fn bob() -> TokenId {
    "bob".parse().unwrap()
}

impl Program {
    async fn start() -> Self {
        let users = Arc::new(Users::default());
        users.add(ada(), "Ada", Role::Operator, "adas secret");
        users.add(bob(), "Bob", Role::Viewer, "bobs secret");
        let settings = Settings::in_memory(vec![Arc::new(parrot::Parrot)]).with_authenticator(users.clone());
        let portolan = Portolan::open(settings).await.unwrap();
        portolan.listen().await.unwrap();
        let host = portolan.url().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { portolan, users, host }
    }

    async fn send(&self, request: &str, secret: Option<&str>, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let bearer = secret.map(|secret| format!("Authorization: Bearer {secret}\r\n")).unwrap_or_default();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\n{bearer}{lines}Content-Type: application/json\r\n\
             Connection: close\r\n\r\n{body}",
            self.host
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, request: &str, secret: Option<&str>, body: &str) -> (u16, String) {
        let length = format!("Content-Length: {}\r\n", body.len());
        answer(self.send(request, secret, &length, body).await).await
    }

    /// A request that has passed the checks, and whose body the route waits for.
    async fn under_way(&self, request: &str, secret: &str, length: usize) -> TcpStream {
        let lines = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n");
        let mut stream = self.send(request, Some(secret), &lines, "").await;
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    }

    async fn socket(&self, secret: &str) -> Result<Client, Error> {
        let mut request = format!("ws://{}/ws", self.host).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| Client(socket))
    }
}

/// The status of a response, and all of it.
async fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    // A reset after the answer also counts as the end.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("no answer");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (text.split(' ').nth(1).expect("an answer").parse().unwrap(), text)
}

/// A WebSocket of the native protocol.
struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    async fn ask(&mut self, frame: Value) -> Value {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
        let Message::Text(text) = self.next().await else { panic!("no frame") };
        serde_json::from_str(&text).unwrap()
    }

    async fn next(&mut self) -> Message {
        tokio::time::timeout(SOON, self.0.next()).await.expect("nothing came").unwrap().unwrap()
    }
}

const HELLO: fn() -> Value = || json!({"type": "hello", "protocol": 1, "client": {"name": "test"}});

fn session() -> String {
    json!({"spec": {"agent": "parrot", "cwd": "/"}}).to_string()
}

// covers: 003-174
#[tokio::test]
async fn only_the_programs_own_users_have_access_with_their_own_credential() {
    let program = Program::start().await;
    for (secret, status) in [(None, 401), (Some("a guess"), 401), (Some("bobs secret"), 200)] {
        assert_eq!(program.ask("GET /api/v1/sessions", secret, "").await.0, status, "{secret:?}");
    }
    let Err(Error::Http(refused)) = program.socket("a guess").await else { panic!("access was given") };
    assert_eq!(refused.status(), 401);
    // The program gives the role, and core enforces it.
    for (secret, status) in [("bobs secret", 403), ("adas secret", 201)] {
        assert_eq!(
            program.ask("POST /api/v1/sessions", Some(secret), &session()).await.0,
            status,
            "{secret}"
        );
    }
    let welcome = program.socket("bobs secret").await.unwrap().ask(HELLO()).await;
    assert_eq!(welcome["you"], json!({"token": "bob", "name": "Bob", "role": "viewer"}));
    program.portolan.shutdown(Duration::ZERO).await;
}

// covers: 003-174
#[tokio::test]
async fn a_user_who_loses_access_loses_the_websocket_and_the_others_keep_theirs() {
    let program = Program::start().await;
    let mut bobs = program.socket("bobs secret").await.unwrap();
    let mut adas = program.socket("adas secret").await.unwrap();
    for client in [&mut bobs, &mut adas] {
        assert_eq!(client.ask(HELLO()).await["type"], "welcome");
    }
    program.users.remove(&bob());
    let Message::Text(closing) = bobs.next().await else { panic!("the close frame does not say why") };
    let closing: Value = serde_json::from_str(&closing).unwrap();
    assert_eq!((&closing["type"], &closing["reason"]), (&json!("closing"), &json!("token_gone")));
    let Message::Close(Some(close)) = bobs.next().await else { panic!("the connection stays open") };
    assert_eq!(u16::from(close.code), 4001);
    assert!(program.socket("bobs secret").await.is_err(), "the user cannot reconnect");
    assert_eq!(adas.ask(json!({"type": "ping", "id": "1"})).await["reply"], "pong");
    program.portolan.shutdown(Duration::ZERO).await;
}

// covers: 003-174
#[tokio::test]
async fn a_running_request_and_an_open_response_end_with_the_access_of_the_user() {
    let program = Program::start().await;
    let mut events = program.send("GET /api/v1/events", Some("adas secret"), "", "").await;
    let mut begun = Vec::new();
    while !String::from_utf8_lossy(&begun).contains(": portolan") {
        begun.push(tokio::time::timeout(SOON, events.read_u8()).await.expect("no events").unwrap());
    }
    let body = session();
    let mut request = program.under_way("POST /api/v1/sessions", "adas secret", body.len()).await;
    program.users.remove(&ada());
    // The answer may be complete already, and the connection closed.
    let _ = request.write_all(body.as_bytes()).await;
    let (status, text) = answer(request).await;
    assert_eq!(status, 401, "{text}");
    let mut rest = String::new();
    tokio::time::timeout(SOON, events.read_to_string(&mut rest)).await.expect("the stream must end").unwrap();
    assert!(rest.contains("event: closing") && rest.contains("token_gone"), "{rest}");
    let me = program.portolan.client("the program");
    assert_eq!(me.sessions().await.unwrap(), [], "the request created no session");
    program.portolan.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn no_tokens_are_created_if_they_would_be_useless() {
    let program = Program::start().await;
    let refusal = program.portolan.token("a phone", Role::Operator).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Unsupported);
    program.users.add("eve".parse().unwrap(), "Eve", Role::Owner, "eves secret");
    let mut eve = program.socket("eves secret").await.unwrap();
    eve.ask(HELLO()).await;
    for kind in ["token_create", "pair"] {
        let refused = eve.ask(json!({"type": kind, "id": kind, "name": "a phone", "role": "viewer"})).await;
        assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("unsupported")), "{kind}");
    }
    program.portolan.shutdown(Duration::ZERO).await;
}
