//! The port of authentication: who a client is, and for how long.
//!
//! [`Tokens`](super::Tokens) is the default. A program that embeds Portolan may bring its own users. The door keeps the
//! rest: host names and origins, lockout, rates, the browsers' cookies, and ending what a standing let in. Core decides
//! what a role allows.

use std::fmt;

use portolan_core::{Millis, Principal, TokenId, ports::Boxed};

use super::{secret::Secret, stay::Stay};

/// What a client shows at the door.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// A secret: from the `Authorization` header, or from a WebSocket that cannot set a header.
    Bearer(Secret),
}

/// The current standing of a client that was let in.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The account. The door counts requests under the token's id, and browsers' logins depend on it: the id is the
    /// same for each request of one account, and is no secret.
    pub principal: Principal,
    /// Since when the current credential is valid. Everything that an earlier credential let in is over.
    pub since: Millis,
    /// Until when the current credential is valid. The door then ends every request, response and WebSocket.
    pub stay: Stay,
}

/// Finds out who a client is.
///
/// Both questions are asked for every request, so both are answered at once, from memory. A program whose accounts are
/// stored elsewhere keeps a copy of them, and ends the [`Stay`] of an account when it learns that the account is gone.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Who shows this credential; `None` refuses it, and the door counts a wrong credential. The stay belongs to the
    /// shown credential: it ends when the credential is revoked, replaced or expired.
    fn authenticate(&self, credential: &Credential) -> Option<Standing>;

    /// The current standing of the account with this id; `None` if the account no longer lets anyone in. Browsers'
    /// logins depend on it. The door also asks about [`Tokens::owner_id`](super::Tokens::owner_id), the identity of the
    /// machine's own user at the Unix socket; with `None` that user stays for as long as the socket is open.
    fn standing(&self, token: &TokenId) -> Option<Standing>;

    /// Called every minute and before the end, to write what was postponed.
    fn tidy(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl dyn Authenticator {
    /// Who shows this credential and may come in. A standing that is over lets nobody in, whoever returns it.
    pub(super) fn admit(&self, credential: &Credential) -> Option<Standing> {
        self.authenticate(credential).filter(|standing| !standing.stay.is_over())
    }

    /// The standing of an account that may still come in.
    pub(super) fn admitted(&self, token: &TokenId) -> Option<Standing> {
        self.standing(token).filter(|standing| !standing.stay.is_over())
    }
}
