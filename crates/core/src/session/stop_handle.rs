//! The stop handle: control of a session's running agent without its task. Only for the case in which the task cannot act
//! because nothing can be recorded: stopping an agent must not wait for a disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::ports::{AgentLink, Instruction, InstructionId, Order};

/// Control of the running agent, if one runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopHandle(Arc<Mutex<Option<Hold>>>);

#[derive(Debug)]
struct Hold {
    /// Weak, so that this keeps no link open.
    instructions: mpsc::WeakSender<Instruction>,
    stop: CancellationToken,
}

/// The result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The agent was informed.
    Told,
    /// The agent takes nothing at the moment.
    Busy,
    /// No agent runs.
    NotRunning,
}

impl StopHandle {
    fn hold(&self) -> MutexGuard<'_, Option<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, link: &AgentLink) {
        *self.hold() = Some(Hold { instructions: link.instructions.downgrade(), stop: link.stop.clone() });
    }

    pub(super) fn let_go(&self) {
        *self.hold() = None;
    }

    /// Ends the agent by its stop ladder.
    pub(crate) fn stop(&self) -> Reached {
        match &*self.hold() {
            Some(hold) => {
                hold.stop.cancel();
                Reached::Told
            }
            None => Reached::NotRunning,
        }
    }

    /// Interrupts the running turn.
    pub(crate) fn interrupt(&self) -> Reached {
        let instructions = self.hold().as_ref().and_then(|hold| hold.instructions.upgrade());
        let Some(instructions) = instructions else { return Reached::NotRunning };
        // The agent's reply to this instruction settles no command.
        match instructions.try_send(Instruction { id: InstructionId::UNRECORDED, order: Order::Interrupt }) {
            Ok(()) => Reached::Told,
            Err(mpsc::error::TrySendError::Full(_)) => Reached::Busy,
            Err(mpsc::error::TrySendError::Closed(_)) => Reached::NotRunning,
        }
    }
}
