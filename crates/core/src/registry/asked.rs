//! Which commands a session was ever given, as long as that is easily told.
//!
//! A command whose id was used before must not be done again, and what was used before is in the store. To ask there takes
//! longer than all else that a command needs. A session that was made since the daemon started and has seen few commands can say
//! by itself that an id is new, and most are.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::command::CommandKey;

/// So many ids are kept per session, some 20 KiB of them. After that the store is asked.
const KEPT: usize = 256;

/// The ids of all commands, or none where there were too many.
#[derive(Debug)]
pub(crate) struct Asked(Mutex<Option<HashSet<CommandKey>>>);

impl Asked {
    /// Of a session that was never given a command.
    pub(crate) fn nothing() -> Self {
        Self(Mutex::new(Some(HashSet::new())))
    }

    /// Of a session whose past is in the store.
    pub(crate) fn unknown() -> Self {
        Self(Mutex::new(None))
    }

    /// Notes the command. `true` when it was certainly never given before.
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
    fn an_id_is_new_once_and_after_too_many_of_them_nobody_knows() {
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
