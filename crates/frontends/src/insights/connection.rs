//! One WebSocket connection: who it is, then any number of sessions on one task.
//!
//! Messages are done one after the other, in the order they came; while one is being done the next is not read, and the
//! network pushes back. Nothing is queued here: while the network takes nothing, the sessions are not asked for more.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use portolan_core::{
    CommandId, Event, Principal, SessionId,
    log::delivery::{Closed, Delivery},
    registry::SessionReader,
    session::state::State,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::{
    Insights,
    act::{Done, Follows, Outcome, Task, code_of, past},
    enter::{AUTH, Entered, STRANGERS_BYTES, Visitor, enter, welcome},
    parse::{Parsed, parse},
    project::{Detail, Past, View},
    questions::Partial,
    wire::{ClientMessage, ErrorCode, ServerMessage, SessionCreated, SessionListed},
};
use crate::{
    native::connection::readers::{Pulled, Readers},
    way_out,
};
use portolan_host::door::{FRAME_BYTES, Stay, Stranger};
use portolan_wire::websocket::{Lost, Received, Socket, Violation};

/// After so long without a word from the client it is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(30);

/// Questions that may stay unanswered: one that sleeps through two of them has lost its connection.
const MISSED: u32 = 2;

/// A client for whom the network took nothing for so long is closed; it can come back and attach.
const STALLED: Duration = Duration::from_secs(10);

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// From so many unsent bytes on the sessions are not asked for more: enough for a full write.
const WRITE_AT: usize = 64 * 1024;

/// From so many unsent bytes on nothing is read or answered either.
const FULL: usize = 256 * 1024;

/// Sessions one connection may follow at once.
const FOLLOWED: usize = 256;

/// How long a closed client gets to read why, and a message under way to be done.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a connection ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// The client is gone.
    Gone,
    /// The client closed it, with this code.
    Closed(Option<u16>),
    /// Portolan stops.
    Stopping,
    /// The client does not read.
    TooSlow,
    /// The token no longer lets anyone in.
    TokenGone,
    /// It did not say who it is.
    Unknown,
    /// It broke the framing.
    Violation(Violation),
}

impl From<Lost> for Ending {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self::Gone,
            Lost::Violation(violation) => Self::Violation(violation),
        }
    }
}

type Under<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What happened next.
enum Turn {
    Pulled(Pulled),
    Done(Box<Outcome>),
    Received(Received),
    Lost(Lost),
    TokenGone,
}

struct Connection<S> {
    insights: Insights,
    who: Principal,
    /// Who came in without a token may still show one.
    stranger: Option<Stranger>,
    socket: Socket<S>,
    views: HashMap<SessionId, View>,
    readers: Readers,
    partial: Partial,
    under_way: Option<Under<Outcome>>,
    /// Returns when this client is to be put out.
    gone: Under<()>,
    /// Who goes first in the next turn: what the client asks, or what it reads. They alternate.
    asks_first: bool,
    heard: Instant,
    missed: u32,
    /// Since when, and at which count of sent bytes, the network has taken nothing.
    stalled: Option<(Instant, u64)>,
}

/// Serves one client until either side ends it.
pub(super) async fn serve<S>(insights: Insights, visitor: Visitor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut socket = Socket::new(io, STRANGERS_BYTES);
    let entered = tokio::select! {
        entered = timeout(AUTH, enter(&insights, visitor, &mut socket)) => {
            entered.unwrap_or(Err(Ending::Unknown))
        }
        () = insights.stopping.cancelled() => Err(Ending::Stopping),
    };
    let (ending, socket) = match entered {
        Ok(entered) => {
            socket.take_up_to(FRAME_BYTES);
            tracing::debug!(token = %entered.who.token, "dashboard connected");
            Connection::new(insights, entered, socket).run().await
        }
        Err(ending) => (ending, socket),
    };
    farewell(ending, socket).await;
}

/// Returns when whoever came in is to be put out.
fn until_out(stay: Stay) -> Under<()> {
    Box::pin(async move {
        stay.over().await;
    })
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(insights: Insights, entered: Entered, socket: Socket<S>) -> Self {
        let Entered { who, stay, stranger } = entered;
        Self {
            insights,
            who,
            stranger,
            socket,
            views: HashMap::new(),
            readers: Readers::default(),
            partial: Partial::default(),
            under_way: None,
            gone: until_out(stay),
            asks_first: true,
            heard: Instant::now(),
            missed: 0,
            stalled: None,
        }
    }

    async fn run(mut self) -> (Ending, Socket<S>) {
        let stopping = self.insights.stopping.clone();
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Every arm can be dropped and polled again: what was begun lies in `self`.
            let next = tokio::select! {
                () = stopping.cancelled() => Err(Ending::Stopping),
                _ = look.tick() => self.look_at_the_clock(),
                turn = poll_fn(|context| self.poll_turn(context)) => self.take(turn),
            };
            if let Err(ending) = next {
                // What was asked before the end came is done: who sends a prompt and leaves has sent a prompt. Not for who
                // may stay no longer.
                if let Some(under_way) = self.under_way.take()
                    && !matches!(ending, Ending::TokenGone)
                {
                    let _ = timeout(FAREWELL, under_way).await;
                }
                return (ending, self.socket);
            }
        }
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        if self.gone.poll_unpin(context).is_ready() {
            return Poll::Ready(Turn::TokenGone);
        }
        if self.socket.unsent() > 0 {
            match self.socket.poll_flush(context) {
                Poll::Ready(Ok(())) => self.stalled = None,
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::Lost(Lost::Gone)),
                Poll::Pending => {
                    let sent = self.socket.sent();
                    if self.stalled.is_none_or(|(_, before)| before != sent) {
                        self.stalled = Some((Instant::now(), sent));
                    }
                }
            }
        }
        let asks_first = self.asks_first;
        self.asks_first = !asks_first;
        if asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        // Where there is no room, the flush above wakes us once there is.
        if self.socket.unsent() < WRITE_AT
            && let Poll::Ready(pulled) = self.readers.poll_pull(context)
        {
            return Poll::Ready(Turn::Pulled(pulled));
        }
        if !asks_first && let Poll::Ready(turn) = self.poll_asks(context) {
            return Poll::Ready(turn);
        }
        self.socket.rest();
        Poll::Pending
    }

    /// What the client asks, and what was done for it.
    fn poll_asks(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        if self.socket.unsent() >= FULL {
            return Poll::Pending;
        }
        if let Some(under_way) = &mut self.under_way {
            let Poll::Ready(outcome) = under_way.poll_unpin(context) else { return Poll::Pending };
            self.under_way = None;
            return Poll::Ready(Turn::Done(Box::new(outcome)));
        }
        self.socket.poll_receive(context).map(|received| match received {
            Ok(received) => Turn::Received(received),
            Err(lost) => Turn::Lost(lost),
        })
    }

    fn take(&mut self, turn: Turn) -> Result<(), Ending> {
        match turn {
            Turn::Pulled(Pulled::Session(session, delivery)) => self.deliver(session, delivery),
            // The daemon's own log has no reader here.
            Turn::Pulled(Pulled::Daemon(_)) => {}
            Turn::Done(outcome) => self.done(*outcome),
            Turn::Received(received) => return self.received(received),
            Turn::Lost(lost) => return Err(lost.into()),
            Turn::TokenGone => return Err(Ending::TokenGone),
        }
        Ok(())
    }

    fn look_at_the_clock(&mut self) -> Result<(), Ending> {
        let now = Instant::now();
        if self.stalled.is_some_and(|(since, _)| now >= since + STALLED) {
            return Err(Ending::TooSlow);
        }
        // While we do not read the client, its silence says nothing.
        if self.under_way.is_some() {
            self.heard = now;
        }
        if now >= self.heard + SILENCE * (self.missed + 1) {
            if self.missed == MISSED {
                return Err(Ending::Gone);
            }
            self.missed += 1;
            self.socket.feed_ping();
        }
        Ok(())
    }

    fn feed(&mut self, message: &ServerMessage) {
        tell(&mut self.socket, message);
    }

    // ------------------------------------------------------------------------------- what it asks

    fn received(&mut self, received: Received) -> Result<(), Ending> {
        self.heard = Instant::now();
        self.missed = 0;
        match received {
            Received::Message(text) => {
                // Every message takes its share, whether or not it can be read.
                let spent = self
                    .insights
                    .keeper
                    .spend(&self.who.token)
                    .map_err(|denied| way_out::told(&denied.refusal));
                match (parse(&text), spent) {
                    (Ok(parsed), Ok(())) => self.begin(parsed),
                    (Ok(parsed), Err(busy)) => self.refuse(&parsed.message, ErrorCode::HandlerError, busy),
                    (Err(error), Ok(())) => self.feed(&ServerMessage::Error(error)),
                    (Err(_), Err(busy)) => {
                        self.feed(&ServerMessage::error(ErrorCode::HandlerError, None, None, busy));
                    }
                }
            }
            Received::Ping(payload) => self.socket.feed_pong(payload),
            Received::Pong => {}
            Received::Close(code) => return Err(Ending::Closed(code)),
        }
        Ok(())
    }

    fn begin(&mut self, parsed: Parsed) {
        if let ClientMessage::Auth(auth) = &parsed.message {
            return self.introduce(&auth.token);
        }
        let session = parsed.message.session_id().and_then(|id| id.parse::<SessionId>().ok());
        let followed = session.is_some_and(|session| self.views.contains_key(&session));
        let is_list = matches!(parsed.message, ClientMessage::SessionList(_));
        if !followed && !is_list && self.views.len() >= FOLLOWED {
            let why = format!("this connection follows {FOLLOWED} sessions already; open another");
            return self.refuse(&parsed.message, code_of(&parsed.message), why);
        }
        let id = parsed.id.clone().unwrap_or_else(CommandId::random);
        if let Some(view) = session.and_then(|session| self.views.get_mut(&session)) {
            view.expect(id.clone(), code_of(&parsed.message));
        }
        let task = Task {
            insights: self.insights.clone(),
            who: self.who.clone(),
            parsed,
            id,
            follows: if followed { Follows::Yes } else { Follows::No },
            partial: std::mem::take(&mut self.partial),
        };
        self.under_way = Some(Box::pin(task.run()));
    }

    fn refuse(&mut self, message: &ClientMessage, code: ErrorCode, why: String) {
        let session = message.session_id().map(str::to_owned);
        self.feed(&ServerMessage::error(code, session, message.agent_id().map(str::to_owned), why));
    }

    /// Someone says who they are, who was let in already.
    fn introduce(&mut self, token: &str) {
        if let Some(stranger) = &self.stranger {
            match self.insights.keeper.introduce(stranger, token) {
                Ok((who, stay)) => {
                    self.gone = until_out(stay);
                    self.who = Principal { via: self.who.via.clone(), ..who };
                    self.stranger = None;
                }
                Err(denied) => {
                    let why = format!("this token does not let you in: {}", way_out::told(&denied.refusal));
                    let error = ServerMessage::error(ErrorCode::HandlerError, None, None, why);
                    return self.feed(&error);
                }
            }
        }
        self.feed(&welcome(&self.who));
    }

    fn done(&mut self, outcome: Outcome) {
        self.partial = outcome.partial;
        let done = match outcome.result {
            Ok(done) => done,
            Err(error) => return self.feed(&ServerMessage::Error(error)),
        };
        if let Some((session, reader)) = outcome.follow {
            self.follow(session, *reader, Detail::Blocks, Past::Nothing);
            if let Some(view) = self.views.get_mut(&session) {
                view.expect(outcome.id, outcome.code);
            }
        }
        let past = past(&done);
        match done {
            Done::Taken => {}
            Done::Listed(sessions) => self.feed(&ServerMessage::SessionListed(SessionListed { sessions })),
            Done::Created(session, reader, detail) => {
                let session_id = session.to_string();
                self.feed(&ServerMessage::SessionCreated(SessionCreated { session_id }));
                self.follow(session, *reader, detail, past);
            }
            Done::Attached(listed, session, reader, detail) => {
                self.feed(&ServerMessage::SessionAttached(listed));
                self.follow(session, *reader, detail, past);
            }
        }
    }

    fn follow(&mut self, session: SessionId, reader: SessionReader, detail: Detail, past: Past) {
        self.views.insert(session, View::new(session, detail, past));
        self.readers.add_session(session, reader);
    }

    // ------------------------------------------------------------------------------ what it reads

    fn deliver(&mut self, session: SessionId, delivery: Delivery<Event, State>) {
        let Some(view) = self.views.get_mut(&session) else { return };
        let mut messages = Vec::new();
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in &pieces {
                    match piece.entry() {
                        Ok(entry) => view.project(entry.seq, &entry.event, &mut messages),
                        Err(error) => {
                            tracing::warn!(%session, seq = %piece.seq(), %error, "an entry cannot be read");
                        }
                    }
                }
            }
            Delivery::Snapshot(snapshot) => view.snapshot(&snapshot.state, &mut messages),
            Delivery::Presence(_) => {}
            Delivery::Closed(reason) => {
                let session_id = Some(session.to_string());
                let error = |code, why| ServerMessage::error(code, session_id.clone(), None, why);
                messages.extend(match reason {
                    Closed::Deleted => Some(error(ErrorCode::SessionNotFound, "the session was deleted")),
                    Closed::Failed => Some(error(ErrorCode::HandlerError, "the session cannot be read now")),
                    // The connection ends with it, and says so.
                    Closed::Stopping => None,
                });
                self.unfollow(session);
            }
        }
        for message in &messages {
            self.feed(message);
        }
        if self.views.get(&session).is_some_and(View::is_over) {
            self.unfollow(session);
        }
    }

    fn unfollow(&mut self, session: SessionId) {
        self.views.remove(&session);
        self.readers.remove(Some(session));
    }
}

/// Adds a message to what is written next.
pub(super) fn tell<S>(socket: &mut Socket<S>, message: &ServerMessage)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    socket.feed(message.to_text());
}

/// Tells the client why, gives it a moment to read it, and ends the stream.
async fn farewell<S>(ending: Ending, mut socket: Socket<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (code, error) = match ending {
        Ending::Gone => return,
        // 1005 stands for "no code" and is never sent.
        Ending::Closed(code) => (code.unwrap_or(1000), None),
        Ending::Stopping => (1012, None),
        Ending::TooSlow => (4008, None),
        Ending::TokenGone => (4001, Some("the token was revoked, replaced or has expired".to_owned())),
        Ending::Unknown => (4001, Some("no token was shown in time that lets you in".to_owned())),
        Ending::Violation(violation) => (violation.code(), Some(violation.to_string())),
    };
    tracing::debug!(code, "connection closed");
    if let Some(message) = error {
        let kind = if code == 4001 { ErrorCode::HandlerError } else { ErrorCode::InvalidMessage };
        tell(&mut socket, &ServerMessage::error(kind, None, None, message));
    }
    socket.feed_close(code);
    let is_answer = matches!(ending, Ending::Closed(_));
    let read = async {
        if socket.flush().await.is_err() || is_answer {
            return;
        }
        // Bytes left unread would make the network throw away what we just said.
        while !matches!(socket.receive().await, Ok(Received::Close(_)) | Err(_)) {}
    };
    let _ = timeout(FAREWELL, read).await;
    let _ = timeout(FAREWELL, socket.shut_down()).await;
}
