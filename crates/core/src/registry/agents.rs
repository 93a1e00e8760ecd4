//! The agents there are, and what a look at them found.

use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use super::Registry;
use crate::{
    Capabilities, Principal, Refusal, RefusalCode, Role,
    ports::{Agent, Probe},
};

/// An agent as frontends list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AgentDescription {
    /// Its kind, such as `demo`.
    pub kind: String,
    /// What people call it.
    pub title: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What a look at it found; absent while nobody has looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub probe: Option<Probe>,
}

impl Registry {
    /// The agents there are.
    pub fn agents(&self) -> Vec<AgentDescription> {
        let probes = self.shared.probes.lock().unwrap_or_else(PoisonError::into_inner);
        let describe = |agent: &Arc<dyn Agent>| AgentDescription {
            kind: agent.kind().to_owned(),
            title: agent.title(),
            capabilities: agent.capabilities(),
            probe: probes.get(agent.kind()).cloned(),
        };
        self.shared.agents.iter().map(describe).collect()
    }

    /// The agents there are, as `who` may see them: someone bound to sessions learns which can be had, and nothing of the
    /// programs and logins on this machine.
    pub fn agents_for(&self, who: &Principal) -> Vec<AgentDescription> {
        let mut agents = self.agents();
        if who.may_daemon(Role::Viewer).is_err() {
            for probe in agents.iter_mut().filter_map(|agent| agent.probe.as_mut()) {
                let message = if probe.available { "can be started" } else { "cannot be started" };
                *probe = Probe {
                    available: probe.available,
                    version: probe.version.take(),
                    message: message.into(),
                    program: None,
                    road: None,
                    login: None,
                };
            }
        }
        agents
    }

    /// Looks at every agent; [`Registry::agents`] tells what was found from then on.
    pub async fn probe(&self) -> Vec<AgentDescription> {
        for agent in &self.shared.agents {
            let probe = agent.probe().await;
            let mut probes = self.shared.probes.lock().unwrap_or_else(PoisonError::into_inner);
            probes.insert(agent.kind().to_owned(), probe);
        }
        self.agents()
    }

    pub(super) fn agent(&self, kind: &str) -> Option<&Arc<dyn Agent>> {
        self.shared.agents.iter().find(|agent| agent.kind() == kind)
    }

    pub(super) fn no_agent(&self, kind: &str) -> Refusal {
        let known: Vec<_> = self.shared.agents.iter().map(|agent| agent.kind()).collect();
        Refusal::new(RefusalCode::NotFound, format!("unknown agent `{kind}`; there is {}", known.join(", ")))
    }

    /// How many agents run, and how many may at once; `None` is any number.
    pub fn agents_running(&self) -> (usize, Option<usize>) {
        (self.shared.crew.running(), self.shared.crew.limit())
    }
}
