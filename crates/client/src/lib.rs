//! A client of the native protocol: one connection, calls with their replies, and the stream of entries.
//!
//! [`Dial`] makes lines to a daemon, a [`Connection`] is a greeted line, and a [`Client`] reads its frames tolerantly
//! ([`frames`]). A call that loses its connection is sent again under the same id, and the daemon runs it at most once.

mod attached;
mod calls;
mod connection;
mod dial;
mod error;
pub mod frames;
mod request;
mod tls;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use portolan_core::Millis;
use portolan_protocol::{Call, ClientFrame, ClientInfo, ServerInfo, You};

use self::frames::{Inbound, Reply};
pub use self::{
    attached::Attached,
    calls::{Listed, Probe},
    connection::Connection,
    dial::{Address, Attempt, Dial, Dialling, Line, Stream, Token},
    error::{Error, Lost},
    request::request,
};

/// How long the daemon may take to answer a call. Creating a session may have to wait for a busy disk.
const REPLY: Duration = Duration::from_mins(1);

/// How long a call may take if the daemon must ask agents one after the other: each has minutes.
const AGENT_REPLY: Duration = Duration::from_mins(6);

/// How many frames may arrive before a reply. More means that the daemon does not answer this client.
const SET_ASIDE: usize = 100_000;

/// How often a call is sent in all if its connection is lost: with the pauses between, that is 3 s, longer than a
/// daemon takes to restart.
const TRIES: u32 = 5;

/// A connection to a daemon that reconnects when it is lost.
#[derive(Debug)]
pub struct Client {
    dial: Arc<dyn Dial>,
    who: ClientInfo,
    connection: Connection,
    set_aside: VecDeque<Inbound>,
    /// How far the daemon's clock is ahead of ours, in milliseconds.
    ahead: i64,
}

impl Client {
    /// Connects, and greets under this name.
    pub async fn connect(dial: Arc<dyn Dial>, who: ClientInfo) -> Result<Self, Error> {
        let connection = Connection::open(&*dial, who.clone(), Attempt::First).await?;
        let ahead = ahead(&connection);
        Ok(Self { dial, who, connection, set_aside: VecDeque::new(), ahead })
    }

    /// The daemon's name, version and clock.
    pub fn server(&self) -> &ServerInfo {
        &self.connection.server
    }

    /// This client, as the daemon identified it.
    pub fn you(&self) -> &You {
        &self.connection.you
    }

    /// The time of the daemon's clock, which dates its entries.
    pub fn now(&self) -> Millis {
        Millis(Millis::now().0.saturating_add(self.ahead))
    }

    /// Reconnects after the connection was lost. Earlier entry numbers stay valid, or this fails.
    pub async fn reconnect(&mut self) -> Result<(), Error> {
        let connection = Connection::open(&*self.dial, self.who.clone(), Attempt::Again).await?;
        let incarnations = (&self.connection.server.incarnation, &connection.server.incarnation);
        if let (Some(before), Some(now)) = incarnations
            && before != now
        {
            return Err(Error::Replaced);
        }
        self.connection = connection;
        self.ahead = ahead(&self.connection);
        Ok(())
    }

    /// Sends a call under a new id and waits for the reply. Other frames are kept for [`Client::next`].
    pub async fn call(&mut self, call: Call) -> Result<Reply, Error> {
        self.send_and_wait(ClientFrame::new(call)).await
    }

    /// Sends a frame and waits for its reply. If the connection is lost meanwhile, the frame is sent again, unless that
    /// could do something twice.
    pub async fn send_and_wait(&mut self, frame: ClientFrame) -> Result<Reply, Error> {
        let (mut tries, mut refused) = (0, None);
        loop {
            match self.call_once(&frame).await {
                Ok(answer) => return answer,
                Err(Lost(why)) if !frame.call.may_be_repeated() => {
                    return Err(Error::Unreachable(format!(
                        "the connection to the daemon was lost, and the call may have been carried out: {why}"
                    )));
                }
                Err(Lost(why)) => {
                    tries += 1;
                    if tries >= TRIES {
                        let lost =
                            || Error::Unreachable(format!("the connection to the daemon was lost: {why}"));
                        return Err(refused.unwrap_or_else(lost));
                    }
                    tokio::time::sleep(Duration::from_millis(100 << tries)).await;
                    refused = self.reconnect().await.err();
                }
            }
        }
    }

    async fn call_once(&mut self, frame: &ClientFrame) -> Result<Result<Reply, Error>, Lost> {
        self.connection.send(frame).await?;
        let (id, patience) = (&frame.id, patience(&frame.call));
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let inbound = match tokio::time::timeout_at(deadline, self.connection.next()).await {
                Ok(text) => frames::read(&text?),
                Err(_) => return Ok(Err(Error::Silent { what: "answer", seconds: patience.as_secs() })),
            };
            match inbound {
                Inbound::Reply { id: of, body } if of == *id => return Ok(Ok(body)),
                Inbound::Error { id: Some(of), refusal } if of == *id => return Ok(Err(refusal.into())),
                Inbound::Error { id: None, refusal } => return Ok(Err(refusal.into())),
                other if self.set_aside.len() < SET_ASIDE => self.set_aside.push_back(other),
                _ => return Err(Lost(format!("the daemon sent {SET_ASIDE} frames, but no answer"))),
            }
        }
    }

    /// Sends a frame without waiting; [`Client::next`] returns its reply.
    pub async fn send(&mut self, frame: &ClientFrame) -> Result<(), Lost> {
        self.connection.send(frame).await
    }

    /// The next frame. Cancel-safe.
    pub async fn next(&mut self) -> Result<Inbound, Lost> {
        match self.set_aside.pop_front() {
            Some(inbound) => Ok(inbound),
            None => Ok(frames::read(&self.connection.next().await?)),
        }
    }

    /// Sends a close frame, so that the daemon notices the end at once.
    pub async fn close(self) {
        self.connection.close().await;
    }
}

fn ahead(connection: &Connection) -> i64 {
    connection.server.now.map_or(0, |now| now.0 - Millis::now().0)
}

fn patience(call: &Call) -> Duration {
    match call {
        Call::Past { .. }
        | Call::TakeUp { .. }
        | Call::ArchivePast(_)
        | Call::Account { .. }
        | Call::LogIn { .. }
        | Call::LogOut { .. } => AGENT_REPLY,
        _ => REPLY,
    }
}

#[cfg(test)]
mod tests;
