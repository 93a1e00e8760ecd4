//! A prompt that is recorded and kept back from the agent for a moment: whoever sends it prepares the agent for it first.
//!
//! What is posted is in the log before anything is waited for, so that neither a client that leaves nor a crash loses it.

use std::{fmt, sync::Arc};

use super::Registry;
use crate::{CommandId, Principal, Refusal, Role, SessionId, command::CommandKey, session::task::Handle};

/// A prompt that the agent does not get while one of these exists for it, nor any prompt that waits behind it. It is not recorded that a
/// prompt is kept back: after a crash it waits as any other does.
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
    /// Keeps the prompt of this id back from the agent until the result is dropped. Before it is sent.
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
