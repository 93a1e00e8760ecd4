//! The file with the owner's secret: mode 0600, ours alone, never a symbolic link, never half written.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use portolan_core::Refusal;
use rustix::fs::OFlags;

use super::secret::{Secret, SecretKind};

/// A longer file is not a token of ours.
const MAX_FILE: u64 = 1024;

/// Why the owner's token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnerFileError {
    /// The path is a link, a folder or a device.
    #[error("`{}` is a link, or not a regular file; remove it and start again to get a new token", .0.display())]
    NotAFile(PathBuf),
    /// The file belongs to another user.
    #[error("`{}` belongs to another user (uid {uid}); remove it and start again to get a new token", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The file's owner.
        uid: u32,
    },
    /// Others can read the file.
    #[error("others can read the token in `{}` (mode {mode:04o}); run `chmod 600` on the file, or remove the file and start again to get a new token", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The file's mode.
        mode: u32,
    },
    /// The file holds something else.
    #[error("`{}` holds no Portolan token; remove it and start again to get a new token", .0.display())]
    NoToken(PathBuf),
    /// The file cannot be read or written.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The store refuses the token.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The secret in the file; created if there is no file.
pub(super) fn read_or_create(path: &Path) -> Result<Secret, OwnerFileError> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    let secret = Secret::random(SecretKind::Token)?;
    let fresh = write_beside(path, &secret)?;
    // A link, not a rename: if another process was faster, its file stays and is read.
    let linked = std::fs::hard_link(&fresh, path);
    let removed = std::fs::remove_file(&fresh);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return read(path)?.ok_or_else(|| OwnerFileError::NoToken(path.to_owned()));
        }
        Err(source) => return Err(OwnerFileError::Io { path: path.to_owned(), source }),
    }
    removed.map_err(|source| OwnerFileError::Io { path: fresh, source })?;
    Ok(secret)
}

/// Replaces the old secret, at once and whole.
pub(super) fn replace(path: &Path, secret: &Secret) -> Result<(), OwnerFileError> {
    let fresh = write_beside(path, secret)?;
    std::fs::rename(&fresh, path).map_err(|source| OwnerFileError::Io { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Option<Secret>, OwnerFileError> {
    let io = |source| OwnerFileError::Io { path: path.to_owned(), source };
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The error of `open` for a link that it must not follow.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(OwnerFileError::NotAFile(path.to_owned()));
        }
        Err(error) => return Err(io(error)),
    };
    check(path, &file)?;
    let mut text = String::new();
    // Bytes that are not text are not a token either.
    if let Err(error) = (&mut file).take(MAX_FILE).read_to_string(&mut text) {
        return match error.kind() {
            io::ErrorKind::InvalidData => Err(OwnerFileError::NoToken(path.to_owned())),
            _ => Err(io(error)),
        };
    }
    match Secret::parse(SecretKind::Token, text.trim()) {
        Some(secret) => Ok(Some(secret)),
        None => Err(OwnerFileError::NoToken(path.to_owned())),
    }
}

/// Checks the open file, not the path: nothing can replace it in between.
fn check(path: &Path, file: &File) -> Result<(), OwnerFileError> {
    let path = || path.to_owned();
    let meta = file.metadata().map_err(|source| OwnerFileError::Io { path: path(), source })?;
    let mode = meta.mode() & 0o7777;
    if !meta.is_file() {
        return Err(OwnerFileError::NotAFile(path()));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(OwnerFileError::Foreign { path: path(), uid: meta.uid() });
    }
    if mode & 0o077 != 0 {
        return Err(OwnerFileError::Open { path: path(), mode });
    }
    Ok(())
}

fn write_beside(path: &Path, secret: &Secret) -> Result<PathBuf, OwnerFileError> {
    let fresh = private_name(path);
    let text = format!("{}\n", secret.expose());
    write_private(&fresh, text.as_bytes())
        .map_err(|source| OwnerFileError::Io { path: fresh.clone(), source })?;
    Ok(fresh)
}

/// A name in the same folder that nobody can guess.
pub(super) fn private_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    name.into()
}

/// Creates a file that only we can read; the file must not exist.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_file_is_made_once_with_mode_0600_and_read_after_that() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let first = read_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(read_or_create(&path).unwrap().expose(), first.expose());
        let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["token"], "nothing else is left in the folder");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        read_or_create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_or_create(&path).unwrap_err();
        assert!(matches!(error, OwnerFileError::Open { mode: 0o640, .. }), "{error}");
        assert!(error.to_string().contains("chmod 600"));
    }

    #[test]
    fn a_link_or_a_folder_in_its_place_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("token"));
        read_or_create(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(matches!(read_or_create(&link).unwrap_err(), OwnerFileError::NotAFile(_)));
        assert!(matches!(read_or_create(home.path()).unwrap_err(), OwnerFileError::NotAFile(_)));
        let dangling = home.path().join("dangling");
        symlink(home.path().join("nowhere"), &dangling).unwrap();
        assert!(matches!(read_or_create(&dangling).unwrap_err(), OwnerFileError::NotAFile(_)));
    }

    #[test]
    fn a_file_with_something_else_in_it_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for (name, bytes) in
            [("empty", &b""[..]), ("text", b"hello"), ("binary", b"\xff\xfe"), ("long", &[b'a'; 9000])]
        {
            let path = home.path().join(name);
            write_private(&path, bytes).unwrap();
            assert!(matches!(read_or_create(&path).unwrap_err(), OwnerFileError::NoToken(_)), "{name}");
        }
    }

    #[test]
    fn a_new_secret_replaces_the_old_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let old = read_or_create(&path).unwrap();
        let new = Secret::random(SecretKind::Token).unwrap();
        replace(&path, &new).unwrap();
        let now = read_or_create(&path).unwrap();
        assert_eq!(now.expose(), new.expose());
        assert_ne!(now.expose(), old.expose());
    }
}
