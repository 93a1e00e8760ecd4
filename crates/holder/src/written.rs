//! What the files say about a holder that does not answer: its process, and since when it holds the session.

use std::time::UNIX_EPOCH;

use portolan_core::SessionId;

use crate::{RunFolder, lock::Lock};

/// What a holder wrote down when it took the session's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The holder's process.
    pub holder_pid: Option<u32>,
    /// When it took the lock, in milliseconds since 1970.
    pub since_ms: Option<i64>,
}

impl RunFolder {
    /// What the session's holder wrote down; nothing if no holder lives.
    pub fn written(&self, session: SessionId) -> Written {
        let lock = self.lock(session);
        if !Lock::is_held(&lock) {
            return Written::default();
        }
        let changed = std::fs::metadata(&lock).and_then(|file| file.modified()).ok();
        let since = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let since_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        Written { holder_pid: Lock::owner(&lock), since_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_says_who_holds_it_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let (run, session) = (RunFolder::at(folder.path()), SessionId::from_u128(7));
        assert_eq!(run.written(session), Written::default());
        let lock = Lock::take(&run.lock(session)).unwrap().unwrap();
        let Written { holder_pid, since_ms } = run.written(session);
        assert_eq!(holder_pid, Some(std::process::id()));
        let now = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
        assert!((0..60_000).contains(&(now - since_ms.unwrap())), "{since_ms:?} is not now");
        drop(lock);
        assert_eq!(run.written(session), Written::default(), "the holder is dead");
    }
}
