//! Why a call to a daemon failed.

use portolan_core::{Refusal, command::Receipt};

/// Why a call to a daemon failed. The words name no commands: a program that uses this crate knows its own way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are not valid.
    #[error("{0}")]
    Invalid(String),
    /// No connection could be made, or it was lost for good.
    #[error("{0}")]
    Unreachable(String),
    /// No trusted certificate identifies the daemon.
    #[error("{0}")]
    Untrusted(String),
    /// The daemon does not accept this token.
    #[error("the daemon does not accept this token: the token is wrong, expired or revoked")]
    NotLetIn,
    /// The daemon now has other logs than before, for example after a backup was restored.
    #[error("the daemon's logs were replaced while the connection was lost; load the sessions again")]
    Replaced,
    /// The daemon is connected and does not answer.
    #[error("the daemon did not {what} within {seconds} s")]
    Silent {
        /// What the daemon did not do.
        what: &'static str,
        /// The time that the client waited.
        seconds: u64,
    },
    /// The daemon refuses.
    #[error("{0}")]
    Refused(Refusal),
    /// The daemon sent an answer to another call.
    #[error("the daemon sent an unexpected answer: {0}")]
    Unexpected(String),
    /// A command was not settled in time. The log will hold its result.
    #[error("the result of command {} is not known after {seconds} s", .receipt.seq)]
    Unsettled {
        /// The command's progress.
        receipt: Receipt,
        /// The time that the client waited.
        seconds: u64,
    },
    /// A program that is needed to reach a daemon did not start.
    #[error("{0}")]
    NotStarted(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The reason why the connection was lost, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Lost(pub String);
