//! Who gets access: by header, by sub-protocol, by a first message, from this machine without a token; and who does
//! not.

use std::{net::SocketAddr, time::Duration};

use futures_util::SinkExt as _;
use http::{HeaderValue, Request, StatusCode, header};
use portolan_core::Role;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    client_async,
    tungstenite::{self, Message, client::IntoClientRequest as _},
};

use super::*;
use crate::insights::{PATH, own_routes};
use portolan_host::door::{Door, ListenAddress, Serving};

/// Whether clients of this machine need no token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anonymous {
    Refused,
    FromLoopback,
}

/// A dashboard behind a real door, on its own listener.
struct Open {
    stand: Stand,
    address: SocketAddr,
    closing: CancellationToken,
    serving: Serving,
}

impl Open {
    async fn new(anonymous: Anonymous) -> Self {
        let agent = "puppet".to_owned();
        let stand = Stand::with(Settings {
            agent,
            allow_anonymous_loopback: anonymous == Anonymous::FromLoopback,
            ..Settings::default()
        })
        .await;
        let closing = CancellationToken::new();
        let door = Door::bind(&stand.behind.door).await.unwrap();
        let serving =
            door.serve(stand.insights.access.clone(), own_routes(stand.insights.clone()), closing.clone());
        let address = match serving.addresses[0].address {
            ListenAddress::Tcp(address) => address,
            ListenAddress::Unix(_) => panic!("a TCP address was asked for"),
        };
        Self { stand, address, closing, serving }
    }

    fn request(&self, path: &str, headers: &[(header::HeaderName, &str)]) -> Request<()> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        request
    }

    async fn connect(
        &self,
        path: &str,
        headers: &[(header::HeaderName, &str)],
    ) -> Result<(Client<TcpStream>, http::Response<Option<Vec<u8>>>), StatusCode> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        match client_async(self.request(path, headers), stream).await {
            Ok((socket, response)) => Ok((Client::new(socket), response)),
            Err(tungstenite::Error::Http(response)) => Err(response.status()),
            Err(other) => panic!("{other}"),
        }
    }

    async fn close(self) {
        self.closing.cancel();
        self.stand.insights.stopping.cancel();
        self.serving.closed().await;
    }
}

async fn works(client: &mut Client<TcpStream>) {
    client.create("say:hello").await;
    client.until("session.completed").await;
}

// covers: 001-001, 001-002
#[tokio::test]
async fn a_token_comes_by_header_by_sub_protocol_or_by_the_first_message() {
    let open = Open::new(Anonymous::Refused).await;
    let (_, secret) = open.stand.someone("ada", Role::Operator).await;
    for path in ["/", PATH] {
        let bearer = format!("Bearer {secret}");
        let (mut client, _) = open.connect(path, &[(header::AUTHORIZATION, &bearer)]).await.unwrap();
        works(&mut client).await;
        let protocol = format!("bearer.{secret}");
        let (mut client, response) =
            open.connect(path, &[(header::SEC_WEBSOCKET_PROTOCOL, &protocol)]).await.unwrap();
        assert_eq!(
            response.headers()[header::SEC_WEBSOCKET_PROTOCOL],
            protocol.as_str(),
            "browsers want one named"
        );
        works(&mut client).await;
        let both = format!("insights, {protocol}");
        let (mut client, response) =
            open.connect(path, &[(header::SEC_WEBSOCKET_PROTOCOL, &both)]).await.unwrap();
        assert_eq!(
            response.headers()[header::SEC_WEBSOCKET_PROTOCOL],
            "insights",
            "the token is not sent back"
        );
        works(&mut client).await;
        let (mut client, _) = open.connect(path, &[]).await.unwrap();
        client.send("session.list", json!({})).await;
        assert_eq!(client.error().await.0, "HANDLER_ERROR", "nothing is open to a stranger");
        client.send("auth", json!({"token": secret})).await;
        assert_eq!(client.one("auth.ok").await, json!({"name": "ada", "role": "operator"}));
        works(&mut client).await;
    }
    open.close().await;
}

#[tokio::test]
async fn a_secret_that_is_replaced_ends_its_connections_with_the_reason_however_it_was_shown() {
    let open = Open::new(Anonymous::Refused).await;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("token");
    let owner = open.stand.behind.tokens.owner_secret_file(&path).await.unwrap();
    let bearer = format!("Bearer {}", owner.expose());
    let protocol = format!("bearer.{}", owner.expose());
    let (by_header, _) = open.connect("/", &[(header::AUTHORIZATION, &bearer)]).await.unwrap();
    let (by_protocol, _) = open.connect("/", &[(header::SEC_WEBSOCKET_PROTOCOL, &protocol)]).await.unwrap();
    let (mut by_message, _) = open.connect("/", &[]).await.unwrap();
    by_message.send("auth", json!({"token": owner.expose()})).await;
    by_message.one("auth.ok").await;
    open.stand.behind.tokens.rotate_owner(&path).await.unwrap();
    for mut client in [by_header, by_protocol, by_message] {
        // The connection may be closing already.
        let create = json!({"type": "session.create", "payload": {"prompt": "say:hello"}});
        let _ = client.socket.send(Message::text(create.to_string())).await;
        let (messages, code) = client.closed().await;
        assert_eq!(
            (messages.last().unwrap()["payload"]["code"].as_str(), code),
            (Some("HANDLER_ERROR"), Some(4001))
        );
    }
    let query = portolan_core::ports::SessionQuery { archived: None, live: false, before: None, limit: 10 };
    let (owner, _) = open.stand.someone("owner", Role::Owner).await;
    assert_eq!(open.stand.insights.registry.list(&owner, query).await.unwrap().len(), 0);
    open.close().await;
}

#[tokio::test]
async fn a_wrong_token_opens_nothing_wherever_it_is_shown() {
    let open = Open::new(Anonymous::Refused).await;
    for headers in [
        vec![(header::AUTHORIZATION, "Bearer wrong")],
        vec![(header::AUTHORIZATION, "Basic d3Jvbmc6d3Jvbmc=")],
        vec![(header::SEC_WEBSOCKET_PROTOCOL, "bearer.wrong")],
        vec![(header::SEC_WEBSOCKET_PROTOCOL, "bearer.")],
    ] {
        assert_eq!(open.connect("/", &headers).await.err(), Some(StatusCode::UNAUTHORIZED), "{headers:?}");
    }
    let (mut client, _) = open.connect("/", &[]).await.unwrap();
    client.send("auth", json!({"token": "wrong"})).await;
    let (messages, code) = client.closed().await;
    assert_eq!((messages[0]["payload"]["code"].as_str(), code), (Some("HANDLER_ERROR"), Some(4001)));
    // A plain request and other paths give no access either.
    let (mut client, _) = open.connect("/", &[]).await.unwrap();
    client.send_text(&"x".repeat(64 * 1024)).await;
    let (_, code) = client.closed().await;
    assert_eq!(code, Some(1009), "a stranger cannot make us keep much");
    assert_eq!(open.connect("/ws", &[]).await.err(), Some(StatusCode::UNAUTHORIZED));
    open.close().await;
}

#[tokio::test]
async fn a_stranger_that_talks_on_without_a_token_is_put_out() {
    let open = Open::new(Anonymous::Refused).await;
    let (mut client, _) = open.connect("/", &[]).await.unwrap();
    for _ in 0..16 {
        client.send("session.list", json!({})).await;
    }
    let (messages, code) = client.closed().await;
    assert_eq!(code, Some(4001));
    assert!(
        messages.len() <= 17 && messages.iter().all(|message| message["type"] == "error"),
        "{messages:?}"
    );
    open.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_says_nothing_loses_its_place() {
    let stand = Stand::new().await;
    let (ours, theirs) = duplex(1024);
    let stranger = portolan_host::door::Stranger::from_nowhere();
    let visitor = Visitor::Stranger(stranger, portolan_host::door::Arrival::Unknown);
    let began = tokio::time::Instant::now();
    stand.insights.connections.spawn(serve(stand.insights.clone(), visitor, theirs));
    let mut client = Client::over(ours).await;
    let (_, code) = client.closed().await;
    assert_eq!(code, Some(4001));
    assert!(began.elapsed() >= Duration::from_secs(10));
}

// covers: 001-002
#[tokio::test]
async fn old_clients_of_this_machine_get_in_without_a_token_only_where_that_is_allowed() {
    let open = Open::new(Anonymous::FromLoopback).await;
    let (mut client, _) = open.connect("/", &[]).await.unwrap();
    works(&mut client).await;
    // They may prompt and answer, but not do what only owners may.
    let bypass = json!({"prompt": "say:x", "cwd": "/", "permission_mode": "bypassPermissions"});
    client.send("session.create", bypass).await;
    assert_eq!(client.error().await.0, "SESSION_CREATE_FAILED");
    // A client with a token may still send it.
    let (_, secret) = open.stand.someone("own", Role::Owner).await;
    client.send("auth", json!({"token": "wrong"})).await;
    assert_eq!(client.error().await.0, "HANDLER_ERROR");
    client.send("auth", json!({"token": secret})).await;
    assert_eq!(client.one("auth.ok").await, json!({"name": "own", "role": "owner"}));
    works(&mut client).await;
    // Foreign pages still get no access.
    for origin in ["https://evil.example", "http://localhost:1", "null"] {
        let refused = open.connect("/", &[(header::ORIGIN, origin)]).await.err();
        assert_eq!(refused, Some(StatusCode::FORBIDDEN), "{origin}");
    }
    open.close().await;
}

#[tokio::test]
async fn whoever_a_proxy_on_this_machine_passes_on_needs_a_token() {
    let open = Open::new(Anonymous::FromLoopback).await;
    let (_, secret) = open.stand.someone("ada", Role::Operator).await;
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-for", ""),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-server", "edge"),
        ("forwarded", "for=127.0.0.1"),
        ("via", "1.1 edge"),
        ("x-real-ip", "127.0.0.1"),
        ("x-client-ip", "127.0.0.1"),
        ("true-client-ip", "127.0.0.1"),
        ("cf-connecting-ip", "127.0.0.1"),
    ] {
        let header = header::HeaderName::from_static(name);
        let (mut client, _) = open.connect("/", &[(header, value)]).await.unwrap();
        client.send("session.list", json!({})).await;
        let (code, why) = client.error().await;
        assert_eq!(code, "HANDLER_ERROR", "{name}: {value}");
        assert!(why.contains("connections through a proxy need a token"), "{name}: {why}");
        client.send("auth", json!({"token": secret})).await;
        assert_eq!(client.one("auth.ok").await, json!({"name": "ada", "role": "operator"}), "{name}");
    }
    let (mut client, _) = open.connect("/", &[]).await.unwrap();
    works(&mut client).await;
    open.close().await;
}

// covers: 001-002
#[tokio::test]
async fn a_hostile_page_does_not_even_get_to_show_a_token() {
    let open = Open::new(Anonymous::Refused).await;
    let (_, secret) = open.stand.someone("ada", Role::Operator).await;
    let protocol = format!("bearer.{secret}");
    for path in ["/", PATH] {
        for origin in ["https://evil.example", "http://127.0.0.1:1", "file://", "null"] {
            let headers = [(header::ORIGIN, origin), (header::SEC_WEBSOCKET_PROTOCOL, protocol.as_str())];
            assert_eq!(open.connect(path, &headers).await.err(), Some(StatusCode::FORBIDDEN), "{origin}");
        }
        for host in ["evil.example", "localhost.evil.example:8765"] {
            let headers = [(header::HOST, host), (header::SEC_WEBSOCKET_PROTOCOL, protocol.as_str())];
            assert_eq!(
                open.connect(path, &headers).await.err(),
                Some(StatusCode::MISDIRECTED_REQUEST),
                "{host}"
            );
        }
        let own = format!("http://{}", open.address);
        let headers = [(header::ORIGIN, own.as_str()), (header::SEC_WEBSOCKET_PROTOCOL, protocol.as_str())];
        assert!(open.connect(path, &headers).await.is_ok(), "our own origin is welcome");
    }
    open.close().await;
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tls() {
    let settings = DoorSettings { listen: vec!["0.0.0.0:0".parse().unwrap()], ..DoorSettings::default() };
    let refused = Door::bind(&settings).await.unwrap_err().to_string();
    assert!(refused.contains("so it needs TLS"), "{refused}");
}

#[tokio::test]
async fn a_plain_http_request_gets_426_with_a_token_and_401_without() {
    let open = Open::new(Anonymous::Refused).await;
    let (_, secret) = open.stand.someone("ada", Role::Operator).await;
    let bearer = format!("Authorization: Bearer {secret}");
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    for (lines, status) in [(bearer.as_str(), "426"), ("X: y", "401")] {
        let mut stream = TcpStream::connect(open.address).await.unwrap();
        let text =
            format!("GET / HTTP/1.1\r\nHost: {}\r\n{lines}\r\nConnection: close\r\n\r\n", open.address);
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    open.close().await;
}
