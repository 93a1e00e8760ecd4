//! The lock that lets only one daemon run per home. The system releases the lock however the process ends, so a held
//! lock means that a daemon runs.

use std::{
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    failure::{Failure, Outcome},
    home::{Home, Record, unusable},
};

/// How long a starting daemon retries: commands that only check the lock also hold it for a moment.
const PROBES: Duration = Duration::from_millis(200);

/// The lock, held by the one daemon of a home.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// Who holds the lock.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Its pid, if the process has written it already.
    pub(crate) pid: Option<u32>,
}

/// The result of an attempt to take the lock.
#[derive(Debug)]
pub(crate) enum Taken {
    /// This process has the lock.
    Ours(Lock),
    /// Another process has the lock.
    Held(Holder),
}

impl Lock {
    /// Takes the lock, or returns who holds it.
    pub(crate) fn take(home: &Home) -> Outcome<Taken> {
        let path = home.lock();
        let opened =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = opened.map_err(|error| unusable(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let written = file
                    .set_len(0)
                    .and_then(|()| file.rewind())
                    .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
                written.map_err(|error| unusable(&path, &error))?;
                Ok(Taken::Ours(Self { file }))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(Taken::Held(Holder { pid: pid_in(&mut file) })),
            Err(error) => Err(Failure::new(format!("`{}` cannot be locked: {error}", path.display()))),
        }
    }

    /// Takes the lock, or fails with an error that names the running daemon.
    pub(crate) fn take_or_explain(home: &Home) -> Outcome<Self> {
        let deadline = Instant::now() + PROBES;
        let holder = loop {
            match Self::take(home)? {
                Taken::Ours(lock) => return Ok(lock),
                Taken::Held(holder) if Instant::now() >= deadline => break holder,
                Taken::Held(_) => std::thread::sleep(PROBES / 20),
            }
        };
        let record = Record::read(home);
        let pid = holder.pid.or(record.as_ref().map(|record| record.pid));
        let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
        let at =
            record.map_or_else(|| "starting or stopping".to_owned(), |record| format!("at {}", record.url));
        Err(Failure::new(format!(
            "a daemon already runs for `{}` (pid {pid}, {at}); `portolan down` stops it",
            home.path().display()
        )))
    }

    /// Is the lock file in this home still the one that this process holds? Not if the home was removed or replaced.
    pub(crate) fn is_of(&self, home: &Home) -> bool {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let ours = self.file.metadata().map(identity);
        let there = std::fs::symlink_metadata(home.lock()).map(identity);
        matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
    }

    /// Who holds the lock of this home; `None` if nobody does. Checks by sharing the lock for a moment.
    pub(crate) fn holder(home: &Home) -> Option<Holder> {
        let mut file = File::open(home.lock()).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(Holder { pid: pid_in(&mut file) }),
            // Closing the file releases the lock.
            Ok(()) | Err(_) => None,
        }
    }
}

/// The pid that the holder wrote; an incomplete number is ignored.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file also unlocks; this makes it explicit.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 003-151
    #[test]
    fn only_one_process_holds_the_lock_and_the_error_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        assert!(Lock::holder(&home).is_none());
        let lock = Lock::take_or_explain(&home).unwrap();
        let error = Lock::take_or_explain(&home).unwrap_err();
        assert!(error.message.contains(&format!("(pid {}", std::process::id())), "{error}");
        assert_eq!(Lock::holder(&home).unwrap().pid, Some(std::process::id()));
        drop(lock);
        assert!(Lock::holder(&home).is_none());
        Lock::take_or_explain(&home).unwrap();
    }

    #[test]
    fn a_lock_knows_whether_its_home_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("home"));
        home.make().unwrap();
        let lock = Lock::take_or_explain(&home).unwrap();
        assert!(lock.is_of(&home));
        std::fs::rename(home.path(), folder.path().join("away")).unwrap();
        assert!(!lock.is_of(&home), "gone");
        home.make().unwrap();
        let newer = Lock::take_or_explain(&home).unwrap();
        assert!(!lock.is_of(&home) && newer.is_of(&home), "replaced");
    }

    #[test]
    fn checking_the_lock_does_not_prevent_a_daemon_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        drop(Lock::take_or_explain(&home).unwrap());
        let looking = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while looking.load(std::sync::atomic::Ordering::Relaxed) {
                        Lock::holder(&home);
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..20 {
                Lock::take_or_explain(&home).unwrap();
            }
            looking.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
