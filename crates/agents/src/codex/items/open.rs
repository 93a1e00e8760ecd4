//! The open items, and those that were closed recently. The session keeps streamed text; this module keeps only what is
//! needed to close an item.

use std::collections::{HashSet, VecDeque};

use indexmap::IndexMap;
use portolan_core::{
    Event, Generation,
    event::{Content, FileChange, Task, TaskStatus, ToolOutcome, TurnOutcome},
    ports::Report,
};
use serde_json::Value;

use crate::driver::Output;

/// Items of one conversation that can be open at once; an agent with more has forgotten them, and so does Portolan.
const MAX_OPEN: usize = 4096;

/// Closed items whose late end is still recognised.
const REMEMBERED: usize = 1024;

/// How much of a running command's output is kept, in case it outlives its turn.
const KEPT: usize = 64 * 1024;

pub(super) type Name = (String, String);

/// Items that are open.
#[derive(Debug)]
pub(in crate::codex) struct Items {
    generation: Generation,
    count: u64,
    pub(super) open: IndexMap<Name, Open>,
    pub(super) closed: HashSet<Name>,
    oldest: VecDeque<Name>,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: Kind,
    /// The item's name in the session, or the call's.
    pub(super) name: String,
    pub(super) parent: Option<String>,
    /// The message, if the item is one.
    pub(super) message: Option<String>,
    /// It was announced as an item that streams.
    pub(super) streams: bool,
    /// The kept output of a command.
    pub(super) output: String,
    /// The part of a summary that is written.
    pub(super) part: u64,
    /// For a tool.
    pub(super) tool_name: String,
    /// The input, and the changes that the item would make, if any.
    pub(super) asks: (Value, Vec<FileChange>),
    pub(super) process: Option<String>,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// The summary is shown, or the thinking itself if there is no summary.
    Summary,
    Thought,
    Command,
    Tool,
    /// A tool that reports its input only when it ends.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// Its turn has ended, and the item continues.
    InBackground,
    /// The item was asked to stop.
    Stopping,
}

impl Items {
    pub(in crate::codex) fn new(generation: Generation) -> Self {
        Self { generation, count: 0, open: IndexMap::new(), closed: HashSet::new(), oldest: VecDeque::new() }
    }

    pub(super) fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.generation, self.count)
    }

    pub(super) fn begin(&mut self, key: Name, kind: Kind, name: String, parent: Option<String>) -> &mut Open {
        if self.open.len() >= MAX_OPEN {
            self.open.shift_remove_index(0);
        }
        let open = Open {
            kind,
            name,
            parent,
            message: None,
            streams: false,
            output: String::new(),
            part: 0,
            tool_name: String::new(),
            asks: (Value::Null, Vec::new()),
            process: None,
            state: State::Runs,
        };
        self.open.entry(key).insert_entry(open).into_mut()
    }

    pub(super) fn remember(&mut self, key: Name) {
        if self.closed.insert(key.clone()) {
            self.oldest.push_back(key);
        }
        if self.oldest.len() > REMEMBERED
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// The changes that an item is about to make, and its input.
    pub(in crate::codex) fn changes_of(&self, thread: &str, item: &str) -> (Value, Vec<FileChange>) {
        self.open.get(&(thread.into(), item.into())).map(|open| open.asks.clone()).unwrap_or_default()
    }

    /// The open call of an MCP server's tool, if there is exactly one: its id and its name.
    pub(in crate::codex) fn call_of(&self, thread: &str, server: &str) -> Option<(String, String)> {
        let prefix = format!("mcp__{server}__");
        let fits = |(key, open): &(&Name, &Open)| key.0 == thread && open.tool_name.starts_with(&prefix);
        let mut calls = self.open.iter().filter(fits);
        match (calls.next(), calls.next()) {
            (Some((_, open)), None) => Some((open.name.clone(), open.tool_name.clone())),
            _ => None,
        }
    }

    /// Whether a command of this thread runs, as far as is known.
    pub(in crate::codex) fn runs_commands(&self, thread: &str) -> bool {
        let runs = |(key, open): (&Name, &Open)| {
            key.0 == thread && open.kind == Kind::Command && open.state == State::Runs
        };
        self.open.iter().any(runs)
    }

    /// Whether it is a running task.
    pub(in crate::codex) fn is_task(&self, task: &str) -> bool {
        self.open.values().any(|open| open.name == task && open.state != State::Runs)
    }

    /// The process id by which Codex names a task, if reported. Codex does not report it for a command that needed
    /// permission.
    pub(in crate::codex) fn process_of(&self, task: &str) -> Option<String> {
        let open = self.open.values().find(|open| open.name == task && open.state != State::Runs)?;
        open.process.clone()
    }

    pub(in crate::codex) fn stopping(&mut self, task: &str) {
        if let Some(open) = self.open.values_mut().find(|open| open.name == task) {
            open.state = State::Stopping;
        }
    }

    /// Closes the items of an ended turn. Commands continue in the background, unless the turn was stopped and they
    /// with it; the session closes everything else.
    pub(in crate::codex) fn turn_ends(&mut self, thread: &str, outcome: TurnOutcome, out: &mut Output) {
        for (key, mut open) in std::mem::take(&mut self.open) {
            if key.0 != thread || open.state != State::Runs {
                self.open.insert(key, open);
            } else if open.kind == Kind::Command && outcome != TurnOutcome::Interrupted {
                open.state = State::InBackground;
                let so_far =
                    if open.output.is_empty() { String::new() } else { format!(":\n{}", open.output) };
                let content = vec![Content::text(format!("The command continues in the background{so_far}"))];
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

    /// A subagent's turn has ended: its open items are closed here, because the session goes on.
    pub(in crate::codex) fn subagent_ends(&mut self, thread: &str, out: &mut Output) {
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
    /// A message will not be finished; the session has the text so far.
    pub(super) fn cut_off(&self, model: Option<String>, out: &mut Output) {
        if self.streams {
            out.report(Report::CutOff { item: self.name.clone(), model });
        }
    }

    /// Keeps more of a command's output, up to the limit.
    pub(super) fn keep(&mut self, output: &str) {
        if self.output.len() + output.len() <= KEPT {
            self.output.push_str(output);
        }
    }

    pub(super) fn task(&self, status: TaskStatus, summary: Option<String>) -> Task {
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
