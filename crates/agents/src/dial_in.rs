//! Agents that dial in: which agents are expected, and with which secret.
//!
//! An old Claude Code makes a WebSocket connection to Portolan instead of using its pipes. This module has the list of
//! those that may: one per start of an agent, each with its own random secret. The listener itself is elsewhere; it
//! calls [`DialIn::admit`] before it answers the upgrade, and then moves frames both ways.

use std::{
    collections::HashMap,
    fmt, io, mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use portolan_core::{SessionId, ports::Secret};
use subtle::ConstantTimeEq as _;
use tokio::sync::mpsc;

/// Frames that wait between a connection and its session, each way. If it is full, the other side is slower: the socket
/// is then not read.
const FRAMES: usize = 64;

/// Connections of one agent that wait to be taken. It makes one at a time; a second connection replaces the first.
const CONNECTIONS: usize = 4;

/// Close with this code when there is nothing more to send: after any other code the agent dials in again.
pub const CLOSE_FOR_GOOD: u16 = 4001;

/// The agents that may dial in. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DialIn {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    listener: Listener,
    expected: HashMap<SessionId, Guest>,
    starts: u64,
}

#[derive(Default)]
enum Listener {
    #[default]
    Absent,
    /// It listens as soon as an agent is expected.
    WhenNeeded(Box<dyn FnOnce() -> io::Result<String> + Send>),
    /// Where it listens, such as `ws://127.0.0.1:7433`.
    At(String),
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::WhenNeeded(_) => f.write_str("WhenNeeded"),
            Self::At(base) => f.debug_tuple("At").field(base).finish(),
        }
    }
}

impl Listener {
    /// The address of the listener, which listens from now on if it can.
    fn open(&mut self) -> Option<&str> {
        *self = match mem::take(self) {
            Self::WhenNeeded(listen) => match listen() {
                Ok(base) => Self::At(base),
                Err(error) => {
                    tracing::warn!(%error, "agents cannot dial in");
                    Self::Absent
                }
            },
            other => other,
        };
        self.base()
    }

    fn base(&self) -> Option<&str> {
        match self {
            Self::At(base) => Some(base),
            Self::Absent | Self::WhenNeeded(_) => None,
        }
    }
}

#[derive(Debug)]
struct Guest {
    start: u64,
    secret: Secret,
    connections: mpsc::Sender<Connection>,
}

/// One connection, as the agent's driver sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) incoming: mpsc::Receiver<Bytes>,
    pub(crate) outgoing: mpsc::Sender<Bytes>,
}

impl DialIn {
    /// No agent is expected, and none can be until [`DialIn::listens_at`] or [`DialIn::listens_when_needed`] is called.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        work(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The listener takes connections at this address, without a path: `ws://127.0.0.1:7433`. Programs of this machine
    /// must be able to reach it without a certificate.
    pub fn listens_at(&self, base: impl Into<String>) {
        self.with(|shared| shared.listener = Listener::At(base.into()));
    }

    /// The same, but the listener is made when the first agent is expected: most agents never dial in. `listen` returns
    /// the address.
    pub fn listens_when_needed(&self, listen: impl FnOnce() -> io::Result<String> + Send + 'static) {
        self.with(|shared| shared.listener = Listener::WhenNeeded(Box::new(listen)));
    }

    /// The address of the listener, without its scheme: `127.0.0.1:7433`.
    pub fn address(&self) -> Option<String> {
        self.with(|shared| shared.listener.base().map(|base| base.trim_start_matches("ws://").to_owned()))
    }

    /// Whether an agent can dial in.
    pub fn is_open(&self) -> bool {
        self.with(|shared| !matches!(shared.listener, Listener::Absent))
    }

    /// Expects a session's agent, with a fresh secret, instead of any agent that was expected for it before. `None` if
    /// there is no listener.
    pub(crate) fn expect(&self, session: SessionId) -> Option<Expected> {
        let secret =
            Secret::new(format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()));
        let (connections, arrivals) = mpsc::channel(CONNECTIONS);
        self.with(|shared| {
            let url = format!("{}/ws/cli/{session}", shared.listener.open()?);
            shared.starts += 1;
            let start = shared.starts;
            shared.expected.insert(session, Guest { start, secret: secret.clone(), connections });
            Some(Expected { dial_in: self.clone(), session, start, url, secret, arrivals })
        })
    }

    /// Lets an agent in, if it is expected and brings its secret. The check takes equally long for everyone.
    pub fn admit(&self, session: SessionId, bearer: &str) -> Option<Admitted> {
        let connections = self.with(|shared| {
            let guest = shared.expected.get(&session)?;
            let is_it = bool::from(guest.secret.reveal().as_bytes().ct_eq(bearer.as_bytes()));
            is_it.then(|| guest.connections.clone())
        })?;
        let (incoming_to, incoming) = mpsc::channel(FRAMES);
        let (outgoing, outgoing_from) = mpsc::channel(FRAMES);
        // A full queue means an agent that dials in faster than it is served; it will try again.
        connections.try_send(Connection { incoming, outgoing }).ok()?;
        tracing::info!(%session, "agent dialled in");
        Some(Admitted { incoming: Incoming(incoming_to), outgoing: Outgoing(outgoing_from) })
    }
}

/// An agent that was let in: frames from its socket go here, and frames from here to its socket.
#[derive(Debug)]
pub struct Admitted {
    /// From its socket.
    pub incoming: Incoming,
    /// To its socket.
    pub outgoing: Outgoing,
}

/// Takes frames from the agent's socket. Drop it when the socket is gone.
#[derive(Debug)]
pub struct Incoming(mpsc::Sender<Bytes>);

impl Incoming {
    /// A text or a binary frame: both are read as text. Waits while the session is slower; `false` when it is gone.
    /// Cancel-safe: the frame is taken or not.
    pub async fn frame(&self, frame: Bytes) -> bool {
        self.0.send(frame).await.is_ok()
    }
}

/// Gives frames for the agent's socket.
#[derive(Debug)]
pub struct Outgoing(mpsc::Receiver<Bytes>);

impl Outgoing {
    /// The next text frame to send: whole lines with the newline, without which the agent does not read them. `None`:
    /// close with [`CLOSE_FOR_GOOD`]. Cancel-safe.
    pub async fn frame(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

/// An agent that is expected, for as long as this lives.
#[derive(Debug)]
pub struct Expected {
    dial_in: DialIn,
    session: SessionId,
    start: u64,
    /// Where it must dial in.
    pub(crate) url: String,
    /// The secret that it must bring.
    pub(crate) secret: Secret,
    arrivals: mpsc::Receiver<Connection>,
}

impl Expected {
    /// The next connection that the agent makes; `None` if the agent is no longer expected.
    pub(crate) fn poll_connection(&mut self, context: &mut Context<'_>) -> Poll<Option<Connection>> {
        self.arrivals.poll_recv(context)
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.dial_in.with(|shared| {
            if shared.expected.get(&self.session).is_some_and(|guest| guest.start == self.start) {
                shared.expected.remove(&self.session);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> DialIn {
        let dial_in = DialIn::new();
        dial_in.listens_at("ws://127.0.0.1:1");
        dial_in
    }

    // covers: 000-076, 000-077
    #[tokio::test]
    async fn only_an_expected_agent_with_its_own_secret_is_let_in() {
        let (dial_in, session) = (open(), SessionId::from_u128(7));
        assert!(dial_in.admit(session, "").is_none(), "nobody is expected");
        let expected = dial_in.expect(session).unwrap();
        assert_eq!(expected.url, format!("ws://127.0.0.1:1/ws/cli/{session}"));
        assert_eq!(expected.secret.reveal().len(), 64);
        let shown = format!("{dial_in:?}{expected:?}");
        assert!(!shown.contains(expected.secret.reveal()), "{shown}");
        assert!(dial_in.admit(session, "").is_none());
        assert!(dial_in.admit(session, &expected.secret.reveal()[1..]).is_none());
        assert!(dial_in.admit(SessionId::from_u128(8), expected.secret.reveal()).is_none());
        assert!(dial_in.admit(session, expected.secret.reveal()).is_some());
    }

    // covers: 003-094
    #[tokio::test]
    async fn each_start_has_its_own_secret_and_an_ended_one_is_not_expected() {
        let (dial_in, session) = (open(), SessionId::from_u128(7));
        let first = dial_in.expect(session).unwrap();
        let second = dial_in.expect(session).unwrap();
        assert!(dial_in.admit(session, first.secret.reveal()).is_none());
        drop(first);
        assert!(dial_in.admit(session, second.secret.reveal()).is_some());
        let secret = second.secret.clone();
        drop(second);
        assert!(dial_in.admit(session, secret.reveal()).is_none());
    }

    #[test]
    fn without_a_listener_nobody_can_be_expected() {
        assert!(!DialIn::new().is_open());
        assert!(DialIn::new().expect(SessionId::from_u128(7)).is_none());
    }

    #[test]
    fn a_listener_that_is_made_when_needed_is_made_once_and_for_the_first_agent() {
        let dial_in = DialIn::new();
        dial_in.listens_when_needed(|| Ok("ws://127.0.0.1:1".into()));
        assert_eq!(
            (dial_in.is_open(), dial_in.address()),
            (true, None),
            "an agent may dial in, and none does"
        );
        let first = dial_in.expect(SessionId::from_u128(7)).unwrap();
        assert!(first.url.starts_with("ws://127.0.0.1:1/"), "{}", first.url);
        assert_eq!(dial_in.address().as_deref(), Some("127.0.0.1:1"));
        assert!(dial_in.expect(SessionId::from_u128(8)).is_some());

        dial_in.listens_when_needed(|| Err(io::ErrorKind::AddrInUse.into()));
        assert!(dial_in.expect(SessionId::from_u128(9)).is_none());
        assert!(!dial_in.is_open(), "the agent uses its pipes");
    }

    // covers: 003-094
    #[tokio::test]
    async fn frames_go_both_ways_until_the_agents_side_is_dropped() {
        let (dial_in, session) = (open(), SessionId::from_u128(7));
        let mut expected = dial_in.expect(session).unwrap();
        let mut admitted = dial_in.admit(session, expected.secret.reveal()).unwrap();
        let connection = std::future::poll_fn(|context| expected.poll_connection(context));
        let mut connection = connection.await.unwrap();
        assert!(admitted.incoming.frame(Bytes::from_static(b"{}\n")).await);
        assert_eq!(connection.incoming.recv().await.as_deref(), Some(b"{}\n".as_slice()));
        connection.outgoing.send(Bytes::from_static(b"[]\n")).await.unwrap();
        assert_eq!(admitted.outgoing.frame().await.as_deref(), Some(b"[]\n".as_slice()));
        drop(connection);
        assert_eq!(admitted.outgoing.frame().await, None);
        assert!(!admitted.incoming.frame(Bytes::new()).await);
    }
}
