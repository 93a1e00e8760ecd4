//! The desk of one session: calls of the agent that wait for the page, and results of the page that came before the
//! agent's call. It has no socket and does not know either protocol.
//!
//! The page and the agent share the id of a call. The page may be faster: an agent that makes two calls in one message
//! runs them one after the other, while the page answers both at once.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indexmap::IndexMap;
use tokio::sync::{oneshot, watch};

use super::{Limits, PageResult};

/// How many calls of one session may wait at once. Agents wait for one or a few; more means a faulty agent.
const WAITING: usize = 32;

/// How many results without a call are kept.
const EARLY: usize = 32;

/// How many ended calls are kept: a page repeats their results with every run, because it sends its whole thread.
const SETTLED: usize = 1024;

/// Why a call got no result. The agent's model reads this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoResult {
    /// The error text of the page.
    #[error("{0}")]
    Failed(String),
    #[error("no page took the call within {} s: the page that offers this tool is closed or busy; continue without the tool", .0.as_secs())]
    NoPage(Duration),
    #[error("the page did not answer within {} s; the tool may have run anyway", .0.as_secs())]
    NoAnswer(Duration),
    #[error("the page's result is longer than {0} KiB and cannot be passed on; have the page return less")]
    TooLong(usize),
    #[error("the user sent a new message before the page answered this call")]
    Overtaken,
    #[error("the turn has ended")]
    TurnEnded,
    #[error("the agent made this call again")]
    Again,
    #[error("too many calls already wait for the page; wait until the page has answered some of them")]
    TooMany,
}

type Outcome = Result<String, NoResult>;

/// Who has a call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Nobody.
    Not,
    /// A page shows it, and its user may answer. No run has taken it over yet.
    Shown,
    /// A run has ended with it, so that its page runs it.
    Over,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    reply: oneshot::Sender<Outcome>,
    taken: watch::Sender<Taken>,
}

#[derive(Debug, Default)]
struct State {
    waiting: IndexMap<String, Waiting>,
    early: IndexMap<String, Outcome>,
    settled: VecDeque<String>,
    numbers: u64,
}

/// See the documentation of the module.
#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// Waiting calls that no run has passed to the page yet.
    open: watch::Sender<Vec<String>>,
}

impl Default for Desk {
    fn default() -> Self {
        Self { state: Mutex::default(), open: watch::Sender::new(Vec::new()) }
    }
}

impl Desk {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut state);
        let open: Vec<String> = state
            .waiting
            .iter()
            .filter(|(_, call)| *call.taken.borrow() != Taken::Over)
            .map(|(id, _)| id.clone())
            .collect();
        self.open.send_if_modified(|known| {
            let changed = *known != open;
            *known = open;
            changed
        });
        done
    }

    /// Waiting calls that no run has passed to the page yet.
    pub(super) fn open(&self) -> watch::Receiver<Vec<String>> {
        self.open.subscribe()
    }

    /// Does any call wait?
    pub(super) fn is_busy(&self) -> bool {
        self.with(|state| !state.waiting.is_empty())
    }

    /// Waits for the page's result of a call. Dropping the future ends the wait.
    pub(super) async fn call(&self, id: &str, limits: &Limits) -> Outcome {
        let (reply, mut answer) = oneshot::channel();
        let sender = watch::Sender::new(Taken::Not);
        let mut taken = sender.subscribe();
        let number = self.with(|state| {
            if let Some(result) = state.early.shift_remove(id) {
                state.settle(id);
                return Err(result);
            }
            if state.waiting.len() >= WAITING && !state.waiting.contains_key(id) {
                return Err(Err(NoResult::TooMany));
            }
            state.numbers += 1;
            let number = state.numbers;
            let before = state.waiting.insert(id.to_owned(), Waiting { number, reply, taken: sender });
            if let Some(before) = before {
                // Its caller may be gone already.
                let _ = before.reply.send(Err(NoResult::Again));
            }
            Ok(number)
        });
        let number = match number {
            Ok(number) => number,
            Err(known) => return known,
        };
        let _place = Place { desk: self, id, number };
        // All arms are cancel-safe; an available answer counts before a timeout.
        tokio::select! {
            biased;
            answer = &mut answer => return answer.unwrap_or(Err(NoResult::TurnEnded)),
            _ = taken.wait_for(|taken| *taken != Taken::Not) => {}
            () = tokio::time::sleep(limits.page) => return Err(NoResult::NoPage(limits.page)),
        }
        match tokio::time::timeout(limits.answer, answer).await {
            Ok(answer) => answer.unwrap_or(Err(NoResult::TurnEnded)),
            Err(_) => Err(NoResult::NoAnswer(limits.answer)),
        }
    }

    /// Takes results of the page. Returns how many of them a call waited for.
    pub(super) fn results(&self, results: impl IntoIterator<Item = PageResult>, limits: &Limits) -> usize {
        self.with(|state| {
            let mut settled = 0;
            for (id, result) in results {
                let (Ok(text) | Err(text)) = &result;
                let outcome = if text.len() > limits.result_bytes {
                    Err(NoResult::TooLong(limits.result_bytes / 1024))
                } else {
                    result.map_err(NoResult::Failed)
                };
                match state.waiting.shift_remove(&id) {
                    Some(call) => match call.reply.send(outcome) {
                        Ok(()) => {
                            settled += 1;
                            state.settle(&id);
                        }
                        // The agent has given up the call; it may call again.
                        Err(outcome) => state.keep(id, outcome),
                    },
                    None if state.settled.contains(&id) => {}
                    None => state.keep(id, outcome),
                }
            }
            settled
        })
    }

    /// The page has these calls now: the timeout of an answer begins.
    pub(super) fn handed_over(&self, calls: &[String]) {
        self.with(|state| {
            for call in calls.iter().filter_map(|id| state.waiting.get(id)) {
                call.taken.send_replace(Taken::Over);
            }
        });
    }

    /// A page that may answer shows the waiting calls now: the timeout of an answer begins, and a run may still take
    /// them over. Returns whether any call waits.
    pub(super) fn shown(&self) -> bool {
        self.with(|state| {
            for call in state.waiting.values() {
                call.taken.send_if_modified(|taken| {
                    let is_first = *taken == Taken::Not;
                    if is_first {
                        *taken = Taken::Shown;
                    }
                    is_first
                });
            }
            !state.waiting.is_empty()
        })
    }

    /// Ends all waiting calls without a result.
    pub(super) fn give_up(&self, why: NoResult) {
        self.with(|state| {
            for (id, call) in std::mem::take(&mut state.waiting) {
                // Its caller may be gone already.
                let _ = call.reply.send(Err(why.clone()));
                state.settle(&id);
            }
            if why == NoResult::TurnEnded {
                state.early.clear();
            }
        });
    }
}

impl State {
    fn settle(&mut self, id: &str) {
        if self.settled.iter().any(|known| known == id) {
            return;
        }
        self.settled.push_back(id.to_owned());
        if self.settled.len() > SETTLED {
            self.settled.pop_front();
        }
    }

    fn keep(&mut self, id: String, outcome: Outcome) {
        self.early.insert(id, outcome);
        if self.early.len() > EARLY {
            self.early.shift_remove_index(0);
        }
    }
}

/// The entry of a waiting call. Removes only its own entry: a repeated call may have replaced it.
struct Place<'a> {
    desk: &'a Desk,
    id: &'a str,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.desk.with(|state| {
            if state.waiting.get(self.id).is_some_and(|call| call.number == self.number) {
                state.waiting.shift_remove(self.id);
                state.settle(self.id);
            }
        });
    }
}
