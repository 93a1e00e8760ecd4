//! The recording of what a client saw of one log: the basis of all checks.
//!
//! A recording keeps only what the checks need, because a long run sees hundreds of thousands of entries: the number
//! and a digest of the bytes of a durable entry, the text of a streamed entry.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use portolan_core::Event;
use serde_json::Value;

/// The name of the daemon's own log in recordings; the name of a session's log is its id.
pub const DAEMON: &str = "daemon";

/// One entry, as received.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// When it was written, by the daemon's clock, in milliseconds.
    pub at: i64,
    /// What happened.
    pub event: Value,
    /// A digest of its bytes.
    pub digest: u64,
}

impl Entry {
    /// Reads the frame of an entry. `text` is the frame as received.
    pub fn read(text: &str, frame: &Value) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Some(Self {
            seq: frame["seq"].as_u64()?,
            at: frame["at"].as_i64()?,
            event: frame["event"].clone(),
            digest: hasher.finish(),
        })
    }

    /// An entry made by a test.
    pub fn made(seq: u64, at: i64, event: Value) -> Self {
        let frame = serde_json::json!({ "seq": seq, "at": at, "event": event });
        Self::read(&frame.to_string(), &frame).unwrap_or(Self { seq, at, event: Value::Null, digest: 0 })
    }

    /// The kind of the event.
    pub fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    /// Is the entry committed before a client sees it?
    pub fn is_durable(&self) -> bool {
        !Event::STREAMED.contains(&self.kind())
    }
}

/// One thing that a client saw, or that happened to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// The client attached and asked for the entries after this number.
    Attached {
        /// The last number that the client had.
        after: u64,
    },
    /// A durable entry.
    Durable {
        /// Its number.
        seq: u64,
        /// When it was written.
        at: i64,
        /// A digest of its bytes.
        digest: u64,
    },
    /// A streamed entry.
    Streamed {
        /// Its number.
        seq: u64,
        /// When it was written.
        at: i64,
        /// The item that the entry belongs to, if any.
        item: Option<String>,
        /// The text that the entry adds to the item; nothing if it starts the item.
        text: String,
    },
    /// A snapshot.
    Snapshot {
        /// The last entry in the snapshot.
        seq: u64,
        /// When the snapshot came, by the client's clock.
        at: i64,
        /// The open items and their text.
        items: Vec<(String, String)>,
        /// The numbers of the open requests.
        requests: Vec<u64>,
    },
    /// The connection ended.
    Lost,
    /// The daemon was killed.
    Killed {
        /// Just before the kill, by the machine's clock: everything that was shown until then counts.
        at: i64,
        /// When the daemon was certainly dead: the next daemon wrote every entry with a later time.
        dead: i64,
        /// For this many milliseconds before the kill nothing could be written, because the store was failing.
        unwritable: i64,
    },
}

/// Everything that one client saw of one log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The name of the client.
    pub client: String,
    /// The name of the log.
    pub log: String,
    /// What the client saw, in order.
    pub seen: Vec<Seen>,
}

impl Recording {
    /// An empty recording.
    pub fn new(client: impl Into<String>, log: impl Into<String>) -> Self {
        Self { client: client.into(), log: log.into(), seen: Vec::new() }
    }

    /// Records an entry.
    pub fn entry(&mut self, entry: &Entry) {
        let Entry { seq, at, digest, .. } = *entry;
        self.seen.push(if entry.is_durable() {
            Seen::Durable { seq, at, digest }
        } else {
            let text = |key: &str| entry.event[key].as_str().map(str::to_owned);
            let item = match entry.kind() {
                "item_started" | "delta" => text("item"),
                _ => None,
            };
            Seen::Streamed { seq, at, item, text: text("text").unwrap_or_default() }
        });
    }

    /// Records a snapshot.
    pub fn snapshot(&mut self, seq: u64, at: i64, state: &Value) {
        let items = state["items"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = items.map(|item| (text(&item["item"]), text(&item["text"]))).collect();
        let requests = state["requests"].as_array().into_iter().flatten();
        let requests = requests.filter_map(|request| request["request"].as_u64()).collect();
        self.seen.push(Seen::Snapshot { seq, at, items, requests });
    }

    /// The highest number that the client saw.
    pub fn last(&self) -> u64 {
        let number = |seen: &Seen| match seen {
            Seen::Attached { after: seq }
            | Seen::Durable { seq, .. }
            | Seen::Streamed { seq, .. }
            | Seen::Snapshot { seq, .. } => *seq,
            Seen::Lost | Seen::Killed { .. } => 0,
        };
        self.seen.iter().map(number).max().unwrap_or(0)
    }
}
