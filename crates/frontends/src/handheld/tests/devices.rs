//! The listener: who gets access, and the answer of each route.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::ports::Clock;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

use super::stand::{PATIENCE, Stand, owner, slots};
use crate::handheld::{DeviceState, Handheld, Setup, devices::Decide};

pub(super) async fn handheld(stand: &Stand, allow: &[&str]) -> Handheld {
    let setup = Setup {
        listen: "127.0.0.1:0".parse().unwrap(),
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        slots: slots(&stand.folder),
    };
    let handheld = Handheld::open(setup, stand.registry.clone(), Clock::system()).await.unwrap();
    handheld.start();
    handheld
}

/// Sends a request head; returns the whole answer.
async fn request(address: SocketAddr, head: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

pub(super) const UPGRADE: &str = "Host: 127.0.0.1:3333\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13";

// covers: 000-006, 000-080
#[tokio::test]
async fn a_device_that_nobody_approved_sees_nothing_and_one_that_was_revoked_is_put_out() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &[]).await;
    let address = handheld.address();
    for head in [
        "GET /health HTTP/1.1\r\nHost: x".to_owned(),
        "GET / HTTP/1.1\r\nHost: x".to_owned(),
        format!("GET / HTTP/1.1\r\n{UPGRADE}"),
    ] {
        let (status, answer) = request(address, &head).await;
        assert_eq!(status, 403);
        assert_eq!(body(&answer), "waiting until an owner approves this device\n");
        assert!(!answer.contains("101"), "the app would take it for a welcome: {answer}");
    }
    let listed = handheld.session_slots().devices().list();
    assert_eq!(listed.len(), 1);
    handheld.session_slots().devices().decide(listed[0].address, Decide::Approve).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/any/path")).await.unwrap();
    let first = socket.next().await.unwrap().unwrap();
    let first: Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
    assert_eq!((&first["type"], &first["slot"]), (&json!("agent_status"), &json!(0)));
    handheld.session_slots().devices().decide(listed[0].address, Decide::Revoke).await.unwrap();
    let rest = async {
        while let Some(Ok(message)) = socket.next().await {
            if message.is_close() {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.expect("it is put out");
    assert_eq!(request(address, "GET /health HTTP/1.1\r\nHost: 127.0.0.1").await.0, 403);
    handheld.stop();
    handheld.closed().await;
}

// covers: 000-079
#[tokio::test]
async fn health_shows_the_slots_the_connections_and_auto_edit() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &["127.0.0.1"]).await;
    let address = handheld.address();
    let session = stand.session("say hello").await;
    let state = stand.until(session, |state| state.summary.turns == 1).await;
    handheld.session_slots().put_in(&owner(), 2, session).await.unwrap();
    let mut devices = Vec::new();
    for _ in 0..2 {
        let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/")).await.unwrap();
        devices.push(socket);
    }
    let on = json!({ "type": "config", "agent": "x", "autoEdit": true }).to_string();
    devices[0].send(Message::text(on)).await.unwrap();
    let shown = async {
        loop {
            let message = devices[0].next().await.unwrap().unwrap();
            let status: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if status["slot"] == 2 && status["autoEdit"] == true && status["message"] == "say hello" {
                return status;
            }
        }
    };
    let status = tokio::time::timeout(PATIENCE, shown).await.unwrap();
    let (_, answer) = request(address, "GET /health HTTP/1.1\r\nHost: 127.0.0.1").await;
    let health: Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(health["agents"][2], status, "each slot as the devices are told of it");
    let names: Vec<_> = health["agents"].as_array().unwrap().iter().map(|it| it["agent"].clone()).collect();
    assert_eq!((&names[0], &names[1], &names[3]), (&json!("slot-0"), &json!("slot-1"), &json!("slot-3")));
    assert_eq!((&health["autoEdit"], &health["wsClients"]), (&json!(true), &json!(2)));
    let behind = json!([{ "slot": 2, "status": "idle", "session": session,
        "agentSession": state.summary.agent_session }]);
    assert_eq!(health["sessions"], behind);
    assert!(behind[0]["agentSession"].is_string(), "{behind}");
    handheld.stop();
    handheld.closed().await;
}

// covers: 000-079, 000-081
#[tokio::test]
async fn every_route_answers_as_the_app_and_its_friends_expect() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &["127.0.0.1"]).await;
    let address = handheld.address();
    let (status, answer) = request(address, "GET /health HTTP/1.1\r\nHost: 192.168.1.2:3333").await;
    assert_eq!(status, 200);
    let health: Value = serde_json::from_str(body(&answer)).unwrap();
    let keys: Vec<_> = health.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["status", "agents", "autoEdit", "wsClients", "sessions"]);
    assert_eq!(
        (&health["status"], &health["autoEdit"], &health["wsClients"], &health["sessions"]),
        (&json!("ok"), &json!(false), &json!(0), &json!([]))
    );
    assert_eq!(health["agents"].as_array().unwrap().len(), 4);
    for path in ["/", "/anything"] {
        let (status, answer) = request(address, &format!("GET {path} HTTP/1.1\r\nHost: x")).await;
        assert_eq!((status, body(&answer)), (200, "Portolan, for handhelds\n"));
        assert!(answer.contains("text/plain"), "{answer}");
    }
    // The old server accepted hooks here; they are gone.
    let (status, _) = request(address, "POST /hook/pre-tool HTTP/1.1\r\nHost: x\r\nContent-Length: 0").await;
    assert_eq!(status, 405);
    let wrong = UPGRADE.replace("Version: 13", "Version: 8");
    assert_eq!(request(address, &format!("GET / HTTP/1.1\r\n{wrong}")).await.0, 400);
    handheld.stop();
    handheld.closed().await;
}

#[tokio::test]
async fn a_page_in_a_browser_is_refused_even_from_an_allowed_address() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &["127.0.0.1"]).await;
    let address = handheld.address();
    for origin in ["http://evil.example", "http://127.0.0.1:3333", "null"] {
        let (status, answer) =
            request(address, &format!("GET / HTTP/1.1\r\n{UPGRADE}\r\nOrigin: {origin}")).await;
        assert_eq!((status, body(&answer)), (403, "not for browsers\n"));
    }
    // A host name that points here (DNS rebinding), which a page would use to read data for devices.
    for host in ["evil.example:3333", "localhost:3333"] {
        let (status, _) = request(address, &format!("GET /health HTTP/1.1\r\nHost: {host}")).await;
        assert_eq!(status, 403, "{host}");
    }
    for host in ["127.0.0.1:3333", "[::1]:3333", "10.0.0.1"] {
        assert_eq!(request(address, &format!("GET /health HTTP/1.1\r\nHost: {host}")).await.0, 200, "{host}");
    }
    handheld.stop();
    handheld.closed().await;
}

#[tokio::test]
async fn a_message_of_a_device_during_its_revocation_has_no_effect() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &[]).await;
    let url = format!("ws://{}", handheld.address());
    let (devices, local) = (handheld.session_slots().devices(), handheld.address().ip());
    // The order of both checks is random.
    for _ in 0..12 {
        // An approval in the millisecond of a revocation does not count.
        while devices.decide(local, Decide::Approve).await.unwrap().state != DeviceState::Approved {}
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        socket.next().await.unwrap().unwrap();
        let spawn = tokio_tungstenite::tungstenite::Message::text(r#"{"type":"spawn_request","slot":0}"#);
        let (sent, revoked) = tokio::join!(socket.send(spawn), devices.decide(local, Decide::Revoke));
        sent.unwrap();
        revoked.unwrap();
        let rest = async { while let Some(Ok(_)) = socket.next().await {} };
        tokio::time::timeout(PATIENCE, rest).await.expect("it is put out");
    }
    assert_eq!(handheld.session_slots().health().sessions.len(), 0);
    handheld.stop();
    handheld.closed().await;
}

// An action that takes effect at once, without another access check.
#[tokio::test]
async fn a_press_of_a_device_during_its_revocation_reaches_no_session() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &[]).await;
    let session = stand.session("ask Bash ls").await;
    stand.until(session, |state| !state.requests.is_empty()).await;
    handheld.session_slots().put_in(&owner(), 2, session).await.unwrap();
    let url = format!("ws://{}", handheld.address());
    let (devices, local) = (handheld.session_slots().devices(), handheld.address().ip());
    // The order of both checks is random; the press comes first in one of eight.
    for _ in 0..50 {
        // An approval in the millisecond of a revocation does not count.
        while devices.decide(local, Decide::Approve).await.unwrap().state != DeviceState::Approved {}
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        let shown = async {
            loop {
                let message = socket.next().await.unwrap().unwrap();
                let status: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
                if status["slot"] == 2 && status["promptToolType"] == "Bash" {
                    return status["agent"].clone();
                }
            }
        };
        let agent = tokio::time::timeout(PATIENCE, shown).await.unwrap();
        let press = json!({ "type": "action", "agent": agent, "action": "yes", "slot": 0 }).to_string();
        let (sent, revoked) =
            tokio::join!(socket.send(Message::text(press)), devices.decide(local, Decide::Revoke));
        sent.unwrap();
        revoked.unwrap();
        let rest = async { while let Some(Ok(_)) = socket.next().await {} };
        tokio::time::timeout(PATIENCE, rest).await.expect("it is put out");
    }
    let told =
        serde_json::to_value(handheld.session_slots().health()).unwrap()["agents"][2]["message"].clone();
    assert!(!told.as_str().unwrap().contains("Too early"), "{told}");
    assert_eq!(stand.state(session).await.requests.len(), 1);
    handheld.stop();
    handheld.closed().await;
}

// covers: 000-091
#[tokio::test]
async fn the_error_for_a_taken_address_names_the_way_out() {
    let stand = Stand::new().await;
    let first = handheld(&stand, &[]).await;
    let setup = Setup { listen: first.address(), allow: vec![], slots: slots(&stand.folder) };
    let error = Handheld::open(setup, stand.registry.clone(), Clock::system()).await.unwrap_err();
    assert!(error.to_string().contains("change `listen` under [handheld]"), "{error}");
    first.stop();
    first.closed().await;
}
