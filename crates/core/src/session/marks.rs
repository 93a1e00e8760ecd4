//! Marks: how many of an agent's reports are recorded.
//!
//! An agent that outlives the daemon keeps its reports until they are recorded. Every commit that includes reports has
//! a mark, which says exactly which reports the commit holds: all open items are written first. So a later daemon gets
//! exactly the reports that no commit holds.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    Generation, SessionId,
    ports::{Op, Report},
};

/// The collection of [`Mark`]s in the store, by session.
pub(crate) const MARKS: &str = "marks";

/// The number of recorded reports of this start of the agent.
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

    /// Removes the mark, which is no longer needed.
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
    /// For a link that begins after this many recorded reports.
    pub(super) fn after(reports: u64, recorded: watch::Sender<u64>) -> Self {
        Self { recorded, folded: reports, marked: reports }
    }

    /// This report is folded in.
    pub(super) fn fold(&mut self, report: &Report) {
        self.folded += report.count();
    }

    /// Whether there are folded reports that no commit holds.
    pub(super) fn is_behind(&self) -> bool {
        self.folded > self.marked
    }

    /// The next commit holds everything folded in so far. Returns its mark, and the callback that informs the link
    /// after the commit.
    pub(super) fn mark(&mut self, generation: Generation) -> (Mark, impl FnOnce() + Send + 'static) {
        self.marked = self.folded;
        let (recorded, reports) = (self.recorded.clone(), self.folded);
        let told = move || {
            // The link may be gone; then nobody keeps reports any more.
            recorded.send_replace(reports);
        };
        (Mark { generation, reports }, told)
    }
}
