//! The end of a connection: why it ends, and how the client learns it.

use std::time::Duration;

use bytes::Bytes;
use portolan_wire::websocket::{Lost, Received, Socket, Violation};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long a closed client gets to read why, and what it asked for gets to be done.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// The close code of an end without a special reason.
const NORMAL: u16 = 1000;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client is gone.
    Gone,
    /// The client closed it, with this code where it gave one.
    Closed(Option<u16>),
    /// We close it.
    Close(Cause),
}

/// Why we close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host stops.
    Stopping,
    /// The client does not read.
    TooSlow,
    /// What let the client in has ended.
    StayOver,
    /// The client did not say who it is, in time or in a way that lets it in.
    NotEntered,
    /// The client broke the framing.
    Violation(Violation),
}

/// What a frontend says to a client that we close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords {
    /// The close code.
    pub code: u16,
    /// A frame before it.
    pub frame: Option<Bytes>,
    /// How long the client gets to read it.
    pub patience: Duration,
}

impl LastWords {
    /// A close code alone.
    pub fn code(code: u16) -> Self {
        Self { code, frame: None, patience: FAREWELL }
    }

    /// A frame, and then a close code.
    pub fn frame(code: u16, frame: Bytes) -> Self {
        Self { frame: Some(frame), ..Self::code(code) }
    }
}

impl Ending {
    /// What the client asked for before is still done: always, but for a client that may stay no longer.
    pub(super) fn lets_finish(self) -> bool {
        match self {
            Self::Gone | Self::Closed(_) => true,
            Self::Close(Cause::StayOver) => false,
            Self::Close(Cause::Stopping | Cause::TooSlow | Cause::NotEntered | Cause::Violation(_)) => true,
        }
    }
}

impl From<Lost> for Ending {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self::Gone,
            Lost::Violation(violation) => Self::Close(Cause::Violation(violation)),
        }
    }
}

/// Tells the client why, gives it a moment to read it, and ends the stream.
pub(super) async fn close<S>(
    mut socket: Socket<S>,
    stopping: &CancellationToken,
    ending: Ending,
    words: impl FnOnce(Cause) -> LastWords,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match ending {
        Ending::Gone => return,
        Ending::Closed(code) => {
            // 1005 stands for "no code" and is never sent.
            socket.feed_close(code.unwrap_or(NORMAL));
            let _ = timeout(FAREWELL, socket.flush()).await;
        }
        Ending::Close(cause) => {
            let LastWords { code, frame, patience } = words(cause);
            tracing::debug!(?cause, code, "connection closed");
            if let Some(frame) = frame {
                socket.feed(&frame);
            }
            socket.feed_close(code);
            let read = async {
                if socket.flush().await.is_err() {
                    return;
                }
                // Bytes left unread would make the network throw away what we just said.
                while !matches!(socket.receive().await, Ok(Received::Close(_)) | Err(_)) {}
            };
            // The end of the host waits for nobody who does not read.
            let cut_short = async {
                if cause != Cause::TooSlow {
                    std::future::pending::<()>().await;
                }
                stopping.cancelled().await;
            };
            tokio::select! {
                _ = timeout(patience, read) => {}
                () = cut_short => {}
            }
        }
    }
    let _ = timeout(FAREWELL, socket.shut_down()).await;
}
