//! A session that a client follows for longer than one connection: after a lost connection it continues behind the last
//! entry that it has seen. It decides how long to wait and where to continue, not whether to wait at all.

use std::time::Duration;

use portolan_core::{Seq, SessionId, log::delivery::Start};
use portolan_protocol::ClientFrame;

use crate::{Client, Error, Lost, frames::Inbound};

/// The pause before the first attempt to reconnect; the pause doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts: a person who waits for the daemon sees it return at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// A client that is attached to a session.
#[derive(Debug)]
pub struct Attached {
    client: Client,
    session: SessionId,
    /// The last entry that was returned, or that is part of a returned snapshot.
    seen: Seq,
    /// The pause before the latest attempt, while the connection is lost.
    pause: Option<Duration>,
}

impl Attached {
    /// Attaches to a session.
    pub async fn new(mut client: Client, session: SessionId, start: Start) -> Result<Self, Error> {
        client.attach(session, start).await?;
        Ok(Self { client, session, seen: Seq::ZERO, pause: None })
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The next frame, without entries that were returned before. Cancel-safe.
    pub async fn next(&mut self) -> Result<Inbound, Lost> {
        loop {
            let inbound = self.client.next().await?;
            match &inbound {
                Inbound::Entry { entry, .. } if entry.seq <= self.seen => continue,
                Inbound::Entry { entry, .. } => self.seen = entry.seq,
                Inbound::Snapshot { seq, .. } => self.seen = self.seen.max(*seq),
                Inbound::Welcome { .. }
                | Inbound::Reply { .. }
                | Inbound::Error { .. }
                | Inbound::Presence { .. }
                | Inbound::Ended { .. }
                | Inbound::Closing { .. }
                | Inbound::Other => {}
            }
            return Ok(inbound);
        }
    }

    /// Sends a frame without waiting; [`Attached::next`] returns its reply.
    pub async fn send(&mut self, frame: &ClientFrame) -> Result<(), Lost> {
        self.client.send(frame).await
    }

    /// The connection is lost, or could not be restored: how long to wait before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        pause
    }

    /// One attempt to reconnect and to continue behind the last entry seen.
    pub async fn try_again(&mut self) -> Result<(), Error> {
        self.client.reconnect().await?;
        self.client.attach(self.session, Start::After(self.seen)).await?;
        self.pause = None;
        Ok(())
    }

    /// Reconnects, for as long as it takes. Fails only if the numbers of entries no longer mean the same entries.
    pub async fn come_back(&mut self) -> Result<(), Error> {
        loop {
            tokio::time::sleep(self.pause()).await;
            match self.try_again().await {
                Ok(()) => return Ok(()),
                Err(replaced @ Error::Replaced) => return Err(replaced),
                Err(_) => {}
            }
        }
    }

    /// Sends a close frame, so that the daemon notices the end at once.
    pub async fn close(self) {
        self.client.close().await;
    }
}
