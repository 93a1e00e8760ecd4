//! Judges. Pure: a history, what clients saw, and what they sent go in; complaints come out.
//!
//! What is *not* a fault, and has been taken for one before: numbers have gaps (they are reserved ahead, and streamed
//! entries leave theirs behind); a reader that fell behind gets what streamed meanwhile merged into one delta under
//! the newest number, which may be that of the durable entry before it; a prompt that was not yet on its way when the
//! daemon was killed stays queued until the agent is started again.

mod commands;
mod numbers;
mod order;
mod text;

use std::fmt;

pub use self::{
    commands::{Reply, Sent, Told, commands},
    numbers::numbers,
    order::order,
    text::{Losses, text},
};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// A durable entry of the history never came, although later ones did.
    Missing(u64),
    /// A durable entry came twice.
    Doubled(u64),
    /// A number came after a higher one.
    Back {
        /// The number.
        seq: u64,
        /// The one before it.
        after: u64,
    },
    /// A durable entry that was seen is not in the history.
    Gone(u64),
    /// A durable entry is not what was seen.
    Changed(u64),
    /// A number that had been shown before a kill was given out again.
    Reused {
        /// The number.
        seq: u64,
        /// The highest that was shown before the kill.
        shown: u64,
    },
    /// An item's text is not what was seen of it.
    Text {
        /// Which.
        item: String,
        /// What was seen.
        seen: String,
        /// What there is.
        kept: String,
    },
    /// Text was lost by a kill that was older than may be lost.
    TextLost {
        /// Of which item.
        item: String,
        /// How long before the kill it was shown.
        milliseconds: i64,
    },
    /// An item that streamed is gone although nothing was killed, or was never finished.
    ItemGone(String),
    /// Text came for an item that nobody had announced.
    Unannounced(String),
    /// A command was taken in twice.
    TakenTwice(String),
    /// A command was done twice.
    DoneTwice(String),
    /// A command that was acknowledged is not in the history, or elsewhere than was told.
    CommandGone(String),
    /// A command that was refused is in the history.
    RefusedButDone(String),
    /// A command never came to an end.
    Unsettled {
        /// Which.
        command: String,
        /// Its last stage.
        stage: String,
    },
    /// A command that had come to an end went on.
    EndedTwice(String),
    /// A command is called done, but the agent never got it.
    NeverReached(String),
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(seq) => write!(f, "entry {seq} never came"),
            Self::Doubled(seq) => write!(f, "entry {seq} came twice"),
            Self::Back { seq, after } => write!(f, "number {seq} came after {after}"),
            Self::Gone(seq) => write!(f, "entry {seq} was seen and is gone"),
            Self::Changed(seq) => write!(f, "entry {seq} is not what was seen"),
            Self::Reused { seq, shown } => {
                write!(f, "number {seq} was given out again: {shown} had been shown before the kill")
            }
            Self::Text { item, seen, kept } => {
                write!(f, "item {item}: seen {:?}, kept {:?}", shortened(seen), shortened(kept))
            }
            Self::TextLost { item, milliseconds } => {
                write!(f, "item {item}: text shown {milliseconds} ms before the kill is lost")
            }
            Self::ItemGone(item) => write!(f, "item {item} was never finished"),
            Self::Unannounced(item) => write!(f, "text for item {item}, which nobody announced"),
            Self::TakenTwice(id) => write!(f, "command {id} was taken in twice"),
            Self::DoneTwice(id) => write!(f, "command {id} was done twice"),
            Self::CommandGone(id) => write!(f, "command {id} was acknowledged and is gone"),
            Self::RefusedButDone(id) => write!(f, "command {id} was refused and is in the log"),
            Self::Unsettled { command, stage } => write!(f, "command {command} was left at `{stage}`"),
            Self::EndedTwice(id) => write!(f, "command {id} went on after its end"),
            Self::NeverReached(id) => write!(f, "command {id} is called done but never reached the agent"),
        }
    }
}

fn shortened(text: &str) -> String {
    let end: String = text.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
    if end.len() < text.len() { format!("({} bytes) …{end}", text.len()) } else { end }
}
