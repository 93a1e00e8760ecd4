//! What the CLI reports about itself: its data at every turn, its activity, retries, compaction, hooks.

use portolan_core::{
    Event,
    capabilities::{CommandInfo, ModelInfo},
    event::{Account, AgentInfo, HookStatus, Level, McpServer, Setting},
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    KIND,
    errors::Trouble,
    translate::Translate,
    wire::{self, Envelope},
};
use crate::driver::Output;

/// Messages of newer versions that are not needed here.
pub(super) const IGNORED: &[&str] = &[
    "session_state_changed",
    "thinking_tokens",
    "active_goal",
    "autocompact_state",
    "keep_alive",
    "session_title_changed",
    // The end of the turn reports it, with the reason.
    "model_refusal_no_fallback",
];

/// The notice when the CLI's session id changes without a report.
const RENAMED: &str = "Claude Code continues under another session id, but may still have the earlier \
                       messages; to begin without them, start a new session";

impl Translate {
    pub(super) fn system(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        let subtype = message.subtype.as_deref().unwrap_or_default();
        match subtype {
            "init" => self.init(line, out),
            "status" => self.status(line, out),
            "compact_boundary" => compacted(line, out),
            "api_retry" => retry(line, out),
            "task_started"
            | "task_progress"
            | "task_updated"
            | "task_notification"
            | "background_tasks_changed" => self.task(subtype, line, out),
            "hook_started" | "hook_progress" | "hook_response" => hook(subtype, line, out),
            "permission_denied" => self.permission_denied(line, out),
            "informational" => informed(line, out),
            "commands_changed" => self.commands_changed(line, out),
            "control_request_progress" => {
                if let Some(id) = &message.request_id {
                    self.still_at(id, out);
                }
            }
            "files_persisted" => persisted(line, out),
            ignored if IGNORED.contains(&ignored) => {}
            other => out.unknown(KIND, &format!("system/{other}"), line),
        }
    }

    /// Messages that are rare, or that only some versions have.
    pub(super) fn rarely(&mut self, kind: &str, line: &str, out: &mut Output) {
        match kind {
            "conversation_reset" => {
                self.was_reset = true;
                self.tally.restart();
                out.event(Event::ConversationReset { agent_session: None, reason: None });
            }
            "tool_progress" => tool_progress(line, out),
            "tool_use_summary" => tool_summary(line, out),
            "auth_status" => auth_status(line, out),
            ignored if IGNORED.contains(&ignored) => {}
            other => out.unknown(KIND, other, line),
        }
    }

    // ------------------------------------------------------------------------- its description

    /// Comes at every turn: a state, not a start.
    fn init(&mut self, line: &str, out: &mut Output) {
        let Ok(init) = serde_json::from_str::<Init>(line) else {
            return out.unknown(KIND, "system/init", line);
        };
        if !self.mode_is_known(init.mode.as_deref(), out) {
            return;
        }
        self.prompts_named(&init.user_message_uuids, out);
        self.turn_begins(out);
        let changed = self.known.agent_session.is_some() && self.known.agent_session != init.session_id;
        if changed && !std::mem::take(&mut self.was_reset) {
            // After `/clear`, 2.1.120 continues under another id and still knows everything.
            out.event(Event::Notice { level: Level::Warning, text: RENAMED.into() });
        }
        let info = init.info(self.known.commands.is_none());
        self.learn(info, line, out);
    }

    /// Informs the session, if it is new.
    fn learn(&mut self, info: AgentInfo, line: &str, out: &mut Output) {
        let before = self.known.clone();
        self.known.merge(info.clone());
        if self.known != before {
            let (agent_session, model) = (&self.known.agent_session, &self.known.model);
            tracing::info!(?agent_session, ?model, "agent described itself");
            out.event_with_raw(Event::AgentInfo { info: Box::new(info) }, line);
        }
    }

    pub(super) fn take_initialize(&mut self, response: Option<&RawValue>, line: &str, out: &mut Output) {
        let told: Initialized = wire::open(response).unwrap_or_default();
        let mut info = told.info();
        if !self.is_ready {
            // If another mode were reported now, a later start would ask for it.
            info.mode = info.mode.filter(|mode| *mode == self.setup.mode);
        }
        info.modes = Some(self.setup.modes.clone());
        if info.version.is_none() {
            info.version = self.setup.version.map(|version| version.to_string());
        }
        self.known.modes = None;
        self.learn(info, line, out);
    }

    fn commands_changed(&mut self, line: &str, out: &mut Output) {
        #[derive(Deserialize)]
        struct Changed {
            commands: Vec<Command>,
        }
        let Ok(changed) = serde_json::from_str::<Changed>(line) else {
            return out.unknown(KIND, "system/commands_changed", line);
        };
        let commands = changed.commands.into_iter().map(CommandInfo::from).collect();
        self.learn(AgentInfo { commands: Some(commands), ..AgentInfo::default() }, line, out);
    }

    // ------------------------------------------------------------------------------ its activity

    fn status(&mut self, line: &str, out: &mut Output) {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            status: Option<String>,
            #[serde(rename = "permissionMode", default)]
            mode: Option<String>,
        }
        let Ok(Status { status, mode }) = serde_json::from_str(line) else {
            return out.unknown(KIND, "system/status", line);
        };
        if status.is_some() {
            self.turn_begins(out);
        }
        self.set_activity(status, out);
        // The answer to Portolan's own change reports it already, before this or after.
        if let Some(mode) = mode
            && self.known.mode.as_ref() != Some(&mode)
            && !self.control.is_setting_mode(&mode)
        {
            self.known.mode = Some(mode.clone());
            out.event(Event::SettingChanged { setting: Setting::Mode { mode } });
        }
    }

    pub(super) fn set_activity(&mut self, activity: Option<String>, out: &mut Output) {
        if self.activity != activity {
            self.activity.clone_from(&activity);
            out.event(Event::Activity { activity });
        }
    }

    fn permission_denied(&mut self, line: &str, out: &mut Output) {
        #[derive(Deserialize)]
        struct Denied {
            tool_name: String,
            #[serde(default)]
            tool_use_id: String,
            #[serde(default)]
            message: String,
        }
        let Ok(denied) = serde_json::from_str::<Denied>(line) else {
            return out.unknown(KIND, "system/permission_denied", line);
        };
        self.subagents.denied.insert(denied.tool_use_id);
        let text = format!("`{}` was not allowed: {}", denied.tool_name, denied.message);
        out.event(Event::Notice { level: Level::Warning, text });
    }
}

fn tool_progress(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Progress {
        tool_use_id: String,
        tool_name: String,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
        #[serde(default)]
        elapsed_time_seconds: Option<f64>,
    }
    let Ok(progress) = serde_json::from_str::<Progress>(line) else {
        return out.unknown(KIND, "tool_progress", line);
    };
    out.event(Event::ToolProgress {
        tool: progress.tool_use_id,
        name: progress.tool_name,
        parent: progress.parent_tool_use_id,
        elapsed_seconds: progress.elapsed_time_seconds,
    });
}

fn compacted(line: &str, out: &mut Output) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Boundary {
        compact_metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        trigger: Option<String>,
        pre_tokens: Option<u64>,
        post_tokens: Option<u64>,
    }
    let Boundary { compact_metadata: told } = serde_json::from_str(line).unwrap_or_default();
    out.event(Event::Compacted {
        trigger: told.trigger,
        tokens_before: told.pre_tokens,
        tokens_after: told.post_tokens,
    });
}

fn retry(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        attempt: u32,
        #[serde(default)]
        max_retries: Option<u32>,
        #[serde(default)]
        retry_delay_ms: Option<f64>,
        #[serde(default)]
        error_status: Option<u16>,
        #[serde(default)]
        error: Option<String>,
    }
    let Ok(told) = serde_json::from_str::<Told>(line) else {
        return out.unknown(KIND, "system/api_retry", line);
    };
    let no_answer = told.error_status.is_none();
    let trouble = Trouble { word: told.error, status: told.error_status, ..Trouble::default() };
    let mut error = trouble.info();
    if no_answer && error.kind == portolan_core::event::ErrorKind::Unknown {
        error.kind = portolan_core::event::ErrorKind::Network;
        error.way_out = super::errors::way_out(error.kind).map(Into::into);
    }
    out.event(Event::Retry {
        attempt: told.attempt,
        max: told.max_retries,
        delay_ms: told.retry_delay_ms.map(|delay| delay.max(0.0) as u64),
        error,
    });
}

fn hook(subtype: &str, line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Told {
        hook_id: String,
        #[serde(default)]
        hook_name: String,
        #[serde(default)]
        hook_event: String,
        #[serde(flatten)]
        rest: serde_json::Map<String, Value>,
    }
    let Ok(told) = serde_json::from_str::<Told>(line) else {
        return out.unknown(KIND, &format!("system/{subtype}"), line);
    };
    let mut data = told.rest;
    for envelope in ["type", "subtype", "uuid", "session_id"] {
        data.remove(envelope);
    }
    let status = match subtype {
        "hook_started" => HookStatus::Started,
        "hook_progress" => HookStatus::Progress,
        _ => HookStatus::Completed,
    };
    out.event(Event::Hook {
        hook: told.hook_id,
        name: told.hook_name,
        event: told.hook_event,
        status,
        data: (!data.is_empty()).then_some(Value::Object(data)),
    });
}

fn informed(line: &str, out: &mut Output) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Told {
        content: Option<String>,
        level: Option<String>,
    }
    let told: Told = serde_json::from_str(line).unwrap_or_default();
    let Some(text) = told.content.filter(|text| !text.is_empty()) else {
        return out.unknown(KIND, "system/informational", line);
    };
    let grave = matches!(told.level.as_deref(), Some("warning" | "error"));
    let level = if grave { Level::Warning } else { Level::Info };
    out.event_with_raw(Event::Notice { level, text }, line);
}

fn persisted(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Persisted {
        #[serde(default)]
        files: Vec<Value>,
        #[serde(default)]
        failed: Vec<Value>,
    }
    match serde_json::from_str::<Persisted>(line) {
        Ok(Persisted { files, failed }) => out.event(Event::FilesPersisted { files, failed }),
        Err(_) => out.unknown(KIND, "system/files_persisted", line),
    }
}

fn tool_summary(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Summary {
        summary: String,
        #[serde(default)]
        preceding_tool_use_ids: Vec<String>,
    }
    match serde_json::from_str::<Summary>(line) {
        Ok(told) => {
            out.event(Event::ToolSummary { summary: told.summary, tools: told.preceding_tool_use_ids });
        }
        Err(_) => out.unknown(KIND, "tool_use_summary", line),
    }
}

fn auth_status(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Status {
        #[serde(rename = "isAuthenticating", default)]
        authenticating: bool,
        #[serde(default)]
        output: Vec<String>,
        #[serde(default)]
        error: Option<String>,
    }
    match serde_json::from_str::<Status>(line) {
        Ok(Status { authenticating, output, error }) => {
            out.event(Event::AuthStatus { authenticating, output, error });
        }
        Err(_) => out.unknown(KIND, "auth_status", line),
    }
}

// ------------------------------------------------------------------------------------------ data

/// `system/init`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Init {
    session_id: Option<String>,
    claude_code_version: Option<String>,
    cwd: Option<String>,
    model: Option<String>,
    #[serde(rename = "permissionMode")]
    mode: Option<String>,
    tools: Option<Vec<String>>,
    mcp_servers: Option<Vec<McpServer>>,
    slash_commands: Option<Vec<String>>,
    agents: Option<Vec<String>>,
    skills: Option<Vec<String>>,
    plugins: Option<Vec<Value>>,
    output_style: Option<String>,
    #[serde(rename = "apiKeySource")]
    api_key_source: Option<String>,
    fast_mode_state: Option<String>,
    capabilities: Option<Vec<String>>,
    user_message_uuids: Vec<String>,
}

impl Init {
    /// Commands are only names here; known details of them are kept.
    fn info(self, commands_wanted: bool) -> AgentInfo {
        let named = |name: String| CommandInfo { name, ..CommandInfo::default() };
        let commands = self.slash_commands.filter(|_| commands_wanted);
        AgentInfo {
            agent_session: self.session_id,
            version: self.claude_code_version,
            cwd: self.cwd.map(Into::into),
            model: self.model,
            mode: self.mode,
            tools: self.tools,
            mcp_servers: self.mcp_servers,
            commands: commands.map(|commands| commands.into_iter().map(named).collect()),
            subagents: self.agents,
            skills: self.skills,
            plugins: self.plugins,
            output_style: self.output_style,
            api_key_source: self.api_key_source,
            fast_mode: self.fast_mode_state,
            features: self.capabilities,
            ..AgentInfo::default()
        }
    }
}

/// The answer to `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Initialized {
    commands: Option<Vec<Command>>,
    models: Option<Vec<Model>>,
    agents: Option<Vec<Value>>,
    account: Option<Whose>,
    output_style: Option<String>,
    available_output_styles: Option<Vec<String>>,
    claude_code_version: Option<String>,
    current_permission_mode: Option<String>,
    fast_mode_state: Option<String>,
    capabilities: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    name: String,
    description: String,
    #[serde(rename = "argumentHint")]
    argument_hint: Option<String>,
}

impl From<Command> for CommandInfo {
    fn from(told: Command) -> Self {
        let argument_hint = told.argument_hint.filter(|hint| !hint.is_empty());
        Self { name: told.name, description: told.description, argument_hint }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Model {
    value: String,
    #[serde(rename = "displayName")]
    display_name: String,
    description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Whose {
    email: Option<String>,
    organization: Option<String>,
    subscription_type: Option<String>,
    token_source: Option<String>,
    api_key_source: Option<String>,
}

impl Initialized {
    fn info(self) -> AgentInfo {
        let model = |told: Model| ModelInfo {
            id: told.value,
            display_name: told.display_name,
            description: told.description.filter(|text| !text.is_empty()),
        };
        let whose = self.account.unwrap_or_default();
        let account = Account {
            email: whose.email,
            organization: whose.organization,
            subscription: whose.subscription_type,
            token_source: whose.token_source.filter(|source| source != "none"),
        };
        let name = |agent: &Value| agent["name"].as_str().or(agent.as_str()).map(str::to_owned);
        AgentInfo {
            version: self.claude_code_version,
            mode: self.current_permission_mode,
            commands: self.commands.map(|commands| commands.into_iter().map(Into::into).collect()),
            models: self.models.map(|models| models.into_iter().map(model).collect()),
            account: (account != Account::default()).then_some(account),
            subagents: self.agents.map(|agents| agents.iter().filter_map(name).collect()),
            output_style: self.output_style,
            output_styles: self.available_output_styles,
            api_key_source: whose.api_key_source,
            fast_mode: self.fast_mode_state,
            features: self.capabilities,
            ..AgentInfo::default()
        }
    }
}
