//! What the demo agent reports about itself.

use indexmap::IndexMap;
use portolan_core::{
    SessionSpec,
    event::{Account, AgentInfo, Level, McpServer},
};

use super::{permit, stage::Stage};
use crate::demo::{
    MODES, commands, models,
    wire::{self, FromAgent},
};

/// The simulated MCP servers, and those that the session named.
pub(super) fn servers(spec: &SessionSpec) -> IndexMap<String, McpServer> {
    let servers = [("harbour", "connected"), ("lighthouse", "connected"), ("wreck", "failed")];
    let server = |(name, status): (&str, &str)| {
        let error = (status == "failed").then(|| "nobody answers there".to_owned());
        let tools = vec![format!("{name}_look"), format!("{name}_ask")];
        let server =
            McpServer { name: name.into(), status: status.into(), error, tools, scope: Some("demo".into()) };
        (name.to_owned(), server)
    };
    let mut servers: IndexMap<_, _> = servers.into_iter().map(server).collect();
    servers.extend(spec.mcp_servers.keys().map(|name| (name.clone(), asked_server(name))));
    servers
}

/// An MCP server that a session named.
pub(super) fn asked_server(name: &str) -> McpServer {
    McpServer {
        name: name.into(),
        status: "connected".into(),
        error: None,
        tools: vec![format!("{name}_look")],
        scope: Some("session".into()),
    }
}

impl Stage {
    /// Describes itself.
    pub(super) fn introduce(&self) {
        let info = self.with(|inner| AgentInfo {
            agent_session: Some(inner.session.clone()),
            version: Some(env!("CARGO_PKG_VERSION").into()),
            cwd: Some(wire::folder(&inner.spec)),
            model: Some(inner.model.clone()),
            mode: Some(inner.mode.clone()),
            tools: Some(permit::offered(&inner.spec.disallowed_tools)),
            mcp_servers: Some(inner.servers.values().cloned().collect()),
            commands: Some(commands()),
            models: Some(models()),
            modes: Some(MODES.map(Into::into).to_vec()),
            account: Some(Account { subscription: Some("none needed".into()), ..Account::default() }),
            subagents: Some(
                ["scout".into(), "scribe".into()]
                    .into_iter()
                    .chain(inner.spec.subagents.keys().cloned())
                    .collect(),
            ),
            output_style: Some("plain".into()),
            ..AgentInfo::default()
        });
        self.emit(&FromAgent::Ready { info: Box::new(info) });
        if let Some(resume) = self.with(|inner| inner.resumed.take()) {
            let at = resume.at.map(|at| format!(", up to message {at}")).unwrap_or_default();
            let how = if resume.fork { "A copy of" } else { "Back in" };
            let text =
                format!("{how} conversation {}{at}. (The demo keeps no memory of it.)", resume.session);
            self.notice(Level::Info, &text);
        }
        self.flush();
    }
}
