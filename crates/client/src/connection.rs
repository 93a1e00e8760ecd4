//! A greeted connection: the texts of frames in and out, unchanged. [`Client`](crate::Client) reads them; use this to
//! see the daemon's original frames.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_protocol::{ClientInfo, Greeting, PROTOCOL, ServerInfo, You};
use serde::Serialize;
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::{
    Attempt, Dial, Error, Lost, Stream,
    dial::shake_hands,
    frames::{self, Inbound},
};

/// How long a line may take to be made, including the start of a daemon.
const LINE: Duration = Duration::from_secs(30);

/// How long the greeting may take: the daemon gives a client 10 s, and may itself be busy.
const GREETING: Duration = Duration::from_secs(20);

/// A greeted connection. Dropping it disconnects without a close frame.
#[derive(Debug)]
pub struct Connection {
    socket: WebSocketStream<Box<dyn Stream>>,
    /// The daemon's name, version and clock.
    pub server: ServerInfo,
    /// This client, as the daemon identified it.
    pub you: You,
}

impl std::fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

impl Connection {
    /// Connects, and greets as this client.
    pub async fn open(dial: &dyn Dial, client: ClientInfo, attempt: Attempt) -> Result<Self, Error> {
        let made = tokio::time::timeout(LINE, async { shake_hands(dial.line(attempt).await?).await });
        let socket = made.await.map_err(|_| Error::Silent { what: "answer", seconds: LINE.as_secs() })??;
        let greeted = tokio::time::timeout(GREETING, Self::greet(socket, client));
        greeted.await.map_err(|_| Error::Silent { what: "greet", seconds: GREETING.as_secs() })?
    }

    async fn greet(mut socket: WebSocketStream<Box<dyn Stream>>, client: ClientInfo) -> Result<Self, Error> {
        let hung_up =
            |Lost(why)| Error::Unreachable(format!("the daemon did not accept the connection: {why}"));
        let hello = Greeting::Hello { protocol: PROTOCOL, client, key: None };
        write(&mut socket, &hello).await.map_err(hung_up)?;
        loop {
            match frames::read(&read(&mut socket).await.map_err(hung_up)?) {
                Inbound::Welcome { server, you } => return Ok(Self { socket, server, you }),
                Inbound::Error { refusal, .. } => return Err(refusal.into()),
                Inbound::Closing { message } => return Err(Error::Unreachable(message)),
                _ => {}
            }
        }
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &impl Serialize) -> Result<(), Lost> {
        write(&mut self.socket, frame).await
    }

    /// The text of the next frame. Cancel-safe.
    pub async fn next(&mut self) -> Result<String, Lost> {
        read(&mut self.socket).await
    }

    /// Sends a close frame, so that the daemon notices the end at once.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(500), self.socket.close(None)).await;
    }
}

async fn write(socket: &mut WebSocketStream<Box<dyn Stream>>, frame: &impl Serialize) -> Result<(), Lost> {
    let text = serde_json::to_string(frame).map_err(|error| Lost(error.to_string()))?;
    socket.send(Message::text(text)).await.map_err(|error| Lost(error.to_string()))
}

async fn read(socket: &mut WebSocketStream<Box<dyn Stream>>) -> Result<String, Lost> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(Message::Close(Some(frame)))) => {
                return Err(Lost(format!("{} {}", frame.code, frame.reason)));
            }
            Some(Ok(Message::Close(None))) | None => {
                return Err(Lost("the daemon closed the connection".into()));
            }
            // The library answers pings; binary frames are not part of this protocol.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Lost(error.to_string())),
        }
    }
}
