//! Lanes: calls about one session are answered in their order; lanes do not wait for each other.
//!
//! So two prompts never change their order, and a slow probe of all agents does not delay an approval. Pure.

use std::collections::VecDeque;

use portolan_core::SessionId;

use portolan_protocol::{Call, ClientFrame};

/// How many frames of one connection may be unanswered. A faster client is not read until some frames are answered, and
/// the network applies backpressure.
pub(crate) const IN_FLIGHT: usize = 32;

/// A group of frames that must keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// One session.
    Session(SessionId),
    /// The daemon: lists, new sessions, tokens, its log.
    Daemon,
    /// Checks of agents and accounts, past conversations and files: these can take minutes.
    Agents,
}

impl Lane {
    /// The lane a frame belongs to.
    pub(crate) fn of(frame: &ClientFrame) -> Self {
        match (frame.call.session(), &frame.call) {
            // A walk through a large folder must not delay an approval.
            (_, Call::Files { .. }) => Self::Agents,
            (Some(session), _) => Self::Session(session),
            (
                None,
                Call::Agents { .. }
                | Call::Past { .. }
                | Call::ArchivePast(_)
                | Call::TakeUp { .. }
                | Call::Account { .. }
                | Call::LogIn { .. }
                | Call::LogOut { .. },
            ) => Self::Agents,
            (None, _) => Self::Daemon,
        }
    }
}

/// The lanes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    busy: Vec<Lane>,
    waiting: VecDeque<ClientFrame>,
}

impl Lanes {
    /// Whether one more frame may be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.busy.len() + self.waiting.len() < IN_FLIGHT
    }

    /// Whether no frame is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Accepts a frame. Returns the frame if it can be answered now; [`Lanes::done`] must follow.
    pub(crate) fn enter(&mut self, frame: ClientFrame) -> Option<(Lane, ClientFrame)> {
        let lane = Lane::of(&frame);
        if self.busy.contains(&lane) {
            self.waiting.push_back(frame);
            return None;
        }
        self.busy.push(lane);
        Some((lane, frame))
    }

    /// A frame of this lane is answered. Returns the next frame of the lane, which can be answered now.
    pub(crate) fn done(&mut self, lane: Lane) -> Option<(Lane, ClientFrame)> {
        if let Some(next) = self.waiting.iter().position(|frame| Lane::of(frame) == lane) {
            return self.waiting.remove(next).map(|frame| (lane, frame));
        }
        self.busy.retain(|busy| *busy != lane);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(id: &str, session: u128) -> ClientFrame {
        ClientFrame { id: id.parse().unwrap(), call: Call::State { session: SessionId::from_u128(session) } }
    }

    fn id(entered: Option<(Lane, ClientFrame)>) -> Option<String> {
        entered.map(|(_, frame)| frame.id.to_string())
    }

    #[test]
    fn what_is_asked_of_one_session_keeps_its_order_and_others_do_not_wait_for_it() {
        let mut lanes = Lanes::default();
        assert_eq!(id(lanes.enter(state("a1", 1))), Some("a1".into()));
        assert_eq!(id(lanes.enter(state("a2", 1))), None);
        assert_eq!(id(lanes.enter(state("a3", 1))), None);
        assert_eq!(id(lanes.enter(state("b1", 2))), Some("b1".into()));
        let first = Lane::Session(SessionId::from_u128(1));
        assert_eq!(id(lanes.done(first)), Some("a2".into()));
        assert_eq!(id(lanes.done(first)), Some("a3".into()));
        assert_eq!(id(lanes.done(first)), None);
        assert_eq!(id(lanes.enter(state("a4", 1))), Some("a4".into()));
    }

    #[test]
    fn a_look_at_files_holds_up_nothing_of_its_session() {
        let mut lanes = Lanes::default();
        let (session, query) = (SessionId::from_u128(1), String::new());
        let files = ClientFrame::new(Call::Files { session, query, limit: None });
        assert_eq!(lanes.enter(files).map(|(lane, _)| lane), Some(Lane::Agents));
        assert_eq!(id(lanes.enter(state("a1", 1))), Some("a1".into()));
    }

    #[test]
    fn an_account_that_takes_long_holds_up_neither_lists_nor_signs_of_life() {
        let mut lanes = Lanes::default();
        let entered = lanes.enter(ClientFrame::new(Call::Account { agent: "codex".into() }));
        assert_eq!(entered.map(|(lane, _)| lane), Some(Lane::Agents));
        let entered = lanes.enter(ClientFrame::new(Call::Ping));
        assert_eq!(entered.map(|(lane, _)| lane), Some(Lane::Daemon));
    }

    #[test]
    fn no_more_than_the_limit_is_taken_in() {
        let mut lanes = Lanes::default();
        for _ in 0..IN_FLIGHT {
            assert!(lanes.has_room());
            lanes.enter(state("a", 1));
        }
        assert!(!lanes.has_room() && !lanes.is_idle());
        lanes.done(Lane::Session(SessionId::from_u128(1)));
        assert!(lanes.has_room());
    }
}
