//! What the machine knows besides the log. The store keeps it with the entries that changed it, and it is never shown,
//! so that a daemon that starts beside a running agent continues where the last one stopped.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use bytes::Bytes;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{modes::Led, rest::Rest};
use crate::{RequestId, SessionId, ports::Op, session::parts::Parts};

/// Calls of one turn whose approval is remembered. A call that is forgotten is judged again.
const ALLOWED: usize = 256;

/// The collection of [`Memory`] in the store, by session.
pub(crate) const MEMORIES: &str = "memories";

/// The state of the agent's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Running {
    #[default]
    No,
    /// A start was requested.
    Starting,
    Ready,
    Stopping,
}

/// Who allowed a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AllowedBy {
    Person,
    Rule,
    Mode,
}

/// What the machine knows of the running agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    pub(super) running: Running,
    /// The agent's own keys of the open requests.
    pub(super) keys: BTreeMap<RequestId, String>,
    /// The MCP servers that were set since the agent started. The agent takes only the whole list.
    pub(super) servers: IndexMap<String, Value>,
    pub(super) parts: Parts,
    pub(super) restarts: u32,
    /// The current start failed for a reason that the next start would meet too.
    pub(super) hopeless: bool,
    /// Why the agent is being ended, if the next prompt is to start it again.
    pub(super) rest: Option<Rest>,
    /// The agent is needed again while it is being ended: it starts again when it has ended.
    pub(super) again: bool,
    /// The last turn that a spent budget stopped.
    pub(super) stopped_turn: Option<u32>,
    /// Something was set in the running agent that no later start sets.
    pub(super) unkept: bool,
    /// The calls that were allowed in this turn, and by whom; the oldest first.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub(super) allowed: IndexMap<String, AllowedBy>,
    /// In this turn a person gave an answer that leads to a mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) led: Option<Led>,
}

impl Memory {
    /// This call was allowed.
    pub(super) fn allow(&mut self, tool: String, by: AllowedBy) {
        if self.allowed.len() >= ALLOWED {
            self.allowed.shift_remove_index(0);
        }
        self.allowed.insert(tool, by);
    }

    /// The stored form. Nothing is kept of a session whose agent does not run.
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

/// The memory, and whether the store has its current form.
#[derive(Debug, Default)]
pub(super) struct Kept {
    memory: Memory,
    changed: bool,
}

impl Kept {
    /// The memory as the store has it.
    pub(super) fn stored(memory: Memory) -> Self {
        Self { memory, changed: false }
    }

    /// The parts of items. They are checked for every event and track their own changes.
    pub(super) fn parts(&mut self) -> &mut Parts {
        &mut self.memory.parts
    }

    /// The change for the store, if there is one.
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
