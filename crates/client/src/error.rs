//! Why something that was asked of a daemon did not work.

use portolan_core::{Refusal, command::Receipt};

/// Why something that was asked of a daemon did not work. The words name no commands: a program that uses this crate knows
/// its own way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No connection could be made, or it was lost for good.
    #[error("{0}")]
    Unreachable(String),
    /// Nobody that is trusted says that this is the daemon.
    #[error("{0}")]
    Untrusted(String),
    /// The daemon does not let this token in.
    #[error("the daemon does not take this token: it is wrong, expired or revoked")]
    NotLetIn,
    /// The daemon that answers now has other logs than the one before, as after a backup was put back.
    #[error("the daemon's logs were replaced while the connection was lost; begin again")]
    Replaced,
    /// The daemon is connected and says nothing.
    #[error("the daemon did not {what} within {seconds} s")]
    Silent {
        /// What it did not do.
        what: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// The daemon says no.
    #[error("{0}")]
    Refused(Refusal),
    /// The daemon answered something that was not asked for.
    #[error("the daemon answered something else than was asked: {0}")]
    Unexpected(String),
    /// A command is not settled in time. What comes of it will be in the log.
    #[error("entry {} is not settled after {seconds} s", .receipt.seq)]
    Unsettled {
        /// How far it is.
        receipt: Receipt,
        /// How long it was waited for.
        seconds: u64,
    },
    /// What this program starts to reach a daemon did not start.
    #[error("{0}")]
    NotStarted(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The connection is gone, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Lost(pub String);
