//! The port of authentication: who someone is, and for how long.
//!
//! [`Tokens`](super::Tokens) is the default. A program that embeds Portolan may bring users of its own. Everything else stays
//! the door's: the names and origins by which requests come, lockout, rates, the cookies of browsers, and ending what a
//! standing let in. What a role allows is core's.

use std::fmt;

use portolan_core::{Millis, Principal, TokenId, ports::Boxed};

use super::{secret::Secret, stay::Stay};

/// What someone shows at the door.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// A secret: from the `Authorization` header, or from a WebSocket that cannot set a header.
    Bearer(Secret),
}

/// Where someone stands now who was let in.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Who it is. The token's id is the name under which the door counts requests and logins of browsers hang: it is the
    /// same for each request of one account, and no secret.
    pub principal: Principal,
    /// Since when the present credential is valid. What an earlier credential let in no longer counts.
    pub since: Millis,
    /// Until when the present credential is valid. The door ends every request, response and WebSocket with it.
    pub stay: Stay,
}

/// Finds out who someone is.
///
/// Both questions are asked for every request, so both are answered at once, from memory. A program whose accounts lie elsewhere
/// keeps a copy of them, and ends the [`Stay`] of an account when it learns that the account is gone.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Who shows this credential; `None` refuses it, and the door counts that as a wrong credential. The stay is that of the
    /// very credential that is shown: it is over once the credential is revoked, replaced or expired.
    fn authenticate(&self, credential: &Credential) -> Option<Standing>;

    /// Where the account under this id stands now; `None` where it no longer lets anyone in. Logins of browsers hang on it.
    /// The door also asks about [`Tokens::owner_id`](super::Tokens::owner_id), as which the machine's own user comes by the
    /// Unix socket; with `None` that user stays for as long as the socket is open.
    fn standing(&self, token: &TokenId) -> Option<Standing>;

    /// Called every minute and before the end: a moment to write down what can wait.
    fn tidy(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl dyn Authenticator {
    /// Who shows this credential and may come in by it. A standing that is over lets nobody in, whoever gives it.
    pub(super) fn admit(&self, credential: &Credential) -> Option<Standing> {
        self.authenticate(credential).filter(|standing| !standing.stay.is_over())
    }

    /// Where an account stands that may still come in.
    pub(super) fn admitted(&self, token: &TokenId) -> Option<Standing> {
        self.standing(token).filter(|standing| !standing.stay.is_over())
    }
}
