//! The identity of a home: `identity.json` holds a key that marks the processes of this home's agents, and an
//! incarnation, which changes when the home's history is replaced. A path cannot identify a home, because homes are
//! moved, copied and restored.
//!
//! | what happened | key | incarnation |
//! |---|---|---|
//! | the folder was moved on its disk | stays | stays |
//! | the folder was copied, and the original still exists | new | new |
//! | the folder was moved to another disk | new; processes with the old key are ended once more | new |
//! | the database was replaced, as by a backup | stays | new |

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{Home, replace, unusable};
use crate::failure::Outcome;

/// The content of identity.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Marks the processes of this home's agents.
    pub(crate) key: String,
    /// A new incarnation means a new history: entry numbers from an earlier incarnation mean nothing.
    pub(crate) incarnation: String,
    /// The path of the home, so that a copy can look for its original.
    path: PathBuf,
    folder: FileId,
    /// Absent until the database is opened for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database: Option<FileId>,
}

/// Identifies a file whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &std::path::Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self { device: file.dev(), inode: file.ino() })
    }
}

/// The identity of the home, and the key that it had before.
#[derive(Debug)]
pub(crate) struct Established {
    /// The identity from now on.
    pub(crate) identity: Identity,
    /// The earlier key. Only this home can still end the processes with that key.
    pub(crate) former_key: Option<String>,
}

impl Identity {
    /// Reads the file; `None` if the file is missing or cannot be read.
    pub(crate) fn read(home: &Home) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.identity()).ok()?).ok()
    }

    /// Determines the identity of the home and writes it to the file. The caller must hold the home's lock.
    pub(crate) fn establish(home: &Home) -> Outcome<Established> {
        let path = home.path().canonicalize().map_err(|error| unusable(home.path(), &error))?;
        let folder = FileId::of(&path)
            .ok_or_else(|| unusable(home.path(), &std::io::Error::from(std::io::ErrorKind::NotFound)))?;
        let database = FileId::of(&home.database());
        let known = Self::read(home);
        let new = |key| Self { key, incarnation: random(), path: path.clone(), folder, database };
        let (identity, former_key) = match known.clone() {
            None => (new(random()), None),
            Some(known) if known.folder != folder => {
                let original = Self::read(&Home(known.path.clone()));
                let is_there = original.is_some_and(|original| original.key == known.key);
                (new(random()), (!is_there).then_some(known.key))
            }
            Some(known) if known.database.is_some() && known.database != database => (new(known.key), None),
            Some(known) => (Self { path: path.clone(), ..known }, None),
        };
        if known.as_ref().is_some_and(|known| known.incarnation != identity.incarnation) {
            tracing::warn!(
                incarnation = identity.incarnation,
                "this home was copied or restored; clients start again from its current state"
            );
        }
        if known.as_ref() != Some(&identity) {
            identity.write(home)?;
        }
        Ok(Established { identity, former_key })
    }

    /// Records the database file; call this when the database is open.
    pub(crate) fn keep_database(&mut self, home: &Home) -> Outcome {
        let database = FileId::of(&home.database());
        if self.database == database {
            return Ok(());
        }
        self.database = database;
        self.write(home)
    }

    fn write(&self, home: &Home) -> Outcome {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&home.identity(), &text).map_err(|error| unusable(home.path(), &error))
    }
}

fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn home(path: &Path) -> Home {
        fs::create_dir_all(path).unwrap();
        Home::at(path)
    }

    /// A start of the daemon: its identity, and the earlier key.
    fn start(home: &Home) -> (Identity, Option<String>) {
        let Established { mut identity, former_key } = Identity::establish(home).unwrap();
        if !home.database().exists() {
            fs::write(home.database(), "database").unwrap();
        }
        identity.keep_database(home).unwrap();
        (identity, former_key)
    }

    fn copy(from: &Home, to: &Path) -> Home {
        let copy = home(to);
        for file in fs::read_dir(from.path()).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        copy
    }

    #[test]
    fn a_home_keeps_its_identity_across_starts_and_moves() {
        let folder = tempfile::tempdir().unwrap();
        let first = home(&folder.path().join("first"));
        let (identity, _) = start(&first);
        assert_eq!(start(&first), (identity.clone(), None));
        let moved = folder.path().join("moved");
        fs::rename(first.path(), &moved).unwrap();
        let (again, former) = start(&Home::at(&moved));
        assert_eq!((again.key, again.incarnation, former), (identity.key, identity.incarnation, None));
        assert_ne!(start(&home(&folder.path().join("other"))).0.key, start(&Home::at(&moved)).0.key);
    }

    #[test]
    fn a_copy_gets_a_new_identity_and_does_not_end_the_processes_of_its_original() {
        let folder = tempfile::tempdir().unwrap();
        let original = home(&folder.path().join("original"));
        let (identity, _) = start(&original);
        let copied = copy(&original, &folder.path().join("copy"));
        let (other, former) = start(&copied);
        assert!(other.key != identity.key && other.incarnation != identity.incarnation);
        assert_eq!(former, None, "the original exists, and ends its own processes");
        assert_eq!(start(&original).0, identity);
    }

    #[test]
    fn a_home_that_moved_to_another_disk_ends_its_old_processes() {
        let folder = tempfile::tempdir().unwrap();
        let original = home(&folder.path().join("original"));
        let (identity, _) = start(&original);
        let copied = copy(&original, &folder.path().join("copy"));
        fs::remove_dir_all(original.path()).unwrap();
        let (other, former) = start(&copied);
        assert_ne!(other.key, identity.key);
        assert_eq!(former, Some(identity.key));
        assert_eq!(start(&copied).1, None, "once");
    }

    #[test]
    fn a_restored_database_is_a_new_history() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let (identity, _) = start(&home);
        fs::copy(home.database(), folder.path().join("backup")).unwrap();
        fs::rename(folder.path().join("backup"), home.database()).unwrap();
        let (restored, former) = start(&home);
        assert_eq!((&restored.key, former), (&identity.key, None));
        assert_ne!(restored.incarnation, identity.incarnation);
        assert_eq!(start(&home).0, restored);
    }

    #[test]
    fn an_identity_file_that_cannot_be_read_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        fs::write(home.identity(), "{").unwrap();
        let (identity, _) = start(&home);
        assert_eq!(Identity::read(&home), Some(identity));
    }
}
