//! How a command ends: its exit code, and the error message on stderr.
//!
//! Every error that a user can see passes through [`Failure`], so that the exit codes stay one small table (in
//! docs/cli.md) and every message says what is wrong and the way out.

use std::fmt;

use portolan_core::{Refusal, RefusalCode};

use crate::way_out;

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command was refused, or it failed.
    Failed = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// No daemon runs, or the daemon cannot be reached.
    Unreachable = 3,
    /// There is no such session, request, agent or token.
    NotFound = 4,
    /// With `send --wait`: the turn failed.
    TurnFailed = 5,
    /// With `send --wait`: the turn was interrupted.
    TurnInterrupted = 6,
    /// The result did not come in time, or nobody knows the outcome.
    Uncertain = 7,
    /// With `doctor`: something does not work.
    #[cfg(feature = "conformance")]
    Degraded = 8,
    /// With `audit verify`: the log does not match its seals.
    Broken = 9,
    /// With `new --unattended`: the turn completed, but something was denied.
    Denied = 10,
}

impl Exit {
    /// Every code with its meaning, for docs/cli.md.
    pub(crate) const TABLE: &[(u8, &'static str)] = &[
        (0, "done"),
        (Self::Failed as u8, "refused, or failed"),
        (
            Self::Usage as u8,
            "the command line or the configuration is invalid; with `set`, also a value that the agent does not accept",
        ),
        (Self::Unreachable as u8, "no daemon runs, or the daemon cannot be reached"),
        (Self::NotFound as u8, "no such session, request, agent or token"),
        (Self::TurnFailed as u8, "with `send --wait` or `new --unattended`: the turn failed"),
        (Self::TurnInterrupted as u8, "with `send --wait` or `new --unattended`: the turn was interrupted"),
        (Self::Uncertain as u8, "the result did not come in time, or nobody knows the outcome"),
        #[cfg(feature = "conformance")]
        (Self::Degraded as u8, "with `doctor`: an agent is not logged in, or fails a part of the test"),
        (Self::Broken as u8, "with `audit verify`: the log does not match its seals"),
        (Self::Denied as u8, "with `new --unattended`: the turn completed, but something was denied"),
    ];
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The message for people: what is wrong, then what to do.
    pub(crate) message: String,
}

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// It failed.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }
    /// The command line or the configuration is invalid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }
    /// The daemon cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }
    /// There is no such session, request, agent or token.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { exit: Exit::NotFound, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match refusal.code {
            RefusalCode::NotFound => Exit::NotFound,
            RefusalCode::Invalid => Exit::Usage,
            RefusalCode::ShuttingDown => Exit::Unreachable,
            RefusalCode::Unauthenticated
            | RefusalCode::Forbidden
            | RefusalCode::Unsupported
            | RefusalCode::Busy
            | RefusalCode::AlreadyClosed
            | RefusalCode::Stale
            | RefusalCode::NotRunning
            | RefusalCode::AgentRefused
            | RefusalCode::Ended
            | RefusalCode::StoreFailing
            | RefusalCode::Internal => Exit::Failed,
        };
        Self { exit, message: way_out::told(&refusal) }
    }
}

impl From<portolan_client::Error> for Failure {
    fn from(error: portolan_client::Error) -> Self {
        use portolan_client::Error;
        let told = error.to_string();
        match error {
            Error::Invalid(_) => Self::usage(told),
            Error::Unreachable(_) => Self::unreachable(told),
            Error::Untrusted(_) => {
                Self::unreachable(format!("{told}; trust a self-signed certificate with `--ca-file FILE`"))
            }
            Error::NotLetIn => Self::unreachable(format!(
                "{told}; ask an owner of the daemon for a new token (`portolan token create`)"
            )),
            Error::Silent { .. } => Self::unreachable(format!("{told}; `portolan logs` may show why")),
            Error::Refused(refusal) => refusal.into(),
            Error::Unexpected(_) | Error::Replaced => Self::new(told),
            Error::Unsettled { .. } => Self { exit: Exit::Uncertain, message: told },
            Error::NotStarted(cause) => match cause.downcast::<Self>() {
                Ok(failure) => *failure,
                Err(cause) => Self::unreachable(cause.to_string()),
            },
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(format!("the JSON cannot be read: {error}"))
    }
}
