//! What a session was made from, and what is kept of one that was deleted.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{SessionId, SessionSpec, ports::Op};

/// The collection of [`Birth`]s in the store.
pub(crate) const BIRTHS: &str = "births";

/// The collection of sessions that were deleted: the id under which one was made is used up with it.
pub(crate) const DELETED: &str = "deleted";

/// What a session was made from, with its secrets: never shown, kept apart from the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Birth {
    pub(crate) spec: SessionSpec,
    /// With a fork: the message up to which the agent is to remember.
    #[serde(default)]
    pub(crate) at_message: Option<String>,
    /// With a fork: the last message its source held.
    #[serde(default)]
    pub(crate) last_message: Option<String>,
    /// The conversation to take up is left as it is: the agent goes on in a copy.
    #[serde(default)]
    pub(crate) copy: bool,
}

impl Birth {
    pub(crate) fn record(&self, session: SessionId) -> Op {
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(self).unwrap_or_default());
        Op::Put { collection: BIRTHS, key: session.to_string(), value }
    }
}
