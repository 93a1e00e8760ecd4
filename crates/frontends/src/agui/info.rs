//! The list of agents. A page that requests an unlisted agent breaks, so `default` is always listed.

use portolan_core::{Principal, Refusal, registry::AgentDescription};
use serde_json::{Map, Value, json};

use super::{Agui, DEFAULT_AGENT};

impl Agui {
    /// The agents, in the protocol's form.
    pub(super) async fn info(&self, who: &Principal) -> Result<Value, Refusal> {
        let known = self.registry.agents();
        let active = self.threads.active(&self.registry, who).await?;
        let chosen = active.map_or_else(|| self.settings.agent.clone(), |active| active.agent);
        let mut agents = Map::new();
        let default = known.iter().find(|agent| agent.kind == chosen);
        agents.insert(DEFAULT_AGENT.into(), self.describe(DEFAULT_AGENT, &chosen, default));
        for agent in known.iter().filter(|agent| is_here(agent)) {
            agents.insert(agent.kind.clone(), self.describe(&agent.kind, &agent.kind, Some(agent)));
        }
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "agents": agents,
            "mode": "sse",
            "audioFileTranscriptionEnabled": false,
            "a2uiEnabled": false,
            "openGenerativeUIEnabled": false,
            "telemetryDisabled": true,
        }))
    }

    fn describe(&self, id: &str, kind: &str, agent: Option<&AgentDescription>) -> Value {
        let title = agent.map_or(kind, |agent| agent.title.as_str());
        let description =
            if id == DEFAULT_AGENT { format!("{title}, by Portolan") } else { title.to_owned() };
        let can = agent.map(|agent| &agent.capabilities);
        json!({
            "name": id,
            "description": description,
            "className": "PortolanAgent",
            "capabilities": {
                "identity": {"name": title, "type": kind},
                "transport": {"streaming": can.is_none_or(|can| can.streaming)},
                "tools": {"supported": true, "clientProvided": can.is_some_and(|can| self.tools.can_reach(can))},
                "state": {"snapshots": true},
                "reasoning": {"supported": true, "streaming": true},
                "humanInTheLoop": {"supported": true, "approvals": true, "interrupts": true},
                "multimodal": {"input": {"image": can.is_some_and(|can| can.image_input)}},
            },
        })
    }

    /// Can a client request this agent?
    pub(super) fn knows(&self, agent: &str) -> bool {
        agent == DEFAULT_AGENT || self.registry.agents().iter().any(|known| known.kind == agent)
    }
}

/// An agent that was not checked yet may be installed.
fn is_here(agent: &AgentDescription) -> bool {
    agent.probe.as_ref().is_none_or(|probe| probe.available)
}
