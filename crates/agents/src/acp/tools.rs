//! Tool calls. Any message about a call may be the first: the call itself, an update, or the request for permission.
//! The messages are merged; the call is shown once its input is known.
//!
//! Calls that a turn leaves open are closed with the turn: denied calls here, the rest by the session.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
};

use indexmap::IndexMap;
use portolan_core::{
    Event,
    event::{Content, FileChange, ItemKind, ToolKind, ToolOutcome},
    policy::{self, Kind},
};
use serde_json::{Value, json};

use super::{
    changes::{changes, whole_input},
    messages::Ending,
    translate::Translate,
    wire::{self, list, some_text},
};
use crate::driver::Output;

/// Calls of one turn that can be open at once; an agent with more has forgotten them, and so does Portolan.
const MAX_OPEN: usize = 4096;

/// Closed calls whose late updates are still recognised.
const REMEMBERED: usize = 1024;

/// The longest line for people, in characters.
const TITLE: usize = 120;

/// How much of a call's output is kept.
const PRINTED: usize = 64 * 1024;

/// Terminals whose output is remembered until a call shows it.
const TERMINALS: usize = 64;

/// Where agents put the name that the model uses for a tool. ACP has no field for it.
const NAMES: &[&str] =
    &["/name", "/_meta/claudeCode/toolName", "/_meta/toolName", "/_meta/goose/toolCall/toolName"];

/// Calls that are open.
#[derive(Debug, Default)]
pub(super) struct Tools {
    open: IndexMap<String, Call>,
    /// Calls that have ended, with their lines for people.
    closed: HashMap<String, Option<String>>,
    oldest: VecDeque<String>,
    /// The output of Portolan's terminals, by their names.
    printed: IndexMap<String, String>,
}

impl Tools {
    /// Whether a call is still open, as far as is known.
    pub(super) fn any_open(&self) -> bool {
        self.open.values().any(|call| !call.denied)
    }
}

/// What is known about a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// The subagent that makes the call.
    pub(super) parent: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    pub(super) title: Option<String>,
    pub(super) input: Value,
    content: Vec<Value>,
    output: Value,
    /// The output, if the call streams it.
    printed: String,
    /// How the command ended, if reported.
    exit_code: Option<i64>,
    /// The item that stands for the input until it is known.
    item: Option<String>,
    shown: bool,
    denied: bool,
}

impl Call {
    fn merge(&mut self, told: &Value) {
        // After the call was shown, its name stays.
        if !self.shown {
            let named = NAMES.iter().find_map(|place| told.pointer(place)?.as_str());
            self.name = named.map(str::to_owned).or(self.name.take());
        }
        self.kind = some_text(told, "kind").or(self.kind.take());
        self.title = some_text(told, "title").or(self.title.take());
        if has_something(&told["rawInput"]) {
            self.input = told["rawInput"].clone();
        }
        if let Some(content) = told["content"].as_array() {
            self.content.clone_from(content);
        }
        if has_something(&told["rawOutput"]) {
            self.output = told["rawOutput"].clone();
        }
        let exit = &told["_meta"]["terminal_exit"]["exit_code"];
        self.exit_code = exit.as_i64().or(self.exit_code);
    }

    /// A name that means this tool and no other: the user's rules use it. The kind of a tool is such a name, unless it
    /// is empty. A title is a text for people: it never makes a tool of another kind one that reads, edits or runs.
    pub(super) fn name(&self) -> String {
        let kind = self.kind.clone().filter(|kind| kind != "other");
        let title = || self.title.clone().filter(|title| Kind::of(title) == Kind::Unknown);
        self.name.clone().or(kind).or_else(title).unwrap_or_else(|| "other".into())
    }

    fn kind(&self) -> ToolKind {
        if self.name.as_ref().is_some_and(|name| name.starts_with("mcp__")) {
            return ToolKind::Mcp;
        }
        // As Claude Code calls them.
        if matches!(self.name.as_deref(), Some("Agent" | "Task")) {
            return ToolKind::Subagent;
        }
        match self.kind.as_deref() {
            Some("read") => ToolKind::Read,
            Some("edit" | "delete" | "move") => ToolKind::Edit,
            Some("search") => ToolKind::Search,
            Some("execute") => ToolKind::Execute,
            Some("think") => ToolKind::Think,
            Some("fetch") => ToolKind::Fetch,
            _ => ToolKind::Other,
        }
    }

    pub(super) fn changes(&self) -> Vec<FileChange> {
        changes(&self.content)
    }

    pub(super) fn input(&self) -> Value {
        if self.input.is_null() { json!({}) } else { self.input.clone() }
    }

    /// The input with everything that is to be allowed.
    pub(super) fn whole_input(&self) -> Value {
        whole_input(self.input(), &self.content)
    }

    /// The command, for an agent that names it only in the title. The agent says in its words where the command runs:
    /// in another folder, the files of the command would be others, so that no rule can judge it.
    pub(super) fn command_in_title(&self) -> Option<Value> {
        let is_bare = self.kind() == ToolKind::Execute && self.input() == json!({});
        let is_here = self.words()?.starts_with("[current working directory ");
        let command = self.title.as_ref().filter(|_| is_bare && is_here)?;
        Some(json!({ "command": command }))
    }

    /// More about the call: often the purpose of a command.
    pub(super) fn words(&self) -> Option<String> {
        let pieces = self.content.iter().filter(|piece| piece["type"] == "content");
        let words: Vec<_> = pieces.filter_map(|piece| some_text(&piece["content"], "text")).collect();
        Some(words.join("\n")).filter(|words| !words.is_empty() && self.title.as_ref() != Some(words))
    }

    /// What the call is about, in a line for people.
    pub(super) fn line(&self) -> Option<String> {
        let line = self.title.as_deref()?.lines().next().filter(|line| !line.is_empty())?;
        let short: String = line.chars().take(TITLE).collect();
        Some(if short.len() < line.len() { format!("{short}…") } else { short })
    }

    /// The result, in pieces. Content from before the end may only describe the call.
    fn result(&self, last: &Value, printed: &IndexMap<String, String>) -> Vec<Content> {
        let is_result = !list(last, "content").is_empty() || self.output.is_null();
        let content = self.content.iter().filter(|piece| is_result || piece["type"] == "terminal");
        let mut pieces: Vec<Content> = Vec::new();
        for piece in content {
            match piece["type"].as_str() {
                Some("content") => pieces.push(wire::content(&piece["content"])),
                // Diffs are changes.
                Some("diff") => {}
                // Codex names its own terminals.
                Some("terminal") => {
                    let ours = piece["terminalId"].as_str().and_then(|terminal| printed.get(terminal));
                    pieces.extend(ours.map(Content::text));
                }
                _ => pieces.push(Content::Other { body: piece.clone() }),
            }
        }
        if !self.printed.is_empty() {
            pieces.push(Content::text(&self.printed));
        }
        if pieces.is_empty() {
            pieces.extend(output(&self.output));
        }
        if let Some(code) = self.exit_code.filter(|code| *code != 0) {
            pieces.push(Content::Data { data: json!({ "exit_code": code }) });
        }
        pieces
    }
}

/// The text of a raw output, if it has one; otherwise all of it.
fn output(raw: &Value) -> Option<Content> {
    let text =
        ["output", "formatted_output", "content", "stdout", "text"].iter().find_map(|key| raw[*key].as_str());
    match (raw.as_str().or(text), raw) {
        (_, Value::Null) => None,
        (Some(text), _) => Some(Content::text(text)),
        (None, raw) => Some(Content::Data { data: raw.clone() }),
    }
}

/// Whether an input has more than the folder, which some agents know before the rest.
fn says_something(input: &Value) -> bool {
    match input {
        Value::Object(map) => map.keys().any(|key| key != "cwd"),
        other => has_something(other),
    }
}

fn has_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

impl Tools {
    fn call(&mut self, id: &str) -> &mut Call {
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(id) {
            self.open.shift_remove_index(0);
        }
        self.open.entry(id.to_owned()).or_default()
    }

    /// An open call.
    pub(super) fn call_of(&self, id: &str) -> Option<&Call> {
        self.open.get(id)
    }

    /// The open call that a task of Portolan belongs to: the one that the agent names, or the newest call of this kind
    /// that names this file, or else the newest of this kind that names no file.
    pub(super) fn call_for(
        &self,
        id: Option<&str>,
        kind: Kind,
        file: Option<&Path>,
    ) -> Option<(String, &Call)> {
        // Of the same kind: otherwise the agent could write under the name of a tool that reads.
        if let Some((id, call)) = id.and_then(|id| self.open.get_key_value(id))
            && Kind::of(&call.name()) == kind
        {
            return Some((id.clone(), call));
        }
        let mut alike =
            self.open.iter().rev().filter(|(_, call)| !call.denied && Kind::of(&call.name()) == kind);
        let files = |call: &Call| {
            let (name, input) = (call.name(), call.input());
            let mut files = policy::Call::new(&name, &input).files().unwrap_or_default();
            files.extend(call.changes().into_iter().map(|change| change.path));
            files
        };
        let found = alike
            .clone()
            .find(|(_, call)| files(call).iter().any(|named| file.is_some_and(|file| file.ends_with(named))));
        let found = found.or_else(|| alike.find(|(_, call)| files(call).is_empty()));
        found.map(|(id, call)| (id.clone(), call))
    }

    /// The line for people of a call that has ended.
    pub(super) fn line_of(&self, id: &str) -> Option<String> {
        self.closed.get(id)?.clone()
    }

    fn remember(&mut self, id: String, line: Option<String>) {
        if self.closed.insert(id.clone(), line).is_none() {
            self.oldest.push_back(id);
        }
        if self.oldest.len() > REMEMBERED
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// A terminal of Portolan has printed this, so far.
    pub(super) fn printed(&mut self, terminal: String, output: String) {
        if self.printed.len() >= TERMINALS && !self.printed.contains_key(&terminal) {
            self.printed.shift_remove_index(0);
        }
        let start = output.len().saturating_sub(PRINTED);
        let start = (start..output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(output.len());
        self.printed.insert(terminal, output[start..].to_owned());
    }

    pub(super) fn denied(&mut self, id: &str) {
        if let Some(call) = self.open.get_mut(id) {
            call.denied = true;
        }
    }
}

impl Translate {
    pub(super) fn tool_told(&mut self, update: &Value, line: &str, out: &mut Output) {
        let Some(id) = some_text(update, "toolCallId") else {
            return out.unknown(&self.setup.agent, "session/update tool_call without an id", line);
        };
        if self.tools.closed.contains_key(&id) {
            // The call has ended, and this changes nothing.
            return;
        }
        let parent = self.owner(update, out);
        self.end_words_of(parent.as_deref(), Ending::Whole, out);
        let call = self.tools.call(&id);
        call.merge(update);
        call.parent = parent.or(call.parent.take());
        let status = update["status"].as_str().unwrap_or("pending");
        let is_known = says_something(&call.input) || status != "pending" || !call.content.is_empty();
        if is_known {
            self.show_call(&id, out);
        } else {
            self.announce_call(&id, out);
        }
        self.subagent_in_background(&id, update, out);
        if let Some(more) = update["_meta"]["terminal_output"]["data"].as_str() {
            self.prints(&id, more, out);
        }
        match status {
            "completed" => self.call_ended(&id, update, ToolOutcome::Done, line, out),
            "failed" => self.call_ended(&id, update, ToolOutcome::Failed, line, out),
            _ => {}
        }
    }

    /// The agent asks for permission to make a call, which may be the first message about it.
    pub(super) fn call_asked_about(&mut self, id: &str, told: &Value, out: &mut Output) -> Call {
        let parent = self.owner(told, out);
        let call = self.tools.call(id);
        call.merge(told);
        call.parent = parent.or(call.parent.take());
        let parent = call.parent.clone();
        self.end_words_of(parent.as_deref(), Ending::Whole, out);
        self.tools.closed.remove(id);
        self.show_call(id, out);
        self.tools.call(id).clone()
    }

    /// The call exists, but its input is not known yet.
    fn announce_call(&mut self, id: &str, out: &mut Output) {
        let item = self.messages.next_name();
        let call = self.tools.call(id);
        if call.item.is_some() || call.shown {
            return;
        }
        call.item = Some(item.clone());
        let (name, parent) = (call.name(), call.parent.clone());
        let kind = ItemKind::ToolInput;
        out.event(Event::ItemStarted { item: item.clone(), kind, message: None, parent });
        out.event(Event::ToolNamed { item, tool: id.to_owned(), name });
    }

    /// A command prints output.
    fn prints(&mut self, id: &str, more: &str, out: &mut Output) {
        self.show_call(id, out);
        let call = self.tools.call(id);
        if more.is_empty() || call.printed.len() + more.len() > PRINTED {
            return;
        }
        if call.printed.is_empty() {
            let (item, kind, parent) = (id.to_owned(), ItemKind::ToolOutput, call.parent.clone());
            out.event(Event::ItemStarted { item, kind, message: None, parent });
        }
        call.printed.push_str(more);
        out.event(Event::Delta { item: id.to_owned(), text: more.to_owned() });
    }

    /// Shows a call that is open.
    pub(super) fn show_open_call(&mut self, id: &str, out: &mut Output) {
        if self.tools.open.contains_key(id) {
            self.show_call(id, out);
        }
    }

    fn show_call(&mut self, id: &str, out: &mut Output) {
        let call = self.tools.call(id);
        if call.shown {
            return;
        }
        call.shown = true;
        // A name from the kind or the title stays as well.
        call.name = Some(call.name());
        out.event(Event::ToolCall {
            tool: id.to_owned(),
            item: call.item.take(),
            message: None,
            parent: call.parent.clone(),
            name: call.name(),
            kind: call.kind(),
            title: call.line(),
            input: call.input(),
            changes: call.changes(),
        });
    }

    fn call_ended(&mut self, id: &str, update: &Value, outcome: ToolOutcome, line: &str, out: &mut Output) {
        let Some(call) = self.tools.open.shift_remove(id) else { return };
        self.approvals.ended(id);
        let outcome = match outcome {
            ToolOutcome::Failed if call.denied => ToolOutcome::Denied,
            // Gemini and OpenCode report a stopped call as completed, Qwen as failed.
            _ if self.turns.is_cancelled() => ToolOutcome::Interrupted,
            outcome => outcome,
        };
        let changes = if outcome == ToolOutcome::Done { call.changes() } else { vec![] };
        self.subagent_call_ended(id, outcome, out);
        let (tool, content) = (id.to_owned(), call.result(update, &self.tools.printed));
        let (line_of_call, parent) = (call.line(), call.parent);
        out.event_with_raw(Event::ToolResult { tool, parent, outcome, content, changes }, line);
        self.tools.remember(id.to_owned(), line_of_call);
    }

    /// Some agents report nothing more about a denied call.
    pub(super) fn tools_left_open(&mut self, out: &mut Output) {
        for (id, call) in std::mem::take(&mut self.tools.open) {
            if call.denied && call.shown {
                let outcome = ToolOutcome::Denied;
                let (tool, parent, content) = (id.clone(), call.parent.clone(), vec![]);
                out.event(Event::ToolResult { tool, parent, outcome, content, changes: vec![] });
            }
            self.tools.remember(id, call.line());
        }
    }
}

/// The first place that a call is about.
pub(super) fn first_place(told: &Value) -> Option<String> {
    list(told, "locations").iter().find_map(|place| some_text(place, "path"))
}
