//! The data in memory, and the effect of each change.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use portolan_core::{
    CommandId, LogId, Seq, SessionId, TokenId,
    ports::{CommandRow, Op, OpenItem, Write},
    session::state::Summary,
};

use crate::rules::{HIGHEST, Refused, copied_frame, may_append, may_copy, may_summarise, weight};

#[derive(Default)]
pub(super) struct Data {
    pub(super) logs: BTreeMap<LogId, Log>,
    pub(super) sessions: BTreeMap<SessionId, Summary>,
    pub(super) records: BTreeMap<(&'static str, String), Bytes>,
    /// Every durable entry ever written, by its position. Deleted entries are not found in their logs.
    pub(super) positions: Vec<(LogId, Seq)>,
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) entries: BTreeMap<Seq, (Bytes, Option<Bytes>)>,
    pub(super) last: Seq,
    pub(super) reserved: Seq,
    pub(super) checkpoint: Option<(Seq, Bytes)>,
    pub(super) open_items: Vec<OpenItem>,
    pub(super) commands: BTreeMap<(TokenId, CommandId), (Seq, Bytes)>,
}

/// The log of deleted entries.
const GONE: LogId = LogId::Session(SessionId::from_u128(0));

impl Data {
    /// All of a write or nothing: every rule is checked before the first change.
    pub(super) fn check(&self, write: &Write) -> Result<(), Refused> {
        let mut last = self.logs.get(&write.log).map_or(Seq::ZERO, |log| log.last);
        for op in &write.ops {
            match op {
                Op::Append { seq, .. } => {
                    may_append(last, *seq)?;
                    last = *seq;
                }
                Op::CopyFrom { source, upto } => {
                    may_copy(write.log, last)?;
                    last = self
                        .copy_of(write.log, *source, *upto)
                        .last_key_value()
                        .map_or(last, |(seq, _)| *seq);
                }
                Op::Summary(summary) => may_summarise(write.log, summary)?,
                Op::Delete => last = Seq::ZERO,
                Op::Reserve { .. }
                | Op::Chunk { .. }
                | Op::CloseItem { .. }
                | Op::Checkpoint { .. }
                | Op::Command(_)
                | Op::Trim { .. }
                | Op::Put { .. }
                | Op::Remove { .. } => {}
            }
        }
        Ok(())
    }

    fn copy_of(&self, log: LogId, source: SessionId, upto: Seq) -> BTreeMap<Seq, (Bytes, Option<Bytes>)> {
        let source = LogId::Session(source);
        let Some(from) = self.logs.get(&source).filter(|_| source != log) else { return BTreeMap::new() };
        let entries = from.entries.range(..=upto);
        entries.map(|(seq, (frame, _))| (*seq, (Bytes::from(copied_frame(log, frame)), None))).collect()
    }

    /// Makes one change, which was already checked.
    pub(super) fn apply(&mut self, log: LogId, op: Op) {
        self.bytes += weight(&op) as u64;
        match op {
            Op::Append { seq, at: _, frame, raw } => {
                self.positions.push((log, seq));
                let log = self.logs.entry(log).or_default();
                log.entries.insert(seq, (frame, raw));
                log.last = seq;
            }
            Op::Reserve { upto } => {
                let log = self.logs.entry(log).or_default();
                log.reserved = log.reserved.max(upto.min(HIGHEST));
            }
            Op::Chunk { item, seq: _, started, text } => {
                let items = &mut self.logs.entry(log).or_default().open_items;
                match items.iter_mut().find(|open| open.item == item) {
                    Some(open) => open.text.push_str(&text),
                    None => items.push(OpenItem { item, started: started.unwrap_or_default(), text }),
                }
            }
            Op::CloseItem { item } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    log.open_items.retain(|open| open.item != item);
                }
            }
            Op::Checkpoint { seq, state } => {
                self.logs.entry(log).or_default().checkpoint = Some((seq.min(HIGHEST), state));
            }
            Op::Command(CommandRow { key, seq, stage }) => {
                let commands = &mut self.logs.entry(log).or_default().commands;
                commands.insert((key.token, key.id), (seq.min(HIGHEST), stage));
            }
            Op::Summary(summary) => {
                self.sessions.insert(summary.session, *summary);
            }
            Op::CopyFrom { source, upto } => {
                let copy = self.copy_of(log, source, upto);
                self.bytes += copy.values().map(|(frame, _)| frame.len() as u64).sum::<u64>();
                self.positions.extend(copy.keys().map(|seq| (log, *seq)));
                let log = self.logs.entry(log).or_default();
                log.last = copy.last_key_value().map_or(log.last, |(seq, _)| *seq);
                log.entries = copy;
            }
            Op::Delete => {
                let gone = self.logs.remove(&log).map_or(0, |log| size_of_entries(log.entries.values()));
                // The log may begin again with the same numbers.
                for (place, _) in self.positions.iter_mut().filter(|(place, _)| *place == log) {
                    *place = GONE;
                }
                self.bytes = self.bytes.saturating_sub(gone);
                if let LogId::Session(session) = log {
                    self.sessions.remove(&session);
                }
            }
            Op::Trim { upto } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    let kept = log.entries.split_off(&upto.min(HIGHEST).next());
                    let gone = size_of_entries(log.entries.values());
                    log.entries = kept;
                    self.bytes = self.bytes.saturating_sub(gone);
                }
            }
            Op::Put { collection, key, value } => {
                self.records.insert((collection, key), value);
            }
            Op::Remove { collection, key } => {
                self.records.remove(&(collection, key));
            }
        }
    }
}

fn size_of_entries<'a>(entries: impl Iterator<Item = &'a (Bytes, Option<Bytes>)>) -> u64 {
    entries.map(|(frame, raw)| (frame.len() + raw.as_ref().map_or(0, Bytes::len)) as u64).sum()
}

impl Log {
    /// The entries after one number, up to another.
    pub(super) fn between(
        &self,
        after: Seq,
        upto: Seq,
    ) -> impl DoubleEndedIterator<Item = (&Seq, &(Bytes, Option<Bytes>))> {
        // A range that ends before it begins would panic.
        let upto = upto.max(after);
        let range = (Bound::Excluded(after), Bound::Included(upto));
        let none = after == upto;
        self.entries.range(if none { (Bound::Included(after), Bound::Excluded(after)) } else { range })
    }
}
