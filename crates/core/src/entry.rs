//! Entries: the lines of a log, in the one text form that is both stored and sent.
//!
//! The stored text of a durable entry *is* its native frame, so replay encodes nothing. Its first bytes have a
//! fixed form, `{"type":"entry","session":"<36 characters>",`, so that a fork can copy entries into another
//! log without reading them. Changes to the form are additive.

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Actor, LogId, Millis, Seq, SessionId};

/// The version of the form in which entries are stored.
pub const ENTRY_VERSION: u32 = 1;

/// The length of `{"type":"entry","session":"<36 characters>"`; a fork replaces exactly this much.
pub const SESSION_PREFIX: usize = r#"{"type":"entry","session":""#.len() + 36 + 1;

/// Room for the frame of most entries: a delta with its head.
const USUAL: usize = 384;

/// One entry: its number, its time, who caused it, and its event.
#[derive(Debug)]
pub struct Entry<E> {
    /// Its place in the log.
    pub seq: Seq,
    /// The time of the entry.
    pub at: Millis,
    /// Who caused the entry; the agent when absent.
    pub by: Option<Actor>,
    /// The event.
    pub event: E,
    /// The agent's original text, if it is worth keeping. For owners only: the text can hold secrets.
    pub raw: Option<Bytes>,
    log: LogId,
    frame: OnceLock<Bytes>,
}

#[derive(Serialize)]
struct FrameOut<'a, E> {
    seq: Seq,
    at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: &'a Option<Actor>,
    event: &'a E,
}

impl<E: Serialize> Entry<E> {
    /// An entry of `log`.
    pub fn new(log: LogId, seq: Seq, at: Millis, by: Option<Actor>, event: E) -> Self {
        Self { seq, at, by, event, raw: None, log, frame: OnceLock::new() }
    }

    /// The same entry, with the agent's original text.
    #[must_use]
    pub fn with_raw(mut self, raw: Option<Bytes>) -> Self {
        self.raw = raw;
        self
    }

    /// The native frame: JSON text, made once and shared.
    pub fn frame(&self) -> &Bytes {
        self.frame.get_or_init(|| self.encode())
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(USUAL);
        match self.log {
            LogId::Daemon => out.extend_from_slice(br#"{"type":"daemon""#),
            LogId::Session(id) => {
                out.extend_from_slice(br#"{"type":"entry","session":""#);
                out.extend_from_slice(id.text(&mut [0; SessionId::TEXT]).as_bytes());
                out.push(b'"');
            }
        }
        let start = out.len();
        let body = FrameOut { seq: self.seq, at: self.at, by: &self.by, event: &self.event };
        if let Err(error) = serde_json::to_writer(&mut out, &body) {
            // Our own types always serialise. If one does not, the entry says so instead of being lost.
            out.truncate(start);
            let why = serde_json::Value::from(error.to_string());
            out.extend_from_slice(
                format!(
                    r#"{{"seq":{},"at":{},"event":{{"type":"unknown","source":"portolan","kind":{why}}}}}"#,
                    self.seq, self.at.0
                )
                .as_bytes(),
            );
        }
        // The head is already an open object: the body continues it.
        out[start] = b',';
        Bytes::from(out)
    }
}

/// An entry in the store: its number and its frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its place in the log.
    pub seq: Seq,
    /// The native frame.
    pub frame: Bytes,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, String::from_utf8_lossy(&self.frame))
    }
}

/// An entry read back from its frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Decoded<E> {
    /// Its place in the log.
    pub seq: Seq,
    /// The time of the entry.
    pub at: Millis,
    /// Who caused the entry; the agent when absent.
    #[serde(default)]
    pub by: Option<Actor>,
    /// The event.
    pub event: E,
}

impl Stored {
    /// Reads the frame.
    pub fn decode<E: DeserializeOwned>(&self) -> Result<Decoded<E>, serde_json::Error> {
        serde_json::from_slice(&self.frame)
    }
}
