//! The end of a connection: why it ends, and what the client is told.

use std::time::Duration;

use portolan_protocol::{ClosingReason, ServerFrame};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use crate::native::{Native, answer::frame_of};
use portolan_wire::websocket::{Lost, Received, Socket, Violation};

/// How long a closed client gets to read why.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// The same for one that did not read: so it learns that it can come back, rather than just losing its connection.
const FAREWELL_TO_THE_SLOW: Duration = Duration::from_mins(1);

/// How a connection ends.
pub(super) enum Ending {
    /// The client is gone.
    Gone,
    /// The client closed it, with this code.
    Closed(Option<u16>),
    /// We close it.
    Close(ClosingReason),
    /// We close it, because the client broke the framing.
    Violation(Violation),
}

impl Ending {
    /// What the client asked before is still done.
    pub(super) fn lets_finish(&self) -> bool {
        match self {
            Self::Gone | Self::Closed(_) | Self::Violation(_) => true,
            Self::Close(ClosingReason::Stopping | ClosingReason::TooSlow | ClosingReason::Protocol) => true,
            Self::Close(ClosingReason::TokenGone) => false,
        }
    }
}

impl From<Lost> for Ending {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self::Gone,
            Lost::Violation(violation) => Self::Violation(violation),
        }
    }
}

/// Tells the client why, gives it a moment to read it, and ends the stream.
pub(super) async fn farewell<S>(native: &Native, ending: Ending, mut socket: Socket<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reason, code, message) = match ending {
        Ending::Gone => return,
        Ending::Closed(code) => {
            // 1005 stands for "no code" and is never sent.
            socket.feed_close(code.unwrap_or(1000));
            let _ = timeout(FAREWELL, socket.flush()).await;
            socket.shut_down().await;
            return;
        }
        Ending::Violation(violation) => {
            (ClosingReason::Protocol, violation.code(), format!("{violation}; see docs/protocol.md"))
        }
        Ending::Close(reason) => (reason, reason.code(), reason.message().into()),
    };
    tracing::debug!(?reason, "connection closed");
    native.metrics.closed(reason);
    let resumable = reason.is_resumable();
    socket.feed(frame_of(&ServerFrame::Closing { reason, message, resumable }));
    socket.feed_close(code);
    let read = async {
        if socket.flush().await.is_err() {
            return;
        }
        // Bytes left unread would make the network throw away what we just said.
        while !matches!(socket.receive().await, Ok(Received::Close(_)) | Err(_)) {}
    };
    if reason == ClosingReason::TooSlow {
        tokio::select! {
            _ = timeout(FAREWELL_TO_THE_SLOW, read) => {}
            () = native.stopping.cancelled() => {}
        }
    } else {
        let _ = timeout(FAREWELL, read).await;
    }
    let _ = timeout(FAREWELL, socket.shut_down()).await;
}
