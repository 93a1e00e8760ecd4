//! The status of a session, in the words of other bridges.

use portolan_core::session::state::{Status, Summary};
use serde::{Deserialize, Serialize};

/// The status of a session as other bridges report it: a word, or an object with the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgeStatus {
    /// The agent's process is being started.
    Starting,
    /// The agent is ready and has done nothing yet.
    Connected,
    /// A turn runs.
    Active,
    /// The last turn has ended.
    Idle,
    /// The connection to a running agent is lost.
    Disconnected,
    /// The agent has ended.
    Terminated,
    /// The agent failed, with the reason.
    Error(String),
}

impl BridgeStatus {
    /// Whether the agent is connected.
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Connected | Self::Active | Self::Idle)
    }
}

impl From<&Summary> for BridgeStatus {
    fn from(summary: &Summary) -> Self {
        match summary.status {
            Status::Starting => Self::Starting,
            Status::Connected => Self::Connected,
            Status::Active => Self::Active,
            Status::Idle => Self::Idle,
            Status::Disconnected => Self::Disconnected,
            Status::Terminated => Self::Terminated,
            Status::Error => Self::Error(summary.error.clone().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{Millis, SessionId, SessionSpec, session::state::State};

    use super::*;

    // covers: 004-003, 004-004, 004-005, 004-006, 004-007, 004-008, 004-009
    #[test]
    fn every_status_is_reported_as_in_other_bridges() {
        let state = State::new(SessionId::from_u128(1), SessionSpec::default(), Millis(1));
        let told = |status, error: Option<&str>| {
            let summary = Summary { status, error: error.map(Into::into), ..state.summary.clone() };
            let status = BridgeStatus::from(&summary);
            (serde_json::to_string(&status).unwrap(), status.is_connected())
        };
        let all = [
            (told(Status::Starting, None), (r#""starting""#, false)),
            (told(Status::Connected, None), (r#""connected""#, true)),
            (told(Status::Active, None), (r#""active""#, true)),
            (told(Status::Idle, None), (r#""idle""#, true)),
            (told(Status::Disconnected, None), (r#""disconnected""#, false)),
            (told(Status::Terminated, None), (r#""terminated""#, false)),
            (told(Status::Error, Some("it crashed")), (r#"{"error":"it crashed"}"#, false)),
        ];
        for ((text, connected), expected) in all {
            assert_eq!((text.as_str(), connected), expected);
        }
    }
}
