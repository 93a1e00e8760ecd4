//! Marks: how many of an agent's reports are recorded.
//!
//! An agent that outlives the daemon keeps its reports until they are. A mark goes with every commit that its reports made, and
//! says exactly what that commit holds: all open items are written first. So a daemon that starts later is given the reports
//! that no commit holds, and none of the others.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{Generation, SessionId, ports::Op};

/// The collection of [`Mark`]s in the store, by session.
pub(crate) const MARKS: &str = "marks";

/// So many reports of this start of the agent are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) generation: Generation,
    pub(crate) reports: u64,
}

impl Mark {
    pub(super) fn record(self, session: SessionId) -> Op {
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(&self).unwrap_or_default());
        Op::Put { collection: MARKS, key: session.to_string(), value }
    }

    /// The mark is of no use any more.
    pub(super) fn removal(session: SessionId) -> Op {
        Op::Remove { collection: MARKS, key: session.to_string() }
    }
}

/// How far the reports of a running agent have come.
#[derive(Debug)]
pub(super) struct Marks {
    recorded: watch::Sender<u64>,
    folded: u64,
    marked: u64,
}

impl Marks {
    /// Of a link that begins after so many recorded reports.
    pub(super) fn after(reports: u64, recorded: watch::Sender<u64>) -> Self {
        Self { recorded, folded: reports, marked: reports }
    }

    /// So many more reports are folded in.
    pub(super) fn fold(&mut self, reports: usize) {
        self.folded += reports as u64;
    }

    /// Reports were folded in of which no commit tells.
    pub(super) fn is_behind(&self) -> bool {
        self.folded > self.marked
    }

    /// The commit that is about to be made holds everything folded in so far. Gives the mark that goes with it, and what tells the link
    /// once it is committed.
    pub(super) fn mark(&mut self, generation: Generation) -> (Mark, impl FnOnce() + Send + 'static) {
        self.marked = self.folded;
        let (recorded, reports) = (self.recorded.clone(), self.folded);
        let told = move || {
            // The link may have gone; then nobody keeps reports any more.
            recorded.send_replace(reports);
        };
        (Mark { generation, reports }, told)
    }
}
