//! A client inside the program: who asks, and the sessions they may have.

use portolan_core::{
    CommandId, Principal, Refusal, Role, SessionId, SessionSpec, TokenId,
    log::delivery::Start,
    ports::SessionQuery,
    registry::{AgentDescription, Registry},
    session::state::Summary,
};

use crate::{Changes, Session};

/// Somebody who uses sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    registry: Registry,
    who: Principal,
}

impl Client {
    /// As `who`: what they may do is checked at every call.
    pub fn new(registry: Registry, who: Principal) -> Self {
        Self { registry, who }
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

    /// Makes a session and starts its agent.
    pub async fn create(&self, spec: SessionSpec) -> Result<Session, Refusal> {
        let summary = self.registry.create(&self.who, CommandId::random(), spec).await?;
        Ok(self.session(summary.session))
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
        self.registry.agents()
    }

    /// What happens to all sessions, from now on: made, changed, deleted; requests opened and closed.
    pub async fn changes(&self) -> Result<Changes, Refusal> {
        Ok(Changes::new(self.registry.watch(&self.who, Start::Tail(0)).await?))
    }
}
