//! The checks. Pure: they take a history, what clients saw and what clients sent, and return complaints.
//!
//! These are *not* faults, although they look like faults: numbers have gaps (numbers are reserved ahead, and streamed
//! entries leave gaps); a slow reader gets the missed deltas merged into one delta under the newest number, which may
//! be the number of the durable entry before it; a prompt that was not yet sent when the daemon was killed stays queued
//! until the agent starts again, unless the agent outlived the daemon.

mod commands;
mod ends;
mod kept;
mod numbers;
mod order;
mod requests;
mod text;

use std::fmt;

pub use self::{
    commands::{Reply, Sent, Told, commands},
    ends::ends,
    kept::kept,
    numbers::numbers,
    order::order,
    requests::requests,
    text::{Losses, text},
};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// A durable entry of the history never came, although later entries did.
    Missing(u64),
    /// A durable entry came twice.
    Doubled(u64),
    /// A number came after a higher one.
    Back {
        /// The number.
        seq: u64,
        /// The number before it.
        after: u64,
    },
    /// A durable entry that was seen is not in the history.
    Gone(u64),
    /// A durable entry differs from what was seen.
    Changed(u64),
    /// A number that was shown before a kill was used again.
    Reused {
        /// The number.
        seq: u64,
        /// The highest number that was shown before the kill.
        shown: u64,
    },
    /// The text of an item differs from what was seen.
    Text {
        /// Which.
        item: String,
        /// The text that was seen.
        seen: String,
        /// The text in the history.
        kept: String,
    },
    /// A kill lost text that was older than allowed.
    TextLost {
        /// Of which item.
        item: String,
        /// How long before the kill it was shown.
        milliseconds: i64,
    },
    /// An item that streamed is gone although nothing was killed, or was never finished.
    ItemGone(String),
    /// Text came for an item that never started.
    Unannounced(String),
    /// A command was accepted twice.
    TakenTwice(String),
    /// A command ran twice.
    DoneTwice(String),
    /// An acknowledged command is not in the history, or has another number than the acknowledgement said.
    CommandGone(String),
    /// A refused command is in the history.
    RefusedButDone(String),
    /// A command never ended.
    Unsettled {
        /// Which.
        command: String,
        /// Its last stage.
        stage: String,
    },
    /// A command changed after its end.
    EndedTwice(String),
    /// A command counts as done, but the agent never got it.
    NeverReached(String),
    /// A request was opened twice.
    OpenedTwice(u64),
    /// A request was closed that was not open.
    ClosedTwice(u64),
    /// A request was never closed.
    LeftOpen(u64),
    /// A client was not shown an open request.
    NotShown {
        /// The request.
        request: u64,
        /// The number of the snapshot that lacks it.
        at: u64,
    },
    /// A client was shown a request that was not open.
    ShownClosed {
        /// The request.
        request: u64,
        /// The number of the snapshot that has it.
        at: u64,
    },
    /// The end of an agent left something open.
    LeftByEnd {
        /// The number of the end.
        end: u64,
        /// What was open, in words.
        what: String,
    },
    /// The end of an agent has no reason.
    Unexplained(u64),
    /// Two ends were recorded for one start of an agent.
    ExitedTwice(u64),
    /// The end of the agent's start with this number was not recorded.
    NeverExited(u64),
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(seq) => write!(f, "entry {seq} never came"),
            Self::Doubled(seq) => write!(f, "entry {seq} came twice"),
            Self::Back { seq, after } => write!(f, "number {seq} came after {after}"),
            Self::Gone(seq) => write!(f, "entry {seq} was seen and is gone"),
            Self::Changed(seq) => write!(f, "entry {seq} differs from what was seen"),
            Self::Reused { seq, shown } => {
                write!(f, "number {seq} was used again: {shown} was shown before the kill")
            }
            Self::Text { item, seen, kept } => {
                write!(f, "item {item}: seen {:?}, kept {:?}", shortened(seen), shortened(kept))
            }
            Self::TextLost { item, milliseconds } => {
                write!(f, "item {item}: text shown {milliseconds} ms before the kill is lost")
            }
            Self::ItemGone(item) => write!(f, "item {item} was never finished"),
            Self::Unannounced(item) => write!(f, "text for item {item}, which never started"),
            Self::TakenTwice(id) => write!(f, "command {id} was accepted twice"),
            Self::DoneTwice(id) => write!(f, "command {id} ran twice"),
            Self::CommandGone(id) => write!(f, "command {id} was acknowledged and is gone"),
            Self::RefusedButDone(id) => write!(f, "command {id} was refused and is in the log"),
            Self::Unsettled { command, stage } => write!(f, "command {command} was left at `{stage}`"),
            Self::EndedTwice(id) => write!(f, "command {id} changed after its end"),
            Self::NeverReached(id) => write!(f, "command {id} counts as done but never reached the agent"),
            Self::OpenedTwice(request) => write!(f, "request {request} was opened twice"),
            Self::ClosedTwice(request) => write!(f, "request {request} was closed and was not open"),
            Self::LeftOpen(request) => write!(f, "request {request} was never closed"),
            Self::NotShown { request, at } => {
                write!(f, "request {request} was open, the snapshot at {at} lacks it")
            }
            Self::ShownClosed { request, at } => {
                write!(f, "request {request} was not open, the snapshot at {at} shows it")
            }
            Self::LeftByEnd { end, what } => write!(f, "the end of the agent at {end} left {what} open"),
            Self::Unexplained(end) => write!(f, "the end of the agent at {end} has no reason"),
            Self::ExitedTwice(start) => write!(f, "start {start} of the agent ended twice"),
            Self::NeverExited(start) => write!(f, "start {start} of the agent has no end"),
        }
    }
}

fn shortened(text: &str) -> String {
    let end: String = text.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
    if end.len() < text.len() { format!("({} bytes) …{end}", text.len()) } else { end }
}
