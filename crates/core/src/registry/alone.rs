//! Something that only one caller at a time may do, such as an import of one conversation. A second caller is refused and
//! comes back later: it then finds what the first one made.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use crate::Refusal;

/// What is being done now, by its key.
pub(super) type Doing<K> = Mutex<HashSet<K>>;

/// When a refused caller should try again, in milliseconds: most such work is done sooner.
const TRY_AGAIN: u32 = 250;

/// The right to do what the key names, until this is dropped.
pub(super) struct Alone<'a, K: Eq + Hash> {
    doing: &'a Doing<K>,
    key: K,
}

impl<'a, K: Clone + Eq + Hash> Alone<'a, K> {
    /// Refused, with this text, while another caller has the right.
    pub(super) fn enter(doing: &'a Doing<K>, key: &K, busy: &str) -> Result<Self, Refusal> {
        if !doing.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            return Err(Refusal::busy(busy, TRY_AGAIN));
        }
        Ok(Self { doing, key: key.clone() })
    }
}

impl<K: Eq + Hash> Drop for Alone<'_, K> {
    fn drop(&mut self) {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_caller_is_refused_until_the_first_is_done() {
        let doing = Doing::default();
        let first = Alone::enter(&doing, &1, "busy");
        assert!(first.is_ok());
        assert_eq!(Alone::enter(&doing, &1, "busy").err(), Some(Refusal::busy("busy", TRY_AGAIN)));
        assert!(Alone::enter(&doing, &2, "busy").is_ok(), "another key");
        drop(first);
        assert!(Alone::enter(&doing, &1, "busy").is_ok());
    }
}
