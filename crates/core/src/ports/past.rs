//! Past conversations: conversations that an agent keeps by itself, from outside of Portolan. An optional part of an
//! agent.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Boxed;
use crate::{Event, Millis};

/// The number of pieces of a conversation in transit. It is small: one piece may be as large as the longest line of a
/// file.
pub const PAST_PIECES: usize = 16;

/// The conversations that an agent keeps by itself. Portolan reads them and never writes them: the agent itself
/// archives a conversation.
pub trait Past: fmt::Debug + Send + Sync {
    /// Lists the conversations, newest first. Unreadable ones are left out.
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>>;

    /// Reads a conversation in order. Returns at once. The last piece is always [`PastPiece::End`] or
    /// [`PastPiece::Failed`]; a queue that closes without either has failed. Dropping the queue ends the reading.
    fn read(&self, past: String) -> mpsc::Receiver<PastPiece>;

    /// Lets the agent archive a conversation, or restore it. Called only with the capability
    /// [`past_archive`](crate::Capabilities::past_archive).
    fn put(&self, past: String, place: PastPlace) -> Boxed<'static, Result<(), PastError>> {
        let why = format!("the agent cannot {} `{past}`", place.verb());
        Box::pin(async { Err(PastError::Unreadable(why)) })
    }
}

/// Where an agent keeps a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PastPlace {
    /// In the agent's list.
    #[default]
    Listed,
    /// Archived.
    Archived,
}

impl PastPlace {
    /// `Archived` if `archived` is true, otherwise `Listed`.
    pub fn when_archived(archived: bool) -> Self {
        if archived { Self::Archived } else { Self::Listed }
    }

    /// The other place.
    pub fn other(self) -> Self {
        Self::when_archived(self == Self::Listed)
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Listed => "restore",
            Self::Archived => "archive",
        }
    }
}

/// Which conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastQuery {
    /// The largest number of conversations.
    pub limit: usize,
    /// Only conversations held in one of these folders or below it, by their real paths. Empty means any folder.
    pub below: Vec<PathBuf>,
    /// Only conversations whose id begins or ends with this text.
    pub part: Option<String>,
    /// Only archived conversations, or only the others.
    pub place: PastPlace,
}

impl PastQuery {
    /// Does the query ask for this id? Some agents' ids all begin with the time and differ only at the end.
    pub fn names(&self, past: &str) -> bool {
        self.part.as_deref().is_none_or(|part| past.starts_with(part) || past.ends_with(part))
    }

    /// Does the query ask for this folder? Blocks: a symlink counts as its target.
    pub fn admits(&self, cwd: Option<&Path>) -> bool {
        if self.below.is_empty() {
            return true;
        }
        let Some(cwd) = cwd else { return false };
        let below = |path: &Path| self.below.iter().any(|folder| path.starts_with(folder));
        match cwd.canonicalize() {
            Ok(real) => below(&real),
            // A deleted folder has no real path.
            Err(_) => below(cwd) && !cwd.components().any(|part| part == Component::ParentDir),
        }
    }
}

/// A past conversation that an agent keeps by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct PastSession {
    /// The agent's own id, with which the conversation is resumed.
    pub past: String,
    /// The conversation's title, or the beginning of its first prompt.
    pub title: String,
    /// The folder in which the conversation was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(as = "Option<String>"))]
    pub cwd: Option<PathBuf>,
    /// When the conversation began, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When the conversation was last changed.
    pub updated_at: Millis,
    /// The version of the agent that began the conversation, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The id of a process that has the conversation open now, if one was found. Continuing the conversation elsewhere
    /// at the same time splits it in two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
}

/// One entry of a past conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEntry {
    /// The time of the entry, if the agent reports it.
    pub at: Option<Millis>,
    /// The event: words, prompts, tools, subagents and the like. A prompt has no command: its number is zero. Events
    /// that core makes itself and streamed events are never part of a past conversation.
    pub event: Event,
}

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum PastPiece {
    /// The next entry.
    Entry(Box<PastEntry>),
    /// The conversation is complete.
    End,
    /// There may be more, but the rest cannot be read.
    Failed(PastError),
}

/// Why a conversation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// No conversation has this id.
    #[error("{0}")]
    NotFound(String),
    /// The conversation exists, or existed, and cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The agent does not list conversations, or not in this way; only asking the agent shows that.
    #[error("{0}")]
    NotOffered(String),
    /// The agent lists one folder at a time, and no folder is given or known.
    #[error("{title} lists the conversations of one folder at a time, and no folder is named")]
    NeedsFolder {
        /// The agent.
        agent: String,
        /// The agent's name for people.
        title: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_counts_by_its_real_path() {
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
