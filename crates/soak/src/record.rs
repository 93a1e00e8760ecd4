//! What a client saw of one log, written down as it came: the ground on which everything is judged.
//!
//! Only what judging takes is kept, because a long run sees hundreds of thousands of entries: of a durable one its
//! number and a digest of its very bytes, of a streamed one its text.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

/// The name under which the daemon's own log is written down; sessions go by their id.
pub const DAEMON: &str = "daemon";

/// Kinds of entries that are shown at once and written behind.
const STREAMED: [&str; 5] = ["item_started", "tool_named", "delta", "tool_progress", "activity"];

/// One entry, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// When it was written, by the daemon's clock, in milliseconds.
    pub at: i64,
    /// What happened.
    pub event: Value,
    /// Stands for its very bytes.
    pub digest: u64,
}

impl Entry {
    /// Reads an entry's frame. `text` is the frame as it came.
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

    /// What kind of event.
    pub fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    /// Committed before anyone sees it?
    pub fn is_durable(&self) -> bool {
        !STREAMED.contains(&self.kind())
    }
}

/// One thing that a client saw, or that happened to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// It attached, asking for what comes after this number.
    Attached {
        /// The last number it had.
        after: u64,
    },
    /// A durable entry.
    Durable {
        /// Its number.
        seq: u64,
        /// When it was written.
        at: i64,
        /// Stands for its bytes.
        digest: u64,
    },
    /// A streamed entry.
    Streamed {
        /// Its number.
        seq: u64,
        /// When it was written.
        at: i64,
        /// The item it belongs to; none where it belongs to none.
        item: Option<String>,
        /// What it adds to the item; nothing where it begins it.
        text: String,
    },
    /// A snapshot.
    Snapshot {
        /// Up to which entry.
        seq: u64,
        /// When it came, by the client's clock.
        at: i64,
        /// The open items and their text.
        items: Vec<(String, String)>,
    },
    /// The connection ended.
    Lost,
    /// The daemon was killed.
    Killed {
        /// Just before, by the machine's clock: what was shown until then counts.
        at: i64,
        /// When it was certainly dead: what has a later time was written by the next one.
        dead: i64,
        /// For so many milliseconds before it nothing could be written, because the store was failing.
        unwritable: i64,
    },
}

/// Everything that one client saw of one log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Who.
    pub client: String,
    /// Of what.
    pub log: String,
    /// In the order it came.
    pub seen: Vec<Seen>,
}

impl Recording {
    /// An empty one.
    pub fn new(client: impl Into<String>, log: impl Into<String>) -> Self {
        Self { client: client.into(), log: log.into(), seen: Vec::new() }
    }

    /// Writes an entry down.
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

    /// Writes a snapshot down.
    pub fn snapshot(&mut self, seq: u64, at: i64, state: &Value) {
        let items = state["items"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = items.map(|item| (text(&item["item"]), text(&item["text"]))).collect();
        self.seen.push(Seen::Snapshot { seq, at, items });
    }

    /// The highest number it was shown.
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
