//! The readers of one connection: its sessions, and the daemon's log. Only its own log wakes a reader, and readers with
//! entries are served in turn.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, SelectAll},
};
use portolan_core::{
    DaemonEvent, Event, SessionId,
    log::delivery::Delivery,
    registry::{DaemonReader, DaemonState, SessionReader},
    session::state::State,
};

/// The output of a reader.
#[derive(Debug)]
pub(crate) enum Pulled {
    /// Of a session.
    Session(SessionId, Delivery<Event, State>),
    /// Of the daemon.
    Daemon(Delivery<DaemonEvent, DaemonState>),
}

/// Which log; `None` is the daemon's.
type Source = Option<SessionId>;

struct Reader {
    source: Source,
    pulls: Pin<Box<dyn Stream<Item = Pulled> + Send>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.source).finish()
    }
}

impl Stream for Reader {
    type Item = Pulled;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Pulled>> {
        self.pulls.as_mut().poll_next(context)
    }
}

/// The readers of one connection.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    all: SelectAll<Reader>,
    sources: Vec<Source>,
}

impl Readers {
    /// How many sessions are read.
    pub(crate) fn sessions(&self) -> usize {
        self.sources.iter().flatten().count()
    }

    /// Is this session read?
    pub(crate) fn reads(&self, session: SessionId) -> bool {
        self.sources.contains(&Some(session))
    }

    /// Reads a session, and replaces an earlier reader of the same session.
    pub(crate) fn add_session(&mut self, session: SessionId, reader: SessionReader) {
        let pulls = stream::unfold(reader, move |mut reader| async move {
            let delivery = reader.next().await;
            Some((Pulled::Session(session, delivery), reader))
        });
        self.add(Some(session), pulls.boxed());
    }

    /// Reads the daemon's log, and replaces an earlier reader of it.
    pub(crate) fn add_daemon(&mut self, reader: DaemonReader) {
        let pulls = stream::unfold(reader, |mut reader| async move {
            let delivery = reader.next().await;
            Some((Pulled::Daemon(delivery), reader))
        });
        self.add(None, pulls.boxed());
    }

    fn add(&mut self, source: Source, pulls: Pin<Box<dyn Stream<Item = Pulled> + Send>>) {
        self.remove(source);
        self.sources.push(source);
        self.all.push(Reader { source, pulls });
    }

    /// Stops reading this log at once.
    pub(crate) fn remove(&mut self, source: Source) {
        if self.sources.contains(&source) {
            self.sources.retain(|other| *other != source);
            let others = std::mem::take(&mut self.all);
            self.all = others.into_iter().filter(|reader| reader.source != source).collect();
        }
    }

    /// The next output of any reader. Pending if there are no readers.
    pub(crate) fn poll_pull(&mut self, context: &mut Context<'_>) -> Poll<Pulled> {
        if self.sources.is_empty() {
            return Poll::Pending;
        }
        match self.all.poll_next_unpin(context) {
            Poll::Ready(Some(pulled)) => Poll::Ready(pulled),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
