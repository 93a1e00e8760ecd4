//! Auto-edit: its switch, its notifications, and its answers.
//!
//! Auto-edit acts for the device that switched it on: the daemon's log names the device, and auto-edit ends when the
//! device is revoked.

use std::{path::PathBuf, sync::PoisonError, time::Duration};

use portolan_core::{
    Action, CommandId, DaemonEvent, Millis, Principal, RefusalCode,
    policy::{Call, Decision, Judgement, Mode, Reading, Situation, decide, resolve},
    request::{Answer, Ask},
};

use super::{SessionSlots, deadline, principal};
use crate::{
    handheld::{board::Automatic, devices::Peer, wire::AutoEdit},
    way_out,
};

/// How long a check of the disk may take. A slower check means a network disk that hangs; then a person is asked.
const LOOK: Duration = Duration::from_secs(1);

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
        }
    }

    /// Answers the requests that auto-edit may answer, and leaves the rest to people.
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

    async fn answer_edit(&self, Automatic { slot, session, folder, request }: Automatic) {
        let why = match judge(&request.ask, folder, self.0.slots.own.clone()).await {
            Err(why) => why,
            // Auto-edit was switched off meanwhile: then people are asked.
            Ok(()) if self.board().auto_edit() == AutoEdit::Off => return,
            Ok(()) => {
                let (digest, answer) = (Some(request.digest.clone()), Answer::allow());
                let action = Action::Answer { request: request.request, digest, answer };
                let who = principal("handheld-auto-edit", "auto-edit");
                match self.0.registry.submit(&who, session, CommandId::random(), action).await {
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
}

/// May auto-edit approve this? It decides as the mode `acceptEdits` does without any rule, by where the files are now.
async fn judge(ask: &Ask, folder: PathBuf, own: Vec<PathBuf>) -> Result<(), String> {
    let ask = ask.clone();
    let look = tokio::task::spawn_blocking(move || {
        let reading = Reading::of(Call::of(&ask)?);
        let facts = resolve::facts(&folder, None, &own, &reading.paths());
        let situation =
            Situation { session: None, mode: Mode::AcceptEdits, rules: &[], facts: &facts, now: Millis(0) };
        Some(decide(&reading, situation))
    });
    match tokio::time::timeout_at(deadline(LOOK), look).await {
        Ok(Ok(Some(Judgement { decision: Decision::Allow, .. }))) => Ok(()),
        Ok(Ok(Some(judgement))) => Err(judgement.why),
        Ok(Ok(None)) => Err("it is not an edit".into()),
        Ok(Err(_)) | Err(_) => Err("the disk does not answer".into()),
    }
}
