//! The capabilities snapshot: the agent's info, capabilities and usage. Clients send it back with every run, so it is
//! kept small.

use portolan_core::{
    SessionId,
    capabilities::{CommandInfo, ModelInfo},
    event::{AgentInfo, Setting, TurnResult},
    session::state::State,
};
use serde_json::{Map, Value, json};

use crate::agui::parse::shown;

/// The most entries of one list: tools, commands, models.
const LIST: usize = 256;

/// The longest description, in characters.
const DESCRIPTION: usize = 160;

/// The info of a session, for its snapshot.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) agent_id: String,
    session: SessionId,
    agent: String,
    cwd: String,
    pub(super) info: AgentInfo,
    pub(super) activity: Option<String>,
    pub(super) cost: Option<f64>,
    pub(super) turns: u32,
}

impl Known {
    pub(super) fn of(agent_id: &str, session: SessionId, state: &State) -> Self {
        let mut known = Self {
            agent_id: agent_id.to_owned(),
            session,
            agent: state.summary.agent.clone(),
            cwd: state.summary.cwd.display().to_string(),
            info: AgentInfo::default(),
            activity: None,
            cost: None,
            turns: 0,
        };
        known.take(state);
        known
    }

    pub(super) fn take(&mut self, state: &State) {
        self.info = state.agent.clone();
        self.info.model.clone_from(&state.summary.model);
        self.info.mode.clone_from(&state.summary.mode);
        self.info.mcp_servers = Some(state.mcp_servers.clone());
        if self.info.models.is_none() {
            self.info.models.clone_from(&state.capabilities.supported_models);
        }
        if self.info.commands.is_none() {
            self.info.commands.clone_from(&state.capabilities.supported_commands);
        }
        self.activity.clone_from(&state.activity);
        self.cost = state.summary.cost_usd;
        self.turns = state.summary.turns;
    }

    pub(super) fn learn(&mut self, info: &AgentInfo) {
        self.info.merge(info.clone());
    }

    pub(super) fn set(&mut self, setting: &Setting) {
        match setting {
            Setting::Model { model } => self.info.model.clone_from(model),
            Setting::Mode { mode } => self.info.mode = Some(mode.clone()),
            Setting::Thinking { .. } | Setting::Environment { .. } => {}
        }
    }

    pub(super) fn end_turn(&mut self, result: &TurnResult) {
        self.activity = None;
        if let Some(cost) = result.cost_usd {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
    }

    pub(super) fn is_compacting(&self) -> bool {
        self.activity.as_deref() == Some("compacting")
    }

    /// The whole snapshot; unknown values are left out.
    pub(super) fn snapshot(&self) -> Value {
        let info = &self.info;
        let mut out = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                out.insert(name.to_owned(), value);
            }
        };
        let texts =
            |list: &Option<Vec<String>>| list.as_ref().map(|list| json!(&list[..list.len().min(LIST)]));
        put("agentId", Some(json!(self.agent_id)));
        put("sessionId", Some(json!(self.session)));
        put("agent", Some(json!(self.agent)));
        put("cwd", Some(info.cwd.as_ref().map_or_else(|| json!(self.cwd), |cwd| json!(cwd))));
        put("model", info.model.as_ref().map(|model| json!(model)));
        put("permissionMode", info.mode.as_ref().map(|mode| json!(mode)));
        put("permissionModes", texts(&info.modes));
        put("version", info.version.as_ref().map(|version| json!(version)));
        put("cliSessionId", info.agent_session.as_ref().map(|id| json!(id)));
        put("tools", texts(&info.tools));
        put("agents", texts(&info.subagents));
        put("skills", texts(&info.skills));
        put("slashCommands", info.commands.as_deref().map(names));
        put("commands", info.commands.as_deref().map(commands));
        put("models", info.models.as_deref().map(models));
        put(
            "mcpServers",
            info.mcp_servers.as_ref().map(|servers| {
                servers
                    .iter()
                    .take(LIST)
                    .map(|server| json!({"name": server.name, "status": server.status}))
                    .collect()
            }),
        );
        put("plugins", info.plugins.as_ref().map(|plugins| json!(&plugins[..plugins.len().min(LIST)])));
        put("outputStyle", info.output_style.as_ref().map(|style| json!(style)));
        put("availableOutputStyles", texts(&info.output_styles));
        put("apiKeySource", info.api_key_source.as_ref().map(|source| json!(source)));
        put("fastMode", info.fast_mode.as_ref().map(|mode| json!(mode)));
        put(
            "account",
            info.account.as_ref().map(|account| {
                let all = [
                    ("email", &account.email),
                    ("organization", &account.organization),
                    ("subscriptionType", &account.subscription),
                    ("tokenSource", &account.token_source),
                ];
                all.into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))))
                    .collect()
            }),
        );
        put("totalCostUsd", self.cost.map(|cost| json!(cost)));
        put("numTurns", Some(json!(self.turns)));
        put("isCompacting", Some(json!(self.is_compacting())));
        Value::Object(out)
    }
}

fn names(commands: &[CommandInfo]) -> Value {
    commands.iter().take(LIST).map(|command| json!(command.name)).collect()
}

fn commands(commands: &[CommandInfo]) -> Value {
    let one = |command: &CommandInfo| {
        let mut one = json!({"name": command.name, "description": shown(&command.description, DESCRIPTION)});
        if let Some(hint) = &command.argument_hint {
            one["argumentHint"] = json!(shown(hint, DESCRIPTION));
        }
        one
    };
    commands.iter().take(LIST).map(one).collect()
}

fn models(models: &[ModelInfo]) -> Value {
    let one = |model: &ModelInfo| {
        let description = shown(model.description.as_deref().unwrap_or_default(), DESCRIPTION);
        json!({"value": model.id, "displayName": model.display_name, "description": description})
    };
    models.iter().take(LIST).map(one).collect()
}
