//! Late comers: WebSockets of programs and pages that cannot set a header. They show their token as the sub-protocol
//! `bearer.TOKEN`, or in a message after they are connected. Until then they have no access; the frontend limits that
//! time. Only for paths that a frontend names, and only for upgrades.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, Method, header, request::Parts};
use portolan_core::Principal;

use super::{
    access::{AccessCheck, Admission, Arrival, KEY_HEADER, Seen},
    authenticator::{Credential, Standing},
    denied::Denied,
    leash::Leash,
    secret::Secret,
    stay::Stay,
};

/// The beginning of the sub-protocol that carries a token.
pub const BEARER_PROTOCOL: &str = "bearer.";

/// A client that has shown nothing yet: a WebSocket whose token follows.
#[derive(Clone, Debug)]
pub struct Stranger {
    pub(super) address: Option<IpAddr>,
    way: Way,
    /// The stranger's connection, which ends with their stay after they are known.
    leash: Option<Leash>,
}

/// How a request came here, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing shows that a proxy passed it on.
    Direct,
    /// A proxy passed it on: its origin is not trusted.
    PassedOn,
}

/// Headers that proxies add, besides everything that begins with `x-forwarded-`.
const PASSED_ON: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];

impl Stranger {
    /// A stranger without an address, whom no door holds.
    pub fn from_nowhere() -> Self {
        Self { address: None, way: Way::Direct, leash: None }
    }

    /// The stranger comes from this machine, and no proxy passed them on: clients of a proxy on this machine also have
    /// an address of this machine.
    pub fn is_local(&self) -> bool {
        self.way == Way::Direct && self.address.is_some_and(|address| address.is_loopback())
    }

    /// A proxy passed the stranger on, and says so.
    pub fn was_passed_on(&self) -> bool {
        self.way == Way::PassedOn
    }
}

fn way(headers: &HeaderMap) -> Way {
    let passed_on =
        |name: &HeaderName| name.as_str().starts_with("x-forwarded-") || PASSED_ON.contains(&name.as_str());
    if headers.keys().any(passed_on) { Way::PassedOn } else { Way::Direct }
}

impl AccessCheck {
    /// Who a stranger is, now that they show this secret, and how long they may stay: from here on the door ends their
    /// connection with the stay. Wrong secrets are counted like any other.
    pub fn introduce(&self, stranger: &Stranger, secret: &str) -> Result<(Principal, Stay), Denied> {
        let credential = Credential::Bearer(Secret::sent(secret));
        let Standing { principal, stay, .. } =
            self.check_attempt(self.authenticate(&credential), stranger.address)?;
        if let Some(leash) = &stranger.leash {
            leash.hold(stay.clone());
        }
        Ok((principal, stay))
    }

    /// A path where a WebSocket may connect before it is known.
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
        let leash = parts.extensions.get::<Leash>().cloned();
        let stranger = Stranger { address: seen.address, way: way(headers), leash };
        Some(match bearer_protocol(headers) {
            Some(secret) => {
                // Their connection is held after the upgrade.
                let stranger = Stranger { leash: None, ..stranger };
                self.introduce(&stranger, secret).map(|(principal, stay)| Admission::Guest(principal, stay))
            }
            None => self.check_lockout(seen.address).map(|()| Admission::Stranger(stranger)),
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
