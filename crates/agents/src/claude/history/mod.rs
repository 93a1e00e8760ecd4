//! Past sessions: the conversations that the CLI has on disk. They are read, never written.
//!
//! The CLI keeps one file of lines per conversation, below a folder per working folder, and one more per subagent. Its
//! lines hold more than the conversation, such as system prompts: only what was said is taken out of them.

mod lines;
mod read;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use portolan_core::{Event, Millis};

use self::lines::Told;

/// Files that are looked at for a list, the newest first.
const LISTED: usize = 10_000;

/// What of a file is read for its line in a list: where it was, and how it began.
const HEAD: usize = 256 * 1024;

/// How many characters of the first prompt make a title.
const TITLE: usize = 80;

/// The CLI's own folder.
#[derive(Clone, Debug)]
pub struct Home {
    projects: PathBuf,
}

/// Where the CLI keeps its conversations, by the environment that it runs in.
pub fn home(variables: &[(OsString, OsString)]) -> Option<Home> {
    let value = |wanted: &str| {
        variables.iter().find(|(name, value)| name == wanted && !value.is_empty()).map(|(_, value)| value)
    };
    let own = value("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let folder = own.or_else(|| value("HOME").map(|home| PathBuf::from(home).join(".claude")))?;
    Some(Home { projects: folder.join("projects") })
}

/// A conversation on disk, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastSession {
    /// The CLI's own id: what resumes it.
    pub session: String,
    /// The folder it was held in; resume it there.
    pub cwd: Option<PathBuf>,
    /// Its title, or how its first prompt begins.
    pub title: String,
    /// When it began.
    pub started_at: Option<Millis>,
    /// When something was last added to it.
    pub updated_at: Millis,
    /// The version of the CLI that began it.
    pub version: Option<String>,
}

/// What was said, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEntry {
    /// When.
    pub at: Option<Millis>,
    /// What. Prompts have no command here: their number is zero.
    pub event: Event,
}

/// Why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no such conversation.
    #[error("Claude Code has no conversation `{session}` on disk")]
    NotFound {
        /// Which.
        session: String,
    },
    /// The disk would not.
    #[error("the conversation `{session}` cannot be read")]
    Unreadable {
        /// Which.
        session: String,
        /// Why.
        source: io::Error,
    },
}

impl Home {
    /// The conversations there are, the newest first, at most so many. Blocks; what cannot be read is left out.
    pub fn list(&self, most: usize) -> Vec<PastSession> {
        let mut files: Vec<(Millis, PathBuf)> = folders(&self.projects)
            .flat_map(|project| entries(&project))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .filter_map(|path| Some((changed(&path)?, path)))
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        let files = files.into_iter().take(LISTED);
        files.filter_map(|(updated_at, path)| summary(&path, updated_at)).take(most).collect()
    }

    /// A conversation in full, with its subagents. Blocks.
    pub fn read(&self, session: &str) -> Result<Vec<PastEntry>, HistoryError> {
        let path =
            self.file_of(session).ok_or_else(|| HistoryError::NotFound { session: session.to_owned() })?;
        read::transcript(&path)
            .map_err(|source| HistoryError::Unreadable { session: session.to_owned(), source })
    }

    /// Is there anything to take up? The CLI writes behind what is said: one that was killed early has written nothing,
    /// and refuses to resume. Blocks.
    pub(super) fn holds(&self, session: &str) -> bool {
        self.file_of(session).is_some_and(|path| summary(&path, Millis(0)).is_some())
    }

    /// The uuid of the last line of a message, by the model's id for it.
    pub(super) fn line_of(&self, session: &str, message: &str) -> Option<String> {
        let path = self.file_of(session)?;
        let mut found = None;
        lines::each(&path, usize::MAX, |line| {
            if let Some(told) = Told::of(line)
                && told.message_id().as_deref() == Some(message)
                && !told.is_aside()
            {
                found = told.uuid.map(std::borrow::Cow::into_owned);
            }
        })
        .ok()?;
        found
    }

    fn file_of(&self, session: &str) -> Option<PathBuf> {
        // It becomes part of a path.
        let plain = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if session.is_empty() || !plain {
            return None;
        }
        let name = format!("{session}.jsonl");
        folders(&self.projects).map(|project| project.join(&name)).find(|path| path.is_file())
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut folders = entries(folder);
    folders.sort();
    folders.into_iter().filter(|path| path.is_dir())
}

fn changed(path: &Path) -> Option<Millis> {
    let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Millis(i64::try_from(since.as_millis()).ok()?))
}

/// A file's line in a list; `None` where it holds no conversation.
fn summary(path: &Path, updated_at: Millis) -> Option<PastSession> {
    let session = path.file_stem()?.to_str()?.to_owned();
    let mut past =
        PastSession { session, cwd: None, title: String::new(), started_at: None, updated_at, version: None };
    let (mut prompt, mut speaks) = (None, false);
    lines::each(path, HEAD, |line| {
        let Some(told) = Told::of(line) else { return };
        if let Some(title) = told.title() {
            past.title = title;
        }
        if told.is_aside() || !told.is_conversation() {
            return;
        }
        speaks = true;
        past.cwd = past.cwd.take().or_else(|| told.cwd.as_deref().map(PathBuf::from));
        past.version = past.version.take().or_else(|| told.version.as_deref().map(str::to_owned));
        past.started_at = past.started_at.or_else(|| told.at());
        if prompt.is_none() {
            prompt = told.prompt().map(|content| portolan_core::event::plain_text(&content));
        }
    })
    .ok()?;
    if past.title.is_empty() {
        let first = prompt.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        past.title = first.chars().take(TITLE).collect();
    }
    speaks.then_some(past)
}
