//! What the machine knows beside the log. It is kept in the store with the entries that changed it and is never shown, so
//! that a daemon that starts beside a running agent goes on where the last one stopped.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use bytes::Bytes;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rest::Rest;
use crate::{RequestId, SessionId, ports::Op, session::parts::Parts};

/// The collection of [`Memory`] in the store, by session.
pub(crate) const MEMORIES: &str = "memories";

/// Where the agent's process stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Running {
    #[default]
    No,
    /// A start was asked for.
    Starting,
    Ready,
    Stopping,
}

/// What the machine knows of the running agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    pub(super) running: Running,
    /// The agent's own keys of the open requests.
    pub(super) keys: BTreeMap<RequestId, String>,
    /// The MCP servers that were set since the agent started. It takes all of them or none.
    pub(super) servers: IndexMap<String, Value>,
    pub(super) parts: Parts,
    pub(super) restarts: u32,
    /// The start that is under way has failed for a reason that another one would meet too.
    pub(super) hopeless: bool,
    /// Why the agent is being ended, where it is to go on with the next prompt.
    pub(super) rest: Option<Rest>,
    /// It is asked for again while it is being ended: it starts again as soon as it has ended.
    pub(super) again: bool,
    /// Something was set in the running agent that no later start sets.
    pub(super) unkept: bool,
}

impl Memory {
    /// As the store keeps it. Nothing is kept of a session whose agent does not run.
    fn record(&self, session: SessionId) -> Op {
        let key = session.to_string();
        if self.running == Running::No {
            return Op::Remove { collection: MEMORIES, key };
        }
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(self).unwrap_or_default());
        Op::Put { collection: MEMORIES, key, value }
    }
}

/// The memory, and whether the store has it as it is.
#[derive(Debug, Default)]
pub(super) struct Kept {
    memory: Memory,
    changed: bool,
}

impl Kept {
    /// As the store has it.
    pub(super) fn stored(memory: Memory) -> Self {
        Self { memory, changed: false }
    }

    /// The parts of items. They are looked at for every event and know themselves whether they have changed.
    pub(super) fn parts(&mut self) -> &mut Parts {
        &mut self.memory.parts
    }

    /// What the store is to be given, where something has changed.
    pub(super) fn take_change(&mut self, session: SessionId) -> Option<Op> {
        let parts_changed = self.memory.parts.take_changed();
        let changed = std::mem::take(&mut self.changed) || parts_changed;
        changed.then(|| self.memory.record(session))
    }
}

impl Deref for Kept {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Memory {
        self.changed = true;
        &mut self.memory
    }
}
