//! Fault: why a scenario did not go as it should. One sentence for people; the transcript has the rest.

use portolan_core::{Refusal, ports::StoreError};

/// Why a scenario did not go as it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The agent, or Portolan, did something else than it should.
    #[error("{0}")]
    Wrong(String),
    /// It turned out, once it ran, that this agent does not offer it.
    #[error("not offered: {0}")]
    NotOffered(String),
}

impl Fault {
    /// Something else happened than should have.
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

/// Goes on where the condition holds, else ends the scenario with the reason.
macro_rules! must {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::Fault::Wrong(format!($($why)+)));
        }
    };
}
pub(crate) use must;
