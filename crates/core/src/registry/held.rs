//! A prompt that is recorded and held back from the agent for a moment, so that its sender can first prepare the agent.
//!
//! The prompt is in the log before anything waits, so that neither a client that leaves nor a crash loses it.

use std::{fmt, sync::Arc};

use super::Registry;
use crate::{CommandId, Principal, Refusal, Role, SessionId, command::CommandKey, session::task::Handle};

/// While this exists, the agent gets neither the prompt nor any prompt behind it in the queue. The log does not record
/// that a prompt is held back: after a crash it waits like any other prompt.
pub struct HeldPrompt {
    handle: Arc<Handle>,
    key: CommandKey,
}

impl fmt::Debug for HeldPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPrompt").field("session", &self.handle.id).field("key", &self.key).finish()
    }
}

impl Drop for HeldPrompt {
    fn drop(&mut self) {
        self.handle.held.send_modify(|held| {
            if let Some(count) = held.get_mut(&self.key) {
                *count -= 1;
            }
            held.retain(|_, count| *count > 0);
        });
    }
}

impl Registry {
    /// Holds the prompt with this id back from the agent until the result is dropped. Call this before sending the
    /// prompt.
    pub async fn hold_prompt(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
    ) -> Result<HeldPrompt, Refusal> {
        who.may(Role::Operator, session)?;
        let handle = self.wake(session).await?;
        let key = CommandKey { token: who.token.clone(), id };
        handle.held.send_modify(|held| {
            *held.entry(key.clone()).or_default() += 1;
        });
        Ok(HeldPrompt { handle, key })
    }
}
