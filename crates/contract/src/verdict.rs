//! Verdict: the result of a scenario.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::Scenario;

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It went as expected.
    Works,
    /// The agent does not offer it, and reports that.
    NotOffered {
        /// What it lacks.
        why: String,
    },
    /// The suite cannot make the agent use it, so nobody knows from this run whether it works.
    NotTested {
        /// What was not tried.
        why: String,
    },
    /// It went wrong.
    Fails {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Works => "works",
            Self::NotOffered { .. } => "not offered",
            Self::NotTested { .. } => "not tested",
            Self::Fails { .. } => "fails",
        })
    }
}

/// A scenario and its result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The result.
    pub verdict: Verdict,
    /// How long it took, with the start and the end of the agent.
    pub took: Duration,
    /// Messages of the agent that its adapter does not know, by the agent's own names: signs of a newer version.
    pub unknown: Vec<String>,
    /// The events, one line per entry, and the requests to the model. Kept if it fails.
    pub transcript: Vec<String>,
}
