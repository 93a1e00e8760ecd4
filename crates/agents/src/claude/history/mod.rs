//! Past conversations: those that the CLI has on disk. They are read, never written.
//!
//! The CLI keeps one file of lines per conversation, below a folder per working folder, and one more per subagent. Its
//! lines hold more than the conversation, such as system prompts: only messages are taken out of them.

mod lines;
mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use portolan_core::{
    Millis,
    ports::{Boxed, PAST_PIECES, Past, PastEntry, PastError, PastPiece, PastQuery, PastSession},
};
use serde::Deserialize;
use tokio::sync::mpsc;

use self::lines::Told;
use crate::child::processes::{Process, works_for_another};

/// Files that are read for a list, the newest first.
const LISTED: usize = 10_000;

/// How much of a file is read for its line in a list: its folder, and its first prompt.
const HEAD: usize = 256 * 1024;

/// How many characters of the first prompt make a title.
const TITLE: usize = 80;

/// The CLI's own folder.
#[derive(Clone, Debug)]
pub struct Home {
    projects: PathBuf,
    /// One file per running process.
    processes: PathBuf,
    /// The key of Portolan's home, which marks its own agents.
    ours: String,
}

/// Where the CLI keeps its conversations, from the environment that it runs in.
pub fn home(variables: &[(OsString, OsString)], home_key: &str) -> Option<Home> {
    let value = |wanted: &str| {
        variables.iter().find(|(name, value)| name == wanted && !value.is_empty()).map(|(_, value)| value)
    };
    let own = value("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let folder = own.or_else(|| value("HOME").map(|home| PathBuf::from(home).join(".claude")))?;
    let (projects, processes) = (folder.join("projects"), folder.join("sessions"));
    Some(Home { projects, processes, ours: home_key.to_owned() })
}

impl Past for Home {
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        let home = self.clone();
        Box::pin(async move {
            let listed = tokio::task::spawn_blocking(move || home.list_now(&query)).await;
            listed.map_err(|error| PastError::Unreadable(format!("internal error while reading: {error}")))
        })
    }

    fn read(&self, past: String) -> mpsc::Receiver<PastPiece> {
        let (pieces, queue) = mpsc::channel(PAST_PIECES);
        let home = self.clone();
        tokio::task::spawn_blocking(move || {
            let read = home.read_now(&past, &mut |entry| {
                match pieces.blocking_send(PastPiece::Entry(Box::new(entry))) {
                    Ok(()) => ControlFlow::Continue(()),
                    // The receiver does not want the rest.
                    Err(_) => ControlFlow::Break(()),
                }
            });
            let last = read.map_or_else(PastPiece::Failed, |()| PastPiece::End);
            // The receiver may not want this either.
            let _ = pieces.blocking_send(last);
        });
        queue
    }
}

impl Home {
    /// The existing conversations, the newest first. Blocks; unreadable files are left out.
    fn list_now(&self, query: &PastQuery) -> Vec<PastSession> {
        let wanted = |path: &PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            path.extension().is_some_and(|extension| extension == "jsonl") && query.names(name)
        };
        let mut names = HashSet::new();
        let mut files: Vec<(Millis, PathBuf)> = folders(&self.projects)
            .flat_map(|project| entries(&project))
            .filter(wanted)
            .filter_map(|path| Some((changed(&path)?, path)))
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        // Of two conversations with one name the newest counts, as in reading.
        files.retain(|(_, path)| names.insert(path.file_name().map(OsStr::to_owned)));
        let files = files.into_iter().take(LISTED);
        let told = files.filter_map(|(updated_at, path)| summary(&path, updated_at));
        let mut listed: Vec<PastSession> =
            told.filter(|past| query.admits(past.cwd.as_deref())).take(query.limit).collect();
        let holders = self.holders();
        for past in &mut listed {
            past.held_by = holders.get(&past.past).copied();
        }
        listed
    }

    /// Which process has which conversation open, without Portolan's own agents. Only versions that keep a file per
    /// process show this (2.1.325 does). Blocks.
    fn holders(&self) -> HashMap<String, u32> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Running {
            pid: u32,
            /// In ticks since the machine started.
            proc_start: Option<String>,
            session_id: String,
        }
        let files = entries(&self.processes).into_iter().filter(|path| changed(path).is_some());
        let told = files.filter_map(|path| serde_json::from_slice::<Running>(&fs::read(path).ok()?).ok());
        let runs = |told: &Running| {
            // A stale file of a process may name a number that another process has by now.
            let started = told.proc_start.as_ref().map(|started| started.parse::<u64>().ok());
            let same = Process::of(told.pid)
                .is_some_and(|process| started.is_none_or(|started| started == Some(process.started)));
            same && works_for_another(told.pid, &self.ours)
        };
        told.filter(runs).map(|told| (told.session_id, told.pid)).collect()
    }

    /// The process of somebody else that has this conversation open: the CLI would resume it anyway, both would go on
    /// separately, and one of the two branches would be lost. Blocks.
    pub(super) fn held_by(&self, session: &str) -> Option<u32> {
        self.holders().remove(session)
    }

    /// A conversation with its subagents, entry by entry, until the receiver stops it. Blocks.
    fn read_now(
        &self,
        past: &str,
        take: &mut dyn FnMut(PastEntry) -> ControlFlow<()>,
    ) -> Result<(), PastError> {
        let path = self.file_of(past).ok_or_else(|| {
            PastError::NotFound(format!("Claude Code has no conversation `{}` on disk", past.escape_debug()))
        })?;
        read::transcript(&path, take).map_err(|error| {
            PastError::Unreadable(format!("the conversation `{past}` cannot be read: {error}"))
        })
    }

    /// Whether there is anything to resume. The CLI writes with a delay: a CLI that was killed early has written
    /// nothing, and refuses to resume. Blocks.
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
            ControlFlow::Continue(())
        })
        .ok()?;
        found
    }

    fn file_of(&self, session: &str) -> Option<PathBuf> {
        // The name becomes part of a path.
        let plain = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if session.is_empty() || !plain {
            return None;
        }
        let name = format!("{session}.jsonl");
        let files = folders(&self.projects).map(|project| project.join(&name));
        files.filter_map(|path| Some((changed(&path)?, path))).max().map(|(_, path)| path)
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

/// When a file was last written; `None` if it is not a file, such as a pipe that would never end.
fn changed(path: &Path) -> Option<Millis> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Millis(i64::try_from(since.as_millis()).ok()?))
}

/// A file's line in a list; `None` if it holds no conversation.
fn summary(path: &Path, updated_at: Millis) -> Option<PastSession> {
    let past = path.file_stem()?.to_str()?.to_owned();
    let mut past = PastSession {
        past,
        cwd: None,
        title: String::new(),
        started_at: None,
        updated_at,
        version: None,
        held_by: None,
    };
    let (mut prompt, mut speaks) = (None, false);
    lines::each(path, HEAD, |line| {
        let Some(told) = Told::of(line) else { return ControlFlow::Continue(()) };
        if let Some(title) = told.title() {
            past.title = first_line(&title);
        }
        if told.is_aside() || !told.is_conversation() {
            return ControlFlow::Continue(());
        }
        speaks = true;
        past.cwd = past.cwd.take().or_else(|| told.cwd.as_deref().map(PathBuf::from));
        past.version = past.version.take().or_else(|| told.version.as_deref().map(str::to_owned));
        past.started_at = past.started_at.or_else(|| told.at());
        if prompt.is_none() {
            prompt = told.prompt().map(|content| portolan_core::event::plain_text(&content));
        }
        ControlFlow::Continue(())
    })
    .ok()?;
    if past.title.is_empty() {
        past.title = first_line(prompt.as_deref().unwrap_or_default());
    }
    speaks.then_some(past)
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(TITLE).collect()
}
