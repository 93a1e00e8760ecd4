//! The status of a session and the capabilities of its agent, at every change.
//!
//! Lists are updated once per batch of entries and may miss a short-lived state. News come from the log itself, entry
//! by entry, so that no state is missed.

use std::collections::VecDeque;

use portolan_core::{
    Capabilities, Refusal,
    log::{Folded as _, delivery::Delivery},
    registry::SessionReader,
    session::state::State,
};

use crate::{BridgeStatus, Told, entries::closed};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The new status.
    Status(BridgeStatus),
    /// The new capabilities of the agent.
    Capabilities(Box<Capabilities>),
}

/// The news of a session. Dropping this value leaves the session.
#[derive(Debug)]
pub struct News {
    reader: SessionReader,
    state: Option<State>,
    status: Option<BridgeStatus>,
    capabilities: Option<Capabilities>,
    waiting: VecDeque<Item>,
}

impl News {
    pub(crate) fn new(reader: SessionReader) -> Self {
        Self { reader, state: None, status: None, capabilities: None, waiting: VecDeque::new() }
    }

    /// The next change; first the current values. `None` if the session was deleted or Portolan stops. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Item>, Refusal> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Ok(Some(item));
            }
            match self.reader.next().await {
                Delivery::Snapshot(snapshot) => {
                    self.state = Some((*snapshot.state).clone());
                    self.compare();
                }
                Delivery::Entries(pieces) => {
                    for piece in &pieces {
                        let told = Told::read(piece)?;
                        // The first snapshot contains all entries before it.
                        let Some(state) = &mut self.state else { continue };
                        state.apply(told.seq, told.at, told.by.as_ref(), &told.event);
                        self.compare();
                    }
                }
                Delivery::Presence(_) => {}
                Delivery::Closed(why) => return closed(why),
            }
        }
    }

    /// Returns the values that have changed since the last call.
    fn compare(&mut self) {
        let Some(state) = &self.state else { return };
        let status = BridgeStatus::from(&state.summary);
        if self.status.as_ref() != Some(&status) {
            self.waiting.push_back(Item::Status(status.clone()));
            self.status = Some(status);
        }
        if self.capabilities.as_ref() != Some(&state.capabilities) {
            self.waiting.push_back(Item::Capabilities(Box::new(state.capabilities.clone())));
            self.capabilities = Some(state.capabilities.clone());
        }
    }
}
