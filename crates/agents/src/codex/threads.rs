//! How the session's thread begins, what is known about it, and which other threads are its subagents.

use std::collections::HashMap;

use portolan_core::{
    Event,
    capabilities::{CommandInfo, ModelInfo},
    event::{AgentInfo, ErrorInfo, ErrorKind, McpServer, ResetReason},
};
use serde_json::{Value, json};

use super::{
    account,
    calls::What,
    modes,
    probe::LOG_IN,
    translate::{Begin, DIALECT, Translate},
    wire::{self, Told, some_text, text},
};
use crate::driver::Output;

/// Threads of one process. A further subagent is shown without its parent.
const MAX_THREADS: usize = 1024;

/// Calls that may be starting subagents at once. A further subagent is shown without its prompt.
const MAX_SPAWNING: usize = 64;

/// MCP servers of a session that are listed.
const MAX_SERVERS: usize = 512;

/// Skills that are listed as commands.
const MAX_SKILLS: usize = 1024;

/// The session's own thread and its subagents'.
#[derive(Debug, Default)]
pub(super) struct Threads {
    main: Option<String>,
    children: HashMap<String, Child>,
    spawning: Vec<Spawning>,
    pub(super) model: Option<String>,
    /// The mode that it reported.
    pub(super) mode: Option<String>,
    /// Another mode that it reported before it was ready.
    pub(super) other_mode: Option<String>,
    unarchived: bool,
    pub(super) default_model: Option<String>,
    /// The goal of the thread and its state, as last reported.
    pub(super) goal: Option<(String, String)>,
    /// How much of each limit was used, as last reported.
    pub(super) limits: HashMap<String, u64>,
}

/// A thread that is a subagent.
#[derive(Clone, Debug)]
pub(super) struct Child {
    /// Its name: the call that started it.
    pub(super) subagent: String,
    /// The subagent that started it.
    pub(super) parent: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) model: Option<String>,
    pub(super) nickname: Option<String>,
    pub(super) runs: bool,
    /// It has begun and waits for its first prompt, to be identified.
    waits: bool,
    pub(super) said: Option<String>,
}

/// A call that starts a subagent and has not reported its thread yet.
#[derive(Clone, Debug)]
struct Spawning {
    call: String,
    parent: Option<String>,
    prompt: Option<String>,
    model: Option<String>,
}

/// The owner of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Main,
    Subagent(String),
}

impl Whose {
    /// As the parent of an event.
    pub(super) fn parent(&self) -> Option<String> {
        match self {
            Self::Main => None,
            Self::Subagent(name) => Some(name.clone()),
        }
    }
}

impl Threads {
    pub(super) fn main(&self) -> Option<&str> {
        self.main.as_deref()
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub(super) fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    pub(super) fn set_model(&mut self, model: &str) {
        self.model = Some(model.to_owned());
    }

    pub(super) fn is_main(&self, thread: &str) -> bool {
        thread.is_empty() || self.main.as_deref().is_none_or(|main| main == thread)
    }

    pub(super) fn whose(&self, thread: &str) -> Whose {
        if self.is_main(thread) {
            return Whose::Main;
        }
        let known = self.children.get(thread).map(|child| child.subagent.clone());
        Whose::Subagent(known.unwrap_or_else(|| thread.to_owned()))
    }

    pub(super) fn child(&mut self, thread: &str) -> Option<&mut Child> {
        if self.children.len() >= MAX_THREADS && !self.children.contains_key(thread) {
            return None;
        }
        Some(self.children.entry(thread.to_owned()).or_insert_with(|| Child {
            subagent: thread.to_owned(),
            parent: None,
            prompt: None,
            model: None,
            nickname: None,
            runs: false,
            waits: false,
            said: None,
        }))
    }

    /// A call in one thread begins to start another.
    pub(super) fn spawns(&mut self, call: &str, parent: Option<String>, item: &Value) {
        if item["tool"] == "spawnAgent" && self.spawning.len() < MAX_SPAWNING {
            let (prompt, model) = (some_text(item, "prompt"), some_text(item, "model"));
            self.spawning.push(Spawning { call: call.to_owned(), parent, prompt, model });
        }
    }

    /// A thread may begin before the call that starts it has reported its id. It is then identified as the only
    /// candidate, otherwise by its first prompt, for which it waits: then this is false.
    pub(super) fn is_named(&mut self, thread: &str, first_words: Option<&str>) -> bool {
        let is_clear = self.spawning.is_empty();
        if let Some(child) = self.children.get_mut(thread)
            && (is_clear || child.subagent != thread || child.runs)
        {
            child.waits = false;
            return true;
        }
        let place = match (first_words, self.spawning.len()) {
            (_, 0) => return true,
            (None, 1) => Some(0),
            (None, _) => None,
            (Some(words), _) => {
                self.spawning.iter().position(|spawning| spawning.prompt.as_deref() == Some(words))
            }
        };
        let spawning = place.map(|place| self.spawning.remove(place));
        let Some(child) = self.child(thread) else { return true };
        child.waits = spawning.is_none() && first_words.is_none();
        if let Some(spawning) = spawning {
            child.subagent = spawning.call;
            child.parent = spawning.parent;
            child.prompt = spawning.prompt;
            child.model = spawning.model;
        }
        !child.waits
    }

    pub(super) fn waits(&self, thread: &str) -> bool {
        self.children.get(thread).is_some_and(|child| child.waits)
    }

    /// A call in one thread has started these other threads.
    pub(super) fn spawned(&mut self, call: &str, parent: Option<String>, item: &Value) {
        let threads: Vec<String> = item["receiverThreadIds"]
            .as_array()
            .map(|ids| ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        self.spawning.retain(|spawning| spawning.call != call);
        for thread in &threads {
            if self.is_main(thread) {
                continue;
            }
            let known =
                self.children.get(thread).is_some_and(|child| child.subagent != *thread || child.runs);
            let first = threads.len() == 1;
            let Some(child) = self.child(thread).filter(|_| !known) else { continue };
            if first {
                call.clone_into(&mut child.subagent);
            }
            child.parent.clone_from(&parent);
            child.prompt = some_text(item, "prompt");
            child.model = some_text(item, "model");
        }
    }

    /// A thread exists that Portolan did not start.
    pub(super) fn met(&mut self, thread: &Value) {
        let id = text(thread, "id");
        if !self.is_main(&id)
            && let Some(child) = self.child(&id)
        {
            child.nickname = some_text(thread, "agentNickname").or(child.nickname.take());
        }
    }
}

impl Translate {
    pub(super) fn initialized(&mut self, result: &Value, out: &mut Output) {
        out.write(&DIALECT.notification("initialized", None));
        // `portolan/0.166.0 (…)`: the version is reported nowhere else.
        let agent = text(result, "userAgent");
        let version = agent.split_once('/').and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(version) = version.map(str::to_owned) {
            let info = AgentInfo { version: Some(version), ..AgentInfo::default() };
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
        match &self.setup.begin {
            Begin::Fork { thread, .. } if self.setup.model.is_none() => {
                let params = json!({ "threadId": thread });
                self.ask(None, What::Source, "thread/read", Some(params), out);
            }
            _ => self.begin(out),
        }
    }

    pub(super) fn source_told(&mut self, result: &Value, out: &mut Output) {
        if let Some(model) = some_text(&result["thread"], "model") {
            self.setup.thread["model"] = json!(model);
        }
        self.begin(out);
    }

    pub(super) fn begin(&mut self, out: &mut Output) {
        let mut params = self.setup.thread.clone();
        let method = match &self.setup.begin {
            Begin::Start => "thread/start",
            Begin::Resume { thread, .. } => {
                params["threadId"] = json!(thread);
                params["excludeTurns"] = json!(true);
                "thread/resume"
            }
            Begin::Fork { thread, last_turn } => {
                params["threadId"] = json!(thread);
                params["excludeTurns"] = json!(true);
                if let Some(turn) = last_turn {
                    params["lastTurnId"] = json!(turn);
                }
                "thread/fork"
            }
        };
        self.ask(None, What::Begin, method, Some(params), out);
    }

    pub(super) fn not_begun(&mut self, error: &str, out: &mut Output) {
        match self.setup.begin.clone() {
            Begin::Resume { own: true, .. } if error.contains("no rollout found") => {
                // Codex had written nothing of the conversation to disk.
                let reason = Some(ResetReason::Lost);
                out.event(Event::ConversationReset { agent_session: None, reason });
                self.setup.begin = Begin::Start;
                self.begin(out);
            }
            Begin::Resume { thread, .. } if error.contains("archived") && !self.threads.unarchived => {
                self.threads.unarchived = true;
                let params = json!({ "threadId": thread });
                self.ask(None, What::Unarchive, "thread/unarchive", Some(params), out);
            }
            _ => {
                let way_out = error.contains("active writer").then(|| {
                    "another program has this conversation open; end it there, then resume".to_owned()
                });
                let error = ErrorInfo {
                    kind: ErrorKind::Agent,
                    message: format!("Codex could not begin the conversation: {error}"),
                    way_out,
                };
                let why = error.message.clone();
                out.event(Event::Failure { error, recoverable: false });
                out.give_up(why);
            }
        }
    }

    pub(super) fn begun(&mut self, result: &Value, out: &mut Output) {
        let Some(thread) = some_text(&result["thread"], "id") else {
            return out.give_up("Codex began a thread without an id");
        };
        self.threads.main = Some(thread.clone());
        self.threads.model = some_text(result, "model");
        self.choose_mode(result, out);
        let info = AgentInfo {
            agent_session: Some(thread),
            model: self.threads.model.clone(),
            mode: self.threads.mode.clone(),
            modes: Some(modes::names()),
            cwd: some_text(result, "cwd").map(Into::into),
            ..AgentInfo::default()
        };
        out.event(Event::AgentInfo { info: Box::new(info) });
        self.ask_around(out);
        if let (Some(name), Begin::Start) = (self.setup.name.clone(), &self.setup.begin) {
            let params = self.of_thread(json!({ "name": name }));
            self.ask(None, What::Quiet, "thread/name/set", Some(params), out);
        }
        self.set_first_mode(out);
    }

    pub(super) fn become_ready(&mut self, out: &mut Output) {
        if !self.is_ready {
            self.is_ready = true;
            out.ready();
        }
    }

    // ------------------------------------------------------------------------- models and skills

    pub(super) fn take_models(&mut self, result: &Value, out: &mut Output) {
        let Some(listed) = result["data"].as_array() else { return };
        let model = |model: &Value| {
            let efforts: Vec<_> = model["supportedReasoningEfforts"]
                .as_array()
                .map(|efforts| efforts.iter().filter_map(|it| it["reasoningEffort"].as_str()).collect())
                .unwrap_or_default();
            let id = text(model, "id");
            ModelInfo {
                display_name: some_text(model, "displayName").unwrap_or_else(|| id.clone()),
                description: (!efforts.is_empty())
                    .then(|| format!("`{id}:EFFORT` sets the effort: {}", efforts.join(", "))),
                id,
            }
        };
        let default = listed.iter().find(|model| model["isDefault"] == true);
        self.threads.default_model = default.and_then(|model| some_text(model, "id"));
        let models = listed.iter().filter(|model| model["hidden"] != true).map(model).collect();
        let info = AgentInfo { models: Some(models), ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    pub(super) fn take_skills(&mut self, result: &Value, out: &mut Output) {
        let own = [
            ("compact", "Make the context smaller.", None),
            ("review", "Review changes: the uncommitted ones, or those you name.", Some("[what to review]")),
        ];
        let mut commands: Vec<CommandInfo> = own
            .into_iter()
            .map(|(name, description, hint)| CommandInfo {
                name: name.into(),
                description: description.into(),
                argument_hint: hint.map(Into::into),
            })
            .collect();
        self.skills.clear();
        let folders = result["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let skills = folders.iter().filter_map(|folder| folder["skills"].as_array()).flatten();
        for skill in skills.filter(|skill| skill["enabled"] != false).take(MAX_SKILLS) {
            let (Some(name), Some(path)) = (some_text(skill, "name"), some_text(skill, "path")) else {
                continue;
            };
            let short = some_text(&skill["interface"], "shortDescription");
            let description = short.or_else(|| some_text(skill, "description")).unwrap_or_default();
            if self.skills.insert(name.clone(), path).is_none() {
                commands.push(CommandInfo { name, description, argument_hint: None });
            }
        }
        let skills = Some(self.skills.keys().cloned().collect());
        let info = AgentInfo { commands: Some(commands), skills, ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    pub(super) fn take_account(result: &Value, out: &mut Output) {
        if let Some(account) = account::holder(&result["account"]) {
            let info = AgentInfo { account: Some(account), ..AgentInfo::default() };
            out.event(Event::AgentInfo { info: Box::new(info) });
        } else if result["requiresOpenaiAuth"] == true {
            let error = format!("Codex is not logged in: {LOG_IN}");
            out.event(Event::AuthStatus { authenticating: false, output: vec![], error: Some(error) });
        }
    }

    pub(super) fn logged_in(&mut self, told: &Told, out: &mut Output) {
        let error = (told.success == Some(false))
            .then(|| told.error.as_str().unwrap_or("the login failed").to_owned());
        out.event(Event::AuthStatus { authenticating: false, output: vec![], error });
        self.ask_account(out);
    }

    // --------------------------------------------------------------------------------- MCP servers

    pub(super) fn server_started(&mut self, told: &Told, out: &mut Output) {
        let Some(name) = told.name.clone().filter(|_| self.threads.is_main(&told.thread_id)) else { return };
        let status = match told.status.as_str() {
            Some("ready") => "connected",
            Some(other) => other,
            None => return,
        };
        let Some(server) = self.server(name) else { return };
        status.clone_into(&mut server.status);
        server.error = told.error.as_str().map(str::to_owned);
        out.event(Event::McpServers { servers: self.servers.values().cloned().collect() });
    }

    /// A server by its name; none if there is no room for another.
    fn server(&mut self, name: String) -> Option<&mut McpServer> {
        if self.servers.len() >= MAX_SERVERS && !self.servers.contains_key(&name) {
            return None;
        }
        Some(self.servers.entry(name.clone()).or_insert_with(|| McpServer { name, ..McpServer::default() }))
    }

    pub(super) fn take_servers(&mut self, result: &Value, out: &mut Output) {
        for told in result["data"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(name) = some_text(told, "name") else { continue };
            let Some(server) = self.server(name) else { break };
            if let Some(status) = some_text(told, "runtimeStatus") {
                server.status = status;
            } else if server.status.is_empty() {
                server.status = "unknown".into();
            }
            if let Some(tools) = told["tools"].as_object() {
                server.tools = tools.keys().cloned().collect();
            }
        }
        out.event(Event::McpServers { servers: self.servers.values().cloned().collect() });
    }

    pub(super) fn whose(&self, told: &wire::Told) -> Whose {
        self.threads.whose(&told.thread_id)
    }
}
