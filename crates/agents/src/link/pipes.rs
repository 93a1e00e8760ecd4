//! The link over an agent's stdin and stdout. It lives as long as the agent's process.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use portolan_wire::ndjson::Lines;
use tokio::{
    io::AsyncWrite as _,
    process::{ChildStdin, ChildStdout},
};

use super::{Arrival, Ends, Input, Link, Outbound, Source};
use crate::child::Pipes;

/// An agent that speaks over its stdin and stdout.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipeLink;

impl Link for PipeLink {
    fn open(self: Box<Self>, pipes: Pipes, max_line: usize) -> Ends {
        let Pipes { input, output } = pipes;
        let source = Stdout { lines: Lines::new(output, max_line), end_is_due: false };
        Ends { source: Box::new(source), input: Box::new(Stdin(input)) }
    }
}

#[derive(Debug)]
struct Stdout {
    lines: Lines<ChildStdout>,
    /// The end has come and was not returned yet.
    end_is_due: bool,
}

impl Source for Stdout {
    fn next_arrival(&mut self) -> Option<Arrival<'_>> {
        match self.lines.buffered() {
            Some(line) => Some(line.into()),
            None => mem::take(&mut self.end_is_due).then_some(Arrival::Ended),
        }
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_open = ready!(self.lines.poll_fill(context));
        // A pipe that cannot be read brings nothing more, for any reason.
        if !is_open.unwrap_or(false) {
            self.finish();
            self.end_is_due = true;
        }
        Poll::Ready(())
    }

    fn finish(&mut self) {
        self.lines.end_line();
    }

    fn skipped(&self) -> u64 {
        self.lines.skipped()
    }
}

#[derive(Debug)]
struct Stdin(ChildStdin);

impl Input for Stdin {
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        outbound: &Outbound,
        taken: usize,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, outbound.rest(taken))
    }

    fn unread(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&self.0).ok()
    }
}
