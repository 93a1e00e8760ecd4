//! A daemon's look at its own home while it runs: is it still the daemon of this folder, and does the owner's token
//! still have the secret that lies there?
//!
//! A home that was removed or replaced under a daemon belongs to nobody, or to a newer daemon. This one then touches
//! nothing in it any more and ends.

use std::{sync::Arc, time::Duration};

use portolan_core::{DaemonEvent, registry::Registry};
use portolan_host::door::{Authenticator as _, Tokens};
use tokio_util::sync::CancellationToken;

use super::lock::Lock;
use crate::{commands::browse, failure::Failure, home::Home};

/// Between two looks: soon enough for someone who waits, seldom enough to cost nothing.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// Looks until the home is lost, and says so.
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

/// What the run of a daemon whose home is lost comes to.
pub(super) fn lost_home(home: &Home) -> Failure {
    Failure::new(format!(
        "`{}` was removed or replaced while the daemon ran; it has ended and touched nothing there",
        home.path().display()
    ))
}

/// The file is the truth: another secret in it, or none, is a new secret for the owner.
async fn follow_owner_token(home: &Home, tokens: &Tokens, registry: &Registry) {
    let since = |tokens: &Tokens| tokens.standing(&Tokens::owner_id()).map(|standing| standing.since);
    let before = since(tokens);
    if let Err(error) = tokens.owner_secret_file(&home.token()).await {
        // Said once per look only where someone looks: the old secret goes on working meanwhile.
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
