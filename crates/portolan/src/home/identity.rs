//! Who a home is: `identity.json` holds a key that marks the processes of this home's agents, and an incarnation, which is
//! another one after the home's history was replaced. A path would not do: a home is moved, copied and restored.
//!
//! | what happened | key | incarnation |
//! |---|---|---|
//! | the folder was moved on its disk | stays | stays |
//! | the folder was copied, and the original is still there | new | new |
//! | the folder was moved to another disk | new; the old one is swept once more | new |
//! | the database was replaced, as by a backup | stays | new |

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{Home, replace, unusable};
use crate::failure::Outcome;

/// What identity.json says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Marks the processes of this home's agents.
    pub(crate) key: String,
    /// Another one means another history: numbers of entries from before it mean nothing.
    pub(crate) incarnation: String,
    /// Where the home was, so that a copy can look for its original.
    path: PathBuf,
    folder: FileId,
    /// Absent until the database was opened for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database: Option<FileId>,
}

/// Which file this is, whatever it is called.
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

/// Who the home is, and whom it may have been.
#[derive(Debug)]
pub(crate) struct Established {
    /// Who it is from now on.
    pub(crate) identity: Identity,
    /// The key of before, whose processes nobody else can end any more.
    pub(crate) former_key: Option<String>,
}

impl Identity {
    /// What the file says; `None` where there is none that can be read.
    pub(crate) fn read(home: &Home) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.identity()).ok()?).ok()
    }

    /// Finds out who the home is and writes it down. Only for who holds the home's lock.
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
                "this home was copied or restored; clients start from what is there now"
            );
        }
        if known.as_ref() != Some(&identity) {
            identity.write(home)?;
        }
        Ok(Established { identity, former_key })
    }

    /// The database is open, and so it is there.
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

    /// A start of the daemon: who it is, and the key of before.
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
    fn a_home_keeps_who_it_is_from_start_to_start_and_when_it_is_moved() {
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
    fn a_copy_is_somebody_else_and_leaves_the_processes_of_its_original_alone() {
        let folder = tempfile::tempdir().unwrap();
        let original = home(&folder.path().join("original"));
        let (identity, _) = start(&original);
        let copied = copy(&original, &folder.path().join("copy"));
        let (other, former) = start(&copied);
        assert!(other.key != identity.key && other.incarnation != identity.incarnation);
        assert_eq!(former, None, "the original is there, and ends its own");
        assert_eq!(start(&original).0, identity);
    }

    #[test]
    fn a_home_that_went_to_another_disk_ends_what_it_left_behind() {
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
    fn a_database_that_was_put_back_is_another_history() {
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
    fn a_file_that_cannot_be_read_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        fs::write(home.identity(), "{").unwrap();
        let (identity, _) = start(&home);
        assert_eq!(Identity::read(&home), Some(identity));
    }
}
