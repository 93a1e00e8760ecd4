//! The rules for a write, equally for every engine.
//!
//! A write that breaks a rule is a bug of its sender and can never succeed; the crate's page says what happens to it.
//! Pure: each engine provides what it knows of the log.

use portolan_core::{LogId, Seq, entry::SESSION_PREFIX, ports::Op, session::state::Summary};

/// Writes that wait for the writer. A full queue means that the disk is slower than all agents together, or cannot be
/// written at all; senders then wait, and their agents with them.
pub(crate) const QUEUE: usize = 1024;

/// The number of bits for an entry's number: a thousand billion entries, ten thousand a second for three years. SQLite
/// keeps a log's key in the bits above.
pub(crate) const SEQ_BITS: u32 = 40;

/// The highest number an entry may have.
pub(crate) const HIGHEST: Seq = Seq((1 << SEQ_BITS) - 1);

/// Why a write can never succeed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

/// An entry's number must be above every earlier number.
pub(crate) fn may_append(last: Seq, seq: Seq) -> Result<(), Refused> {
    if seq > HIGHEST {
        return Err(Refused(format!("entry {seq} is above the highest possible number {HIGHEST}")));
    }
    if seq <= last {
        return Err(Refused(format!("entry {seq} is not above the last entry, {last}")));
    }
    Ok(())
}

/// Only a session's log without entries can become a copy.
pub(crate) fn may_copy(log: LogId, last: Seq) -> Result<(), Refused> {
    if log == LogId::Daemon {
        return Err(Refused("the daemon's log cannot be a copy of another".to_owned()));
    }
    if last > Seq::ZERO {
        return Err(Refused(format!("a copy needs an empty log, this one has entries up to {last}")));
    }
    Ok(())
}

/// A summary must be written with the log of its own session.
pub(crate) fn may_summarise(log: LogId, summary: &Summary) -> Result<(), Refused> {
    if log == LogId::Session(summary.session) {
        return Ok(());
    }
    Err(Refused(format!("the summary of session {} came with a write to another log", summary.session)))
}

/// A copied entry's frame: equal, except for its session.
pub(crate) fn copied_frame(log: LogId, frame: &[u8]) -> Vec<u8> {
    let mut copy = format!(r#"{{"type":"entry","session":"{log}""#).into_bytes();
    copy.extend_from_slice(frame.get(SESSION_PREFIX..).unwrap_or_default());
    copy
}

/// About how many bytes a change holds; for batches and sizes.
pub(crate) fn weight(op: &Op) -> usize {
    match op {
        Op::Append { frame, raw, .. } => frame.len() + raw.as_ref().map_or(0, bytes::Bytes::len),
        Op::Chunk { item, started, text, .. } => {
            item.len() + started.as_ref().map_or(0, bytes::Bytes::len) + text.len()
        }
        Op::Checkpoint { state, .. } => state.len(),
        Op::Command(row) => row.stage.len(),
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Reserve { .. }
        | Op::CloseItem { .. }
        | Op::Summary(_)
        | Op::CopyFrom { .. }
        | Op::Delete
        | Op::Trim { .. }
        | Op::Remove { .. } => 0,
    }
}
