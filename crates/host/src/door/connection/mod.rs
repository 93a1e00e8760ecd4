//! The loop of one WebSocket connection. Every frontend behind the door runs its WebSockets in this loop.
//!
//! The loop owns the socket, the limits on silence and on a stalled network, the client's stay and the farewell. A
//! frontend decides who enters ([`Connection::enter`]), provides a [`Protocol`] that takes messages and makes frames
//! ([`Connection::run`]), and words the farewell ([`Connection::close`]).
//!
//! The loop queues nothing. While the network accepts nothing, the loop asks the protocol for no entries; a little
//! later it reads no message either, and the network slows the client down.

mod clock;
mod ending;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use portolan_core::ports::Boxed;
use portolan_wire::websocket::{Lost, Outbound, Received, Socket};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    clock::Stall,
    ending::{Cause, Ending, LastWords},
};
use self::{
    clock::{Clock, Look},
    ending::FAREWELL,
};
use super::stay::Stay;

/// A client that was let in must identify itself within this time, or it loses its place.
const ENTER: Duration = Duration::from_secs(10);

/// How many messages a client may send before it has entered. A client that begins with the wrong message is informed,
/// and may continue.
const ENTER_MESSAGES: usize = 16;

/// From this many unsent bytes on, the protocol is not asked for entries: enough for a full write.
const WRITE_AT: usize = 64 * 1024;

/// From this many unsent bytes on, nothing is read or answered either. With the largest batch (256 KiB) on top, this
/// keeps the unsent bytes below 512 KiB, except for a single larger entry.
const FULL: usize = 256 * 1024;

/// A frontend's work on one connection, after the client has entered. Frames go to `out`; the loop writes them.
///
/// The loop may poll both `poll_` functions again after either was pending, in any order.
pub trait Protocol {
    /// Whether the protocol takes one more message. While it does not, the loop does not read the client, and the
    /// client's silence does not count.
    fn takes_more(&self) -> bool;

    /// Takes a message. Returns the client's new stay, if the message changes it.
    fn receive(&mut self, message: &Bytes, out: &mut Outbound) -> Option<Stay>;

    /// Ready when one call of the client is done, and its answer is in `out`.
    fn poll_answer(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()>;

    /// Ready when one batch of entries for the client is in `out`.
    fn poll_entries(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()>;

    /// Whether a call of the client is not done yet.
    fn is_answering(&self) -> bool;

    /// The connection ends, and the client reads nothing more. The loop still calls [`Protocol::poll_answer`] for a
    /// moment, until the client's calls are done: a client that sends a prompt and leaves has sent a prompt.
    fn leave(&mut self);
}

/// One WebSocket connection.
#[derive(Debug)]
pub struct Connection<S> {
    socket: Socket<S>,
    stay: Stay,
    stopping: CancellationToken,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection over an upgraded stream. It takes messages of up to `bytes`, and ends with `stay` and with
    /// `stopping`.
    pub fn new(io: S, bytes: usize, stay: Stay, stopping: CancellationToken) -> Self {
        Self { socket: Socket::new(io, bytes), stay, stopping }
    }

    /// Takes messages of up to `bytes` from now on.
    pub fn take_up_to(&mut self, bytes: usize) {
        self.socket.take_up_to(bytes);
    }

    /// Ends with this stay from now on.
    pub fn ends_with(&mut self, stay: Stay) {
        self.stay = stay;
    }

    /// Passes messages to `greet` until it returns who the client is, or why the client may not enter. `None` means
    /// that `greet` has answered the message, and the client may try again within the limits.
    pub async fn enter<T>(
        &mut self,
        greet: impl FnMut(&Bytes, &mut Outbound) -> Result<Option<T>, Cause>,
    ) -> Result<T, Ending> {
        let Self { socket, stay, stopping } = self;
        // A message that came before the end is answered.
        tokio::select! {
            biased;
            entered = timeout(ENTER, greeted(socket, greet)) => {
                entered.unwrap_or(Err(Ending::Close(Cause::NotEntered)))
            }
            _ = stay.over() => Err(Ending::Close(Cause::StayOver)),
            () = stopping.cancelled() => Err(Ending::Close(Cause::Stopping)),
        }
    }

    /// Runs the protocol until either side ends the connection. Drops the protocol before the farewell.
    pub async fn run<P: Protocol>(&mut self, protocol: P) -> Ending {
        let ends = ends(&self.stay, &self.stopping);
        let mut turns = Turns { connection: self, protocol, ends, asks_first: true, clock: Clock::start() };
        loop {
            if let Err(ending) = poll_fn(|context| turns.poll_turn(context)).await {
                if ending.lets_finish() {
                    let _ = timeout(FAREWELL, turns.finish()).await;
                }
                return ending;
            }
        }
    }

    /// Ends the connection: sends the frontend's last words, if the client is still there.
    pub async fn close(self, ending: Ending, words: impl FnOnce(Cause) -> LastWords) {
        ending::close(self.socket, &self.stopping, ending, words).await;
    }
}

/// Reads messages until `greet` lets the client in or refuses it.
async fn greeted<S, T>(
    socket: &mut Socket<S>,
    mut greet: impl FnMut(&Bytes, &mut Outbound) -> Result<Option<T>, Cause>,
) -> Result<T, Ending>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..ENTER_MESSAGES {
        match socket.receive().await? {
            Received::Message(text) => {
                if let Some(entered) = greet(&text, socket.outbound()).map_err(Ending::Close)? {
                    return Ok(entered);
                }
            }
            Received::Ping(payload) => socket.feed_pong(payload),
            Received::Pong => continue,
            Received::Close(code) => return Err(Ending::Closed(code)),
        }
        socket.flush().await.map_err(|_| Ending::Gone)?;
    }
    Err(Ending::Close(Cause::NotEntered))
}

/// What ends a connection from our side. Each future is polled only after it was woken: entries are the hot path.
type Ends = FuturesUnordered<Boxed<'static, Cause>>;

fn ends(stay: &Stay, stopping: &CancellationToken) -> Ends {
    let (stay, stopping) = (stay.clone(), stopping.clone());
    let (stay_over, stopped): (Boxed<'static, Cause>, Boxed<'static, Cause>) = (
        Box::pin(async move {
            stay.over().await;
            Cause::StayOver
        }),
        Box::pin(async move {
            stopping.cancelled().await;
            Cause::Stopping
        }),
    );
    [stay_over, stopped].into_iter().collect()
}

/// A connection whose protocol runs.
struct Turns<'a, S, P> {
    connection: &'a mut Connection<S>,
    protocol: P,
    ends: Ends,
    /// Which goes first in the next turn: the client's calls, or its entries. They alternate.
    asks_first: bool,
    clock: Clock,
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Protocol> Turns<'_, S, P> {
    /// Does the next step, from whichever side. Everything in it can be dropped and polled again.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        if let Poll::Ready(Some(cause)) = self.ends.poll_next_unpin(context) {
            return Poll::Ready(Err(Ending::Close(cause)));
        }
        let asks_first = self.asks_first;
        self.asks_first = !asks_first;
        if asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        let full = self.connection.socket.unsent() >= WRITE_AT;
        if !full && self.protocol.poll_entries(context, self.connection.socket.outbound()).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        match self.poll_flush(context) {
            Poll::Ready(Err(ending)) => return Poll::Ready(Err(ending)),
            // There is room now: the entries (and, at the limit, the calls) have not been polled yet.
            Poll::Ready(Ok(())) if full => return self.poll_turn(context),
            Poll::Ready(Ok(())) => self.connection.socket.rest(),
            Poll::Pending => {}
        }
        self.clock.poll(context).map(|()| self.look_at_the_clock())
    }

    /// The client's messages, and the answers to its calls.
    fn poll_asks(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        // Before anything that waits is begun for a client whose stay is over.
        if self.connection.stay.is_over() {
            return Poll::Ready(Err(Ending::Close(Cause::StayOver)));
        }
        let socket = &mut self.connection.socket;
        if socket.unsent() >= FULL {
            return Poll::Pending;
        }
        if self.protocol.poll_answer(context, socket.outbound()).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !self.protocol.takes_more() {
            return Poll::Pending;
        }
        match ready!(socket.poll_receive(context)) {
            Ok(received) => Poll::Ready(self.received(received)),
            Err(lost) => Poll::Ready(Err(lost.into())),
        }
    }

    fn received(&mut self, received: Received) -> Result<(), Ending> {
        self.clock.heard();
        let Connection { socket, stay, stopping } = &mut *self.connection;
        match received {
            Received::Message(text) => {
                if let Some(changed) = self.protocol.receive(&text, socket.outbound()) {
                    *stay = changed;
                    self.ends = ends(stay, stopping);
                }
            }
            Received::Ping(payload) => socket.feed_pong(payload),
            Received::Pong => {}
            Received::Close(code) => return Err(Ending::Closed(code)),
        }
        Ok(())
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        let socket = &mut self.connection.socket;
        if socket.unsent() == 0 {
            return Poll::Ready(Ok(()));
        }
        match socket.poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.clock.all_is_sent();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Lost::Gone.into())),
            Poll::Pending => {
                self.clock.waits_for_the_network(socket.sent());
                Poll::Pending
            }
        }
    }

    fn look_at_the_clock(&mut self) -> Result<(), Ending> {
        // While the client is not read, its silence does not count.
        if !self.protocol.takes_more() {
            self.clock.excuse_silence();
        }
        match self.clock.look()? {
            Look::Wait => {}
            Look::Ask => self.connection.socket.feed_ping(),
        }
        Ok(())
    }

    /// Finishes the calls from before the end, for as long as the client's stay lasts.
    async fn finish(&mut self) {
        self.protocol.leave();
        let Connection { socket, stay, .. } = &mut *self.connection;
        let protocol = &mut self.protocol;
        let answers = async {
            while protocol.is_answering() && !stay.is_over() {
                poll_fn(|context| protocol.poll_answer(context, socket.outbound())).await;
            }
        };
        tokio::select! {
            biased;
            _ = stay.over() => {}
            () = answers => {}
        }
    }
}
