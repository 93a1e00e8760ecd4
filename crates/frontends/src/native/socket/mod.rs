//! The server's end of a WebSocket, over any byte stream: the upgrade, whole messages in, ready-made frames out.
//!
//! It is our own because the stream of entries is our hot path: frames are shared bytes that are written as they
//! are, a batch is one write, what is unsent is known to the byte, and an idle connection keeps no buffers.
//! It agrees on no extensions and owns no timer: [`super::connection`] decides when waiting is over.

mod inbound;
mod outbound;

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

pub(crate) use inbound::{Inbound, Received, Violation};
use outbound::Outbound;

/// Bytes read at once. Commands are small; a large one takes a few more turns.
const READ_BYTES: usize = 4 * 1024;

/// A WebSocket's server end.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    io: S,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes the network has taken so far; a stalled client is one for whom it does not grow.
    sent: u64,
}

/// Why no further message can be read.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The client is gone.
    Gone,
    /// It broke the framing.
    Violation(Violation),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket over an upgraded stream that takes messages of up to `limit` bytes.
    pub(crate) fn new(io: S, limit: usize) -> Self {
        Self { io, inbound: Inbound::new(limit), outbound: Outbound::default(), sent: 0 }
    }

    /// Takes messages of up to `limit` bytes from now on.
    pub(crate) fn take_up_to(&mut self, limit: usize) {
        self.inbound.take_up_to(limit);
    }

    /// Adds a text frame to what is written next.
    pub(crate) fn feed(&mut self, frame: Bytes) {
        self.outbound.text(&frame);
    }

    /// Adds a text frame that others send too; it is copied or shared, whichever costs less.
    pub(crate) fn feed_shared(&mut self, frame: &Bytes) {
        self.outbound.text(frame);
    }

    /// Adds a ping.
    pub(crate) fn feed_ping(&mut self) {
        self.outbound.ping();
    }

    /// Adds a pong.
    pub(crate) fn feed_pong(&mut self, payload: Bytes) {
        self.outbound.pong(payload);
    }

    /// Adds a close.
    pub(crate) fn feed_close(&mut self, code: u16) {
        self.outbound.close(code);
    }

    /// Bytes that the network has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.outbound.unsent()
    }

    /// Bytes that it has.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Gives back memory that a burst took; for when the connection waits.
    pub(crate) fn rest(&mut self) {
        self.outbound.rest();
    }

    /// Writes what was fed.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.outbound.unsent();
        let result = self.outbound.poll_write_out(&mut self.io, context);
        self.sent += (before - self.outbound.unsent()) as u64;
        result
    }

    /// The next message of the client.
    pub(crate) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<Received, Lost>> {
        loop {
            if let Some(received) = self.inbound.next().map_err(Lost::Violation)? {
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

    /// Writes what was fed, to the end.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// The next message of the client.
    pub(crate) async fn receive(&mut self) -> Result<Received, Lost> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Ends our side of the stream.
    pub(crate) async fn shut_down(&mut self) {
        // The client may be gone already; then there is nothing to end.
        let _ = poll_fn(|context| Pin::new(&mut self.io).poll_shutdown(context)).await;
    }
}

/// A request that may become a WebSocket.
#[derive(Debug)]
pub(crate) struct Upgrade {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Upgrade {
    /// Checks the handshake (RFC 6455, 4.2.1); the error says what is wrong with it.
    pub(crate) fn of(parts: &mut Parts) -> Result<Self, (StatusCode, &'static str)> {
        if parts.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET"));
        }
        if !names(&parts.headers, &header::CONNECTION, "upgrade")
            || !names(&parts.headers, &header::UPGRADE, "websocket")
        {
            return Err((
                StatusCode::UPGRADE_REQUIRED,
                "this address speaks WebSocket; see docs/protocol.md",
            ));
        }
        if parts.headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err((StatusCode::BAD_REQUEST, "only WebSocket version 13 is spoken here"));
        }
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
        let key =
            key.ok_or((StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key is missing or has the wrong length"))?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))
            .map_err(|_| (StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key cannot be used"))?;
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or((StatusCode::UPGRADE_REQUIRED, "this connection cannot be upgraded"))?;
        Ok(Self { accept, upgrade })
    }

    /// The answer to the request, and what becomes the byte stream once it is sent.
    pub(crate) fn accept(self) -> (Response<Body>, impl Future<Output = Option<TokioIo<Upgraded>>>) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        (response, async { self.upgrade.await.ok().map(TokioIo::new) })
    }
}

/// Does this comma-separated header name `what`, in any case?
fn names(headers: &HeaderMap, header: &header::HeaderName, what: &str) -> bool {
    let values = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(what))
}
