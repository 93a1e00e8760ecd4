//! Readers: what a frontend holds while a client reads a session or the daemon's log.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use super::DaemonState;
use crate::{
    DaemonEvent, Event, Millis, Principal, Role, Seq, SessionId,
    log::{
        cursor::Cursor,
        delivery::{Delivery, Piece, Presence, Snapshot},
        snapshot_frame,
    },
    session::{state::State, task::Handle},
};

/// A reader's place in a session's log. Dropping the reader leaves the session.
pub struct SessionReader {
    cursor: Cursor<State>,
    present: watch::Receiver<Arc<Vec<Presence>>>,
    seat: Seat,
}

impl fmt::Debug for SessionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl SessionReader {
    pub(super) fn new(cursor: Cursor<State>, handle: Arc<Handle>, who: &Principal, now: Millis) -> Self {
        let seat = Seat::take(handle, who, now);
        let mut present = seat.handle.presence.subscribe();
        present.mark_changed();
        Self { cursor, present, seat }
    }

    /// Waits for the next delivery. Cancel-safe.
    pub async fn next(&mut self) -> Delivery<Event, State> {
        tokio::select! {
            biased;
            // The sender lives in the handle that the seat holds.
            Ok(()) = self.present.changed() => Delivery::Presence(self.present.borrow_and_update().clone()),
            delivery = self.cursor.next() => delivery,
        }
    }

    /// Everything up to here was delivered.
    pub fn last(&self) -> Seq {
        self.cursor.last()
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.seat.handle.id
    }
}

/// One reader's place among those present.
struct Seat {
    handle: Arc<Handle>,
    presence: Presence,
}

impl Seat {
    fn take(handle: Arc<Handle>, who: &Principal, since: Millis) -> Self {
        let presence = Presence {
            token: who.token.clone(),
            name: who.name.clone(),
            role: who.role,
            via: who.via.clone(),
            since,
        };
        handle.presence.send_modify(|present| Arc::make_mut(present).push(presence.clone()));
        Self { handle, presence }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.handle.presence.send_modify(|present| {
            // Two readers of one token may look equal; either may be removed.
            if let Some(place) = present.iter().position(|seat| *seat == self.presence) {
                Arc::make_mut(present).remove(place);
            }
        });
    }
}

/// A reader's place in the daemon's log.
#[derive(Debug)]
pub struct DaemonReader {
    cursor: Cursor<DaemonState>,
    who: Principal,
}

impl DaemonReader {
    pub(super) fn new(cursor: Cursor<DaemonState>, who: Principal) -> Self {
        Self { cursor, who }
    }

    /// Waits for the next delivery, without entries that the reader may not see. Cancel-safe.
    pub async fn next(&mut self) -> Delivery<DaemonEvent, DaemonState> {
        loop {
            match self.cursor.next().await {
                Delivery::Entries(mut pieces) => {
                    pieces.retain(|piece| self.sees(piece));
                    if !pieces.is_empty() {
                        return Delivery::Entries(pieces);
                    }
                }
                Delivery::Snapshot(snapshot) if self.who.sessions.is_some() => {
                    return Delivery::Snapshot(self.narrowed(&snapshot));
                }
                other => return other,
            }
        }
    }

    fn sees(&self, piece: &Piece<DaemonEvent>) -> bool {
        let Ok(entry) = piece.entry() else { return self.who.role == Role::Owner };
        match &*entry.event {
            DaemonEvent::Started { .. } | DaemonEvent::Stopping => true,
            DaemonEvent::SessionCreated { summary } | DaemonEvent::SessionChanged { summary } => {
                self.who.sees(summary.session)
            }
            DaemonEvent::SessionDeleted { session }
            | DaemonEvent::RequestOpened { session, .. }
            | DaemonEvent::RequestDeadline { session, .. }
            | DaemonEvent::RequestClosed { session, .. } => self.who.sees(*session),
            DaemonEvent::RuleSaved { .. }
            | DaemonEvent::RuleRemoved { .. }
            | DaemonEvent::BudgetSaved { .. }
            | DaemonEvent::BudgetRemoved { .. } => self.who.may_daemon(Role::Viewer).is_ok(),
            DaemonEvent::TokenCreated { .. }
            | DaemonEvent::TokenRevoked { .. }
            | DaemonEvent::TokenRotated { .. }
            | DaemonEvent::DoorOpened { .. }
            | DaemonEvent::LoggedIn { .. }
            | DaemonEvent::LoggedOut { .. }
            | DaemonEvent::AccessRefused { .. }
            | DaemonEvent::AutoApproval { .. }
            | DaemonEvent::AccountChanged { .. } => self.who.may_daemon(Role::Owner).is_ok(),
        }
    }

    fn narrowed(&self, snapshot: &Snapshot<DaemonState>) -> Snapshot<DaemonState> {
        let mut state = (*snapshot.state).clone();
        state.sessions.retain(|summary| self.who.sees(summary.session));
        state.requests.retain(|waiting| self.who.sees(waiting.session));
        state.rules.clear();
        state.budgets.clear();
        let frame = snapshot_frame(crate::LogId::Daemon, snapshot.seq, &state);
        Snapshot { seq: snapshot.seq, state: Arc::new(state), frame }
    }
}
