//! Parts: an item that grows without end is kept in parts, so that its open part stays small.
//!
//! The whole of an open item is in memory, for readers that join or fall behind. No model writes [`PART_BYTES`] in one
//! piece; a faulty agent may. The text of such an item becomes durable under its name, and the rest continues as a new
//! item. Readers need not know: for them these are ordinary items.
//!
//! The output of a tool has no parts: its result holds the output. Output of a command beyond [`PART_BYTES`] is not
//! shown while the command runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    settle,
    state::{OpenItem, State},
};
use crate::{
    Event, Millis,
    event::{Content, ItemKind},
    log::Book,
};

/// The largest open part of an item: twice what the largest models write in one message.
pub(super) const PART_BYTES: usize = 1024 * 1024;

/// The last text that is shown of a tool's output while the tool runs.
const MORE: &str = "\n… more than 1 MiB was printed; the rest is not shown until the result comes\n";

/// The items that continue under another name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Parts {
    /// By the agent's own name. Empty except for items longer than one part.
    items: BTreeMap<String, Part>,
    /// Tool outputs of which no more is shown, at most as many as there are open items.
    full: BTreeSet<String>,
    /// The store does not have the current form.
    #[serde(skip)]
    changed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    number: u32,
    /// The length of the item's earlier parts, and their checksum.
    before: usize,
    sum: Sum,
}

/// A checksum of a text that is the same in every run of this program: FNV-1a.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Parts {
    /// The event with the current names of its items; `None` if it is more output than is shown. Called for every event
    /// of an agent before it is appended. Ends a part if the event would make it too long.
    pub(super) fn rename(&mut self, book: &mut Book<State>, now: Millis, mut event: Event) -> Option<Event> {
        match &mut event {
            Event::Delta { item, text } => {
                if self.full.contains(item.as_str()) {
                    return None;
                }
                if let Some(part) = self.items.get(item.as_str()) {
                    item.clone_from(&part.name);
                }
                let open = book.state().items.iter().rev().find(|open| open.item == *item);
                match open {
                    Some(open) if open.text.len() + text.len() <= PART_BYTES => {}
                    Some(open) if open.kind == ItemKind::ToolOutput => {
                        self.changed |= self.full.insert(item.clone());
                        let room = text.floor_char_boundary(PART_BYTES.saturating_sub(open.text.len()));
                        text.truncate(room);
                        text.push_str(MORE);
                    }
                    Some(open) if !open.text.is_empty() => *item = self.next_part(book, now, item),
                    Some(_) | None => {}
                }
            }
            Event::Message { item, content, .. } => {
                if let Some(part) = self.items.remove(item.as_str()) {
                    self.changed = true;
                    *item = part.name;
                    leave_out(content, part.before, part.sum);
                }
            }
            Event::ToolCall { item: Some(item), .. } => {
                if let Some(part) = self.items.remove(item.as_str()) {
                    self.changed = true;
                    *item = part.name;
                }
            }
            Event::ToolResult { tool, content, .. } => {
                self.changed |= self.full.remove(tool.as_str());
                // An interrupted tool often reports nothing more. The output that people saw is kept.
                let is_silent =
                    content.iter().all(|piece| matches!(piece, Content::Text { text } if text.is_empty()));
                let output = |open: &&OpenItem| open.kind == ItemKind::ToolOutput && open.item == *tool;
                let open = || book.state().items.iter().find(output);
                if is_silent && let Some(open) = open().filter(|open| !open.text.is_empty()) {
                    *content = vec![Content::text(open.text.clone())];
                }
            }
            _ => {}
        }
        Some(event)
    }

    /// The current name of an item.
    pub(super) fn name_of<'a>(&'a self, item: &'a str) -> &'a str {
        self.items.get(item).map_or(item, |part| &part.name)
    }

    /// Forgets the items that ended with the turn.
    pub(super) fn forget_closed(&mut self, state: &State) {
        let before = (self.items.len(), self.full.len());
        self.items.retain(|_, part| state.items.iter().any(|open| open.item == part.name));
        self.full.retain(|item| state.items.iter().any(|open| open.item == *item));
        self.changed |= before != (self.items.len(), self.full.len());
    }

    /// Whether something has changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn next_part(&mut self, book: &mut Book<State>, now: Millis, current: &str) -> String {
        let Some(open) = book.state().items.iter().find(|open| open.item == current) else {
            return current.to_owned();
        };
        let agents_name =
            self.items.iter().find(|(_, part)| part.name == current).map(|(name, _)| name.clone());
        let agents_name = agents_name.unwrap_or_else(|| current.to_owned());
        let (number, before, mut sum) = self
            .items
            .get(&agents_name)
            .map_or_else(Default::default, |part| (part.number, part.before, part.sum));
        let number = number.max(1);
        sum.add(&open.text);
        let part = Part {
            name: format!("{agents_name}~{}", number + 1),
            number: number + 1,
            before: before + open.text.len(),
            sum,
        };
        let started = Event::ItemStarted {
            item: part.name.clone(),
            kind: open.kind,
            message: open.message.clone(),
            parent: open.parent.clone(),
        };
        let ended = settle::finished(open, settle::Ended::Whole);
        let name = part.name.clone();
        self.changed = true;
        self.items.insert(agents_name, part);
        book.append(now, None, ended);
        book.append(now, None, started);
        name
    }
}

/// The finished item repeats all of its text. The text of the earlier parts is left out; if it differs from the
/// streamed text, all of it is kept.
fn leave_out(content: &mut [Content], before: usize, sum: Sum) {
    for piece in content {
        let (Content::Text { text } | Content::Thinking { text }) = piece else { continue };
        let Some(told) = text.get(..before) else { continue };
        let mut same = Sum::default();
        same.add(told);
        if same == sum {
            text.drain(..before);
            return;
        }
    }
}
