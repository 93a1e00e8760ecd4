//! Chunks: streamed text is written with a delay, so that a kill costs at most the last 250 ms of an unfinished item.
//!
//! Pure: this module only decides which changes go to the store. The finished item's commit removes its chunks.

use std::{collections::HashMap, time::Duration};

use super::state::State;
use crate::{Entry, Event, LogId, Seq, log::Book, ports::Op};

/// Streamed text is passed to the store after this time at the latest. The rest of the 250 ms is for the commit; if
/// that takes longer, the session waits for it (see `task`).
pub(super) const CHUNK_DELAY: Duration = Duration::from_millis(150);

/// How much of each open item the store has.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    written: HashMap<String, usize>,
}

impl Chunks {
    /// For items that were open when the earlier daemon ended: the store has all of their text.
    pub(super) fn restored(state: &State) -> Self {
        Self { written: state.items.iter().map(|open| (open.item.clone(), open.text.len())).collect() }
    }

    /// Called after appending: removes the chunks of finished items. `true` if text waits to be written later. The size
    /// of open items bounds how much text may wait.
    pub(super) fn after_append(&mut self, book: &mut Book<State>) -> bool {
        if !self.written.is_empty() {
            let items = &book.state().items;
            let finished: Vec<_> = self
                .written
                .keys()
                .filter(|name| !items.iter().any(|open| open.item == **name))
                .cloned()
                .collect();
            for item in finished {
                self.written.remove(&item);
                book.also(Op::CloseItem { item });
            }
        }
        book.state().items.iter().any(|open| open.text.len() > self.written_of(&open.item))
    }

    /// Writes all waiting text.
    pub(super) fn flush(&mut self, log: LogId, book: &mut Book<State>) {
        let mut ops = Vec::new();
        for open in &book.state().items {
            let begin = self.written_of(&open.item);
            let is_new = !self.written.contains_key(&open.item);
            if open.text.len() == begin && !is_new {
                continue;
            }
            // An item without text yet is written for its kind.
            let started = is_new.then(|| {
                let event = Event::ItemStarted {
                    item: open.item.clone(),
                    kind: open.kind,
                    message: open.message.clone(),
                    parent: open.parent.clone(),
                };
                Entry::new(log, open.started, book.at(), None, event).frame().clone()
            });
            let seq = open.marks.last().map_or(Seq::ZERO, |(seq, _)| *seq);
            let text = open.text[begin..].to_owned();
            ops.push(Op::Chunk { item: open.item.clone(), seq, started, text });
            self.written.insert(open.item.clone(), open.text.len());
        }
        for op in ops {
            book.also(op);
        }
    }

    fn written_of(&self, item: &str) -> usize {
        self.written.get(item).copied().unwrap_or(0)
    }
}
