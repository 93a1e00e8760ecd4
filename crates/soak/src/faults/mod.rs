//! The faults, one file each. Each fault starts the real program, does its damage, and returns a tally or an error.

pub mod answers;
pub mod disk;
pub mod history;
pub mod kills;
pub mod misbehaviour;
pub mod neighbours;
pub mod outliving;
pub mod reconnects;
pub mod stalled;

use std::{fmt, future::Future, pin::Pin};

use anyhow::Result;

use crate::check::Complaint;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The full counts, alone on the machine.
    Full,
    /// A share that CI can afford, on a machine that may be busy.
    Share,
}

impl Extent {
    /// The count for this scale.
    pub fn of<T>(self, full: T, share: T) -> T {
        match self {
            Self::Full => full,
            Self::Share => share,
        }
    }
}

/// One run of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The seed of the random numbers.
    pub seed: u64,
    /// How much is done.
    pub extent: Extent,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How often the fault was injected, as text: `200 kills`.
    pub count: String,
    /// What else was measured.
    pub found: String,
}

/// The future result of a fault.
pub type Running = Pin<Box<dyn Future<Output = Result<Tally>> + Send>>;

/// A fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its name for `--only`.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    /// The function that runs the fault.
    pub run: fn(Run) -> Running,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("name", &self.name).finish_non_exhaustive()
    }
}

fn boxed(run: impl Future<Output = Result<Tally>> + Send + 'static) -> Running {
    Box::pin(run)
}

/// All faults.
pub const ALL: &[Fault] = &[
    Fault {
        name: "answers",
        what: "50 clients answer one request at once",
        run: |run| boxed(answers::run(run)),
    },
    Fault { name: "stalled", what: "a client stops reading", run: |run| boxed(stalled::run(run)) },
    Fault {
        name: "reconnects",
        what: "a client comes back at random moments",
        run: |run| boxed(reconnects::run(run)),
    },
    Fault { name: "kills", what: "kill -9 of the daemon, demo agent", run: |run| boxed(kills::demo(run)) },
    Fault {
        name: "kills-claude",
        what: "kill -9 of the daemon, Claude Code",
        run: |run| boxed(kills::claude(run)),
    },
    Fault {
        name: "outliving",
        what: "kill -9 and restarts of the daemon beside agents that outlive it",
        run: |run| boxed(outliving::demo(run)),
    },
    Fault {
        name: "outliving-claude",
        what: "the same beside Claude Code",
        run: |run| boxed(outliving::claude(run)),
    },
    Fault { name: "outliving-codex", what: "the same beside Codex", run: |run| boxed(outliving::codex(run)) },
    Fault {
        name: "upgrades",
        what: "another version replaces the program beside running agents",
        run: |run| boxed(outliving::upgrades(run)),
    },
    Fault {
        name: "away",
        what: "no daemon comes while an agent talks",
        run: |run| boxed(outliving::away(run)),
    },
    Fault {
        name: "holders",
        what: "kill -9 of the processes that hold agents",
        run: |run| boxed(outliving::holders(run)),
    },
    Fault {
        name: "agents",
        what: "agents die, hang, flood, talk garbage",
        run: |run| boxed(misbehaviour::run(run)),
    },
    Fault {
        name: "disk-full",
        what: "no space left under a running daemon",
        run: |run| boxed(disk::full(run)),
    },
    Fault {
        name: "disk-locked",
        what: "another program locks the database",
        run: |run| boxed(disk::locked(run)),
    },
    Fault { name: "read-only", what: "the home becomes read-only", run: |run| boxed(disk::read_only(run)) },
    Fault { name: "neighbours", what: "port taken, second daemon", run: |run| boxed(neighbours::run(run)) },
    Fault { name: "history", what: "a history of a million entries", run: |run| boxed(history::run(run)) },
];

/// Fails if there are complaints. `about` says what they are about.
pub(crate) fn none(about: &str, complaints: &[Complaint]) -> Result<()> {
    if complaints.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = complaints.iter().take(12).map(ToString::to_string).collect();
    anyhow::bail!("{about}: {} complaints\n  {}", complaints.len(), shown.join("\n  "))
}
