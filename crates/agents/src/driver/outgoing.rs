//! What goes out: reports to the session, lines to the agent, and the connection over which they go.
//!
//! A line that cannot be written any more is refused, so that nobody has to wonder whether it was.

use std::collections::VecDeque;

use bytes::Bytes;
use portolan_core::ports::Report;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};

use super::{Settles, Write, ending::Rung, link::Input, run::Driver};

impl Driver {
    /// Sends reports for as long as there is room.
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
            self.input = None;
            self.refuse_writes("the agent does not read its input any more");
            return;
        };
        self.written += count;
        self.unwritten -= count;
        if let Some(write) = self.writes.pop_front_if(|write| write.bytes.len() <= self.written) {
            self.written = 0;
            self.outbox.extend(write.ticket.map(Report::Delivered));
            if let (Some(ticket), Settles::Now) = (write.ticket, write.settles) {
                self.outbox.push_back(Report::Consumed { ticket, result: None });
            }
        }
    }

    pub(super) fn can_write(&self) -> bool {
        // Where the input is closed for good, the attempt says so.
        !self.writes.is_empty() && self.input.as_ref().is_none_or(Input::is_open)
    }

    // ------------------------------------------------------------------------------ the connection

    pub(super) fn connected(&mut self, outgoing: mpsc::Sender<Bytes>) {
        let Some(Input::Socket(connection)) = &mut self.input else { return };
        let was_there = connection.replace(outgoing).is_some();
        if was_there {
            // It knew of the loss before we did.
            self.tell_lost("it connected anew");
        }
        if was_there || self.link_by.take().is_some() {
            self.outbox.push_back(Report::LinkRestored);
            self.consult(|translator, out| translator.link_restored(out));
        }
    }

    pub(super) fn link_lost(&mut self) {
        let Some(Input::Socket(connection)) = &mut self.input else { return };
        *connection = None;
        self.link_by = Some(Instant::now() + self.link_within);
        self.tell_lost("its connection was lost");
    }

    fn tell_lost(&mut self, reason: &str) {
        tracing::warn!(reason, "connection to the agent lost");
        self.outbox.push_back(Report::LinkLost { reason: reason.into() });
        self.consult(|translator, out| translator.link_lost(out));
    }

    pub(super) fn refuse_writes(&mut self, why: &str) {
        (self.written, self.unwritten) = (0, 0);
        for ticket in std::mem::take(&mut self.writes).into_iter().filter_map(|write| write.ticket) {
            self.consult(|translator, out| translator.undelivered(ticket, why, out));
        }
    }

    pub(super) fn close_input_when_written(&mut self) {
        if self.close_when_written
            && self.writes.is_empty()
            && self.input.take().is_some()
            && self.rung == Rung::Asked
        {
            self.rung = Rung::InputClosed;
            self.next_rung = Some(Instant::now() + self.ladder.close);
        }
    }
}

/// Writes as much of the first write as the agent takes now. Cancel-safe: one write, or none.
pub(super) async fn write_some(
    input: &mut Option<Input>,
    writes: &VecDeque<Write>,
    written: usize,
) -> std::io::Result<usize> {
    match (input, writes.front()) {
        (Some(input), Some(write)) => input.write(write.bytes.get(written..).unwrap_or_default()).await,
        _ => Ok(0),
    }
}
