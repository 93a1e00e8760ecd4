//! Auto-edit: its switch, its notifications, and what it lends to sessions.
//!
//! While auto-edit is on, the mode `default` of each session in a slot counts as `acceptEdits`. So core decides about new
//! edits before anybody is asked, and a deny or ask rule beats auto-edit. Requests that were open before auto-edit was
//! switched on are answered here, if core would now allow them.
//!
//! Auto-edit acts for the device that switched it on: the daemon's log names the device, and auto-edit ends when the
//! device is revoked.

use std::sync::PoisonError;

use portolan_core::{
    Action, CommandId, DaemonEvent, Principal, RefusalCode, RequestId, SessionId, policy::Decision,
    registry::AcceptsEdits, request::Answer,
};

use super::{SessionSlots, principal};
use crate::{
    handheld::{board::Automatic, devices::Peer, wire::AutoEdit},
    way_out,
};

impl SessionSlots {
    /// Switches auto-edit on for a device, or off; every slot is sent again.
    pub async fn set_auto_edit(&self, who: &Principal, peer: Peer, wanted: AutoEdit) {
        // Nobody closes this lock.
        let _alone = self.0.switching.acquire().await;
        // The watcher, which runs after this, handles a device that is revoked after this check.
        let wanted = (wanted == AutoEdit::On && self.devices().admits(peer)).then_some(peer);
        let before = self.board().auto_edit();
        if self.board().auto_edit_by() != wanted {
            self.switch(who, wanted).await;
        }
        // Every status contains the value, so each slot is sent once when the value changes.
        if self.board().auto_edit() == before {
            self.0.rounds.send_modify(|count| *count += 1);
        }
        self.bump();
        self.answer_edits();
    }

    /// Ends auto-edit when its device is revoked.
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

    /// Switching on is logged before it takes effect, switching off after it.
    async fn switch(&self, who: &Principal, by: Option<Peer>) {
        let on = by.is_some();
        if !on {
            self.board().set_auto_edit(None);
            self.lend_edits();
        }
        let tools = vec!["@edit".to_owned()];
        let event = DaemonEvent::AutoApproval { frontend: "handheld".into(), on, tools };
        if let Err(refusal) = self.registry().note(Some(who), event).await {
            tracing::warn!(by = who.name, on, %refusal, "auto-edit is not in the log, and so not on");
            return;
        }
        tracing::info!(by = who.name, on, "auto-edit was set");
        if on {
            self.board().set_auto_edit(by);
            self.lend_edits();
        }
    }

    /// Brings what is lent up to date with the slots and the switch.
    pub(super) fn lend_edits(&self) {
        let mut lent = self.0.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<SessionId> = {
            let board = self.board();
            let is_on = board.auto_edit() == AutoEdit::On;
            board.sessions().iter().filter(|_| is_on).map(|bound| bound.session).collect()
        };
        let lend = |session: &SessionId, accepts| {
            self.0.registry.lend_edits(&auto_edit(), *session, accepts);
        };
        for session in lent.iter().filter(|session| !wanted.contains(session)) {
            lend(session, AcceptsEdits::No);
        }
        for session in wanted.iter().filter(|session| !lent.contains(session)) {
            lend(session, AcceptsEdits::Yes);
        }
        *lent = wanted;
    }

    /// Answers the open requests that auto-edit may answer, and leaves the rest to people.
    pub(super) fn answer_edits(&self) {
        let waiting = self.board().automatic();
        for waits in waiting {
            let key = (waits.session, waits.request.request);
            let new = self.0.automatic.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
            if !new {
                continue;
            }
            let session_slots = self.clone();
            self.spawn_task(async move {
                session_slots.answer_edit(waits).await;
                session_slots.0.automatic.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            });
        }
    }

    async fn answer_edit(&self, Automatic { slot, session, request }: Automatic) {
        let why = match self.would_allow(session, request.request).await {
            Err(why) => why,
            // Auto-edit was switched off meanwhile: then people are asked.
            Ok(()) if self.board().auto_edit() == AutoEdit::Off => return,
            Ok(()) => {
                let (digest, answer) = (Some(request.digest.clone()), Answer::allow());
                let action = Action::Answer { request: request.request, digest, answer, persist: None };
                match self.0.registry.submit(&auto_edit(), session, CommandId::random(), action).await {
                    Ok(_) => {
                        return tracing::info!(%session, asked = request.ask.title(), "auto-edit approved");
                    }
                    Err(refusal) if refusal.code == RefusalCode::AlreadyClosed => return,
                    Err(refusal) => way_out::told(&refusal),
                }
            }
        };
        tracing::info!(%session, asked = request.ask.title(), why, "auto-edit left it to people");
        if let Some(bound) = self.board().bound_mut(slot, session) {
            bound.view.leave_to_people(request.request, why);
        }
        self.bump();
    }

    /// Would core allow this request now?
    async fn would_allow(&self, session: SessionId, request: RequestId) -> Result<(), String> {
        match self.0.registry.try_request(&auto_edit(), session, request).await {
            Ok(Some(judgement)) if judgement.decision == Decision::Allow => Ok(()),
            Ok(Some(judgement)) => Err(judgement.why),
            Ok(None) => Err("it is not an edit".into()),
            Err(refusal) => Err(way_out::told(&refusal)),
        }
    }
}

/// Who answers what was open before, and lends the mode.
fn auto_edit() -> Principal {
    principal("handheld-auto-edit", "auto-edit")
}
