//! Texts and thinking, streamed or whole, with stable ids: those of the items.

use portolan_core::event::{Content, ItemKind};

use super::{Projector, Voice};
use crate::agui::wire::AguiEvent;

/// The form of an open item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Text,
    Reasoning,
    /// A tool's input whose call is known; the call's id.
    Arguments(String),
    /// A tool's input whose call is not known yet: it waits for the tool's name.
    Unnamed,
}

/// An item that streams.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) told: Told,
    /// The text that was sent, in this run and earlier ones.
    pub(super) text: String,
    /// Whether its start was sent in this run.
    pub(super) is_begun: bool,
    pub(super) parent: Option<String>,
    /// Its tag at its start in this run.
    pub(super) tag: Option<String>,
}

/// The id of a piece of a message: the item's own id for the first.
pub(in crate::agui) fn piece_id(item: &str, index: usize) -> String {
    if index == 0 { item.to_owned() } else { format!("{item}:{index}") }
}

/// A piece of a message as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::agui) enum Shown {
    Text(String),
    Reasoning(String),
}

/// The form of a piece of content; nothing for content without text.
pub(in crate::agui) fn shown(content: &Content) -> Option<Shown> {
    match content {
        Content::Text { text } => Some(Shown::Text(text.clone())),
        Content::Thinking { text } => Some(Shown::Reasoning(text.clone())),
        Content::Resource { text: Some(text), .. } => Some(Shown::Text(text.clone())),
        Content::Data { data } => Some(Shown::Text(data.to_string())),
        Content::Image { media_type, .. } => Some(Shown::Text(format!("[{media_type}]"))),
        Content::Resource { uri, text: None, .. } => Some(Shown::Text(format!("[{uri}]"))),
        Content::RedactedThinking | Content::Other { .. } => None,
    }
}

impl Projector {
    pub(super) fn item_started(&mut self, item: &str, kind: ItemKind, parent: Option<&str>) {
        let told = match kind {
            ItemKind::Text => Told::Text,
            ItemKind::Thinking => Told::Reasoning,
            ItemKind::ToolInput => Told::Unnamed,
            // The result contains it.
            ItemKind::ToolOutput => return,
        };
        if self.open.contains_key(item) {
            return;
        }
        let parent = parent.map(str::to_owned);
        let open = Open { told, text: String::new(), is_begun: false, parent, tag: None };
        self.open.insert(item.to_owned(), open);
    }

    pub(super) fn delta(&mut self, item: &str, text: &str, out: &mut Vec<AguiEvent>) {
        if text.is_empty() || !self.open.contains_key(item) {
            return;
        }
        self.begin_item(item, out);
        let Some(open) = self.open.get_mut(item) else { return };
        open.text.push_str(text);
        let (id, delta, subagent_run_id) = (item.to_owned(), text.to_owned(), open.tag.clone());
        match &open.told {
            Told::Text => out.push(AguiEvent::TextMessageContent { message_id: id, delta, subagent_run_id }),
            Told::Reasoning => {
                out.push(AguiEvent::ReasoningMessageContent { message_id: id, delta, subagent_run_id });
            }
            Told::Arguments(tool) => {
                let tool_call_id = tool.clone();
                out.push(AguiEvent::ToolCallArgs { tool_call_id, delta, subagent_run_id });
            }
            Told::Unnamed => {}
        }
    }

    /// Sends the start of an item, once in each run.
    pub(super) fn begin_item(&mut self, item: &str, out: &mut Vec<AguiEvent>) {
        let Some(open) = self.open.get_mut(item) else { return };
        if open.is_begun || open.told == Told::Unnamed {
            return;
        }
        open.is_begun = true;
        let tag = self.subagents.enter(open.parent.as_deref(), out);
        open.tag.clone_from(&tag);
        let message_id = item.to_owned();
        match open.told.clone() {
            Told::Text => out.push(text_start(message_id, tag)),
            Told::Reasoning => out.extend(reasoning_start(message_id, tag)),
            Told::Arguments(tool) => self.begin_call(&tool, tag, out),
            Told::Unnamed => {}
        }
    }

    /// Sends that an item is complete, for this run.
    pub(super) fn pause_item(&mut self, item: &str, out: &mut Vec<AguiEvent>) {
        let Some(open) = self.open.get_mut(item).filter(|open| open.is_begun) else { return };
        open.is_begun = false;
        let (message_id, tag) = (item.to_owned(), open.tag.take());
        match &open.told {
            Told::Text => out.push(AguiEvent::TextMessageEnd { message_id, subagent_run_id: tag }),
            Told::Reasoning => out.extend(reasoning_end(message_id, tag)),
            Told::Arguments(tool) => {
                out.push(AguiEvent::ToolCallEnd { tool_call_id: tool.clone(), subagent_run_id: tag });
            }
            Told::Unnamed => {}
        }
    }

    /// A finished message: the part that was not sent yet.
    pub(super) fn message(
        &mut self,
        item: &str,
        parent: Option<&str>,
        content: &[Content],
        out: &mut Vec<AguiEvent>,
    ) {
        let skipped = self.skipped.remove(item);
        let streamed = self.open.contains_key(item);
        if !streamed && (skipped || self.voice == Voice::Quiet) {
            return;
        }
        for (index, piece) in content.iter().enumerate() {
            let Some(piece) = shown(piece) else { continue };
            let id = piece_id(item, index);
            let (kind, text) = match piece {
                Shown::Text(text) => (Told::Text, text),
                Shown::Reasoning(text) => (Told::Reasoning, text),
            };
            if let Some(open) = self.open.get(&id).filter(|open| open.told == kind) {
                // Deltas are only hints. Sent text cannot be taken back if it differs; the history has the right text.
                let rest = text.strip_prefix(open.text.as_str()).unwrap_or_default().to_owned();
                self.delta(&id, &rest, out);
                self.end_item(&id, out);
            } else if !text.is_empty() {
                let tag = self.subagents.enter(parent, out);
                whole(id, kind, text, tag, out);
            }
        }
        // Cut off: the call never happened.
        if let Some(Told::Arguments(tool)) = self.open.get(item).map(|open| open.told.clone()) {
            self.end_item(item, out);
            self.call_cut_off(&tool, out);
        }
        self.end_item(item, out);
    }

    /// The item has ended.
    pub(super) fn end_item(&mut self, item: &str, out: &mut Vec<AguiEvent>) {
        self.pause_item(item, out);
        self.open.shift_remove(item);
    }
}

fn text_start(message_id: String, subagent_run_id: Option<String>) -> AguiEvent {
    AguiEvent::TextMessageStart { message_id, role: "assistant".into(), subagent_run_id }
}

fn reasoning_start(message_id: String, tag: Option<String>) -> [AguiEvent; 2] {
    [
        AguiEvent::ReasoningStart { message_id: message_id.clone(), subagent_run_id: tag.clone() },
        AguiEvent::ReasoningMessageStart { message_id, role: "reasoning".into(), subagent_run_id: tag },
    ]
}

fn reasoning_end(message_id: String, tag: Option<String>) -> [AguiEvent; 2] {
    [
        AguiEvent::ReasoningMessageEnd { message_id: message_id.clone(), subagent_run_id: tag.clone() },
        AguiEvent::ReasoningEnd { message_id, subagent_run_id: tag },
    ]
}

/// A whole text at once.
fn whole(message_id: String, kind: Told, delta: String, tag: Option<String>, out: &mut Vec<AguiEvent>) {
    let (id, subagent_run_id) = (message_id.clone(), tag.clone());
    if kind == Told::Reasoning {
        out.extend(reasoning_start(id.clone(), tag.clone()));
        out.push(AguiEvent::ReasoningMessageContent { message_id: id, delta, subagent_run_id });
        out.extend(reasoning_end(message_id, tag));
    } else {
        out.push(text_start(id.clone(), tag.clone()));
        out.push(AguiEvent::TextMessageContent { message_id: id, delta, subagent_run_id });
        out.push(AguiEvent::TextMessageEnd { message_id, subagent_run_id: tag });
    }
}
