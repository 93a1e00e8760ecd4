//! The port to an agent: a [`Link`] brings messages from the agent and takes messages for the agent.
//!
//! The [`driver`](crate::driver) knows this port and no link. A link knows how bytes travel, and no protocol: pipes
//! ([`PipeLink`]), a connection that the agent makes to Portolan ([`DialInLink`]), or one that a new file adds.
//!
//! A link has two ends, because the driver waits for both at once: an agent that does not read must still be heard.
//! Both ends are polled and never awaited. Work in progress lives in the link and not in a future, so the driver may
//! stop waiting at any moment and nothing is lost; and no future is allocated for each line.

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

/// A connection to an agent, not open yet.
pub trait Link: fmt::Debug + Send {
    /// The agent's process runs, and these are its pipes. A link that does not use the pipes must still keep them: a
    /// process whose output nobody reads stops, and a process whose input is closed may end. A message longer than
    /// `max_line` bytes must become [`Arrival::TooLong`]. Called within a runtime.
    fn open(self: Box<Self>, pipes: Pipes, max_line: usize) -> Ends;
}

/// Both ends of an open link.
#[derive(Debug)]
pub struct Ends {
    /// Brings arrivals.
    pub source: Box<dyn Source>,
    /// Takes messages for the agent.
    pub input: Box<dyn Input>,
}

/// The end of a link that brings arrivals.
///
/// The driver takes arrivals until there is none, then waits for more, and so on. It waits only while the session has
/// room: a source must not read ahead by more than a bounded amount, so that a fast agent is held back.
pub trait Source: fmt::Debug + Send {
    /// The next arrival that has come already. Must not wait.
    fn next_arrival(&mut self) -> Option<Arrival<'_>>;

    /// Waits until [`Source::next_arrival`] is worth a call; that call may still return nothing, as when half a line
    /// has come. Not called while there are arrivals, nor after [`Arrival::Ended`].
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// The driver waits for nothing more: the part of an unfinished message is the next arrival.
    fn finish(&mut self) {}

    /// How much of a message beyond the limit has been skipped so far, in bytes; zero if none is being skipped.
    fn skipped(&self) -> u64 {
        0
    }
}

/// The end of a link that takes messages for the agent. Dropping it closes it.
pub trait Input: fmt::Debug + Send {
    /// Takes as much as there is room for now, and returns the number of bytes. The first `taken` bytes were taken
    /// before.
    ///
    /// Not ready means that the agent takes nothing now, or that there is no connection: the message waits. The driver
    /// tries again after every arrival, so an input that waits for [`Arrival::Connected`] need not wake anybody. An
    /// error, or zero bytes, means that the agent will never take anything again.
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        outbound: &Outbound,
        taken: usize,
    ) -> Poll<io::Result<usize>>;

    /// How many of the taken bytes the agent has not read yet. `None` if that cannot be seen.
    fn unread(&self) -> Option<u64> {
        None
    }
}

/// What a link brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A message from the agent.
    Said(Inbound<'a>),
    /// A message from the agent that cannot be read.
    Unreadable {
        /// The bytes of the message.
        bytes: &'a [u8],
        /// Why it cannot be read.
        why: &'static str,
    },
    /// A message from the agent that is longer than the limit; it was skipped.
    TooLong {
        /// Its length, in bytes.
        length: u64,
        /// Its first bytes, for people.
        head: Vec<u8>,
    },
    /// There is a connection, the first or the next one. A link with a connection from the beginning need not report
    /// it. A new connection replaces the previous one.
    Connected,
    /// The connection is gone; the agent may come back. The part of a cut-off message follows.
    Lost,
    /// Nothing more will come.
    Ended,
}

/// A message from an agent, in the form in which its link carries it. Each form has its method in
/// [`Translator`](crate::driver::Translator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound<'a> {
    /// A line, without its newline.
    Line(&'a str),
}

/// A message to an agent, in the form in which its link carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// A line, with its newline.
    Line(Vec<u8>),
}

impl Arrival<'_> {
    /// Whether it is about the connection, and not a message of the agent.
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

    /// Refuses a message that a translator could not read safely.
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

    /// The bytes that are left after this many are taken.
    pub fn rest(&self, taken: usize) -> &[u8] {
        self.bytes().get(taken..).unwrap_or_default()
    }
}
