//! Turns entries into lines. Keeps track of how much of every open text was shown, so that a lost connection neither
//! loses nor repeats text.
//!
//! - [`texts`]: streaming texts, several at once
//! - [`calls`]: tool calls

mod calls;
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use portolan_core::{
    Event, Seq,
    entry::Decoded,
    event::{Content, PlanStep, plain_text},
    request::Request,
    session::state::State,
};
use serde_json::Value;

use self::texts::{Item, is_shown, last_line};
use super::{
    clean, remarks, requests,
    style::{Line, Style},
    tools::{self, Call},
};

/// How tool calls are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line per call, when the call has ended; running calls are shown below.
    Live,
    /// One line when a call begins and one when it ends.
    Plain,
}

impl Layout {
    /// How to see the whole of a request that is shown in part.
    fn whole(self) -> &'static str {
        match self {
            Self::Live => "Ctrl-O shows the whole request",
            Self::Plain => "`portolan show ID --json` shows the whole request",
        }
    }
}

/// What is on the screen so far.
///
/// Subagents may stream texts in parallel. One text is on stage: its lines appear as they stream. The other texts wait
/// and appear in full when they are finished, or go on stage when it is free.
#[derive(Debug)]
pub(crate) struct Transcript {
    layout: Layout,
    columns: usize,
    seen: Seq,
    items: IndexMap<String, Item>,
    stage: Option<String>,
    calls: IndexMap<String, (Call, Value)>,
    last_call: Option<(Call, Value, Vec<Content>)>,
    parents: BTreeMap<String, Option<String>>,
    plans: BTreeMap<Option<String>, Vec<PlanStep>>,
    requests: BTreeMap<u64, Request>,
    /// Calls whose changes were already shown with their request.
    shown_changes: BTreeSet<String>,
    block: Block,
}

/// The kind of the last lines, so that an empty line separates different kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block {
    Nothing,
    Prompt,
    Text(String),
    Other,
}

impl Transcript {
    /// Nothing shown yet.
    pub(crate) fn new(layout: Layout, columns: usize) -> Self {
        Self {
            layout,
            columns,
            seen: Seq::ZERO,
            items: IndexMap::new(),
            stage: None,
            calls: IndexMap::new(),
            last_call: None,
            parents: BTreeMap::new(),
            plans: BTreeMap::new(),
            requests: BTreeMap::new(),
            shown_changes: BTreeSet::new(),
            block: Block::Nothing,
        }
    }

    /// The last entry seen: the client continues after it when it reconnects.
    pub(crate) fn seen(&self) -> Seq {
        self.seen
    }

    /// Sets the width of the terminal. Open texts keep their width.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// The unfinished line of the text on stage.
    pub(crate) fn unfinished(&self) -> Option<Line> {
        self.items.get(self.stage.as_ref()?)?.flow.unfinished()
    }

    /// Running calls and waiting texts beside the text on stage, one line each.
    pub(crate) fn running(&self) -> Vec<Line> {
        if self.layout == Layout::Plain {
            return Vec::new();
        }
        let calls = self.calls.values().map(|(call, _)| tools::called(call).indented(call.depth * 2));
        let waiting = self.items.iter().filter(|(name, item)| {
            is_shown(item.kind) && !item.received.is_empty() && self.stage.as_ref() != Some(*name)
        });
        let texts = waiting.map(|(_, item)| {
            Line::new(Style::Dim, format!("… {}", clean::line(last_line(&item.received))))
                .indented(item.depth * 2)
        });
        calls.chain(texts).collect()
    }

    /// The last call that ended, in full.
    pub(crate) fn unfold(&mut self) -> Vec<Line> {
        match &self.last_call {
            Some((call, input, content)) => tools::unfolded(call, input, content),
            None => Vec::new(),
        }
    }

    /// Takes the state instead of missed entries: shows new parts of open texts, and new requests.
    pub(crate) fn snapshot(&mut self, seq: Seq, state: &State) -> Vec<Line> {
        let mut out = Vec::new();
        for subagent in &state.subagents {
            self.parents.insert(subagent.subagent.clone(), subagent.parent.clone());
        }
        let gone: Vec<String> = self
            .items
            .keys()
            .filter(|name| !state.items.iter().any(|open| &open.item == *name))
            .cloned()
            .collect();
        for name in gone {
            out.extend(self.finish(&name));
        }
        for open in &state.items {
            if !self.items.contains_key(&open.item) {
                self.start(&open.item, open.kind, open.parent.as_deref());
            }
            out.extend(self.catch_up(&open.item, &open.text));
        }
        self.calls.retain(|tool, _| state.tools.contains(tool));
        if self.plans.is_empty() && !state.plan.is_empty() {
            self.plans.insert(None, state.plan.clone());
        }
        for request in &state.requests {
            if !self.requests.contains_key(&request.request.0) {
                out.extend(self.open_request(request));
            }
        }
        self.seen = self.seen.max(seq);
        out
    }

    /// The lines of an entry. An entry that was seen already has none.
    pub(crate) fn entry(&mut self, entry: &Decoded<Event>) -> Vec<Line> {
        if entry.seq <= self.seen {
            return Vec::new();
        }
        self.seen = entry.seq;
        let by = entry.by.as_ref().map(ToString::to_string);
        self.event(&entry.event, by.as_deref())
    }

    fn event(&mut self, event: &Event, by: Option<&str>) -> Vec<Line> {
        match event {
            Event::ItemStarted { item, kind, parent, .. } => {
                self.start(item, *kind, parent.as_deref());
                Vec::new()
            }
            Event::Delta { item, text } => self.delta(item, text),
            Event::Message { item, parent, content, interrupted, .. } => {
                self.message(item, parent.as_deref(), content, *interrupted)
            }
            Event::ToolCall { tool, item, parent, name, kind, title, input, changes, .. } => {
                if let Some(item) = item {
                    self.items.shift_remove(item);
                }
                let call = Call {
                    name: clean::line(name),
                    what: tools::what(title.as_deref(), input),
                    changes: changes.clone(),
                    depth: self.depth(parent.as_deref()),
                };
                self.tool_call(tool, *kind, call, input)
            }
            Event::ToolResult { tool, outcome, content, changes, parent } => {
                self.tool_result(tool, parent.as_deref(), *outcome, content, changes)
            }
            Event::Prompt { content, .. } => self.prompt(content, by),
            Event::TurnEnded { result, .. } => {
                let lines = remarks::turn_ended(result);
                self.other(lines)
            }
            Event::Plan { steps, parent } => self.plan(steps, parent.as_deref()),
            Event::SubagentStarted { subagent, parent, subagent_type, description, .. } => {
                let depth = self.depth(parent.as_deref());
                self.parents.insert(subagent.clone(), parent.clone());
                let kind = subagent_type.as_deref().map_or_else(|| "subagent".into(), clean::line);
                let line = Line::new(Style::Accent, format!("◇ {kind}"))
                    .and(Style::Plain, format!(" {}", clean::line(description)));
                self.other(vec![line.indented(depth * 2)])
            }
            Event::SubagentEnded { subagent, outcome, summary, work } => {
                let depth = self.depth(Some(subagent)).saturating_sub(1);
                let line = remarks::subagent_ended(*outcome, summary.as_deref(), work.as_ref());
                self.other(vec![line.cut(self.columns.saturating_sub(depth * 2)).indented(depth * 2)])
            }
            Event::RequestOpened { request } => self.open_request(request),
            Event::RequestClosed { request, outcome } => {
                let known = self.requests.remove(&request.0);
                let indent = self.depth(known.as_ref().and_then(|known| known.parent.as_deref())) * 2;
                let line = requests::outcome(known.as_ref().map(|known| &known.ask), outcome);
                self.other(vec![line.indented(indent)])
            }
            Event::RequestDecided { request, outcome } => {
                let indent = self.depth(request.parent.as_deref()) * 2;
                self.other(vec![requests::outcome(Some(&request.ask), outcome).indented(indent)])
            }
            other => match remarks::remark(other, by) {
                Some(line) => self.other(vec![line]),
                None => Vec::new(),
            },
        }
    }

    /// The whole plan at first, then the steps that changed.
    fn plan(&mut self, steps: &[PlanStep], parent: Option<&str>) -> Vec<Line> {
        let indent = self.depth(parent) * 2;
        let before = self.plans.insert(parent.map(str::to_owned), steps.to_vec()).unwrap_or_default();
        let changed = steps.iter().filter(|step| !before.contains(step));
        let lines: Vec<Line> = changed.map(|step| remarks::plan_step(step).indented(indent)).collect();
        if lines.is_empty() { Vec::new() } else { self.other(lines) }
    }

    /// Lines that are not part of a text.
    fn other(&mut self, lines: Vec<Line>) -> Vec<Line> {
        self.block = Block::Other;
        lines
    }

    fn depth(&self, parent: Option<&str>) -> usize {
        let mut depth = 0;
        let mut at = parent;
        // A faulty agent could name a subagent as its own ancestor.
        while let Some(name) = at
            && depth < 8
        {
            depth += 1;
            at = self.parents.get(name).and_then(Option::as_deref);
        }
        depth
    }

    fn prompt(&mut self, content: &[Content], by: Option<&str>) -> Vec<Line> {
        let mut out = Vec::new();
        if self.block != Block::Nothing {
            out.push(Line::empty());
        }
        let text = clean::text(&plain_text(content));
        let mut lines = text.lines();
        let mut first = Line::new(Style::Bold, format!("› {}", lines.next().unwrap_or_default()));
        if let Some(by) = by {
            first = first.and(Style::Dim, format!("  {}", clean::line(by)));
        }
        out.push(first);
        out.extend(lines.map(|line| Line::new(Style::Bold, format!("  {line}"))));
        out.extend(content.iter().filter_map(piece).map(|line| line.indented(2)));
        self.block = Block::Prompt;
        out
    }

    fn open_request(&mut self, request: &Request) -> Vec<Line> {
        if let (Some(tool), portolan_core::request::Ask::Permission { changes, .. }) =
            (&request.tool, &request.ask)
            && !changes.is_empty()
        {
            self.shown_changes.insert(tool.clone());
        }
        self.requests.insert(request.request.0, request.clone());
        let indent = self.depth(request.parent.as_deref()) * 2;
        let columns = self.columns.saturating_sub(indent);
        let mut lines = vec![Line::empty()];
        for line in requests::block(request, self.layout.whole()) {
            // Wrapped, not cut: people see everything that they approve.
            lines.extend(line.wrapped(columns).into_iter().map(|line| line.indented(indent)));
        }
        self.other(lines)
    }
}

/// Content that is not text, in one line.
fn piece(content: &Content) -> Option<Line> {
    let line = match content {
        Content::Text { .. } | Content::Thinking { .. } => return None,
        Content::RedactedThinking => Line::new(Style::Dim, "(thinking that is not shown)"),
        Content::Image { media_type, data } => {
            let kib = data.len() * 3 / 4 / 1024;
            Line::new(Style::Dim, format!("(image, {}, {kib} KiB)", clean::line(media_type)))
        }
        Content::Resource { uri, name, .. } => {
            let name = name.as_deref().map(|name| format!("{} ", clean::line(name))).unwrap_or_default();
            Line::new(Style::Accent, format!("{name}{}", clean::visible(uri)))
        }
        Content::Data { data } => Line::new(Style::Plain, clean::line(&data.to_string())),
        Content::Other { body } => Line::new(Style::Dim, clean::line(&body.to_string())),
    };
    Some(line)
}
