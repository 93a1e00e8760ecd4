//! A session's entries into the events of a run. Pure: no I/O, no clock; the same entries give the same events.
//!
//! What goes out obeys the stricter rules of both client generations: nothing is continued that was not begun in the same
//! run, and at the end of a run nothing is open. What a run leaves unfinished the next one continues: a text whose name
//! is begun again is appended to.

mod asks;
mod calls;
pub mod history;
mod items;
mod results;
mod snapshot;
mod subagents;

use std::{collections::HashSet, fmt, sync::Arc};

use indexmap::IndexMap;
use portolan_core::{
    Actor, Event, RequestId, Seq, SessionId,
    event::{HookStatus, Level, Setting, TaskStatus},
    request::Request,
    session::state::State,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::{asks::request_id, results::Ended};
use self::{calls::Call, history::PromptIds, items::Open, snapshot::Known, subagents::Subagents};
use super::wire::{AguiEvent, Interrupt};
use crate::agui::context::own_words;

/// What is known of the tools of a page: their names, and which of them the agent may use without anyone being asked.
#[derive(Clone)]
pub struct PageNames {
    name: Arc<Namer>,
    allows: Arc<Allows>,
}

type Namer = dyn Fn(&str) -> Option<String> + Send + Sync;
type Allows = dyn Fn(&Request) -> bool + Send + Sync;

impl PageNames {
    /// `name` gives the page's own name of a tool, where the agent's name of it is that of a page's tool; `allows` says
    /// whether a request is answered by policy.
    pub fn new(
        name: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        allows: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: Arc::new(name), allows: Arc::new(allows) }
    }

    /// Where no page offers anything.
    pub fn none() -> Self {
        Self::new(|_| None, |_| false)
    }

    pub(super) fn of(&self, name: &str) -> Option<String> {
        (self.name)(name)
    }

    fn allows(&self, request: &Request) -> bool {
        (self.allows)(request)
    }
}

impl fmt::Debug for PageNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageNames")
    }
}

/// How the client wants to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approvals {
    /// By a custom event; the run goes on, and the answer comes by a request of its own.
    #[default]
    Event,
    /// By the protocol's own interrupt: the run ends, and the answer comes with the next one.
    Interrupt,
    /// By the interrupt's older form: a custom event `on_interrupt`, then the run ends. Only a client asks for it.
    #[serde(skip)]
    OnInterrupt,
}

/// What a run is interrupted for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// In the protocol's own form: everything that waits.
    Interrupts(Vec<Interrupt>),
    /// In its older form: the value of the event. Clients keep one, so it is what waits longest.
    OnInterrupt(Value),
}

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Only what is about the session as a whole: what someone else's turn says is told in their run.
    Quiet,
    /// Everything.
    Full,
}

/// Whose prompts are told: the page has its own already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// All of them, but this one's from here.
    NotOf(Actor),
    /// All of them.
    All,
}

/// What one stream of events knows of its session.
#[derive(Debug)]
pub struct Projector {
    session: SessionId,
    names: PageNames,
    approvals: Approvals,
    prompts: Prompts,
    voice: Voice,
    known: Known,
    told_state: Option<Value>,
    /// Items that stream and are told.
    open: IndexMap<String, Open>,
    /// Items that stream and are not: they began in someone else's turn.
    skipped: HashSet<String>,
    calls: IndexMap<String, Call>,
    subagents: Subagents,
    ids: PromptIds,
    /// Prompts that waited when the history was made, which shows them. At most as many as may wait.
    shown: HashSet<Seq>,
    /// Open requests, and which of them were told.
    requests: IndexMap<RequestId, (Box<Request>, bool)>,
}

impl Projector {
    /// One that begins here: with everything that is known of the session at this moment.
    pub fn new(
        session: SessionId,
        agent_id: &str,
        names: PageNames,
        approvals: Approvals,
        prompts: Prompts,
        state: &State,
    ) -> Self {
        let mut projector = Self {
            session,
            approvals,
            prompts,
            voice: Voice::Full,
            known: Known::of(agent_id, session, state),
            told_state: None,
            open: IndexMap::new(),
            skipped: state.items.iter().map(|open| open.item.clone()).collect(),
            calls: IndexMap::new(),
            subagents: Subagents::of(state),
            ids: PromptIds::of(state),
            shown: HashSet::new(),
            requests: IndexMap::new(),
            names,
        };
        for open in &state.tools {
            projector.saw_call(&open.tool, &open.name);
        }
        for request in &state.requests {
            projector.keep(request);
        }
        projector
    }

    /// The next run begins where the last one ended.
    pub fn next_run(&mut self, agent_id: &str, approvals: Approvals) {
        agent_id.clone_into(&mut self.known.agent_id);
        self.approvals = approvals;
        self.told_state = None;
        self.voice = Voice::Full;
        for open in self.open.values_mut() {
            open.is_begun = false;
        }
        for call in self.calls.values_mut() {
            call.is_earlier();
        }
        self.subagents.next_run();
        for (_, told) in self.requests.values_mut() {
            *told = false;
        }
    }

    /// The page was shown what waits in the queue: it is not told again when it is sent.
    pub fn shows_queued(&mut self, state: &State) {
        self.shown =
            state.commands.iter().filter(|open| open.is_queued_prompt()).map(|open| open.seq).collect();
    }

    /// From now on so much is told.
    pub fn speak(&mut self, voice: Voice) {
        self.voice = voice;
    }

    /// Texts that stream already are told from their beginning: for who has nothing of them yet.
    pub fn from_the_beginning(&mut self, state: &State, out: &mut Vec<AguiEvent>) {
        self.skipped.clear();
        for item in &state.items {
            self.item_started(&item.item, item.kind, item.parent.as_deref());
            self.delta(&item.item, &item.text, out);
        }
    }

    /// The state as it is now, in place of entries that were missed.
    pub fn catch_up(&mut self, state: &State, out: &mut Vec<AguiEvent>) {
        self.known.take(state);
        self.tell_state(out);
        for item in &state.items {
            let told = self.open.get(&item.item).map(|open| open.text.len());
            match told {
                Some(told) => {
                    let rest = item.text.get(told..).unwrap_or_default().to_owned();
                    self.delta(&item.item, &rest, out);
                }
                None if self.skipped.contains(&item.item) => {}
                None => {
                    self.item_started(&item.item, item.kind, item.parent.as_deref());
                    self.delta(&item.item, &item.text, out);
                }
            }
        }
    }

    /// What the agent has and can, where that is not what was told last.
    pub fn tell_state(&mut self, out: &mut Vec<AguiEvent>) {
        let snapshot = self.known.snapshot();
        if self.told_state.as_ref() != Some(&snapshot) {
            self.told_state = Some(snapshot.clone());
            out.push(AguiEvent::StateSnapshot { snapshot });
        }
    }

    /// Everything that waits and was not told in this run.
    pub fn tell_requests(&mut self, out: &mut Vec<AguiEvent>) {
        if self.approvals != Approvals::Event {
            return;
        }
        let session = self.session;
        for (request, told) in self.requests.values_mut().filter(|(_, told)| !*told) {
            *told = true;
            out.push(asks::asked(session, request));
        }
    }

    /// This run has just brought the answer: the page is not asked again, nor told that it was answered.
    pub fn answered(&mut self, request: RequestId) {
        self.requests.shift_remove(&request);
    }

    /// What the run is to be interrupted for; nothing where nothing waits or the client is asked by events.
    pub fn asks(&self) -> Option<Asks> {
        let waiting = self.requests.values().map(|(request, _)| &**request);
        match self.approvals {
            Approvals::Event => None,
            Approvals::Interrupt => {
                let all: Vec<_> = waiting.map(|request| asks::interrupt(self.session, request)).collect();
                (!all.is_empty()).then_some(Asks::Interrupts(all))
            }
            Approvals::OnInterrupt => {
                let oldest = waiting.min_by_key(|request| request.request)?;
                Some(Asks::OnInterrupt(asks::particulars(self.session, oldest)))
            }
        }
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let name = |text: &str| text.len() + 64;
        let told = self.told_state.as_ref().map_or(0, |state| state.to_string().len());
        let texts: usize = self.open.iter().map(|(item, open)| name(item) + open.text.len() + 128).sum();
        let skipped: usize = self.skipped.iter().map(|item| name(item)).sum();
        let calls: usize = self.calls.keys().map(|tool| name(tool) + 64).sum();
        let asked = |request: &Request| serde_json::to_vec(request).map_or(0, |text| text.len());
        let requests: usize = self.requests.values().map(|(request, _)| asked(request)).sum();
        // What is known of a session is told as its state, and held a second time as what it is.
        1024 + self.known.snapshot().to_string().len()
            + told
            + texts
            + skipped
            + calls
            + requests
            + self.subagents.weight()
            + self.ids.weight()
    }

    /// Nothing streams that is told: a run may end here without cutting anything.
    pub fn is_quiet(&self) -> bool {
        self.open.values().all(|open| !open.is_begun)
    }

    /// Closes all that this run has begun.
    pub fn close(&mut self, out: &mut Vec<AguiEvent>) {
        let begun: Vec<String> =
            self.open.iter().filter(|(_, open)| open.is_begun).map(|(item, _)| item.clone()).collect();
        for item in begun {
            self.pause_item(&item, out);
        }
        self.subagents.close(out);
    }

    /// One entry.
    pub fn project(&mut self, seq: Seq, by: Option<&Actor>, event: &Event, out: &mut Vec<AguiEvent>) {
        self.ids.note(seq, by, event);
        match event {
            Event::ItemStarted { item, kind, parent, .. } => match self.voice {
                Voice::Full => self.item_started(item, *kind, parent.as_deref()),
                Voice::Quiet => {
                    self.skipped.insert(item.clone());
                }
            },
            Event::ToolNamed { item, tool, name } => self.name_item(item, tool, name),
            Event::Delta { item, text } => self.delta(item, text, out),
            Event::Message { item, parent, content, .. } => {
                self.message(item, parent.as_deref(), content, out);
            }
            Event::ToolCall { tool, item, parent, name, input, .. } => {
                self.tool_call(tool, item.as_deref(), parent.as_deref(), name, input, out);
            }
            Event::ToolResult { tool, parent, outcome, content, .. } => {
                self.tool_result(tool, parent.as_deref(), *outcome, content, out);
            }
            Event::SubagentStarted { subagent, parent, subagent_type, description, .. } => {
                self.subagents.know(subagent, parent.as_deref(), subagent_type.as_deref(), description);
                if self.voice == Voice::Full {
                    self.subagents.enter(Some(subagent), out);
                }
            }
            Event::SubagentEnded { subagent, outcome, summary, .. } => {
                self.subagent_ended(subagent, *outcome, summary.as_deref(), out);
            }
            Event::Prompt { command, content } => {
                let id = self.ids.take(*command, seq);
                if !self.shown.remove(command) {
                    self.prompt(by, &id, &own_words(content), out);
                }
            }
            Event::RequestOpened { request } => {
                self.keep(request);
                self.tell_requests(out);
            }
            Event::RequestClosed { request, outcome } => {
                if let Some((asked, told)) = self.requests.shift_remove(request)
                    && told
                {
                    out.push(asks::resolved(self.session, &asked, outcome));
                }
            }
            Event::AgentInfo { info } => {
                self.known.learn(info);
                self.tell_state(out);
            }
            Event::SettingChanged { setting } => {
                self.known.set(setting);
                self.tell_state(out);
                if let Setting::Mode { .. } = setting {
                    self.status(out);
                }
            }
            Event::Activity { activity } => {
                let was = self.known.is_compacting();
                self.known.activity.clone_from(activity);
                self.status(out);
                if was != self.known.is_compacting() {
                    self.tell_state(out);
                }
            }
            Event::TurnStarted { turn, .. } => self.known.turns = *turn,
            Event::TurnEnded { result, .. } => {
                self.known.end_turn(result);
                if self.voice == Voice::Full {
                    out.push(results::stats(result, self.known.turns, self.known.cost));
                    self.tell_state(out);
                }
            }
            Event::McpServers { servers } => {
                self.known.info.mcp_servers = Some(servers.clone());
                self.tell_state(out);
            }
            Event::ConversationReset { agent_session, reason } => {
                if let Some(reason) = reason {
                    let value = json!({"level": Level::Warning, "text": reason.words()});
                    out.push(AguiEvent::Custom { name: "notice".into(), value });
                }
                if agent_session.is_some() {
                    self.known.info.agent_session.clone_from(agent_session);
                    self.tell_state(out);
                }
            }
            _ => self.aside(event, out),
        }
    }

    /// What has no event of its own in the protocol goes out as a custom event.
    fn aside(&self, event: &Event, out: &mut Vec<AguiEvent>) {
        let mut custom = |name: &str, value: Value| {
            out.push(AguiEvent::Custom { name: name.into(), value });
        };
        match event {
            Event::ToolProgress { tool, name, elapsed_seconds, .. } => {
                let name = self.names.of(name).unwrap_or_else(|| name.clone());
                let value =
                    json!({"toolUseId": tool, "toolName": name, "elapsedTimeSeconds": elapsed_seconds});
                custom("tool_progress", value);
            }
            Event::ToolSummary { summary, tools } => {
                custom("tool_use_summary", json!({"summary": summary, "precedingToolUseIds": tools}));
            }
            Event::AuthStatus { authenticating, output, error } => {
                let value = json!({"isAuthenticating": authenticating, "output": output, "error": error});
                custom("auth_status", value);
            }
            Event::Compacted { trigger, tokens_before, tokens_after } => {
                let value =
                    json!({"trigger": trigger, "preTokens": tokens_before, "postTokens": tokens_after});
                custom("compact_boundary", value);
            }
            Event::TaskChanged { task } => {
                let status = match task.status {
                    TaskStatus::Running => "running",
                    TaskStatus::Completed => "completed",
                    TaskStatus::Failed => "failed",
                    TaskStatus::Stopped => "stopped",
                };
                let value = json!({
                    "taskId": task.task, "taskStatus": status, "outputFile": task.output_file,
                    "summary": task.summary, "description": task.description, "toolUseId": task.tool,
                });
                custom("task_notification", value);
            }
            Event::FilesPersisted { files, failed } => {
                custom("files_persisted", json!({"files": files, "failed": failed}));
            }
            Event::Hook { hook, name, event, status, data } => {
                let kind = match status {
                    HookStatus::Started => "hook_started",
                    HookStatus::Progress => "hook_progress",
                    HookStatus::Completed => "hook_response",
                };
                let mut value = json!({"hookId": hook, "hookName": name, "hookEvent": event});
                if let Some(Value::Object(data)) = data {
                    for (key, more) in data {
                        value[camel_case(key)] = more.clone();
                    }
                }
                custom(kind, value);
            }
            Event::Plan { steps, .. } => custom("plan", json!({ "steps": steps })),
            Event::Retry { attempt, max, delay_ms, error } => {
                let value = json!({"attempt": attempt, "max": max, "delayMs": delay_ms, "message": error.message});
                custom("api_retry", value);
            }
            Event::Failure { error, recoverable } => {
                let value = json!({"kind": error.kind, "message": error.message, "recoverable": recoverable});
                custom("failure", value);
            }
            Event::Notice { level, text } => custom("notice", json!({"level": level, "text": text})),
            Event::LinkLost { reason } => custom("notice", json!({"level": "warning", "text": reason})),
            // The run itself deals with commands and with the agent's life; the rest is for other clients.
            Event::SessionCreated { .. }
            | Event::SessionRenamed { .. }
            | Event::SessionArchived { .. }
            | Event::Imported { .. }
            | Event::AgentStarting { .. }
            | Event::AgentStarted { .. }
            | Event::AgentReady { .. }
            | Event::AgentExited { .. }
            | Event::LinkRestored
            | Event::CommandAccepted { .. }
            | Event::Receipt { .. }
            | Event::RuleAdded { .. }
            | Event::RuleRemoved { .. }
            | Event::Usage { .. }
            | Event::Unknown { .. }
            // Told above.
            | Event::ItemStarted { .. }
            | Event::ToolNamed { .. }
            | Event::Delta { .. }
            | Event::Message { .. }
            | Event::ToolCall { .. }
            | Event::ToolResult { .. }
            | Event::SubagentStarted { .. }
            | Event::SubagentEnded { .. }
            | Event::Prompt { .. }
            | Event::RequestOpened { .. }
            | Event::RequestClosed { .. }
            | Event::AgentInfo { .. }
            | Event::SettingChanged { .. }
            | Event::Activity { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::McpServers { .. }
            | Event::ConversationReset { .. } => {}
        }
    }

    fn status(&self, out: &mut Vec<AguiEvent>) {
        let value = json!({"status": self.known.activity, "permissionMode": self.known.info.mode});
        out.push(AguiEvent::Custom { name: "system_status".into(), value });
    }

    fn prompt(&mut self, by: Option<&Actor>, id: &str, words: &str, out: &mut Vec<AguiEvent>) {
        let own = matches!(&self.prompts, Prompts::NotOf(own) if by == Some(own));
        if own || words.is_empty() || self.voice == Voice::Quiet {
            return;
        }
        let message_id = id.to_owned();
        out.extend([
            AguiEvent::TextMessageStart {
                message_id: message_id.clone(),
                role: "user".into(),
                subagent_run_id: None,
            },
            AguiEvent::TextMessageContent {
                message_id: message_id.clone(),
                delta: words.into(),
                subagent_run_id: None,
            },
            AguiEvent::TextMessageEnd { message_id, subagent_run_id: None },
        ]);
    }

    /// Remembers what waits. What is answered by policy is not the page's to answer.
    fn keep(&mut self, request: &Request) {
        if !self.names.allows(request) {
            self.requests.insert(request.request, (Box::new(request.clone()), false));
        }
    }
}

/// `exit_code` as JavaScript writes it.
fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for character in name.chars() {
        if character == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.extend(character.to_uppercase());
        } else {
            out.push(character);
        }
    }
    out
}
