//! Fault: why a scenario went wrong. One sentence for people; the transcript has the rest.

use portolan_core::{Refusal, ports::StoreError};

/// Why a scenario went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The agent, or Portolan, behaved wrongly.
    #[error("{0}")]
    Wrong(String),
    /// The run showed that this agent does not offer it.
    #[error("not offered: {0}")]
    NotOffered(String),
    /// The suite has no way to make this agent use it.
    #[error("not tested: {0}")]
    NotTested(String),
}

impl Fault {
    /// A wrong behaviour.
    pub fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong(why.into())
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Wrong(format!("refused ({:?}): {refusal}", refusal.code))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Wrong(format!("the store: {error}"))
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Wrong(format!("the system: {error}"))
    }
}

/// Continues if the condition holds, otherwise ends the scenario with the reason.
macro_rules! must {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::Fault::Wrong(format!($($why)+)));
        }
    };
}
pub(crate) use must;
