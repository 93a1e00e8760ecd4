//! Entries as a program reads them: typed, in order, from any place of the log to its end.

use std::{collections::VecDeque, sync::Arc};

use portolan_core::{
    Actor, DaemonEvent, Event, Millis, Refusal, RefusalCode, Seq,
    log::delivery::{Closed, Delivery, Piece},
    registry::{DaemonReader, SessionReader},
    session::state::State,
};
use serde::{Serialize, de::DeserializeOwned};

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<E> {
    /// Its number; a reader that comes back goes on after it.
    pub seq: Seq,
    /// When.
    pub at: Millis,
    /// Who caused it; absent is the agent.
    pub by: Option<Actor>,
    /// What happened.
    pub event: E,
}

impl<E: Serialize + Clone + DeserializeOwned> Told<E> {
    pub(crate) fn read(piece: &Piece<E>) -> Result<Self, Refusal> {
        let seen = piece.entry().map_err(|error| {
            Refusal::new(RefusalCode::Internal, format!("entry {} cannot be read: {error}", piece.seq()))
        })?;
        let by = seen.by.map(std::borrow::Cow::into_owned);
        Ok(Self { seq: seen.seq, at: seen.at, by, event: seen.event.into_owned() })
    }
}

/// The entries of a session: history, then everything as it happens. Dropping it leaves the session.
#[derive(Debug)]
pub struct Entries {
    reader: SessionReader,
    waiting: VecDeque<Piece<Event>>,
    state: Option<Arc<State>>,
}

impl Entries {
    pub(crate) fn new(reader: SessionReader) -> Self {
        Self { reader, waiting: VecDeque::new(), state: None }
    }

    /// The next entry; `None` once the session was deleted or Portolan stops. Cancel-safe.
    ///
    /// A reader that falls behind gets the text of an open item merged into fewer deltas; no other entry is ever left
    /// out.
    pub async fn next(&mut self) -> Result<Option<Told<Event>>, Refusal> {
        loop {
            if let Some(piece) = self.waiting.pop_front() {
                return Told::read(&piece).map(Some);
            }
            match self.reader.next().await {
                Delivery::Entries(pieces) => self.waiting.extend(pieces),
                Delivery::Snapshot(snapshot) => self.state = Some(snapshot.state),
                Delivery::Presence(_) => {}
                Delivery::Closed(why) => return closed(why),
            }
        }
    }

    /// The state of the session where the history ended: what was open then, with its text so far. `None` until then.
    pub fn state(&self) -> Option<&Arc<State>> {
        self.state.as_ref()
    }

    /// Everything up to here was given out or waits to be.
    pub fn last(&self) -> Seq {
        self.reader.last()
    }
}

/// What happens to all sessions.
#[derive(Debug)]
pub struct Changes {
    reader: DaemonReader,
    waiting: VecDeque<Piece<DaemonEvent>>,
}

impl Changes {
    pub(crate) fn new(reader: DaemonReader) -> Self {
        Self { reader, waiting: VecDeque::new() }
    }

    /// The next change; `None` once Portolan stops. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Told<DaemonEvent>>, Refusal> {
        loop {
            if let Some(piece) = self.waiting.pop_front() {
                return Told::read(&piece).map(Some);
            }
            match self.reader.next().await {
                Delivery::Entries(pieces) => self.waiting.extend(pieces),
                Delivery::Snapshot(_) | Delivery::Presence(_) => {}
                Delivery::Closed(why) => return closed(why),
            }
        }
    }
}

pub(crate) fn closed<T>(why: Closed) -> Result<Option<T>, Refusal> {
    match why {
        Closed::Deleted | Closed::Stopping => Ok(None),
        Closed::Failed => {
            Err(Refusal::new(RefusalCode::StoreFailing, "the store cannot be read; come back later"))
        }
    }
}
