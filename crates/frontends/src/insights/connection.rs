//! One WebSocket connection: authentication, then any number of sessions on one task.
//!
//! Messages are carried out one after the other, in their order; meanwhile the next message is not read, and the
//! network applies backpressure. The loop of the door ([`Connection`]) writes the output, and requests no more while
//! the client is behind.

use std::{
    collections::HashMap,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use portolan_core::{
    CommandId, Event, Principal, SessionId,
    log::delivery::{Closed, Delivery},
    ports::Boxed,
    registry::SessionReader,
    session::state::State,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Insights,
    act::{Done, Follows, Outcome, Task, code_of, past},
    enter::{Entered, Entrance, STRANGERS_BYTES, Visitor, greet, welcome},
    parse::{Parsed, parse},
    project::{Detail, Past, View},
    questions::Partial,
    wire::{ClientMessage, ErrorCode, ServerMessage, SessionCreated, SessionListed},
};
use crate::{
    native::connection::readers::{Pulled, Readers},
    way_out,
};
use portolan_host::door::{Cause, Connection, Ending, FRAME_BYTES, LastWords, Protocol, Stay, Stranger};
use portolan_wire::websocket::Outbound;

/// How many sessions one connection may follow at once.
const FOLLOWED: usize = 256;

/// Whether a client still gets messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Yes,
    /// The connection ends: running messages are carried out, but their results are not sent.
    NoMore,
}

/// An authenticated client.
struct Client {
    insights: Insights,
    who: Principal,
    /// A client without a token may still send one.
    stranger: Option<Stranger>,
    views: HashMap<SessionId, View>,
    readers: Readers,
    partial: Partial,
    under_way: Option<Boxed<'static, Outcome>>,
    reads: Reads,
}

/// Serves one client until either side ends it.
pub(super) async fn serve<S>(insights: Insights, visitor: Visitor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection::new(io, STRANGERS_BYTES, Stay::endless(), insights.stopping.clone());
    let entered = match Entrance::of(&insights, visitor) {
        Entrance::Open(entered) => Ok(entered),
        Entrance::Shut(cause) => Err(Ending::Close(cause)),
        Entrance::ByToken(stranger) => {
            connection.enter(|message, out| greet(&insights, &stranger, message, out)).await
        }
    };
    let ending = match entered {
        Ok(Entered { who, stay, stranger }) => {
            connection.take_up_to(FRAME_BYTES);
            connection.ends_with(stay);
            tracing::debug!(token = %who.token, "dashboard connected");
            connection.run(Client::new(insights, who, stranger)).await
        }
        Err(ending) => ending,
    };
    connection.close(ending, last_words).await;
}

impl Protocol for Client {
    fn takes_more(&self) -> bool {
        self.under_way.is_none()
    }

    fn receive(&mut self, message: &Bytes, out: &mut Outbound) -> Option<Stay> {
        // Every message counts for the rate limit, whether or not it can be read.
        let spent =
            self.insights.access.check_rate(&self.who.token).map_err(|denied| way_out::told(&denied.refusal));
        match (parse(message), spent) {
            (Ok(parsed), Ok(())) => {
                if let ClientMessage::Auth(auth) = &parsed.message {
                    return self.introduce(&auth.token, out);
                }
                self.begin(parsed, out);
            }
            (Ok(parsed), Err(busy)) => refuse(&parsed.message, ErrorCode::HandlerError, busy, out),
            (Err(error), Ok(())) => tell(out, &ServerMessage::Error(error)),
            (Err(_), Err(busy)) => {
                tell(out, &ServerMessage::error(ErrorCode::HandlerError, None, None, busy));
            }
        }
        None
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()> {
        let Some(under_way) = &mut self.under_way else { return Poll::Pending };
        under_way.poll_unpin(context).map(|outcome| {
            self.under_way = None;
            match self.reads {
                Reads::Yes => self.done(outcome, out),
                Reads::NoMore => {}
            }
        })
    }

    fn poll_entries(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()> {
        self.readers.poll_pull(context).map(|pulled| match pulled {
            Pulled::Session(session, delivery) => self.deliver(session, delivery, out),
            // The daemon's own log has no reader here.
            Pulled::Daemon(_) => {}
        })
    }

    fn is_answering(&self) -> bool {
        self.under_way.is_some()
    }

    fn leave(&mut self) {
        self.reads = Reads::NoMore;
    }
}

impl Client {
    fn new(insights: Insights, who: Principal, stranger: Option<Stranger>) -> Self {
        Self {
            insights,
            who,
            stranger,
            views: HashMap::new(),
            readers: Readers::default(),
            partial: Partial::default(),
            under_way: None,
            reads: Reads::Yes,
        }
    }

    // ------------------------------------------------------------------------------- what it asks

    fn begin(&mut self, parsed: Parsed, out: &mut Outbound) {
        let session = parsed.message.session_id().and_then(|id| id.parse::<SessionId>().ok());
        let followed = session.is_some_and(|session| self.views.contains_key(&session));
        let is_list = matches!(parsed.message, ClientMessage::SessionList(_));
        if !followed && !is_list && self.views.len() >= FOLLOWED {
            let why = format!("this connection follows {FOLLOWED} sessions already; open another connection");
            return refuse(&parsed.message, code_of(&parsed.message), why, out);
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

    /// An authenticated client sends another token. Returns the new expiry, if it has changed.
    fn introduce(&mut self, token: &str, out: &mut Outbound) -> Option<Stay> {
        let mut changed = None;
        if let Some(stranger) = &self.stranger {
            match self.insights.access.introduce(stranger, token) {
                Ok((who, stay)) => {
                    self.who = Principal { via: self.who.via.clone(), ..who };
                    self.stranger = None;
                    changed = Some(stay);
                }
                Err(denied) => {
                    let why = format!("this token gives no access: {}", way_out::told(&denied.refusal));
                    tell(out, &ServerMessage::error(ErrorCode::HandlerError, None, None, why));
                    return None;
                }
            }
        }
        tell(out, &welcome(&self.who));
        changed
    }

    fn done(&mut self, outcome: Outcome, out: &mut Outbound) {
        self.partial = outcome.partial;
        let done = match outcome.result {
            Ok(done) => done,
            Err(error) => return tell(out, &ServerMessage::Error(error)),
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
            Done::Listed(sessions) => tell(out, &ServerMessage::SessionListed(SessionListed { sessions })),
            Done::Created(session, reader, detail) => {
                let session_id = session.to_string();
                tell(out, &ServerMessage::SessionCreated(SessionCreated { session_id }));
                self.follow(session, *reader, detail, past);
            }
            Done::Attached(listed, session, reader, detail) => {
                tell(out, &ServerMessage::SessionAttached(listed));
                self.follow(session, *reader, detail, past);
            }
        }
    }

    fn follow(&mut self, session: SessionId, reader: SessionReader, detail: Detail, past: Past) {
        self.views.insert(session, View::new(session, detail, past));
        self.readers.add_session(session, reader);
    }

    // ------------------------------------------------------------------------------ what it reads

    fn deliver(&mut self, session: SessionId, delivery: Delivery<Event, State>, out: &mut Outbound) {
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
                    // The error ends the connection, and the client gets it.
                    Closed::Stopping => None,
                });
                self.unfollow(session);
            }
        }
        for message in &messages {
            tell(out, message);
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

/// Adds a message to the next write.
pub(super) fn tell(out: &mut Outbound, message: &ServerMessage) {
    out.text(&message.to_text());
}

fn refuse(message: &ClientMessage, code: ErrorCode, why: String, out: &mut Outbound) {
    let session = message.session_id().map(str::to_owned);
    tell(out, &ServerMessage::error(code, session, message.agent_id().map(str::to_owned), why));
}

/// The close frame for a client.
fn last_words(cause: Cause) -> LastWords {
    let with = |code: u16, kind: ErrorCode, why: String| {
        LastWords::frame(code, ServerMessage::error(kind, None, None, why).to_text())
    };
    match cause {
        Cause::Stopping => LastWords::code(1012),
        Cause::TooSlow => LastWords::code(4008),
        Cause::StayOver => {
            with(4001, ErrorCode::HandlerError, "the token was revoked, replaced or has expired".into())
        }
        Cause::NotEntered => with(4001, ErrorCode::HandlerError, "no valid token came in time".into()),
        Cause::Violation(violation) => {
            with(violation.code(), ErrorCode::InvalidMessage, violation.to_string())
        }
    }
}
