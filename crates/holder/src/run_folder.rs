//! The folder with the files of all holders: for each session a lock, a spool and a socket.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use portolan_core::SessionId;

const LOCK: &str = "lock";
const SPOOL: &str = "spool";
const LOG: &str = "log";

/// A spool that is being shortened.
const SPOOL_NEW: &str = "spool-new";

/// The folder `run` in the home folder.
#[derive(Clone, Debug)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// The folder at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Creates the folder, for its owner alone, also if it exists already.
    pub fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        if fs::metadata(&self.0)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn lock(&self, session: SessionId) -> PathBuf {
        self.0.join(format!("{session}.{LOCK}"))
    }

    pub(crate) fn spool(&self, session: SessionId) -> PathBuf {
        self.0.join(format!("{session}.{SPOOL}"))
    }

    /// A spool that is being shortened; it takes the place of the other when it is whole.
    pub(crate) fn next_spool(&self, session: SessionId) -> PathBuf {
        self.0.join(format!("{session}.{SPOOL_NEW}"))
    }

    /// What the holder writes about itself.
    pub(crate) fn log(&self, session: SessionId) -> PathBuf {
        self.0.join(format!("{session}.{LOG}"))
    }

    /// The socket. Its name is short, because the address of a socket has room for 108 bytes: the last twelve digits of
    /// the session's id, which are random.
    pub(crate) fn socket(&self, session: SessionId) -> PathBuf {
        let id = session.to_string();
        self.0.join(&id[id.len().saturating_sub(12)..])
    }

    /// The sessions that have a lock file or a spool here.
    pub fn sessions(&self) -> Vec<SessionId> {
        let mut found: Vec<SessionId> = fs::read_dir(&self.0)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|file| {
                let name = file.file_name();
                let (session, kind) = name.to_str()?.split_once('.')?;
                [LOCK, SPOOL, SPOOL_NEW].contains(&kind).then(|| session.parse().ok())?
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// Removes the files of a session. The caller has the session's lock.
    pub(crate) fn clear(&self, session: SessionId) {
        // The lock goes last: without it another holder may begin.
        let files = [Self::socket, Self::spool, Self::next_spool, Self::log, Self::lock];
        for file in files.map(|file| file(self, session)) {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(file = %file.display(), %error, "a file of a holder could not be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
}
