//! Whose use a budget counts, and the id by which people name a budget.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::SessionId;

/// Whose use a budget counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BudgetScope {
    /// Every session.
    #[default]
    User,
    /// Every session that works in this folder or below it.
    Project {
        /// An absolute path on the daemon's machine.
        #[cfg_attr(feature = "schema", ts(type = "string"))]
        folder: PathBuf,
    },
    /// Every session of this agent.
    Agent {
        /// The agent's kind.
        agent: String,
    },
    /// One session.
    Session {
        /// The session.
        session: SessionId,
    },
}

impl BudgetScope {
    /// Does the scope hold this session? Sessions' own budgets are kept with the sessions.
    pub fn holds(&self, agent: &str, folder: &std::path::Path) -> bool {
        match self {
            Self::User => true,
            Self::Project { folder: top } => folder.starts_with(top),
            Self::Agent { agent: kind } => kind == agent,
            Self::Session { .. } => false,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::User => "the budget for every session".into(),
            Self::Project { folder } => format!("the budget of the project {}", folder.display()),
            Self::Agent { agent } => format!("the budget of the agent {agent}"),
            Self::Session { .. } => "the budget of this session".into(),
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Project { folder } => write!(f, "project:{}", folder.display()),
            Self::Agent { agent } => write!(f, "agent:{agent}"),
            Self::Session { session } => write!(f, "session:{session}"),
        }
    }
}

/// The id of a budget: eight characters that people can type; `session:ID` for the budget of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(transparent)]
pub struct BudgetId(pub String);

impl BudgetId {
    const SESSION: &str = "session:";

    /// A new id.
    pub fn random() -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        Self(id[..8].to_owned())
    }

    /// The id of a session's own budget.
    pub fn of_session(session: SessionId) -> Self {
        Self(format!("{}{session}", Self::SESSION))
    }

    /// The session, if this is the id of a session's own budget.
    pub fn session(&self) -> Option<SessionId> {
        self.0.strip_prefix(Self::SESSION)?.parse().ok()
    }
}

impl fmt::Display for BudgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
