//! Why Portolan did not carry out a command.

use serde::{Deserialize, Serialize};

use crate::{
    CommandId, RequestId, Seq, SessionId, WayOut,
    request::{Outcome, cancelled},
};

/// The reason of a refusal, as a kind for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The session, request, agent or entry does not exist, or the client may not know of it.
    NotFound,
    /// The client sent no token, or an invalid token.
    Unauthenticated,
    /// The client's role or token does not allow it.
    Forbidden,
    /// The agent does not support it.
    Unsupported,
    /// The command or call is not valid.
    Invalid,
    /// Too much is waiting already; try again later.
    Busy,
    /// The request already has an outcome; `outcome` says which.
    AlreadyClosed,
    /// An earlier start of the agent asked this, or the request has changed since the client saw it.
    Stale,
    /// The agent is not running.
    NotRunning,
    /// The agent refused.
    AgentRefused,
    /// The command was withdrawn, or the session ended or was deleted, before the command was carried out.
    Ended,
    /// The disk currently accepts no entries; nothing was changed.
    StoreFailing,
    /// Portolan is shutting down.
    ShuttingDown,
    /// Portolan has an internal error.
    Internal,
}

/// Why Portolan did not carry out a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[error("{message}")]
pub struct Refusal {
    /// The reason, as a kind.
    pub code: RefusalCode,
    /// The reason, in words for people.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub way_out: Option<WayOut>,
    /// The time to wait before trying again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub retry_after_ms: Option<u32>,
    /// With `already_closed`: how the request ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub outcome: Option<Box<Outcome>>,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), way_out: None, retry_after_ms: None, outcome: None }
    }

    /// The same refusal, with a way out.
    #[must_use]
    pub fn with_way_out(self, way_out: WayOut) -> Self {
        Self { way_out: Some(way_out), ..self }
    }

    /// The session does not exist, or the client may not know of it.
    pub fn no_session(session: SessionId) -> Self {
        Self::new(RefusalCode::NotFound, format!("no session `{session}`")).with_way_out(WayOut::ListSessions)
    }

    /// The id was used for another command.
    pub(crate) fn id_used(id: &CommandId, seq: Seq) -> Self {
        let message = format!(
            "the id `{id}` was used for another command (entry {seq}), so this command was not done; use a new id"
        );
        Self::new(RefusalCode::Invalid, message)
    }

    /// Try again after this time.
    pub fn busy(message: impl Into<String>, retry_after_ms: u32) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..Self::new(RefusalCode::Busy, message) }
    }

    /// The request is closed already. If it was a permission, `tool` names the tool.
    pub fn already_closed(request: RequestId, tool: Option<&str>, outcome: Outcome) -> Self {
        let message = match &outcome {
            Outcome::Answered { by, .. } => format!("request {request} was already answered by {by}"),
            Outcome::Expired => format!("request {request} has expired"),
            Outcome::Interrupted { by } => format!("request {request} was closed by an interrupt from {by}"),
            Outcome::Withdrawn => format!("the agent withdrew request {request}"),
            Outcome::AgentGone { reason } => format!("the agent that asked has ended: {reason}"),
        };
        let message = match (tool, &outcome) {
            (Some(tool), Outcome::Interrupted { .. } | Outcome::Withdrawn | Outcome::AgentGone { .. }) => {
                format!("{}: {message}", cancelled(tool))
            }
            _ => message,
        };
        Self { outcome: Some(Box::new(outcome)), ..Self::new(RefusalCode::AlreadyClosed, message) }
    }
}
