//! All orders to the demo agent beside a conversation: settings, MCP servers, rewind, context.

use std::time::Duration;

use indexmap::IndexMap;
use portolan_core::{
    Event,
    event::{McpServer, Task, TaskStatus},
    usage::DEFAULT_CONTEXT_WINDOW,
};
use serde_json::{Value, json};

use super::{about::asked_server, mcp::Server, stage::Stage};
use crate::demo::{
    MODES, models,
    wire::{FromAgent, ToAgent},
};

/// The result, or why there is none.
type Done = Result<Option<Value>, String>;

/// Carries out an order, and confirms it. Portolan itself reports a setting that was changed by an order; the agent
/// reports only its own changes.
pub(super) async fn carry_out(stage: &Stage, control: ToAgent) {
    let (id, done) = match control {
        ToAgent::SetModel { id, model } => (id, set_model(stage, model)),
        ToAgent::SetMode { id, mode } => (id, set_mode(stage, mode)),
        ToAgent::SetThinking { id, tokens } => {
            stage.with(|inner| inner.thinking = tokens);
            (id, Ok(None))
        }
        ToAgent::SetEnvironment { id, variables } => {
            let pace = variables.get("DEMO_PACE_MS").and_then(|text| text.parse().ok());
            if let Some(pace) = pace {
                stage.set_pace(Duration::from_millis(pace));
            }
            stage.with(|inner| inner.environment.extend(variables));
            (id, Ok(None))
        }
        ToAgent::Rewind { id, prompt, dry_run } => (id, rewind(stage, prompt, dry_run)),
        ToAgent::McpStatus { id } => (id, Ok(Some(servers(stage)))),
        ToAgent::McpReconnect { id, server } => {
            stage.reach_again(&server).await;
            let is_real = stage.with(|inner| inner.reached.contains_key(&server));
            let done = change(stage, &server, |server| {
                if !is_real {
                    (server.status, server.error) = ("connected".into(), None);
                }
            });
            (id, done)
        }
        ToAgent::McpToggle { id, server, enabled } => {
            let status = if enabled { "connected" } else { "disabled" };
            (id, change(stage, &server, |server| server.status = status.into()))
        }
        ToAgent::McpSet { id, servers: asked } => {
            stage.with(|inner| {
                inner.servers.retain(|_, server| server.scope.as_deref() != Some("session"));
                inner.servers.extend(asked.keys().map(|name| (name.clone(), asked_server(name))));
                inner.reached.clear();
            });
            stage.reach(&asked).await;
            (id, Ok(Some(servers(stage))))
        }
        ToAgent::McpMessage { id, server, message } => (id, mcp_message(stage, &server, &message)),
        ToAgent::Context { id } => (id, Ok(Some(context(stage)))),
        ToAgent::StopTask { id, task } => (id, stop_task(stage, &task)),
        ToAgent::Native { id, body } => (id, Ok(Some(json!({ "echo": body })))),
        // These orders belong to the conversation, and do not come here.
        ToAgent::Hello(_)
        | ToAgent::Prompt { .. }
        | ToAgent::Steer { .. }
        | ToAgent::Answer { .. }
        | ToAgent::Interrupt { .. }
        | ToAgent::Bye {} => return,
    };
    stage.emit(&match done {
        Ok(result) => FromAgent::Ack { id, result },
        Err(error) => FromAgent::Nack { id, error },
    });
}

fn set_model(stage: &Stage, model: Option<String>) -> Done {
    let known = models();
    let chosen = model.unwrap_or_else(|| known[0].id.clone());
    if !known.iter().any(|known| known.id == chosen) {
        let names: Vec<_> = known.into_iter().map(|model| model.id).collect();
        return Err(format!("there is no model `{chosen}`; there are {}", names.join(", ")));
    }
    stage.with(|inner| inner.model = chosen);
    Ok(None)
}

pub(super) fn set_mode(stage: &Stage, mode: String) -> Done {
    if !MODES.contains(&mode.as_str()) {
        return Err(format!("there is no mode `{mode}`; there are {}", MODES.join(", ")));
    }
    stage.with(|inner| inner.mode = mode);
    Ok(None)
}

fn rewind(stage: &Stage, prompt: u64, dry_run: bool) -> Done {
    let after: Vec<_> = stage.with(|inner| {
        inner.edits.iter().filter(|(at, _)| *at >= prompt).map(|(_, change)| change.clone()).collect()
    });
    if after.is_empty() {
        return Err("no file was changed since that prompt".into());
    }
    if !dry_run {
        stage.with(|inner| inner.edits.retain(|(at, _)| *at < prompt));
    }
    let mut paths: Vec<_> = after.iter().map(|change| change.path.clone()).collect();
    paths.dedup();
    Ok(Some(json!({ "files": paths, "dry_run": dry_run })))
}

fn servers(stage: &Stage) -> Value {
    let servers: Vec<McpServer> = stage.with(|inner| inner.servers.values().cloned().collect());
    let result = json!({ "servers": servers });
    stage.event(Event::McpServers { servers });
    result
}

fn change(stage: &Stage, name: &str, how: impl FnOnce(&mut McpServer)) -> Done {
    stage.with(|inner| inner.servers.get_mut(name).map(how)).ok_or_else(|| no_server(name))?;
    Ok(Some(servers(stage)))
}

impl Stage {
    /// Connects to those of these servers that really exist.
    pub(super) async fn reach(&self, servers: &IndexMap<String, Value>) {
        let reached =
            servers.iter().filter_map(|(name, settings)| Some((name.clone(), Server::of(settings)?)));
        let reached: Vec<_> = reached.collect();
        for (name, server) in reached {
            self.with(|inner| inner.reached.insert(name.clone(), server));
            self.reach_again(&name).await;
        }
    }

    /// Connects again to a server, if it really exists.
    async fn reach_again(&self, name: &str) {
        let Some(server) = self.with(|inner| inner.reached.get(name).cloned()) else { return };
        let connected = server.connect().await;
        self.with(|inner| {
            if let Some(known) = inner.servers.get_mut(name) {
                let status = if connected.is_ok() { "connected" } else { "failed" };
                (known.status, known.error) = (status.into(), connected.err());
                known.tools = server.tools().into_iter().map(|tool| tool.name).collect();
            }
        });
    }
}

fn no_server(name: &str) -> String {
    format!("there is no MCP server `{name}`")
}

fn mcp_message(stage: &Stage, server: &str, message: &Value) -> Done {
    stage.with(|inner| inner.servers.contains_key(server)).then_some(()).ok_or_else(|| no_server(server))?;
    let answer = match message.get("method").and_then(Value::as_str) {
        Some("ping") => json!({ "result": {} }),
        Some("tools/list") => {
            json!({ "result": { "tools": [{ "name": format!("{server}_look"), "inputSchema": { "type": "object" } }] } })
        }
        Some(method) => json!({ "error": { "code": -32601, "message": format!("no method `{method}`") } }),
        None => json!({ "error": { "code": -32600, "message": "not a request" } }),
    };
    let mut reply = json!({ "jsonrpc": "2.0", "id": message.get("id") });
    if let (Some(reply), Value::Object(answer)) = (reply.as_object_mut(), answer) {
        reply.extend(answer);
    }
    Ok(Some(json!({ "mcp_response": reply })))
}

fn context(stage: &Stage) -> Value {
    let used = stage.with(|inner| inner.ledger.context());
    json!({
        "used": used,
        "window": DEFAULT_CONTEXT_WINDOW,
        "percent": (used * 1000 / DEFAULT_CONTEXT_WINDOW) as f64 / 10.0,
        "parts": [
            { "name": "system prompt", "tokens": 1200 },
            { "name": "tools", "tokens": 600 },
            { "name": "messages", "tokens": used.saturating_sub(1800) },
        ],
    })
}

fn stop_task(stage: &Stage, task: &str) -> Done {
    let known = stage.with(|inner| {
        let place = inner.tasks.iter().position(|known| known.task == task)?;
        Some(inner.tasks.remove(place))
    });
    let known = known.ok_or_else(|| format!("no task `{task}` is running"))?;
    stage.event(Event::TaskChanged {
        task: Box::new(Task {
            task: known.task,
            tool: Some(known.tool),
            status: TaskStatus::Stopped,
            ..Task::default()
        }),
    });
    Ok(None)
}
