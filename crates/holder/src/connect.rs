//! A connection to a holder, from the side of the daemon or of somebody who only asks.

use std::{fs::File, io, os::fd::AsRawFd as _, time::Duration};

use bytes::BytesMut;
use portolan_core::SessionId;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::{
    RunFolder,
    frames::{Frame, FromHolder, PROTOCOL, Reader, Status, ToHolder, put_message},
};

/// How long a holder may take to answer. It answers at once, unless the machine is overloaded.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// A holder that has answered.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) reader: Reader<OwnedReadHalf>,
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) status: Status,
}

impl Connection {
    /// Connects to the session's holder and gets its status.
    pub(crate) async fn open(run: &RunFolder, session: SessionId, version: &str) -> io::Result<Self> {
        timeout(ANSWER, Self::greet(run, session, version)).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn greet(run: &RunFolder, session: SessionId, version: &str) -> io::Result<Self> {
        // The address of a socket has room for 108 bytes, and a home may have a longer path. A path through the open
        // folder is short.
        let folder = File::open(run.path())?;
        let socket = run.socket(session);
        let name = socket.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).await?;
        let (from, writer) = stream.into_split();
        let reader = Reader::new(from);
        let mut greeted = Self { reader, writer, status: Status::unknown(session) };
        greeted.send(&ToHolder::Hello { protocol: PROTOCOL, version: version.into() }).await?;
        match greeted.hear().await? {
            FromHolder::Status(status) => greeted.status = status,
            other => return Err(unexpected(&other)),
        }
        Ok(greeted)
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &ToHolder) -> io::Result<()> {
        let mut out = BytesMut::new();
        put_message(&mut out, message)?;
        self.writer.write_all(&out).await
    }

    /// The next message, before any report.
    async fn hear(&mut self) -> io::Result<FromHolder> {
        match self.reader.next::<FromHolder>().await? {
            Some(Frame::Message(message)) => Ok(message),
            Some(Frame::Report(..) | Frame::Unreadable(_)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a report came too early"))
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Becomes the daemon's connection. Returns which instructions have arrived, and how long no daemon was connected.
    pub(crate) async fn become_daemon(&mut self, message: &ToHolder) -> io::Result<Taken> {
        self.send(message).await?;
        match timeout(ANSWER, self.hear()).await.unwrap_or_else(|_| Err(silent()))? {
            FromHolder::Taken { taken, away_ms } => {
                Ok(Taken { instructions: taken, away: Duration::from_millis(away_ms) })
            }
            FromHolder::Refused { why } => Err(io::Error::other(why)),
            other => Err(unexpected(&other)),
        }
    }
}

/// The holder's answer to the daemon.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) instructions: std::collections::BTreeSet<portolan_core::ports::InstructionId>,
    pub(crate) away: Duration,
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the holder does not answer")
}

fn unexpected(message: &FromHolder) -> io::Error {
    let what = match message {
        FromHolder::Status(_) => "its status",
        FromHolder::Taken { .. } => "that it accepts the daemon",
        FromHolder::Refused { .. } => "a refusal",
        FromHolder::Passed(_) => "progress",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("the holder unexpectedly sent {what}"))
}
