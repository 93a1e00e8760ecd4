//! A file of lines as events: the same translation as for a running session, fed with the written lines.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use portolan_core::{
    Event, Millis, Seq,
    event::ToolOutcome,
    ports::{PastEntry, Report},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lines::{self, Told};
use crate::{
    claude::{
        translate::{Setup, Translate},
        wire,
    },
    driver::{Output, Translator as _},
};

/// Subagents can start subagents, but not deeper than this.
const DEEPEST: usize = 16;

/// Everything in a conversation, until the receiver stops it.
pub(super) fn transcript(path: &Path, take: &mut dyn FnMut(PastEntry) -> ControlFlow<()>) -> io::Result<()> {
    let mut reading = Reading {
        translate: Translate::new(setup()),
        asides: asides(&path.with_extension("").join("subagents")),
        seen: HashSet::new(),
        open: vec![],
        last: None,
        take,
        enough: false,
        depth: 0,
    };
    reading.file(path, None)?;
    // A subagent that still ran when the file ended has its messages, but runs no more.
    for subagent in reading.open.clone() {
        if let Some(path) = reading.asides.remove(&subagent) {
            reading.aside(&path, &subagent);
        }
    }
    for subagent in std::mem::take(&mut reading.open).into_iter().rev() {
        let (at, outcome) = (reading.last, ToolOutcome::Interrupted);
        let event = Event::SubagentEnded { subagent, outcome, summary: None, work: None };
        if reading.put(PastEntry { at, event }).is_break() {
            break;
        }
    }
    Ok(())
}

/// Items are named by the start of the agent; the past belongs to no start.
fn setup() -> Setup {
    Setup { folder: "/workspace/demo".into(), ..Setup::bare() }
}

/// How much of a note about a subagent is read: it is a line or two.
const NOTE: u64 = 64 * 1024;

/// The beginning of a file; empty if it is not a file, such as a pipe that would never end.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = vec![];
    if path.is_file()
        && let Ok(file) = fs::File::open(path)
    {
        // Unreadable bytes are ignored.
        let _ = file.take(NOTE).read_to_end(&mut bytes);
    }
    bytes
}

/// The files of subagents, by the call that started each if its note names the call, otherwise by the CLI's name for
/// it.
fn asides(folder: &Path) -> HashMap<String, PathBuf> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Note {
        tool_use_id: Option<String>,
    }
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let agent = name.strip_prefix("agent-")?.strip_suffix(".jsonl")?;
        let note = folder.join(format!("agent-{agent}.meta.json"));
        let note: Note = serde_json::from_slice(&beginning(&note)).unwrap_or_default();
        path.is_file().then(|| (note.tool_use_id.unwrap_or_else(|| agent.to_owned()), path.clone()))
    });
    named.collect()
}

struct Reading<'a> {
    translate: Translate,
    asides: HashMap<String, PathBuf>,
    seen: HashSet<String>,
    /// Subagents that have begun and not ended.
    open: Vec<String>,
    /// The time of the last message.
    last: Option<Millis>,
    take: &'a mut dyn FnMut(PastEntry) -> ControlFlow<()>,
    /// The receiver wants no more.
    enough: bool,
    depth: usize,
}

impl Reading<'_> {
    fn put(&mut self, entry: PastEntry) -> ControlFlow<()> {
        match &entry.event {
            Event::SubagentStarted { subagent, .. } if !self.open.contains(subagent) => {
                self.open.push(subagent.clone());
            }
            Event::SubagentEnded { subagent, .. } => self.open.retain(|known| known != subagent),
            _ => {}
        }
        self.last = entry.at.or(self.last);
        let wanted = if self.enough { ControlFlow::Break(()) } else { (self.take)(entry) };
        self.enough = wanted.is_break();
        wanted
    }

    fn file(&mut self, path: &Path, parent: Option<&str>) -> io::Result<()> {
        lines::each(path, usize::MAX, |line| {
            if let Some(told) = Told::of(line).filter(Told::is_conversation)
                && told.is_aside() == parent.is_some()
            {
                return self.line(&told, parent);
            }
            ControlFlow::Continue(())
        })
    }

    fn line(&mut self, told: &Told<'_>, parent: Option<&str>) -> ControlFlow<()> {
        // A conversation that was resumed can hold lines twice.
        if told.uuid.as_deref().is_some_and(|uuid| !self.seen.insert(uuid.to_owned())) {
            return ControlFlow::Continue(());
        }
        if told.is_meta == Some(true) {
            return ControlFlow::Continue(());
        }
        let at = told.at();
        if parent.is_none()
            && let Some(content) = told.prompt()
        {
            return self.put(PastEntry { at, event: Event::Prompt { command: Seq::ZERO, content } });
        }
        self.asides_of(told);
        let message = json!({
            "type": told.kind,
            "message": told.message,
            "tool_use_result": told.tool_use_result,
            "parent_tool_use_id": parent,
        });
        let mut out = Output::default();
        self.translate.line(&message.to_string(), &mut out);
        for report in out.reports {
            if let Report::Event { event, .. } = report
                && !matches!(event, Event::Activity { .. } | Event::Unknown { .. })
            {
                self.put(PastEntry { at, event })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The messages of a subagent come before the result of the call that started it.
    fn asides_of(&mut self, told: &Told<'_>) {
        if self.depth == DEEPEST {
            return;
        }
        let message: Value = wire::value(told.message);
        let agent = wire::value(told.tool_use_result)["agentId"].as_str().map(str::to_owned);
        for block in message["content"].as_array().into_iter().flatten() {
            let Some(tool) = block["tool_use_id"].as_str() else { continue };
            let mut path = self.asides.remove(tool);
            if let (None, Some(agent)) = (&path, &agent) {
                path = self.asides.remove(agent);
            }
            if let Some(path) = path {
                self.aside(&path, tool);
            }
        }
    }

    fn aside(&mut self, path: &Path, tool: &str) {
        self.depth += 1;
        // An unreadable file of a subagent costs only that subagent's messages.
        if let Err(error) = self.file(path, Some(tool)) {
            tracing::warn!(%error, path = %path.display(), "the words of a subagent cannot be read");
        }
        self.depth -= 1;
    }
}
