//! Requests of Portolan to an agent that speaks JSON-RPC: which of them wait for their answer, which command each of them
//! carries out, and for how long each may wait. What an answer means is decided in the agent's folder.

use std::time::Duration;

use portolan_core::ports::InstructionId;
use portolan_wire::jsonrpc::{Dialect, Id, Pending};
use serde_json::Value;

use crate::driver::{Output, Timer};

/// Requests that wait for their answer.
#[derive(Debug)]
pub(crate) struct Calls<What>(Pending<Call<What>>);

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Call<What> {
    /// The command that waits for the answer.
    pub(crate) instruction_id: Option<InstructionId>,
    /// What was asked.
    pub(crate) what: What,
}

/// What is sent, and for how long its answer may take; `None` is without end.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Option<Value>,
    pub(crate) patience: Option<Duration>,
}

/// Too many requests of Portolan wait for an answer already.
pub(crate) struct TooMany;

impl<What> Default for Calls<What> {
    fn default() -> Self {
        Self(Pending::default())
    }
}

impl<What> Calls<What> {
    /// Sends a request.
    pub(crate) fn ask(
        &mut self,
        call: Call<What>,
        dialect: Dialect,
        question: Question<'_>,
        out: &mut Output,
    ) -> Result<(), TooMany> {
        let instruction_id = call.instruction_id;
        let id = self.0.ask(call).map_err(|_| TooMany)?;
        if let Some(patience) = question.patience {
            out.set_timer(timer(&id), patience);
        }
        let message = dialect.request(&id, question.method, question.params);
        match instruction_id {
            Some(instruction_id) => out.write_for(instruction_id, &message),
            None => out.write(&message),
        }
        Ok(())
    }

    /// The request that this answers; `None` if it waits no longer.
    pub(crate) fn settle(&mut self, id: &Id, out: &mut Output) -> Option<Call<What>> {
        let call = self.0.settle(id)?;
        out.clear_timer(timer(id));
        Some(call)
    }

    /// The request whose answer is overdue at this timer, and its id.
    pub(crate) fn overdue(&mut self, at: Timer) -> Option<(Id, Call<What>)> {
        let id = Id::Number(i64::try_from(at.0).unwrap_or_default());
        let call = self.0.settle(&id)?;
        Some((id, call))
    }

    /// Stops waiting for the answers that a command waits for.
    pub(crate) fn forget(&mut self, instruction_id: InstructionId, out: &mut Output) {
        self.give_up(|call| call.instruction_id == Some(instruction_id), out);
    }

    /// Stops waiting for the answers to such requests.
    pub(crate) fn give_up(&mut self, fits: impl FnMut(&Call<What>) -> bool, out: &mut Output) {
        for id in self.0.find(fits) {
            self.settle(&id, out);
        }
    }

    /// Does such a request wait?
    pub(crate) fn any(&self, mut fits: impl FnMut(&What) -> bool) -> bool {
        !self.0.find(|call| fits(&call.what)).is_empty()
    }
}

/// The timer of a request.
fn timer(id: &Id) -> Timer {
    match id {
        Id::Number(number) => Timer(number.unsigned_abs()),
        Id::Text(_) => Timer(0),
    }
}
