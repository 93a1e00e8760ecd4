//! The ring: the newest entries in memory, for readers that keep up.
//!
//! The ring is only for speed: entries that it no longer holds are read from the store, or merged from the state.

use std::{collections::VecDeque, sync::Arc};

use serde::Serialize;

use super::delivery::Piece;
use crate::{Entry, Seq, event::Durability, ports::Page};

/// The largest number of entries: four seconds of a fast stream.
const ENTRIES: usize = 4096;

/// The largest number of bytes of frames.
const BYTES: usize = 1024 * 1024;

/// Which entries a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    All,
    Durable,
}

#[derive(Debug)]
struct Slot<E> {
    entry: Arc<Entry<E>>,
    durability: Durability,
    size: usize,
}

#[derive(Debug)]
pub(super) struct Ring<E> {
    slots: VecDeque<Slot<E>>,
    bytes: usize,
    /// The newest appended entry that the ring does not hold.
    gone: Seq,
    /// Without readers the ring keeps nothing.
    readers: usize,
}

impl<E: Serialize> Ring<E> {
    pub(super) fn new(head: Seq) -> Self {
        Self { slots: VecDeque::new(), bytes: 0, gone: head, readers: 0 }
    }

    pub(super) fn push(&mut self, entry: Arc<Entry<E>>, durability: Durability) {
        if self.readers == 0 {
            self.gone = entry.seq;
            return;
        }
        let size = entry.frame().len();
        self.bytes += size;
        self.slots.push_back(Slot { entry, durability, size });
        while self.slots.len() > ENTRIES || self.bytes > BYTES {
            let Some(oldest) = self.slots.pop_front() else { break };
            self.bytes -= oldest.size;
            self.gone = oldest.entry.seq;
        }
    }

    /// Does the ring hold everything after `last`?
    pub(super) fn reaches(&self, last: Seq) -> bool {
        last >= self.gone
    }

    /// The entries after `last`, up to `upto`, as many as a page holds; and the number up to which they are complete.
    pub(super) fn after(&self, last: Seq, upto: Seq, take: Take, page: Page) -> (Vec<Piece<E>>, Seq) {
        let begin = self.slots.partition_point(|slot| slot.entry.seq <= last);
        let (mut pieces, mut bytes, mut reached) = (Vec::new(), 0, upto);
        for slot in self.slots.range(begin..) {
            if slot.entry.seq > upto {
                break;
            }
            if take == Take::Durable && slot.durability == Durability::Streamed {
                continue;
            }
            let full = pieces.len() >= page.entries as usize || bytes + slot.size > page.bytes as usize;
            if full && !pieces.is_empty() {
                reached = slot.entry.seq.previous();
                break;
            }
            bytes += slot.size;
            pieces.push(Piece::Live(Arc::clone(&slot.entry)));
        }
        (pieces, reached)
    }

    pub(super) fn join(&mut self) {
        self.readers += 1;
    }

    pub(super) fn leave(&mut self) {
        self.readers -= 1;
        if self.readers == 0 {
            self.release();
        }
    }

    pub(super) fn has_readers(&self) -> bool {
        self.readers > 0
    }

    pub(super) fn readers(&self) -> usize {
        self.readers
    }

    pub(super) fn release(&mut self) {
        if let Some(newest) = self.slots.back() {
            self.gone = newest.entry.seq;
        }
        self.slots = VecDeque::new();
        self.bytes = 0;
    }
}
