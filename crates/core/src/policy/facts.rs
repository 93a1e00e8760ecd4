//! Facts: what policy must know of the disk, gathered beforehand by [`resolve`](super::resolve).

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::rule::{Identity, RuleScope};

/// Where a path that a call names leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where it really lies. There are two places if `..` behind a link can be read in two ways.
    pub lies: Vec<PathBuf>,
    /// It is a file with one name, or no file yet: nothing else is changed by writing to it.
    pub is_ordinary: bool,
}

/// What is known of the disk at the moment of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The session's folder, with every link followed.
    pub folder: PathBuf,
    /// The user's home folder, with every link followed.
    pub home: Option<PathBuf>,
    /// Portolan's own folders.
    pub own: Vec<PathBuf>,
    /// The paths that the call names, as the call names them. A path that could not be resolved is missing.
    pub places: BTreeMap<String, Place>,
    /// The session's folder and every folder above it, with what identifies each.
    pub above: Vec<(PathBuf, Identity)>,
    /// The disk did not answer: `above` is what an earlier look found, or empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl Facts {
    /// Is this real path below the session's folder?
    pub fn is_inside(&self, path: &Path) -> bool {
        !self.folder.as_os_str().is_empty() && path.starts_with(&self.folder)
    }

    /// Is this real path one of Portolan's own?
    pub fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|own| path.starts_with(own))
    }

    /// What counts while the disk does not answer: what these facts say, without the paths of a call.
    #[must_use]
    pub fn while_unanswered(self) -> Self {
        Self { places: BTreeMap::new(), stale: true, ..self }
    }

    /// Where a rule of this scope stands in this session.
    pub fn standing(&self, scope: &RuleScope) -> Standing {
        let RuleScope::Project { folder, identity, .. } = scope else { return Standing::Holds };
        match self.above.iter().find(|(above, _)| above == folder) {
            None if self.above.is_empty() => Standing::Unsure,
            None => Standing::Elsewhere,
            Some((_, found)) if found == identity && self.stale => Standing::Unsure,
            Some((_, found)) if found == identity => Standing::Holds,
            Some(_) => Standing::Suspended,
        }
    }
}

/// Whether a rule holds in a session's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Holds,
    /// The disk did not answer, so that it may: a rule that denies or asks is then in force, a rule that allows is not.
    Unsure,
    /// It is for another folder.
    Elsewhere,
    /// Another folder stands where its folder was.
    Suspended,
}

/// A path with every `.` and `..` taken away by its words alone.
pub(super) fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
