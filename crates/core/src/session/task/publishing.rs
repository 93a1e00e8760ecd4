//! Publishing: what goes to the store with the appended entries, who is informed, and which instructions the agent then
//! gets.

use tokio::{sync::mpsc, time::Instant};

use super::{CHECKPOINT_EVERY, RELEASE_AFTER, SUMMARY_EVERY, Task, Working};
use crate::{
    DaemonEvent, LogId, Millis, RequestId, SessionId,
    log::Book,
    ports::{Op, StoreError},
    session::{
        chunks::CHUNK_DELAY,
        state::{State, Summary},
    },
};

impl Task {
    /// Publishes the appended entries, informs the daemon's log, and does the work that the machine wants.
    pub(super) async fn publish(&mut self, working: &mut Working) -> Result<(), StoreError> {
        // This work appends entries of its own, so they are published last.
        for want in self.machine.take_wants(self.log.visible()) {
            self.carry_out(working, want);
        }
        let notes = self.close_batch(working);
        self.log.publish().await?;
        // The agent first: it waits for its instructions, the daemon's log does not.
        self.instruct(working);
        for note in notes {
            self.daemon.note(None, note).await;
        }
        Ok(())
    }

    /// Adds what belongs to the entries just appended. Returns the notes for the daemon's log.
    pub(super) fn close_batch(&mut self, working: &mut Working) -> Vec<DaemonEvent> {
        let mut book = self.log.book();
        let head = book.head();
        if working.chunks.after_append(&mut book) {
            working.chunks_due.get_or_insert_with(|| Instant::now() + CHUNK_DELAY);
        }
        self.machine.note_memory(&mut book);
        mark_reports(self.id, working, &mut book);
        if book.has_news() {
            working.appended = Instant::now();
            working.release_due.get_or_insert(working.appended + RELEASE_AFTER);
        }
        let mut notes = Vec::new();
        if !book.has_durable_news() {
            // Streamed entries change neither the line in lists nor the requests.
            return notes;
        }
        self.keep_used(working, &mut book);
        let summary = &book.state().summary;
        let same = Summary { active_at: working.published.active_at, ..summary.clone() } == working.published;
        let old = summary.active_at.0 - working.published.active_at.0 > SUMMARY_EVERY;
        if !same || old {
            working.published = summary.clone();
            if !same {
                notes.push(DaemonEvent::SessionChanged { summary: Box::new(summary.clone()) });
            }
            book.also(Op::Summary(Box::new(working.published.clone())));
        }
        let open = waiting(book.state());
        if open != working.requests {
            request_notes(self.id, book.state(), &working.requests, &mut notes);
            working.requests = open;
        }
        // Only with a durable entry: streamed entries change nothing that opening would have to read, and a checkpoint
        // holds the whole text of open items.
        if book.has_durable_news() && head.0 >= working.checkpoint.0 + CHECKPOINT_EVERY {
            working.checkpoint = head;
            book.checkpoint();
        }
        notes
    }

    pub(super) fn instruct(&mut self, working: &mut Working) {
        let visible = self.log.visible();
        let Some(link) = &working.link else { return };
        while !working.blocked
            && let Some(instruction) = self.machine.next_instruction(visible)
        {
            match link.instructions.try_send(instruction) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(instruction)) => {
                    working.blocked = true;
                    self.machine.put_back(instruction);
                }
                // The exit report that follows settles the instruction.
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        }
    }
}

/// The open requests, and when each is denied.
pub(super) fn waiting(state: &State) -> Vec<(RequestId, Option<Millis>)> {
    state.requests.iter().map(|open| (open.request, open.deadline)).collect()
}

/// What the daemon's log says about the requests of a session that were `known` before.
fn request_notes(
    session: SessionId,
    state: &State,
    known: &[(RequestId, Option<Millis>)],
    notes: &mut Vec<DaemonEvent>,
) {
    for open in &state.requests {
        let (request, deadline) = (open.request, open.deadline);
        match known.iter().find(|(known, _)| *known == request) {
            None => {
                notes.push(DaemonEvent::RequestOpened { session, request: Box::new(open.brief()) });
            }
            Some((_, before)) if *before != deadline => {
                notes.push(DaemonEvent::RequestDeadline { session, request, deadline });
            }
            Some(_) => {}
        }
    }
    let gone = known.iter().filter(|(known, _)| !state.requests.iter().any(|open| open.request == *known));
    for (request, _) in gone {
        let closed = state.closed_requests.iter().rev().find(|closed| closed.request == *request);
        notes.extend(closed.map(|closed| {
            let outcome = closed.outcome.clone();
            DaemonEvent::RequestClosed { session, request: *request, outcome }
        }));
    }
}

/// Every commit that includes reports says how many reports it holds, with the open part of each. If nothing else is to
/// be written, the mark is written when chunks are due.
fn mark_reports(session: SessionId, working: &mut Working, book: &mut Book<State>) {
    let is_due = std::mem::take(&mut working.mark_now);
    let Some(marks) = working.marks.as_mut().filter(|marks| marks.is_behind()) else { return };
    if !book.has_changes() && !is_due {
        working.chunks_due.get_or_insert_with(|| Instant::now() + CHUNK_DELAY);
        return;
    }
    working.chunks.flush(LogId::Session(session), book);
    let (mark, recorded) = marks.mark(book.state().generation);
    book.also(mark.record(session));
    book.when_committed(recorded);
    if working.link.is_none() {
        working.marks = None;
    }
}
