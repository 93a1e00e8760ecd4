//! Items: messages and actions of Codex in a turn. Messages and thinking stream; everything else is a tool with a call
//! and a result.
//!
//! An item is named by its thread and its own id: a fork repeats ids, and so do subagents. Items that never complete
//! are closed by the session with their turn; a command that outlives its turn becomes a task; an item that completes
//! after it was closed is ignored.
//!
//! - `open`: the open items
//! - `tools`: items that are tools, with input and result
//! - `changes`: the changes of a patch

mod changes;
mod open;
mod tools;

use portolan_core::{
    Event,
    event::{Content, ItemKind, TaskStatus, ToolOutcome},
};
use serde_json::Value;

pub(super) use self::open::Items;
use self::{
    open::{Kind, Name, Open, State},
    tools::Tool,
};
use super::{
    KIND,
    threads::Whose,
    translate::Translate,
    wire::{Told, some_text, text},
};
use crate::driver::Output;

impl Translate {
    fn key(told: &Told, id: &str) -> Name {
        (told.thread_id.clone(), id.to_owned())
    }

    // ----------------------------------------------------------------------------------------- begun

    pub(super) fn item_started(&mut self, told: &Told, line: &str, out: &mut Output) {
        let (item, id) = (&told.item, text(&told.item, "id"));
        if self.threads.waits(&told.thread_id) {
            // Whatever its first item is, the subagent waits no longer.
            let words = text(&item["content"][0], "text");
            self.subagent_begins(&told.thread_id, Some(&words), out);
        }
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
                if let Some(tool) = Tool::of(item) {
                    self.begin_tool(key, id, parent, tool, item, out);
                }
                // Any other item is reported in full at its end.
            }
        }
    }

    /// A message that another one follows was cut off: the stream broke, or someone steered.
    fn cut_off_older(&mut self, told: &Told, out: &mut Output) {
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

    /// Announced with its first text: Codex opens messages that it never writes.
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
        out: &mut Output,
    ) {
        let kind = if item["type"] == "commandExecution" { Kind::Command } else { Kind::Tool };
        let open = self.items.begin(key, kind, id.clone(), parent.clone());
        open.tool_name = if kind == Kind::Command { text(item, "command") } else { tool.name.clone() };
        if !tool.changes.is_empty() {
            open.asks = (tool.input.clone(), tool.changes.clone());
        }
        open.process = some_text(item, "processId");
        if item["type"] == "collabAgentToolCall" {
            self.threads.spawns(&id, parent.clone(), item);
        }
        out.event(tool.called(id, parent));
    }

    // ---------------------------------------------------------------------------------------- continued

    pub(super) fn more_text(&mut self, told: &Told, out: &mut Output) {
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

    pub(super) fn more_summary(&mut self, told: &Told, out: &mut Output) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get_mut(&key).filter(|open| open.kind == Kind::Summary) else {
            return;
        };
        // Parts are paragraphs; a new index marks a new paragraph.
        let paragraph = told.summary_index > open.part && open.streams;
        open.part = told.summary_index;
        if paragraph {
            self.stream(&key, "\n\n", ItemKind::Thinking, out);
        }
        self.stream(&key, &told.delta, ItemKind::Thinking, out);
    }

    pub(super) fn more_thought(&mut self, told: &Told, out: &mut Output) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get_mut(&key) else { return };
        if open.kind == Kind::Summary && !open.streams {
            open.kind = Kind::Thought;
        }
        if open.kind == Kind::Thought {
            self.stream(&key, &told.delta, ItemKind::Thinking, out);
        }
    }

    pub(super) fn more_output(&mut self, told: &Told, out: &mut Output) {
        let key = Self::key(told, &told.item_id);
        let runs = |open: &Open| open.kind == Kind::Command && open.state == State::Runs;
        if self.items.open.get(&key).is_some_and(runs) {
            self.stream(&key, &told.delta, ItemKind::ToolOutput, out);
        }
    }

    fn stream(&mut self, key: &Name, delta: &str, kind: ItemKind, out: &mut Output) {
        let Some(open) = self.items.open.get_mut(key).filter(|_| !delta.is_empty()) else { return };
        let (item, parent) = (open.name.clone(), open.parent.clone());
        if !open.streams {
            open.streams = true;
            let message = open.message.clone();
            out.event(Event::ItemStarted { item: item.clone(), kind, message, parent });
        }
        if kind == ItemKind::ToolOutput {
            open.keep(delta);
        }
        out.event(Event::Delta { item, text: delta.to_owned() });
    }

    pub(super) fn tool_progress(&mut self, told: &Told, out: &mut Output) {
        let key = Self::key(told, &told.item_id);
        let Some(open) = self.items.open.get(&key) else { return };
        let (tool, name, parent) = (open.name.clone(), open.tool_name.clone(), open.parent.clone());
        out.event(Event::ToolProgress { tool, name, parent, elapsed_seconds: None });
    }

    // ------------------------------------------------------------------------------------------ ended

    pub(super) fn item_completed(&mut self, told: &Told, line: &str, out: &mut Output) {
        let (item, id) = (&told.item, text(&told.item, "id"));
        let key = Self::key(told, &id);
        if self.items.closed.contains(&key) {
            // It was closed when its turn ended.
            return;
        }
        match item["type"].as_str().unwrap_or_default() {
            // The user's prompt, or a prompt for a subagent: both are known already.
            "userMessage" | "enteredReviewMode" | "sleep" => {}
            "agentMessage" | "plan" => {
                if let Some(words) = item["text"].as_str() {
                    return self.text_completed(told, key, words, out);
                }
                // The streamed part is kept, and the unreadable part too.
                if let Some(open) = self.items.open.shift_remove(&key) {
                    open.cut_off(self.threads.model().map(str::to_owned), out);
                }
                out.unknown(KIND, "item/completed", line);
            }
            "reasoning" => self.reasoning_completed(told, key, item, out),
            // The review itself comes as a message.
            "exitedReviewMode" => out.event(Event::Activity { activity: None }),
            "contextCompaction" => {
                out.event(Event::Activity { activity: None });
                let trigger = Some(self.turns.compaction_trigger().to_owned());
                out.event(Event::Compacted { trigger, tokens_before: None, tokens_after: None });
            }
            other => match Tool::of(item) {
                Some(tool) => self.tool_completed(told, key, id, tool, line, out),
                None => out.unknown(KIND, &format!("item/completed {other}"), line),
            },
        }
    }

    fn text_completed(&mut self, told: &Told, key: Name, words: &str, out: &mut Output) {
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

    fn reasoning_completed(&mut self, told: &Told, key: Name, item: &Value, out: &mut Output) {
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
        out: &mut Output,
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
            // The call was never announced, or not with its input.
            _ => out.event(tool.called(id.clone(), parent.clone())),
        }
        let outcome = tools::outcome(item);
        let streamed = open.as_ref().map(|open| open.output.as_str());
        let content = tools::result(item, streamed);
        let changes = if outcome == ToolOutcome::Done { tool.changes } else { vec![] };
        out.event_with_raw(Event::ToolResult { tool: id, parent, outcome, content, changes }, line);
        self.command_ended(&told.thread_id, out);
    }
}

/// A message of Codex, with its turn first: a fork begins at a turn.
fn message_name(told: &Told, item: &str) -> String {
    format!("{}/{item}", told.turn_id)
}

/// The turn that a message belongs to.
pub(super) fn turn_of(message: &str) -> Option<String> {
    message.split_once('/').map(|(turn, _)| turn.to_owned()).filter(|turn| !turn.is_empty())
}
