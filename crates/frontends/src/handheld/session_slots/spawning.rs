//! Starts agents in slots: for devices, at the start, and once more if an old conversation could not be resumed.

use portolan_core::{Action, CommandId, Principal, Refusal, SessionId, SessionSpec, session::state::Summary};

use super::{SessionSlots, deadline};
use crate::{
    handheld::{
        board::{Board, How, SPAWN_WAIT},
        wire::{SLOTS, SpawnResult},
    },
    way_out,
};

/// The message for the app if no slot is free.
const NO_FREE_SLOTS: &str = "No free slots";

/// The message if a slot is taken or an agent does not start. The slot itself shows the reason.
const SPAWN_FAILED: &str = "Spawn failed";

/// The message for a slot that does not exist.
const INVALID_SLOT: &str = "Invalid slot";

impl SessionSlots {
    /// Starts an agent in this slot, or in the first free one. Every device gets the result.
    pub async fn spawn(&self, who: &Principal, wanted: Option<i64>) {
        let result = match wanted.map(|slot| usize::try_from(slot).ok().filter(|slot| *slot < SLOTS)) {
            Some(None) => SpawnResult::failed(None, INVALID_SLOT),
            Some(Some(slot)) => self.spawn_in(who, Some(slot)).await,
            None => self.spawn_in(who, None).await,
        };
        // An error means that no device is connected.
        let _ = self.0.spawned.send(result);
    }

    async fn spawn_in(&self, who: &Principal, wanted: Option<usize>) -> SpawnResult {
        let reserved = self.board().reserve(wanted);
        let Some(slot) = reserved else {
            return match wanted {
                None => SpawnResult::failed(None, NO_FREE_SLOTS),
                Some(_) => SpawnResult::failed(wanted, SPAWN_FAILED),
            };
        };
        let _reservation = Reservation { session_slots: self.clone(), slot };
        let spec = SessionSpec {
            agent: self.0.slots.agent.clone(),
            cwd: self.0.slots.folder.clone(),
            ..SessionSpec::default()
        };
        let made = self.registry().create(who, CommandId::random(), spec).await;
        match self.start_in(slot, made).await {
            Ok(()) => SpawnResult::started(slot),
            Err(why) => {
                tracing::warn!(slot, why, "a spawn failed");
                SpawnResult::failed(Some(slot), SPAWN_FAILED)
            }
        }
    }

    /// Puts a new session into a slot and waits until its agent accepts prompts.
    async fn start_in(&self, slot: usize, made: Result<Summary, Refusal>) -> Result<(), String> {
        let summary = made.map_err(|refusal| way_out::told(&refusal))?;
        let session = summary.session;
        self.bind(slot, &summary, How::Spawned);
        let settled = self.until(|board: &Board| {
            let Some(bound) = board.bound(slot).filter(|bound| bound.session == session) else {
                return Some(Err("another session took its slot".to_owned()));
            };
            if !bound.known || bound.view.is_starting() {
                return None;
            }
            if bound.view.is_gone() {
                let error = bound.view.state().summary.error.clone();
                return Some(Err(error.unwrap_or_else(|| "its agent ended at once".into())));
            }
            Some(Ok(()))
        });
        match tokio::time::timeout_at(deadline(SPAWN_WAIT), settled).await {
            Ok(settled) => settled,
            Err(_) => Err("its agent was not ready in time".into()),
        }
    }

    /// Spawns slot 0 at the start, if nothing runs in it.
    pub(super) async fn autospawn(&self) {
        let settled = |board: &Board| board.bound(0).is_none_or(|bound| bound.known).then_some(());
        self.until(settled).await;
        if self.board().is_free(0) {
            let who = Self::own();
            self.spawn(&who, Some(0)).await;
        }
    }

    /// An agent that resumed its old conversation failed at once: starts it without the conversation, in the same slot.
    pub(super) async fn start_anew(&self, slot: usize, session: SessionId) {
        let own = Self::own();
        // The old agent is not needed any more; it may have ended already.
        let _ = self.registry().submit(&own, session, CommandId::random(), Action::Stop).await;
        if self.board().slot_of(session) != Some(slot) {
            return;
        }
        tracing::warn!(slot, %session, "the conversation could not be resumed; the slot begins a new one");
        self.until(|board| {
            let moved = board.bound(slot).is_none_or(|bound| bound.session != session);
            (moved || board.is_free(slot)).then_some(())
        })
        .await;
        let Some(slot) = self.board().reserve(Some(slot)) else { return };
        let _reservation = Reservation { session_slots: self.clone(), slot };
        let made = self.registry().create_like(&own, CommandId::random(), session).await;
        if let Err(why) = self.start_in(slot, made).await {
            tracing::warn!(slot, why, "the new conversation did not begin either");
        }
    }
}

/// A slot that is reserved for a spawn until this value is dropped.
struct Reservation {
    session_slots: SessionSlots,
    slot: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.session_slots.board().release(self.slot);
        self.session_slots.bump();
    }
}
