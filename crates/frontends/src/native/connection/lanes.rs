//! Lanes: what is asked about one session is answered in the order it was asked; lanes do not wait for each other.
//!
//! So two prompts never swap places, and a slow look at all agents does not hold up an approval. Pure.

use std::collections::VecDeque;

use portolan_core::SessionId;

use portolan_protocol::{Call, ClientFrame};

/// Frames of one connection that are being answered or wait for it. A client that asks faster is not read until
/// some are answered, and its network pushes back.
pub(crate) const IN_FLIGHT: usize = 32;

/// What must keep its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// One session.
    Session(SessionId),
    /// The daemon: lists, new sessions, tokens, its log.
    Daemon,
    /// Looking at agents, their accounts, what they have kept and files: it can take minutes.
    Agents,
}

impl Lane {
    /// The lane a frame belongs to.
    pub(crate) fn of(frame: &ClientFrame) -> Self {
        match (frame.call.session(), &frame.call) {
            // A walk through a large folder must not hold up an approval.
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
    /// One more frame may be taken in.
    pub(crate) fn has_room(&self) -> bool {
        self.busy.len() + self.waiting.len() < IN_FLIGHT
    }

    /// Nothing is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Takes a frame in. Gives it back where it can be answered now; [`Lanes::done`] must follow.
    pub(crate) fn enter(&mut self, frame: ClientFrame) -> Option<(Lane, ClientFrame)> {
        let lane = Lane::of(&frame);
        if self.busy.contains(&lane) {
            self.waiting.push_back(frame);
            return None;
        }
        self.busy.push(lane);
        Some((lane, frame))
    }

    /// A frame of this lane is answered. Gives the next one in it, which can be answered now.
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
