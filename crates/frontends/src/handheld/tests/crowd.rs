//! Many connections, slow connections, early connections, and unknown devices: over real TCP.

use std::{net::SocketAddr, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{Action, ports::Clock};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::{
    devices::{UPGRADE, handheld},
    stand::{PATIENCE, Stand, is_idle, owner, slots},
};
use crate::handheld::{
    desk::GUARD,
    devices::Devices,
    listen,
    places::{DEVICES, PER_DEVICE},
    session_slots::SessionSlots,
};

/// A connection from this address of the machine.
async fn from(own: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

/// A device at this address; `None` if there is no place for it.
async fn device(own: &str, to: SocketAddr) -> Option<WebSocketStream<TcpStream>> {
    let asked = tokio_tungstenite::client_async(format!("ws://{to}/"), from(own, to).await);
    tokio::time::timeout(PATIENCE, asked).await.unwrap().ok().map(|(socket, _)| socket)
}

async fn come_in(own: &str, to: SocketAddr) -> WebSocketStream<TcpStream> {
    let come = async {
        loop {
            match device(own, to).await {
                Some(socket) => return socket,
                // A device has just left, and the server does not know yet.
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, come).await.expect("there is never room")
}

#[tokio::test]
async fn many_devices_fit_and_no_device_takes_the_connections_of_others() {
    let stand = Stand::new().await;
    let addresses: Vec<String> =
        (1..=DEVICES / PER_DEVICE + 1).map(|last| format!("127.0.0.{last}")).collect();
    let allowed: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let handheld = handheld(&stand, &allowed).await;
    let to = handheld.address();
    let (late, others) = allowed.split_last().unwrap();
    let mut held = Vec::new();
    for own in others {
        for _ in 0..PER_DEVICE {
            held.push(device(own, to).await.expect("there is room for each"));
        }
        assert!(device(own, to).await.is_none(), "one address has only so many");
    }
    assert_eq!(held.len(), DEVICES);
    assert!(device(late, to).await.is_none(), "all places are taken");
    let counted = async {
        while handheld.session_slots().health().ws_clients != DEVICES {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("all of them are counted");
    // One device leaves, and there is a free place again.
    held.pop();
    let mut socket = come_in(late, to).await;
    assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    handheld.stop();
    handheld.closed().await;
}

// covers: 000-006
#[tokio::test]
async fn strangers_that_hold_their_connections_open_keep_no_device_out() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &["127.0.0.1"]).await;
    let to = handheld.address();
    let mut crowd = Vec::new();
    for last in 2..=60 {
        // They send nothing, and wait.
        crowd.push(from(&format!("127.0.0.{last}"), to).await);
    }
    let mut socket = device("127.0.0.1", to).await.expect("its place is its own");
    assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    // The owner still sees them.
    let listed = async {
        while handheld.session_slots().devices().list().len() < 60 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.expect("all of them knocked");
    handheld.stop();
    handheld.closed().await;
}

// covers: 000-006
#[tokio::test]
async fn a_device_without_approval_keeps_no_connection() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &[]).await;
    let mut stream = TcpStream::connect(handheld.address()).await.unwrap();
    // The client asks for keep-alive, and asks twice.
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it is hung up").unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("connection: close"), "{answer}");
    handheld.stop();
    handheld.closed().await;
}

#[tokio::test]
async fn a_device_that_connects_during_the_start_waits_until_the_slots_are_restored() {
    let stand = Stand::new().await;
    let session = stand.session("say hello").await;
    stand.session_slots.put_in(&owner(), 2, session).await.unwrap();
    stand.until(session, is_idle).await;
    stand.submit(session, Action::Stop).await;
    let stand = stand.restarted(|_| {}).await;
    let clock = Clock::system();
    let allow = vec!["127.0.0.1".parse().unwrap()];
    let devices = Devices::open(stand.store.clone(), clock.clone(), allow).await.unwrap();
    let session_slots = SessionSlots::new(stand.registry.clone(), clock, slots(&stand.folder), devices);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    session_slots.spawn_task(listen::accept(listener, session_slots.clone()));
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(format!("GET / HTTP/1.1\r\n{UPGRADE}\r\n\r\n").as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), stream.read_u8()).await;
    assert!(early.is_err(), "nothing is answered before the slots are back: {early:?}");
    session_slots.start();
    let mut seen = Vec::new();
    let first = async {
        while !String::from_utf8_lossy(&seen).contains(r#""slot":2"#) {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert_ne!(count, 0, "it hung up");
            seen.extend_from_slice(&bytes[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, first).await.expect("it is served");
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(seen.contains("obedient-2") && !seen.contains("slot-2"), "{seen}");
    session_slots.stop();
    session_slots.closed().await;
}

// covers: 000-060
#[tokio::test]
async fn a_device_that_stopped_reading_approves_no_request_that_it_has_not_received() {
    let stand = Stand::new().await;
    let handheld = handheld(&stand, &["127.0.0.1"]).await;
    let session_slots = handheld.session_slots();
    let socket = TcpSocket::new_v4().unwrap();
    // Smaller than the four panels that follow.
    socket.set_recv_buffer_size(1024).unwrap();
    let stream = socket.connect(handheld.address()).await.unwrap();
    let (mut device, _) =
        tokio_tungstenite::client_async(format!("ws://{}/", handheld.address()), stream).await.unwrap();
    let long = "x".repeat(1000);
    let mut last = None;
    for slot in 0..4 {
        let session = stand.session(&format!("ask Bash {long}")).await;
        session_slots.put_in(&owner(), slot, session).await.unwrap();
        stand.until(session, |state| !state.requests.is_empty()).await;
        last = Some(session);
    }
    let session = last.unwrap();
    let asked = async {
        while session_slots.slots()[3].asked.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    // The prompt was sent a while ago; the device reads nothing.
    tokio::time::sleep(GUARD * 2).await;
    let agent = session_slots.slots()[3].status.agent.clone();
    let press = json!({ "type": "action", "agent": agent, "action": "yes", "slot": 0 }).to_string();
    let mut spawned = session_slots.spawned();
    device.send(Message::text(press.clone())).await.unwrap();
    // What is sent after it is read after it.
    device.send(Message::text(json!({ "type": "spawn_request", "slot": 9 }).to_string())).await.unwrap();
    tokio::time::timeout(PATIENCE, spawned.recv()).await.unwrap().unwrap();
    assert_eq!(stand.state(session).await.requests.len(), 1, "its user has not seen what it asks");
    // The device reads again, and presses again whenever its panel shows that the prompt is still open.
    let answered = async {
        let mut shown = Value::Null;
        loop {
            match tokio::time::timeout(GUARD * 2, device.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    if message["slot"] == 3 && message["type"] == "agent_status" {
                        shown = message;
                    }
                    if shown["message"] == "allowed" {
                        return;
                    }
                }
                Ok(other) => panic!("{other:?}"),
                Err(_) => device.send(Message::text(press.clone())).await.unwrap(),
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("it can approve what it has");
    handheld.stop();
    handheld.closed().await;
}
