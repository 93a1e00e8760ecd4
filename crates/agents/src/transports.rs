//! Transports: an agent is reached by its own protocol, otherwise over ACP. If a transport cannot be used, the next one is, and
//! both the session and the probe report it.

use std::sync::Arc;

use portolan_core::{
    delegates_agent,
    ports::{Agent, AgentLink, Boxed, Launch, Means, Probe, Transport},
};

use crate::{Supervision, acp::Acp, driver};

/// An agent with its own protocol.
pub trait OwnProtocol: Agent + Clone + 'static {
    /// Why it cannot be used, if it cannot.
    fn unusable(&self) -> impl Future<Output = Option<String>> + Send;

    /// What to start and how to talk to it.
    fn prepare(&self, launch: Launch) -> impl Future<Output = driver::Job> + Send;

    /// The supervision of its process.
    fn supervision(&self) -> Arc<Supervision>;
}

/// An agent by its own protocol, otherwise over ACP.
#[derive(Clone, Debug)]
pub struct WithFallback<A> {
    own: A,
    acp: Acp,
}

impl<A: OwnProtocol> WithFallback<A> {
    /// The first transport, then the second.
    pub fn new(own: A, acp: Acp) -> Self {
        Self { own, acp }
    }

    /// Why the second transport is used, if it is.
    async fn detour(&self) -> Option<String> {
        let why = self.own.unusable().await?;
        // If no transport works, the first one reports what is missing.
        self.acp.is_here().then_some(why)
    }

    async fn prepare(self, launch: Launch) -> (driver::Job, Arc<Supervision>) {
        match self.detour().await {
            None => (self.own.prepare(launch).await, self.own.supervision()),
            Some(why) => {
                let notice = format!("{why}. Portolan uses ACP instead, through `{}`", self.acp.kind());
                (self.acp.prepare(launch, Some(notice)).await, self.acp.supervision())
            }
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is missing here is not passed on")]
impl<A: OwnProtocol> Agent for WithFallback<A> {
    delegates_agent!(own: kind, title, capabilities, environment, rule_for, past, account, rejoin);

    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        self.own.asks_nothing(means).or_else(|| self.acp.asks_nothing(means))
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            let own = self.own.probe().await;
            if own.available {
                return own;
            }
            let acp = self.acp.probe().await;
            if !acp.available {
                return own;
            }
            let why = format!("the agent's own protocol cannot be used: {}", own.message);
            let transport = Some(Transport { name: format!("acp, by {}", self.acp.kind()), why });
            Probe {
                transport,
                message: format!("{}; Portolan instead uses {}", own.message, acp.message),
                ..acp
            }
        })
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let session = launch.session;
        driver::start_supervised(self.own.kind(), session, self.clone().prepare(launch))
    }
}
