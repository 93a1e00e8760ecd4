//! The ids of all commands that a session ever got, while they are few.
//!
//! A command whose id was used before must not run again, and used ids are in the store. Asking the store takes longer
//! than everything else that a command needs. A session that was created since the daemon started and has seen few
//! commands knows without the store that an id is new, and most ids are new.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::command::CommandKey;

/// The number of ids kept per session, about 20 KiB. Beyond that the store is asked.
const KEPT: usize = 256;

/// The ids of all commands; `None` if there were too many.
#[derive(Debug)]
pub(crate) struct Asked(Mutex<Option<HashSet<CommandKey>>>);

impl Asked {
    /// For a session that never got a command.
    pub(crate) fn nothing() -> Self {
        Self(Mutex::new(Some(HashSet::new())))
    }

    /// For a session whose earlier commands are in the store.
    pub(crate) fn unknown() -> Self {
        Self(Mutex::new(None))
    }

    /// Remembers the command. `true` if the command is certainly new.
    pub(crate) fn is_new(&self, key: &CommandKey) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = &mut *asked else { return false };
        let new = keys.insert(key.clone());
        if keys.len() > KEPT {
            *asked = None;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> CommandKey {
        CommandKey { token: "t".parse().unwrap(), id: number.to_string().parse().unwrap() }
    }

    #[test]
    fn an_id_is_new_once_and_unknown_after_too_many_ids() {
        let asked = Asked::nothing();
        let news: Vec<_> = [1, 2, 1].map(|number| asked.is_new(&key(number))).into();
        assert_eq!(news, [true, true, false]);
        for number in 3..=KEPT {
            assert!(asked.is_new(&key(number)));
        }
        assert!(asked.is_new(&key(1_000)));
        assert!(!asked.is_new(&key(1_001)), "it may be one of those that were forgotten");
        assert!(!Asked::unknown().is_new(&key(1)));
    }
}
