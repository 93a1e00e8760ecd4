//! While nothing can be recorded: what is refused, what waits, and what is done anyway.

use std::time::Duration;

use super::Registry;
use crate::{
    Action, Principal, Refusal, RefusalCode, Role, SessionId,
    command::{Command, Receipt},
    ports::StoreHealth,
    session::{stop_handle::Reached, task::Handle},
};

/// How long an accepted command waits for a store that cannot write before its sender gets a reply. A lock often lasts
/// only a moment.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

impl Registry {
    /// A command that ends something: it reaches the agent even if it cannot be recorded.
    pub(super) async fn submit_urgent(&self, handle: &Handle, command: Command) -> Result<Receipt, Refusal> {
        let action = command.action.clone();
        // A stop may come twice; an interrupt that is sent after the disk has room again would hit a later turn.
        let late_is_fine = action != Action::Interrupt;
        let failing = self.store_takes_writes().is_err();
        let recorded = async {
            if failing && !late_is_fine {
                std::future::pending().await
            } else {
                self.record(handle, command).await
            }
        };
        let (reason, waits) = tokio::select! {
            biased;
            receipt = recorded => match receipt {
                // The session's task itself waits for the disk, and its queue is full.
                Err(refusal) if refusal.code == RefusalCode::Busy && failing => (self.store_fails().await, false),
                receipt => return receipt,
            },
            reason = self.store_fails() => (reason, late_is_fine),
        };
        let (pulled, done) = if action == Action::Interrupt {
            (handle.agent.interrupt(), "the agent was asked to interrupt its turn")
        } else {
            (handle.agent.stop(), "the agent was asked to stop")
        };
        let refusal = unrecorded(pulled, done, &reason);
        if waits && let Action::Archive { .. } = action {
            let message =
                format!("the session is archived as soon as the change can be recorded; {}", refusal.message);
            return Err(Refusal { message, ..refusal });
        }
        Err(refusal)
    }

    /// Refuses if the store cannot write now.
    pub(super) fn store_takes_writes(&self) -> Result<(), Refusal> {
        match &*self.shared.store.health().borrow() {
            StoreHealth::Good => Ok(()),
            StoreHealth::Failing { reason } => {
                let message = format!("nothing can be recorded at the moment: {reason}");
                Err(Refusal {
                    retry_after_ms: Some(2000),
                    ..Refusal::new(RefusalCode::StoreFailing, message)
                })
            }
        }
    }

    /// Waits until the store has been unable to write for a while, and returns the reason.
    pub(super) async fn store_stays_failing(&self) -> String {
        loop {
            self.store_fails().await;
            tokio::time::sleep(STORE_PATIENCE).await;
            if let StoreHealth::Failing { reason } = &*self.shared.store.health().borrow() {
                return reason.clone();
            }
        }
    }

    /// Waits until the store cannot write, and returns the reason.
    async fn store_fails(&self) -> String {
        let mut health = self.shared.store.health();
        let failing = health.wait_for(|health| *health != StoreHealth::Good).await;
        match failing.as_deref() {
            Ok(StoreHealth::Failing { reason }) => reason.clone(),
            Ok(StoreHealth::Good) | Err(_) => "the store is closed".to_owned(),
        }
    }

    /// Deletes a session and its log for good. Its agent is ended first, even if nothing can be deleted now.
    pub async fn delete(&self, who: &Principal, session: SessionId) -> Result<(), Refusal> {
        who.may(Role::Owner, session)?;
        let handle = self.wake(session).await?;
        if self.store_takes_writes().is_err() {
            let done = "the session's agent was asked to stop, but the session was not deleted";
            return Err(unrecorded(handle.agent.stop(), done, &self.store_fails().await));
        }
        tokio::select! {
            biased;
            erased = self.erase(session, Some(who)) => erased,
            reason = self.store_stays_failing() => {
                let done = "the session's agent was asked to stop; the session is deleted when the store can write again";
                Err(unrecorded(handle.agent.stop(), done, &reason))
            }
        }
    }
}

/// The result of an urgent command while nothing can be recorded.
fn unrecorded(pulled: Reached, done: &str, reason: &str) -> Refusal {
    let done = match pulled {
        Reached::Told => done,
        Reached::Busy => "the agent accepts nothing at the moment; try again, or stop the agent",
        Reached::NotRunning => "no agent runs in this session",
    };
    let message = format!("{done}; nothing can be recorded at the moment: {reason}");
    Refusal::new(RefusalCode::StoreFailing, message)
}

/// A state that is not visible yet.
pub(super) fn unseen(reason: &str) -> Refusal {
    let message =
        format!("the newest state is not shown yet, because nothing can be recorded at the moment: {reason}");
    Refusal { retry_after_ms: Some(2000), ..Refusal::new(RefusalCode::StoreFailing, message) }
}

/// A command that was accepted just before the store stopped writing.
pub(super) fn waits(reason: &str) -> Refusal {
    let message = format!(
        "the command waits until it can be recorded; nothing can be recorded at the moment: {reason}"
    );
    Refusal { retry_after_ms: Some(2000), ..Refusal::new(RefusalCode::StoreFailing, message) }
}
