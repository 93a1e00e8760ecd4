//! How long a client may stay: as long as its access is valid.
//!
//! A stay begins when a client is let in, and belongs to the secret that let it in: when a token gets another secret,
//! stays with the old secret are over. The door itself ends what a stay covers: the request, the response's body and
//! the socket. Frontends check a stay only to send the reason.

use std::time::Duration;

use portolan_core::{Millis, ports::Clock};
use tokio_util::sync::CancellationToken;

/// A distant expiry is checked again this often: the machine's clock can be changed.
const EXPIRY_CHECK: Duration = Duration::from_mins(1);

/// How long a client may stay. Endless by default.
#[derive(Clone, Debug, Default)]
pub struct Stay {
    /// Ends with the secret of the token.
    token: Option<CancellationToken>,
    /// Ends with the login of the browser.
    login: Option<CancellationToken>,
    expires: Option<(Millis, Clock)>,
}

/// Why a stay is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The token was revoked, was rotated, or has expired.
    Token,
    /// The browser was logged out.
    Login,
}

impl Stay {
    /// A stay without an end.
    pub fn endless() -> Self {
        Self::default()
    }

    /// Until the secret is no longer valid and `ended` is cancelled.
    pub fn until(ended: CancellationToken) -> Self {
        Self { token: Some(ended), ..Self::default() }
    }

    /// The same stay, but no longer than this.
    #[must_use]
    pub fn expiring(self, at: Millis, clock: Clock) -> Self {
        Self { expires: Some((at, clock)), ..self }
    }

    /// The same stay, but no longer than the browser is logged in.
    #[must_use]
    pub(super) fn of_login(self, gone: CancellationToken) -> Self {
        Self { login: Some(gone), ..self }
    }

    /// Whether the stay is over now, and why.
    pub fn ended(&self) -> Option<Over> {
        let is_cancelled =
            |end: &Option<CancellationToken>| end.as_ref().is_some_and(CancellationToken::is_cancelled);
        let has_expired = || self.expires.as_ref().is_some_and(|(at, clock)| clock.now() >= *at);
        if is_cancelled(&self.token) || has_expired() {
            return Some(Over::Token);
        }
        is_cancelled(&self.login).then_some(Over::Login)
    }

    /// Whether the stay is over now.
    pub fn is_over(&self) -> bool {
        self.ended().is_some()
    }

    /// Returns when the stay is over. Cancel-safe.
    pub async fn over(&self) -> Over {
        tokio::select! {
            () = cancelled(self.token.as_ref()) => Over::Token,
            () = cancelled(self.login.as_ref()) => Over::Login,
            () = self.expired() => Over::Token,
        }
    }

    async fn expired(&self) {
        let Some((at, clock)) = &self.expires else { return std::future::pending().await };
        while let Ok(left @ 1..) = u64::try_from(at.0 - clock.now().0) {
            tokio::time::sleep(Duration::from_millis(left).min(EXPIRY_CHECK)).await;
        }
    }
}

async fn cancelled(end: Option<&CancellationToken>) {
    match end {
        Some(end) => end.cancelled().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn a_stay_ends_with_its_secret_or_its_login_and_says_which() {
        let (secret, login) = (CancellationToken::new(), CancellationToken::new());
        let stay = Stay::until(secret.clone()).of_login(login.clone());
        assert_eq!(stay.ended(), None);
        login.cancel();
        assert_eq!((stay.ended(), stay.over().await), (Some(Over::Login), Over::Login));
        secret.cancel();
        assert_eq!(stay.ended(), Some(Over::Token));
        assert!(!Stay::endless().is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stay_expires_by_the_clock_of_the_machine_even_where_that_is_set() {
        let now = Arc::new(AtomicI64::new(0));
        let time = Arc::clone(&now);
        let clock = Clock::new(move || Millis(time.load(Ordering::Relaxed)));
        let stay = Stay::endless().expiring(Millis(3_600_000), clock);
        assert!(!stay.is_over());
        let waiting = tokio::spawn({
            let stay = stay.clone();
            async move { stay.over().await }
        });
        tokio::task::yield_now().await;
        now.store(3_600_000, Ordering::Relaxed);
        assert!(stay.is_over());
        let told = tokio::time::timeout(EXPIRY_CHECK * 2, waiting).await.unwrap().unwrap();
        assert_eq!(told, Over::Token);
    }
}
