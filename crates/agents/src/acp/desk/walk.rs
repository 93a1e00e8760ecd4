//! The way to a file or a folder of a session: walked folder by folder, each opened beneath the one before it, no link
//! followed. Where a path leads was looked at before; whoever puts a link on the way after that look gets an error, and
//! never another place. A name that is opened is the thing itself from then on, whatever its path leads to later.

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

/// A folder to go on from. It need not be readable.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A pipe or a terminal does not make us wait.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The rights of what is made, less the user's mask: as any program makes it.
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

/// Opens a folder beneath another, and makes it where it is missing.
pub(super) fn folder_or_new(here: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(here, name, NEW_FOLDER) {
        // There already, or just now by somebody else: whatever it is, only a folder is opened.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(here, name, FOLDER, Mode::empty())?)
}

/// Opens a file in a folder, to read or to write as `how` says; nothing where it is no plain file.
pub(super) fn file(here: &OwnedFd, name: &OsStr, how: OFlags) -> io::Result<Option<File>> {
    let file = match openat(here, name, how | FILE, NEW_FILE) {
        Ok(file) => File::from(file),
        // A folder, or a pipe that nobody reads, opened to write.
        Err(Errno::ISDIR | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// A link, or something else that is no folder, was met on the way.
pub(super) fn is_blocked(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NOTDIR))
}
