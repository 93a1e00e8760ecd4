//! The two ways to an agent: its own pipes, or a connection that it makes to us. Above this, both are lines.
//!
//! A pipe lives as long as its process. A connection comes later than its process, can be lost, and can come back;
//! what is to be written waits meanwhile.

use bytes::Bytes;
use portolan_wire::ndjson::{Line, Lines, Splitter};
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
};

use crate::dial_in::{Connection, Expected};

/// How an agent is reached.
#[derive(Debug)]
pub enum Transport {
    /// Over its stdin and stdout.
    Pipes,
    /// It dials in.
    DialIn(Expected),
}

/// Where the agent's lines come from.
#[derive(Debug)]
pub(super) enum Source {
    Pipe(Lines<ChildStdout>),
    Socket(Box<Socket>),
}

/// Where lines for the agent go.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(ChildStdin),
    /// Absent while there is no connection.
    Socket(Option<mpsc::Sender<Bytes>>),
}

/// Lines over connections, one after the other.
#[derive(Debug)]
pub(super) struct Socket {
    expected: Expected,
    splitter: Splitter,
    current: Option<mpsc::Receiver<Bytes>>,
}

/// What a look at the source brought.
#[derive(Debug)]
pub(super) enum Filled {
    /// More bytes.
    More,
    /// A connection, which takes lines here.
    Connected(mpsc::Sender<Bytes>),
    /// The connection is gone.
    Lost,
    /// Nothing more will come.
    Ended,
}

impl Source {
    pub(super) fn pipe(output: ChildStdout, max_line: usize) -> Self {
        Self::Pipe(Lines::new(output, max_line))
    }

    pub(super) fn socket(expected: Expected, max_line: usize) -> Self {
        Self::Socket(Box::new(Socket { expected, splitter: Splitter::new(max_line), current: None }))
    }

    /// The next line that is here already.
    pub(super) fn buffered(&mut self) -> Option<Line<'_>> {
        match self {
            Self::Pipe(lines) => lines.buffered(),
            Self::Socket(socket) => socket.splitter.next_line(),
        }
    }

    pub(super) fn skipped(&self) -> u64 {
        match self {
            Self::Pipe(lines) => lines.skipped(),
            Self::Socket(socket) => socket.splitter.skipped(),
        }
    }

    /// After the end: the last line, where no newline ended it.
    pub(super) fn finish(&mut self) -> Option<Line<'_>> {
        match self {
            Self::Pipe(lines) => lines.finish(),
            Self::Socket(socket) => socket.splitter.finish(),
        }
    }

    /// Waits for more. Cancel-safe: what has come is kept or not yet taken.
    pub(super) async fn fill(&mut self) -> Filled {
        match self {
            Self::Pipe(lines) => match lines.fill().await {
                Ok(true) => Filled::More,
                Ok(false) | Err(_) => Filled::Ended,
            },
            Self::Socket(socket) => socket.fill().await,
        }
    }
}

impl Socket {
    async fn fill(&mut self) -> Filled {
        let frame = async {
            match &mut self.current {
                Some(frames) => frames.recv().await,
                None => std::future::pending().await,
            }
        };
        // Both are cancel-safe. What was said before comes before what says it anew.
        tokio::select! {
            biased;
            frame = frame => {
                let Some(frame) = frame else {
                    self.current = None;
                    // A line that was cut off must not be joined to the next connection's first.
                    self.splitter.push(b"\n");
                    return Filled::Lost;
                };
                self.splitter.push(&frame);
                Filled::More
            }
            connection = self.expected.connection() => match connection {
                Some(Connection { incoming, outgoing }) => {
                    self.splitter.push(b"\n");
                    self.current = Some(incoming);
                    Filled::Connected(outgoing)
                }
                None => Filled::Ended,
            },
        }
    }
}

impl Input {
    /// How much of what was written lies in the pipe unread; not known of a connection.
    pub(super) fn unread(&self) -> Option<u64> {
        match self {
            Self::Pipe(pipe) => rustix::io::ioctl_fionread(pipe).ok(),
            Self::Socket(_) => None,
        }
    }

    /// Can it take something now or soon?
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Pipe(_) => true,
            Self::Socket(connection) => connection.is_some(),
        }
    }

    /// Writes as much as is taken now. Cancel-safe: one write, or none.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.write(bytes).await,
            Self::Socket(connection) => {
                let permit = match connection {
                    Some(connection) => connection.reserve().await.ok(),
                    None => None,
                };
                match permit {
                    // Whole lines only: half a message must not go over one connection and half over the next.
                    Some(permit) => {
                        permit.send(Bytes::copy_from_slice(bytes));
                        Ok(bytes.len())
                    }
                    // It is gone; the source will say so. What is to be written waits for the next.
                    None => std::future::pending().await,
                }
            }
        }
    }
}
