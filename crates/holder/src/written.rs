//! What the files say about a holder that does not answer: its process, and since when it holds the session.

use std::time::UNIX_EPOCH;

use portolan_core::SessionId;

use crate::RunFolder;

/// What a holder wrote down when it took the session's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The holder's process.
    pub holder_pid: Option<u32>,
    /// When it took the lock, in milliseconds since 1970.
    pub since_ms: Option<i64>,
}

impl RunFolder {
    /// What the session's holder wrote down. Only a living holder makes it true: look at
    /// [`Holders::living`](crate::Holders::living) first.
    pub fn written(&self, session: SessionId) -> Written {
        let lock = self.lock(session);
        // A holder that has just taken the lock has written nothing yet.
        let holder_pid = std::fs::read_to_string(&lock).ok().and_then(|text| text.trim().parse().ok());
        let changed = std::fs::metadata(&lock).and_then(|file| file.modified()).ok();
        let since = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let since_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        Written { holder_pid, since_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;

    #[test]
    fn a_lock_says_who_holds_it_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let (run, session) = (RunFolder::at(folder.path()), SessionId::from_u128(7));
        assert_eq!(run.written(session), Written::default());
        std::fs::write(run.lock(session), "").unwrap();
        assert_eq!(run.written(session).holder_pid, None, "taken, and not yet written");
        let _lock = Lock::take(&run.lock(session)).unwrap().unwrap();
        let Written { holder_pid, since_ms } = run.written(session);
        assert_eq!(holder_pid, Some(std::process::id()));
        let now = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
        assert!((0..60_000).contains(&(now - since_ms.unwrap())), "{since_ms:?} is not now");
    }
}
