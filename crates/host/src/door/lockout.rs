//! Rates: how often an address may be wrong, and how many requests a token may send.
//!
//! We count wrong credentials ourselves, because checking an address must not count as an attempt.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    state::keyed::HashMapStateStore,
};
use portolan_core::{Millis, TokenId};

use super::settings::DoorLimits;

/// How many addresses are remembered. When full, the address that was quiet the longest is forgotten.
const MAX_ADDRESSES: usize = 4096;
/// Failures further apart than this do not add up.
const WINDOW_MS: i64 = 60 * 1000;
/// After this much quiet an address starts from zero.
const FORGET_MS: i64 = 3600 * 1000;

#[derive(Debug, Clone, Copy)]
struct Address {
    count: u32,
    window_start: Millis,
    last: Millis,
    locked_until: Millis,
    lockouts: u32,
}

/// Wrong credentials by address.
#[derive(Debug)]
pub(super) struct Failures {
    allowed: u32,
    first_ms: i64,
    addresses: Mutex<HashMap<IpAddr, Address>>,
}

impl Failures {
    pub(super) fn new(limits: &DoorLimits) -> Self {
        Self {
            allowed: limits.failures.max(1),
            first_ms: i64::try_from(limits.lockout.as_millis()).unwrap_or(i64::MAX),
            addresses: Mutex::default(),
        }
    }

    /// How many milliseconds this address is still locked out.
    pub(super) fn locked_for(&self, address: IpAddr, now: Millis) -> Option<u32> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let left = addresses.get(&network(address))?.locked_until.0 - now.0;
        u32::try_from(left).ok().filter(|left| *left > 0)
    }

    /// Counts one more wrong credential from this address. Returns whether that locks the address out.
    pub(super) fn note(&self, address: IpAddr, now: Millis) -> bool {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let key = network(address);
        if addresses.len() >= MAX_ADDRESSES && !addresses.contains_key(&key) {
            make_room(&mut addresses, now);
        }
        let fresh = Address { count: 0, window_start: now, last: now, locked_until: Millis(0), lockouts: 0 };
        let entry = addresses.entry(key).or_insert(fresh);
        if now.0 - entry.last.0 > FORGET_MS {
            *entry = fresh;
        }
        if now.0 - entry.window_start.0 > WINDOW_MS {
            (entry.count, entry.window_start) = (0, now);
        }
        entry.last = now;
        entry.count += 1;
        if entry.count < self.allowed || entry.locked_until > now {
            return false;
        }
        let longest = i64::try_from(DoorLimits::LONGEST_LOCKOUT.as_millis()).unwrap_or(i64::MAX);
        let length =
            self.first_ms.saturating_mul(1 << entry.lockouts.min(20)).min(longest.max(self.first_ms));
        entry.locked_until = Millis(now.0.saturating_add(length));
        entry.lockouts += 1;
        entry.count = 0;
        true
    }
}

fn make_room(addresses: &mut HashMap<IpAddr, Address>, now: Millis) {
    addresses.retain(|_, entry| now.0 - entry.last.0 <= WINDOW_MS || entry.locked_until > now);
    if addresses.len() >= MAX_ADDRESSES
        && let Some(quietest) = addresses.iter().min_by_key(|(_, entry)| entry.last).map(|(key, _)| *key)
    {
        addresses.remove(&quietest);
    }
}

/// One household: an IPv4 address, or the 64 bits of an IPv6 network in which anyone may take any address.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

/// Requests by token.
pub(super) struct Requests {
    limiter: RateLimiter<TokenId, HashMapStateStore<TokenId>, DefaultClock>,
}

impl Requests {
    pub(super) fn new(limits: &DoorLimits) -> Self {
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(at_least_one(limits.requests_per_second))
            .allow_burst(at_least_one(limits.request_burst));
        Self { limiter: RateLimiter::hashmap(quota) }
    }

    /// Counts one more request of this token, or returns after how many milliseconds there is room for it.
    pub(super) fn take(&self, token: &TokenId) -> Result<(), u32> {
        self.limiter.check_key(token).map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).max(1)
        })
    }

    /// Forgets quiet tokens.
    pub(super) fn tidy(&self) {
        self.limiter.retain_recent();
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Requests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: i64 = 60_000;

    fn failures(allowed: u32) -> Failures {
        Failures::new(&DoorLimits { failures: allowed, ..DoorLimits::default() })
    }

    #[test]
    fn each_lockout_lasts_twice_as_long_up_to_a_quarter_of_an_hour() {
        let failures = failures(2);
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut now = Millis(1_000_000);
        let mut lengths = Vec::new();
        for _ in 0..6 {
            assert!(!failures.note(address, now));
            assert!(failures.note(address, now));
            let left = failures.locked_for(address, now).unwrap();
            lengths.push(i64::from(left) / FIRST);
            now = Millis(now.0 + i64::from(left));
            assert_eq!(failures.locked_for(address, now), None);
        }
        assert_eq!(lengths, [1, 2, 4, 8, 15, 15]);
    }

    #[test]
    fn failures_far_apart_do_not_add_up() {
        let failures = failures(2);
        let address = IpAddr::from([192, 0, 2, 1]);
        for minute in 0..100 {
            assert!(!failures.note(address, Millis(minute * (WINDOW_MS + 1))));
        }
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_one_is_its_ipv4() {
        let failures = failures(2);
        failures.note("2001:db8::1".parse().unwrap(), Millis(1));
        assert!(failures.note("2001:db8::ffff:2".parse().unwrap(), Millis(1)));
        assert_eq!(failures.locked_for("2001:db8:0:1::1".parse().unwrap(), Millis(1)), None);
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), IpAddr::from([192, 0, 2, 1]));
    }

    #[test]
    fn a_flood_of_addresses_takes_no_more_room() {
        let failures = failures(1);
        for n in 0..3 * MAX_ADDRESSES as u32 {
            failures.note(IpAddr::from((n + 0x0a00_0000).to_be_bytes()), Millis(i64::from(n)));
        }
        assert!(failures.addresses.lock().unwrap().len() <= MAX_ADDRESSES);
    }

    #[test]
    fn one_busy_token_does_not_slow_another() {
        let limits = DoorLimits { requests_per_second: 1, request_burst: 2, ..DoorLimits::default() };
        let requests = Requests::new(&limits);
        let (busy, other) = (TokenId::random(), TokenId::random());
        assert_eq!((requests.take(&busy), requests.take(&busy)), (Ok(()), Ok(())));
        assert!((1..=1000).contains(&requests.take(&busy).unwrap_err()));
        assert_eq!(requests.take(&other), Ok(()));
    }
}
