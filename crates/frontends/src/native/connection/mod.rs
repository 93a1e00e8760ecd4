//! One WebSocket connection: hello, then any number of sessions and the daemon's log on one task.
//!
//! Entries arrive from core as ready-made frames in batches. The loop of the door ([`Connection`]) writes them, and
//! requests none while the client is behind. Commands are answered meanwhile.

mod farewell;
mod hello;
mod lanes;
pub(crate) mod readers;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use portolan_core::{
    CommandId, Principal, Refusal, RefusalCode, SessionId,
    log::delivery::{Delivery, Piece},
    ports::Boxed,
};
use portolan_protocol::{ClientFrame, ServerFrame};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncWrite};

use self::{
    farewell::last_words,
    hello::hello,
    lanes::{Lane, Lanes},
    readers::{Pulled, Readers},
};
use super::{
    Native,
    answer::{Answer, answer, error_frame, frame_of, reply_frame},
    parse::parse,
};
use portolan_host::door::{Connection, FRAME_BYTES, Protocol, Stay, Visitor};
use portolan_wire::websocket::Outbound;

/// How many sessions one connection may be attached to at once.
pub(crate) const ATTACHMENTS: usize = 256;

/// A frame has its answer.
struct Answered {
    id: CommandId,
    lane: Lane,
    result: Result<Answer, Refusal>,
}

/// A client that has sent `hello`.
struct Client {
    native: Native,
    who: Arc<Principal>,
    readers: Readers,
    lanes: Lanes,
    waiting: FuturesUnordered<Boxed<'static, Answered>>,
}

/// Serves one client until either side ends it.
pub(crate) async fn serve<S>(native: Native, visitor: Visitor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _counted = native.metrics.connected();
    let mut connection = Connection::new(io, FRAME_BYTES, visitor.stay().clone(), native.stopping.clone());
    let entered = connection.enter(|message, out| hello(&native, &visitor, message, out)).await;
    let ending = match entered {
        Ok(who) => connection.run(Client::new(native.clone(), who)).await,
        Err(ending) => ending,
    };
    connection.close(ending, |cause| last_words(&native, cause)).await;
}

impl Protocol for Client {
    fn takes_more(&self) -> bool {
        self.lanes.has_room()
    }

    fn receive(&mut self, message: &Bytes, out: &mut Outbound) -> Option<Stay> {
        // Every frame counts for the rate limit, whether or not it can be read.
        let spent = self.native.access.check_rate(&self.who.token).map_err(|denied| denied.refusal);
        match (parse(message), spent) {
            (Ok(frame), Ok(())) => {
                if let Some(now) = self.lanes.enter(frame) {
                    self.begin(now);
                }
            }
            (Ok(frame), Err(busy)) => self.refuse(Some(&frame.id), &busy, out),
            (Err(unreadable), Ok(())) => self.refuse(unreadable.id.as_ref(), &unreadable.refusal, out),
            (Err(unreadable), Err(busy)) => self.refuse(unreadable.id.as_ref(), &busy, out),
        }
        None
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()> {
        let Poll::Ready(Some(answered)) = self.waiting.poll_next_unpin(context) else { return Poll::Pending };
        let Answered { id, lane, result } = answered;
        self.answered(&id, result, out);
        if let Some(next) = self.lanes.done(lane) {
            self.begin(next);
        }
        Poll::Ready(())
    }

    fn poll_entries(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()> {
        self.readers.poll_pull(context).map(|pulled| self.deliver(pulled, out))
    }

    fn is_answering(&self) -> bool {
        !self.lanes.is_idle()
    }

    fn leave(&mut self) {
        self.readers = Readers::default();
    }
}

impl Client {
    fn new(native: Native, who: Principal) -> Self {
        Self {
            native,
            who: Arc::new(who),
            readers: Readers::default(),
            lanes: Lanes::default(),
            waiting: FuturesUnordered::new(),
        }
    }

    fn refuse(&mut self, id: Option<&CommandId>, refusal: &Refusal, out: &mut Outbound) {
        self.native.metrics.answered(Some(refusal.code));
        out.text(&error_frame(id, refusal));
    }

    fn begin(&mut self, (lane, frame): (Lane, ClientFrame)) {
        let (native, who) = (self.native.clone(), Arc::clone(&self.who));
        let id = frame.id.clone();
        self.waiting.push(Box::pin(async move {
            let result = answer(&native, &who, frame).await;
            Answered { id, lane, result }
        }));
    }

    fn answered(&mut self, id: &CommandId, result: Result<Answer, Refusal>, out: &mut Outbound) {
        let result = match result {
            Ok(Answer::Attached(session, _)) if self.is_full(session) => Err(Refusal::new(
                RefusalCode::Busy,
                format!(
                    "this connection is attached to {ATTACHMENTS} sessions already; detach from a session"
                ),
            )),
            other => other,
        };
        self.native.metrics.answered(result.as_ref().err().map(|refusal| refusal.code));
        match result {
            Err(refusal) => out.text(&error_frame(Some(id), &refusal)),
            Ok(answer) => {
                match &answer {
                    Answer::Detached(session) => self.readers.remove(Some(*session)),
                    Answer::Unsubscribed => self.readers.remove(None),
                    Answer::Attached(..) | Answer::Subscribed(_) | Answer::History(_) | Answer::Reply(_) => {}
                }
                out.text(&reply_frame(id, &answer));
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

    fn deliver(&mut self, pulled: Pulled, out: &mut Outbound) {
        match pulled {
            Pulled::Session(session, delivery) => match delivery {
                Delivery::Entries(entries) => self.feed_entries(&entries, out),
                Delivery::Snapshot(snapshot) => out.text(&snapshot.frame),
                Delivery::Presence(present) => {
                    out.text(&frame_of(&ServerFrame::Presence { session, present: present.to_vec() }));
                }
                Delivery::Closed(reason) => {
                    self.readers.remove(Some(session));
                    out.text(&frame_of(&ServerFrame::Ended { session: Some(session), reason }));
                }
            },
            Pulled::Daemon(delivery) => match delivery {
                Delivery::Entries(entries) => self.feed_entries(&entries, out),
                Delivery::Snapshot(snapshot) => out.text(&snapshot.frame),
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => {
                    self.readers.remove(None);
                    out.text(&frame_of(&ServerFrame::Ended { session: None, reason }));
                }
            },
        }
    }

    fn feed_entries<E: Serialize + Clone + DeserializeOwned>(
        &mut self,
        entries: &[Piece<E>],
        out: &mut Outbound,
    ) {
        self.native.metrics.delivered(entries.len());
        for entry in entries {
            out.text(entry.frame());
        }
    }
}
