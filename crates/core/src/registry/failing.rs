//! When nothing can be recorded: what is refused, what waits, and what is done all the same.

use std::time::Duration;

use super::Registry;
use crate::{
    Action, Principal, Refusal, RefusalCode, Role, SessionId,
    command::{Command, Receipt},
    ports::StoreHealth,
    session::{reins::Pulled, task::Handle},
};

/// How long a command that was taken in waits for a store that cannot write before its sender is told. A lock is often
/// held just for a moment.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

impl Registry {
    /// A command that is about ending something: it reaches the agent even where it cannot be recorded.
    pub(super) async fn submit_urgent(&self, handle: &Handle, command: Command) -> Result<Receipt, Refusal> {
        let action = command.action.clone();
        // A stop may come twice; an interrupt that is sent when the disk has room again would hit a later turn.
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
                // The session's task itself waits for the disk, and more than it takes in waits for the task.
                Err(refusal) if refusal.code == RefusalCode::Busy && failing => (self.store_fails().await, false),
                receipt => return receipt,
            },
            reason = self.store_fails() => (reason, late_is_fine),
        };
        let (pulled, done) = if action == Action::Interrupt {
            (handle.reins.interrupt(), "the agent was told to stop its turn")
        } else {
            (handle.reins.stop(), "the agent was told to stop")
        };
        let refusal = unrecorded(pulled, done, &reason);
        if waits && let Action::Archive { .. } = action {
            let message =
                format!("the session goes into the archive once that can be recorded; {}", refusal.message);
            return Err(Refusal { message, ..refusal });
        }
        Err(refusal)
    }

    /// Refuses where the store cannot write now.
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

    /// Waits until the store cannot write and has not recovered for a while, and gives the reason.
    pub(super) async fn store_stays_failing(&self) -> String {
        loop {
            self.store_fails().await;
            tokio::time::sleep(STORE_PATIENCE).await;
            if let StoreHealth::Failing { reason } = &*self.shared.store.health().borrow() {
                return reason.clone();
            }
        }
    }

    /// Waits until the store cannot write, and gives the reason.
    async fn store_fails(&self) -> String {
        let mut health = self.shared.store.health();
        let failing = health.wait_for(|health| *health != StoreHealth::Good).await;
        match failing.as_deref() {
            Ok(StoreHealth::Failing { reason }) => reason.clone(),
            Ok(StoreHealth::Good) | Err(_) => "the store is closed".to_owned(),
        }
    }

    /// Deletes a session and its log for good. Its agent is ended first, even where nothing can be deleted now.
    pub async fn delete(&self, who: &Principal, session: SessionId) -> Result<(), Refusal> {
        who.may(Role::Owner, session)?;
        let handle = self.wake(session).await?;
        if self.store_takes_writes().is_err() {
            let done = "its agent was told to stop, but the session itself is still there";
            return Err(unrecorded(handle.reins.stop(), done, &self.store_fails().await));
        }
        tokio::select! {
            biased;
            erased = self.erase(session, Some(who)) => erased,
            reason = self.store_stays_failing() => {
                let done = "its agent was told to stop, and the session goes once the store can write again";
                Err(unrecorded(handle.reins.stop(), done, &reason))
            }
        }
    }
}

/// What an urgent command has come to where nothing can be recorded.
fn unrecorded(pulled: Pulled, done: &str, reason: &str) -> Refusal {
    let done = match pulled {
        Pulled::Told => done,
        Pulled::Busy => "the agent takes nothing at the moment; try again, or stop it",
        Pulled::NotRunning => "no agent runs in this session",
    };
    let message = format!("{done}; nothing can be recorded at the moment: {reason}");
    Refusal::new(RefusalCode::StoreFailing, message)
}

/// A state that nobody may see yet.
pub(super) fn unseen(reason: &str) -> Refusal {
    let message =
        format!("what happened last is told once it can be recorded; at the moment it cannot: {reason}");
    Refusal { retry_after_ms: Some(2000), ..Refusal::new(RefusalCode::StoreFailing, message) }
}

/// A command that was taken in just before the store could no longer write.
pub(super) fn waits(reason: &str) -> Refusal {
    let message =
        format!("this waits and is done once it can be recorded; at the moment it cannot: {reason}");
    Refusal { retry_after_ms: Some(2000), ..Refusal::new(RefusalCode::StoreFailing, message) }
}
