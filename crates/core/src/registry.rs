//! The registry: every session by its id. What frontends call, and what an embedding program calls.
//!
//! It opens sessions when someone asks for them and forgets them when nobody does: a session without an agent
//! and without a reader is only a row in the store. Roles are checked here, for every frontend alike.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Action, Capabilities, CommandId, DaemonEvent, Event, Principal, Refusal, RefusalCode, Seq, SessionId, SessionSpec,
    Stored,
    command::Receipt,
    log::delivery::{Delivery, Mode, Presence, Snapshot, Start},
    ports::{Agent, Clock, Probe, SessionQuery, Store, StoreError},
    request::Request,
    session::state::{State, Summary},
};

/// Every session by its id. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {}

/// An agent as frontends list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AgentDescription {
    /// Its kind, such as `demo`.
    pub kind: String,
    /// What people call it.
    pub title: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What a look at it found; absent while nobody has looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub probe: Option<Probe>,
}

/// The daemon's state: the list of sessions and the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct DaemonState {
    /// The newest sessions that are not archived.
    pub sessions: Vec<Summary>,
    /// Everything that waits for an answer, oldest first.
    pub requests: Vec<Waiting>,
}

/// A request in the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Waiting {
    /// In which session.
    pub session: SessionId,
    /// What.
    pub request: Request,
}

/// A reader's place in a session's log. Dropping it leaves.
#[derive(Debug)]
pub struct SessionReader {}

/// A reader's place in the daemon's log.
#[derive(Debug)]
pub struct DaemonReader {}

impl SessionReader {
    /// What comes next. Cancel-safe.
    pub async fn next(&mut self) -> Delivery<Event, State> {
        std::future::pending().await
    }
}

impl DaemonReader {
    /// What comes next, without what the reader may not see. Cancel-safe.
    pub async fn next(&mut self) -> Delivery<DaemonEvent, DaemonState> {
        std::future::pending().await
    }
}

fn not_yet<T>() -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Internal, "being written"))
}

#[expect(clippy::unused_async, unused_variables, reason = "being written")]
impl Registry {
    /// Opens the registry over a store. Sessions that a crash left open are settled in the background.
    pub async fn open(store: Arc<dyn Store>, agents: Vec<Arc<dyn Agent>>, clock: Clock) -> Result<Self, StoreError> {
        Ok(Self {})
    }

    /// The agents there are.
    pub fn agents(&self) -> Vec<AgentDescription> {
        Vec::new()
    }

    /// Looks at every agent; [`Registry::agents`] tells what was found from then on.
    pub async fn probe(&self) -> Vec<AgentDescription> {
        Vec::new()
    }

    /// Makes a session. The same id of the same token again gives the same session.
    pub async fn create(&self, who: &Principal, id: CommandId, spec: SessionSpec) -> Result<Summary, Refusal> {
        not_yet()
    }

    /// Sessions, newest first, without those that `who` may not see.
    pub async fn list(&self, who: &Principal, query: SessionQuery) -> Result<Vec<Summary>, Refusal> {
        not_yet()
    }

    /// The session whose id begins with `prefix`, where there is just one.
    pub async fn resolve(&self, who: &Principal, prefix: &str) -> Result<SessionId, Refusal> {
        not_yet()
    }

    /// Asks something of a session. Returns once the command is in the log, with its number and how far it has
    /// come; everything after that arrives as entries. The same id again gives the same receipt.
    pub async fn submit(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<Receipt, Refusal> {
        not_yet()
    }

    /// Deletes a session and its log for good. Its agent is ended first.
    pub async fn delete(&self, who: &Principal, session: SessionId) -> Result<(), Refusal> {
        not_yet()
    }

    /// The state of a session now.
    pub async fn snapshot(&self, who: &Principal, session: SessionId) -> Result<Snapshot<State>, Refusal> {
        not_yet()
    }

    /// Joins a session: history from `start`, a snapshot, then everything as it happens. Presence is told.
    pub async fn attach(
        &self,
        who: &Principal,
        session: SessionId,
        start: Start,
        mode: Mode,
    ) -> Result<SessionReader, Refusal> {
        not_yet()
    }

    /// A page of durable entries with `after < seq <= upto` (the newest where `upto` is absent), oldest first,
    /// at most `limit` (and at most 1,000).
    pub async fn history(
        &self,
        who: &Principal,
        session: SessionId,
        after: Seq,
        upto: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Stored>, Refusal> {
        not_yet()
    }

    /// What the agent really said at an entry. For owners.
    pub async fn raw(&self, who: &Principal, session: SessionId, seq: Seq) -> Result<Option<Bytes>, Refusal> {
        not_yet()
    }

    /// The environment variables a session was given, by name and value. For owners.
    pub async fn environment(
        &self,
        who: &Principal,
        session: SessionId,
    ) -> Result<indexmap::IndexMap<String, String>, Refusal> {
        not_yet()
    }

    /// Who reads a session now.
    pub fn presence(&self, session: SessionId) -> Arc<Vec<Presence>> {
        Arc::default()
    }

    /// Reads the daemon's log: history from `start`, a snapshot, then everything as it happens.
    pub async fn watch(&self, who: &Principal, start: Start) -> Result<DaemonReader, Refusal> {
        not_yet()
    }

    /// Writes an event of the door (tokens, devices) to the daemon's log.
    pub async fn note(&self, who: Option<&Principal>, event: DaemonEvent) -> Result<Seq, Refusal> {
        not_yet()
    }

    /// The store, for what frontends keep of their own (tokens, devices) as records.
    pub fn store(&self) -> Arc<dyn Store> {
        unreachable!("being written")
    }

    /// Deletes ended sessions that are older than `age` or, oldest first, until the store is smaller than
    /// `bytes`. Gives how many.
    pub async fn prune(&self, age: Option<Duration>, bytes: Option<u64>) -> Result<u32, StoreError> {
        Ok(0)
    }

    /// Ends everything: no new prompts, running turns get `grace`, then agents end by the stop ladder. Gives the
    /// names of sessions whose agent did not stop.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        Vec::new()
    }
}
