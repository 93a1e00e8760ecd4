//! Permissions of page tools: allows the tools that a page has offered, and forgets pages whose sessions have ended. One
//! task reads the daemon's log for all sessions, so the task does not appear in the presence of a session.

use portolan_core::{
    Action, CommandId, DaemonEvent, SessionId,
    log::delivery::{Delivery, Start},
    registry::DaemonReader,
    request::{Answer, Request},
    session::state::Status,
};
use tokio_util::sync::CancellationToken;

use super::{FrontendTools, desk::NoResult, own};

pub(super) async fn watch(tools: FrontendTools, stopping: CancellationToken) {
    let mut reader = match tools.0.registry.watch(&own(), Start::Tail(0)).await {
        Ok(reader) => reader,
        Err(refusal) => {
            tracing::error!(%refusal, "permission prompts for tools of pages are not answered");
            return;
        }
    };
    // Both arms are cancel-safe.
    while let Some(seen) = tokio::select! {
        seen = next(&mut reader) => seen,
        () = stopping.cancelled() => None,
    } {
        for event in seen {
            tools.hear(event).await;
        }
    }
}

/// The next relevant event; `None` if there are no more.
async fn next(reader: &mut DaemonReader) -> Option<Vec<Heard>> {
    match reader.next().await {
        Delivery::Entries(pieces) => {
            Some(pieces.iter().filter_map(|piece| Heard::of(&piece.entry().ok()?.event)).collect())
        }
        // At the beginning, or after very many entries at once: only the open requests matter.
        Delivery::Snapshot(snapshot) => {
            let waiting = snapshot.state.requests.iter();
            Some(
                waiting
                    .map(|waiting| Heard::Asked(waiting.session, Box::new(waiting.request.clone())))
                    .collect(),
            )
        }
        Delivery::Presence(_) => Some(Vec::new()),
        Delivery::Closed(_) => None,
    }
}

enum Heard {
    Asked(SessionId, Box<Request>),
    Changed(SessionId),
}

impl Heard {
    fn of(event: &DaemonEvent) -> Option<Self> {
        match event {
            DaemonEvent::RequestOpened { session, request } => Some(Self::Asked(*session, request.clone())),
            DaemonEvent::SessionChanged { summary }
                if summary.status == Status::Idle || !summary.is_live() =>
            {
                Some(Self::Changed(summary.session))
            }
            DaemonEvent::SessionDeleted { session } => Some(Self::Changed(*session)),
            _ => None,
        }
    }
}

impl FrontendTools {
    async fn hear(&self, heard: Heard) {
        match heard {
            Heard::Asked(session, request) => self.allow(session, *request).await,
            Heard::Changed(session) if self.page(session).is_some() => self.look_after(session).await,
            Heard::Changed(_) => {}
        }
    }

    /// Only the page refuses a tool that it has offered.
    async fn allow(&self, session: SessionId, request: Request) {
        if !self.allows(session, &request) {
            return;
        }
        let answer = Action::Answer {
            request: request.request,
            digest: Some(request.digest),
            answer: Answer::allow(),
        };
        if let Err(refusal) = self.0.registry.submit(&own(), session, CommandId::random(), answer).await {
            tracing::debug!(%session, %refusal, "a tool of a page was not allowed");
        }
    }

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
}
