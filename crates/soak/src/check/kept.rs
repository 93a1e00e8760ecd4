//! Kept: all text that a client saw is in the log, even if its daemon was killed. Holds beside agents that outlive the
//! daemon, whose holders keep the text.
//!
//! A daemon that takes an agent over may first show less of an item than the killed daemon had shown: the rest follows.

use std::collections::BTreeMap;

use super::{Complaint, text::finals};
use crate::record::{Entry, Recording, Seen};

/// An item as a client saw it.
#[derive(Debug, Default)]
struct Shown {
    text: String,
    /// What was shown by earlier daemons, or before a snapshot.
    earlier: Vec<String>,
    /// The daemon that showed the text was killed. How the text goes on is known from the next snapshot or start on.
    stale: bool,
}

impl Shown {
    fn starts_again(&mut self, text: &str) {
        self.stale = false;
        let earlier = std::mem::replace(&mut self.text, text.to_owned());
        // What the new text contains need not be compared twice.
        if !text.starts_with(&earlier) {
            self.earlier.push(earlier);
        }
    }
}

/// Compares everything that a client saw streaming with the history.
pub fn kept(history: &[Entry], recording: &Recording) -> Vec<Complaint> {
    let (mut complaints, mut items) = (Vec::new(), BTreeMap::<&str, Shown>::new());
    for seen in &recording.seen {
        match seen {
            Seen::Streamed { item: Some(item), text, .. } => match items.get_mut(item.as_str()) {
                // An empty text starts an item.
                Some(shown) if shown.stale && text.is_empty() => shown.starts_again(""),
                Some(shown) if shown.stale => {}
                Some(shown) => shown.text.push_str(text),
                None if text.is_empty() => drop(items.insert(item, Shown::default())),
                None => complaints.push(Complaint::Unannounced(item.clone())),
            },
            Seen::Killed { .. } => items.values_mut().for_each(|shown| shown.stale = true),
            Seen::Snapshot { items: open, .. } => {
                for (item, text) in open {
                    items.entry(item).or_default().starts_again(text);
                }
            }
            Seen::Streamed { item: None, .. } | Seen::Attached { .. } | Seen::Durable { .. } | Seen::Lost => {
            }
        }
    }
    let (_, finals) = finals(history);
    for (item, Shown { text, mut earlier, .. }) in items {
        earlier.push(text);
        let Some(end) = finals.get(item) else {
            // An item that never had text is not kept.
            if earlier.iter().any(|text| !text.is_empty()) {
                complaints.push(Complaint::ItemGone(item.to_owned()));
            }
            continue;
        };
        if let Some(seen) = earlier.into_iter().find(|text| !end.has(text)) {
            let (item, kept) = (item.to_owned(), end.text.clone());
            complaints.push(Complaint::Text { item, seen, kept });
        }
    }
    complaints
}
