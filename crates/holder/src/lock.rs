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

/// How long a starting holder retries: a daemon that looks after a dead holder has the lock for a moment.
const LOOKS: Duration = Duration::from_millis(500);

/// How often a lock is tried that only lookers share. A look takes microseconds.
const LOOKERS: u32 = 100;

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
        let mut lookers = 0;
        loop {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
            if !try_lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                // A holder shares its lock with nobody. Those who only look share it among each other, for a moment.
                if lookers >= LOOKERS || !try_lock(&file, FlockOperation::NonBlockingLockShared)? {
                    return Ok(Attempt::Held);
                }
                lookers += 1;
                drop(file);
                std::thread::sleep(BETWEEN);
                continue;
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

    /// Whether a holder lives. Leaves no file behind, and is in nobody's way who looks too. If this cannot be known, a
    /// holder lives: nobody may end what belongs to a living holder.
    pub(crate) fn is_held(path: &Path) -> bool {
        match File::options().read(true).write(true).open(path) {
            Ok(file) => !try_lock(&file, FlockOperation::NonBlockingLockShared).unwrap_or(false),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// The process that wrote its number into the lock, if a holder lives.
    pub(crate) fn owner(path: &Path) -> Option<u32> {
        if !Self::is_held(path) {
            return None;
        }
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// `false`: somebody else has the lock.
fn try_lock(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
