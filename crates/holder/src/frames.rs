//! The frames between a holder and its daemons.
//!
//! A frame is its length (four bytes, the lowest first) and its body. A body that begins with `{` is a message in JSON.
//! A body that begins with `R` is a report, in exactly the bytes that the spool has. [`ToHolder::Hello`],
//! [`ToHolder::Stop`], [`ToHolder::Kill`] and [`FromHolder::Status`] never change their form, so that daemons and
//! holders of all versions understand these; everything else may change with [`PROTOCOL`].

use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use portolan_core::{
    Generation, SessionId,
    ports::{Instruction, InstructionId, Launch, Report},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The version of the frames. A daemon and a holder with different numbers exchange only what never changes.
pub const PROTOCOL: u32 = 1;

/// Instructions that a daemon sends before the holder says that they went on to the agent. More wait in the daemon, so
/// that a session whose agent does not read is refused further commands.
pub(crate) const WINDOW: usize = 16;

/// The longest body. A report holds at most a line of the agent twice, as events and as its original text; a prompt may
/// hold pictures.
pub(crate) const MAX_BODY: usize = 256 * 1024 * 1024;

/// What is read from a socket at once.
const READ: usize = 64 * 1024;

/// The first byte of a report's body.
const REPORT: u8 = b'R';

/// The bytes of a report's body before its JSON: the first byte, a checksum, the number, the length of the JSON.
const REPORT_HEAD: usize = 1 + 8 + 8 + 4;

/// From a daemon, or from somebody who only asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToHolder {
    /// The first message of every connection. The holder answers with its status.
    Hello {
        /// The asker's [`PROTOCOL`].
        protocol: u32,
        /// The asker's version.
        version: String,
    },
    /// Start the agent, and take this connection as the daemon's.
    Launch(Box<Launching>),
    /// Take this connection as the daemon's, in place of any other.
    Take {
        /// The number of the agent's start.
        generation: Generation,
        /// How many reports are recorded.
        recorded: u64,
        /// How many reports this daemon has got already. A new daemon has got those that are recorded.
        received: u64,
        /// The instructions that are not settled as far as the daemon knows.
        unsettled: BTreeSet<InstructionId>,
        /// The incarnation of the home. After a restore of the home's database the numbers above mean nothing.
        incarnation: String,
    },
    /// An instruction for the agent.
    Instruct(Instruction),
    /// So many reports are recorded.
    Recorded(u64),
    /// End the agent by its stop ladder, then the holder ends too.
    Stop {},
    /// End the agent at once, then the holder ends too.
    Kill {},
}

/// From the holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromHolder {
    /// The answer to [`ToHolder::Hello`].
    Status(Status),
    /// This connection is the daemon's. Reports follow.
    Taken {
        /// The unsettled instructions that have arrived here.
        taken: BTreeSet<InstructionId>,
        /// How long no daemon was connected, in milliseconds.
        away_ms: u64,
    },
    /// The request cannot be met.
    Refused {
        /// The reason.
        why: String,
    },
    /// So many instructions of this connection went on to the agent.
    Passed(u64),
}

/// What starts an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launching {
    pub(crate) launch: Launch,
    /// What the program needs to make the agent; only the program reads it.
    pub(crate) context: Value,
    pub(crate) linger: Linger,
    /// The tmux window that the holder runs in.
    pub(crate) tmux: Option<String>,
    /// What the user should know about the place in which the agent runs.
    pub(crate) remark: Option<String>,
    /// The incarnation of the home.
    pub(crate) incarnation: String,
}

/// How long an agent goes on without a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linger {
    /// An agent that has nothing to do ends after this time.
    pub idle: Duration,
    /// Every agent ends after this time.
    pub at_most: Duration,
}

impl Default for Linger {
    fn default() -> Self {
        Self { idle: Duration::from_mins(10), at_most: Duration::from_hours(24) }
    }
}

/// What a holder says of itself to everyone who may ask. Fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The holder's [`PROTOCOL`].
    pub protocol: u32,
    /// The holder's version.
    pub version: String,
    /// The session.
    pub session: SessionId,
    /// The holder's process.
    pub holder_pid: u32,
    /// The agent's kind; absent before the launch.
    #[serde(default)]
    pub agent: Option<String>,
    /// The number of the agent's start; absent before the launch.
    #[serde(default)]
    pub generation: Option<Generation>,
    /// The agent's process.
    #[serde(default)]
    pub agent_pid: Option<u32>,
    /// Whether the agent runs.
    pub state: State,
    /// The agent's folder.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// When the holder began, in milliseconds since 1970.
    pub since_ms: i64,
    /// The agent has no turn, no open request and no task in the background.
    #[serde(default)]
    pub idle: bool,
    /// A daemon is connected.
    #[serde(default)]
    pub connected: bool,
    /// The reports so far.
    #[serde(default)]
    pub reports: u64,
    /// Bytes of reports that no daemon has recorded.
    #[serde(default)]
    pub unrecorded_bytes: u64,
    /// The tmux window that the holder runs in.
    #[serde(default)]
    pub tmux: Option<String>,
}

impl Status {
    /// The status of a holder before its launch. A holder fills in the rest.
    pub(crate) fn unknown(session: SessionId) -> Self {
        Self {
            protocol: PROTOCOL,
            version: String::new(),
            session,
            holder_pid: 0,
            agent: None,
            generation: None,
            agent_pid: None,
            state: State::Starting,
            cwd: None,
            since_ms: 0,
            idle: false,
            connected: false,
            reports: 0,
            unrecorded_bytes: 0,
            tmux: None,
        }
    }
}

/// The state of a holder's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The agent is not started, or not ready.
    Starting,
    /// The agent takes instructions.
    Running,
    /// The agent has ended.
    Exited,
}

/// A frame that came.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "almost every frame is a report, and is moved once")]
pub(crate) enum Frame<M> {
    Message(M),
    Report(u64, Report),
    /// A report that came whole and cannot be read. Its number, if that can be trusted.
    Unreadable(Option<u64>),
}

/// Appends a message as a frame.
pub(crate) fn put_message(into: &mut BytesMut, message: &impl Serialize) -> io::Result<()> {
    let start = into.len();
    into.put_u32_le(0);
    serde_json::to_writer((&mut *into).writer(), message).map_err(io::Error::other)?;
    let length = into.len() - start - 4;
    into[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Appends a report as a frame.
pub(crate) fn put_report(into: &mut BytesMut, number: u64, mut report: Report) -> io::Result<()> {
    let raw = report.raw().and_then(Option::take).unwrap_or_default();
    let start = into.len();
    into.put_u32_le(0);
    into.put_u8(REPORT);
    into.put_u64_le(0);
    into.put_u64_le(number);
    into.put_u32_le(0);
    let json = into.len();
    if let Err(error) = serde_json::to_writer((&mut *into).writer(), &report) {
        into.truncate(start);
        return Err(io::Error::other(error));
    }
    let json_length = into.len() - json;
    into[json - 4..json].copy_from_slice(&(json_length as u32).to_le_bytes());
    into.put_slice(&raw);
    let length = into.len() - start - 4;
    if length > MAX_BODY {
        into.truncate(start);
        let why = format!("a report of {length} bytes is longer than {MAX_BODY}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let sum = checksum(&into[start + 4 + 9..]);
    into[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    into[start + 5..start + 13].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// FNV-1a: finds a record that was written in part, or damaged. It protects against nobody who wants to deceive.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The number of the report in this body.
pub(crate) fn report_number(body: &[u8]) -> Option<u64> {
    let bytes = body.strip_prefix(&[REPORT])?.get(8..16)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A report that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a report cannot be read: {why}")]
pub(crate) struct Unreadable {
    /// Its number, if the record is as it was written: another version may have written it.
    pub(crate) number: Option<u64>,
    why: String,
}

/// Reads a report's body.
pub(crate) fn report_in(mut body: Bytes) -> Result<(u64, Report), Unreadable> {
    let damaged = || Unreadable { number: None, why: "it is damaged".into() };
    if body.len() < REPORT_HEAD || body[0] != REPORT {
        return Err(damaged());
    }
    body.advance(1);
    let sum = body.get_u64_le();
    if checksum(&body) != sum {
        return Err(damaged());
    }
    let number = body.get_u64_le();
    let json_length = body.get_u32_le() as usize;
    if json_length > body.len() {
        return Err(damaged());
    }
    let json = body.split_to(json_length);
    let mut report: Report = serde_json::from_slice(&json)
        .map_err(|error| Unreadable { number: Some(number), why: error.to_string() })?;
    if let Some(raw) = report.raw().filter(|_| !body.is_empty()) {
        *raw = Some(body);
    }
    Ok((number, report))
}

/// Takes the first whole frame's body from what was read.
pub(crate) fn take_body(read: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let Some(length) = read.get(..4) else { return Ok(None) };
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    if length > MAX_BODY {
        let why = format!("a frame of {length} bytes is longer than {MAX_BODY}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    if read.len() < 4 + length {
        // No room is made for a length that only was announced.
        return Ok(None);
    }
    read.advance(4);
    Ok(Some(read.split_to(length).freeze()))
}

/// Reads frames. What has come in part stays here.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    from: R,
    read: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, read: BytesMut::new() }
    }

    /// The next frame; `None` at the end. Cancel-safe: one read, or none.
    pub(crate) async fn next<M: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<Frame<M>>> {
        loop {
            if let Some(frame) = self.ready()? {
                return Ok(Some(frame));
            }
            self.read.reserve(READ);
            if self.from.read_buf(&mut self.read).await? == 0 {
                let cut = !self.read.is_empty();
                return if cut { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
            }
        }
    }

    /// A frame that has come already.
    pub(crate) fn ready<M: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<Frame<M>>> {
        let Some(body) = take_body(&mut self.read)? else { return Ok(None) };
        if body.first() == Some(&REPORT) {
            return Ok(Some(match report_in(body) {
                Ok((number, report)) => Frame::Report(number, report),
                Err(error) => {
                    tracing::warn!(%error, "a report is left out");
                    Frame::Unreadable(error.number)
                }
            }));
        }
        let message = serde_json::from_slice(&body);
        message.map(|message| Some(Frame::Message(message))).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{
        Event,
        event::{Level, TurnOutcome, TurnResult},
    };

    use super::*;

    fn frame(message: &impl Serialize) -> BytesMut {
        let mut bytes = BytesMut::new();
        put_message(&mut bytes, message).unwrap();
        bytes
    }

    #[tokio::test]
    async fn frames_arrive_whole_however_they_are_cut() {
        let hello = ToHolder::Hello { protocol: 7, version: "9".into() };
        let event = Event::Notice { level: Level::Warning, text: "é\u{0}".into() };
        let raw = Some(Bytes::from_static(b"{\"a\":1}\xff"));
        let reports = [
            Report::Event { event, raw: raw.clone() },
            Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw },
            Report::Ready,
        ];
        let mut bytes = frame(&hello);
        for (number, report) in reports.iter().enumerate() {
            put_report(&mut bytes, number as u64, report.clone()).unwrap();
        }
        for cut in 1..bytes.len() {
            let (first, rest) = bytes.split_at(cut);
            let mut reader = Reader::new(tokio::io::AsyncReadExt::chain(first, rest));
            assert_eq!(reader.next().await.unwrap(), Some(Frame::Message(hello.clone())));
            for (number, report) in reports.iter().enumerate() {
                let next: Option<Frame<ToHolder>> = reader.next().await.unwrap();
                assert_eq!(next, Some(Frame::Report(number as u64, report.clone())));
            }
            assert_eq!(reader.next::<ToHolder>().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_frames_are_an_error() {
        let too_long = u32::MAX.to_le_bytes();
        let cut = &frame(&ToHolder::Stop {})[..5];
        let mut damaged = BytesMut::new();
        put_report(&mut damaged, 1, Report::Ready).unwrap();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        for bytes in [&too_long[..], cut, b"\x02\0\0\0{}", b"\0\0\0\0"] {
            assert!(Reader::new(bytes).next::<ToHolder>().await.is_err(), "{bytes:?}");
        }
        // The frames behind a report that cannot be read can be read.
        for bytes in [&damaged[..], b"\x01\0\0\0R"] {
            let mut both = bytes.to_vec();
            both.extend_from_slice(&frame(&ToHolder::Stop {}));
            let mut reader = Reader::new(&both[..]);
            assert_eq!(reader.next::<ToHolder>().await.unwrap(), Some(Frame::Unreadable(None)));
            assert_eq!(reader.next().await.unwrap(), Some(Frame::Message(ToHolder::Stop {})));
        }
    }

    // What every version understands: a change here leaves holders of other versions unreachable.
    #[test]
    fn hello_status_stop_and_kill_keep_their_form() {
        let text = |message: &ToHolder| serde_json::to_string(message).unwrap();
        assert_eq!(
            text(&ToHolder::Hello { protocol: 1, version: "0.1.0".into() }),
            r#"{"hello":{"protocol":1,"version":"0.1.0"}}"#
        );
        assert_eq!(text(&ToHolder::Stop {}), r#"{"stop":{}}"#);
        assert_eq!(text(&ToHolder::Kill {}), r#"{"kill":{}}"#);
        let session = SessionId::from_u128(5);
        let oldest = serde_json::json!({"status": {
            "protocol": 0, "version": "0", "session": session, "holder_pid": 1, "state": "running", "since_ms": 2, "new": 3,
        }});
        let FromHolder::Status(status) = serde_json::from_value(oldest).unwrap() else { panic!("a status") };
        let expected = Status {
            protocol: 0,
            version: "0".into(),
            holder_pid: 1,
            state: State::Running,
            since_ms: 2,
            ..Status::unknown(session)
        };
        assert_eq!(status, expected);
    }
}
