//! The lock of a session: whoever has it may start the session's agent, and only who gets it may call a holder dead.
//!
//! The system releases the lock however its process ends, so a held lock means a living holder.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

/// How long a starting holder retries: who only looks whether a holder lives has the lock for a moment.
const LOOKS: Duration = Duration::from_millis(500);

/// Between two tries.
const BETWEEN: Duration = Duration::from_millis(5);

/// A lock that this process has. The file is closed in every program that this process starts.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The result of an attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// This process has the lock.
    Ours(Lock),
    /// Another process has the lock.
    Held,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(crate) fn attempt(path: &Path) -> io::Result<Attempt> {
        loop {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Attempt::Held),
                Err(error) => return Err(error.into()),
            }
            // The last holder removes the file while it has the lock: then this is the lock of no file.
            let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
            let there = std::fs::symlink_metadata(path).map(identity);
            if matches!((file.metadata().map(identity), there), (Ok(ours), Ok(there)) if ours == there) {
                return Ok(Attempt::Ours(Self { _file: file }));
            }
        }
    }

    /// Takes the lock for a holder, and writes this process' number into it. `None` if another holder lives.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let began = std::time::Instant::now();
        loop {
            match Self::attempt(path)? {
                Attempt::Ours(Self { _file: mut file }) => {
                    file.set_len(0)?;
                    file.rewind()?;
                    file.write_all(std::process::id().to_string().as_bytes())?;
                    return Ok(Some(Self { _file: file }));
                }
                Attempt::Held if began.elapsed() >= LOOKS => return Ok(None),
                Attempt::Held => std::thread::sleep(BETWEEN),
            }
        }
    }

    /// Whether a holder lives. Leaves no file behind.
    pub(crate) fn is_held(path: &Path) -> bool {
        let Ok(file) = File::options().read(true).write(true).open(path) else { return false };
        matches!(flock(&file, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
    }
}
