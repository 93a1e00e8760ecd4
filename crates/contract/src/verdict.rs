//! Verdict: what came of a scenario.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::Scenario;

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It went as it should.
    Works,
    /// The agent does not offer it, and says so.
    NotOffered {
        /// What it lacks.
        why: String,
    },
    /// It went wrong.
    Fails {
        /// How.
        why: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Works => "works",
            Self::NotOffered { .. } => "not offered",
            Self::Fails { .. } => "fails",
        })
    }
}

/// A scenario and what came of it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which scenario.
    pub scenario: &'static Scenario,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took, the start and the end of the agent included.
    pub took: Duration,
    /// What the agent said that its adapter does not know, by the agent's own names: signs of a newer version.
    pub unknown: Vec<String>,
    /// What happened, one line per entry, and what the model was asked. Kept where it fails.
    pub transcript: Vec<String>,
}
