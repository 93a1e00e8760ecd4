//! What a facade with an event emitter gives its program: sessions that are connected when they are returned, an active
//! session, news, a door with its own port, and a shutdown.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod mirror;

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use portolan_core::{
    Event, TokenId,
    command::Stage,
    event::Content,
    request::{Ask, Outcome},
};
use portolan_embed::{
    BridgeStatus, CONNECTED_WITHIN, Capabilities, Client, DaemonEvent, Item, ListenError, News, Portolan,
    Principal, RefusalCode, Role, Seq, Session, SessionId, SessionSpec, Settings, Start, door::ListenAddress,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use mirror::{mirror, opened, raw, said, spec};

async fn open() -> Portolan {
    Portolan::open(Settings::in_memory(vec![mirror()])).await.unwrap()
}

/// Another user, with fewer rights.
fn guest(portolan: &Portolan, role: Role, sessions: Option<BTreeSet<SessionId>>) -> Client {
    let (name, via) = ("guest".into(), "embed".into());
    let who = Principal { token: TokenId::random(), name, role, sessions, via };
    Client::new(portolan.registry().clone(), who)
}

/// The first line of the answer to a plain request.
async fn status_line(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap().to_owned()
}

async fn listening(portolan: &Portolan) -> SocketAddr {
    let addresses = portolan.listen().await.unwrap();
    let [ListenAddress::Tcp(address)] = addresses.iter().map(|it| it.address.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{addresses:?}")
    };
    address
}

// covers: 004-090
#[tokio::test]
async fn a_started_session_is_connected_and_its_agent_gets_the_first_prompt_first() {
    let portolan = open().await;
    let content = vec![Content::text("hello")];
    let session =
        portolan.client("test").start(SessionSpec { prompt: content.clone(), ..spec() }).await.unwrap();
    assert!(session.status().await.unwrap().is_connected());
    let mut entries = session.entries(Start::After(Seq::ZERO)).await.unwrap();
    let mut prompts = Vec::new();
    let heard = loop {
        match entries.next().await.unwrap().unwrap().event {
            Event::Prompt { content, .. } => prompts.push(content),
            Event::Message { content, .. } => break content,
            _ => {}
        }
    };
    assert_eq!(prompts, std::slice::from_ref(&content));
    assert_eq!(heard, [Content::text(format!("{content:?}"))]);
}

// covers: 004-091
#[tokio::test]
async fn a_session_whose_agent_never_connects_fails_and_the_agent_is_ended() {
    let portolan = open().await;
    let me = portolan.client("test");
    assert_eq!(CONNECTED_WITHIN, Duration::from_secs(30));
    let never = SessionSpec { model: Some("never ready".into()), ..spec() };
    let refusal = me.start_within(never, Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotRunning);
    assert_eq!(refusal.message, "the agent was not connected within 0.1 s");
    let sessions = me.sessions().await.unwrap();
    assert_eq!(sessions.iter().map(BridgeStatus::from).collect::<Vec<_>>(), [BridgeStatus::Terminated]);
    let dead = SessionSpec { model: Some("dead on arrival".into()), ..spec() };
    assert_eq!(me.start(dead).await.unwrap_err().message, "it ended");
}

// covers: 004-092
#[tokio::test]
async fn a_killed_session_leaves_nobody_waiting() {
    let (_portolan, session) = opened().await;
    assert_eq!(portolan_agents::child::Ladder::default().terminate, Duration::from_secs(5));
    let mut entries = session.entries(Start::After(Seq::ZERO)).await.unwrap();
    session.prompt("ask").await.unwrap();
    let request = loop {
        if let Event::RequestOpened { request } = entries.next().await.unwrap().unwrap().event {
            break request.request;
        }
    };
    let asking = session.clone();
    let pending = tokio::spawn(async move { asking.native(json!({ "silent": true })).await });
    // The prompt was delivered before it asked.
    while !matches!(
        entries.next().await.unwrap().unwrap().event,
        Event::Receipt { stage: Stage::Delivered, .. }
    ) {}
    session.close().await.unwrap();
    assert_eq!(pending.await.unwrap().unwrap_err().code, RefusalCode::NotRunning);
    let state = session.state().await.unwrap();
    assert_eq!(state.requests, []);
    let closed = state.closed_requests.iter().find(|closed| closed.request == request).unwrap();
    assert!(matches!(closed.outcome, Outcome::AgentGone { .. }), "{closed:?}");
    let late = session.allow(request).await.unwrap_err();
    assert_eq!(late.code, RefusalCode::AlreadyClosed);
}

async fn active(client: &Client) -> Option<SessionId> {
    client.active().await.unwrap().map(|session| session.id())
}

// covers: 004-093
#[tokio::test]
async fn the_newest_session_is_active_until_another_is_selected_or_it_ends() {
    let portolan = open().await;
    let me = portolan.client("test");
    assert_eq!(active(&me).await, None);
    let first = me.start(spec()).await.unwrap();
    assert_eq!(active(&me).await, Some(first.id()));
    let second = me.start(spec()).await.unwrap();
    assert_eq!(active(&me.clone()).await, Some(second.id()));
    me.set_active(first.id()).await.unwrap();
    assert_eq!(active(&me).await, Some(first.id()));
    // The active session is only a default of each client and gives no access.
    let bound = guest(&portolan, Role::Operator, Some([first.id()].into()));
    assert_eq!(active(&bound).await, Some(first.id()));
    assert_eq!(bound.set_active(second.id()).await.unwrap_err().code, RefusalCode::NotFound);
    assert_eq!(active(&bound).await, Some(first.id()));
    first.close().await.unwrap();
    assert_eq!(active(&me).await, Some(second.id()));
    assert_eq!(active(&bound).await, None);
    second.close().await.unwrap();
    assert_eq!(active(&me).await, None);
}

// covers: 004-098
#[tokio::test]
async fn a_raw_request_gets_its_answer_or_times_out_and_only_an_owner_may_send_it() {
    let (portolan, session) = opened().await;
    let body = json!({ "type": "x" });
    let answer = session.native_within(body.clone(), Duration::from_mins(1)).await.unwrap();
    assert_eq!(answer.unwrap(), r#"Native(Object {"type": String("x")})"#);
    let silent = session.native_within(json!({ "silent": true }), Duration::from_millis(50)).await;
    let refusal = silent.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotRunning);
    assert_eq!(refusal.message, "the agent gave no answer within 0.05 s");
    let operator = guest(&portolan, Role::Operator, None).session(session.id());
    operator.set_model(Some("silver")).await.unwrap();
    assert_eq!(operator.native(body).await.unwrap_err().code, RefusalCode::Forbidden);
}

async fn next(news: &mut News) -> Item {
    news.next().await.unwrap().unwrap()
}

// covers: 004-102, 004-104
#[tokio::test]
async fn every_change_of_status_and_capabilities_is_reported() {
    let (_portolan, session) = opened().await;
    let status = Item::Status;
    let can = |capabilities: Capabilities| Item::Capabilities(Box::new(capabilities));
    let known = session.capabilities().await.unwrap();
    assert!(known.supported_commands.is_some(), "the agent reported more than was known before");
    let mut news = session.news().await.unwrap();
    assert_eq!(next(&mut news).await, status(BridgeStatus::Connected));
    assert_eq!(next(&mut news).await, can(known.clone()));
    said(&session, vec![Content::text("hello")]).await;
    assert_eq!(next(&mut news).await, status(BridgeStatus::Active));
    assert_eq!(next(&mut news).await, status(BridgeStatus::Idle));
    session.close().await.unwrap();
    assert_eq!(next(&mut news).await, status(BridgeStatus::Terminated));
    session.resume().await.unwrap();
    assert_eq!(next(&mut news).await, status(BridgeStatus::Starting));
    assert_eq!(next(&mut news).await, can(mirror::capabilities()));
    assert_eq!(next(&mut news).await, can(known));
    assert_eq!(next(&mut news).await, status(BridgeStatus::Connected));
}

// covers: 004-103
#[tokio::test]
async fn every_message_is_an_event_and_its_original_is_available() {
    let (portolan, session) = opened().await;
    let mut entries = session.entries(Start::Tail(0)).await.unwrap();
    let mut heard = Vec::new();
    for text in ["one", "two"] {
        session.prompt(text).await.unwrap();
        loop {
            let told = entries.next().await.unwrap().unwrap();
            match told.event {
                Event::Message { content, .. } => heard.push((told.seq, content)),
                Event::TurnEnded { .. } => break,
                _ => {}
            }
        }
    }
    let words = |text: &str| format!("{:?}", vec![Content::text(text)]);
    let expected = [vec![Content::text(words("one"))], vec![Content::text(words("two"))]];
    assert_eq!(heard.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(session.raw(heard[1].0).await.unwrap(), Some(raw(&words("two"))));
    let viewer = guest(&portolan, Role::Viewer, None).session(session.id());
    assert_eq!(viewer.raw(heard[1].0).await.unwrap_err().code, RefusalCode::Forbidden);
}

/// The program's answer to a request of its agent.
async fn decide(session: &Session, event: &Event) {
    let Event::RequestOpened { request } = event else { return };
    match &request.ask {
        Ask::Permission { tool_name, .. } if tool_name == "Read" => session.allow(request.request).await,
        _ => session.deny(request.request, Some("only reading")).await,
    }
    .unwrap();
}

// covers: 004-128
#[tokio::test]
async fn a_program_allows_reading_and_denies_the_shell_while_it_reads_the_stream() {
    let (_portolan, session) = opened().await;
    let mut heard = Vec::new();
    for text in ["ask Read", "ask Bash"] {
        let mut reply = session.send(vec![Content::text(text)]).await.unwrap();
        while let Some(told) = reply.next().await.unwrap() {
            decide(&session, &told.event).await;
            if let Event::Message { content, .. } = told.event {
                heard.push(portolan_core::event::plain_text(&content));
            }
        }
    }
    let [read, shell] = &heard[..] else { panic!("{heard:?}") };
    assert!(read.starts_with("Allow { input: None"), "{read}");
    assert!(shell.starts_with(r#"Deny { message: Some("only reading")"#), "{shell}");
}

// covers: 004-100
#[tokio::test]
async fn the_state_can_be_read_at_any_time() {
    let portolan = open().await;
    assert_eq!(portolan.url(), None, "no door is open");
    let address = listening(&portolan).await;
    assert_eq!(portolan.url(), Some(format!("http://{address}")));
    let me = portolan.client("test");
    let session = me.create(spec()).await.unwrap();
    // Before the agent is connected, while it runs, and after its end.
    assert!(session.capabilities().await.is_ok());
    assert_eq!(session.state().await.unwrap().summary.agent, "mirror");
    let info = session.info().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(session.info().await.unwrap(), info);
    assert!(session.capabilities().await.unwrap().supported_models.is_some());
    let ids: Vec<_> = me.sessions().await.unwrap().iter().map(|summary| summary.session).collect();
    assert_eq!(ids, [session.id()]);
    assert_eq!(session.state().await.unwrap().spec.cwd, spec().cwd);
    portolan.shutdown(Duration::from_secs(5)).await;
}

// covers: 004-080, 004-081, 004-082, 004-088, 004-105
#[tokio::test]
async fn a_program_that_listens_gets_a_free_port_of_loopback_and_one_door_for_websocket_and_rest() {
    let portolan = open().await;
    let mut changes = portolan.client("test").changes().await.unwrap();
    let address = listening(&portolan).await;
    assert_eq!(address.ip().to_string(), "127.0.0.1");
    assert_ne!(address.port(), 0);
    assert_eq!(listening(&portolan).await, address, "a second call returns the same door");
    let event = changes.next().await.unwrap().unwrap().event;
    let DaemonEvent::DoorOpened { addresses, tls: false, .. } = &event else { panic!("{event:?}") };
    assert_eq!(addresses, &[address.to_string()]);
    let other = open().await;
    assert_ne!(listening(&other).await, address, "two programs use different ports");
    let here = address.to_string();
    assert_eq!(status_line(address, "/healthz", &here).await, "HTTP/1.1 200 OK");
    assert_eq!(status_line(address, "/api/v1/sessions", &here).await, "HTTP/1.1 401 Unauthorized");
    let token = portolan.token("a friend", Role::Viewer).await.unwrap();
    let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let (_socket, answer) = tokio_tungstenite::connect_async(request).await.unwrap();
    assert_eq!(answer.status(), 101);
    other.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn what_happens_at_the_door_is_in_the_log() {
    let portolan = open().await;
    let mut changes = portolan.client("test").changes().await.unwrap();
    let address = listening(&portolan).await;
    portolan.token("a friend", Role::Viewer).await.unwrap();
    let failures = Settings::in_memory(vec![]).door.limits.failures;
    for _ in 0..failures {
        let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
        request.headers_mut().insert("authorization", "Bearer guessed".parse().unwrap());
        assert!(tokio_tungstenite::connect_async(request).await.is_err(), "a guessed token gives no access");
    }
    let mut told = Vec::new();
    while told.len() < 3 {
        told.push(changes.next().await.unwrap().unwrap().event);
    }
    let [
        DaemonEvent::DoorOpened { frontend: None, tokenless: false, .. },
        DaemonEvent::TokenCreated { name, role: Role::Viewer, .. },
        DaemonEvent::AccessRefused { from, attempts, .. },
    ] = told.as_slice()
    else {
        panic!("{told:?}")
    };
    assert_eq!((name.as_str(), from.as_str(), *attempts), ("a friend", "127.0.0.1", failures));
    assert_eq!(
        portolan.shutdown(Duration::from_secs(5)).await,
        Vec::<String>::new(),
        "it ends with the rest"
    );
}

// covers: 004-089
#[tokio::test]
async fn after_the_shutdown_no_agent_runs_and_no_port_is_open() {
    let portolan = open().await;
    let address = listening(&portolan).await;
    let me = portolan.client("test");
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(me.start(spec()).await.unwrap().entries(Start::Tail(0)).await.unwrap());
    }
    assert_eq!(portolan.shutdown(Duration::from_secs(5)).await, Vec::<String>::new());
    for mut entries in all {
        let mut exits = 0;
        while let Some(told) = entries.next().await.unwrap() {
            exits += u32::from(matches!(told.event, Event::AgentExited { .. }));
        }
        assert_eq!(exits, 1);
    }
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(portolan.url(), None);
    let ListenError::Refused(refusal) = portolan.listen().await.unwrap_err() else { panic!("it listens") };
    assert_eq!(refusal.code, RefusalCode::ShuttingDown);
}
