//! The streams that are open, by session: what a stop is for, and where the next run of a thread goes on.

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

/// Clients that are remembered to have connected, and runs whose message was said; each takes some 200 bytes. A page connects
/// again when it is loaded, so that what is forgotten comes back; and nobody sends a run again that is so old.
const REMEMBERED: usize = 4096;

/// Bytes of all that streams have left open, for the next runs to go on with. One is a few kilobytes, beside texts that are
/// being written and lists that an agent told; whose is forgotten goes on from what is known at that moment.
const LEFT_BYTES: usize = 16 * 1024 * 1024;

/// Streams that one token has open at once. A browser opens six at most; a server with many users behind it comes with one
/// token for all. Each costs a task, a reader and what it knows of its session, some 100 KiB.
pub(super) const STREAMS: usize = 256;

/// A client: on a thread, by a token. Another token's on the same thread is another client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) token: TokenId,
    pub(super) thread: String,
}

/// Where a stream left a turn that goes on: the next run continues there.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) projector: Projector,
    /// The last entry it was told.
    pub(super) last: Seq,
}

#[derive(Debug)]
struct Running {
    number: u64,
    run: String,
    /// Who says something with it, where it does.
    says: Option<Client>,
    /// What it waits for is under way: an interrupt stops it. Else it only waits in the queue.
    began: Arc<AtomicBool>,
    stop: CancellationToken,
}

/// A run whose client has left it, while it is not yet certain that the client meant to stop it.
#[derive(Debug)]
struct Abandoned {
    number: u64,
    session: SessionId,
    client: Client,
    /// What it said; absent where it went on with what ran.
    prompt: Option<Seq>,
    began: Arc<AtomicBool>,
    overtaken: CancellationToken,
}

/// The time in which that is not certain; dropping it ends it.
#[derive(Debug)]
pub(super) struct Grace {
    runs: Arc<Runs>,
    number: u64,
    /// The client goes on with something else, which has stopped the run.
    pub(super) overtaken: CancellationToken,
}

impl Drop for Grace {
    fn drop(&mut self) {
        let mut abandoned = self.runs.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|one| one.number != self.number);
    }
}

/// What a stop found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that it is for.
    Nothing,
    /// Runs that were still waiting; they are taken back.
    Waiting,
    /// A run that the agent is at.
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
    /// At most as many as there are streams.
    abandoned: Mutex<Vec<Abandoned>>,
    streams: Mutex<HashMap<TokenId, usize>>,
}

/// What streams have left, the oldest first, with how much room each takes.
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

/// One of a token's streams; dropping it makes room.
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

/// A stream's place; dropping it leaves.
#[derive(Debug)]
pub(super) struct Place {
    runs: Arc<Runs>,
    session: SessionId,
    number: u64,
    began: Arc<AtomicBool>,
    /// Someone wants it stopped.
    pub(super) stop: CancellationToken,
}

/// What stops a run: an interrupt, or its prompt is taken back.
fn stop_of(prompt: Option<Seq>, began: &AtomicBool) -> Action {
    match prompt {
        Some(prompt) if !began.load(Ordering::Relaxed) => Action::Withdraw { prompt },
        _ => Action::Interrupt,
    }
}

impl Place {
    /// What stops this run.
    pub(super) fn stop_of(&self, prompt: Option<Seq>) -> Action {
        stop_of(prompt, &self.began)
    }

    /// The agent is at it.
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
    /// One more stream of this token, where it has not too many.
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

    /// A stream of this session opens, under the client's name of its run; whose, where it says something.
    pub(super) fn enter(self: &Arc<Self>, session: SessionId, run: &str, says: Option<Client>) -> Place {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (began, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let running =
            Running { number, run: run.to_owned(), says, began: Arc::clone(&began), stop: stop.clone() };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default().push(running);
        Place { runs: Arc::clone(self), session, number, began, stop }
    }

    /// Tells streams that they are stopped: the one of this run, or all of the session.
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

    /// The client of this run has left. `None` when it already says something else on the thread: then it has stopped it.
    pub(super) fn abandon(
        self: &Arc<Self>,
        place: &Place,
        client: &Client,
        prompt: Option<Seq>,
    ) -> Option<Grace> {
        let (number, session) = (place.number, place.session);
        // Held until it is noted: a run that comes now finds it, one that came before is found.
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

    /// Is there a run whose client has left it?
    #[cfg(test)]
    pub(super) fn has_abandoned(&self) -> bool {
        !self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// This client says something new. Gives what stops the runs that it has left.
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

    /// Where this client's last stream ended, once.
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

    /// Is this client a page, which has connected?
    pub(super) fn has_connected(&self, client: &Client) -> bool {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).contains(client)
    }

    /// This run says this message, by this command.
    pub(super) fn says(&self, session: SessionId, run: &str, message: &CommandId, command: CommandKey) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED {
            said.shift_remove_index(0);
        }
        said.insert((session, run.to_owned(), message.clone()), command);
    }

    /// It was not taken.
    pub(super) fn has_not_said(&self, session: SessionId, run: &str, message: &CommandId) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.shift_remove(&(session, run.to_owned(), message.clone()));
    }

    /// The command by which this run has said this message already.
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
