//! Puts active sessions into free slots automatically, the newest first.

use std::collections::BTreeMap;

use portolan_core::{
    DaemonEvent, SessionId,
    log::delivery::{Closed, Delivery, Start},
    registry::DaemonState,
    session::state::Summary,
};

use super::{READ_AGAIN, SessionSlots};
use crate::handheld::board::How;

/// Sessions by id; ids grow with time.
type Active = BTreeMap<SessionId, Summary>;

impl SessionSlots {
    pub(super) async fn fill(&self) {
        loop {
            match self.watch().await {
                Ok(Closed::Stopping) => return,
                Ok(_) => {}
                Err(refusal) => tracing::warn!(%refusal, "the list of sessions cannot be read"),
            }
            tokio::time::sleep(READ_AGAIN).await;
        }
    }

    async fn watch(&self) -> Result<Closed, portolan_core::Refusal> {
        let mut reader = self.registry().watch(&Self::own(), Start::Tail(0)).await?;
        let mut changes = self.changes();
        let mut active = Active::new();
        loop {
            // Both arms are cancel-safe.
            let delivery = tokio::select! {
                delivery = reader.next() => Some(delivery),
                _ = changes.changed() => None,
            };
            match delivery {
                Some(Delivery::Entries(pieces)) => {
                    for piece in &pieces {
                        if let Ok(entry) = piece.entry() {
                            note(&mut active, &entry.event);
                        }
                    }
                }
                Some(Delivery::Snapshot(snapshot)) => active = listed(&snapshot.state),
                Some(Delivery::Presence(_)) | None => {}
                Some(Delivery::Closed(why)) => return Ok(why),
            }
            if self.0.stop.is_cancelled() {
                return Ok(Closed::Stopping);
            }
            let newest: Vec<Summary> = active.values().rev().cloned().collect();
            let wanted = self.board().fill(&newest);
            for (slot, summary) in wanted {
                self.bind(slot, &summary, How::Filled);
            }
        }
    }
}

fn listed(state: &DaemonState) -> Active {
    let live = state.sessions.iter().filter(|summary| summary.is_live());
    live.map(|summary| (summary.session, summary.clone())).collect()
}

fn note(active: &mut Active, event: &DaemonEvent) {
    match event {
        DaemonEvent::SessionCreated { summary } | DaemonEvent::SessionChanged { summary } => {
            if summary.is_live() && !summary.archived {
                active.insert(summary.session, (**summary).clone());
            } else {
                active.remove(&summary.session);
            }
        }
        DaemonEvent::SessionDeleted { session } => {
            active.remove(session);
        }
        // Events of the door and of requests do not change the list of sessions.
        _ => {}
    }
}
