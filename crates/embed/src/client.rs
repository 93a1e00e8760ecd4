//! A client inside the program: who asks, and the sessions they may have.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use portolan_core::{
    CommandId, Principal, Refusal, RefusalCode, Role, SessionId, SessionSpec, TokenId,
    log::delivery::Start,
    ports::SessionQuery,
    registry::{AgentDescription, Registry},
    session::state::Summary,
};

use crate::{Changes, Session};

/// How long [`Client::start`] waits for an agent to be there: as long as the driver of agents' processes waits itself.
pub const CONNECTED_WITHIN: Duration = portolan_agents::READY;

/// Somebody who uses sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    registry: Registry,
    who: Principal,
    /// The session that was chosen last; clones share it.
    chosen: Arc<Mutex<Option<SessionId>>>,
}

impl Client {
    /// As `who`: what they may do is checked at every call.
    pub fn new(registry: Registry, who: Principal) -> Self {
        Self { registry, who, chosen: Arc::default() }
    }

    pub(crate) fn owner(registry: Registry, name: &str) -> Self {
        let who = Principal {
            token: TokenId::random(),
            name: name.to_owned(),
            role: Role::Owner,
            sessions: None,
            via: "embed".to_owned(),
        };
        Self::new(registry, who)
    }

    /// Makes a session and starts its agent. It is the active one from now on.
    pub async fn create(&self, spec: SessionSpec) -> Result<Session, Refusal> {
        let summary = self.registry.create(&self.who, CommandId::random(), spec).await?;
        *self.chosen() = Some(summary.session);
        Ok(self.session(summary.session))
    }

    /// Makes a session and returns it when its agent is connected. The first prompt is in the spec. Where no agent is
    /// there within [`CONNECTED_WITHIN`], it is ended and this refuses; the log of what happened stays.
    pub async fn start(&self, spec: SessionSpec) -> Result<Session, Refusal> {
        self.start_within(spec, CONNECTED_WITHIN).await
    }

    /// The same with a patience of one's own.
    pub async fn start_within(&self, spec: SessionSpec, patience: Duration) -> Result<Session, Refusal> {
        let session = self.create(spec).await?;
        let Ok(known) = tokio::time::timeout(patience, session.info()).await else {
            session.close().await?;
            let message = format!("the agent was not connected within {} s", patience.as_secs_f32());
            return Err(Refusal::new(RefusalCode::NotRunning, message));
        };
        known?;
        if !session.status().await?.is_connected() {
            return Err(Refusal::new(RefusalCode::NotRunning, "the agent has ended before it was connected"));
        }
        Ok(session)
    }

    /// Makes this session the active one: only what [`Client::active`] gives where a program names none.
    pub async fn set_active(&self, session: SessionId) -> Result<(), Refusal> {
        self.registry.snapshot(&self.who, session).await?;
        *self.chosen() = Some(session);
        Ok(())
    }

    /// The session to use where none is named: the one made or chosen last while its agent lives or is asleep, then the
    /// newest of which that is so. Never one that this client may not see.
    pub async fn active(&self) -> Result<Option<Session>, Refusal> {
        let chosen = *self.chosen();
        if let Some(session) = chosen
            && let Ok(snapshot) = self.registry.snapshot(&self.who, session).await
            && snapshot.state.summary.is_open()
        {
            return Ok(Some(self.session(session)));
        }
        let all = SessionQuery { archived: None, live: false, before: None, limit: u32::MAX };
        let all = self.registry.list(&self.who, all).await?;
        Ok(all.iter().find(|summary| summary.is_open()).map(|summary| self.session(summary.session)))
    }

    fn chosen(&self) -> MutexGuard<'_, Option<SessionId>> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with this id. Nothing is looked up: one that is not there refuses what is asked of it.
    pub fn session(&self, session: SessionId) -> Session {
        Session::new(self.registry.clone(), self.who.clone(), session)
    }

    /// Sessions, newest first, at most 1,000.
    pub async fn sessions(&self) -> Result<Vec<Summary>, Refusal> {
        let all = SessionQuery { archived: None, live: false, before: None, limit: u32::MAX };
        self.registry.list(&self.who, all).await
    }

    /// Deletes a session and its log for good.
    pub async fn delete(&self, session: SessionId) -> Result<(), Refusal> {
        self.registry.delete(&self.who, session).await
    }

    /// The agents there are.
    pub fn agents(&self) -> Vec<AgentDescription> {
        self.registry.agents_for(&self.who)
    }

    /// What happens to all sessions, from now on: made, changed, deleted; requests opened and closed.
    pub async fn changes(&self) -> Result<Changes, Refusal> {
        Ok(Changes::new(self.registry.watch(&self.who, Start::Tail(0)).await?))
    }
}
