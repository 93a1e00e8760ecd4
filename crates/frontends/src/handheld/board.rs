//! The four slots: their sessions, names and contents. Plain data behind one short lock.

use std::time::Duration;

use portolan_core::{
    Event, Generation, Millis, Refusal, RefusalCode, RequestId, SessionId,
    log::delivery::Seen,
    request::Request,
    session::state::{State, Summary},
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    desk::{Asked, SlotNow},
    devices::Peer,
    names,
    parse::Address,
    project::{Effect, View},
    wire::{AgentStatus, AutoEdit, Face, HealthSession, SLOTS, SlotState},
};

/// The message of a slot without a session.
const FREE: &str = "Free. The command spawn starts an agent.";

/// The message of a slot while a session for it is being created.
const STARTING: &str = "Starting...";

/// How long a spawn may take until its agent is ready. The driver ends slower agents before that.
pub const SPAWN_WAIT: Duration = Duration::from_mins(2);

/// How a session came into a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// From a device, or by `autospawn`.
    Spawned,
    /// By the owner.
    Bound,
    /// Automatically: the session was active and there was a free slot.
    Filled,
}

/// The part of a slot that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The session.
    pub session: SessionId,
    /// How the session came into the slot.
    pub how: How,
    /// Whether its agent ran.
    pub live: bool,
}

/// A session in a slot.
#[derive(Debug)]
pub struct Bound {
    /// The id of the session.
    pub session: SessionId,
    /// How the session came into the slot.
    pub how: How,
    /// The name of the slot while the session is in it.
    pub name: String,
    /// The content of the slot.
    pub view: View,
    /// Whether the whole state was read once.
    pub known: bool,
    /// Set if the session was resumed after a restart, with this start of its agent; if that start fails at once, the
    /// agent is started again without the old conversation.
    pub resumed: Option<Generation>,
    /// Cancel this to stop reading the session.
    pub follower: CancellationToken,
}

#[derive(Debug, Default)]
struct Slot {
    bound: Option<Bound>,
    /// An agent for the slot is being started.
    reserved: bool,
    /// The message for a device that used the slot while it was empty, until something happens in it.
    note: Option<String>,
}

/// A request that auto-edit may answer, and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Automatic {
    /// The slot.
    pub slot: usize,
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: Request,
}

/// The four slots.
#[derive(Debug, Default)]
pub struct Board {
    slots: [Slot; SLOTS],
    /// The device that switched auto-edit on, while it is on.
    auto_edit: Option<Peer>,
    /// Sessions that the owner removed: they do not return automatically.
    taken_out: Vec<SessionId>,
}

/// How many removed sessions are kept.
const TAKEN_OUT: usize = 256;

impl Board {
    /// Whether edits are approved automatically.
    pub fn auto_edit(&self) -> AutoEdit {
        if self.auto_edit.is_some() { AutoEdit::On } else { AutoEdit::Off }
    }

    /// The device that switched auto-edit on, while it is on.
    pub fn auto_edit_by(&self) -> Option<Peer> {
        self.auto_edit
    }

    /// Switches auto-edit on for this device, or off.
    pub fn set_auto_edit(&mut self, by: Option<Peer>) {
        self.auto_edit = by;
    }

    /// The session in a slot.
    pub fn bound(&self, slot: usize) -> Option<&Bound> {
        self.slots.get(slot)?.bound.as_ref()
    }

    /// The same, if the session is still in the slot.
    pub fn bound_mut(&mut self, slot: usize, session: SessionId) -> Option<&mut Bound> {
        self.slots.get_mut(slot)?.bound.as_mut().filter(|bound| bound.session == session)
    }

    /// The slot that a session is in.
    pub fn slot_of(&self, session: SessionId) -> Option<usize> {
        (0..SLOTS).find(|slot| self.bound(*slot).is_some_and(|bound| bound.session == session))
    }

    /// The slot that a device means.
    pub fn route(&self, to: &Address) -> Option<usize> {
        names::route(&std::array::from_fn(|slot| self.name(slot)), to)
    }

    fn name(&self, slot: usize) -> String {
        self.bound(slot).map_or_else(|| names::of_empty(slot), |bound| bound.name.clone())
    }

    /// Whether the slot has no live session and none is starting.
    pub fn is_free(&self, slot: usize) -> bool {
        let over = |bound: &Bound| bound.known && bound.view.is_gone();
        self.slots.get(slot).is_some_and(|slot| !slot.reserved && slot.bound.as_ref().is_none_or(over))
    }

    /// Reserves a slot for a spawn: this one, or the first free slot.
    pub fn reserve(&mut self, wanted: Option<usize>) -> Option<usize> {
        let slot = match wanted {
            Some(slot) => Some(slot).filter(|slot| self.is_free(*slot)),
            None => (0..SLOTS).find(|slot| self.is_free(*slot)),
        }?;
        self.slots[slot].reserved = true;
        self.slots[slot].note = None;
        Some(slot)
    }

    /// The spawn has ended.
    pub fn release(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.reserved = false;
        }
    }

    /// Whether an agent is being started.
    pub fn is_spawning(&self) -> bool {
        self.slots.iter().any(|slot| slot.reserved)
    }

    /// Puts a session into a slot and removes the session that was there. Returns the token that stops reading it.
    pub fn bind(&mut self, slot: usize, summary: &Summary, how: How) -> CancellationToken {
        if let Some(before) = self.slot_of(summary.session).filter(|before| *before != slot) {
            self.leave(before);
        }
        self.leave(slot);
        self.taken_out.retain(|session| *session != summary.session);
        let follower = CancellationToken::new();
        let name = names::of_session(slot, &summary.agent, &summary.cwd);
        if let Some(place) = self.slots.get_mut(slot) {
            place.note = None;
            place.bound = Some(Bound {
                session: summary.session,
                how,
                name,
                view: View::new(summary.session),
                known: false,
                resumed: None,
                follower: follower.clone(),
            });
        }
        follower
    }

    /// Empties a slot. Returns the session that was there.
    pub fn leave(&mut self, slot: usize) -> Option<SessionId> {
        let bound = self.slots.get_mut(slot)?.bound.take()?;
        bound.follower.cancel();
        Some(bound.session)
    }

    /// The same, by the owner: the session does not return automatically.
    pub fn take_out(&mut self, slot: usize) -> Result<SessionId, Refusal> {
        let session = self
            .leave(slot)
            .ok_or_else(|| Refusal::new(RefusalCode::NotFound, format!("slot {slot} is empty")))?;
        if self.taken_out.len() == TAKEN_OUT {
            self.taken_out.remove(0);
        }
        self.taken_out.push(session);
        Ok(session)
    }

    /// Chooses active sessions (newest first) for free slots: each with its slot. Empty slots come first, then slots
    /// whose session has ended.
    pub fn fill(&self, active: &[Summary]) -> Vec<(usize, Summary)> {
        if self.is_spawning() {
            // A session that is being created goes into its reserved slot.
            return Vec::new();
        }
        let empty = (0..SLOTS).filter(|slot| self.bound(*slot).is_none());
        let over = (0..SLOTS).filter(|slot| self.bound(*slot).is_some() && self.is_free(*slot));
        let room = empty.chain(over);
        let newcomers = active.iter().filter(|summary| {
            summary.is_live()
                && !summary.archived
                && self.slot_of(summary.session).is_none()
                && !self.taken_out.contains(&summary.session)
        });
        room.zip(newcomers.cloned()).collect()
    }

    // ------------------------------------------------------------------------------------- reading

    /// Applies entries of a session.
    pub fn apply(&mut self, slot: usize, session: SessionId, entry: &Seen<'_, Event>) -> Effect {
        self.bound_mut(slot, session).map_or(Effect::Unseen, |bound| bound.view.apply(entry))
    }

    /// Applies the whole state of a session.
    pub fn reset(&mut self, slot: usize, session: SessionId, state: &State) {
        if let Some(bound) = self.bound_mut(slot, session) {
            bound.view.reset(state);
            bound.known = true;
        }
    }

    /// The requests that auto-edit may answer now.
    pub fn automatic(&self) -> Vec<Automatic> {
        let mut all = Vec::new();
        for slot in 0..SLOTS {
            if let Some(Bound { session, view, .. }) = self.bound(slot) {
                let waits = view.automatic(self.auto_edit()).into_iter();
                all.extend(waits.map(|request| Automatic { slot, session: *session, request }));
            }
        }
        all
    }

    /// The open request of a slot, if it is still this one.
    pub fn request(&self, slot: usize, request: RequestId) -> Option<&Request> {
        self.bound(slot)?.view.state().requests.iter().find(|open| open.request == request)
    }

    /// How many questions of the request are answered, if it is still open.
    pub fn step(&self, slot: usize, asked: &Asked) -> Option<usize> {
        let bound = self.bound(slot).filter(|bound| bound.session == asked.session)?;
        self.request(slot, asked.request).map(|open| bound.view.given(open.request).len())
    }

    /// Shows a message in an empty slot.
    pub fn note_empty(&mut self, slot: usize, words: &str) {
        if let Some(place) = self.slots.get_mut(slot).filter(|place| place.bound.is_none()) {
            place.note = Some(words.to_owned());
        }
    }

    // ------------------------------------------------------------------------------------- showing

    /// Every slot as it is now.
    pub fn slots(&self, now: Millis) -> [SlotNow; SLOTS] {
        std::array::from_fn(|slot| {
            let bound = self.bound(slot);
            let face = match bound {
                Some(bound) => bound.view.face(self.auto_edit(), now),
                None => self.empty(slot),
            };
            let asked = bound.filter(|_| face.prompt.is_some()).and_then(|bound| {
                let open = bound.view.waiting(self.auto_edit())?;
                let step = bound.view.given(open.request).len();
                let (request, digest) = (open.request, open.digest.clone());
                Some(Asked { session: bound.session, request, digest, step })
            });
            let status = AgentStatus::fitted(slot, &self.name(slot), self.auto_edit(), face);
            SlotNow { status, asked }
        })
    }

    fn empty(&self, slot: usize) -> Face {
        let Slot { reserved, note, .. } = &self.slots[slot];
        let (state, message) = match (reserved, note) {
            (true, _) => (SlotState::Working, STARTING),
            (false, Some(note)) => (SlotState::Idle, note.as_str()),
            (false, None) => (SlotState::Idle, FREE),
        };
        Face { state, message: message.into(), prompt: None, context_percent: 0, active: false }
    }

    /// The sessions behind the slots.
    pub fn sessions(&self) -> Vec<HealthSession> {
        let session = |slot: usize| {
            let bound = self.bound(slot)?;
            let summary = &bound.view.state().summary;
            Some(HealthSession {
                slot,
                status: summary.status,
                session: bound.session,
                agent_session: summary.agent_session.clone(),
            })
        };
        (0..SLOTS).filter_map(session).collect()
    }

    /// The part of each slot that survives a restart.
    pub fn kept(&self) -> [Option<Kept>; SLOTS] {
        std::array::from_fn(|slot| {
            let bound = self.bound(slot)?;
            let live = !bound.known || !bound.view.is_gone();
            Some(Kept { session: bound.session, how: bound.how, live })
        })
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{
        SessionSpec,
        event::{Exit, ExitReason},
        session::state::Status,
    };

    use super::*;

    fn summary(number: u128, status: Status) -> Summary {
        let spec =
            SessionSpec { agent: "demo".into(), cwd: "/home/ada/shop".into(), ..SessionSpec::default() };
        let mut summary = State::new(SessionId::from_u128(number), spec, Millis(0)).summary;
        summary.status = status;
        summary
    }

    fn state(summary: &Summary) -> State {
        let mut state = State::new(summary.session, SessionSpec::default(), Millis(0));
        state.summary = summary.clone();
        state
    }

    fn put(board: &mut Board, slot: usize, number: u128, status: Status) {
        let summary = summary(number, status);
        board.bind(slot, &summary, How::Bound);
        board.reset(slot, summary.session, &state(&summary));
    }

    fn shown(board: &Board) -> Vec<(String, SlotState, bool)> {
        let slots = board.slots(Millis(0));
        slots.into_iter().map(|slot| (slot.status.agent, slot.status.state, slot.status.active)).collect()
    }

    // covers: 000-078
    #[test]
    fn there_are_four_slots_and_each_has_a_name_of_its_own() {
        let mut board = Board::default();
        put(&mut board, 1, 7, Status::Idle);
        let expected = [
            ("slot-0", SlotState::Idle, false),
            ("demo-1 shop", SlotState::Idle, true),
            ("slot-2", SlotState::Idle, false),
            ("slot-3", SlotState::Idle, false),
        ];
        let expected: Vec<_> = expected.map(|(name, state, active)| (name.to_owned(), state, active)).into();
        assert_eq!(shown(&board), expected);
        assert!(board.reserve(Some(4)).is_none() && board.reserve(Some(usize::MAX)).is_none());
    }

    // covers: 000-067
    #[test]
    fn a_slot_is_free_when_it_is_empty_or_its_session_has_ended() {
        let mut board = Board::default();
        put(&mut board, 0, 1, Status::Active);
        put(&mut board, 1, 2, Status::Terminated);
        assert_eq!(
            (board.is_free(0), board.is_free(1), board.is_free(2), board.is_free(4)),
            (false, true, true, false)
        );
        assert_eq!(board.reserve(Some(0)), None, "the running session is left alone");
        assert_eq!(board.bound(0).unwrap().session, SessionId::from_u128(1));
        assert_eq!(board.reserve(None), Some(1));
        assert_eq!(board.reserve(None), Some(2), "a slot is given to one spawn only");
        assert_eq!(board.reserve(None), Some(3));
        assert_eq!(board.reserve(None), None);
        board.release(2);
        assert_eq!(board.reserve(None), Some(2));
    }

    #[test]
    fn a_session_that_was_not_read_yet_is_not_thought_to_have_ended() {
        let mut board = Board::default();
        board.bind(0, &summary(1, Status::Terminated), How::Bound);
        assert!(!board.is_free(0));
    }

    #[test]
    fn active_sessions_fill_empty_slots_first_and_then_those_that_are_done() {
        let mut board = Board::default();
        put(&mut board, 0, 1, Status::Terminated);
        put(&mut board, 1, 2, Status::Active);
        put(&mut board, 2, 3, Status::Idle);
        let active: Vec<Summary> = [9, 8, 3].map(|number| summary(number, Status::Idle)).into();
        let filled: Vec<_> = board.fill(&active).into_iter().map(|(slot, one)| (slot, one.session)).collect();
        assert_eq!(filled, [(3, SessionId::from_u128(9)), (0, SessionId::from_u128(8))]);
        let ended = [summary(9, Status::Error), Summary { archived: true, ..summary(8, Status::Idle) }];
        assert_eq!(board.fill(&ended), []);
        assert_eq!(board.reserve(Some(3)), Some(3));
        assert_eq!(board.fill(&active), [], "what is being spawned belongs into its own slot");
    }

    #[test]
    fn what_the_owner_takes_out_does_not_come_back_by_itself() {
        let mut board = Board::default();
        put(&mut board, 0, 1, Status::Idle);
        let follower = board.bound(0).unwrap().follower.clone();
        assert_eq!(board.take_out(0), Ok(SessionId::from_u128(1)));
        assert!(follower.is_cancelled());
        assert_eq!(board.fill(&[summary(1, Status::Idle)]), []);
        assert_eq!(board.take_out(0).unwrap_err().code, RefusalCode::NotFound);
        assert_eq!(board.take_out(9).unwrap_err().code, RefusalCode::NotFound);
        board.bind(2, &summary(1, Status::Idle), How::Bound);
        assert_eq!(board.slot_of(SessionId::from_u128(1)), Some(2), "but it can be put in again");
    }

    #[test]
    fn a_session_is_in_one_slot_only() {
        let mut board = Board::default();
        put(&mut board, 0, 1, Status::Idle);
        put(&mut board, 3, 1, Status::Idle);
        assert!(board.bound(0).is_none());
        assert_eq!(board.slot_of(SessionId::from_u128(1)), Some(3));
        let press = |agent: &str| board.route(&Address { agent: Some(agent.into()), slot: Some(0) });
        assert_eq!((press("demo-3 shop"), press("demo-0 shop")), (Some(3), None));
    }

    // covers: 000-071, 000-097
    #[test]
    fn after_its_process_has_ended_a_slot_is_done_and_free_again() {
        let mut board = Board::default();
        put(&mut board, 0, 1, Status::Idle);
        let exit = Exit {
            reason: ExitReason::Failed,
            code: Some(3),
            signal: None,
            message: "exit code 3".into(),
            stderr: String::new(),
        };
        let event = Event::AgentExited { generation: portolan_core::Generation(1), exit };
        let entry = Seen {
            seq: portolan_core::Seq(9),
            at: Millis(1),
            by: None,
            event: std::borrow::Cow::Owned(event),
        };
        assert!(board.kept()[0].as_ref().unwrap().live);
        board.apply(0, SessionId::from_u128(1), &entry);
        let status = board.slots(Millis(1))[0].status.clone();
        assert_eq!(
            (status.state, status.active, status.message.as_str(), status.prompt_tool_type),
            (SlotState::Done, false, "Ended: exit code 3", None)
        );
        assert!(board.is_free(0));
        assert!(!board.kept()[0].as_ref().unwrap().live);
    }
}
