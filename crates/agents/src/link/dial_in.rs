//! The link over a connection that the agent makes to Portolan. The connection comes later than the agent's process,
//! can be lost, and can come back; messages wait meanwhile.

use std::{
    io, mem,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use portolan_wire::ndjson::Splitter;
use tokio::{
    io::AsyncReadExt as _,
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
};
use tokio_util::sync::PollSender;

use super::{Arrival, Ends, Input, Link, Outbound, Source};
use crate::{
    child::Pipes,
    dial_in::{Connection, Expected},
};

/// An agent that dials in.
#[derive(Debug)]
pub struct DialInLink(Expected);

/// Where frames for the agent go; absent while there is no connection. The lock is held only within a poll.
type Current = Mutex<Option<PollSender<Bytes>>>;

impl DialInLink {
    /// For the agent that is expected there.
    pub fn new(expected: Expected) -> Self {
        Self(expected)
    }
}

impl Link for DialInLink {
    fn open(self: Box<Self>, pipes: Pipes, max_line: usize) -> Ends {
        let Pipes { input: stdin, output } = pipes;
        // The agent has nothing to send there, but a full pipe would stop it.
        tokio::spawn(swallow(output));
        let outgoing = Arc::new(Current::default());
        let source = Connections {
            expected: self.0,
            splitter: Splitter::new(max_line),
            incoming: None,
            outgoing: Arc::downgrade(&outgoing),
            change: None,
            end_is_due: false,
            _stdin: stdin,
        };
        Ends { source: Box::new(source), input: Box::new(ToConnection(outgoing)) }
    }
}

/// Lines over connections, one after the other.
#[derive(Debug)]
struct Connections {
    expected: Expected,
    splitter: Splitter,
    incoming: Option<mpsc::Receiver<Bytes>>,
    /// Dropped once the agent's input is closed: a later connection is closed at once.
    outgoing: Weak<Current>,
    /// A change of the connection that was not returned yet.
    change: Option<Arrival<'static>>,
    /// The end has come and was not returned yet.
    end_is_due: bool,
    /// Kept open until the end: some programs end with their stdin.
    _stdin: ChildStdin,
}

impl Connections {
    fn changed(
        &mut self,
        incoming: Option<mpsc::Receiver<Bytes>>,
        outgoing: Option<mpsc::Sender<Bytes>>,
        change: Arrival<'static>,
    ) {
        self.incoming = incoming;
        if let Some(current) = self.outgoing.upgrade() {
            *current.lock().unwrap_or_else(PoisonError::into_inner) = outgoing.map(PollSender::new);
        }
        // A line that was cut off must not be joined to the next connection's first.
        self.splitter.end_line();
        self.change = Some(change);
    }
}

impl Source for Connections {
    fn next_arrival(&mut self) -> Option<Arrival<'_>> {
        if let Some(change) = self.change.take() {
            return Some(change);
        }
        match self.splitter.next_line() {
            Some(line) => Some(line.into()),
            None => mem::take(&mut self.end_is_due).then_some(Arrival::Ended),
        }
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The rest of the old connection comes before the next connection, which may repeat it.
        if let Some(incoming) = &mut self.incoming
            && let Poll::Ready(frame) = incoming.poll_recv(context)
        {
            match frame {
                Some(frame) => self.splitter.push(&frame),
                None => self.changed(None, None, Arrival::Lost),
            }
            return Poll::Ready(());
        }
        if let Some(Connection { incoming, outgoing }) = ready!(self.expected.poll_connection(context)) {
            self.changed(Some(incoming), Some(outgoing), Arrival::Connected);
        } else {
            self.finish();
            self.end_is_due = true;
        }
        Poll::Ready(())
    }

    fn finish(&mut self) {
        self.splitter.end_line();
    }

    fn skipped(&self) -> u64 {
        self.splitter.skipped()
    }
}

#[derive(Debug)]
struct ToConnection(Arc<Current>);

impl Input for ToConnection {
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        outbound: &Outbound,
        taken: usize,
    ) -> Poll<io::Result<usize>> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If there is no connection, or it is gone and the source will report that, the message waits for the next
        // connection. The driver comes back after every arrival, so no wakeup is needed here.
        let Some(connection) = current.as_mut() else { return Poll::Pending };
        if ready!(connection.poll_reserve(context)).is_err() {
            return Poll::Pending;
        }
        // Whole lines only: half a message must not go over one connection and half over the next.
        let frame = outbound.rest(taken);
        match connection.send_item(Bytes::copy_from_slice(frame)) {
            Ok(()) => Poll::Ready(Ok(frame.len())),
            Err(_) => Poll::Pending,
        }
    }
}

/// Reads unwanted output, until its end.
async fn swallow(mut output: ChildStdout) {
    let mut nowhere = vec![0; 4096];
    while matches!(output.read(&mut nowhere).await, Ok(1..)) {}
}
