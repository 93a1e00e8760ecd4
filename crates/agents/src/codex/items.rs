//! Items: what Codex says and does in a turn. Messages and thinking stream; everything else is a tool with a call and a
//! result.
//!
//! An item is named by its thread and its own id: a fork repeats ids, and so do subagents. Items that never complete are
//! closed by the session with their turn; a command that outlives its turn becomes a task; what completes after it was
//! closed is passed over.

mod changes;

use std::collections::{HashSet, VecDeque};

use indexmap::IndexMap;
use portolan_core::{
    Event, Generation,
    event::{Content, FileChange, ItemKind, Task, TaskStatus, ToolKind, ToolOutcome, TurnOutcome},
};
use serde_json::{Value, json};

pub(super) use self::changes::changes;
use super::{
    KIND,
    threads::Whose,
    translate::Translate,
    wire::{Told, some_text, text},
};
use crate::driver::Turnout;

/// Items of one conversation that can be open at once; an agent with more has forgotten them, and so do we.
const MAX_OPEN: usize = 4096;

/// Closed items whose late end is still known as such.
const REMEMBERED: usize = 1024;

/// What is kept of a running command's output, for the case that it outlives its turn.
const KEPT: usize = 64 * 1024;

/// The longest line for people, in characters.
const TITLE: usize = 120;

type Name = (String, String);

/// Items that are open.
#[derive(Debug)]
pub(super) struct Items {
    generation: Generation,
    count: u64,
    open: IndexMap<Name, Open>,
    closed: HashSet<Name>,
    oldest: VecDeque<Name>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    /// The item's name in the session, or the call's.
    name: String,
    parent: Option<String>,
    /// The message it is, where it is one.
    message: Option<String>,
    /// It was announced as an item that streams.
    streams: bool,
    text: String,
    /// The part of a summary that is written.
    part: u64,
    /// For a tool.
    tool_name: String,
    changes: Vec<FileChange>,
    process: Option<String>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// What is shown of it is the summary, or the thought itself where there is none.
    Summary,
    Thought,
    Command,
    Tool,
    /// A tool that tells what it is called with only when it ends.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// Its turn has ended and it goes on.
    InBackground,
    /// It was told to stop.
    Stopping,
}

impl Items {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, count: 0, open: IndexMap::new(), closed: HashSet::new(), oldest: VecDeque::new() }
    }

    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.generation, self.count)
    }

    fn begin(&mut self, key: Name, kind: Kind, name: String, parent: Option<String>) -> &mut Open {
        if self.open.len() >= MAX_OPEN {
            self.open.shift_remove_index(0);
        }
        let open = Open {
            kind,
            name,
            parent,
            message: None,
            streams: false,
            text: String::new(),
            part: 0,
            tool_name: String::new(),
            changes: Vec::new(),
            process: None,
            state: State::Runs,
        };
        self.open.entry(key).insert_entry(open).into_mut()
    }

    fn remember(&mut self, key: Name) {
        if self.closed.insert(key.clone()) {
            self.oldest.push_back(key);
        }
        if self.oldest.len() > REMEMBERED
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// The changes that an item is about to make.
    pub(super) fn changes_of(&self, thread: &str, item: &str) -> Vec<FileChange> {
        self.open.get(&(thread.into(), item.into())).map(|open| open.changes.clone()).unwrap_or_default()
    }

    /// The call of an MCP server's tool that is open, where there is just one: its own id and its name.
    pub(super) fn call_of(&self, thread: &str, server: &str) -> Option<(String, String)> {
        let prefix = format!("mcp__{server}__");
        let fits = |(key, open): &(&Name, &Open)| key.0 == thread && open.tool_name.starts_with(&prefix);
        let mut calls = self.open.iter().filter(fits);
        match (calls.next(), calls.next()) {
            (Some((_, open)), None) => Some((open.name.clone(), open.tool_name.clone())),
            _ => None,
        }
    }

    /// What names a task to Codex.
    pub(super) fn process_of(&self, task: &str) -> Option<String> {
        let open = self.open.values().find(|open| open.name == task && open.state != State::Runs)?;
        open.process.clone()
    }

    pub(super) fn stopping(&mut self, task: &str) {
        if let Some(open) = self.open.values_mut().find(|open| open.name == task) {
            open.state = State::Stopping;
        }
    }

    /// What a turn leaves open. Commands go on in the background, unless the turn was stopped and they with it; the
    /// session closes everything else.
    pub(super) fn turn_ends(&mut self, thread: &str, outcome: TurnOutcome, out: &mut Turnout) {
        for (key, mut open) in std::mem::take(&mut self.open) {
            if key.0 != thread || open.state != State::Runs {
                self.open.insert(key, open);
            } else if open.kind == Kind::Command && outcome != TurnOutcome::Interrupted {
                open.state = State::InBackground;
                let so_far = if open.text.is_empty() { String::new() } else { format!(":\n{}", open.text) };
                let content = vec![Content::text(format!("It goes on in the background{so_far}"))];
                let (tool, parent) = (open.name.clone(), open.parent.clone());
                let outcome = ToolOutcome::Done;
                out.event(Event::ToolResult { tool, parent, outcome, content, changes: vec![] });
                out.event(Event::TaskChanged { task: Box::new(open.task(TaskStatus::Running, None)) });
                self.open.insert(key, open);
            } else {
                self.remember(key);
            }
        }
    }

    /// A subagent's turn has ended: what it left open is closed here, since the session goes on.
    pub(super) fn subagent_ends(&mut self, thread: &str, out: &mut Turnout) {
        for (key, open) in std::mem::take(&mut self.open) {
            if key.0 != thread {
                self.open.insert(key, open);
                continue;
            }
            match open.kind {
                Kind::Text | Kind::Summary | Kind::Thought => open.cut_off(None, out),
                Kind::Command | Kind::Tool => {
                    let (tool, parent) = (open.name, open.parent);
                    let (outcome, content) = (ToolOutcome::Interrupted, vec![]);
                    out.event(Event::ToolResult { tool, parent, outcome, content, changes: vec![] });
                }
                Kind::Late => {}
            }
            self.remember(key);
        }
    }
}

impl Open {
    fn content(&self) -> Content {
        match self.kind {
            Kind::Summary | Kind::Thought => Content::Thinking { text: self.text.clone() },
            _ => Content::Text { text: self.text.clone() },
        }
    }

    /// Tells what there was of a message that will not be finished.
    fn cut_off(&self, model: Option<String>, out: &mut Turnout) {
        if self.streams {
            out.event(Event::Message {
                item: self.name.clone(),
                message: self.message.clone(),
                parent: self.parent.clone(),
                model,
                content: vec![self.content()],
                interrupted: true,
                stop_reason: None,
            });
        }
    }

    fn task(&self, status: TaskStatus, summary: Option<String>) -> Task {
        Task {
            task: self.name.clone(),
            tool: Some(self.name.clone()),
            task_type: Some("command".into()),
            description: Some(self.tool_name.clone()),
            status,
            summary,
            ..Task::default()
        }
    }
}

impl Translate {
    fn key(told: &Told, id: &str) -> Name {
        (told.thread_id.clone(), id.to_owned())
    }

    // ----------------------------------------------------------------------------------------- begun

    pub(super) fn item_started(&mut self, told: &Told, line: &str, out: &mut Turnout) {
        let (item, id) = (&told.item, text(&told.item, "id"));
        let parent = self.whose(told).parent();
        let key = Self::key(told, &id);
        match item["type"].as_str().unwrap_or_default() {
            "agentMessage" | "plan" => {
                self.cut_off_older(told, out);
                self.begin_text(key, parent, message_name(told, &id));
            }
            "reasoning" => {
                let name = self.items.next_name();
                self.items.begin(key, Kind::Summary, name, parent);
            }
            "contextCompaction" => {
                out.event(Event::Activity { activity: Some("compacting".into()) });
            }
            "enteredReviewMode" => out.event(Event::Activity { activity: Some("reviewing".into()) }),
            "webSearch" => {
                self.items.begin(key, Kind::Late, id, parent);
            }
            "" => out.unknown(KIND, "item/started", line),
            _ => {
                if let Some(tool) = tool(item) {
                    self.begin_tool(key, id, parent, tool, item, out);
                }
                // Its end tells all there is to tell of any other.
            }
        }
    }

    /// A message that another one follows was cut off: the stream broke, or someone steered.
    fn cut_off_older(&mut self, told: &Told, out: &mut Turnout) {
        let model = self.threads.model().map(str::to_owned);
        let older = |(key, open): &(&Name, &Open)| key.0 == told.thread_id && open.kind == Kind::Text;
        let older: Vec<_> = self.items.open.iter().filter(older).map(|(key, _)| key.clone()).collect();
        for key in older {
            if let Some(open) = self.items.open.shift_remove(&key) {
                open.cut_off(model.clone(), out);
                self.items.remember(key);
            }
        }
    }

    /// Announced with its first words: Codex opens messages that it never writes.
    fn begin_text(&mut self, key: Name, parent: Option<String>, message: String) {
        let item = self.items.next_name();
        let open = self.items.begin(key, Kind::Text, item, parent);
        open.message = Some(message);
    }

    fn begin_tool(
        &mut self,
        key: Name,
        id: String,
        parent: Option<String>,
        tool: Tool,
        item: &Value,
        out: &mut Turnout,
    ) {
        let kind = if item["type"] == "commandExecution" { Kind::Command } else { Kind::Tool };
        let open = self.items.begin(key, kind, id.clone(), parent.clone());
        open.tool_name = if kind == Kind::Command { text(item, "command") } else { tool.name.clone() };
        open.changes.clone_from(&tool.changes);
        open.process = some_text(item, "processId");
        out.event(tool.called(id, parent));
    }

    // ---------------------------------------------------------------------------------------- goes on

    pub(super) fn more_text(&mut self, told: &Told, out: &mut Turnout) {
        let key = Self::key(told, &told.item_id);
        if self.items.closed.contains(&key) || told.delta.is_empty() {
            return;
        }
        if !self.items.open.contains_key(&key) {
            // Text of a message that was never announced still counts.
            let parent = self.whose(told).parent();
            self.begin_text(key.clone(), parent, message_name(told, &told.item_id));
        }
        self.stream(&key, &told.delta, ItemKind::Text, out);
    }

    pub(super) fn more_summary(&mut self, told: &Told, out: &mut Turnout) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get_mut(&key).filter(|open| open.kind == Kind::Summary) else {
            return;
        };
        // Parts are paragraphs; a new one is known by its index.
        let paragraph = told.summary_index > open.part && !open.text.is_empty();
        open.part = told.summary_index;
        if paragraph {
            self.stream(&key, "\n\n", ItemKind::Thinking, out);
        }
        self.stream(&key, &told.delta, ItemKind::Thinking, out);
    }

    pub(super) fn more_thought(&mut self, told: &Told, out: &mut Turnout) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get_mut(&key) else { return };
        if open.kind == Kind::Summary && open.text.is_empty() {
            open.kind = Kind::Thought;
        }
        if open.kind == Kind::Thought {
            self.stream(&key, &told.delta, ItemKind::Thinking, out);
        }
    }

    pub(super) fn more_output(&mut self, told: &Told, out: &mut Turnout) {
        let key = Self::key(told, &told.item_id);
        let runs = |open: &Open| open.kind == Kind::Command && open.state == State::Runs;
        if self.items.open.get(&key).is_some_and(runs) {
            self.stream(&key, &told.delta, ItemKind::ToolOutput, out);
        }
    }

    fn stream(&mut self, key: &Name, delta: &str, kind: ItemKind, out: &mut Turnout) {
        let Some(open) = self.items.open.get_mut(key).filter(|_| !delta.is_empty()) else { return };
        let (item, parent) = (open.name.clone(), open.parent.clone());
        if !open.streams {
            open.streams = true;
            let message = open.message.clone();
            out.event(Event::ItemStarted { item: item.clone(), kind, message, parent });
        }
        if kind != ItemKind::ToolOutput || open.text.len() + delta.len() <= KEPT {
            open.text.push_str(delta);
        }
        out.event(Event::Delta { item, text: delta.to_owned() });
    }

    pub(super) fn tool_progress(&mut self, told: &Told, out: &mut Turnout) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get(&key) else { return };
        let (tool, name, parent) = (open.name.clone(), open.tool_name.clone(), open.parent.clone());
        out.event(Event::ToolProgress { tool, name, parent, elapsed_seconds: None });
    }

    // ------------------------------------------------------------------------------------------ ended

    pub(super) fn item_completed(&mut self, told: &Told, line: &str, out: &mut Turnout) {
        let (item, id) = (&told.item, text(&told.item, "id"));
        let key = Self::key(told, &id);
        if self.items.closed.contains(&key) {
            // It was closed when its turn ended.
            return;
        }
        match item["type"].as_str().unwrap_or_default() {
            // Our own words, or those for a subagent: both are told already.
            "userMessage" | "enteredReviewMode" | "sleep" => {}
            "agentMessage" | "plan" => self.text_completed(told, key, &text(item, "text"), out),
            "reasoning" => self.reasoning_completed(told, key, item, out),
            // The review itself comes as a message.
            "exitedReviewMode" => out.event(Event::Activity { activity: None }),
            "contextCompaction" => {
                out.event(Event::Activity { activity: None });
                let trigger = Some(self.turns.compaction_trigger().to_owned());
                out.event(Event::Compacted { trigger, tokens_before: None, tokens_after: None });
            }
            other => match tool(item) {
                Some(tool) => self.tool_completed(told, key, id, tool, line, out),
                None => out.unknown(KIND, &format!("item/completed {other}"), line),
            },
        }
    }

    fn text_completed(&mut self, told: &Told, key: Name, words: &str, out: &mut Turnout) {
        let whose = self.whose(told);
        let open = self.items.open.shift_remove(&key);
        if words.is_empty() && open.is_none() {
            return;
        }
        let message = message_name(told, &key.1);
        let item = open.map_or_else(|| self.items.next_name(), |open| open.name);
        match &whose {
            Whose::Main => self.turns.says(words),
            Whose::Subagent(_) => {
                if let Some(child) = self.threads.child(&told.thread_id) {
                    child.said = Some(words.to_owned());
                }
            }
        }
        out.event(Event::Message {
            item,
            message: Some(message),
            parent: whose.parent(),
            model: self.threads.model().map(str::to_owned),
            content: vec![Content::text(words)],
            interrupted: false,
            stop_reason: None,
        });
    }

    fn reasoning_completed(&mut self, told: &Told, key: Name, item: &Value, out: &mut Turnout) {
        let parent = self.whose(told).parent();
        let parts = |key: &str, between: &str| {
            let parts = item[key].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(between)
        };
        let open = self.items.open.shift_remove(&key);
        let (summary, thought) = (parts("summary", "\n\n"), parts("content", ""));
        let streamed_thought = open.as_ref().is_some_and(|open| open.kind == Kind::Thought);
        let text =
            if summary.is_empty() || streamed_thought && !thought.is_empty() { thought } else { summary };
        let name = open.map_or_else(|| self.items.next_name(), |open| open.name);
        let content = if text.is_empty() { Content::RedactedThinking } else { Content::Thinking { text } };
        out.event(Event::Message {
            item: name,
            message: Some(message_name(told, &key.1)),
            parent,
            model: self.threads.model().map(str::to_owned),
            content: vec![content],
            interrupted: false,
            stop_reason: None,
        });
    }

    fn tool_completed(
        &mut self,
        told: &Told,
        key: Name,
        id: String,
        tool: Tool,
        line: &str,
        out: &mut Turnout,
    ) {
        let item = &told.item;
        let parent = self.whose(told).parent();
        let open = self.items.open.shift_remove(&key);
        let spawned = item["type"] == "collabAgentToolCall";
        if spawned {
            self.threads.spawned(&id, parent.clone(), item);
        }
        match &open {
            Some(open) if open.state != State::Runs => {
                let stopped = open.state == State::Stopping;
                let status = match item["exitCode"].as_i64() {
                    _ if stopped => TaskStatus::Stopped,
                    Some(0) => TaskStatus::Completed,
                    _ => TaskStatus::Failed,
                };
                let summary = some_text(item, "aggregatedOutput");
                return out.event(Event::TaskChanged { task: Box::new(open.task(status, summary)) });
            }
            Some(open) if open.kind != Kind::Late => {}
            // It was never announced, or not with what it was called with.
            _ => out.event(tool.called(id.clone(), parent.clone())),
        }
        let outcome = outcome(item);
        let content = result(item, open.as_ref());
        let changes = if outcome == ToolOutcome::Done { tool.changes } else { vec![] };
        out.event_with_raw(Event::ToolResult { tool: id, parent, outcome, content, changes }, line);
    }
}

/// A message of Codex, by its turn first: a fork begins at a turn.
fn message_name(told: &Told, item: &str) -> String {
    format!("{}/{item}", told.turn_id)
}

/// The turn that a message belongs to.
pub(super) fn turn_of(message: &str) -> Option<String> {
    message.split_once('/').map(|(turn, _)| turn.to_owned()).filter(|turn| !turn.is_empty())
}

/// An item that is a tool's.
struct Tool {
    name: String,
    kind: ToolKind,
    title: Option<String>,
    input: Value,
    changes: Vec<FileChange>,
}

impl Tool {
    fn called(&self, id: String, parent: Option<String>) -> Event {
        Event::ToolCall {
            tool: id,
            item: None,
            message: None,
            parent,
            name: self.name.clone(),
            kind: self.kind,
            title: self.title.clone(),
            input: self.input.clone(),
            changes: self.changes.clone(),
        }
    }
}

fn short(words: &str) -> Option<String> {
    let line = words.lines().next().filter(|line| !line.is_empty())?;
    let short: String = line.chars().take(TITLE).collect();
    Some(if short.len() < line.len() { format!("{short}…") } else { short })
}

/// By the name that the model calls it.
fn tool(item: &Value) -> Option<Tool> {
    let named = |name: &str, kind, title: &str, input| Tool {
        name: name.to_owned(),
        kind,
        title: short(title),
        input,
        changes: vec![],
    };
    Some(match item["type"].as_str()? {
        "commandExecution" => {
            let command = text(item, "command");
            // What the shell is given, without the shell.
            let inner = match item["commandActions"].as_array().map(Vec::as_slice) {
                Some([action]) => text(action, "command"),
                _ => command.clone(),
            };
            let kind = match item["commandActions"][0]["type"].as_str() {
                Some("read") => ToolKind::Read,
                Some("search" | "listFiles") => ToolKind::Search,
                _ => ToolKind::Execute,
            };
            named("exec_command", kind, &inner, json!({ "command": command, "cwd": item["cwd"] }))
        }
        "fileChange" => {
            let changes = changes(&item["changes"]);
            let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
            let tool = named("apply_patch", ToolKind::Edit, &paths.join(", "), json!({ "paths": paths }));
            Tool { changes, ..tool }
        }
        "mcpToolCall" => {
            let (server, tool) = (text(item, "server"), text(item, "tool"));
            named(&format!("mcp__{server}__{tool}"), ToolKind::Mcp, &tool, item["arguments"].clone())
        }
        "dynamicToolCall" => {
            let name = text(item, "tool");
            named(&name, ToolKind::Other, &name, item["arguments"].clone())
        }
        "webSearch" => {
            let query = text(item, "query");
            let input = json!({ "query": query, "action": item["action"] });
            named("web_search", ToolKind::Fetch, &query, input)
        }
        "imageView" => {
            let path = text(item, "path");
            named("view_image", ToolKind::Read, &path, json!({ "path": path }))
        }
        "imageGeneration" => named("image_generation", ToolKind::Other, "", json!({})),
        "collabAgentToolCall" => {
            let prompt = text(item, "prompt");
            let input =
                json!({ "prompt": item["prompt"], "model": item["model"], "to": item["receiverThreadIds"] });
            let name = text(item, "tool");
            let kind = if name == "spawnAgent" { ToolKind::Subagent } else { ToolKind::Think };
            named(&name, kind, &prompt, input)
        }
        _ => return None,
    })
}

fn outcome(item: &Value) -> ToolOutcome {
    let refused = item["error"]["message"].as_str().is_some_and(|message| message.contains("user rejected"));
    match item["status"].as_str() {
        Some("declined") => ToolOutcome::Denied,
        // An MCP call that was refused is told as failed.
        Some("failed") if refused => ToolOutcome::Denied,
        Some("failed") => ToolOutcome::Failed,
        Some("interrupted" | "cancelled") => ToolOutcome::Interrupted,
        _ if item["success"] == false => ToolOutcome::Failed,
        _ => ToolOutcome::Done,
    }
}

fn result(item: &Value, open: Option<&Open>) -> Vec<Content> {
    let mut content = Vec::new();
    let streamed = || open.map(|open| open.text.clone()).filter(|text| !text.is_empty());
    if item["type"] == "commandExecution" {
        // Deltas are lossy; this is the truth, as much of it as Codex keeps.
        content.extend(some_text(item, "aggregatedOutput").or_else(streamed).map(Content::text));
    }
    let pieces = [&item["result"]["content"], &item["contentItems"]];
    for piece in pieces.into_iter().filter_map(Value::as_array).flatten() {
        content.push(match some_text(piece, "text") {
            Some(text) => Content::Text { text },
            None => Content::Other { body: piece.clone() },
        });
    }
    if item["result"]["structuredContent"].is_object() {
        content.push(Content::Data { data: item["result"]["structuredContent"].clone() });
    }
    content.extend(some_text(&item["error"], "message").map(Content::text));
    if let Some(code) = item["exitCode"].as_i64().filter(|code| *code != 0) {
        content.push(Content::Data { data: json!({ "exit_code": code }) });
    }
    if item["agentsStates"].as_object().is_some_and(|states| !states.is_empty()) {
        content.push(Content::Data { data: item["agentsStates"].clone() });
    }
    content
}
