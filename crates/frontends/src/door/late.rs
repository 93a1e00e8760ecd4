//! Late comers: WebSockets of programs and pages that cannot set a header. They show their token as the sub-protocol
//! `bearer.TOKEN`, or in a message of their own once they are connected. Until then nothing is open to them; the
//! frontend bounds how long that may last. Only for paths that a frontend names, and only for upgrades.

use std::net::IpAddr;

use http::{HeaderMap, Method, header, request::Parts};
use portolan_core::Principal;

use super::{
    denied::Denied,
    keeper::{Admission, Arrival, KEY_HEADER, Keeper, Seen},
    secret::Secret,
    tickets::Stay,
    tokens::Credential,
};

/// How the sub-protocol begins that carries a token.
pub const BEARER_PROTOCOL: &str = "bearer.";

/// Someone who has shown nothing yet: a WebSocket whose token follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub(super) address: Option<IpAddr>,
}

impl Stranger {
    /// Someone who is just there, for tests.
    #[cfg(test)]
    pub(crate) fn from_nowhere() -> Self {
        Self { address: None }
    }

    /// They come from this very machine, as far as can be seen past a proxy.
    pub fn is_local(&self) -> bool {
        self.address.is_some_and(|address| address.is_loopback())
    }
}

impl Keeper {
    /// Who a stranger is, now that they show this secret. Wrong ones are counted like any other.
    pub fn introduce(&self, stranger: &Stranger, secret: &str) -> Result<Principal, Denied> {
        let credential = Credential::Bearer(Secret::sent(secret));
        self.judge(self.authenticate(&credential), stranger.address)
    }

    /// A path where a WebSocket may come in before it is known.
    pub(super) fn admit_late(
        &self,
        parts: &Parts,
        arrival: &Arrival,
        seen: &Seen,
    ) -> Option<Result<Admission, Denied>> {
        let headers = &parts.headers;
        let is_upgrade = parts.method == Method::GET
            && headers.get(header::UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let shows = headers.contains_key(header::AUTHORIZATION) || headers.contains_key(KEY_HEADER);
        if !is_upgrade || shows || *arrival == Arrival::Unix || !self.is_late(parts.uri.path()) {
            return None;
        }
        let stranger = Stranger { address: seen.address };
        Some(match bearer_protocol(headers) {
            Some(secret) => self
                .introduce(&stranger, secret)
                .map(|principal| Admission::Guest(principal, Stay::default())),
            None => self.may_try(seen.address).map(|()| Admission::Stranger(stranger)),
        })
    }
}

fn bearer_protocol(headers: &HeaderMap) -> Option<&str> {
    protocols(headers).find_map(|protocol| protocol.strip_prefix(BEARER_PROTOCOL))
}

/// The sub-protocols that a client offers.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
}
