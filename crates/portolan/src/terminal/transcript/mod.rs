//! Entries to lines. Remembers how much of every open text was shown, so that none is lost or repeated, whatever
//! the connection does.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use portolan_core::{
    Event, Seq,
    entry::Decoded,
    event::{Content, FileChange, ItemKind, PlanStep, ToolKind, ToolOutcome, plain_text},
    request::Request,
    session::state::State,
};
use serde_json::Value;

use super::{
    clean, diff,
    flow::Flow,
    remarks, requests,
    style::{Line, Style},
    tools::{self, Call},
};

/// Lines of a diff shown by themselves; unfolding shows the rest.
const DIFF_LINES: usize = 40;

/// How calls of tools are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line per call, once it has ended; calls that run are shown below.
    Live,
    /// A line when it begins and one when it ends.
    Plain,
}

impl Layout {
    /// How all of a request is seen, of which a part is shown.
    fn whole(self) -> &'static str {
        match self {
            Self::Live => "Ctrl-O shows all of it",
            Self::Plain => "`portolan show ID --json` shows all of it",
        }
    }
}

/// What was shown so far.
///
/// Texts may be written side by side, by subagents. One of them is on stage: its lines appear as they are written.
/// The others wait and appear whole when they are finished, or go on stage when it is free.
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
    /// Calls whose changes were shown when they were asked for.
    shown_changes: BTreeSet<String>,
    block: Block,
}

/// What the last lines were, so that different things are set apart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block {
    Nothing,
    Prompt,
    Text(String),
    Other,
}

/// A text that is being written.
#[derive(Debug)]
struct Item {
    kind: ItemKind,
    /// All that came, as it came.
    received: String,
    flow: Flow,
    /// Lines that wait for the stage.
    waiting: Vec<Line>,
    depth: usize,
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

    /// The last entry seen: where to go on after a lost connection.
    pub(crate) fn seen(&self) -> Seq {
        self.seen
    }

    /// The terminal is now this wide. Texts that are open keep their width.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// The unfinished line of the text on stage.
    pub(crate) fn unfinished(&self) -> Option<Line> {
        self.items.get(self.stage.as_ref()?)?.flow.unfinished()
    }

    /// What goes on beside the text on stage, one line each: calls that run, texts that wait.
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

    /// The last call that ended, with everything in it.
    pub(crate) fn unfold(&mut self) -> Vec<Line> {
        match &self.last_call {
            Some((call, input, content)) => tools::unfolded(call, input, content),
            None => Vec::new(),
        }
    }

    /// The state in place of what was missed: shows what is new in open texts, and requests not yet seen.
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

    /// The lines of an entry. One that was seen already has none.
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
                let shown = tools::called(&call).indented(call.depth * 2);
                self.calls.insert(tool.clone(), (call, input.clone()));
                match self.layout {
                    Layout::Live => Vec::new(),
                    // Its subagent has lines of its own.
                    Layout::Plain if *kind == ToolKind::Subagent => Vec::new(),
                    Layout::Plain => self.other(vec![shown]),
                }
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

    /// Lines that belong to no text.
    fn other(&mut self, lines: Vec<Line>) -> Vec<Line> {
        self.block = Block::Other;
        lines
    }

    fn depth(&self, parent: Option<&str>) -> usize {
        let mut depth = 0;
        let mut at = parent;
        // An agent could name its subagents in a circle.
        while let Some(name) = at
            && depth < 8
        {
            depth += 1;
            at = self.parents.get(name).and_then(Option::as_deref);
        }
        depth
    }

    fn start(&mut self, name: &str, kind: ItemKind, parent: Option<&str>) {
        let depth = self.depth(parent);
        let style = if kind == ItemKind::Thinking { Style::Dim } else { Style::Plain };
        let flow = Flow::new(style, self.columns, depth * 2);
        let item = Item { kind, received: String::new(), flow, waiting: Vec::new(), depth };
        self.items.insert(name.to_owned(), item);
    }

    fn delta(&mut self, name: &str, text: &str) -> Vec<Line> {
        if !self.items.contains_key(name) {
            self.start(name, ItemKind::Text, None);
        }
        let Some(item) = self.items.get_mut(name) else { return Vec::new() };
        item.received.push_str(text);
        if !is_shown(item.kind) {
            return Vec::new();
        }
        let lines = item.flow.push(text);
        item.waiting.extend(lines);
        if self.stage.is_none() {
            self.stage = Some(name.to_owned());
        }
        if self.stage.as_deref() == Some(name) { self.perform(name) } else { Vec::new() }
    }

    /// Lets the lines of a text that wait appear.
    fn perform(&mut self, name: &str) -> Vec<Line> {
        let lines =
            self.items.get_mut(name).map(|item| std::mem::take(&mut item.waiting)).unwrap_or_default();
        if lines.is_empty() { lines } else { self.set_apart(name, lines) }
    }

    /// A text begins on a line of its own, apart from what is no text.
    fn set_apart(&mut self, name: &str, lines: Vec<Line>) -> Vec<Line> {
        let gap = match &self.block {
            Block::Nothing => false,
            Block::Text(before) => before != name,
            Block::Prompt | Block::Other => true,
        };
        self.block = Block::Text(name.to_owned());
        gap.then(Line::empty).into_iter().chain(lines).collect()
    }

    /// Shows of an open text what is new in `all`.
    fn catch_up(&mut self, name: &str, all: &str) -> Vec<Line> {
        let received = self.items.get(name).map_or("", |item| item.received.as_str());
        if let Some(rest) = all.strip_prefix(received) {
            return if rest.is_empty() { Vec::new() } else { self.delta(name, rest) };
        }
        // What was shown is not what there is: the truth is shown, and said to be so.
        let Some(item) = self.items.get_mut(name) else { return Vec::new() };
        item.received.clear();
        let end = item.flow.end();
        item.waiting.extend(end);
        if is_shown(item.kind) {
            item.waiting.push(Line::new(Style::Dim, "(the agent wrote this anew)"));
        }
        self.delta(name, all)
    }

    /// A text is finished: the rest of it, and then what waits for the stage.
    fn finish(&mut self, name: &str) -> Vec<Line> {
        let Some(mut item) = self.items.shift_remove(name) else { return Vec::new() };
        let mut lines = std::mem::take(&mut item.waiting);
        if is_shown(item.kind) {
            lines.extend(item.flow.end());
        }
        let mut out = if lines.is_empty() { lines } else { self.set_apart(name, lines) };
        if self.stage.as_deref() == Some(name) {
            self.stage = self
                .items
                .iter()
                .find(|(_, item)| is_shown(item.kind) && !item.received.is_empty())
                .map(|(name, _)| name.clone());
            if let Some(next) = self.stage.clone() {
                out.extend(self.perform(&next));
            }
        }
        out
    }

    fn message(
        &mut self,
        name: &str,
        parent: Option<&str>,
        content: &[Content],
        interrupted: bool,
    ) -> Vec<Line> {
        let texts: Vec<(ItemKind, &str)> = content
            .iter()
            .filter_map(|piece| match piece {
                Content::Text { text } => Some((ItemKind::Text, text.as_str())),
                Content::Thinking { text } => Some((ItemKind::Thinking, text.as_str())),
                _ => None,
            })
            .collect();
        let depth = self.items.get(name).map_or_else(|| self.depth(parent), |item| item.depth);
        let mut out = Vec::new();
        match texts.as_slice() {
            [(kind, text)] => {
                if !self.items.contains_key(name) {
                    self.start(name, *kind, parent);
                }
                out.extend(self.catch_up(name, text));
            }
            // A finished item is one text; where an agent gives several at once, none of them has streamed.
            several => {
                let all: String = several.iter().map(|(_, text)| *text).collect();
                if self.items.get(name).is_none_or(|item| item.received != all) {
                    for (kind, text) in several {
                        out.extend(self.finish(name));
                        self.start(name, *kind, parent);
                        out.extend(self.delta(name, text));
                    }
                }
            }
        }
        out.extend(self.finish(name));
        let rest: Vec<Line> = content.iter().filter_map(piece).map(|line| line.indented(depth * 2)).collect();
        if !rest.is_empty() {
            out.extend(self.other(rest));
        }
        if interrupted {
            out.push(Line::new(Style::Warning, "■ cut off here").indented(depth * 2));
        }
        out
    }

    fn tool_result(
        &mut self,
        tool: &str,
        parent: Option<&str>,
        outcome: ToolOutcome,
        content: &[Content],
        changes: &[FileChange],
    ) -> Vec<Line> {
        self.items.shift_remove(tool);
        let (mut call, input) = self.calls.shift_remove(tool).unwrap_or_else(|| {
            let depth = self.depth(parent);
            (Call { name: "tool".into(), what: String::new(), changes: Vec::new(), depth }, Value::Null)
        });
        if !changes.is_empty() {
            call.changes = changes.to_vec();
        }
        let indent = call.depth * 2;
        if self.parents.contains_key(tool) {
            // Its subagent said how it ended.
            self.last_call = Some((call, input, content.to_vec()));
            return Vec::new();
        }
        let mut lines = vec![
            tools::ended(&call, outcome, content).cut(self.columns.saturating_sub(indent)).indented(indent),
        ];
        let asked = self.shown_changes.remove(tool);
        if outcome == ToolOutcome::Done && !asked {
            lines.extend(
                diff::lines(&call.changes, DIFF_LINES).into_iter().map(|line| line.indented(indent + 2)),
            );
        }
        self.last_call = Some((call, input, content.to_vec()));
        self.other(lines)
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
            // Nothing of what is approved is cut off.
            lines.extend(line.wrapped(columns).into_iter().map(|line| line.indented(indent)));
        }
        self.other(lines)
    }
}

/// How much of a text is looked at for its last line: more than a screen is wide.
const LAST_LINE: usize = 2048;

/// The last line of a text, or the end of a long one. It is wanted for every drawing, so that its cost must not grow with
/// the text.
fn last_line(text: &str) -> &str {
    let from = text.floor_char_boundary(text.len().saturating_sub(LAST_LINE));
    text[from..].lines().last().unwrap_or_default()
}

fn is_shown(kind: ItemKind) -> bool {
    match kind {
        ItemKind::Text | ItemKind::Thinking => true,
        ItemKind::ToolInput | ItemKind::ToolOutput => false,
    }
}

/// A piece of content that is no text, in one line.
fn piece(content: &Content) -> Option<Line> {
    let line = match content {
        Content::Text { .. } | Content::Thinking { .. } => return None,
        Content::RedactedThinking => Line::new(Style::Dim, "(thinking that is not shown)"),
        Content::Image { media_type, data } => {
            let kib = data.len() * 3 / 4 / 1024;
            Line::new(Style::Dim, format!("(picture, {}, {kib} KiB)", clean::line(media_type)))
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
