//! One WebSocket connection: hello, then any number of sessions and the daemon's log on one task.
//!
//! Entries arrive from core as ready-made frames in batches; a batch is put into the socket's buffer and written
//! at once, or together with the next ones while the client is behind. Nothing is queued here: while the network
//! takes nothing, the readers are not asked. Commands are answered meanwhile.

mod farewell;
mod hello;
mod lanes;
pub(crate) mod readers;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream as _, StreamExt as _, stream::FuturesUnordered};
use portolan_core::{
    CommandId, Principal, Refusal, RefusalCode, SessionId,
    log::delivery::{Delivery, Piece},
};
use portolan_protocol::{ClientFrame, ClosingReason, ServerFrame};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, Sleep, sleep, timeout},
};

use self::{
    farewell::{Ending, FAREWELL, farewell},
    hello::hello,
    lanes::{Lane, Lanes},
    readers::{Pulled, Readers},
};
use super::{
    Native,
    answer::{Answer, answer, error_frame, frame_of, reply_frame},
    parse::parse,
};
use portolan_host::door::{FRAME_BYTES, Stay, Visitor};
use portolan_wire::websocket::{Lost, Received, Socket};

/// A client that was let in says hello within this time, or gives its place to another.
const HELLO: Duration = Duration::from_secs(10);

/// After so long without a word from the client it is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(30);

/// Questions that may stay unanswered. A phone that sleeps through two of them has lost its connection.
const MISSED: u32 = 2;

/// A client for whom the network took nothing for so long is closed; it can come back with its last number.
const STALLED: Duration = Duration::from_secs(10);

/// From so many unsent bytes on the readers are not asked for more: enough for a full write.
const WRITE_AT: usize = 64 * 1024;

/// From so many unsent bytes on nothing is read or answered either. With the largest batch (256 KiB) on top this
/// keeps what is unsent below 512 KiB, but for a single entry that is larger by itself.
const FULL: usize = 256 * 1024;

/// Sessions one connection may be attached to at once.
pub(crate) const ATTACHMENTS: usize = 256;

/// Something that was waited for beside the socket and the readers.
enum Done {
    /// A frame has its answer.
    Answered { id: CommandId, lane: Lane, result: Result<Answer, Refusal> },
    /// The connection must end.
    End(ClosingReason),
}

type Waiting = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What happened next on a connection.
enum Turn {
    Pulled(Pulled),
    Done(Done),
    Received(Received),
    Lost(Lost),
    Timer,
}

struct Connection<S> {
    native: Native,
    who: Arc<Principal>,
    stay: Stay,
    socket: Socket<S>,
    readers: Readers,
    lanes: Lanes,
    waiting: FuturesUnordered<Waiting>,
    /// Who goes first in the next turn: what the client asks, or what it reads. They alternate.
    asks_first: bool,
    heard: Instant,
    missed: u32,
    /// Since when, and at which count of sent bytes, the network has taken nothing.
    stalled: Option<(Instant, u64)>,
    timer: Pin<Box<Sleep>>,
}

/// Serves one client until either side ends it.
pub(crate) async fn serve<S>(native: Native, visitor: Visitor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut socket = Socket::new(io, FRAME_BYTES);
    let _counted = native.metrics.connected();
    // A hello that came before the end is answered.
    let who = tokio::select! {
        biased;
        who = timeout(HELLO, hello(&native, &visitor, &mut socket)) => who,
        _ = visitor.stay().over() => Ok(Err(Ending::Close(ClosingReason::TokenGone))),
        () = native.stopping.cancelled() => Ok(Err(Ending::Close(ClosingReason::Stopping))),
    };
    let ending = match who.unwrap_or(Err(Ending::Close(ClosingReason::Protocol))) {
        Ok(who) => Connection::new(native.clone(), who, visitor.stay().clone(), socket).run().await,
        Err(ending) => (ending, socket),
    };
    farewell(&native, ending.0, ending.1).await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(native: Native, who: Principal, stay: Stay, socket: Socket<S>) -> Self {
        let waiting = FuturesUnordered::<Waiting>::new();
        let (stopping, staying) = (native.stopping.clone(), stay.clone());
        waiting.push(Box::pin(async move {
            stopping.cancelled().await;
            Done::End(ClosingReason::Stopping)
        }));
        waiting.push(Box::pin(async move {
            staying.over().await;
            Done::End(ClosingReason::TokenGone)
        }));
        Self {
            native,
            who: Arc::new(who),
            stay,
            socket,
            readers: Readers::default(),
            lanes: Lanes::default(),
            waiting,
            asks_first: true,
            heard: Instant::now(),
            missed: 0,
            stalled: None,
            timer: Box::pin(sleep(SILENCE)),
        }
    }

    async fn run(mut self) -> (Ending, Socket<S>) {
        loop {
            let next = match poll_fn(|context| self.poll_turn(context)).await {
                Turn::Pulled(pulled) => {
                    self.deliver(pulled);
                    Ok(())
                }
                Turn::Done(Done::Answered { id, lane, result }) => {
                    self.answered(&id, result);
                    if let Some(next) = self.lanes.done(lane) {
                        self.begin(next);
                    }
                    Ok(())
                }
                Turn::Done(Done::End(reason)) => Err(Ending::Close(reason)),
                Turn::Received(received) => self.received(received),
                Turn::Lost(lost) => Err(lost.into()),
                Turn::Timer => self.look_at_the_clock(),
            };
            if let Err(ending) = next {
                if ending.lets_finish() {
                    let _ = timeout(FAREWELL, self.finish()).await;
                }
                return (ending, self.socket);
            }
        }
    }

    /// Does what was asked before the end came: who sends a prompt and leaves has sent a prompt.
    async fn finish(&mut self) {
        self.readers = Readers::default();
        while !self.lanes.is_idle() && !self.stay.is_over() {
            match self.waiting.next().await {
                Some(Done::Answered { id, lane, result }) => {
                    self.answered(&id, result);
                    if let Some(next) = self.lanes.done(lane) {
                        self.begin(next);
                    }
                }
                Some(Done::End(ClosingReason::TokenGone)) | None => return,
                Some(Done::End(_)) => {}
            }
        }
    }

    /// The next thing to do, whichever side it comes from. Everything in it can be dropped and polled again.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        let asks_first = self.asks_first;
        self.asks_first = !asks_first;
        if asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        let full = self.socket.unsent() >= WRITE_AT;
        if !full && let Poll::Ready(pulled) = self.readers.poll_pull(context) {
            return Poll::Ready(Turn::Pulled(pulled));
        }
        if !asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        match self.poll_flush(context) {
            Poll::Ready(Err(lost)) => return Poll::Ready(Turn::Lost(lost)),
            // There is room now: the readers (and, at the very limit, the asks) have not been polled yet.
            Poll::Ready(Ok(())) if full => return self.poll_turn(context),
            Poll::Ready(Ok(())) => self.socket.rest(),
            Poll::Pending => {}
        }
        self.timer.as_mut().poll(context).map(|()| Turn::Timer)
    }

    /// What the client asks, and what was found out for it.
    fn poll_asks(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        // Before anything that waits is begun for someone who may stay no longer.
        if self.stay.is_over() {
            return Poll::Ready(Turn::Done(Done::End(ClosingReason::TokenGone)));
        }
        if self.socket.unsent() >= FULL {
            return Poll::Pending;
        }
        if let Poll::Ready(Some(done)) = Pin::new(&mut self.waiting).poll_next(context) {
            return Poll::Ready(Turn::Done(done));
        }
        if !self.lanes.has_room() {
            return Poll::Pending;
        }
        self.socket.poll_receive(context).map(|received| match received {
            Ok(received) => Turn::Received(received),
            Err(lost) => Turn::Lost(lost),
        })
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        if self.socket.unsent() == 0 {
            return Poll::Ready(Ok(()));
        }
        match self.socket.poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.stalled = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Lost::Gone)),
            Poll::Pending => {
                let sent = self.socket.sent();
                if self.stalled.is_none_or(|(_, before)| before != sent) {
                    let now = Instant::now();
                    self.stalled = Some((now, sent));
                    // Moved forward only: when it fires too early it is set again.
                    if self.timer.deadline() > now + STALLED {
                        self.timer.as_mut().reset(now + STALLED);
                    }
                }
                Poll::Pending
            }
        }
    }

    fn look_at_the_clock(&mut self) -> Result<(), Ending> {
        let now = Instant::now();
        if let Some((since, _)) = self.stalled
            && now >= since + STALLED
        {
            return Err(Ending::Close(ClosingReason::TooSlow));
        }
        // While we do not read the client, its silence says nothing.
        if !self.lanes.has_room() {
            self.heard = now;
        }
        if now >= self.heard + SILENCE * (self.missed + 1) {
            if self.missed == MISSED {
                return Err(Ending::Gone);
            }
            self.missed += 1;
            self.socket.feed_ping();
        }
        let silence = self.heard + SILENCE * (self.missed + 1);
        let next = self.stalled.map_or(silence, |(since, _)| silence.min(since + STALLED));
        self.timer.as_mut().reset(next);
        Ok(())
    }

    fn received(&mut self, received: Received) -> Result<(), Ending> {
        self.heard = Instant::now();
        self.missed = 0;
        match received {
            Received::Message(text) => {
                // Every frame takes its share, whether or not it can be read.
                let spent = self.native.keeper.spend(&self.who.token).map_err(|denied| denied.refusal);
                match (parse(&text), spent) {
                    (Ok(frame), Ok(())) => {
                        if let Some(now) = self.lanes.enter(frame) {
                            self.begin(now);
                        }
                    }
                    (Ok(frame), Err(busy)) => self.refuse(Some(&frame.id), &busy),
                    (Err(unreadable), Ok(())) => self.refuse(unreadable.id.as_ref(), &unreadable.refusal),
                    (Err(unreadable), Err(busy)) => self.refuse(unreadable.id.as_ref(), &busy),
                }
            }
            Received::Ping(payload) => self.socket.feed_pong(payload),
            Received::Pong => {}
            Received::Close(code) => return Err(Ending::Closed(code)),
        }
        Ok(())
    }

    fn refuse(&mut self, id: Option<&CommandId>, refusal: &Refusal) {
        self.native.metrics.answered(Some(refusal.code));
        self.socket.feed(error_frame(id, refusal));
    }

    fn begin(&mut self, (lane, frame): (Lane, ClientFrame)) {
        let (native, who) = (self.native.clone(), Arc::clone(&self.who));
        let id = frame.id.clone();
        self.waiting.push(Box::pin(async move {
            let result = answer(&native, &who, frame).await;
            Done::Answered { id, lane, result }
        }));
    }

    fn answered(&mut self, id: &CommandId, result: Result<Answer, Refusal>) {
        let result = match result {
            Ok(Answer::Attached(session, _)) if self.is_full(session) => Err(Refusal::new(
                RefusalCode::Busy,
                format!("this connection is attached to {ATTACHMENTS} sessions already; detach from one"),
            )),
            other => other,
        };
        self.native.metrics.answered(result.as_ref().err().map(|refusal| refusal.code));
        match result {
            Err(refusal) => self.socket.feed(error_frame(Some(id), &refusal)),
            Ok(answer) => {
                match &answer {
                    Answer::Detached(session) => self.readers.remove(Some(*session)),
                    Answer::Unsubscribed => self.readers.remove(None),
                    Answer::Attached(..) | Answer::Subscribed(_) | Answer::History(_) | Answer::Reply(_) => {}
                }
                self.socket.feed(reply_frame(id, &answer));
                match answer {
                    Answer::Attached(session, reader) => self.readers.add_session(session, *reader),
                    Answer::Subscribed(reader) => self.readers.add_daemon(*reader),
                    Answer::Detached(_) | Answer::Unsubscribed | Answer::History(_) | Answer::Reply(_) => {}
                }
            }
        }
    }

    fn is_full(&self, session: SessionId) -> bool {
        self.readers.sessions() >= ATTACHMENTS && !self.readers.reads(session)
    }

    fn deliver(&mut self, pulled: Pulled) {
        match pulled {
            Pulled::Session(session, delivery) => match delivery {
                Delivery::Entries(entries) => self.feed_entries(&entries),
                Delivery::Snapshot(snapshot) => self.socket.feed(snapshot.frame),
                Delivery::Presence(present) => {
                    self.socket.feed(frame_of(&ServerFrame::Presence { session, present: present.to_vec() }));
                }
                Delivery::Closed(reason) => {
                    self.readers.remove(Some(session));
                    self.socket.feed(frame_of(&ServerFrame::Ended { session: Some(session), reason }));
                }
            },
            Pulled::Daemon(delivery) => match delivery {
                Delivery::Entries(entries) => self.feed_entries(&entries),
                Delivery::Snapshot(snapshot) => self.socket.feed(snapshot.frame),
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => {
                    self.readers.remove(None);
                    self.socket.feed(frame_of(&ServerFrame::Ended { session: None, reason }));
                }
            },
        }
    }

    fn feed_entries<E: Serialize + Clone + DeserializeOwned>(&mut self, entries: &[Piece<E>]) {
        self.native.metrics.delivered(entries.len());
        for entry in entries {
            self.socket.feed_shared(entry.frame());
        }
    }
}
