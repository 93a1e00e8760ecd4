//! Requests: each is opened and closed once, and a client that joins is shown exactly those that are open.

use std::collections::BTreeMap;

use super::Complaint;
use crate::record::{Entry, Recording, Seen};

/// Checks the requests of one log. A request that is open when a daemon ends has the same number in the snapshot of the
/// next daemon.
pub fn requests(history: &[Entry], recordings: &[&Recording]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    // The numbers of the entries that opened and closed each request.
    let mut lives: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    for entry in history {
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        match entry.kind() {
            "request_opened" => {
                let request = number(&entry.event["request"]["request"]);
                if lives.insert(request, (entry.seq, None)).is_some() {
                    complaints.push(Complaint::OpenedTwice(request));
                }
            }
            "request_closed" => {
                let request = number(&entry.event["request"]);
                match lives.get_mut(&request) {
                    Some((_, closed @ None)) => *closed = Some(entry.seq),
                    _ => complaints.push(Complaint::ClosedTwice(request)),
                }
            }
            _ => {}
        }
    }
    for seen in recordings.iter().flat_map(|recording| &recording.seen) {
        let Seen::Snapshot { seq: at, requests, .. } = seen else { continue };
        let is_open = |request: &u64| {
            lives
                .get(request)
                .is_some_and(|(opened, closed)| opened <= at && closed.is_none_or(|closed| closed > *at))
        };
        let not_shown = lives.keys().filter(|request| is_open(request) && !requests.contains(request));
        complaints.extend(not_shown.map(|request| Complaint::NotShown { request: *request, at: *at }));
        let shown_closed = requests.iter().filter(|request| !is_open(request));
        complaints.extend(shown_closed.map(|request| Complaint::ShownClosed { request: *request, at: *at }));
    }
    let left_open = lives.iter().filter(|(_, (_, closed))| closed.is_none());
    complaints.extend(left_open.map(|(request, _)| Complaint::LeftOpen(*request)));
    complaints
}
