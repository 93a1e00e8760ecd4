//! Text: the kept text equals the streamed text. Only a kill may lose text, and only the newest text of an unfinished
//! item.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Complaint;
use crate::record::{Entry, Recording, Seen};

/// How much text the kills lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many items lost text that a client had seen.
    pub items: u32,
    /// How long before its kill the oldest lost text was shown.
    pub worst_milliseconds: i64,
}

/// How an item ended.
#[derive(Debug)]
pub(super) struct Final {
    pub(super) text: String,
    /// JSON that was parsed and written again: white space does not count.
    json: bool,
}

impl Final {
    /// Whether the item began with this text.
    pub(super) fn has(&self, seen: &str) -> bool {
        let bare = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
        if self.json { bare(&self.text).starts_with(&bare(seen)) } else { self.text.starts_with(seen) }
    }
}

/// An item as a client saw it.
#[derive(Debug, Default)]
struct Open {
    parts: Vec<(i64, String)>,
    killed: Option<i64>,
}

impl Open {
    fn text(&self) -> String {
        self.parts.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Compares the text that a client saw streaming with the text in the history. Text that was shown more than
/// `allowance` milliseconds before a kill must not be lost.
pub fn text(history: &[Entry], recording: &Recording, allowance: i64) -> (Vec<Complaint>, Losses) {
    let mut judge = Judge { complaints: Vec::new(), losses: Losses::default(), allowance };
    let (ends, finals) = finals(history);
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    for seen in &recording.seen {
        match seen {
            Seen::Attached { .. } | Seen::Lost => {}
            Seen::Streamed { item: None, .. } => {}
            Seen::Streamed { item: Some(item), at, text, .. } => match open.get_mut(item) {
                Some(known) => known.parts.push((*at, text.clone())),
                None if text.is_empty() => {
                    open.insert(item.clone(), Open::default());
                }
                None => judge.complaints.push(Complaint::Unannounced(item.clone())),
            },
            Seen::Durable { seq, .. } => {
                for item in ends.get(seq).into_iter().flatten() {
                    if let (Some(known), Some(end)) = (open.remove(item), finals.get(item)) {
                        judge.ended(item, &known, end);
                    }
                }
            }
            Seen::Snapshot { at, items, .. } => {
                for (item, text) in items {
                    if let Some(known) = open.get(item) {
                        // Nothing may be missing here: the item continues, so its daemon was not killed.
                        let end = Final { text: text.clone(), json: false };
                        judge.ended(item, &Open { killed: None, parts: known.parts.clone() }, &end);
                    }
                    let parts = vec![(*at, text.clone())];
                    open.insert(item.clone(), Open { parts, killed: None });
                }
                open.retain(|item, known| {
                    let lives = items.iter().any(|(name, _)| name == item);
                    if !lives {
                        judge.vanished(item, known);
                    }
                    lives
                });
            }
            // Text that could not be written when it was shown was not lost by the kill. Only the first kill counts:
            // after it, the item does not stream any more.
            Seen::Killed { at, unwritable, .. } => {
                for known in open.values_mut() {
                    known.killed.get_or_insert(*at - *unwritable);
                }
            }
        }
    }
    for (item, known) in open {
        match finals.get(&item) {
            Some(end) => judge.ended(&item, &known, end),
            None => judge.vanished(&item, &known),
        }
    }
    (judge.complaints, judge.losses)
}

struct Judge {
    complaints: Vec<Complaint>,
    losses: Losses,
    allowance: i64,
}

impl Judge {
    fn ended(&mut self, item: &str, known: &Open, end: &Final) {
        let seen = known.text();
        if end.has(&seen) {
            return;
        }
        if end.json || !seen.starts_with(&end.text) || known.killed.is_none() {
            let (item, kept) = (item.to_owned(), end.text.clone());
            self.complaints.push(Complaint::Text { item, seen, kept });
            return;
        }
        self.lost(item, known, end.text.len());
    }

    fn vanished(&mut self, item: &str, known: &Open) {
        if known.killed.is_none() {
            self.complaints.push(Complaint::ItemGone(item.to_owned()));
        } else {
            self.lost(item, known, 0);
        }
    }

    /// A kill lost all text after the first `kept` bytes.
    fn lost(&mut self, item: &str, known: &Open, kept: usize) {
        let mut length = 0;
        let first_lost = known.parts.iter().find(|(_, text)| {
            length += text.len();
            length > kept
        });
        let (Some((shown, _)), Some(killed)) = (first_lost, known.killed) else { return };
        let milliseconds = killed - shown;
        self.losses.items += 1;
        self.losses.worst_milliseconds = self.losses.worst_milliseconds.max(milliseconds);
        if milliseconds > self.allowance {
            self.complaints.push(Complaint::TextLost { item: item.to_owned(), milliseconds });
        }
    }
}

/// Which items each entry ends, and how each item ended.
pub(super) fn finals(history: &[Entry]) -> (HashMap<u64, Vec<String>>, HashMap<String, Final>) {
    let (mut ends, mut finals): (HashMap<u64, Vec<String>>, HashMap<String, Final>) = Default::default();
    for entry in history {
        let event = &entry.event;
        let (item, end) = match entry.kind() {
            "message" => (&event["item"], Final { text: content_text(&event["content"]), json: false }),
            "tool_call" => (&event["item"], Final { text: event["input"].to_string(), json: true }),
            // The output of a tool streams under the name of the tool.
            "tool_result" => (&event["tool"], Final { text: content_text(&event["content"]), json: false }),
            _ => continue,
        };
        if let Some(item) = item.as_str() {
            ends.entry(entry.seq).or_default().push(item.to_owned());
            finals.entry(item.to_owned()).or_insert(end);
        }
    }
    (ends, finals)
}

fn content_text(content: &Value) -> String {
    let pieces = content.as_array().into_iter().flatten();
    let text = |piece: &Value| {
        let own = piece["text"].as_str();
        let body = &piece["body"];
        own.or_else(|| body["tool_input"].as_str())
            .or_else(|| body["tool_output"].as_str())
            .map(str::to_owned)
    };
    pieces.filter_map(text).collect()
}
