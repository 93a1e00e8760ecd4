//! The stage: the output of the demo agent, and everything that is open meanwhile.
//!
//! It knows every open item, tool, subagent and question, so that an interrupt at any point closes them all.
//!
//! - [`speech`]: texts and thinking, word by word
//! - [`calls`]: tools and subagents
//! - [`turn`]: how a turn begins, asks and ends

mod calls;
mod speech;
mod turn;

use std::{cell::RefCell, io::Write, rc::Rc, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Event, SessionSpec,
    event::{ErrorInfo, FileChange, ItemKind, Level, McpServer},
};
use tokio::time::Instant;

pub(super) use self::calls::command_input;
use super::{about, ledger::Ledger, mcp::Server, permit::Waiting};
use crate::demo::{
    MODES,
    wire::{FromAgent, Hello, Resume},
};

/// The time between two words; `DEMO_PACE_MS` sets another.
const PACE: Duration = Duration::from_millis(50);

/// How much is written at once.
const BURST: usize = 32 * 1024;

/// Why a scene ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Interrupted,
    MaxTurns,
    MaxBudget,
    Failed(ErrorInfo),
}

/// How a scene went.
pub(super) type Played = Result<(), Stop>;

/// A background task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Background {
    pub(super) task: String,
    pub(super) tool: String,
    pub(super) due: Instant,
}

/// The stage. Cheap to clone; one thread.
#[derive(Clone)]
pub(super) struct Stage(Rc<RefCell<Inner>>);

/// What the stage holds. Borrowed only briefly, never across an await.
pub(super) struct Inner {
    output: Box<dyn Write>,
    unwritten: Vec<u8>,
    generation: u32,
    names: u64,
    pub(super) session: String,
    pub(super) resumed: Option<Resume>,
    pub(super) spec: SessionSpec,
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) thinking: Option<u32>,
    pub(super) environment: IndexMap<String, String>,
    pub(super) servers: IndexMap<String, McpServer>,
    /// The servers that really exist.
    pub(super) reached: IndexMap<String, Server>,
    pub(super) tasks: Vec<Background>,
    /// Files that each prompt would have changed: the demo changes none.
    pub(super) edits: Vec<(u64, FileChange)>,
    pub(super) ledger: Ledger,
    prompt: u64,
    pace: Duration,
    fast: bool,
    stays: bool,
    items: IndexMap<String, OpenItem>,
    pub(super) tools: IndexMap<String, Option<String>>,
    subagents: Vec<String>,
    pub(super) waiting: IndexMap<String, Waiting>,
    last_words: Option<String>,
}

struct OpenItem {
    kind: ItemKind,
    parent: Option<String>,
    text: String,
}

impl Stage {
    pub(super) fn new(hello: Hello, output: Box<dyn Write>) -> Self {
        let Hello { generation, spec, resume } = hello;
        let new_session = || format!("demo-{}", uuid::Uuid::new_v4().simple());
        let session = match &resume {
            Some(resume) if !resume.fork => resume.session.clone(),
            _ => new_session(),
        };
        let pace = std::env::var("DEMO_PACE_MS").ok().and_then(|text| text.parse().ok());
        let servers = about::servers(&spec);
        Self(Rc::new(RefCell::new(Inner {
            output,
            unwritten: Vec::new(),
            generation,
            names: 0,
            session,
            resumed: resume,
            model: spec.model.clone().unwrap_or_else(|| "demo-large".into()),
            mode: spec.mode.clone().unwrap_or_else(|| MODES[0].into()),
            spec,
            thinking: None,
            environment: IndexMap::new(),
            servers,
            reached: IndexMap::new(),
            tasks: vec![],
            edits: vec![],
            ledger: Ledger::default(),
            prompt: 0,
            pace: pace.map_or(PACE, Duration::from_millis),
            fast: false,
            stays: false,
            items: IndexMap::new(),
            tools: IndexMap::new(),
            subagents: vec![],
            waiting: IndexMap::new(),
            last_words: None,
        })))
    }

    /// Reads or changes the state.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.borrow_mut())
    }

    /// Sends a message, soon.
    pub(super) fn emit(&self, message: &FromAgent) {
        self.with(|inner| {
            // Portolan's own types serialise into memory.
            let _ = serde_json::to_writer(&mut inner.unwritten, message);
            inner.unwritten.push(b'\n');
        });
        self.flush_beyond(BURST);
    }

    pub(super) fn event(&self, event: Event) {
        self.emit(&FromAgent::Event(Box::new(event)));
    }

    pub(super) fn notice(&self, level: Level, text: &str) {
        self.event(Event::Notice { level, text: text.into() });
    }

    /// Writes exactly these bytes.
    pub(super) fn raw(&self, bytes: &[u8]) {
        self.with(|inner| inner.unwritten.extend_from_slice(bytes));
        self.flush_beyond(BURST);
    }

    /// Writes the messages that are not written yet.
    pub(super) fn flush(&self) {
        self.flush_beyond(0);
    }

    fn flush_beyond(&self, most: usize) {
        self.with(|inner| {
            if inner.unwritten.len() > most {
                // Nobody reads any more: then the input ends too, and with it this process.
                let _ = inner.output.write_all(&inner.unwritten).and_then(|()| inner.output.flush());
                inner.unwritten.clear();
            }
        });
    }

    /// Waits for this many beats; at least it yields to other tasks.
    pub(super) async fn pause(&self, beats: u32) {
        self.flush();
        let pace = self.pace();
        if pace.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pace * beats).await;
        }
    }

    fn pace(&self) -> Duration {
        self.with(|inner| match inner.model.as_str() {
            _ if inner.fast => Duration::ZERO,
            "demo-small" => inner.pace / 2,
            _ => inner.pace,
        })
    }

    pub(super) fn set_pace(&self, pace: Duration) {
        self.with(|inner| inner.pace = pace);
    }

    pub(super) fn hurry(&self) {
        self.with(|inner| inner.fast = true);
    }

    /// A name that has not been used in this session.
    pub(super) fn name(&self) -> String {
        self.with(|inner| {
            inner.names += 1;
            format!("{}.{}", inner.generation, inner.names)
        })
    }

    /// From now on it ignores requests to end.
    pub(super) fn stay(&self) {
        self.with(|inner| inner.stays = true);
    }

    pub(super) fn stays(&self) -> bool {
        self.with(|inner| inner.stays)
    }

    /// Waits for the next background task that ends.
    pub(super) async fn next_task(&self) -> Background {
        let next = self.with(|inner| inner.tasks.iter().min_by_key(|task| task.due).cloned());
        let Some(task) = next else { return std::future::pending().await };
        tokio::time::sleep_until(task.due).await;
        self.with(|inner| inner.tasks.retain(|other| *other != task));
        task
    }

    /// When something that takes this many beats would be done.
    pub(super) fn due(&self, beats: u32) -> Instant {
        Instant::now() + self.pace() * beats
    }
}
