//! The stage: what the demo agent says, and everything that is open while it does.
//!
//! It knows every open item, tool, subagent and question, so that an interrupt at any point closes them all.

use std::{cell::RefCell, io::Write, rc::Rc, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Event, SessionSpec,
    event::{
        Content, ErrorInfo, FileChange, ItemKind, Level, McpServer, ToolKind, ToolOutcome, TurnOutcome,
        TurnResult,
    },
    request::{Answer, Ask},
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::{about, ledger::Ledger, mcp::Server, permit::Waiting};
use crate::demo::{
    MODES,
    wire::{FromAgent, Hello, Resume},
};

/// The time between two words; `DEMO_PACE_MS` sets another.
const PACE: Duration = Duration::from_millis(50);

/// What is written at once.
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

/// What the stage holds. Borrowed for moments only, never while something is awaited.
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
    /// Those of them that are really there.
    pub(super) reached: IndexMap<String, Server>,
    pub(super) tasks: Vec<Background>,
    /// Files each prompt changed, or would have: the demo touches none.
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

    /// Looks at, or changes, what it holds.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.borrow_mut())
    }

    // ------------------------------------------------------------------------------------ saying

    /// Says something, soon.
    pub(super) fn emit(&self, message: &FromAgent) {
        self.with(|inner| {
            // Our own types serialise into memory.
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

    /// Writes these very bytes, whatever they are.
    pub(super) fn raw(&self, bytes: &[u8]) {
        self.with(|inner| inner.unwritten.extend_from_slice(bytes));
        self.flush_beyond(BURST);
    }

    /// Says what has not been said yet.
    pub(super) fn flush(&self) {
        self.flush_beyond(0);
    }

    fn flush_beyond(&self, most: usize) {
        self.with(|inner| {
            if inner.unwritten.len() > most {
                // Nobody listens any more: then the input ends too, and with it this process.
                let _ = inner.output.write_all(&inner.unwritten).and_then(|()| inner.output.flush());
                inner.unwritten.clear();
            }
        });
    }

    /// Waits for so many beats; at least it lets others speak.
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

    // ------------------------------------------------------------------------------------- items

    pub(super) fn begin(&self, item: &str, kind: ItemKind, parent: Option<&str>) {
        let open = OpenItem { kind, parent: parent.map(Into::into), text: String::new() };
        self.with(|inner| inner.items.insert(item.into(), open));
        let message = matches!(kind, ItemKind::Text | ItemKind::Thinking).then(|| format!("m{item}"));
        self.emit(&FromAgent::Begin { item: item.into(), kind, message, parent: parent.map(Into::into) });
    }

    pub(super) fn more(&self, item: &str, text: &str) {
        self.with(|inner| {
            if let Some(open) = inner.items.get_mut(item) {
                open.text.push_str(text);
            }
        });
        self.emit(&FromAgent::More { item: item.into(), text: text.into() });
    }

    /// Ends a text or thinking item with what was streamed.
    pub(super) fn finish(&self, item: &str) {
        self.finish_as(item, false);
    }

    fn finish_as(&self, item: &str, interrupted: bool) {
        let Some(open) = self.with(|inner| inner.items.shift_remove(item)) else { return };
        let content = match open.kind {
            ItemKind::Thinking => vec![Content::Thinking { text: open.text }],
            _ if open.text.is_empty() => vec![],
            _ => vec![Content::text(open.text)],
        };
        self.say_whole(item, open.parent.as_deref(), content, interrupted);
    }

    /// A finished message that did not stream, or the end of one that did.
    pub(super) fn say_whole(
        &self,
        item: &str,
        parent: Option<&str>,
        content: Vec<Content>,
        interrupted: bool,
    ) {
        let model = self.with(|inner| {
            if let (None, Some(Content::Text { text })) = (parent, content.last()) {
                inner.last_words = Some(text.clone());
            }
            let written = content.iter().map(|piece| match piece {
                Content::Text { text } | Content::Thinking { text } => text.len(),
                _ => 0,
            });
            inner.ledger.wrote(&inner.model, written.sum());
            inner.model.clone()
        });
        self.emit(&FromAgent::Say {
            item: item.into(),
            message: Some(format!("m{item}")),
            parent: parent.map(Into::into),
            model: Some(model),
            content,
            interrupted,
        });
    }

    /// Streams text, word by word.
    pub(super) async fn say(&self, text: &str) -> Played {
        self.stream(ItemKind::Text, None, text).await
    }

    /// Thinks aloud, unless its budget is nothing.
    pub(super) async fn think(&self, parent: Option<&str>, text: &str) -> Played {
        if self.with(|inner| inner.thinking) == Some(0) {
            return Ok(());
        }
        self.stream(ItemKind::Thinking, parent, text).await
    }

    pub(super) async fn stream(&self, kind: ItemKind, parent: Option<&str>, text: &str) -> Played {
        let item = self.name();
        self.begin(&item, kind, parent);
        for piece in text.split_inclusive(' ') {
            self.more(&item, piece);
            self.pause(1).await;
        }
        self.finish(&item);
        self.step(parent)
    }

    /// One step of work is done: what it used, and whether the session's limits allow another.
    fn step(&self, parent: Option<&str>) -> Played {
        let (event, stop) = self.with(|inner| {
            let event = inner.ledger.step(&inner.model, parent);
            let over = |limit: Option<u32>| limit.is_some_and(|limit| inner.ledger.steps() >= limit);
            let spent = |limit: Option<f64>| limit.is_some_and(|limit| inner.ledger.turn_cost() >= limit);
            let stop = match () {
                () if over(inner.spec.max_turns) => Some(Stop::MaxTurns),
                () if spent(inner.spec.max_budget_usd) => Some(Stop::MaxBudget),
                () => None,
            };
            (event, stop)
        });
        self.event(event);
        stop.map_or(Ok(()), Err)
    }

    // ------------------------------------------------------------------------ tools and subagents

    /// Calls a tool; its input streams first.
    pub(super) async fn call(
        &self,
        parent: Option<&str>,
        name: &str,
        kind: ToolKind,
        title: &str,
        input: &Value,
        changes: &[FileChange],
    ) -> String {
        let (tool, item) = (self.name(), self.name());
        self.begin(&item, ItemKind::ToolInput, parent);
        self.event(Event::ToolNamed { item: item.clone(), tool: tool.clone(), name: name.into() });
        let text = input.to_string();
        let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        for piece in [&text[..half], &text[half..]] {
            self.more(&item, piece);
            self.pause(2).await;
        }
        self.with(|inner| {
            inner.items.shift_remove(&item);
            inner.tools.insert(tool.clone(), parent.map(Into::into));
            inner.ledger.called();
        });
        self.emit(&FromAgent::Call {
            tool: tool.clone(),
            item: Some(item),
            parent: parent.map(Into::into),
            name: name.into(),
            kind,
            title: Some(title.into()),
            input: input.clone(),
            changes: changes.to_vec(),
        });
        tool
    }

    /// A tool has finished.
    pub(super) fn result(
        &self,
        tool: &str,
        outcome: ToolOutcome,
        content: Vec<Content>,
        changes: Vec<FileChange>,
    ) {
        let Some(parent) = self.with(|inner| {
            inner.items.shift_remove(tool);
            inner.tools.shift_remove(tool)
        }) else {
            return;
        };
        self.emit(&FromAgent::Result { tool: tool.into(), parent, outcome, content, changes });
    }

    pub(super) fn subagent_started(&self, subagent: &str, event: Event) {
        self.with(|inner| inner.subagents.push(subagent.into()));
        self.event(event);
    }

    pub(super) fn subagent_ended(&self, subagent: &str, event: Event) {
        self.with(|inner| inner.subagents.retain(|open| open != subagent));
        self.event(event);
    }

    /// A file would be changed now: remembered for a rewind.
    pub(super) fn edited(&self, change: FileChange) {
        self.with(|inner| {
            let (added, removed) = change.diff.as_deref().map_or((0, 0), |diff| {
                let count = |sign| diff.lines().skip(3).filter(|line| line.starts_with(sign)).count() as u64;
                (count('+'), count('-'))
            });
            inner.ledger.edited(added, removed);
            inner.edits.push((inner.prompt, change));
        });
    }

    // -------------------------------------------------------------------------------------- asking

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, ask: Ask, parent: Option<&str>, tool: Option<&str>) -> Answer {
        let key = format!("ask-{}", self.name());
        let (answer, outcome) = oneshot::channel();
        self.with(|inner| inner.waiting.insert(key.clone(), Waiting { answer, tool: tool.map(Into::into) }));
        self.emit(&FromAgent::Ask {
            key,
            ask: Box::new(ask),
            parent: parent.map(Into::into),
            tool: tool.map(Into::into),
        });
        self.flush();
        // The sender goes only when the turn is over, and then so is this.
        outcome.await.unwrap_or(Answer::deny(None))
    }

    // ---------------------------------------------------------------------------------- the turn

    pub(super) fn begin_turn(&self, prompt: Option<u64>, content: &[Content]) {
        self.with(|inner| {
            inner.prompt = prompt.unwrap_or(inner.prompt);
            inner.fast = false;
            inner.last_words = None;
            let read = content.iter().map(|piece| match piece {
                Content::Text { text } => text.len(),
                // A picture is worth a thousand words.
                _ => 6000,
            });
            inner.ledger.begin_turn(read.sum());
        });
    }

    /// The turn goes on with another prompt.
    pub(super) fn steered(&self, prompt: Option<u64>) {
        self.with(|inner| {
            inner.prompt = prompt.unwrap_or(inner.prompt);
            inner.fast = false;
        });
    }

    /// Closes everything that is still open: what played is over, in order or not.
    pub(super) fn close_all(&self) {
        let (items, waiting) = self.with(|inner| {
            let items: Vec<_> = inner.items.iter().map(|(name, open)| (name.clone(), open.kind)).collect();
            (items, std::mem::take(&mut inner.waiting))
        });
        for key in waiting.into_keys() {
            self.emit(&FromAgent::Withdraw { key });
        }
        for (item, kind) in items {
            // A tool's output is closed by the tool's result.
            if kind != ItemKind::ToolOutput {
                self.finish_as(&item, true);
            }
        }
        let tools: Vec<_> = self.with(|inner| inner.tools.keys().rev().cloned().collect());
        for tool in tools {
            self.result(&tool, ToolOutcome::Interrupted, vec![], vec![]);
        }
        let subagents = self.with(|inner| std::mem::take(&mut inner.subagents));
        for subagent in subagents.into_iter().rev() {
            self.event(Event::SubagentEnded {
                subagent,
                outcome: ToolOutcome::Interrupted,
                summary: None,
                work: None,
            });
        }
    }

    pub(super) fn result_text(&self) -> Option<String> {
        self.with(|inner| inner.last_words.clone())
    }

    /// What came of the turn.
    pub(super) fn result_of_turn(&self, outcome: TurnOutcome, error: Option<ErrorInfo>) -> TurnResult {
        let text = self.result_text();
        let mut result = self.with(|inner| inner.ledger.result(&inner.model, outcome));
        if let (TurnOutcome::Completed, Some(schema)) =
            (outcome, self.with(|inner| inner.spec.json_schema.clone()))
        {
            match super::scenes::structured::example(&schema) {
                Some(value) => result.structured = Some(value),
                None => result.outcome = TurnOutcome::StructuredOutputFailed,
            }
        }
        TurnResult { error, text, stop_reason: Some("end_turn".into()), ..result }
    }

    // ------------------------------------------------------------------------------------- the rest

    /// From now on it does not go when it should.
    pub(super) fn stay(&self) {
        self.with(|inner| inner.stays = true);
    }

    pub(super) fn stays(&self) -> bool {
        self.with(|inner| inner.stays)
    }

    /// The next background task that ends, when it does.
    pub(super) async fn next_task(&self) -> Background {
        let next = self.with(|inner| inner.tasks.iter().min_by_key(|task| task.due).cloned());
        let Some(task) = next else { return std::future::pending().await };
        tokio::time::sleep_until(task.due).await;
        self.with(|inner| inner.tasks.retain(|other| *other != task));
        task
    }

    /// When something that takes so many beats would be done.
    pub(super) fn due(&self, beats: u32) -> Instant {
        Instant::now() + self.pace() * beats
    }
}

/// A tool's input, for a command.
pub(super) fn command_input(command: &str, description: &str) -> Value {
    json!({ "command": command, "description": description })
}
