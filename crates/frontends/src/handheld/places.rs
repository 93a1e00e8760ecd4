//! Places at the listener: how many connections are allowed, and from whom.
//!
//! Approved devices and unknown devices have separate places, so that unknown devices cannot block approved ones; and
//! one address has a limited number, so that no device blocks the others.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many connections devices may have at once: enough for one household.
pub(super) const DEVICES: usize = 32;

/// How many connections one device may have: one, and a few broken ones that TCP has not detected yet.
pub(super) const PER_DEVICE: usize = 8;

/// How many connections unknown devices may have at once. Each takes milliseconds.
pub(super) const STRANGERS: usize = 16;

/// The same for one address.
pub(super) const PER_STRANGER: usize = 2;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The device may connect.
    Device,
    /// The device is not approved.
    Stranger,
}

/// The open connections, by address.
#[derive(Debug, Default)]
struct Taken {
    devices: BTreeMap<IpAddr, usize>,
    strangers: BTreeMap<IpAddr, usize>,
}

impl Taken {
    fn of(&mut self, admission: Admission) -> &mut BTreeMap<IpAddr, usize> {
        match admission {
            Admission::Device => &mut self.devices,
            Admission::Stranger => &mut self.strangers,
        }
    }
}

/// All places. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, if one is free.
    pub(super) fn take(&self, address: IpAddr, admission: Admission) -> Option<Place> {
        let (all, each) = match admission {
            Admission::Device => (DEVICES, PER_DEVICE),
            Admission::Stranger => (STRANGERS, PER_STRANGER),
        };
        let mut taken = self.taken();
        let here = taken.of(admission);
        let own = here.get(&address).copied().unwrap_or(0);
        if own >= each || here.values().sum::<usize>() >= all {
            return None;
        }
        here.insert(address, own + 1);
        Some(Place { places: self.clone(), address, admission })
    }
}

/// A place that is taken until this value is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    address: IpAddr,
    admission: Admission,
}

impl Place {
    /// The kind of device it was given to.
    pub(super) fn admission(&self) -> Admission {
        self.admission
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        let here = taken.of(self.admission);
        if let Some(own) = here.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                here.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u8) -> IpAddr {
        IpAddr::from([192, 168, 1, number])
    }

    #[test]
    fn one_address_has_only_so_many_places_and_all_together_too() {
        for (admission, all, each) in
            [(Admission::Device, DEVICES, PER_DEVICE), (Admission::Stranger, STRANGERS, PER_STRANGER)]
        {
            let places = Places::default();
            let mut held = Vec::new();
            for number in 1..=(all / each) as u8 {
                held.extend((0..each).map(|_| places.take(ip(number), admission).unwrap()));
                assert!(places.take(ip(number), admission).is_none(), "{admission:?}");
            }
            assert!(places.take(ip(99), admission).is_none(), "{admission:?}: all are taken");
            drop(held.pop());
            assert!(places.take(ip(99), admission).is_some());
            drop(held);
            assert!(places.taken().of(admission).is_empty(), "nothing is kept of those who left");
        }
    }

    #[test]
    fn strangers_take_no_place_of_a_device() {
        let places = Places::default();
        let crowd: Vec<_> =
            (0..=255).filter_map(|number| places.take(ip(number), Admission::Stranger)).collect();
        assert_eq!(crowd.len(), STRANGERS);
        let place = places.take(ip(0), Admission::Device).unwrap();
        assert_eq!(place.admission(), Admission::Device);
    }
}
