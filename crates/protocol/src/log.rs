//! The frames that core makes.

use portolan_core::{
    Actor, DaemonEvent, Event, Millis, Seq, SessionId, registry::DaemonState, session::state::State,
};
use serde::{Deserialize, Serialize};

/// The frames that core makes, for their readers: clients, tests and the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogFrame {
    /// Something happened in a session.
    Entry {
        /// The session.
        session: SessionId,
        /// The entry's number.
        seq: Seq,
        /// The time of the entry.
        at: Millis,
        /// Who caused the entry; the agent when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        by: Option<Actor>,
        /// The event.
        event: Box<Event>,
    },
    /// Something happened in the daemon.
    Daemon {
        /// The entry's number.
        seq: Seq,
        /// The time of the entry.
        at: Millis,
        /// Who caused the entry; the daemon when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        by: Option<Actor>,
        /// The event.
        event: Box<DaemonEvent>,
    },
    /// The state of a session, equal to the fold of all its entries up to `seq`.
    Snapshot {
        /// The session.
        session: SessionId,
        /// The number of the last entry in the state.
        seq: Seq,
        /// The state.
        state: Box<State>,
    },
    /// The state of the daemon, equal to the fold of all its entries up to `seq`.
    DaemonSnapshot {
        /// The number of the last entry in the state.
        seq: Seq,
        /// The state.
        state: Box<DaemonState>,
    },
}

impl LogFrame {
    /// Every frame's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 4] = ["entry", "daemon", "snapshot", "daemon_snapshot"];
}
