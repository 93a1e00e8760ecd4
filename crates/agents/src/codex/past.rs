//! Past conversations: the threads that Codex has kept. Codex decides how to keep them, so Codex itself is asked, and
//! archives them itself. Portolan writes nothing.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use portolan_core::{
    Event, Generation, Millis, Seq, SessionId,
    event::Content,
    ports::{Boxed, Past, PastEntry, PastError, PastPiece, PastPlace, PastQuery, PastSession, Report},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    asking::{Asking, Unanswered},
    probe::Prober,
    translate::{Begin, Setup, Translate},
    wire::{some_text, text},
};
use crate::{
    child::processes,
    driver::{Output, Translator as _},
    past,
    prices::Prices,
};

/// Threads or items per request.
const PAGE: usize = 100;

/// Pages of one answer: more than any real list or conversation has.
const PAGES: usize = 5000;

/// How many characters of the first prompt make a title.
const TITLE: usize = 80;

/// The past conversations of Codex.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    prober: Arc<Prober>,
}

impl Kept {
    pub(super) fn new(prober: Arc<Prober>) -> Self {
        Self { prober }
    }

    async fn list_now(&self, query: &PastQuery) -> Result<Vec<PastSession>, PastError> {
        let mut line = Asking::begin(&self.prober).await?;
        let listed = line.threads(query).await;
        line.end().await;
        listed
    }

    async fn read_now(&self, past: &str, pieces: &mpsc::Sender<PastPiece>) -> Result<(), PastError> {
        let mut line = Asking::begin(&self.prober).await?;
        let read = line.items(past, pieces).await;
        line.end().await;
        read
    }

    async fn put_now(&self, past: &str, place: PastPlace) -> Result<(), PastError> {
        let mut line = Asking::begin(&self.prober).await?;
        let method = match place {
            PastPlace::Archived => "thread/archive",
            PastPlace::Listed => "thread/unarchive",
        };
        let put = line.ask(method, Some(json!({ "threadId": past }))).await;
        line.end().await;
        put.map(drop).map_err(Into::into)
    }
}

impl Past for Kept {
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        let kept = self.clone();
        Box::pin(async move { kept.list_now(&query).await })
    }

    fn read(&self, past: String) -> mpsc::Receiver<PastPiece> {
        let kept = self.clone();
        past::pieces(|pieces| async move { kept.read_now(&past, &pieces).await })
    }

    fn put(&self, past: String, place: PastPlace) -> Boxed<'static, Result<(), PastError>> {
        let kept = self.clone();
        Box::pin(async move { kept.put_now(&past, place).await })
    }
}

impl Asking {
    async fn threads(&mut self, query: &PastQuery) -> Result<Vec<PastSession>, PastError> {
        let (limit, archived) = (query.limit, query.place == PastPlace::Archived);
        let (mut found, mut cursor) = (Vec::<PastSession>::new(), Value::Null);
        let mut files = HashMap::new();
        for _ in 0..PAGES {
            // Without a list of providers Codex lists only threads of the configured provider.
            let params = json!({ "limit": PAGE, "cursor": cursor, "sortKey": "updated_at", "modelProviders": [],
                "sourceKinds": ["cli", "vscode", "exec", "appServer"], "archived": archived });
            let page = self.ask("thread/list", Some(params)).await?;
            let told = || page["data"].as_array().into_iter().flatten();
            let rows: Vec<_> = told().filter_map(summary).collect();
            files.extend(
                told().filter_map(|row| Some((some_text(row, "path")?.into(), some_text(row, "id")?))),
            );
            let query = query.clone();
            // The real path of a folder is looked up on disk.
            let admitted = tokio::task::spawn_blocking(move || {
                let wanted = |row: &PastSession| query.names(&row.past) && query.admits(row.cwd.as_deref());
                rows.into_iter().filter(wanted).collect::<Vec<_>>()
            });
            let fault = |error| PastError::Unreadable(format!("internal error while reading: {error}"));
            for row in admitted.await.map_err(fault)? {
                // After a revert Codex can list a thread twice.
                if !found.iter().any(|known| known.past == row.past) {
                    found.push(row);
                }
            }
            cursor = page["nextCursor"].clone();
            if cursor.is_null() || found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        let holders = holders(self.home_key.clone(), files).await;
        for row in &mut found {
            row.held_by = holders.get(&row.past).copied();
        }
        Ok(found)
    }

    async fn items(&mut self, past: &str, pieces: &mpsc::Sender<PastPiece>) -> Result<(), PastError> {
        let mut telling = Telling::new(past);
        let mut cursor = Value::Null;
        for page in 0..PAGES {
            let params = json!({ "threadId": past, "limit": PAGE, "cursor": cursor });
            let told = match self.ask("thread/items/list", Some(params)).await {
                Ok(told) => told,
                // Threads of older versions come whole or not at all.
                Err(_) if page == 0 => {
                    let params = json!({ "threadId": past, "includeTurns": true });
                    let whole = self.ask("thread/read", Some(params)).await?;
                    json!({ "data": rows_of(&whole["thread"]) })
                }
                Err(error) => return Err(error.into()),
            };
            for row in told["data"].as_array().into_iter().flatten() {
                for entry in telling.entries(row) {
                    if pieces.send(PastPiece::Entry(Box::new(entry))).await.is_err() {
                        return Ok(());
                    }
                }
            }
            cursor = told["nextCursor"].clone();
            if cursor.is_null() {
                return Ok(());
            }
        }
        Err(PastError::Unreadable(format!("the conversation `{past}` has too many pages")))
    }
}

/// Which process has which thread open: it keeps the thread's file open. Codex before 0.166 would write into that file
/// at the same time, and neither would see the other.
async fn holders(home_key: String, files: HashMap<PathBuf, String>) -> HashMap<String, u32> {
    let look = move || {
        // The open files of a process are listed by their real paths.
        let real = |(path, id): (PathBuf, String)| (path.canonicalize().unwrap_or(path), id);
        let files: HashMap<_, _> = files.into_iter().map(real).collect();
        let held = processes::holders(&home_key, |path| files.contains_key(path));
        let name = |(path, process): (PathBuf, u32)| Some((files.get(&path)?.clone(), process));
        held.into_iter().filter_map(name).collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

impl From<Unanswered> for PastError {
    fn from(unanswered: Unanswered) -> Self {
        let unknown = ["not found", "not loaded", "no rollout", "invalid thread id"];
        match unanswered {
            Unanswered::NotInstalled(why) => Self::NotOffered(why),
            Unanswered::Refused(error) if unknown.iter().any(|words| error.contains(words)) => {
                Self::NotFound(format!("Codex has no such conversation: {error}"))
            }
            Unanswered::Refused(error) => Self::Unreadable(format!("Codex refused: {error}")),
            Unanswered::Lost(why) => Self::Unreadable(why),
        }
    }
}

/// A thread's line in a list; none if the thread is empty.
fn summary(thread: &Value) -> Option<PastSession> {
    let seconds = |key: &str| thread[key].as_i64().map(|seconds| Millis(seconds.saturating_mul(1000)));
    let title = some_text(thread, "name").or_else(|| some_text(thread, "preview"))?;
    let line = title.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(PastSession {
        past: some_text(thread, "id")?,
        title: line.chars().take(TITLE).collect(),
        cwd: some_text(thread, "cwd").map(PathBuf::from),
        started_at: seconds("createdAt"),
        updated_at: seconds("updatedAt").unwrap_or(Millis(0)),
        version: some_text(thread, "cliVersion"),
        held_by: None,
    })
}

/// The items of a thread that came whole, in the form of a page.
fn rows_of(thread: &Value) -> Vec<Value> {
    let turns = thread["turns"].as_array().into_iter().flatten();
    let rows = turns.flat_map(|turn| {
        let items = turn["items"].as_array().into_iter().flatten();
        items.map(|item| json!({ "turnId": turn["id"], "item": item }))
    });
    rows.collect()
}

/// Items as events: the same translation as for a running session.
struct Telling {
    translate: Translate,
    thread: String,
}

impl Telling {
    fn new(thread: &str) -> Self {
        let setup = Setup {
            session: SessionId::from_u128(0),
            // Items are named by the start of the agent; the past belongs to no start.
            generation: Generation(0),
            begin: Begin::Start,
            thread: Value::Null,
            model: None,
            mode: None,
            name: None,
            extra: vec![],
            schema: None,
            prices: Prices::default(),
            patience: Duration::ZERO,
        };
        Self { translate: Translate::new(setup), thread: thread.to_owned() }
    }

    fn entries(&mut self, row: &Value) -> Vec<PastEntry> {
        let at = ["completedAtMs", "startedAtMs"].into_iter().find_map(|key| row[key].as_i64()).map(Millis);
        let item = &row["item"];
        if item["type"] == "userMessage" {
            let pieces = item["content"].as_array().into_iter().flatten();
            let content: Vec<_> = pieces.map(piece).collect();
            let event = Event::Prompt { command: Seq::ZERO, content };
            return vec![PastEntry { at, event }];
        }
        let params = json!({ "threadId": self.thread, "turnId": row["turnId"], "item": item });
        let line = json!({ "method": "item/completed", "params": params }).to_string();
        let mut out = Output::default();
        self.translate.line(&line, &mut out);
        let event = |report| match report {
            Report::Event { event: Event::Activity { .. } | Event::Unknown { .. }, .. } => None,
            Report::Event { event, .. } => Some(PastEntry { at, event }),
            _ => None,
        };
        out.reports.into_iter().filter_map(event).collect()
    }
}

/// A piece of a prompt.
fn piece(told: &Value) -> Content {
    let picture = || {
        let (media_type, data) = told["url"].as_str()?.strip_prefix("data:")?.split_once(";base64,")?;
        Some(Content::Image { media_type: media_type.to_owned(), data: data.to_owned() })
    };
    match told["type"].as_str() {
        Some("text") => Content::text(text(told, "text")),
        Some("image") => picture().unwrap_or_else(|| Content::Other { body: told.clone() }),
        Some("skill") => Content::text(format!("/{}", text(told, "name"))),
        _ => Content::Other { body: told.clone() },
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::event::{ToolOutcome, plain_text};

    use super::*;

    #[tokio::test]
    async fn a_thread_that_another_program_has_open_is_listed_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let rollout = place.join("rollout-held.jsonl");
        let file = std::fs::File::create(&rollout).unwrap();
        let mut command = std::process::Command::new("sleep");
        #[expect(clippy::disallowed_methods, reason = "no agent: something that holds a file")]
        let mut other = command.arg("600").stdin(file).spawn().unwrap();
        let threads = json!({ "data": [
            { "id": "held", "preview": "one", "updatedAt": 9, "path": rollout },
            { "id": "free", "preview": "two", "updatedAt": 8, "path": place.join("rollout-free.jsonl") } ] });
        let script = format!(
            r#"[ "$1" = --version ] && echo 'codex-cli 0.166.0' && exit 0
            while read -r line; do
                id=${{line#*\"id\":}}; id=${{id%%[!0-9]*}}
                case "$line" in
                *'"thread/list"'*) printf '%s\n' '{{"id":'"$id"',"result":{threads}}}' ;;
                *'"id"'*) echo "{{\"id\":$id,\"result\":{{}}}}" ;;
                esac
            done"#
        );
        let program = place.join("codex");
        std::fs::write(&program, script).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(crate::Supervision::new("test", vec![("PATH".into(), path)]));
        let command = vec!["sh".into(), program.into_os_string()];
        let config = super::super::Config { command, ..super::super::Config::default() };
        let kept = Kept::new(Arc::new(Prober::new(&config, supervision)));
        let listed = kept.list(PastQuery { limit: 10, ..PastQuery::default() }).await;
        other.kill().unwrap();
        other.wait().unwrap();
        let told: Vec<_> = listed.unwrap().into_iter().map(|past| (past.past, past.held_by)).collect();
        assert_eq!(told, [("held".to_owned(), Some(other.id())), ("free".to_owned(), None)]);
    }

    #[test]
    fn a_thread_is_listed_by_its_name_or_its_first_words() {
        let thread = json!({ "id": "t", "preview": "\n  sound the depth\nplease", "cwd": "/harbour", "createdAt": 7,
            "updatedAt": 9, "cliVersion": "0.166.0", "name": null });
        let expected = PastSession {
            past: "t".into(),
            title: "sound the depth".into(),
            cwd: Some("/harbour".into()),
            started_at: Some(Millis(7000)),
            updated_at: Millis(9000),
            version: Some("0.166.0".into()),
            held_by: None,
        };
        assert_eq!(summary(&thread), Some(expected));
        assert_eq!(
            summary(&json!({ "id": "t", "name": "Soundings", "preview": "" })).unwrap().title,
            "Soundings"
        );
        assert_eq!(summary(&json!({ "id": "t", "preview": "" })), None, "nothing was said in it");
        assert_eq!(summary(&json!(["x"])), None);
    }

    #[test]
    fn items_of_the_past_give_the_events_of_a_running_session() {
        let thread = json!({ "turns": [{ "id": "A", "items": [
            { "type": "userMessage", "id": "u", "content": [{ "type": "text", "text": "look" }] },
            { "type": "commandExecution", "id": "c", "command": "ls", "cwd": "/", "status": "completed",
              "aggregatedOutput": "chart.txt", "exitCode": 0 },
            { "type": "agentMessage", "id": "m", "text": "A chart." },
            { "type": "ofANewerVersion", "id": "n" } ] }] });
        let mut telling = Telling::new("T");
        let mut told =
            rows_of(&thread).iter().flat_map(|row| telling.entries(row)).collect::<Vec<_>>().into_iter();
        let mut next = || told.next().map(|entry| entry.event);
        assert_eq!(next(), Some(Event::Prompt { command: Seq::ZERO, content: vec![Content::text("look")] }));
        assert!(matches!(next(), Some(Event::ToolCall { tool, .. }) if tool == "c"));
        let result = next();
        let Some(Event::ToolResult { outcome: ToolOutcome::Done, content, .. }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(plain_text(&content), "chart.txt");
        let said = next();
        let Some(Event::Message { content, message, .. }) = said else { panic!("{said:?}") };
        assert_eq!((plain_text(&content).as_str(), message.as_deref()), ("A chart.", Some("A/m")));
        assert_eq!(next(), None);
    }
}
