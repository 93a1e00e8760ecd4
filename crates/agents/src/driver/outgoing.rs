//! Output: reports to the session, messages to the agent, and the state of the link.
//!
//! A message that can no longer be written is refused, so that its state is certain.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
};

use portolan_core::ports::{InstructionId, Report};
use tokio::{
    sync::mpsc::error::TrySendError,
    time::{Duration, Instant},
};

use super::{Settles, Write, ending::Rung, run::Driver};
use crate::link::Input;

/// Between the first looks at what the agent has read.
const LOOK: Duration = Duration::from_millis(2);

/// The longest pause between two looks.
const LOOK_AT_LEAST: Duration = Duration::from_millis(250);

/// Not every link shows what the agent has read. A connection that still exists after this long has delivered the sent
/// messages: a killed process keeps its connections for some hundredths of a second, until the kernel has ended it.
const TAKEN_WITHIN: Duration = Duration::from_millis(300);

/// A message that was written, and that the agent does not answer.
#[derive(Debug)]
pub(super) struct Unread {
    instruction_id: InstructionId,
    /// Its end position in everything that was written.
    upto: u64,
    since: Instant,
}

impl Driver {
    /// Sends reports while there is room.
    pub(super) fn deliver(&mut self) {
        while let Some(report) = self.outbox.pop_front() {
            match self.reports.try_send(report) {
                Ok(()) => {}
                Err(TrySendError::Full(report)) => {
                    self.outbox.push_front(report);
                    return;
                }
                Err(TrySendError::Closed(_)) => {
                    self.outbox.clear();
                    return;
                }
            }
        }
    }

    pub(super) fn wrote(&mut self, written: std::io::Result<usize>) {
        let Ok(count @ 1..) = written else {
            self.refuse_unread();
            self.input = None;
            self.refuse_writes("the agent no longer reads its input");
            return;
        };
        self.written += count;
        self.unwritten -= count;
        self.position += count as u64;
        if let Some(write) = self.writes.pop_front_if(|write| write.outbound.bytes().len() <= self.written) {
            self.written = 0;
            self.outbox.extend(write.instruction_id.map(Report::Delivered));
            if let (Some(instruction_id), Settles::Now) = (write.instruction_id, write.settles) {
                self.unread.push_back(Unread { instruction_id, upto: self.position, since: Instant::now() });
            }
        }
    }

    // --------------------------------------------------------------------------- unanswered messages

    /// A message that the agent does not answer is consumed once the agent has read it. Writing it is not enough: an
    /// agent that is just being killed still has its pipe, but no longer reads from it.
    pub(super) fn settle_read(&mut self) {
        // After its input is closed, nothing can be seen any more: its end makes uncertain what it had not read by
        // then.
        let Some(input) = self.input.as_ref().filter(|_| !self.unread.is_empty()) else { return };
        let read = input.unread().map(|unread| self.position.saturating_sub(unread));
        let now = Instant::now();
        let is_read = |first: &mut Unread| match read {
            Some(read) => first.upto <= read,
            None => now.duration_since(first.since) >= TAKEN_WITHIN,
        };
        while let Some(Unread { instruction_id, .. }) = self.unread.pop_front_if(is_read) {
            self.outbox.push_back(Report::Consumed { instruction_id, result: None });
        }
    }

    /// When to look again, with growing pauses.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.input.as_ref()?;
        let waited = self.unread.front()?.since.elapsed();
        Some(Instant::now() + waited.clamp(LOOK, LOOK_AT_LEAST))
    }

    /// The agent has ended, and its link may still show what the agent has not read.
    pub(super) fn refuse_unread(&mut self) {
        if self.input.as_ref().and_then(|input| input.unread()).is_some() {
            self.settle_read();
            for Unread { instruction_id, .. } in std::mem::take(&mut self.unread) {
                self.output.rejected(instruction_id, "the agent ended before it read the message");
            }
        }
    }

    // ------------------------------------------------------------------------------ the connection

    pub(super) fn connected(&mut self) {
        // No connection is needed after the agent's input is closed.
        if self.input.is_none() {
            return;
        }
        let was_there = std::mem::replace(&mut self.is_connected, true);
        if was_there {
            // The agent noticed the loss before Portolan did.
            self.tell_lost("the agent opened a new connection");
        }
        if was_there || self.link_by.take().is_some() {
            self.outbox.push_back(Report::LinkRestored);
            self.consult(|translator, out| translator.link_restored(out));
        }
    }

    pub(super) fn link_lost(&mut self) {
        if self.input.is_none() {
            return;
        }
        self.is_connected = false;
        self.link_by = Some(Instant::now() + self.link_within);
        self.tell_lost("the agent's connection closed");
    }

    fn tell_lost(&mut self, reason: &str) {
        tracing::warn!(reason, "connection to the agent lost");
        for Unread { instruction_id, .. } in std::mem::take(&mut self.unread) {
            self.outbox.push_back(Report::Uncertain { instruction_id, reason: reason.into() });
        }
        self.outbox.push_back(Report::LinkLost { reason: reason.into() });
        self.consult(|translator, out| translator.link_lost(out));
    }

    pub(super) fn refuse_writes(&mut self, why: &str) {
        (self.written, self.unwritten) = (0, 0);
        for instruction_id in
            std::mem::take(&mut self.writes).into_iter().filter_map(|write| write.instruction_id)
        {
            self.consult(|translator, out| translator.undelivered(instruction_id, why, out));
        }
    }

    /// Closes the agent's input, after a last look at what the agent has read.
    pub(super) fn close_input(&mut self) {
        self.settle_read();
        self.input = None;
    }

    pub(super) fn close_input_when_written(&mut self) {
        if self.close_when_written && self.writes.is_empty() && self.input.is_some() {
            self.close_input();
            if self.rung != Rung::Asked {
                return;
            }
            self.rung = Rung::InputClosed;
            self.next_rung = Some(Instant::now() + self.ladder.close);
        }
    }
}

/// Writes as much of the first write as the agent takes now. Cancel-safe: one write, or none.
pub(super) async fn write_some(
    input: &mut Option<Box<dyn Input>>,
    writes: &VecDeque<Write>,
    written: usize,
) -> std::io::Result<usize> {
    let take = |context: &mut Context<'_>| match (input.as_mut(), writes.front()) {
        (Some(input), Some(write)) => input.poll_take(context, &write.outbound, written),
        // The input is closed for good: the attempt returns that.
        _ => Poll::Ready(Ok(0)),
    };
    poll_fn(take).await
}
