//! What a session was created from, and what is kept of a deleted session.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Seq, SessionId, SessionSpec,
    ports::{Op, Store, StoreError},
};

/// The collection of [`Origin`]s in the store.
pub(crate) const ORIGINS: &str = "births";

/// The collection of deleted sessions: the id that created one cannot be used again.
pub(crate) const DELETED: &str = "deleted";

/// What a session was created from, with its secrets: never shown, and kept apart from the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) spec: SessionSpec,
    /// With a fork: the last message that the agent remembers.
    #[serde(default)]
    pub(crate) at_message: Option<String>,
    /// With a fork: the last message of its source.
    #[serde(default)]
    pub(crate) last_message: Option<String>,
    /// The original conversation is kept unchanged: the agent continues in a copy.
    #[serde(default)]
    pub(crate) copy: bool,
}

impl Origin {
    pub(crate) fn record(&self, session: SessionId) -> Op {
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(self).unwrap_or_default());
        Op::Put { collection: ORIGINS, key: session.to_string(), value }
    }
}

/// The last entry that a fork took over from its source; zero if the session is no fork.
pub(crate) async fn copied_upto(store: &dyn Store, session: SessionId) -> Result<Seq, StoreError> {
    let record = store.record(ORIGINS, session.to_string()).await?;
    let origin: Option<Origin> = record.and_then(|record| serde_json::from_slice(&record).ok());
    Ok(origin.and_then(|origin| origin.spec.fork?.at).unwrap_or_default())
}
