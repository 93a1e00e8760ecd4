//! Shared by the tests of several frontends: a registry behind a frontend, a client of frames, the folder of goldens.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{
    Principal, Role,
    ports::{Agent, Clock},
    registry::Registry,
    session::machine::Policy,
};
use portolan_host::door::{AccessCheck, DoorSettings, Tickets, Tokens};
use portolan_store::MemoryStore;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol},
};

/// Snapshots in the folder `goldens` next to the test; the test names each snapshot.
pub(crate) fn goldens() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

// ---------------------------------------------------------------------------- behind a frontend

/// A registry in memory, its tokens, and the settings of its door.
pub(crate) struct Behind {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) registry: Registry,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) door: DoorSettings,
}

impl Behind {
    /// With these agents.
    pub(crate) async fn new(agents: Vec<Arc<dyn Agent>>, policy: Policy) -> Self {
        Self::over(Arc::new(MemoryStore::new()), agents, policy).await
    }

    /// Over an existing store.
    pub(crate) async fn over(store: Arc<MemoryStore>, agents: Vec<Arc<dyn Agent>>, policy: Policy) -> Self {
        let clock = Clock::system();
        let registry = Registry::open(store.clone(), agents, clock.clone(), policy).await.unwrap();
        let tokens = Tokens::open(store.clone(), clock).await.unwrap();
        let door = DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
        Self { store, registry, tokens, door }
    }

    /// The checks of its door.
    pub(crate) async fn access(&self) -> AccessCheck {
        let clock = Clock::system();
        let tickets = Tickets::open(self.store.clone(), clock.clone(), self.tokens.clone()).await.unwrap();
        AccessCheck::new(&self.door, self.tokens.clone(), tickets, clock).unwrap()
    }

    /// A person with a new token, and the secret of the token.
    pub(crate) async fn someone(&self, name: &str, role: Role) -> (Principal, String) {
        let (info, secret) = self.tokens.create(name, role, None, None).await.unwrap();
        (Principal { token: info.token, name: info.name, role, sessions: None, via: "test".into() }, secret)
    }
}

// ---------------------------------------------------------------------------------- its clients

/// Frames of JSON, with another implementation of WebSocket than ours.
pub(crate) struct Frames<S> {
    pub(crate) socket: WebSocketStream<S>,
    /// Frames that came while the client waited for another one.
    pub(crate) early: VecDeque<Value>,
    /// A check for every frame.
    check: fn(&Value),
    /// How long a frame may take.
    patience: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    pub(crate) fn new(socket: WebSocketStream<S>, check: fn(&Value), patience: Duration) -> Self {
        Self { socket, early: VecDeque::new(), check, patience }
    }

    pub(crate) async fn over(io: S, check: fn(&Value), patience: Duration) -> Self {
        let socket = WebSocketStream::from_raw_socket(io, protocol::Role::Client, None).await;
        Self::new(socket, check, patience)
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next frame from the connection.
    pub(crate) async fn next(&mut self) -> Value {
        match self.early.pop_front() {
            Some(frame) => frame,
            None => self.fresh().await,
        }
    }

    /// The next unread frame.
    pub(crate) async fn fresh(&mut self) -> Value {
        loop {
            let next = tokio::time::timeout(self.patience, self.socket.next()).await;
            match next.expect("no frame came") {
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(&text).unwrap();
                    (self.check)(&frame);
                    return frame;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no frame but {other:?}"),
            }
        }
    }

    /// The close code, after all remaining frames.
    pub(crate) async fn closed(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut frames: Vec<Value> = self.early.drain(..).collect();
        loop {
            let next = tokio::time::timeout(self.patience, self.socket.next()).await;
            match next.expect("it was not closed") {
                Some(Ok(Message::Text(text))) => frames.push(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return (frames, frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (frames, None),
            }
        }
    }

    /// Frames up to and including the first frame that matches.
    pub(crate) async fn until_fits(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            let last = fits(&frame);
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }
}
