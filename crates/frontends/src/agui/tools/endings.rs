//! Endings: forgets pages whose sessions have ended, and the calls that no page will answer. One task reads the daemon's
//! log for all sessions, so the task does not appear in the presence of a session.

use portolan_core::{
    DaemonEvent, SessionId,
    log::delivery::{Delivery, Start},
    registry::DaemonReader,
    session::state::Status,
};
use tokio_util::sync::CancellationToken;

use super::{FrontendTools, desk::NoResult, own};

pub(super) async fn watch(tools: FrontendTools, stopping: CancellationToken) {
    let mut reader = match tools.0.registry.watch(&own(), Start::Tail(0)).await {
        Ok(reader) => reader,
        Err(refusal) => {
            tracing::error!(%refusal, "the tools of pages stay after their sessions have ended");
            return;
        }
    };
    // Both arms are cancel-safe.
    while let Some(changed) = tokio::select! {
        changed = next(&mut reader) => changed,
        () = stopping.cancelled() => None,
    } {
        for session in changed {
            if tools.page(session).is_some() {
                tools.look_after(session).await;
            }
        }
    }
}

/// The sessions that rest or ended next; `None` if there are no more.
async fn next(reader: &mut DaemonReader) -> Option<Vec<SessionId>> {
    match reader.next().await {
        Delivery::Entries(pieces) => {
            Some(pieces.iter().filter_map(|piece| resting(&piece.entry().ok()?.event)).collect())
        }
        Delivery::Snapshot(_) | Delivery::Presence(_) => Some(Vec::new()),
        Delivery::Closed(_) => None,
    }
}

fn resting(event: &DaemonEvent) -> Option<SessionId> {
    match event {
        DaemonEvent::SessionChanged { summary } if summary.status == Status::Idle || !summary.is_live() => {
            Some(summary.session)
        }
        DaemonEvent::SessionDeleted { session } => Some(*session),
        _ => None,
    }
}

impl FrontendTools {
    /// No call waits for the page between turns, and a session without an agent needs no offer. The event may be old:
    /// the current state counts.
    async fn look_after(&self, session: SessionId) {
        match self.0.registry.snapshot(&own(), session).await {
            Ok(snapshot) if snapshot.state.summary.status == Status::Idle => {
                if let Some(page) = self.page(session) {
                    page.counter.desk.give_up(NoResult::TurnEnded);
                }
            }
            Ok(snapshot) if snapshot.state.summary.is_live() => {}
            Ok(_) | Err(_) => self.forget(session),
        }
    }

    /// Forgets the page of a session without an agent; returns whether there is none.
    pub(super) async fn forget_if_ended(&self, session: SessionId) -> bool {
        let state = self.0.registry.snapshot(&own(), session).await;
        let has_ended = !state.is_ok_and(|snapshot| snapshot.state.summary.is_live());
        if has_ended {
            self.forget(session);
        }
        has_ended
    }
}
