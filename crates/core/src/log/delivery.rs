//! What a cursor delivers to its reader.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Actor, Entry, Millis, Role, Seq, Stored, TokenId, entry::Decoded};

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// After this entry, the last one that the reader has seen. `after: 0` is the whole history.
    After(Seq),
    /// With this many of the last durable entries.
    Tail(u32),
}

/// Which entries a reader wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Everything. A reader that is behind gets the deltas of an open item merged.
    #[default]
    Every,
    /// Durable entries only: finished items.
    Items,
    /// Only the newest state: a snapshot after each change.
    Latest,
}

/// One entry on its way to a reader, from memory or from disk.
#[derive(Clone, Debug)]
pub enum Piece<E> {
    /// From memory.
    Live(Arc<Entry<E>>),
    /// From disk.
    Stored(Stored),
}

impl<E: Serialize + Clone + DeserializeOwned> Piece<E> {
    /// The entry's number.
    pub fn seq(&self) -> Seq {
        match self {
            Self::Live(entry) => entry.seq,
            Self::Stored(stored) => stored.seq,
        }
    }

    /// The native frame, ready to send.
    pub fn frame(&self) -> &Bytes {
        match self {
            Self::Live(entry) => entry.frame(),
            Self::Stored(stored) => &stored.frame,
        }
    }

    /// The entry itself, for projectors. An entry on disk is decoded; an entry that cannot be decoded is an error, and
    /// its frame still shows what it is.
    pub fn entry(&self) -> Result<Seen<'_, E>, serde_json::Error> {
        match self {
            Self::Live(entry) => {
                let by = entry.by.as_ref().map(Cow::Borrowed);
                Ok(Seen { seq: entry.seq, at: entry.at, by, event: Cow::Borrowed(&entry.event) })
            }
            Self::Stored(stored) => {
                let Decoded { seq, at, by, event } = stored.decode()?;
                Ok(Seen { seq, at, by: by.map(Cow::Owned), event: Cow::Owned(event) })
            }
        }
    }
}

/// An entry as a projector sees it, from memory or from disk.
#[derive(Debug)]
pub struct Seen<'a, E: Clone> {
    /// The entry's number.
    pub seq: Seq,
    /// The time of the entry.
    pub at: Millis,
    /// Who caused the entry.
    pub by: Option<Cow<'a, Actor>>,
    /// The event.
    pub event: Cow<'a, E>,
}

/// The state at one number: equal to the fold of all entries up to it.
#[derive(Clone, Debug)]
pub struct Snapshot<S> {
    /// The number of the last entry in the state. Later entries follow.
    pub seq: Seq,
    /// The state.
    pub state: Arc<S>,
    /// The native frame, ready to send.
    pub frame: Bytes,
}

/// A client that reads a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Presence {
    /// The token's public name.
    pub token: TokenId,
    /// The name that people see.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The frontend used.
    pub via: String,
    /// When the client joined.
    pub since: Millis,
}

/// The next delivery for a reader.
#[derive(Clone, Debug)]
pub enum Delivery<E, S> {
    /// Entries, in order.
    Entries(Vec<Piece<E>>),
    /// The state, which replaces the reader's state: once after the history, and again after the reader fell too far
    /// behind.
    Snapshot(Snapshot<S>),
    /// Everyone who reads the session now.
    Presence(Arc<Vec<Presence>>),
    /// Nothing more will come.
    Closed(Closed),
}

/// Why nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// The session was deleted.
    Deleted,
    /// The daemon is stopping; reconnect with the last number.
    Stopping,
    /// The store cannot be read; reconnect with the last number.
    Failed,
}
