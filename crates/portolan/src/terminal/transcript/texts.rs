//! Streaming texts, several at once. One of them is on stage; the others wait until the stage is free.

use portolan_core::event::{Content, ItemKind};

use super::{Block, Transcript, piece};
use crate::terminal::{
    flow::Flow,
    style::{Line, Style},
};

/// A streaming text.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Everything received, unchanged.
    pub(super) received: String,
    pub(super) flow: Flow,
    /// Lines that wait until the stage is free.
    waiting: Vec<Line>,
    pub(super) depth: usize,
}

impl Transcript {
    pub(super) fn start(&mut self, name: &str, kind: ItemKind, parent: Option<&str>) {
        let depth = self.depth(parent);
        let style = if kind == ItemKind::Thinking { Style::Dim } else { Style::Plain };
        let flow = Flow::new(style, self.columns, depth * 2);
        let item = Item { kind, received: String::new(), flow, waiting: Vec::new(), depth };
        self.items.insert(name.to_owned(), item);
    }

    pub(super) fn delta(&mut self, name: &str, text: &str) -> Vec<Line> {
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

    /// Shows the waiting lines of a text.
    fn perform(&mut self, name: &str) -> Vec<Line> {
        let lines =
            self.items.get_mut(name).map(|item| std::mem::take(&mut item.waiting)).unwrap_or_default();
        if lines.is_empty() { lines } else { self.set_apart(name, lines) }
    }

    /// A text begins on its own line, after an empty line if something else came before.
    fn set_apart(&mut self, name: &str, lines: Vec<Line>) -> Vec<Line> {
        let gap = match &self.block {
            Block::Nothing => false,
            Block::Text(before) => before != name,
            Block::Prompt | Block::Other => true,
        };
        self.block = Block::Text(name.to_owned());
        gap.then(Line::empty).into_iter().chain(lines).collect()
    }

    /// Shows the part of `all` that is new for an open text.
    pub(super) fn catch_up(&mut self, name: &str, all: &str) -> Vec<Line> {
        let received = self.items.get(name).map_or("", |item| item.received.as_str());
        if let Some(rest) = all.strip_prefix(received) {
            return if rest.is_empty() { Vec::new() } else { self.delta(name, rest) };
        }
        // The shown text differs from the actual text: show a remark and the actual text.
        let Some(item) = self.items.get_mut(name) else { return Vec::new() };
        item.received.clear();
        let end = item.flow.end();
        item.waiting.extend(end);
        if is_shown(item.kind) {
            item.waiting.push(Line::new(Style::Dim, "(the agent replaced the text above)"));
        }
        self.delta(name, all)
    }

    /// A text is finished: shows its rest, and then the texts that wait for the stage.
    pub(super) fn finish(&mut self, name: &str) -> Vec<Line> {
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

    pub(super) fn message(
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
            // A finished item is one text; if an agent sends several texts at once, none of them has streamed.
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
}

/// How much of a text is searched for its last line: more than the width of a screen.
const LAST_LINE: usize = 2048;

/// The last line of a text, or the end of a long line. Every drawing needs it, so the cost must not grow with the text.
pub(super) fn last_line(text: &str) -> &str {
    let from = text.floor_char_boundary(text.len().saturating_sub(LAST_LINE));
    text[from..].lines().last().unwrap_or_default()
}

pub(super) fn is_shown(kind: ItemKind) -> bool {
    match kind {
        ItemKind::Text | ItemKind::Thinking => true,
        ItemKind::ToolInput | ItemKind::ToolOutput => false,
    }
}
