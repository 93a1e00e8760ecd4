//! Lost connections, against a daemon that the test plays over lines in memory.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{Seq, SessionId, log::delivery::Start};
use serde_json::{Value, json};
use tokio::{
    io::DuplexStream,
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

use super::*;

/// How many bytes a line holds, and how many lines wait: more than any test writes.
const ROOM: usize = 64 * 1024;

/// Lines whose other ends the test gets.
#[derive(Debug)]
struct Wires(mpsc::Sender<DuplexStream>);

impl Dial for Wires {
    fn line(&self, _: Attempt) -> Dialling<'_> {
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(ROOM);
            let refused = |_| Error::Unreachable("no daemon listens".into());
            self.0.try_send(theirs).map_err(refused)?;
            Ok(Line::over(ours))
        })
    }
}

/// The daemon's end of all lines.
struct Daemon(mpsc::Receiver<DuplexStream>);

/// The daemon's end of a connection.
struct Peer(WebSocketStream<DuplexStream>);

impl Daemon {
    /// The next connection, greeted by a daemon whose logs have this name.
    async fn accept(&mut self, incarnation: &str) -> Peer {
        let mut peer = Peer(accept_async(self.0.recv().await.unwrap()).await.unwrap());
        assert_eq!(peer.read().await["type"], "hello");
        peer.say(json!({
            "type": "welcome",
            "protocol": 1,
            "server": { "name": "portolan", "version": "1", "incarnation": incarnation },
            "you": { "token": "owner", "name": "ada", "role": "owner" },
            "limits": { "frame_bytes": 1, "attachments": 1 },
        }))
        .await;
        peer
    }
}

impl Peer {
    async fn read(&mut self) -> Value {
        let message = self.0.next().await.unwrap().unwrap();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn attaches(&mut self, session: SessionId) -> Value {
        let call = self.read().await;
        assert_eq!(call["type"], "attach");
        self.say(json!({ "type": "reply", "id": call["id"], "reply": "attached", "session": session })).await;
        call["start"].clone()
    }

    async fn entry(&mut self, session: SessionId, seq: u64) {
        let event = json!({ "type": "notice", "level": "info", "text": "ahoy" });
        self.say(json!({ "type": "entry", "session": session, "seq": seq, "at": 0, "event": event })).await;
    }
}

fn wires() -> (Arc<Wires>, Daemon) {
    let (lines, daemon) = mpsc::channel(8);
    (Arc::new(Wires(lines)), Daemon(daemon))
}

/// A client, and its first connection to logs called `first`.
async fn connected() -> (Client, Peer, Daemon) {
    let (wires, mut daemon) = wires();
    let who = ClientInfo { name: "test".into(), version: "1".into() };
    let (client, peer) = tokio::join!(Client::connect(wires, who), daemon.accept("first"));
    (client.unwrap(), peer, daemon)
}

async fn attached() -> (Attached, Peer, Daemon) {
    let (client, mut peer, daemon) = connected().await;
    let session = SessionId::new();
    let attached = Attached::new(client, session, Start::After(Seq(3)));
    let (attached, start) = tokio::join!(attached, peer.attaches(session));
    assert_eq!(start, json!({ "after": 3 }));
    (attached.unwrap(), peer, daemon)
}

async fn next_seq(attached: &mut Attached) -> u64 {
    match attached.next().await.unwrap() {
        Inbound::Entry { entry, .. } => entry.seq.0,
        other => panic!("not an entry: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_comes_back_behind_the_last_entry_that_it_has_seen() {
    let (mut attached, mut peer, mut daemon) = attached().await;
    let session = attached.session();
    peer.entry(session, 7).await;
    assert_eq!(next_seq(&mut attached).await, 7);
    drop(peer);
    assert!(attached.next().await.is_err());
    let (back, (mut peer, start)) = tokio::join!(attached.come_back(), async {
        // Nobody answers the first line.
        drop(daemon.0.recv().await);
        let mut peer = daemon.accept("first").await;
        let start = peer.attaches(session).await;
        (peer, start)
    });
    back.unwrap();
    assert_eq!(start, json!({ "after": 7 }));
    peer.entry(session, 7).await;
    peer.entry(session, 9).await;
    assert_eq!(next_seq(&mut attached).await, 9, "an entry that was seen is not returned again");
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_continue_in_other_logs() {
    let (mut attached, peer, mut daemon) = attached().await;
    drop(peer);
    let (back, _peer) = tokio::join!(attached.come_back(), daemon.accept("second"));
    assert!(matches!(back, Err(Error::Replaced)), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn the_pauses_between_attempts_double_up_to_a_limit_until_the_client_is_back() {
    let (mut attached, peer, mut daemon) = attached().await;
    drop(peer);
    let pauses: Vec<u128> = (0..7).map(|_| attached.pause().as_millis()).collect();
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3000, 3000]);
    let session = attached.session();
    let (back, _peer) = tokio::join!(attached.try_again(), async {
        let mut peer = daemon.accept("first").await;
        peer.attaches(session).await;
        peer
    });
    back.unwrap();
    assert_eq!(attached.pause(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_loses_its_connection_is_sent_again_under_its_id() {
    let (mut client, mut peer, mut daemon) = connected().await;
    let (answer, (first, second)) = tokio::join!(client.call(Call::Ping), async {
        let first = peer.read().await;
        drop(peer);
        let mut peer = daemon.accept("first").await;
        let second = peer.read().await;
        peer.say(json!({ "type": "reply", "id": second["id"], "reply": "pong" })).await;
        (first, second)
    });
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_make_a_second_thing_is_not_sent_again() {
    let (mut client, mut peer, mut daemon) = connected().await;
    let (answer, ()) = tokio::join!(client.call(Call::TicketCreate), async {
        assert_eq!(peer.read().await["type"], "ticket_create");
        drop(peer);
    });
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("may have been carried out"), "{error}");
    assert!(daemon.0.try_recv().is_err(), "the client made another connection");
}

#[tokio::test(start_paused = true)]
async fn a_call_gives_up_after_a_few_lost_connections() {
    let (mut client, peer, daemon) = connected().await;
    drop((peer, daemon));
    let begun = Instant::now();
    let answer = timeout(Duration::from_mins(1), client.call(Call::Ping)).await.unwrap();
    assert!(matches!(answer, Err(Error::Unreachable(_))), "{answer:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(3), "pauses of 200, 400, 800 and 1600 ms");
}
