//! The leash: with it the door ends a connection, whoever owns it and however it was upgraded.
//!
//! A connection that reads nothing for too long ends. A WebSocket belongs to a frontend; it ends when its guest's stay
//! is over, and when the door is closed for good, even if the frontend ignores both. A frontend that wants to send the
//! reason marks its response ([`Farewell`]) and gets a moment for it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};

use super::{settings::DoorLimits, stay::Stay};

/// On a response: the frontend itself ends its stream when the stay is over, and sends the reason. It gets a moment for
/// it ([`DoorLimits::farewell`]); without this mark the door ends the stream at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Farewell;

/// The shared part of all connections of one door.
#[derive(Clone, Debug)]
pub(super) struct Leashes {
    pub(super) tasks: TaskTracker,
    /// Cancelled when the door is closed for good.
    pub(super) end: CancellationToken,
    pub(super) limits: Arc<DoorLimits>,
}

/// The leash of one connection.
#[derive(Clone, Debug)]
pub(super) struct Leash(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    leashes: Leashes,
    /// Somebody may cut the connection.
    is_held: AtomicBool,
    cut: CancellationToken,
    gone: CancellationToken,
    farewell: OnceLock<Duration>,
}

impl Leashes {
    pub(super) fn leash(&self) -> Leash {
        Leash(Arc::new(Inner {
            leashes: self.clone(),
            is_held: AtomicBool::new(false),
            cut: CancellationToken::new(),
            gone: CancellationToken::new(),
            farewell: OnceLock::new(),
        }))
    }
}

impl Leash {
    /// The connection is upgraded; its frontend says farewell or not.
    pub(super) fn upgraded(&self, stay: Stay, farewell: Option<Farewell>) {
        let time = farewell.map_or(Duration::ZERO, |Farewell| self.0.leashes.limits.farewell);
        // A connection is upgraded once.
        let _ = self.0.farewell.set(time);
        self.hold(stay);
    }

    /// Ends the connection when the stay is over, or when the door is closed for good.
    pub(super) fn hold(&self, stay: Stay) {
        self.0.is_held.store(true, Ordering::Release);
        let Inner { leashes, cut, gone, farewell, .. } = &*self.0;
        let (cut, gone, end) = (cut.clone(), gone.clone(), leashes.end.clone());
        let (farewell, drain) = (farewell.get().copied().unwrap_or_default(), leashes.limits.drain);
        leashes.tasks.spawn(async move {
            let moment = tokio::select! {
                () = gone.cancelled() => return,
                _ = stay.over() => farewell,
                () = end.cancelled() => drain,
            };
            if !moment.is_zero() {
                // A connection that is gone has ended.
                let _ = tokio::time::timeout(moment, gone.cancelled()).await;
            }
            cut.cancel();
        });
    }
}

/// A connection on its leash.
#[derive(Debug)]
pub(super) struct Leashed<S> {
    stream: S,
    leash: Leash,
    /// One each: two tasks may read and write.
    reading: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    writing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Runs while the network accepts nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Leashed<S> {
    pub(super) fn new(stream: S, leash: Leash) -> Self {
        Self { stream, leash, reading: None, writing: None, stalled: None }
    }

    /// The result of a write, unless the client has read nothing for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.leash.0.leashes.limits.stalled;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        stalled
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client read nothing for too long")))
    }
}

/// Whether the connection was cut; wakes the caller when it is.
fn is_cut(
    leash: &Leash,
    wait: &mut Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    context: &mut Context<'_>,
) -> io::Result<()> {
    if !leash.0.is_held.load(Ordering::Acquire) {
        return Ok(());
    }
    let wait = wait.get_or_insert_with(|| Box::pin(leash.0.cut.clone().cancelled_owned()));
    match wait.as_mut().poll(context) {
        Poll::Ready(()) => {
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server ended the connection"))
        }
        Poll::Pending => Ok(()),
    }
}

impl<S> Drop for Leashed<S> {
    fn drop(&mut self) {
        self.leash.0.gone.cancel();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Leashed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        is_cut(&this.leash, &mut this.reading, context)?;
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Leashed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        is_cut(&this.leash, &mut this.writing, context)?;
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.in_time(written, context)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        is_cut(&this.leash, &mut this.writing, context)?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.in_time(written, context)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_flush(context) {
            // A socket has nothing to flush and is always ready; that does not show that the client reads.
            Poll::Ready(flushed) => Poll::Ready(flushed),
            Poll::Pending => this.in_time(Poll::Pending, context),
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let ended = Pin::new(&mut this.stream).poll_shutdown(context);
        this.in_time(ended, context)
    }
}
