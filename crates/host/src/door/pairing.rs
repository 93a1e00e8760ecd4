//! Pairing: another device gets its own token at the moment of its login.
//!
//! Nobody ever sees that token's secret: the device's login depends on it, so that the device has its own name, role
//! and end, and revoking the token logs the device out. An unused ticket leaves nothing behind.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use portolan_core::{Millis, Refusal, RefusalCode, Role, SessionId, ports::Clock};

use super::tokens::{TokenInfo, Tokens, opens_something};

/// A device that may log in.
#[derive(Clone, Debug)]
pub struct Device {
    /// The name of the device's token.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The sessions that the token is bound to; all when absent.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// The token's lifetime from the login on; unlimited when absent.
    pub expires_in: Option<Duration>,
    /// Where the token is created.
    pub tokens: Arc<Tokens>,
}

impl Device {
    /// Whether the token could be created now: this informs the client that asks for a ticket, not the later holder.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.tokens.is_free(&self.name)?;
        opens_something(self.sessions.as_ref())?;
        if self.expires_in.is_some_and(|lasts| lasts.is_zero()) {
            return Err(Refusal::new(
                RefusalCode::Invalid,
                "the device's token would expire at once; give a later time, or leave the time out",
            ));
        }
        Ok(())
    }

    /// Creates the token. Its name may have been taken since the ticket was made.
    pub(super) async fn admit(self, clock: &Clock) -> Result<TokenInfo, Refusal> {
        self.tokens.is_free(&self.name)?;
        let expires_at = self.expires_in.map(|lasts| {
            let span = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
            Millis(clock.now().0.saturating_add(span))
        });
        let (info, _) = self.tokens.create(&self.name, self.role, self.sessions, expires_at).await?;
        Ok(info)
    }
}
