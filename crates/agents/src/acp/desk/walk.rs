//! The path to a file or a folder of a session: walked folder by folder, each opened beneath the previous one, without
//! following links. The path was checked before; anyone who adds a link after that check gets an error, and never
//! another place. An opened name stays the same thing from then on, wherever its path leads later.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::Errno,
};

/// A folder on the path. It need not be readable.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A pipe or a terminal does not block the caller.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The rights of new files and folders, less the user's mask: as with any program.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// Opens a folder by its real path, which is absolute and has no links.
pub(super) fn folder(real: &Path) -> io::Result<OwnedFd> {
    let mut here = openat(CWD, "/", FOLDER, Mode::empty())?;
    for part in real.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => here = openat(&here, name, FOLDER, Mode::empty())?,
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(here)
}

/// Opens a folder beneath another, and makes it if it is missing.
pub(super) fn folder_or_new(here: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(here, name, NEW_FOLDER) {
        // It exists, or somebody else just made it: only a folder is opened in any case.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(here, name, FOLDER, Mode::empty())?)
}

/// Opens a file in a folder, to read or to write as `how` says; returns nothing if it is not a plain file.
pub(super) fn file(here: &OwnedFd, name: &OsStr, how: OFlags) -> io::Result<Option<File>> {
    let file = match openat(here, name, how | FILE, NEW_FILE) {
        Ok(file) => File::from(file),
        // A folder, or a pipe without a reader, opened to write.
        Err(Errno::ISDIR | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The path contains a link, or something else that is not a folder.
pub(super) fn is_blocked(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NOTDIR))
}
