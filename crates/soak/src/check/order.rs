//! Order: a client gets every durable entry of the history exactly once and in order, whatever happens to the
//! connection.

use std::collections::BTreeMap;

use super::Complaint;
use crate::record::{Entry, Recording, Seen};

/// Compares what a client saw with the history, from its first attach up to the last number that it saw.
pub fn order(history: &[Entry], recording: &Recording) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let (mut base, mut last, mut last_durable) = (None, 0, 0);
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    for one in &recording.seen {
        let (seq, goes_back) = match one {
            Seen::Attached { after } => {
                last = (*base.get_or_insert(*after)).max(last);
                continue;
            }
            Seen::Lost | Seen::Killed { .. } => continue,
            Seen::Durable { seq, digest, .. } => {
                if seen.insert(*seq, *digest).is_some() {
                    complaints.push(Complaint::Doubled(*seq));
                    continue;
                }
                let back = *seq <= last_durable || *seq < last;
                last_durable = last_durable.max(*seq);
                (*seq, back)
            }
            // A merged delta for a slow reader has the newest number, which may be the last number that the reader saw.
            Seen::Streamed { seq, .. } | Seen::Snapshot { seq, .. } => (*seq, *seq < last),
        };
        if goes_back {
            complaints.push(Complaint::Back { seq, after: last });
        }
        last = last.max(seq);
    }
    let base = base.unwrap_or(0);
    let expected = history.iter().filter(|entry| entry.is_durable() && entry.seq > base && entry.seq <= last);
    for entry in expected {
        match seen.remove(&entry.seq) {
            None => complaints.push(Complaint::Missing(entry.seq)),
            Some(digest) if digest != entry.digest => complaints.push(Complaint::Changed(entry.seq)),
            Some(_) => {}
        }
    }
    complaints.extend(seen.into_keys().map(Complaint::Gone));
    complaints
}
