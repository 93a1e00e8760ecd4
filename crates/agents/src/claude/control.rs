//! Portolan's control requests: each has its own id, and is answered while a turn runs, or fails after a time limit.

use std::{collections::HashMap, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Event,
    event::{AgentInfo, Level, McpServer},
    ports::{InstructionId, Order},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    KIND, Version, names,
    translate::Translate,
    wire::{self, Answered, Envelope},
};
use crate::driver::{Output, Timer};

/// How long the session's own MCP servers may delay its start. They can also connect later.
const SERVERS: Duration = Duration::from_secs(15);

/// Portolan's requests without an answer yet.
#[derive(Debug, Default)]
pub(super) struct Control {
    asked: u64,
    pending: HashMap<String, Pending>,
}

#[derive(Debug)]
struct Pending {
    timer: Timer,
    instruction_id: Option<InstructionId>,
    what: What,
}

/// The request that an answer belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Initialize,
    /// The first mode, before the agent is ready.
    FirstMode,
    /// The session's own MCP servers, before the agent is ready.
    Servers,
    Model,
    Mode(String),
    McpStatus,
    /// A request that changes the state of MCP servers.
    McpChange,
    Rewind,
    /// These variables.
    Environment(Vec<String>),
    /// The answer is passed on as it is.
    Plain,
}

impl Control {
    /// Takes out the request with this id.
    fn settle(&mut self, id: &str, out: &mut Output) -> Option<Pending> {
        let pending = self.pending.remove(id)?;
        out.clear_timer(pending.timer);
        Some(pending)
    }

    pub(super) fn forget(&mut self, instruction_id: InstructionId, out: &mut Output) {
        let id = self
            .pending
            .iter()
            .find(|(_, it)| it.instruction_id == Some(instruction_id))
            .map(|(id, _)| id.clone());
        if let Some(id) = id {
            self.settle(&id, out);
        }
    }

    /// Fails all open requests.
    pub(super) fn give_up(&mut self, why: &str, out: &mut Output) {
        let mut pending: Vec<_> = self.pending.drain().map(|(_, pending)| pending).collect();
        pending.sort_by_key(|pending| pending.timer);
        for pending in pending {
            out.clear_timer(pending.timer);
            if let Some(instruction_id) = pending.instruction_id {
                out.rejected(instruction_id, why);
            }
        }
    }

    pub(super) fn is_setting_model(&self) -> bool {
        self.pending.values().any(|pending| pending.what == What::Model)
    }

    pub(super) fn is_setting_mode(&self, mode: &str) -> bool {
        self.pending.values().any(|pending| match &pending.what {
            What::Mode(to) => to == mode,
            What::FirstMode => true,
            _ => false,
        })
    }

    pub(super) fn is_setting_any_mode(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending.what, What::Mode(_) | What::FirstMode))
    }
}

impl Translate {
    pub(super) fn ask(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        request: Value,
        out: &mut Output,
    ) {
        let (id, timer) = self.next_request();
        let patience = if what == What::Servers { SERVERS } else { self.setup.patience };
        let message = json!({ "type": "control_request", "request_id": id, "request": request });
        self.control.pending.insert(id, Pending { timer, instruction_id, what });
        out.set_timer(timer, patience);
        match instruction_id {
            Some(instruction_id) => out.write_for(instruction_id, &message),
            None => out.write(&message),
        }
    }

    fn next_request(&mut self) -> (String, Timer) {
        self.control.asked += 1;
        let number = self.control.asked;
        (names::request(self.setup.session, self.setup.generation, number), Timer(number))
    }

    pub(super) fn initialize(&mut self, out: &mut Output) {
        let request = self.setup.initialize.clone();
        self.ask(None, What::Initialize, request, out);
    }

    pub(super) fn send_interrupt(&mut self, out: &mut Output) {
        self.ask(None, What::Plain, json!({ "subtype": "interrupt" }), out);
    }

    pub(super) fn instruct_control(&mut self, instruction_id: InstructionId, order: Order, out: &mut Output) {
        let (what, request) = match order {
            Order::Interrupt => {
                if let Some(turn) = &mut self.turn {
                    turn.interrupted = true;
                }
                self.ask(Some(instruction_id), What::Plain, json!({ "subtype": "interrupt" }), out);
                return self.release_all(out);
            }
            Order::SetModel(model) => {
                let mut request = json!({ "subtype": "set_model" });
                if let Some(model) = model {
                    request["model"] = json!(model);
                }
                (What::Model, request)
            }
            Order::SetMode(mode) => {
                // Older versions take any word, with unknown effects.
                if !self.setup.modes.contains(&mode) {
                    let known = self.setup.modes.join(", ");
                    return out.rejected(
                        instruction_id,
                        format!("unknown mode `{mode}`; this version has {known}"),
                    );
                }
                let request = json!({ "subtype": "set_permission_mode", "mode": mode });
                (What::Mode(mode), request)
            }
            Order::SetThinking(tokens) => {
                (What::Plain, json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens }))
            }
            Order::SetEnvironment(variables) => return self.set_environment(instruction_id, &variables, out),
            Order::Rewind { prompt, dry_run } => {
                let id = names::prompt(self.setup.session, prompt);
                (
                    What::Rewind,
                    json!({ "subtype": "rewind_files", "user_message_id": id, "dry_run": dry_run }),
                )
            }
            Order::McpStatus => (What::McpStatus, json!({ "subtype": "mcp_status" })),
            Order::McpReconnect(server) => {
                (What::McpChange, json!({ "subtype": "mcp_reconnect", "serverName": server }))
            }
            Order::McpToggle { server, enabled } => (
                What::McpChange,
                json!({ "subtype": "mcp_toggle", "serverName": server, "enabled": enabled }),
            ),
            Order::McpSet(servers) => {
                // A new set replaces the previous one: the servers of the session stay in it.
                let mut all = self.setup.servers.clone();
                all.extend(servers);
                (What::McpChange, json!({ "subtype": "mcp_set_servers", "servers": all }))
            }
            Order::McpMessage { server, message } => {
                (What::Plain, json!({ "subtype": "mcp_message", "server_name": server, "message": message }))
            }
            Order::Context => (What::Plain, json!({ "subtype": "get_context_usage" })),
            Order::StopTask(task) => (What::Plain, json!({ "subtype": "stop_task", "task_id": task })),
            Order::Native(body) => return self.native(instruction_id, body, out),
            Order::Prompt { .. } | Order::Steer { .. } | Order::Answer { .. } | Order::Checked { .. } => {
                return;
            }
        };
        self.ask(Some(instruction_id), what, request, out);
    }

    /// Not a control request, but newer versions answer it if it has an id.
    fn set_environment(
        &mut self,
        instruction_id: InstructionId,
        variables: &IndexMap<String, String>,
        out: &mut Output,
    ) {
        let mut message = json!({ "type": "update_environment_variables", "variables": variables });
        if !self.setup.version.is_none_or(Version::tells_of_environment) {
            return out.write_and_consume(instruction_id, &message);
        }
        let (id, timer) = self.next_request();
        message["request_id"] = json!(id);
        let what = What::Environment(variables.keys().cloned().collect());
        self.control.pending.insert(id, Pending { timer, instruction_id: Some(instruction_id), what });
        out.set_timer(timer, self.setup.patience);
        out.write_for(instruction_id, &message);
    }

    /// A message of the CLI's own protocol. A control request gets an id of Portolan, so that its answer can be
    /// assigned.
    fn native(&mut self, instruction_id: InstructionId, body: Value, out: &mut Output) {
        match body.get("type").and_then(Value::as_str) {
            Some("control_request") if body["request"].is_object() => {
                self.ask(Some(instruction_id), What::Plain, body["request"].clone(), out);
            }
            Some("control_request") => out.rejected(instruction_id, "a control request needs a `request`"),
            Some(_) => out.write_and_consume(instruction_id, &body),
            None => out.rejected(instruction_id, "a Claude Code message needs a `type`"),
        }
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answered(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        let answer = message.response.and_then(|raw| serde_json::from_str::<Answered<'_>>(raw.get()).ok());
        let Some(answer) = answer else { return out.unknown(KIND, "control_response", line) };
        let Some(pending) = self.control.settle(&answer.request_id, out) else {
            // A late answer: the request has failed already, and its sender was informed.
            return;
        };
        let succeeded = answer.subtype == "success";
        let error = || answer.error.clone().unwrap_or_else(|| "the agent refused and gave no reason".into());
        match pending.what {
            What::Initialize => self.initialized(&answer, succeeded, line, out),
            What::FirstMode if succeeded => self.first_mode_set(answer.response, out),
            What::FirstMode => self.mode_differs(&error(), out),
            What::Servers if succeeded => self.servers_set(answer.response, out),
            What::Servers => self.servers_not_set(&error(), out),
            _ if !succeeded => {
                if let Some(instruction_id) = pending.instruction_id {
                    out.rejected(instruction_id, error());
                }
            }
            what => self.succeeded(pending.instruction_id, what, answer.response, out),
        }
    }

    fn succeeded(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        response: Option<&RawValue>,
        out: &mut Output,
    ) {
        let mut result = response.map(|raw| wire::value(Some(raw)));
        let mut after = None;
        match what {
            What::Model => {
                // The default model has a name only here.
                let model = result.as_ref().and_then(|it| it["model"].as_str()).map(str::to_owned);
                after = model.map(|model| {
                    let info = Box::new(AgentInfo { model: Some(model), ..AgentInfo::default() });
                    Event::AgentInfo { info }
                });
            }
            What::Mode(mode) => self.known.mode = Some(mode),
            What::McpStatus => {
                let servers = servers(response);
                result = None;
                after = Some(Event::McpServers { servers });
            }
            What::McpChange => self.ask(None, What::McpStatus, json!({ "subtype": "mcp_status" }), out),
            What::Rewind => {
                if let (Some(instruction_id), Some(refused)) =
                    (instruction_id, result.as_ref().and_then(cannot_rewind))
                {
                    return out.rejected(instruction_id, refused);
                }
            }
            What::Environment(names) => after = only_from_next_start(&names, result.as_ref()),
            What::Plain | What::Initialize | What::FirstMode | What::Servers => {}
        }
        if let Some(instruction_id) = instruction_id {
            out.consumed(instruction_id, result);
        }
        if let Some(event) = after {
            out.event(event);
        }
    }

    fn initialized(&mut self, answer: &Answered<'_>, succeeded: bool, line: &str, out: &mut Output) {
        if succeeded {
            self.take_initialize(answer.response, line, out);
        } else if !self.is_ready && answer.error.as_deref() != Some("Already initialized") {
            let error = answer.error.as_deref().unwrap_or("no reason given");
            return out.give_up(format!("it could not start: {error}"));
        }
        if let Some(pending) = answer.pending_permission_requests.filter(|_| self.is_ready) {
            self.recover_requests(pending, out);
        }
        if !self.is_ready {
            self.set_first_mode(out);
        }
    }

    pub(super) fn set_first_servers(&mut self, out: &mut Output) {
        if self.setup.servers.is_empty() {
            return self.become_ready(out);
        }
        if let Some(version) = self.setup.version.filter(|version| !version.takes_servers()) {
            // Everybody could read their secrets on the command line.
            let error = format!("{version} takes MCP servers only on its command line; update Claude Code");
            return self.servers_not_set(&error, out);
        }
        let request = json!({ "subtype": "mcp_set_servers", "servers": self.setup.servers });
        self.ask(None, What::Servers, request, out);
    }

    fn become_ready(&mut self, out: &mut Output) {
        if !self.is_ready {
            self.is_ready = true;
            out.ready();
        }
    }

    /// The session's own MCP servers are connected; the session continues without those that failed.
    fn servers_set(&mut self, response: Option<&RawValue>, out: &mut Output) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Set {
            errors: IndexMap<String, String>,
        }
        let set: Set = wire::open(response).unwrap_or_default();
        for (server, error) in set.errors {
            let text = format!("the MCP server `{server}` is not available: {error}");
            out.event(Event::Notice { level: Level::Warning, text });
        }
        self.become_ready(out);
    }

    fn servers_not_set(&mut self, error: &str, out: &mut Output) {
        let text = format!("Claude Code did not take the session's MCP servers: {error}");
        out.event(Event::Notice { level: Level::Warning, text });
        self.become_ready(out);
    }

    pub(super) fn overdue(&mut self, timer: Timer, out: &mut Output) {
        let id = self.control.pending.iter().find(|(_, it)| it.timer == timer).map(|(id, _)| id.clone());
        let Some(pending) = id.and_then(|id| self.control.pending.remove(&id)) else { return };
        let patience = self.setup.patience.as_secs_f32();
        match (pending.instruction_id, pending.what) {
            // This version never answers this request.
            (Some(instruction_id), What::Environment(_)) => out.consumed(instruction_id, None),
            (Some(instruction_id), _) => {
                out.rejected(instruction_id, format!("claude did not answer within {patience} s"));
            }
            (None, What::FirstMode) => self.mode_differs(&format!("no answer within {patience} s"), out),
            (None, What::Servers) => {
                let text = "MCP servers take too long; the session begins without them".to_owned();
                out.event(Event::Notice { level: Level::Warning, text });
                self.become_ready(out);
            }
            (None, _) => {}
        }
    }

    /// The CLI still works on it: the wait begins again.
    pub(super) fn still_at(&mut self, id: &str, out: &mut Output) {
        if let Some(pending) = self.control.pending.get(id) {
            out.set_timer(pending.timer, self.setup.patience);
        }
    }
}

/// The state of MCP servers. Their configuration, which can contain secrets, stays here.
fn servers(response: Option<&RawValue>) -> Vec<McpServer> {
    #[derive(Deserialize)]
    struct Status {
        #[serde(rename = "mcpServers", default)]
        servers: Vec<Server>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Server {
        name: String,
        status: String,
        error: Option<String>,
        scope: Option<String>,
        tools: Vec<Value>,
    }
    let status: Option<Status> = wire::open(response);
    let named = |tool: &Value| tool["name"].as_str().or(tool.as_str()).map(str::to_owned);
    let server = |server: Server| McpServer {
        name: server.name,
        status: server.status,
        error: server.error,
        tools: server.tools.iter().filter_map(named).collect(),
        scope: server.scope,
    };
    status.map(|status| status.servers.into_iter().map(server).collect()).unwrap_or_default()
}

/// Variables that the CLI does not take while it runs: newer versions take only a few of their own. The session keeps
/// them for its next start.
fn only_from_next_start(names: &[String], answer: Option<&Value>) -> Option<Event> {
    let applied = answer.and_then(|answer| answer["applied"].as_array())?;
    let left: Vec<_> = names.iter().filter(|name| !applied.iter().any(|it| it == *name)).cloned().collect();
    (!left.is_empty()).then(|| {
        let text = format!(
            "Claude Code does not take `{}` while it runs; the change applies after the session is stopped \
             and resumed",
            left.join("`, `")
        );
        Event::Notice { level: Level::Warning, text }
    })
}

/// A successful answer to a rewind that says that the rewind is not possible.
fn cannot_rewind(result: &Value) -> Option<String> {
    (result["canRewind"] == false)
        .then(|| result["error"].as_str().unwrap_or("there is no checkpoint of that prompt").to_owned())
}
