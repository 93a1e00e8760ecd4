//! The home folder with all files of Portolan, and the file that shows where the running daemon is.
//!
//! Defines the names and modes of the files in the folder. The folder is 0700, the token 0600: anyone who can read them
//! has the owner's rights.

pub(crate) mod identity;

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure, Outcome};

/// The variable that names the home folder.
pub(crate) const HOME_VARIABLE: &str = "PORTOLAN_HOME";

/// The home folder.
#[derive(Clone, Debug)]
pub(crate) struct Home(PathBuf);

impl Home {
    /// The folder that PORTOLAN_HOME names, otherwise the folder `portolan` in the platform's data folder.
    pub(crate) fn find() -> Outcome<Self> {
        if let Some(named) = std::env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty()) {
            let path = PathBuf::from(named);
            let absolute = std::path::absolute(&path)
                .map_err(|error| Failure::usage(format!("{HOME_VARIABLE} `{}`: {error}", path.display())))?;
            return Ok(Self(absolute));
        }
        directories::ProjectDirs::from("", "", "portolan")
            .map(|found| Self(found.data_dir().to_path_buf()))
            .ok_or_else(|| {
                Failure::usage(format!("this user has no home folder; set {HOME_VARIABLE} to a folder"))
            })
    }

    /// A home folder at this path, for tests.
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// The home whose folder `run` is the working folder. A relative path stays right if the home is moved.
    pub(crate) fn above_working_folder() -> Self {
        Self(PathBuf::from(".."))
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
    /// The configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.0.join("portolan.toml")
    }
    /// The database with the logs of all sessions.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("portolan.db")
    }
    /// The owner's token.
    pub(crate) fn token(&self) -> PathBuf {
        self.0.join("token")
    }
    /// The file that says where the running daemon is.
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("daemon.json")
    }
    /// The identity of this home.
    pub(crate) fn identity(&self) -> PathBuf {
        self.0.join("identity.json")
    }
    /// The lock file of the one daemon of this home.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("daemon.lock")
    }
    /// The Unix socket of the daemon.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("daemon.sock")
    }
    /// Files that redirect a browser to a one-time link.
    pub(crate) fn links(&self) -> PathBuf {
        self.0.join("links")
    }
    /// The folder with the files of the processes that hold agents.
    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }
    /// The folder for logs of a daemon in the background.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }
    /// The daemon's log.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.logs().join("daemon.log")
    }

    /// Creates the folder, for its owner alone. A folder that exists and is open to others is closed, if it is a home
    /// folder.
    pub(crate) fn make(&self) -> Outcome {
        make_folder(&self.0)?;
        let wrong = |error: io::Error| unusable(&self.0, &error);
        if fs::metadata(&self.0).map_err(wrong)?.permissions().mode().trailing_zeros() >= 6 {
            return Ok(());
        }
        let ours = ["portolan.toml", "portolan.db", "token"].iter().any(|name| self.0.join(name).exists());
        if !ours && fs::read_dir(&self.0).map_err(wrong)?.next().is_some() {
            return Err(Failure::usage(format!(
                "`{}` holds other files and is open to other users; set {HOME_VARIABLE} to another folder",
                self.0.display()
            )));
        }
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)).map_err(wrong)
    }

    /// Creates the folder for logs.
    pub(crate) fn make_logs(&self) -> Outcome {
        make_folder(&self.logs())
    }
}

fn make_folder(path: &Path) -> Outcome {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| unusable(path, &error))
}

/// The error for a home folder that cannot be used, with the way out.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure {
        exit: Exit::Failed,
        message: format!(
            "`{}` cannot be written: {error}; make the folder writable, or set {HOME_VARIABLE} to another folder",
            path.display()
        ),
    }
}

/// The content of daemon.json: where the running daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its process id.
    pub(crate) pid: u32,
    /// Its URL.
    pub(crate) url: String,
    /// The address it listens on. The address may stand for all addresses of the machine.
    #[serde(default)]
    pub(crate) listen: String,
    /// Its version.
    pub(crate) version: String,
    /// When it started; RFC 3339.
    pub(crate) started_at: String,
    /// Its last sign of life; RFC 3339.
    pub(crate) heartbeat_at: String,
    /// The options with which it was started, so that a restart can repeat them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) options: Vec<String>,
}

impl Record {
    /// Reads the file; `None` if the file is missing or cannot be read.
    pub(crate) fn read(home: &Home) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.record()).ok()?).ok()
    }

    /// Replaces the file in one step, so that no reader ever sees half of it.
    pub(crate) fn write(&self, home: &Home) -> Outcome {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&home.record(), &text).map_err(|error| unusable(home.path(), &error))
    }
}

/// Writes a file of mode 0600 next to `path` and renames it to `path`.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    // Remove what a killed process left behind, or a link to another file; never write into it.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(&beside, path)
}

/// Removes a file that may not exist.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file could not be removed");
    }
}

/// The time in RFC 3339, always with three decimals so that columns stay aligned.
pub(crate) fn rfc3339(at: portolan_core::Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0).map(|time| format!("{time:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_open_the_home_folder() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("deep/home"));
        home.make().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.path()), 0o700);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        home.make().unwrap();
        assert_eq!(mode(home.path()), 0o700, "a folder that was open to others is closed");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(home.path().join("someone's"), "").unwrap();
        assert_eq!(
            home.make().unwrap_err().exit,
            Exit::Usage,
            "a folder with other files in it is not touched"
        );
        assert_eq!(mode(home.path()), 0o755);
        fs::write(home.config(), "").unwrap();
        home.make().unwrap();
        assert_eq!(mode(home.path()), 0o700);
    }

    #[test]
    fn a_file_is_never_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file.json"), folder.path().join("other"));
        fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, path.with_extension("new")).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // covers: 003-154
    #[test]
    fn the_record_of_the_daemon_reads_back_and_has_its_fields() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        assert_eq!(Record::read(&home), None);
        let record = Record {
            pid: 7,
            url: "http://127.0.0.1:7420".into(),
            listen: "127.0.0.1:7420".into(),
            version: "1.2.3".into(),
            started_at: rfc3339(portolan_core::Millis(0)),
            heartbeat_at: rfc3339(portolan_core::Millis(10_000)),
            options: Vec::new(),
        };
        record.write(&home).unwrap();
        let text: serde_json::Value = serde_json::from_slice(&fs::read(home.record()).unwrap()).unwrap();
        assert_eq!(
            text,
            serde_json::json!({
                "pid": 7, "url": "http://127.0.0.1:7420", "listen": "127.0.0.1:7420", "version": "1.2.3",
                "started_at": "1970-01-01T00:00:00.000Z", "heartbeat_at": "1970-01-01T00:00:10.000Z",
            })
        );
        assert_eq!(Record::read(&home), Some(record));
        fs::write(home.record(), "{half").unwrap();
        assert_eq!(Record::read(&home), None, "half a file is not a record");
    }
}
