//! Grammar: what must hold for every session's entries, in any scenario. Pure: it takes entries and returns breaches.
//!
//! Streamed text has a beginning, and ends as it streamed; turns do not overlap; a result belongs to a call; a request
//! is opened once, closed once, and not left open by its turn. Messages that the adapter does not know are recorded
//! separately: a newer agent may send new messages, and that alone is not a fault.

use std::collections::{HashMap, HashSet};

use portolan_core::{
    Event, RequestId,
    event::{Content, ItemKind},
};

/// What is open in one session.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    turn: Option<u32>,
    items: HashMap<String, Item>,
    calls: HashSet<String>,
    requests: HashMap<RequestId, Option<String>>,
    /// The violations.
    pub(crate) breaches: Vec<String>,
    /// Messages that the adapter does not know.
    pub(crate) unknown: Vec<String>,
}

#[derive(Debug)]
struct Item {
    kind: ItemKind,
    parent: Option<String>,
    text: String,
}

impl Grammar {
    /// Checks the next entry.
    pub(crate) fn see(&mut self, event: &Event) {
        match event {
            Event::TurnStarted { turn, .. } => {
                if let Some(open) = self.turn.replace(*turn) {
                    self.breach(format!("turn {turn} began inside turn {open}"));
                }
            }
            Event::TurnEnded { turn, .. } => self.turn_ends(*turn),
            Event::ItemStarted { item, kind, parent, .. } => {
                let begun = Item { kind: *kind, parent: parent.clone(), text: String::new() };
                if self.items.insert(item.clone(), begun).is_some() {
                    self.breach(format!("item {item} began twice"));
                }
            }
            Event::Delta { item, text } => match self.items.get_mut(item) {
                Some(open) => open.text.push_str(text),
                None => self.breach(format!("item {item} goes on but never began")),
            },
            Event::Message { item, content, interrupted, .. } => self.item_ends(item, content, *interrupted),
            Event::ToolCall { tool, item, .. } => {
                if !self.calls.insert(tool.clone()) {
                    self.breach(format!("the call {tool} was made twice"));
                }
                if let Some(item) = item {
                    self.items.remove(item);
                }
            }
            Event::ToolResult { tool, .. } => {
                self.items.remove(tool);
                if !self.calls.contains(tool) {
                    self.breach(format!("a result belongs to the call {tool}, which was never made"));
                }
            }
            Event::RequestOpened { request } => {
                let again = self.requests.insert(request.request, request.parent.clone()).is_some();
                self.breach_where(again, || format!("request {} was opened twice", request.request));
            }
            Event::RequestClosed { request, .. } => {
                let open = self.requests.remove(request).is_some();
                self.breach_where(!open, || format!("request {request} was closed but not open"));
            }
            Event::Unknown { kind, .. } => self.unknown.push(kind.clone()),
            _ => {}
        }
    }

    fn item_ends(&mut self, item: &str, content: &[Content], interrupted: bool) {
        let Some(open) = self.items.remove(item) else { return };
        let said: String = content
            .iter()
            .map(|piece| match piece {
                Content::Text { text } | Content::Thinking { text } => text.as_str(),
                _ => "",
            })
            .collect();
        let streams = matches!(open.kind, ItemKind::Text | ItemKind::Thinking) && !open.text.is_empty();
        if streams && !interrupted && said != open.text {
            self.breach(format!("item {item} streamed {:?} and ended as {said:?}", open.text));
        }
    }

    fn turn_ends(&mut self, turn: u32) {
        if self.turn.take() != Some(turn) {
            self.breach(format!("turn {turn} ended but did not run"));
        }
        // Background subagents go on, and so do their items.
        let mut open: Vec<String> = self
            .items
            .iter()
            .filter(|(_, item)| item.parent.is_none())
            .map(|(name, _)| format!("turn {turn} ended and left item {name} open"))
            .collect();
        open.sort();
        let waiting = self.requests.iter().filter(|(_, parent)| parent.is_none());
        open.extend(waiting.map(|(request, _)| format!("turn {turn} ended and left request {request} open")));
        self.breaches.extend(open);
    }

    fn breach_where(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if holds {
            self.breach(what());
        }
    }

    fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::event::{TurnOrigin, TurnOutcome, TurnResult};

    use super::*;

    fn breaches(events: &[Event]) -> Vec<String> {
        let mut grammar = Grammar::default();
        for event in events {
            grammar.see(event);
        }
        grammar.breaches
    }

    fn begins(turn: u32) -> Event {
        Event::TurnStarted { turn, origin: TurnOrigin::Prompt }
    }

    fn ends(turn: u32) -> Event {
        Event::TurnEnded { turn, result: Box::new(TurnResult::bare(TurnOutcome::Completed)) }
    }

    fn item(item: &str) -> Event {
        Event::ItemStarted { item: item.into(), kind: ItemKind::Text, message: None, parent: None }
    }

    fn delta(item: &str, text: &str) -> Event {
        Event::Delta { item: item.into(), text: text.into() }
    }

    fn message(item: &str, text: &str) -> Event {
        Event::Message {
            item: item.into(),
            message: None,
            parent: None,
            model: None,
            content: vec![Content::text(text)],
            interrupted: false,
            stop_reason: None,
        }
    }

    #[test]
    fn a_turn_that_streams_and_ends_is_in_order() {
        let events =
            [begins(1), item("a"), delta("a", "He"), delta("a", "llo"), message("a", "Hello"), ends(1)];
        assert_eq!(breaches(&events), [""; 0]);
    }

    #[test]
    fn an_open_item_or_a_mismatch_is_a_breach() {
        let events =
            [begins(1), item("a"), delta("a", "Hello"), message("a", "Bye"), item("b"), ends(1), ends(1)];
        assert_eq!(
            breaches(&events),
            [
                "item a streamed \"Hello\" and ended as \"Bye\"",
                "turn 1 ended and left item b open",
                "turn 1 ended but did not run",
                "turn 1 ended and left item b open",
            ]
        );
    }

    #[test]
    fn turns_inside_turns_and_pieces_of_nothing_are_breaches() {
        assert_eq!(
            breaches(&[begins(1), begins(2), delta("x", "y")]),
            ["turn 2 began inside turn 1", "item x goes on but never began"]
        );
    }
}
