//! Auto-edit: who switches it, who is told, and what it answers.
//!
//! It acts for the device that switched it on: the daemon's log tells which, and it ends when that device is put out.

use std::sync::PoisonError;

use portolan_core::{Action, CommandId, DaemonEvent, Principal, RefusalCode, request::Answer};

use super::{Hub, principal};
use crate::handheld::{auto_edit::TOOLS, devices::Peer, wire::AutoEdit};

impl Hub {
    /// Approves edits by themselves because a device wants it, or asks again; every slot is sent again.
    pub async fn set_auto_edit(&self, who: &Principal, peer: Peer, wanted: AutoEdit) {
        // Closed by nobody.
        let _alone = self.0.switching.acquire().await;
        // Who is put out after this look is found by the one who minds it, whose turn is after ours.
        let wanted = (wanted == AutoEdit::On && self.devices().admits(peer)).then_some(peer);
        if self.board().auto_edit_by() != wanted {
            self.switch(who, wanted).await;
        }
        self.0.rounds.send_modify(|count| *count += 1);
        self.bump();
        self.answer_edits();
    }

    /// Ends auto-edit when the device that wanted it is put out.
    pub(super) async fn mind_revocations(&self) {
        let mut decisions = self.devices().decisions();
        loop {
            decisions.mark_unchanged();
            {
                let _alone = self.0.switching.acquire().await;
                let by = self.board().auto_edit_by();
                if by.is_some_and(|peer| !self.devices().admits(peer)) {
                    self.switch(&Self::own(), None).await;
                    self.bump();
                }
            }
            // The sender lives in `self`.
            let _ = decisions.changed().await;
        }
    }

    /// It is in the log before it is on, and off before it is in the log.
    async fn switch(&self, who: &Principal, by: Option<Peer>) {
        let on = by.is_some();
        if !on {
            self.board().set_auto_edit(None);
        }
        let tools = TOOLS.map(str::to_owned).into();
        let event = DaemonEvent::AutoApproval { frontend: "handheld".into(), on, tools };
        if let Err(refusal) = self.registry().note(Some(who), event).await {
            tracing::warn!(by = who.name, on, %refusal, "auto-edit is not in the log, and so not on");
            return;
        }
        tracing::info!(by = who.name, on, "auto-edit was set");
        if on {
            self.board().set_auto_edit(by);
        }
    }

    /// Answers what auto-edit answers.
    pub(super) fn answer_edits(&self) {
        let waiting = self.board().automatic();
        for (slot, session, request) in waiting {
            let key = (session, request.request);
            let new = self.0.automatic.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
            if !new {
                continue;
            }
            let hub = self.clone();
            self.spawn_task(async move {
                let action = Action::Answer {
                    request: request.request,
                    digest: Some(request.digest.clone()),
                    answer: Answer::allow(),
                };
                let who = principal("handheld-auto-edit", "auto-edit");
                let given = hub.0.registry.submit(&who, session, CommandId::random(), action).await;
                match given {
                    Ok(_) => tracing::info!(%session, asked = request.ask.title(), "auto-edit approved"),
                    Err(refusal) if refusal.code == RefusalCode::AlreadyClosed => {}
                    Err(refusal) => {
                        tracing::warn!(%session, %refusal, "auto-edit could not approve; it is asked instead");
                        if let Some(bound) = hub.board().bound_mut(slot, session) {
                            bound.view.leave_to_people(request.request);
                        }
                        hub.bump();
                    }
                }
                hub.0.automatic.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            });
        }
    }
}
