//! Handles the daemon's frames for a joined session: entries, snapshots, presence, receipts.

use std::time::Instant;

use futures_util::FutureExt as _;
use portolan_client::{Lost, frames::Inbound};
use portolan_core::{
    Event,
    log::{
        Folded as _,
        delivery::{Closed, Presence},
    },
};

use super::joined::{Joined, Stay};
use crate::terminal::{clean, status, style::Style};

/// How many frames are read before the screen is drawn: a fast stream is drawn in steps that the eye can follow.
const BATCH: usize = 512;

impl Joined {
    /// Handles a frame and the frames that wait behind it.
    pub(super) fn take_in(&mut self, first: Result<Inbound, Lost>) -> Stay {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(inbound) = next {
            match inbound {
                Ok(inbound) => {
                    if let Stay::Leave = self.frame(inbound) {
                        return Stay::Leave;
                    }
                }
                Err(lost) => {
                    self.lost(lost.0);
                    return Stay::Yes;
                }
            }
            taken += 1;
            next = if taken < BATCH { self.attached.next().now_or_never() } else { None };
        }
        Stay::Yes
    }

    fn frame(&mut self, inbound: Inbound) -> Stay {
        match inbound {
            Inbound::Entry { entry, .. } => {
                if let Some(state) = &mut self.state {
                    if let Event::RequestClosed { request, .. } = &entry.event {
                        let known = state.requests.iter().find(|open| open.request == *request);
                        self.closed = known.map(|known| (known.clone(), Instant::now()));
                    }
                    state.apply(entry.seq, entry.at, entry.by.as_ref(), &entry.event);
                }
                let lines = self.transcript.entry(&entry);
                self.lines.extend(lines);
            }
            Inbound::Snapshot { seq, state, .. } => {
                let lines = self.transcript.snapshot(seq, &state);
                self.lines.extend(lines);
                self.state = Some(state);
            }
            Inbound::Presence { present, .. } => {
                self.announce(&present);
                self.present = present;
            }
            Inbound::Reply { id, .. } => {
                self.unanswered.shift_remove(&id);
            }
            Inbound::Error { id, refusal } => {
                if let Some(id) = id {
                    self.unanswered.shift_remove(&id);
                }
                self.remark(Style::Warning, format!("! {}", clean::line(&crate::way_out::told(&refusal))));
            }
            Inbound::Ended { reason: Closed::Deleted, .. } => {
                self.remark(Style::Warning, "the session was deleted".into());
                return Stay::Leave;
            }
            Inbound::Ended { .. } => {}
            Inbound::Closing { message, .. } => {
                self.remark(
                    Style::Dim,
                    format!("· the daemon closes the connection: {}", clean::line(&message)),
                );
            }
            Inbound::Welcome { .. } | Inbound::Other => {}
        }
        Stay::Yes
    }

    /// Shows who joined and who left.
    fn announce(&mut self, present: &[Presence]) {
        if self.present.is_empty() {
            return;
        }
        let is_same = |one: &Presence, other: &Presence| one.token == other.token && one.since == other.since;
        let came: Vec<Presence> =
            present.iter().filter(|new| !self.present.iter().any(|old| is_same(old, new))).cloned().collect();
        let left: Vec<Presence> =
            self.present.iter().filter(|old| !present.iter().any(|new| is_same(old, new))).cloned().collect();
        if !came.is_empty() {
            self.remark(Style::Dim, format!("· {} joined", status::names(&came)));
        }
        if !left.is_empty() {
            self.remark(Style::Dim, format!("· {} left", status::names(&left)));
        }
    }
}
