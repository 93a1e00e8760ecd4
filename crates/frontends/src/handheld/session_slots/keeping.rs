//! The slots survive a restart: one writer copies the board to the store, and the next daemon resumes the sessions that
//! ran.

use portolan_core::{
    Action, CommandId, Generation, LogId, SessionId,
    ports::{Op, Write},
};
use tokio::sync::oneshot;

use super::SessionSlots;
use crate::{
    handheld::{
        board::{How, Kept},
        wire::SLOTS,
    },
    way_out,
};

/// The records of slots, by number.
const RECORDS: &str = "handheld_slots";

impl SessionSlots {
    /// Copies the board to the store until the slots stop; all changes until then are written.
    pub(super) async fn keep(&self) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let stopping = self.0.stop.is_cancelled();
            let kept = self.board().kept();
            if *self.0.saved.borrow() != kept {
                self.write_down(kept).await;
            }
            if stopping {
                return;
            }
            // Both arms are cancel-safe.
            tokio::select! {
                _ = changes.changed() => {}
                () = self.0.stop.cancelled() => {}
            }
        }
    }

    async fn write_down(&self, kept: [Option<Kept>; SLOTS]) {
        let before = self.0.saved.borrow().clone();
        let mut ops = Vec::new();
        for (slot, (now, before)) in kept.iter().zip(&before).enumerate() {
            if now == before {
                continue;
            }
            let key = slot.to_string();
            match now.as_ref().map(serde_json::to_vec) {
                Some(Ok(value)) => ops.push(Op::Put { collection: RECORDS, key, value: value.into() }),
                Some(Err(error)) => tracing::error!(%error, "a slot cannot be saved"),
                None => ops.push(Op::Remove { collection: RECORDS, key }),
            }
        }
        let (done, committed) = oneshot::channel();
        let done: Box<dyn FnOnce() + Send> = Box::new(move || {
            // The caller may be gone; the change is still written.
            let _ = done.send(());
        });
        let write = Write { log: LogId::Daemon, ops, done: Some(done) };
        let written = self.registry().store().write(write).await.is_ok() && committed.await.is_ok();
        if written {
            self.0.saved.send_replace(kept);
        } else {
            tracing::warn!("what is in the handheld's slots could not be saved");
        }
    }

    /// Restores the slots of the last daemon, and resumes the sessions that ran.
    pub(super) async fn restore(&self) {
        let records = match self.registry().store().records(RECORDS).await {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(%error, "what was in the handheld's slots cannot be read");
                return;
            }
        };
        let mut saved: [Option<Kept>; SLOTS] = Default::default();
        for (key, value) in records {
            let slot = key.parse().ok().filter(|slot: &usize| *slot < SLOTS);
            let (Some(slot), Ok(kept)) = (slot, serde_json::from_slice::<Kept>(&value)) else {
                tracing::warn!(slot = key, "what was in a slot cannot be read");
                continue;
            };
            saved[slot] = Some(kept);
        }
        self.0.saved.send_replace(saved.clone());
        for (slot, kept) in saved.into_iter().enumerate() {
            // Sessions that came automatically come again automatically, if they are active.
            if let Some(kept) = kept.filter(|kept| kept.how != How::Filled) {
                self.bring_back(slot, kept).await;
            }
        }
    }

    async fn bring_back(&self, slot: usize, kept: Kept) {
        let own = Self::own();
        let session = kept.session;
        let state = match self.registry().snapshot(&own, session).await {
            Ok(snapshot) => snapshot.state,
            Err(refusal) => {
                tracing::info!(slot, %session, %refusal, "what was in a slot is gone");
                return;
            }
        };
        self.bind(slot, &state.summary, kept.how);
        if kept.live && !state.summary.archived {
            self.resume(slot, session, state.generation).await;
        }
    }

    async fn resume(&self, slot: usize, session: SessionId, before: Generation) {
        if let Some(bound) = self.board().bound_mut(slot, session) {
            bound.resumed = Some(before);
        }
        let resumed =
            self.registry().submit(&Self::own(), session, CommandId::random(), Action::Resume).await;
        if let Err(refusal) = resumed {
            tracing::warn!(slot, %session, %refusal, "what ran in a slot cannot be resumed");
            if let Some(bound) = self.board().bound_mut(slot, session) {
                bound.resumed = None;
                bound.view.note(way_out::told(&refusal));
            }
            self.bump();
        }
    }
}
