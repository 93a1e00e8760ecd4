//! The agents, and the results of their checks.

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
    /// The agent's kind, such as `demo`.
    pub kind: String,
    /// The agent's name for people.
    pub title: String,
    /// What the agent supports.
    pub capabilities: Capabilities,
    /// The result of the last check; absent before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub probe: Option<Probe>,
}

impl Registry {
    /// All agents.
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

    /// The agents as `who` may see them: a token bound to sessions sees the agent kinds, but not the programs and
    /// logins on this machine.
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
                    transport: None,
                    login: None,
                };
            }
        }
        agents
    }

    /// Checks every agent; [`Registry::agents`] shows the results from then on.
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
        Refusal::new(
            RefusalCode::NotFound,
            format!("unknown agent `{kind}`; use one of {}", known.join(", ")),
        )
    }

    /// How many agents run, and how many may run at once; `None` means unlimited.
    pub fn agents_running(&self) -> (usize, Option<usize>) {
        (self.shared.crew.running(), self.shared.crew.limit())
    }
}
