//! The port to an agent: a [`Link`] brings what the agent says and takes what is said to the agent.
//!
//! The [`driver`](crate::driver) knows this port and no link. A link knows how bytes travel, and no protocol: pipes
//! ([`PipeLink`]), a connection that the agent makes to us ([`DialInLink`]), or one that a new file adds.
//!
//! A link has two ends, because the driver waits for both at once: an agent that does not read must still be heard. Both ends
//! are polled and never awaited. What is under way lives in the link and not in a future, so the driver may stop waiting at any
//! moment and nothing is lost; and no future is allocated for each line.

mod dial_in;
mod pipes;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    task::{Context, Poll},
};

use portolan_wire::{
    limits::{self, LimitError},
    ndjson::Line,
};

pub use self::{dial_in::DialInLink, pipes::PipeLink};
use crate::child::Pipes;

/// A way to reach an agent, not open yet.
pub trait Link: fmt::Debug + Send {
    /// The agent's process runs, and these are its pipes. A link that does not use the pipes must keep them all the same: a
    /// process whose output nobody reads stops, and a process whose input is closed may end. A message longer than `max_line`
    /// bytes must become [`Arrival::TooLong`]. Called within a runtime.
    fn open(self: Box<Self>, pipes: Pipes, max_line: usize) -> Ends;
}

/// Both ends of an open link.
#[derive(Debug)]
pub struct Ends {
    /// Brings arrivals.
    pub source: Box<dyn Source>,
    /// Takes what is for the agent.
    pub input: Box<dyn Input>,
}

/// The end of a link that brings arrivals.
///
/// The driver takes arrivals until there is none, then waits for more, and so on. It waits only while the session has room for
/// what would come: a source must not read ahead by more than a bounded amount, so that a fast agent is held back.
pub trait Source: fmt::Debug + Send {
    /// The next arrival that is here already. Must not wait.
    fn next_arrival(&mut self) -> Option<Arrival<'_>>;

    /// Waits until [`Source::next_arrival`] is worth a call; that call may still give nothing, as when half a line has come. Not
    /// called while there are arrivals, nor after [`Arrival::Ended`].
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Nothing more will be waited for: what has come of a message that is not whole is the next arrival.
    fn finish(&mut self) {}

    /// How much of a message beyond the limit has been skipped so far, in bytes; zero where none is being skipped.
    fn skipped(&self) -> u64 {
        0
    }
}

/// The end of a link that takes what is for the agent. To drop it is to close it.
pub trait Input: fmt::Debug + Send {
    /// Takes as much as there is room for now, and says how many bytes that was. The first `taken` bytes were taken before.
    ///
    /// Not ready means that the agent takes nothing now, or that there is no connection: the message waits. The driver tries
    /// again after every arrival, so an input that waits for [`Arrival::Connected`] need not wake anybody. An error, or zero
    /// bytes, means that the agent will never take anything again.
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        outbound: &Outbound,
        taken: usize,
    ) -> Poll<io::Result<usize>>;

    /// How many of the bytes taken the agent has not read yet. `None` where nobody can see that.
    fn unread(&self) -> Option<u64> {
        None
    }
}

/// What a link brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The agent said something.
    Said(Inbound<'a>),
    /// The agent said something that cannot be read.
    Unreadable {
        /// What the agent said, as it came.
        bytes: &'a [u8],
        /// Why it cannot be read.
        why: &'static str,
    },
    /// The agent said something longer than the limit; it was skipped.
    TooLong {
        /// How long it was, in bytes.
        length: u64,
        /// Its first bytes, for people.
        head: Vec<u8>,
    },
    /// There is a connection, the first or the next one. A link that has one from the beginning need not say so. Where a
    /// connection was there already, the new one takes its place.
    Connected,
    /// The connection is gone; the agent may come back. What came of a message that was cut off follows.
    Lost,
    /// Nothing more will come.
    Ended,
}

/// What an agent says, in the form in which its link carries it. Each form has its method in
/// [`Translator`](crate::driver::Translator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound<'a> {
    /// A line, without its end.
    Line(&'a str),
}

/// What is said to an agent, in the form in which its link carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// A line, its end included.
    Line(Vec<u8>),
}

impl Arrival<'_> {
    /// Is it about the connection, rather than something that the agent said?
    pub fn is_of_the_link(&self) -> bool {
        match self {
            Self::Said(_) | Self::Unreadable { .. } | Self::TooLong { .. } => false,
            Self::Connected | Self::Lost | Self::Ended => true,
        }
    }
}

impl<'a> From<Line<'a>> for Arrival<'a> {
    fn from(line: Line<'a>) -> Self {
        match line {
            Line::Text(text) => Self::Said(Inbound::Line(text)),
            Line::NotUtf8(bytes) => Self::Unreadable { bytes, why: "it is not UTF-8" },
            Line::TooLong { length, head } => Self::TooLong { length, head },
        }
    }
}

impl<'a> Inbound<'a> {
    /// The bytes as they came.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Line(line) => line.as_bytes(),
        }
    }

    /// Refuses what a translator could not read safely.
    pub fn check(self) -> Result<(), LimitError> {
        match self {
            Self::Line(line) => limits::check_depth(line.as_bytes(), limits::MAX_DEPTH),
        }
    }
}

impl Outbound {
    /// The bytes that go to the agent.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Line(line) => line,
        }
    }

    /// The bytes that are left once so many of them are taken.
    pub fn rest(&self, taken: usize) -> &[u8] {
        self.bytes().get(taken..).unwrap_or_default()
    }
}
