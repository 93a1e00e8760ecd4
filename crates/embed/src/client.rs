//! A client inside the program: its identity, and its sessions.

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

/// How long [`Client::start`] waits for an agent: as long as the driver of agent processes waits.
pub const CONNECTED_WITHIN: Duration = portolan_agents::READY;

/// A user of sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    registry: Registry,
    who: Principal,
    /// The session that was selected last; clones share it.
    chosen: Arc<Mutex<Option<SessionId>>>,
}

impl Client {
    /// A client for `who`, whose rights are checked at every call.
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

    /// Creates a session and starts its agent. The new session becomes the active one.
    pub async fn create(&self, spec: SessionSpec) -> Result<Session, Refusal> {
        let summary = self.registry.create(&self.who, CommandId::random(), spec).await?;
        *self.chosen() = Some(summary.session);
        Ok(self.session(summary.session))
    }

    /// Creates a session and returns it when its agent is connected. The spec contains the first prompt. If the agent
    /// is not connected within [`CONNECTED_WITHIN`], the agent is ended and this call fails; the log of the session
    /// stays.
    pub async fn start(&self, spec: SessionSpec) -> Result<Session, Refusal> {
        self.start_within(spec, CONNECTED_WITHIN).await
    }

    /// The same with another timeout.
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

    /// Makes this session the active one: [`Client::active`] returns it to a program that names no session.
    pub async fn set_active(&self, session: SessionId) -> Result<(), Refusal> {
        self.registry.snapshot(&self.who, session).await?;
        *self.chosen() = Some(session);
        Ok(())
    }

    /// The session to use if none is named: the session that was created or selected last, while its agent runs or is
    /// asleep; otherwise the newest such session. Never a session that this client may not see.
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

    /// The session with this id. This call looks nothing up: commands to a session that does not exist are refused.
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

    /// The agents.
    pub fn agents(&self) -> Vec<AgentDescription> {
        self.registry.agents_for(&self.who)
    }

    /// New events of all sessions: created, changed, deleted; requests opened and closed.
    pub async fn changes(&self) -> Result<Changes, Refusal> {
        Ok(Changes::new(self.registry.watch(&self.who, Start::Tail(0)).await?))
    }
}
