//! A client of the native protocol: one connection, calls with their replies, and the stream of entries.
//!
//! Finds the daemon by its Unix socket, else by URL and token ([`target`]); reads frames tolerantly ([`frames`]).
//! A call that loses its connection is made again under the same id, which the daemon does at most once.

pub(crate) mod frames;
mod rest;
pub(crate) mod sessions;
pub(crate) mod target;
mod tls;

use std::{collections::VecDeque, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{CommandId, Millis};
use portolan_frontends::native::wire::{ClientFrame, ClientInfo, PROTOCOL, ServerInfo, You};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::failure::{Failure, Outcome};
use frames::{Inbound, Reply};
use target::Target;

/// A byte stream to the daemon, whatever it runs over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// How long the daemon may take to answer a frame. Creating a session may have to wait for a busy disk.
const REPLY: Duration = Duration::from_mins(1);

/// How long it may take where agents are asked for it, one after the other: each has minutes.
const AGENT_REPLY: Duration = Duration::from_mins(6);

/// How long the greeting may take.
const GREETING: Duration = Duration::from_secs(10);

/// Frames that may arrive while a reply is waited for. More means that the daemon answers others but not us.
const SET_ASIDE: usize = 100_000;

/// How often a call is made again when its connection is lost.
const TRIES: u32 = 5;

/// The largest frame the daemon may send: a page of history with large entries in it.
const FRAME_BYTES: usize = 256 * 1024 * 1024;

/// The version that this program and its daemon must share, or be warned about.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A connection to a daemon.
pub(crate) struct Client {
    target: Target,
    socket: WebSocketStream<Box<dyn Stream>>,
    set_aside: VecDeque<Inbound>,
    /// The daemon.
    pub(crate) server: ServerInfo,
    /// Who it takes us for.
    pub(crate) you: You,
    /// How far its clock is ahead of ours, in milliseconds.
    ahead: i64,
}

/// The connection is gone, in words.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) String);

impl Client {
    /// Connects, and starts the daemon where none runs and the target allows it.
    pub(crate) async fn connect(target: &Target) -> Outcome<Self> {
        let client = Self::connect_quietly(target).await?;
        if client.server.version != VERSION {
            crate::output::note(format!(
                "warning: the daemon is version {}, this program {VERSION}; `portolan down` lets the next command \
                 start the new one",
                client.server.version
            ));
        }
        Ok(client)
    }

    async fn connect_quietly(target: &Target) -> Outcome<Self> {
        let socket = target.open().await?;
        Self::greet(target.clone(), socket).await
    }

    async fn greet(target: Target, mut socket: WebSocketStream<Box<dyn Stream>>) -> Outcome<Self> {
        let hello = ClientFrame::Hello {
            protocol: PROTOCOL,
            client: ClientInfo { name: "cli".into(), version: VERSION.into() },
            key: None,
        };
        let greeting = async {
            write(&mut socket, &hello).await?;
            loop {
                match read(&mut socket).await? {
                    Inbound::Welcome { server, you, .. } => return Ok(Ok((server, you))),
                    Inbound::Error { refusal, .. } => return Ok(Err(Failure::from(refusal))),
                    Inbound::Closing { message, .. } => return Ok(Err(Failure::unreachable(message))),
                    _ => {}
                }
            }
        };
        let (server, you) = match tokio::time::timeout(GREETING, greeting).await {
            Ok(Ok(greeted)) => greeted?,
            Ok(Err(Lost(why))) => return Err(Failure::unreachable(format!("the daemon hung up: {why}"))),
            Err(_) => {
                return Err(Failure::unreachable(format!(
                    "the daemon did not greet within {} s; `portolan logs` may tell why",
                    GREETING.as_secs()
                )));
            }
        };
        let ahead = server.now.map_or(0, |now| now.0 - Millis::now().0);
        Ok(Self { target, socket, set_aside: VecDeque::new(), server, you, ahead })
    }

    /// The time by the daemon's clock, by which its entries are dated.
    pub(crate) fn now(&self) -> Millis {
        Millis(Millis::now().0.saturating_add(self.ahead))
    }

    /// Comes back after the connection was lost. Never starts a daemon: one that was stopped stays stopped.
    pub(crate) async fn reconnect(&mut self) -> Outcome {
        let fresh = Self::connect_quietly(&self.target.without_start()).await?;
        self.socket = fresh.socket;
        self.server = fresh.server;
        self.you = fresh.you;
        self.ahead = fresh.ahead;
        Ok(())
    }

    /// Sends a frame and waits for its reply. Frames that come meanwhile are kept for [`Client::next`].
    pub(crate) async fn call(&mut self, frame: ClientFrame) -> Outcome<Reply> {
        let id = frames::id_of(&frame);
        let mut tries = 0;
        loop {
            match self.call_once(&frame, &id).await {
                Ok(answer) => return answer,
                Err(Lost(why)) => {
                    tries += 1;
                    if tries >= TRIES {
                        return Err(Failure::unreachable(format!(
                            "the connection to the daemon was lost: {why}"
                        )));
                    }
                    tokio::time::sleep(Duration::from_millis(100 << tries)).await;
                    // A refusal to come back is told by the next try, which has the words of this one.
                    let _ = self.reconnect().await;
                }
            }
        }
    }

    async fn call_once(&mut self, frame: &ClientFrame, id: &CommandId) -> Result<Outcome<Reply>, Lost> {
        write(&mut self.socket, frame).await?;
        let patience = patience(frame);
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let inbound = match tokio::time::timeout_at(deadline, read(&mut self.socket)).await {
                Ok(inbound) => inbound?,
                Err(_) => {
                    return Ok(Err(Failure::unreachable(format!(
                        "the daemon did not answer within {} s; `portolan logs` may tell why",
                        patience.as_secs()
                    ))));
                }
            };
            match inbound {
                Inbound::Reply { id: of, body } if of == *id => return Ok(Ok(body)),
                Inbound::Error { id: Some(of), refusal } if of == *id => return Ok(Err(refusal.into())),
                Inbound::Error { id: None, refusal } => return Ok(Err(refusal.into())),
                other if self.set_aside.len() < SET_ASIDE => self.set_aside.push_back(other),
                _ => return Err(Lost(format!("{SET_ASIDE} frames came, but no answer"))),
            }
        }
    }

    /// Sends a frame without waiting; its reply comes by [`Client::next`].
    pub(crate) async fn send(&mut self, frame: &ClientFrame) -> Result<(), Lost> {
        write(&mut self.socket, frame).await
    }

    /// The next frame. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Inbound, Lost> {
        match self.set_aside.pop_front() {
            Some(inbound) => Ok(inbound),
            None => read(&mut self.socket).await,
        }
    }

    /// Says goodbye, so that the daemon need not find out by itself.
    pub(crate) async fn close(mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(500), self.socket.close(None)).await;
    }
}

fn patience(frame: &ClientFrame) -> Duration {
    match frame {
        ClientFrame::Past { .. }
        | ClientFrame::TakeUp { .. }
        | ClientFrame::ArchivePast { .. }
        | ClientFrame::Account { .. }
        | ClientFrame::LogIn { .. }
        | ClientFrame::LogOut { .. } => AGENT_REPLY,
        _ => REPLY,
    }
}

async fn write(socket: &mut WebSocketStream<Box<dyn Stream>>, frame: &ClientFrame) -> Result<(), Lost> {
    let text = serde_json::to_string(frame).map_err(|error| Lost(error.to_string()))?;
    socket.send(Message::text(text)).await.map_err(|error| Lost(error.to_string()))
}

async fn read(socket: &mut WebSocketStream<Box<dyn Stream>>) -> Result<Inbound, Lost> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(frames::read(&text)),
            Some(Ok(Message::Close(Some(frame)))) => {
                return Err(Lost(format!("{} {}", frame.code, frame.reason)));
            }
            Some(Ok(Message::Close(None))) | None => {
                return Err(Lost("the daemon closed the connection".into()));
            }
            // Pings are answered by the library; binary frames are none of this protocol.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Lost(error.to_string())),
        }
    }
}
