//! Entries as a program reads them: typed, in order, from any number of the log to its end.

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
    /// Its number; a reader that returns continues after it.
    pub seq: Seq,
    /// When it happened.
    pub at: Millis,
    /// Who caused it; absent if the agent did.
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

/// The entries of a session: the history, then every new entry. Dropping this value leaves the session.
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

    /// The next entry; `None` if the session was deleted or Portolan stops. Cancel-safe.
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

    /// The state of the session at the end of the history: the open items, with their text so far. `None` until then.
    pub fn state(&self) -> Option<&Arc<State>> {
        self.state.as_ref()
    }

    /// Every entry up to this number was returned or is buffered.
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

    /// The next change; `None` if Portolan stops. Cancel-safe.
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
            Err(Refusal::new(RefusalCode::StoreFailing, "the store cannot be read; try again later"))
        }
    }
}
