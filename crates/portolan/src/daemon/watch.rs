//! Checks the home while the daemon runs: does the folder still belong to this daemon, and does the owner's token still
//! have the secret in the file?
//!
//! A home that was removed or replaced while a daemon runs belongs to nobody, or to a newer daemon. The running daemon
//! then touches nothing in it and ends.

use std::{sync::Arc, time::Duration};

use portolan_core::{DaemonEvent, registry::Registry};
use portolan_host::door::{Authenticator as _, Tokens};
use tokio_util::sync::CancellationToken;

use super::lock::Lock;
use crate::{commands::browse, failure::Failure, home::Home};

/// Time between two checks: short enough for a person who waits, long enough to cost nothing.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// Checks until the home is lost, then logs an error.
pub(super) async fn watch(
    home: Home,
    lock: Arc<Lock>,
    tokens: Arc<Tokens>,
    registry: Registry,
    lost: CancellationToken,
) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    look.tick().await;
    loop {
        look.tick().await;
        if !lock.is_of(&home) {
            tracing::error!(home = %home.path().display(), "the home was removed or replaced; this daemon ends");
            lost.cancel();
            return;
        }
        follow_owner_token(&home, &tokens, &registry).await;
        browse::sweep(&home);
    }
}

/// The failure of a daemon whose home is lost.
pub(super) fn lost_home(home: &Home) -> Failure {
    Failure::new(format!(
        "`{}` was removed or replaced while the daemon ran; the daemon ended and touched nothing there",
        home.path().display()
    ))
}

/// The file decides: if its secret changed or is missing, the owner gets a new secret.
async fn follow_owner_token(home: &Home, tokens: &Tokens, registry: &Registry) {
    let since = |tokens: &Tokens| tokens.standing(&Tokens::owner_id()).map(|standing| standing.since);
    let before = since(tokens);
    if let Err(error) = tokens.owner_secret_file(&home.token()).await {
        // Logged at every check, so only at `debug`; the old secret keeps working meanwhile.
        tracing::debug!(%error, "the owner's token cannot be read");
        return;
    }
    if since(tokens) != before {
        tracing::info!("the owner's token has a new secret");
        let rotated = DaemonEvent::TokenRotated { token: Tokens::owner_id() };
        if let Err(refusal) = registry.note(None, rotated).await {
            tracing::warn!(%refusal, "the new secret of the owner's token is not in the daemon's log");
        }
    }
}
