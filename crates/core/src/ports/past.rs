//! What an agent has kept of conversations that were held before Portolan, or beside it. An optional part of an agent.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Boxed;
use crate::{Event, Millis};

/// Pieces of a conversation on their way. Few: one of them may be as large as the longest line of a file.
pub const PAST_PIECES: usize = 16;

/// The conversations that an agent has kept by itself. They are read, and never written by us: one is put away by the agent
/// itself.
pub trait Past: fmt::Debug + Send + Sync {
    /// Those there are, the newest first. What cannot be read is left out.
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>>;

    /// Everything that was said in one, in order. Returns at once. The last piece is always [`PastPiece::End`] or
    /// [`PastPiece::Failed`]; a queue that closes without either has failed. Dropping the queue ends the reading.
    fn read(&self, past: String) -> mpsc::Receiver<PastPiece>;

    /// Has the agent put a conversation away, or take it out again. Asked for only with the capability
    /// [`past_archive`](crate::Capabilities::past_archive).
    fn put(&self, past: String, place: PastPlace) -> Boxed<'static, Result<(), PastError>> {
        let why = format!("the agent cannot put `{past}` {}", place.words());
        Box::pin(async { Err(PastError::Unreadable(why)) })
    }
}

/// Where an agent keeps a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PastPlace {
    /// Where it lists those to go on with.
    #[default]
    Listed,
    /// Put away.
    Archived,
}

impl PastPlace {
    /// Put away, or not.
    pub fn when_archived(archived: bool) -> Self {
        if archived { Self::Archived } else { Self::Listed }
    }

    /// The other one.
    pub fn other(self) -> Self {
        Self::when_archived(self == Self::Listed)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Listed => "back",
            Self::Archived => "away",
        }
    }
}

/// Which conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastQuery {
    /// At most so many.
    pub limit: usize,
    /// Only those held in one of these folders or below it; by their real paths. Empty is any.
    pub below: Vec<PathBuf>,
    /// Only those whose id begins or ends so.
    pub part: Option<String>,
    /// Those that are put away, or the others.
    pub place: PastPlace,
}

impl PastQuery {
    /// Is this an id that was asked for? Some agents' ids begin with the time and so all alike; their ends differ.
    pub fn names(&self, past: &str) -> bool {
        self.part.as_deref().is_none_or(|part| past.starts_with(part) || past.ends_with(part))
    }

    /// Is this a folder that was asked for? Blocks: where a link leads is what counts.
    pub fn admits(&self, cwd: Option<&Path>) -> bool {
        if self.below.is_empty() {
            return true;
        }
        let Some(cwd) = cwd else { return false };
        let below = |path: &Path| self.below.iter().any(|folder| path.starts_with(folder));
        match cwd.canonicalize() {
            Ok(real) => below(&real),
            // A folder that is gone leads nowhere.
            Err(_) => below(cwd) && !cwd.components().any(|part| part == Component::ParentDir),
        }
    }
}

/// A conversation that an agent has kept by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct PastSession {
    /// The agent's own id: what resumes it.
    pub past: String,
    /// Its title, or how its first prompt begins.
    pub title: String,
    /// The folder it was held in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(as = "Option<String>"))]
    pub cwd: Option<PathBuf>,
    /// When it began, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When something was last added to it.
    pub updated_at: Millis,
    /// The version of the agent that began it, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The process that has it open now, where one is seen: whoever goes on with it beside that one splits it in two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
}

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEntry {
    /// When, where told.
    pub at: Option<Millis>,
    /// What: words, prompts, tools, subagents and the like. A prompt has no command: its number is zero. What core makes
    /// itself and what streams has no place in the past.
    pub event: Event,
}

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum PastPiece {
    /// What came next.
    Entry(Box<PastEntry>),
    /// That was all.
    End,
    /// There may be more, but it cannot be read.
    Failed(PastError),
}

/// Why a conversation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// There is none of that name.
    #[error("{0}")]
    NotFound(String),
    /// It is there, or was.
    #[error("{0}")]
    Unreadable(String),
    /// The agent tells of no conversations, or not in this way; only asking it shows that.
    #[error("{0}")]
    NotOffered(String),
    /// The agent tells of one folder at a time, and none is named or known.
    #[error("{title} lists the conversations of one folder at a time, and no folder is named")]
    NeedsFolder {
        /// The agent.
        agent: String,
        /// Its name for people.
        title: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_counts_by_where_it_really_lies() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("a path");
        let (inside, outside) = (real.join("inside"), real.join("outside"));
        std::fs::create_dir(&inside).expect("a folder");
        std::fs::create_dir(&outside).expect("a folder");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("a link");
        let query = PastQuery { below: vec![inside.clone()], ..PastQuery::default() };
        assert!(query.admits(Some(&inside)));
        assert!(query.admits(Some(&inside.join("gone"))));
        assert!(!query.admits(Some(&inside.join("gone/../../outside"))));
        assert!(!query.admits(Some(&inside.join("link"))));
        assert!(!query.admits(Some(&real)));
        assert!(!query.admits(None));
        assert!(PastQuery::default().admits(None));
    }
}
