//! The server's end of a WebSocket, over any byte stream: whole messages in, ready-made frames out.
//!
//! It is our own because the stream of entries is our hot path: frames are shared bytes that are written unchanged, a
//! batch is one write, the number of unsent bytes is known exactly, and an idle connection keeps no buffers. It
//! negotiates no extensions and owns no timer: its user decides when waiting is over.

mod inbound;
mod outbound;

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use inbound::{Inbound, Received, Violation};
pub use outbound::Outbound;

/// Bytes read at once. Commands are small; a large one takes a few more reads.
const READ_BYTES: usize = 4 * 1024;

/// A WebSocket's server end.
#[derive(Debug)]
pub struct Socket<S> {
    io: S,
    inbound: Inbound,
    outbound: Outbound,
    /// The number of bytes that the network has taken; for a stalled client it does not grow.
    sent: u64,
}

/// Why no further message can be read.
#[derive(Debug)]
pub enum Lost {
    /// The client is gone.
    Gone,
    /// The client broke the framing.
    Violation(Violation),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket over an upgraded stream that takes messages of up to `limit` bytes.
    pub fn new(io: S, limit: usize) -> Self {
        Self { io, inbound: Inbound::new(limit), outbound: Outbound::default(), sent: 0 }
    }

    /// Takes messages of up to `limit` bytes from now on.
    pub fn take_up_to(&mut self, limit: usize) {
        self.inbound.take_up_to(limit);
    }

    /// The frames to write next, for callers that only add text frames.
    pub fn outbound(&mut self) -> &mut Outbound {
        &mut self.outbound
    }

    /// Adds a text frame to the frames to write next.
    pub fn feed(&mut self, frame: &Bytes) {
        self.outbound.text(frame);
    }

    /// Adds a ping.
    pub fn feed_ping(&mut self) {
        self.outbound.ping();
    }

    /// Adds a pong.
    pub fn feed_pong(&mut self, payload: Bytes) {
        self.outbound.pong(payload);
    }

    /// Adds a close.
    pub fn feed_close(&mut self, code: u16) {
        self.outbound.close(code);
    }

    /// Bytes that the network has not taken yet.
    pub fn unsent(&self) -> usize {
        self.outbound.unsent()
    }

    /// Bytes that the network has taken.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Frees the memory that a burst took, while the connection waits.
    pub fn rest(&mut self) {
        self.outbound.rest();
    }

    /// Writes the added frames.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.outbound.unsent();
        let result = self.outbound.poll_write_out(&mut self.io, context);
        self.sent += (before - self.outbound.unsent()) as u64;
        result
    }

    /// The next message of the client.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<Received, Lost>> {
        loop {
            if let Some(received) = self.inbound.received().map_err(Lost::Violation)? {
                return Poll::Ready(Ok(received));
            }
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut space = ReadBuf::uninit(&mut space);
            match ready!(Pin::new(&mut self.io).poll_read(context, &mut space)) {
                Ok(()) if !space.filled().is_empty() => self.inbound.extend(space.filled()),
                Ok(()) | Err(_) => return Poll::Ready(Err(Lost::Gone)),
            }
        }
    }

    /// Writes all added frames.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// The next message of the client.
    pub async fn receive(&mut self) -> Result<Received, Lost> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Ends our side of the stream.
    pub async fn shut_down(&mut self) {
        // The client may be gone already; then there is nothing to end.
        let _ = poll_fn(|context| Pin::new(&mut self.io).poll_shutdown(context)).await;
    }
}
