//! The record: the requests to the server, for a test or a diagnosis to read and to wait for.
//!
//! Bounded in number and in bytes; the oldest are dropped first. Keys are never kept, only their kind.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::asked::Asked;

/// Requests kept: more than any scripted conversation makes.
const KEPT: usize = 1000;
/// Bytes of bodies kept: two of the largest, and every conversation without large images.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// A request to the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its number, from 1, since the server started.
    pub number: u64,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Its query, if it had one.
    pub query: Option<String>,
    /// Its headers about the client and the API, never a key.
    pub headers: Vec<(String, String)>,
    /// The kind of key that came.
    pub credential: Credential,
    /// Its body; null if it had none or it was not JSON.
    pub body: Value,
    /// Its content for the model, if any.
    pub asked: Option<Asked>,
    /// How it was answered.
    pub answered: Answered,
}

impl Recorded {
    /// The value of a recorded header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The last prompt; empty if it is not a request to the model.
    pub fn prompt(&self) -> &str {
        self.asked.as_ref().map_or("", Asked::prompt)
    }
}

/// The kind of key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// No key.
    None,
    /// In the API's own header.
    ApiKey,
    /// As a bearer token.
    Bearer,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With a step of a rule, by their positions in the script.
    Rule {
        /// The rule.
        rule: usize,
        /// The step.
        step: usize,
    },
    /// The script's answer for requests on the side, or its default answer.
    Otherwise,
    /// A token count.
    Count,
    /// The list of models.
    Models,
    /// An error that is not from the script, with this status: wrong path, wrong key, unreadable body.
    Refused(u16),
}

/// Why waiting ended.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the awaited request did not come within {within:?}; {came} requests came")]
pub struct WaitError {
    /// The length of the wait.
    pub within: Duration,
    /// Requests since the server started.
    pub came: u64,
}

#[derive(Debug)]
pub(crate) struct Record {
    kept: Mutex<Kept>,
    came: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<(Arc<Recorded>, usize)>,
    bytes: usize,
    came: u64,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::default(), came: watch::Sender::new(0) }
    }

    /// Keeps `recorded`, whose body had this many bytes, under the next number.
    pub(crate) fn push(&self, mut recorded: Recorded, bytes: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.came += 1;
        recorded.number = kept.came;
        kept.bytes += bytes;
        kept.requests.push_back((Arc::new(recorded), bytes));
        while kept.requests.len() > KEPT || kept.bytes > KEPT_BYTES {
            let Some((_, bytes)) = kept.requests.pop_front() else { break };
            kept.bytes -= bytes;
        }
        self.came.send_replace(kept.came);
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Recorded>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.requests.iter().map(|(recorded, _)| recorded.clone()).collect()
    }

    pub(crate) async fn wait<T>(
        &self,
        within: Duration,
        found: impl Fn(&[Arc<Recorded>], u64) -> Option<T>,
    ) -> Result<T, WaitError> {
        let mut came = self.came.subscribe();
        let look = async {
            loop {
                let count = *came.borrow_and_update();
                if let Some(found) = found(&self.requests(), count) {
                    return found;
                }
                if came.changed().await.is_err() {
                    // The sender is `self`, which outlives this.
                    std::future::pending::<()>().await;
                }
            }
        };
        let waited = tokio::time::timeout(within, look).await;
        waited.map_err(|_| WaitError { within, came: *self.came.borrow() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Recorded {
        Recorded {
            number: 0,
            method: "POST".to_owned(),
            path: "/".to_owned(),
            query: None,
            headers: Vec::new(),
            credential: Credential::None,
            body: Value::Null,
            asked: None,
            answered: Answered::Otherwise,
        }
    }

    #[test]
    fn the_oldest_requests_are_forgotten_and_numbers_go_on() {
        let record = Record::new();
        for _ in 0..=KEPT {
            record.push(request(), 1);
        }
        let numbers: Vec<u64> = record.requests().iter().map(|request| request.number).collect();
        assert_eq!(numbers, (2..=KEPT as u64 + 1).collect::<Vec<_>>());
    }

    #[test]
    fn large_bodies_push_out_older_requests() {
        let record = Record::new();
        for _ in 0..3 {
            record.push(request(), KEPT_BYTES / 2);
        }
        let numbers: Vec<u64> = record.requests().iter().map(|request| request.number).collect();
        assert_eq!(numbers, [2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_vain_ends_with_the_number_of_requests() {
        let record = Record::new();
        record.push(request(), 0);
        let within = Duration::from_secs(5);
        let waited = record.wait(within, |_, came| (came == 2).then_some(())).await;
        assert_eq!(waited, Err(WaitError { within, came: 1 }));
    }
}
