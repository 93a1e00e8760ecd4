//! The open streams, by session: for stops, and for the place where the next run of a thread continues.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use indexmap::{IndexMap, IndexSet};
use portolan_core::{Action, CommandId, Refusal, Seq, SessionId, TokenId, command::CommandKey};
use tokio_util::sync::CancellationToken;

use super::project::Projector;

/// How many connected clients and sent runs are kept; each takes about 200 bytes. A page connects again when it is
/// loaded, so a forgotten client is known again; and nobody repeats such an old run.
const REMEMBERED: usize = 4096;

/// How many bytes of open streams are kept for the next runs. One takes a few kilobytes, plus streaming texts and lists
/// of the agent; a run whose state was forgotten continues from the current state.
const LEFT_BYTES: usize = 16 * 1024 * 1024;

/// How many streams one token may have open at once. A browser opens six at most; a server with many users uses one
/// token for all. Each costs a task, a reader and its state, about 100 KiB.
pub(super) const STREAMS: usize = 256;

/// A client: a thread and a token. Another token on the same thread is another client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) token: TokenId,
    pub(super) thread: String,
}

/// The state at the end of a stream whose turn continues: the next run continues there.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) projector: Projector,
    /// The last entry that was sent.
    pub(super) last: Seq,
}

#[derive(Debug)]
struct Running {
    number: u64,
    run: String,
    /// The client that sends a message with it, if any.
    says: Option<Client>,
    /// Whether its turn runs: then an interrupt stops it. Otherwise its prompt only waits in the queue.
    began: Arc<AtomicBool>,
    stop: CancellationToken,
}

/// A run whose client has disconnected, while it is not yet certain that the client meant to stop it.
#[derive(Debug)]
struct Abandoned {
    number: u64,
    session: SessionId,
    client: Client,
    /// Its prompt; absent if it continued a running turn.
    prompt: Option<Seq>,
    began: Arc<AtomicBool>,
    overtaken: CancellationToken,
}

/// The grace period; dropping this ends it.
#[derive(Debug)]
pub(super) struct Grace {
    runs: Arc<Runs>,
    number: u64,
    /// The client sent something else, which has stopped the run.
    pub(super) overtaken: CancellationToken,
}

impl Drop for Grace {
    fn drop(&mut self) {
        let mut abandoned = self.runs.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|one| one.number != self.number);
    }
}

/// The result of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing to stop.
    Nothing,
    /// Waiting runs, which are withdrawn.
    Waiting,
    /// A run whose turn is running.
    Begun,
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(super) struct Runs {
    numbers: AtomicU64,
    open: Mutex<HashMap<SessionId, Vec<Running>>>,
    left: Mutex<LeftBehind>,
    connected: Mutex<IndexSet<Client>>,
    said: Mutex<IndexMap<(SessionId, String, CommandId), CommandKey>>,
    /// At most as many as open streams.
    abandoned: Mutex<Vec<Abandoned>>,
    streams: Mutex<HashMap<TokenId, usize>>,
}

/// The states of ended streams, the oldest first, with their sizes.
#[derive(Debug, Default)]
struct LeftBehind {
    all: IndexMap<(SessionId, Client), (usize, Left)>,
    bytes: usize,
}

impl LeftBehind {
    fn take(&mut self, key: &(SessionId, Client)) -> Option<Left> {
        let (bytes, left) = self.all.shift_remove(key)?;
        self.bytes -= bytes;
        Some(left)
    }
}

/// One of a token's streams; dropping this frees its place.
#[derive(Debug)]
pub(super) struct Seat {
    runs: Arc<Runs>,
    token: TokenId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut streams = self.runs.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = streams.get_mut(&self.token) {
            *open -= 1;
            if *open == 0 {
                streams.remove(&self.token);
            }
        }
    }
}

/// A stream's registration; dropping this removes it.
#[derive(Debug)]
pub(super) struct Place {
    runs: Arc<Runs>,
    session: SessionId,
    number: u64,
    began: Arc<AtomicBool>,
    /// Cancelled if somebody stops it.
    pub(super) stop: CancellationToken,
}

/// How a run is stopped: an interrupt, or the withdrawal of its prompt.
fn stop_of(prompt: Option<Seq>, began: &AtomicBool) -> Action {
    match prompt {
        Some(prompt) if !began.load(Ordering::Relaxed) => Action::Withdraw { prompt },
        _ => Action::Interrupt,
    }
}

impl Place {
    /// How this run is stopped.
    pub(super) fn stop_of(&self, prompt: Option<Seq>) -> Action {
        stop_of(prompt, &self.began)
    }

    /// The turn of this run has begun.
    pub(super) fn begin(&self) {
        self.began.store(true, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.runs.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = open.get_mut(&self.session) {
            running.retain(|one| one.number != self.number);
            if running.is_empty() {
                open.remove(&self.session);
            }
        }
    }
}

impl Runs {
    /// Adds a stream of this token, unless it has too many.
    pub(super) fn sit_down(self: &Arc<Self>, token: &TokenId) -> Result<Seat, Refusal> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let open = streams.entry(token.clone()).or_default();
        if *open >= STREAMS {
            let message =
                format!("the token `{token}` has {STREAMS} streams open already; end one of them first");
            return Err(Refusal::busy(message, 1000));
        }
        *open += 1;
        Ok(Seat { runs: Arc::clone(self), token: token.clone() })
    }

    /// Registers a stream of this session, under the client's name of its run; with its client, if it sends a message.
    pub(super) fn enter(self: &Arc<Self>, session: SessionId, run: &str, says: Option<Client>) -> Place {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (began, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let running =
            Running { number, run: run.to_owned(), says, began: Arc::clone(&began), stop: stop.clone() };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default().push(running);
        Place { runs: Arc::clone(self), session, number, began, stop }
    }

    /// Stops streams: the one of this run, or all of the session.
    pub(super) fn stop(&self, session: SessionId, run: Option<&str>) -> Found {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Found::Nothing;
        for one in open.get(&session).into_iter().flatten() {
            if run.is_some_and(|run| one.run != run) {
                continue;
            }
            one.stop.cancel();
            if one.began.load(Ordering::Relaxed) {
                found = Found::Begun;
            } else if found == Found::Nothing {
                found = Found::Waiting;
            }
        }
        found
    }

    /// The client of this run has disconnected. `None` if it already sends something else on the thread: then it has
    /// stopped the run.
    pub(super) fn abandon(
        self: &Arc<Self>,
        place: &Place,
        client: &Client,
        prompt: Option<Seq>,
    ) -> Option<Grace> {
        let (number, session) = (place.number, place.session);
        // Keep the lock until this is noted: a later run finds it, an earlier run is found.
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newer = |one: &Running| one.number > number && one.says.as_ref() == Some(client);
        if open.get(&session).is_some_and(|running| running.iter().any(is_newer)) {
            return None;
        }
        let overtaken = CancellationToken::new();
        abandoned.push(Abandoned {
            number,
            session,
            client: client.clone(),
            prompt,
            began: Arc::clone(&place.began),
            overtaken: overtaken.clone(),
        });
        Some(Grace { runs: Arc::clone(self), number, overtaken })
    }

    /// Is there a run whose client has disconnected?
    #[cfg(test)]
    pub(super) fn has_abandoned(&self) -> bool {
        !self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// This client sends something new. Returns what stops the runs that it has left.
    pub(super) fn overtake(&self, session: SessionId, client: &Client) -> Vec<Action> {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let left = abandoned.extract_if(.., |one| one.session == session && one.client == *client);
        let stop = |one: Abandoned| {
            one.overtaken.cancel();
            stop_of(one.prompt, &one.began)
        };
        left.map(stop).collect()
    }

    /// A stream ends in the middle of a turn.
    pub(super) fn leave(&self, session: SessionId, client: &Client, left: Left) {
        let mut behind = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session, client.clone());
        behind.take(&key);
        let bytes = left.projector.weight();
        behind.bytes += bytes;
        behind.all.insert(key, (bytes, left));
        while behind.bytes > LEFT_BYTES
            && let Some((_, (bytes, _))) = behind.all.shift_remove_index(0)
        {
            behind.bytes -= bytes;
        }
    }

    /// Takes the state of this client's last stream.
    pub(super) fn take_left(&self, session: SessionId, client: &Client) -> Option<Left> {
        let mut behind = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        behind.take(&(session, client.clone()))
    }

    /// A page has connected.
    pub(super) fn connected(&self, client: &Client) {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if connected.len() >= REMEMBERED {
            connected.shift_remove_index(0);
        }
        connected.insert(client.clone());
    }

    /// Is this client a page that has connected?
    pub(super) fn has_connected(&self, client: &Client) -> bool {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).contains(client)
    }

    /// Notes that this run sends this message with this command.
    pub(super) fn says(&self, session: SessionId, run: &str, message: &CommandId, command: CommandKey) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED {
            said.shift_remove_index(0);
        }
        said.insert((session, run.to_owned(), message.clone()), command);
    }

    /// The message was refused.
    pub(super) fn has_not_said(&self, session: SessionId, run: &str, message: &CommandId) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.shift_remove(&(session, run.to_owned(), message.clone()));
    }

    /// The command with which this run has already sent this message.
    pub(super) fn said_by(&self, session: SessionId, run: &str, message: &CommandId) -> Option<CommandKey> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.get(&(session, run.to_owned(), message.clone())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{Millis, SessionSpec, session::state::State};

    use super::*;
    use crate::agui::project::{Approvals, PageNames, Prompts};

    fn client(thread: &str) -> Client {
        Client { token: "ada".parse().unwrap(), thread: thread.into() }
    }

    #[test]
    fn a_token_has_so_many_streams_at_once_and_another_token_has_its_own() {
        let runs = Arc::new(Runs::default());
        let ada = "ada".parse().unwrap();
        let mut seats: Vec<Seat> = (0..STREAMS).map(|_| runs.sit_down(&ada).unwrap()).collect();
        let refusal = runs.sit_down(&ada).unwrap_err();
        assert_eq!(refusal.code, portolan_core::RefusalCode::Busy);
        assert!(refusal.message.contains("256 streams"), "{refusal}");
        runs.sit_down(&"bob".parse().unwrap()).unwrap();
        seats.pop();
        runs.sit_down(&ada).unwrap();
        drop(seats);
        assert!(runs.streams.lock().unwrap().is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn what_streams_leave_is_bounded_by_the_room_it_takes() {
        let runs = Runs::default();
        let session = SessionId::from_u128(7);
        let left = || {
            let mut spec = SessionSpec { agent: "player".into(), cwd: "/".into(), ..SessionSpec::default() };
            spec.cwd = format!("/{}", "x".repeat(LEFT_BYTES / 4)).into();
            let state = State::new(session, spec, Millis(0));
            let names = PageNames::none();
            let projector = Projector::new(session, "default", names, Approvals::Event, Prompts::All, &state);
            Left { projector, last: Seq::ZERO }
        };
        let small = left().projector.weight();
        assert!((LEFT_BYTES / 4..LEFT_BYTES / 2).contains(&small), "{small}");
        for thread in ["1", "2", "3", "4", "5"] {
            runs.leave(session, &client(thread), left());
        }
        let there = |thread: &str| runs.take_left(session, &client(thread)).is_some();
        assert_eq!(["1", "2", "3", "4", "5"].map(there), [false, false, true, true, true]);
        assert_eq!(runs.left.lock().unwrap().bytes, 0);
        runs.leave(session, &client("1"), left());
        runs.leave(session, &client("1"), left());
        assert_eq!(runs.left.lock().unwrap().bytes, left().projector.weight(), "one in place of the other");
    }
}
