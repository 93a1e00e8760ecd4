//! The token or login of a client ends while the client is connected, or is connecting.

use std::time::Duration;

use futures_util::SinkExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

use super::{http::Daemon, *};
use portolan_host::door::{COOKIE, Caller, Secret};
use portolan_testkit::armed::Armed;

/// Long enough for a slow machine, short enough for a test that fails.
const SOON: Duration = Duration::from_secs(20);

/// The owner's secret, and its file.
struct Owner {
    home: tempfile::TempDir,
    secret: Secret,
}

impl Owner {
    async fn of(daemon: &Daemon) -> Self {
        let home = tempfile::tempdir().unwrap();
        let secret = daemon.stand.native.tokens.owner_secret_file(&home.path().join("token")).await.unwrap();
        Self { home, secret }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.secret.expose())
    }

    async fn rotate(&self, daemon: &Daemon) {
        let path = self.home.path().join("token");
        daemon.stand.native.tokens.rotate_owner(&path).await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_waited_creates_no_token_after_its_secret_was_replaced() {
    let daemon = Daemon::new().await;
    let owner = Owner::of(&daemon).await;
    let bearer = format!("Authorization: {}", owner.bearer());
    let body = json!({"name": "back door", "role": "owner"}).to_string();
    let armed = Armed::new(daemon.address, "/api/v1/tokens", &[&bearer], &body).await;
    owner.rotate(&daemon).await;
    let (status, answer) = armed.finish().await;
    assert_eq!(status, 401, "{answer}");
    let names: Vec<_> = daemon.stand.native.tokens.list().into_iter().map(|token| token.name).collect();
    assert!(!names.contains(&"back door".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a_request_that_waited_creates_no_session_after_its_token_was_revoked() {
    let daemon = Daemon::new().await;
    let tokens = &daemon.stand.native.tokens;
    let (ada, secret) = tokens.create("operator", Role::Operator, None, None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    let body = json!({"spec": {"agent": "obedient", "cwd": "/"}}).to_string();
    let armed = Armed::new(daemon.address, "/api/v1/sessions", &[&bearer], &body).await;
    let other = Armed::new(daemon.address, "/api/v1/sessions", &[&bearer], &body).await;
    assert_eq!(other.finish().await.0, 201, "as long as the token is there");
    tokens.revoke(&ada.token).await.unwrap();
    let (status, answer) = armed.finish().await;
    assert_eq!(status, 401, "{answer}");
    let mut owner = daemon.stand.client("owner", Role::Owner).await;
    assert_eq!(owner.ask(json!({"type": "list"})).await["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_hello_is_refused_if_its_secret_was_replaced_after_the_upgrade() {
    let daemon = Daemon::new().await;
    let owner = Owner::of(&daemon).await;
    let hello = json!({"type": "hello", "protocol": 1, "client": {"name": "test"}});
    let mut late = daemon.upgrade(&[("authorization", owner.bearer())]).await.unwrap();
    let mut early = daemon.upgrade(&[("authorization", owner.bearer())]).await.unwrap();
    early.hello().await;
    owner.rotate(&daemon).await;
    // The connection may be closing already.
    let _ = late.socket.send(Message::text(hello.to_string())).await;
    for client in [&mut late, &mut early] {
        let (frames, code) = client.closed().await;
        assert_eq!((frames.last().unwrap()["reason"].as_str(), code), (Some("token_gone"), Some(4001)));
        assert!(frames.iter().all(|frame| frame["type"] != "welcome"), "{frames:?}");
    }
}

#[tokio::test]
async fn a_hello_with_the_key_of_a_browser_that_was_logged_out_after_the_upgrade_is_refused() {
    let daemon = Daemon::new().await;
    let who = daemon.stand.someone("bob", Role::Operator).await;
    let tickets = daemon.stand.native.access.tickets();
    let (ticket, _) = tickets.create(&who).unwrap();
    let browser = tickets.redeem(&ticket, Caller::default()).await.unwrap().unwrap();
    let cookie = format!("{COOKIE}={}", browser.cookie.expose());
    let mut client = daemon.upgrade(&[("cookie", cookie)]).await.unwrap();
    tickets.log_out(&browser.browser).await.unwrap();
    let key = browser.key.expose();
    let hello = json!({"type": "hello", "protocol": 1, "client": {"name": "page"}, "key": key});
    let _ = client.socket.send(Message::text(hello.to_string())).await;
    let (frames, code) = client.closed().await;
    assert_eq!(code, Some(4001));
    assert!(frames.iter().all(|frame| frame["type"] != "welcome"), "{frames:?}");
}

#[tokio::test]
async fn an_event_stream_of_a_revoked_token_says_why_and_ends_in_order() {
    let daemon = Daemon::new().await;
    let tokens = &daemon.stand.native.tokens;
    let (ada, secret) = tokens.create("reader", Role::Viewer, None, None).await.unwrap();
    let mut stream = TcpStream::connect(daemon.address).await.unwrap();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\n\r\n",
        daemon.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(": portolan") {
        seen.push(stream.read_u8().await.unwrap());
    }
    tokens.revoke(&ada.token).await.unwrap();
    let rest = async {
        while !seen.ends_with(b"\r\n0\r\n\r\n") {
            seen.push(stream.read_u8().await.unwrap());
        }
    };
    tokio::time::timeout(SOON, rest).await.expect("it goes on");
    let text = String::from_utf8(seen).unwrap();
    assert!(text.contains("event: closing") && text.contains("token_gone"), "{text}");
}

#[tokio::test]
async fn a_client_that_ends_its_own_token_or_login_still_gets_the_answer() {
    let daemon = Daemon::new().await;
    let tokens = &daemon.stand.native.tokens;
    let ask = async |request: String, lines: String| {
        let mut stream = TcpStream::connect(daemon.address).await.unwrap();
        let text =
            format!("{request} HTTP/1.1\r\nHost: {}\r\n{lines}Connection: close\r\n\r\n", daemon.address);
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    };
    let (ada, secret) = tokens.create("self", Role::Owner, None, None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}\r\n");
    let answer = ask(format!("DELETE /api/v1/tokens/{}", ada.token), bearer.clone()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""reply":"done""#), "{answer}");
    assert!(ask("GET /api/v1/tokens".into(), bearer).await.starts_with("HTTP/1.1 401"));

    let who = daemon.stand.someone("bob", Role::Owner).await;
    let tickets = daemon.stand.native.access.tickets();
    let (ticket, _) = tickets.create(&who).unwrap();
    let browser = tickets.redeem(&ticket, Caller::default()).await.unwrap().unwrap();
    let lines = format!(
        "Cookie: {COOKIE}={}\r\nX-Portolan-Key: {}\r\n",
        browser.cookie.expose(),
        browser.key.expose()
    );
    let answer = ask(format!("DELETE /api/v1/browsers/{}", browser.browser), lines).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut owner = daemon.stand.client("owner", Role::Owner).await;
    owner.ask(json!({"type": "subscribe", "start": {"after": 0}})).await;
    owner.until(|frame| frame["event"]["type"] == "token_revoked").await;
    owner.until(|frame| frame["event"]["type"] == "logged_out").await;
}
