//! Past conversations: those that an agent lists by `session/list`. The agent decides how to keep them, so the agent is
//! asked: a process is started for each question and ended after it. Portolan writes nothing.
//!
//! The messages of a conversation are what the agent replays when it loads the conversation. An agent that cannot load
//! shows no messages, but still has them.

mod telling;

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use portolan_core::{
    Event, Millis,
    event::Level,
    ports::{Boxed, Past, PastEntry, PastError, PastPiece, PastQuery, PastSession},
};
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::telling::Telling;
use super::{
    Config,
    catalogue::{Known, Lists},
    errors, launch,
    probe::Prober,
    sessions,
    translate::{DIALECT, Setup},
    wire::{list, some_text},
};
use crate::{
    Supervision,
    child::Program,
    driver::{
        self,
        asking::{Asking, Heard, Trouble},
    },
    past,
};

/// How long a page of the list may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pages of one list. A list with more pages counts as endless.
const PAGES: usize = 100;

/// Conversations of one list; the rest is ignored.
const ROWS: usize = 10_000;

/// The longest name of a conversation; a longer name is ignored.
const LONGEST_NAME: usize = 256;

/// The longest path of a folder that the system allows.
const LONGEST_FOLDER: usize = 4096;

/// How many characters of a title are kept.
const TITLE: usize = 80;

/// Remembered folders, for agents that list one folder at a time.
const FOLDERS: usize = 16;

/// Shown for a conversation that the agent has but does not replay.
const UNTOLD: &str = "does not show the messages of this conversation";

/// The past conversations of an agent.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    kind: String,
    title: String,
    known: &'static Known,
    login: Option<String>,
    supervision: Arc<Supervision>,
    prober: Arc<Prober>,
    memory: Arc<Mutex<Memory>>,
}

/// What is known from earlier questions.
#[derive(Debug, Default)]
struct Memory {
    /// Folders in which conversations were held.
    folders: VecDeque<PathBuf>,
    /// A program that offers no list: it is not started again.
    without: Option<Vec<OsString>>,
}

/// What the agent offers.
#[derive(Clone, Copy, Debug)]
struct Offers {
    load: bool,
}

impl Kept {
    pub(super) fn new(
        config: &Config,
        title: String,
        known: &'static Known,
        supervision: Arc<Supervision>,
        prober: Arc<Prober>,
    ) -> Self {
        let (kind, login) = (config.kind.clone(), config.login.clone());
        Self { kind, title, known, login, supervision, prober, memory: Arc::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the agent can be asked: its program is installed, and is not known to offer no list.
    pub(super) fn can_be_asked(&self) -> bool {
        self.prober.command().is_ok_and(|command| self.memory().without.as_ref() != Some(&command))
    }

    /// Remembers a folder in which conversations are held.
    pub(super) fn remember(&self, folder: &Path) {
        if self.known.lists == Lists::Everywhere {
            return;
        }
        let folders = &mut self.memory().folders;
        folders.retain(|known| known != folder);
        folders.push_front(folder.to_owned());
        folders.truncate(FOLDERS);
    }

    /// The folders to ask about, if the agent must be asked about one folder at a time.
    fn folders(&self, query: &PastQuery) -> Result<Vec<Option<PathBuf>>, PastError> {
        if self.known.lists == Lists::Everywhere {
            return Ok(vec![None]);
        }
        for folder in query.below.iter().take(FOLDERS) {
            self.remember(folder);
        }
        let folders: Vec<_> = self.memory().folders.iter().cloned().map(Some).collect();
        if folders.is_empty() {
            return Err(PastError::NeedsFolder { agent: self.kind.clone(), title: self.title.clone() });
        }
        Ok(folders)
    }

    fn unreadable(&self, trouble: &Trouble) -> PastError {
        match trouble {
            Trouble::Refused(error) if error.code == Error::METHOD_NOT_FOUND => self.no_list(),
            Trouble::Refused(error) if errors::wants_login(error) => {
                let (words, way_out) = (errors::words(error), self.known.login);
                PastError::Unreadable(format!("{} is not logged in: {words}; {way_out}", self.title))
            }
            Trouble::Refused(error) if errors::is_lost(error) => {
                PastError::NotFound(format!("{}: {}", self.title, errors::words(error)))
            }
            Trouble::Refused(error) => {
                PastError::Unreadable(format!("{} refused: {}", self.title, errors::words(error)))
            }
            Trouble::Silent(why) => PastError::Unreadable(why.clone()),
        }
    }

    fn no_list(&self) -> PastError {
        PastError::NotOffered(format!("{} does not list past conversations", self.title))
    }

    /// Starts the agent, and reads what it offers.
    async fn begin(&self) -> Result<(Asking, Offers), PastError> {
        let command = self.prober.command().map_err(PastError::Unreadable)?;
        if self.memory().without.as_ref() == Some(&command) {
            return Err(self.no_list());
        }
        let environment = launch::environment(&self.supervision, self.prober.env(), self.known)
            .map_err(PastError::Unreadable)?;
        // Not in a folder of a user's work, because the agent might use the settings in it.
        let folder =
            environment.variables.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.into());
        let folder = folder.filter(|home: &PathBuf| home.is_dir()).unwrap_or_default();
        let program = Program { agent: self.kind.clone(), command: command.clone(), folder, environment };
        let begun = Asking::begin(program, &self.supervision.home_key, DIALECT).await;
        let mut asking = begun.map_err(|trouble| self.unreadable(&trouble))?;
        match self.greet(&mut asking).await {
            Ok(offers) => Ok((asking, offers)),
            Err(error) => {
                if matches!(error, PastError::NotOffered(_)) {
                    self.memory().without = Some(command);
                }
                self.end(asking).await;
                Err(error)
            }
        }
    }

    async fn greet(&self, asking: &mut Asking) -> Result<Offers, PastError> {
        let params = json!({ "protocolVersion": sessions::VERSION, "clientCapabilities": {}, "clientInfo": driver::client() });
        let told = asking.ask("initialize", params, self.supervision.ready).await;
        let told = told.map_err(|trouble| self.unreadable(&trouble))?;
        let can = &told["agentCapabilities"];
        if told["protocolVersion"] != sessions::VERSION || !can["sessionCapabilities"]["list"].is_object() {
            return Err(self.no_list());
        }
        if let Some(login) = &self.login {
            let logged_in = asking.ask("authenticate", json!({ "methodId": login }), PATIENCE).await;
            logged_in.map_err(|trouble| self.unreadable(&trouble))?;
        }
        Ok(Offers { load: can["loadSession"] == true })
    }

    async fn end(&self, asking: Asking) {
        asking.end(self.supervision.ladder.close).await;
    }

    // ------------------------------------------------------------------------------------- the list

    async fn list_now(&self, query: PastQuery) -> Result<Vec<PastSession>, PastError> {
        let folders = self.folders(&query)?;
        let (mut asking, _) = self.begin().await?;
        let rows = self.rows(&mut asking, folders).await;
        self.end(asking).await;
        let rows = rows?;
        // The real path of a folder is looked up on disk.
        let chosen = tokio::task::spawn_blocking(move || chosen(rows, &query));
        chosen.await.map_err(|error| PastError::Unreadable(format!("internal error while reading: {error}")))
    }

    async fn rows(
        &self,
        asking: &mut Asking,
        folders: Vec<Option<PathBuf>>,
    ) -> Result<Vec<PastSession>, PastError> {
        let mut rows = Vec::new();
        for folder in folders {
            let mut cursor = None;
            for _ in 0..PAGES {
                let mut params = json!({});
                if let Some(folder) = &folder {
                    params["cwd"] = json!(folder);
                }
                if let Some(cursor) = &cursor {
                    params["cursor"] = json!(cursor);
                }
                let page = asking.ask("session/list", params, PATIENCE).await;
                let page = page.map_err(|trouble| self.unreadable(&trouble))?;
                rows.extend(list(&page, "sessions").iter().filter_map(row).take(ROWS - rows.len()));
                let next = some_text(&page, "nextCursor");
                if rows.len() >= ROWS || next.is_none() || next == cursor {
                    break;
                }
                cursor = next;
            }
        }
        Ok(rows)
    }

    // ----------------------------------------------------------------------------- one conversation

    async fn read_now(&self, past: &str, pieces: &mpsc::Sender<PastPiece>) -> Result<(), PastError> {
        let folders = self.folders(&PastQuery::default())?;
        let (mut asking, offers) = self.begin().await?;
        let read = self.tell(&mut asking, offers, past, folders, pieces).await;
        self.end(asking).await;
        read
    }

    async fn tell(
        &self,
        asking: &mut Asking,
        offers: Offers,
        past: &str,
        folders: Vec<Option<PathBuf>>,
        pieces: &mpsc::Sender<PastPiece>,
    ) -> Result<(), PastError> {
        let rows = self.rows(asking, folders).await?;
        let Some(row) = rows.into_iter().find(|row| row.past == past) else {
            return Err(PastError::NotFound(format!("{} has no conversation `{past}`", self.title)));
        };
        if !offers.load {
            let text = format!("{} {UNTOLD}", self.title);
            let event = Event::Notice { level: Level::Info, text };
            return send(pieces, vec![PastEntry { at: None, event }]).await;
        }
        let setup = Setup::bare(&self.kind, &self.title, self.known);
        let mut telling = Telling::new(setup, past);
        let params = json!({ "sessionId": past, "cwd": row.cwd, "mcpServers": [] });
        let wanted = asking.send("session/load", Some(params)).await;
        let wanted = wanted.map_err(|trouble| self.unreadable(&trouble))?;
        loop {
            // The receiver of the pieces does not wait for ever for the next one.
            match asking.next().await.map_err(|trouble| self.unreadable(&trouble))? {
                Heard::Answer(id, answer) if id == wanted => {
                    answer.map_err(|error| self.unreadable(&Trouble::Refused(Box::new(error))))?;
                    break;
                }
                heard => send(pieces, told(&mut telling, heard)).await?,
            }
        }
        // Late pieces come in one go.
        while self.known.replays_late
            && let Ok(Ok(heard)) = tokio::time::timeout(launch::QUIET, asking.next()).await
        {
            send(pieces, told(&mut telling, heard)).await?;
        }
        send(pieces, telling.end()).await
    }
}

fn told(telling: &mut Telling, heard: Heard) -> Vec<PastEntry> {
    match heard {
        Heard::Told { method, params, line } if method == "session/update" => telling.update(&params, &line),
        Heard::Told { .. } | Heard::Answer(..) => vec![],
    }
}

async fn send(pieces: &mpsc::Sender<PastPiece>, entries: Vec<PastEntry>) -> Result<(), PastError> {
    for entry in entries {
        let sent = pieces.send(PastPiece::Entry(Box::new(entry))).await;
        sent.map_err(|_| PastError::Unreadable("the rest is not wanted".into()))?;
    }
    Ok(())
}

/// Plays lines as if each were a message of a loading conversation, or a page of a list. Nothing may break.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn tell(lines: &str) {
    let setup = Setup::bare("harbour", "Harbour", &super::catalogue::UNKNOWN);
    let mut telling = Telling::new(setup, "S");
    for line in lines.lines() {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let entries = telling.update(&message["params"], line);
        assert!(entries.iter().all(|entry| entry.at.is_none()), "ACP reports no times");
        let rows: Vec<_> = list(&message["result"], "sessions").iter().filter_map(row).collect();
        chosen(rows, &PastQuery { limit: 10, part: Some("c".into()), ..PastQuery::default() });
    }
    telling.end();
}

/// A conversation's line in a list; none if it has no usable name.
fn row(told: &Value) -> Option<PastSession> {
    let time = |told: &Value| {
        let at: jiff::Timestamp = told.as_str()?.parse().ok()?;
        Some(Millis(at.as_millisecond()))
    };
    let past = some_text(told, "sessionId")?;
    if past.len() > LONGEST_NAME || !past.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let title = some_text(told, "title").unwrap_or_else(|| past.clone());
    let line = title.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(&past);
    let cwd = some_text(told, "cwd").filter(|cwd| cwd.len() <= LONGEST_FOLDER);
    let started_at = time(&told["_meta"]["createdAt"]);
    Some(PastSession {
        title: line.chars().take(TITLE).collect(),
        cwd: cwd.map(PathBuf::from).filter(|cwd| cwd.is_absolute()),
        started_at,
        updated_at: time(&told["updatedAt"]).or(started_at).unwrap_or(Millis(0)),
        version: None,
        held_by: None,
        past,
    })
}

/// The requested conversations, the newest first. If a name matches in full, only that conversation: names can begin
/// with others.
fn chosen(mut rows: Vec<PastSession>, query: &PastQuery) -> Vec<PastSession> {
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.past.clone()));
    if let Some(part) = &query.part {
        let exact = rows.iter().any(|row| row.past == *part);
        rows.retain(|row| if exact { row.past == *part } else { query.names(&row.past) });
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.updated_at));
    let mut left = query.limit;
    rows.retain(|row| {
        left > 0 && query.admits(row.cwd.as_deref()) && {
            left -= 1;
            true
        }
    });
    rows
}

impl Past for Kept {
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        let kept = self.clone();
        Box::pin(async move { kept.list_now(query).await })
    }

    fn read(&self, past: String) -> mpsc::Receiver<PastPiece> {
        let kept = self.clone();
        past::pieces(|pieces| async move { kept.read_now(&past, &pieces).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(id: &str, updated: &str) -> Value {
        json!({ "sessionId": id, "cwd": "/harbour", "title": "\n the mast \nleans", "updatedAt": updated })
    }

    #[test]
    fn a_conversation_is_listed_with_its_details() {
        // As Goose reports it.
        let told = json!({ "sessionId": "20261115_6", "cwd": "/harbour", "title": "Mast", "updatedAt":
            "2026-11-15T01:26:51+00:00", "_meta": { "createdAt": "2026-11-15T01:26:50+00:00" } });
        let expected = PastSession {
            past: "20261115_6".into(),
            title: "Mast".into(),
            cwd: Some("/harbour".into()),
            started_at: Some(Millis(1_794_706_010_000)),
            updated_at: Millis(1_794_706_011_000),
            version: None,
            held_by: None,
        };
        assert_eq!(row(&told), Some(expected));
        assert_eq!(row(&past("a", "soon")).unwrap().title, "the mast");
        assert_eq!(row(&past("a", "soon")).unwrap().updated_at, Millis(0));
        assert_eq!(row(&json!({ "sessionId": "a", "cwd": "here" })).unwrap().cwd, None, "it leads nowhere");
    }

    #[test]
    fn conversations_without_a_usable_name_are_left_out() {
        let long = "x".repeat(LONGEST_NAME + 1);
        for told in
            [json!({}), json!([1]), json!(7), past("", ""), past("a b", ""), past("ä", ""), past(&long, "")]
        {
            assert_eq!(row(&told), None, "{told}");
        }
    }

    #[test]
    fn the_newest_come_first_once_each_and_a_full_name_matches_only_itself() {
        let rows = || -> Vec<_> {
            let told = [
                ("n_1", "2026-01-01T00:00:00Z"),
                ("n_12", "2026-01-03T00:00:00Z"),
                ("n_1", "2026-01-01T00:00:00Z"),
                ("m_2", "2026-01-02T00:00:00Z"),
            ];
            told.iter().filter_map(|(id, at)| row(&past(id, at))).collect()
        };
        let names = |query: PastQuery| -> Vec<String> {
            chosen(rows(), &query).into_iter().map(|row| row.past).collect()
        };
        let query = || PastQuery { limit: 9, ..PastQuery::default() };
        assert_eq!(names(query()), ["n_12", "m_2", "n_1"]);
        assert_eq!(names(PastQuery { limit: 1, ..query() }), ["n_12"]);
        assert_eq!(names(PastQuery { part: Some("n".into()), ..query() }), ["n_12", "n_1"]);
        assert_eq!(names(PastQuery { part: Some("n_1".into()), ..query() }), ["n_1"]);
        assert_eq!(names(PastQuery { part: Some("2".into()), ..query() }), ["n_12", "m_2"]);
        assert_eq!(names(PastQuery { below: vec!["/elsewhere".into()], ..query() }), Vec::<String>::new());
    }
}
