//! Devices: who may connect to the handheld's listener. The app has no token, so its address identifies it.
//!
//! A device without approval is refused: it learns only that, and is remembered so that the owner can approve it.
//! Approvals and revocations are kept in the store. A revoked device stays refused even if the configuration allows its
//! whole network.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    str::FromStr,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use portolan_core::{
    LogId, Millis, Principal, Refusal, RefusalCode, Role, TokenId,
    ports::{Clock, Op, Store, StoreError, Write},
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot, watch};

/// The records of devices, by address.
const DEVICES: &str = "handheld_devices";

/// How many unknown devices are remembered. A network has fewer; with more addresses than this, the oldest are
/// forgotten.
const KNOCKED: usize = 64;

/// How many approved or revoked devices are kept.
const DECIDED: usize = 1000;

/// How long a decision waits for a store that may be failing.
const KEPT_WITHIN: Duration = Duration::from_secs(10);

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Is this address in it?
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }

    /// It is a single address.
    pub fn is_single(&self) -> bool {
        self.bits == whole(self.address)
    }
}

fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not an address or a network; use one like 192.168.1.7 or 192.168.1.0/24");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let bits = match bits {
            None => whole(address),
            Some(bits) => bits.parse::<u8>().ok().filter(|bits| *bits <= whole(address)).ok_or_else(wrong)?,
        };
        Ok(Self { address, bits })
    }
}

impl TryFrom<String> for Network {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.bits) }
    }
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// The owner approved it.
    Approved,
    /// The configuration allows it.
    Allowed,
    /// It waits for approval.
    Held,
    /// The owner revoked it.
    Revoked,
}

/// A device as the owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Its address.
    pub address: IpAddr,
    /// Its state.
    pub state: DeviceState,
    /// When it first tried to connect, or when the owner decided.
    pub since: Millis,
    /// When it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Decision {
    approved: bool,
    at: Millis,
}

#[derive(Debug, Default)]
struct Known {
    decided: BTreeMap<IpAddr, Decision>,
    /// A device that tried to connect: its first and its last time.
    knocked: BTreeMap<IpAddr, (Millis, Millis)>,
}

/// Which devices may connect.
#[derive(Debug)]
pub struct Devices {
    store: Arc<dyn Store>,
    clock: Clock,
    allow: Vec<Network>,
    known: RwLock<Known>,
    /// Grows with every decision.
    decisions: watch::Sender<u64>,
    /// One decision at a time: memory and store must agree on which was the last.
    deciding: Semaphore,
}

impl Devices {
    /// Reads the owner's earlier decisions.
    pub async fn open(store: Arc<dyn Store>, clock: Clock, allow: Vec<Network>) -> Result<Self, StoreError> {
        let mut known = Known::default();
        for (key, value) in store.records(DEVICES).await? {
            if let (Ok(address), Ok(decision)) = (key.parse(), serde_json::from_slice(&value)) {
                known.decided.insert(address, decision);
            } else {
                // No address is in it.
                tracing::warn!(device = key, "the record of a device cannot be read");
            }
        }
        Ok(Self {
            store,
            clock,
            allow,
            known: RwLock::new(known),
            decisions: watch::Sender::new(0),
            deciding: Semaphore::new(1),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, known: &Known, peer: IpAddr, origin: Origin) -> DeviceState {
        match known.decided.get(&peer) {
            Some(Decision { approved: true, .. }) => DeviceState::Approved,
            Some(Decision { approved: false, .. }) => DeviceState::Revoked,
            // Every program on this machine, including agents, has an address in the device's network: that is not
            // enough.
            None if self.allow.iter().any(|network| {
                network.contains(peer) && (network.is_single() || origin == Origin::Elsewhere)
            }) =>
            {
                DeviceState::Allowed
            }
            None => DeviceState::Held,
        }
    }

    /// The identity of this device, if it may connect. Otherwise the device is remembered as unknown.
    pub fn admit(&self, peer: Peer) -> Option<Principal> {
        let Peer { address: peer, origin } = peer;
        let now = self.clock.now();
        let mut known = self.write();
        let state = self.state(&known, peer, origin);
        let first = !known.knocked.contains_key(&peer);
        if first && known.knocked.len() >= KNOCKED {
            let oldest = known.knocked.iter().min_by_key(|(_, (_, last))| *last).map(|(address, _)| *address);
            oldest.map(|oldest| known.knocked.remove(&oldest));
        }
        known.knocked.entry(peer).or_insert((now, now)).1 = now;
        drop(known);
        match state {
            DeviceState::Approved | DeviceState::Allowed => Some(principal(peer)),
            DeviceState::Held if first => {
                tracing::info!(device = %peer, "a device waits at the handheld's door until an owner approves it");
                None
            }
            DeviceState::Held | DeviceState::Revoked => None,
        }
    }

    /// May it still connect?
    pub fn admits(&self, peer: Peer) -> bool {
        let state = self.state(&self.read(), peer.address.to_canonical(), peer.origin);
        matches!(state, DeviceState::Approved | DeviceState::Allowed)
    }

    /// Returns when the device may no longer be connected.
    pub async fn until_put_out(&self, peer: Peer) {
        let mut decisions = self.decisions();
        while self.admits(peer) {
            // `self` keeps the sender.
            let _ = decisions.changed().await;
        }
    }

    /// Signals every decision.
    pub fn decisions(&self) -> watch::Receiver<u64> {
        self.decisions.subscribe()
    }

    /// Every known device: those that tried to connect, and those that the owner decided on.
    pub fn list(&self) -> Vec<DeviceInfo> {
        let known = self.read();
        let mut all: Vec<IpAddr> = known.decided.keys().chain(known.knocked.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        let info = |address: IpAddr| {
            let knocked = known.knocked.get(&address);
            let decided = known.decided.get(&address).map(|decision| decision.at);
            DeviceInfo {
                address,
                state: self.state(&known, address, Origin::Elsewhere),
                since: decided.or(knocked.map(|(first, _)| *first)).unwrap_or_default(),
                seen: knocked.map(|(_, last)| *last),
            }
        };
        all.into_iter().map(info).collect()
    }

    /// Approves or revokes a device. The caller checks who may decide.
    pub async fn decide(&self, address: IpAddr, decision: Decide) -> Result<DeviceInfo, Refusal> {
        let address = address.to_canonical();
        let decided = Decision { approved: decision == Decide::Approve, at: self.clock.now() };
        {
            let mut known = self.write();
            if !known.decided.contains_key(&address) && known.decided.len() >= DECIDED {
                return Err(Refusal::new(
                    RefusalCode::Busy,
                    format!("{DECIDED} devices are approved or revoked already, which is the limit"),
                ));
            }
            // A revocation counts at once, whatever the disk does; an approval counts when it is written.
            if decision == Decide::Revoke {
                known.decided.insert(address, decided);
            }
        }
        if decision == Decide::Revoke {
            self.decisions.send_modify(|count| *count += 1);
        }
        let _alone = self.deciding.acquire().await.map_err(|_| unkept("the daemon is stopping"))?;
        tokio::time::timeout(KEPT_WITHIN, self.keep(address, decided))
            .await
            .unwrap_or_else(|_| Err(unkept("the store is slow and has not saved the decision; try again")))?;
        {
            let mut known = self.write();
            // A device that was revoked meanwhile stays revoked, and that is written next.
            let put_out =
                known.decided.get(&address).is_some_and(|last| !last.approved && last.at >= decided.at);
            if !(decided.approved && put_out) {
                known.decided.insert(address, decided);
            }
        }
        self.decisions.send_modify(|count| *count += 1);
        let found = self.list().into_iter().find(|device| device.address == address);
        found.ok_or_else(|| Refusal::new(RefusalCode::Internal, "the device is no longer known"))
    }

    async fn keep(&self, address: IpAddr, decision: Decision) -> Result<(), Refusal> {
        let value = serde_json::to_vec(&decision).map_err(|error| unkept(&error.to_string()))?;
        let put = Op::Put { collection: DEVICES, key: address.to_string(), value: value.into() };
        let (done, committed) = oneshot::channel();
        let done: Box<dyn FnOnce() + Send> = Box::new(move || {
            // The caller may be gone; the decision is still written.
            let _ = done.send(());
        });
        let write = Write { log: LogId::Daemon, ops: vec![put], done: Some(done) };
        self.store.write(write).await.map_err(|error| unkept(&error.to_string()))?;
        committed.await.map_err(|_| unkept("the store did not save the decision"))
    }
}

fn unkept(why: &str) -> Refusal {
    Refusal::new(RefusalCode::StoreFailing, why)
}

/// What the owner decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decide {
    /// The device may connect.
    Approve,
    /// The device may not connect, and is disconnected.
    Revoke,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From a program on this machine, which may be an agent.
    ThisMachine,
    /// From somewhere else.
    Elsewhere,
}

impl Origin {
    /// An address belongs to this machine if a program can listen on it.
    pub fn of(peer: IpAddr) -> Self {
        let own = peer.is_loopback() || std::net::UdpSocket::bind((peer, 0)).is_ok();
        if own { Self::ThisMachine } else { Self::Elsewhere }
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its origin.
    pub origin: Origin,
}

impl Peer {
    /// The device with this address.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, origin: Origin::of(address) }
    }
}

/// The identity of a device for core and in the log.
pub fn principal(address: IpAddr) -> Principal {
    let token = format!("handheld:{address}").parse();
    Principal {
        // An address has only characters that an id may have.
        token: token.unwrap_or_else(|_| TokenId::random()),
        name: format!("handheld at {address}"),
        role: Role::Operator,
        sessions: None,
        via: "handheld".into(),
    }
}

#[cfg(test)]
mod tests {
    use portolan_store::MemoryStore;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn from(address: IpAddr) -> Peer {
        Peer { address, origin: Origin::Elsewhere }
    }

    async fn devices(store: &Arc<MemoryStore>, allow: &[&str]) -> Devices {
        let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
        Devices::open(store.clone(), Clock::new(|| Millis(5)), allow).await.unwrap()
    }

    #[test]
    fn a_network_reads_back_and_holds_its_addresses() {
        for (network, inside, outside) in [
            ("192.168.1.7", "192.168.1.7", "192.168.1.8"),
            ("192.168.1.0/24", "192.168.1.255", "192.168.2.0"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("10.0.0.0/31", "10.0.0.1", "10.0.0.2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.to_string(), network);
            assert!(parsed.contains(ip(inside)) && !parsed.contains(ip(outside)), "{network}");
        }
        assert!("10.0.0.0/8".parse::<Network>().unwrap().contains(ip("::ffff:10.1.2.3")), "v4 within v6");
        for wrong in ["", "home", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "fd00::/129", "10.0.0"] {
            assert!(wrong.parse::<Network>().unwrap_err().contains("not an address or a network"), "{wrong}");
        }
    }

    // covers: 000-006
    #[tokio::test]
    async fn a_device_is_held_until_the_owner_approves_it_once() {
        let store = Arc::new(MemoryStore::new());
        let door = devices(&store, &[]).await;
        assert_eq!(door.admit(from(ip("192.168.1.7"))), None);
        let held = DeviceInfo {
            address: ip("192.168.1.7"),
            state: DeviceState::Held,
            since: Millis(5),
            seen: Some(Millis(5)),
        };
        assert_eq!(door.list(), std::slice::from_ref(&held));
        let approved = door.decide(ip("192.168.1.7"), Decide::Approve).await.unwrap();
        assert_eq!(approved, DeviceInfo { state: DeviceState::Approved, ..held });
        let who = door.admit(from(ip("192.168.1.7"))).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("handheld at 192.168.1.7", Role::Operator));
        assert_eq!(who.token.as_str(), "handheld:192.168.1.7");
        assert_eq!(door.admit(from(ip("192.168.1.8"))), None);
        // The next daemon knows the decision.
        let door = devices(&store, &[]).await;
        assert!(door.admit(from(ip("192.168.1.7"))).is_some());
    }

    #[tokio::test]
    async fn a_revoked_device_is_put_out_at_once_even_from_an_allowed_network() {
        let store = Arc::new(MemoryStore::new());
        let door = Arc::new(devices(&store, &["192.168.1.0/24"]).await);
        assert!(door.admit(from(ip("192.168.1.7"))).is_some());
        let put_out = {
            let door = door.clone();
            let peer = from(ip("192.168.1.7"));
            tokio::spawn(async move { door.until_put_out(peer).await })
        };
        assert_eq!(door.decide(ip("192.168.1.7"), Decide::Revoke).await.unwrap().state, DeviceState::Revoked);
        put_out.await.unwrap();
        assert_eq!(door.admit(from(ip("192.168.1.7"))), None);
        assert!(door.admit(from(ip("192.168.1.8"))).is_some());
        let door = devices(&store, &["192.168.1.0/24"]).await;
        assert_eq!(door.admit(from(ip("192.168.1.7"))), None, "the next daemon knows");
    }

    #[tokio::test]
    async fn a_program_on_this_machine_is_not_let_in_by_the_network_it_shares() {
        let store = Arc::new(MemoryStore::new());
        let door = devices(&store, &["192.168.1.0/24", "127.0.0.0/8"]).await;
        assert_eq!(
            door.admit(Peer { address: ip("192.168.1.2"), origin: Origin::ThisMachine }),
            None,
            "an agent could approve its own requests"
        );
        assert_eq!(door.admit(Peer::of(ip("127.0.0.1"))), None);
        let door = devices(&store, &["127.0.0.1"]).await;
        assert!(door.admit(Peer::of(ip("127.0.0.1"))).is_some(), "named by itself, it was meant");
    }

    #[tokio::test]
    async fn those_who_knock_are_remembered_within_a_bound() {
        let store = Arc::new(MemoryStore::new());
        let time = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let tick = time.clone();
        let clock = Clock::new(move || Millis(tick.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        let door = Devices::open(store, clock, vec![]).await.unwrap();
        for number in 0..200_u32 {
            door.admit(from(IpAddr::from(number.to_be_bytes())));
        }
        let listed = door.list();
        assert_eq!(listed.len(), KNOCKED);
        assert!(listed.iter().all(|device| device.since >= Millis(200 - KNOCKED as i64)), "the newest stay");
    }
}
