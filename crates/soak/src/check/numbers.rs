//! Numbers: a number that was shown before a kill is never used again after the kill.

use super::Complaint;
use crate::record::{Entry, Recording, Seen};

/// Checks everything that all clients saw of one log. Each recording has the kills; an entry that was written after a
/// kill must have a number above all numbers that any client saw before the kill.
pub fn numbers(history: &[Entry], recordings: &[&Recording]) -> Vec<Complaint> {
    // For each kill: its time, and the highest number shown before.
    let mut kills: Vec<(i64, u64)> = Vec::new();
    for recording in recordings {
        let (mut shown, mut kill) = (0, 0);
        for seen in &recording.seen {
            match seen {
                Seen::Attached { after: seq }
                | Seen::Durable { seq, .. }
                | Seen::Streamed { seq, .. }
                | Seen::Snapshot { seq, .. } => shown = shown.max(*seq),
                Seen::Lost => {}
                Seen::Killed { dead, .. } => {
                    if kills.len() <= kill {
                        kills.push((*dead, 0));
                    }
                    kills[kill].1 = kills[kill].1.max(shown);
                    kill += 1;
                }
            }
        }
    }
    let mut complaints = Vec::new();
    let mut judge = |seq: u64, at: i64| {
        // The newest kill before this entry has the highest number.
        let before = kills.iter().rev().find(|(dead, _)| *dead < at);
        if let Some((_, shown)) = before.filter(|(_, shown)| seq <= *shown) {
            complaints.push(Complaint::Reused { seq, shown: *shown });
        }
    };
    for entry in history {
        judge(entry.seq, entry.at);
    }
    for seen in recordings.iter().flat_map(|recording| &recording.seen) {
        if let Seen::Streamed { seq, at, .. } = seen {
            judge(*seq, *at);
        }
    }
    complaints
}
