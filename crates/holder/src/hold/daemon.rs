//! The connection of the daemon, from the holder's side.

use std::{collections::VecDeque, io};

use bytes::BytesMut;
use portolan_core::ports::Instruction;
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};

use crate::frames::{Frame, FromHolder, Reader, ToHolder, put_message};

/// Bytes that wait for the daemon in memory; the rest waits in the spool.
const OUT: usize = 256 * 1024;

/// Bytes that are read from the spool at once.
pub(super) const FILL: usize = 64 * 1024;

/// A connection. Dropping it closes it, and what was not read from it was never seen.
#[derive(Debug)]
pub(super) struct DaemonConnection {
    reader: Reader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    pub(super) out: BytesMut,
    /// The position in the spool up to which everything is in `out` or written.
    pub(super) position: u64,
    /// Instructions of an earlier connection that wait for the agent: this daemon does not count those.
    inherited: usize,
    passed: u64,
    /// The reports that were recorded before this daemon came.
    pub(super) recorded_before: u64,
}

/// The parts of a connection that work at the same time.
pub(super) struct Parts<'a> {
    pub(super) reader: Option<&'a mut Reader<OwnedReadHalf>>,
    pub(super) writing: Option<(&'a mut OwnedWriteHalf, &'a mut BytesMut)>,
}

impl DaemonConnection {
    pub(super) fn new(reader: Reader<OwnedReadHalf>, writer: OwnedWriteHalf) -> Self {
        Self {
            reader,
            writer,
            out: BytesMut::new(),
            position: 0,
            inherited: 0,
            passed: 0,
            recorded_before: 0,
        }
    }

    /// The parts of the daemon's connection, if there is one.
    pub(super) fn parts(daemon: &mut Option<Self>) -> Parts<'_> {
        match daemon {
            Some(Self { reader, writer, out, .. }) => {
                let writing = (!out.is_empty()).then_some((writer, out));
                Parts { reader: Some(reader), writing }
            }
            None => Parts { reader: None, writing: None },
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.out.len() < OUT
    }

    pub(super) fn tell(&mut self, message: &FromHolder) {
        if let Err(error) = put_message(&mut self.out, message) {
            tracing::error!(%error, "a message cannot be written");
        }
    }

    /// Says why, and closes.
    pub(super) fn refuse(mut self, why: &str) {
        self.tell(&FromHolder::Refused { why: why.into() });
        // A peer that does not read learns it from the end of the connection.
        let _ = self.writer.try_write(&self.out);
    }

    /// From now on this connection is the daemon's; so many instructions of earlier connections wait for the agent, and
    /// so many reports are recorded.
    pub(super) fn begin(&mut self, inherited: usize, recorded: u64) {
        (self.inherited, self.recorded_before) = (inherited, recorded);
    }

    /// One more instruction went on to the agent.
    pub(super) fn confirm(&mut self) {
        if let Some(fewer) = self.inherited.checked_sub(1) {
            self.inherited = fewer;
            return;
        }
        self.passed += 1;
        let passed = FromHolder::Passed(self.passed);
        self.tell(&passed);
    }
}

/// The next message of the daemon. Cancel-safe.
pub(super) async fn next(reader: Option<&mut Reader<OwnedReadHalf>>) -> io::Result<Option<ToHolder>> {
    let Some(reader) = reader else { return std::future::pending().await };
    match reader.next::<ToHolder>().await? {
        Some(Frame::Message(message)) => Ok(Some(message)),
        Some(Frame::Report(..) | Frame::Unreadable(_)) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a daemon sends no reports"))
        }
        None => Ok(None),
    }
}

/// Writes some of what waits for the daemon. Cancel-safe: what is written is gone from the buffer.
pub(super) async fn write(writing: Option<(&mut OwnedWriteHalf, &mut BytesMut)>) -> io::Result<()> {
    let Some((writer, out)) = writing else { return std::future::pending().await };
    match writer.write_buf(out).await {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Passes the first waiting instruction on to the agent. `false`: the agent takes no more. Cancel-safe.
pub(super) async fn pass(
    waiting: &mut VecDeque<Instruction>,
    agent: Option<&mpsc::Sender<Instruction>>,
) -> bool {
    let (false, Some(agent)) = (waiting.is_empty(), agent) else { return std::future::pending().await };
    let Ok(room) = agent.reserve().await else {
        // The agent has ended, and its last report says so.
        waiting.clear();
        return false;
    };
    if let Some(instruction) = waiting.pop_front() {
        room.send(instruction);
    }
    true
}
