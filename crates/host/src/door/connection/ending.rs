//! The end of a connection: why it ends, and how the client is informed.

use std::time::Duration;

use bytes::Bytes;
use portolan_wire::websocket::{Lost, Received, Socket, Violation};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long a closed client has to read the reason, and how long its open calls may still run.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// The close code of an end without a special reason.
const NORMAL: u16 = 1000;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client is gone.
    Gone,
    /// The client closed it, with this code if it gave one.
    Closed(Option<u16>),
    /// The server closes it.
    Close(Cause),
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host is stopping.
    Stopping,
    /// The client does not read.
    TooSlow,
    /// The client's access has ended.
    StayOver,
    /// The client did not identify itself in time, or not correctly.
    NotEntered,
    /// The client broke the framing.
    Violation(Violation),
}

/// What a frontend sends to a client that the server closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords {
    /// The close code.
    pub code: u16,
    /// A frame before the close.
    pub frame: Option<Bytes>,
    /// How long the client has to read it.
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
    /// Whether the client's open calls are finished: always, except for a client whose stay is over.
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

/// Sends the reason, gives the client a moment to read it, and ends the stream.
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
                // Unread bytes would make the network drop what we just sent.
                while !matches!(socket.receive().await, Ok(Received::Close(_)) | Err(_)) {}
            };
            // The end of the host does not wait for a client that does not read.
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
