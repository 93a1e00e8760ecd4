//! What the agent says: pieces of text and thinking that stream until something else follows. ACP has no end of a message;
//! what follows it ends it.

use portolan_core::{
    Event, Generation,
    event::{Content, ItemKind},
};
use serde_json::Value;

use super::{translate::Translate, wire};
use crate::driver::Turnout;

/// What is said and not at its end yet.
#[derive(Debug)]
pub(super) struct Messages {
    generation: Generation,
    count: u64,
    open: Option<Open>,
    /// The last text that the agent has said in this turn.
    said: Option<String>,
}

#[derive(Debug)]
struct Open {
    item: String,
    kind: ItemKind,
    message: Option<String>,
    text: String,
}

/// How what is open ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    CutOff,
}

impl Messages {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, count: 0, open: None, said: None }
    }

    pub(super) fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.generation, self.count)
    }

    /// The last text that the agent has said in this turn.
    pub(super) fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    pub(super) fn take_said(&mut self) -> Option<String> {
        self.said.take()
    }
}

impl Translate {
    pub(super) fn chunk(&mut self, kind: ItemKind, update: &Value, out: &mut Turnout) {
        let message = wire::some_text(update, "messageId");
        let piece = wire::content(&update["content"]);
        let Content::Text { text } = piece else {
            self.end_words(Ending::Whole, out);
            return self.say(message, piece, out);
        };
        if text.is_empty() {
            return;
        }
        if !self.turns.running() {
            // There will be nothing that could end it.
            self.end_words(Ending::Whole, out);
            return self.say(message, said(kind, text), out);
        }
        let goes_on = |open: &Open| open.kind == kind && (message.is_none() || open.message == message);
        if !self.messages.open.as_ref().is_some_and(goes_on) {
            self.end_words(Ending::Whole, out);
            let item = self.messages.next_name();
            out.event(Event::ItemStarted {
                item: item.clone(),
                kind,
                message: message.clone(),
                parent: None,
            });
            self.messages.open = Some(Open { item, kind, message, text: String::new() });
        }
        if let Some(open) = &mut self.messages.open {
            open.text.push_str(&text);
            out.event(Event::Delta { item: open.item.clone(), text });
        }
    }

    /// Something else follows, or nothing does.
    pub(super) fn end_words(&mut self, ending: Ending, out: &mut Turnout) {
        let Some(Open { item, kind, message, text }) = self.messages.open.take() else { return };
        if kind == ItemKind::Text {
            self.messages.said = Some(text.clone());
        }
        out.event(Event::Message {
            item,
            message,
            parent: None,
            model: self.session.model().map(str::to_owned),
            content: vec![said(kind, text)],
            interrupted: ending == Ending::CutOff,
            stop_reason: None,
        });
    }

    fn say(&mut self, message: Option<String>, piece: Content, out: &mut Turnout) {
        out.event(Event::Message {
            item: self.messages.next_name(),
            message,
            parent: None,
            model: self.session.model().map(str::to_owned),
            content: vec![piece],
            interrupted: false,
            stop_reason: None,
        });
    }
}

fn said(kind: ItemKind, text: String) -> Content {
    if kind == ItemKind::Thinking { Content::Thinking { text } } else { Content::Text { text } }
}
