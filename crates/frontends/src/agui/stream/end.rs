//! How a stream ends: everything closed, one last event, the end of the body.

use portolan_core::{Refusal, RefusalCode, log::delivery::Closed};

use super::Task;
use crate::{
    agui::{
        project::{Asks, Ended},
        wire::{AguiEvent, RunOutcome},
    },
    way_out,
};

/// How a stream ends.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// Nothing more will come.
    Finished,
    /// The agent waits for an answer.
    Asks(Asks),
    /// It failed.
    Failed {
        /// The kind.
        code: String,
        /// What happened.
        message: String,
    },
}

impl End {
    pub(super) fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed { code: code.into(), message: message.into() }
    }

    pub(super) fn refused(refusal: &Refusal) -> Self {
        Self::failed(&code_of(refusal.code), way_out::told(refusal))
    }

    pub(super) fn closed(reason: Closed) -> Self {
        match reason {
            Closed::Deleted => Self::failed("deleted", "the session was deleted"),
            Closed::Stopping => {
                Self::failed("stopping", "Portolan is shutting down; try again when it is back")
            }
            Closed::Failed => Self::failed("store_failing", "the session cannot be read now"),
        }
    }
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Finished => Self::Finished,
            Ended::Failed { message, code } => Self::Failed { code, message },
        }
    }
}

/// The code of a refusal.
pub(super) fn code_of(code: RefusalCode) -> String {
    let word = serde_json::to_value(code).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Task {
    /// The last event: finished or failed, never both, because clients accept nothing after either.
    pub(super) async fn finish(mut self, end: End) {
        let (thread_id, run_id) = (self.thread.clone(), self.run.clone());
        let finished = |outcome| AguiEvent::RunFinished { thread_id, run_id, outcome };
        let mut last = match end {
            End::Finished => vec![finished(None)],
            End::Asks(Asks::Interrupts(interrupts)) => {
                vec![finished(Some(RunOutcome::Interrupt { interrupts }))]
            }
            End::Asks(Asks::OnInterrupt(value)) => {
                vec![AguiEvent::Custom { name: "on_interrupt".into(), value }, finished(None)]
            }
            End::Failed { code, message } => vec![AguiEvent::RunError { message, code: Some(code) }],
        };
        self.out.send(&mut last).await;
    }
}
