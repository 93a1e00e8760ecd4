//! The check of identity: who sends a request, and with which credential.

use http::{HeaderMap, Method, header, request::Parts};
use portolan_core::{Principal, Role};

use super::{
    AccessCheck, COOKIE, KEY_HEADER, WEBSOCKET_PATH,
    arrival::{Arrival, Seen},
};
use crate::door::{
    admit::SecretVerdict,
    authenticator::{Credential, Standing},
    denied::Denied,
    late::Stranger,
    secret::Secret,
    stay::Stay,
    tickets::HalfGuest,
    tokens::Tokens,
};

/// How many cookies of our name are checked: another local port may have set one too.
const MAX_COOKIES: usize = 4;

/// The sender of an admitted request.
#[derive(Debug)]
pub(in crate::door) enum Admission {
    /// The path is open to everyone.
    Open,
    /// A known guest, and how long the guest may stay.
    Guest(Principal, Stay),
    /// A WebSocket with its cookie.
    Half(HalfGuest),
    /// A WebSocket that shows its token later.
    Stranger(Stranger),
    /// A client that a frontend knows by its own secret.
    KnownBySecret,
}

impl AccessCheck {
    pub(in crate::door) fn authenticate(&self, credential: &Credential) -> Option<Standing> {
        self.authenticator.admit(credential)
    }

    /// The guest of a WebSocket that came with its cookie, after it has shown its key.
    pub fn complete(&self, half: &HalfGuest, key: &str) -> Option<Principal> {
        self.check_attempt(self.tickets.complete(half, &Secret::sent(key)), half.address).ok()
    }

    /// The sender of this request, or why the request is refused.
    pub(in crate::door) fn admit(
        &self,
        parts: &Parts,
        arrival: &Arrival,
        seen: &Seen,
    ) -> Result<Admission, Denied> {
        if self.open.cover(parts) {
            return Ok(Admission::Open);
        }
        let verdict = self
            .secret_checks
            .iter()
            .map(|check| check(parts))
            .find(|verdict| *verdict != SecretVerdict::NotMine);
        match verdict {
            None | Some(SecretVerdict::NotMine) => {}
            Some(SecretVerdict::Right) => return Ok(Admission::KnownBySecret),
            Some(SecretVerdict::Wrong) => return Err(Denied::unauthenticated()),
        }
        let admission = match self.admit_late(parts, arrival, seen) {
            Some(admission) => admission?,
            None => self.identify(parts, arrival, seen)?,
        };
        if let Admission::Guest(principal, _) = &admission {
            self.check_rate(&principal.token)?;
        }
        Ok(admission)
    }

    fn identify(&self, parts: &Parts, arrival: &Arrival, seen: &Seen) -> Result<Admission, Denied> {
        let headers = &parts.headers;
        if headers.contains_key(header::AUTHORIZATION) {
            let found =
                bearer(headers).and_then(|secret| self.authenticator.admit(&Credential::Bearer(secret)));
            return self
                .check_attempt(found, seen.address)
                .map(|Standing { principal, stay, .. }| Admission::Guest(principal, stay));
        }
        if *arrival == Arrival::Unix {
            // If nobody is the owner by a secret, the kernel's identification has no end.
            let standing = self.authenticator.standing(&Tokens::owner_id());
            let stay = standing.map(|standing| standing.stay).unwrap_or_default();
            if stay.is_over() {
                return Err(Denied::unauthenticated());
            }
            return Ok(Admission::Guest(owner(), stay));
        }
        let cookies = cookies(headers);
        if let Some(key) = headers.get(KEY_HEADER) {
            let key = key.to_str().map(Secret::sent).ok();
            let found =
                key.and_then(|key| cookies.iter().find_map(|cookie| self.tickets.enter(cookie, &key)));
            return self
                .check_attempt(found, seen.address)
                .map(|(principal, stay)| Admission::Guest(principal, stay));
        }
        let is_upgrade = parts.method == Method::GET
            && parts.uri.path() == WEBSOCKET_PATH
            && headers.get(header::UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let half = cookies.iter().find_map(|cookie| self.tickets.half(cookie, seen.address));
        match half {
            Some(half) if is_upgrade => Ok(Admission::Half(half)),
            // The browser sends a cookie by itself, for any page: a cookie alone gives no access.
            _ => Err(Denied::unauthenticated()),
        }
    }
}

/// Every client of the Unix socket is our own user.
fn owner() -> Principal {
    Principal {
        token: Tokens::owner_id(),
        name: "owner".into(),
        role: Role::Owner,
        sessions: None,
        via: "cli".into(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let (scheme, secret) = line.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::sent(secret.trim()))
}

pub(in crate::door) fn cookies(headers: &HeaderMap) -> Vec<Secret> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs
        .filter(|(name, _)| *name == COOKIE)
        .map(|(_, value)| Secret::sent(value))
        .take(MAX_COOKIES)
        .collect()
}
