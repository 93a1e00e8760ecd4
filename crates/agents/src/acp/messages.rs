//! Messages of the agent and its subagents: pieces of text and thinking that stream until something else follows. ACP
//! does not mark the end of a message; the next action of the same speaker ends it.

use portolan_core::{
    Event, Generation,
    event::{Content, ItemKind},
};
use serde_json::Value;

use super::{translate::Translate, wire};
use crate::driver::Output;

/// A message that is longer than this is ended, and the rest is another message: an endless message must not fill the
/// memory.
const LONGEST: usize = 512 * 1024;

/// Messages that have begun and not ended.
#[derive(Debug)]
pub(super) struct Messages {
    generation: Generation,
    count: u64,
    /// At most one of the agent and one of each subagent.
    open: Vec<Open>,
    /// The last text of the agent in this turn.
    said: Option<String>,
}

#[derive(Debug)]
struct Open {
    item: String,
    /// The subagent that speaks.
    parent: Option<String>,
    kind: ItemKind,
    message: Option<String>,
    text: String,
}

/// How open messages end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    CutOff,
}

impl Messages {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, count: 0, open: Vec::new(), said: None }
    }

    pub(super) fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.generation, self.count)
    }

    /// The last text of the agent in this turn.
    pub(super) fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    pub(super) fn take_said(&mut self) -> Option<String> {
        self.said.take()
    }
}

impl Translate {
    pub(super) fn chunk(&mut self, kind: ItemKind, update: &Value, out: &mut Output) {
        let message = wire::some_text(update, "messageId");
        let piece = wire::content(&update["content"]);
        let parent = self.owner(update, out);
        let Content::Text { text } = piece else {
            self.end_words_of(parent.as_deref(), Ending::Whole, out);
            return self.say(message, parent, piece, out);
        };
        if text.is_empty() {
            return;
        }
        if !self.turns.running() {
            // Nothing else will come that could end it.
            self.end_words_of(parent.as_deref(), Ending::Whole, out);
            return self.say(message, parent, said(kind, text), out);
        }
        let goes_on = |open: &Open| {
            open.parent == parent && open.kind == kind && (message.is_none() || open.message == message)
        };
        if !self.messages.open.iter().any(goes_on) {
            self.end_words_of(parent.as_deref(), Ending::Whole, out);
            let item = self.messages.next_name();
            let (message, parent) = (message.clone(), parent.clone());
            out.event(Event::ItemStarted {
                item: item.clone(),
                kind,
                message: message.clone(),
                parent: parent.clone(),
            });
            self.messages.open.push(Open { item, parent, kind, message, text: String::new() });
        }
        let Some(open) = self.messages.open.iter_mut().find(|open| open.parent == parent) else { return };
        open.text.push_str(&text);
        let is_long = open.text.len() > LONGEST;
        out.event(Event::Delta { item: open.item.clone(), text });
        if is_long {
            self.end_words_of(parent.as_deref(), Ending::Whole, out);
        }
    }

    /// Ends all open messages.
    pub(super) fn end_all_words(&mut self, ending: Ending, out: &mut Output) {
        for open in std::mem::take(&mut self.messages.open) {
            self.message_ends(open, ending, out);
        }
    }

    /// The same speaker does something else, or nothing more.
    pub(super) fn end_words_of(&mut self, parent: Option<&str>, ending: Ending, out: &mut Output) {
        let open = &mut self.messages.open;
        if let Some(place) = open.iter().position(|open| open.parent.as_deref() == parent) {
            let open = open.remove(place);
            self.message_ends(open, ending, out);
        }
    }

    fn message_ends(&mut self, open: Open, ending: Ending, out: &mut Output) {
        let Open { item, parent, kind, message, text } = open;
        if kind == ItemKind::Text && parent.is_none() {
            self.messages.said = Some(text.clone());
        }
        out.event(Event::Message {
            item,
            message,
            parent,
            model: self.settings.model().map(str::to_owned),
            content: vec![said(kind, text)],
            interrupted: ending == Ending::CutOff,
            stop_reason: None,
        });
    }

    fn say(&mut self, message: Option<String>, parent: Option<String>, piece: Content, out: &mut Output) {
        out.event(Event::Message {
            item: self.messages.next_name(),
            message,
            parent,
            model: self.settings.model().map(str::to_owned),
            content: vec![piece],
            interrupted: false,
            stop_reason: None,
        });
    }
}

fn said(kind: ItemKind, text: String) -> Content {
    if kind == ItemKind::Thinking { Content::Thinking { text } } else { Content::Text { text } }
}
