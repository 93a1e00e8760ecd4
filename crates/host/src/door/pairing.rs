//! Pairing: another device gets a token of its own, at the moment in which it comes.
//!
//! Nobody ever sees that token's secret: the device's login hangs on it, so that the device has a name, a role and an end of its
//! own, and revoking it puts the device out. A ticket that is never used leaves nothing behind.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use portolan_core::{Millis, Refusal, RefusalCode, Role, SessionId, ports::Clock};

use super::tokens::{TokenInfo, Tokens, opens_something};

/// A device that may come.
#[derive(Clone, Debug)]
pub struct Device {
    /// What people will call its token.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sessions it is bound to; all when absent.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// For how long, from its login on; for ever when absent.
    pub expires_in: Option<Duration>,
    /// Where its token is made.
    pub tokens: Arc<Tokens>,
}

impl Device {
    /// Whether a token for it could be made now: who asks for a ticket is told, not who holds it later.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.tokens.is_free(&self.name)?;
        opens_something(self.sessions.as_ref())?;
        if self.expires_in.is_some_and(|lasts| lasts.is_zero()) {
            return Err(Refusal::new(
                RefusalCode::Invalid,
                "the device's token would end as it begins; give it a time, or leave the end out",
            ));
        }
        Ok(())
    }

    /// Makes its token. The name may have been taken since the ticket was made.
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
