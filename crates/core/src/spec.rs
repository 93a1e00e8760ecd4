//! The settings of a new session.

mod mask;
mod option;

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    mask::{MASK, mask_server},
    option::SpecOption,
};
use crate::{Capabilities, Refusal, RefusalCode, Seq, SessionId, event::Content, policy::BudgetTerms};

/// Where a fork begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ForkPoint {
    /// The session to fork.
    pub session: SessionId,
    /// The last entry that both share; the newest entry when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional), schemars(extend("minimum" = 1)))]
    pub at: Option<Seq>,
}

/// Instructions for the agent before every prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "how", content = "text", rename_all = "snake_case")]
pub enum SystemPrompt {
    /// Replaces the agent's own system prompt.
    Replace(String),
    /// Follows the agent's own system prompt.
    Append(String),
}

/// A subagent that the agent may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct SubagentDefinition {
    /// When to use the subagent.
    pub description: String,
    /// The subagent's system prompt.
    pub prompt: String,
    /// The subagent's tools; all tools when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub tools: Option<Vec<String>>,
    /// The subagent's model; the session's model when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub model: Option<String>,
}

/// A hook for which the agent asks its clients: an event name and a filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct HookDefinition {
    /// The agent's name for the event, such as `PreToolUse`.
    pub event: String,
    /// The tools that trigger the hook; all tools when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub matcher: Option<String>,
    /// The number of seconds after which the agent continues without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub timeout_seconds: Option<u32>,
}

/// The settings of a new session. A setting that the agent does not support is refused, never ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// The agent kind, such as `demo` or `claude`.
    pub agent: String,
    /// The session's folder.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(type = "string"), schemars(schema_with = "crate::shape::folder"))]
    pub cwd: PathBuf,
    /// The first prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::prompt"))]
    pub prompt: Vec<Content>,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional), schemars(length(max = 200)))]
    pub name: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub mode: Option<String>,
    /// Environment variables in addition to the user's own.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::variables"))]
    pub env: IndexMap<String, String>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub system_prompt: Option<SystemPrompt>,
    /// Tools that need no permission, as texts of rules. In a request to create a session, the agent's own spelling is
    /// also understood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that the agent may not use. The tool that asks the user is always allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// MCP servers by name, in the agent's own form.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub mcp_servers: IndexMap<String, Value>,
    /// Subagents by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub subagents: IndexMap<String, SubagentDefinition>,
    /// Hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookDefinition>,
    /// The kinds of settings files that the agent reads; the agent's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub setting_sources: Option<Vec<String>>,
    /// Folders that the agent may use in addition to `cwd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "schema",
        ts(type = "Array<string>"),
        schemars(schema_with = "crate::shape::folders")
    )]
    pub extra_dirs: Vec<PathBuf>,
    /// The step limit of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub max_turns: Option<u32>,
    /// The cost limit of a turn, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional), schemars(extend("exclusiveMinimum" = 0)))]
    pub max_budget_usd: Option<f64>,
    /// A JSON Schema that the result must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub json_schema: Option<Value>,
    /// Nobody answers: what no rule and no mode allows is denied at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// A request that nobody answers for this many seconds is denied; 0 for never, and the configuration's value when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub deadline_seconds: Option<u32>,
    /// The session's own budget. Portolan enforces it for every agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub budget: Option<BudgetTerms>,
    /// Resume this conversation: the agent's own session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub resume: Option<String>,
    /// Fork this session of Portolan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub fork: Option<ForkPoint>,
}

/// The tools with which an agent asks its user. They stay allowed whatever the settings disallow: an agent that may not
/// ask would guess.
const ASKING_TOOLS: &[&str] = &["AskUserQuestion"];

/// The longest name of a session, in characters.
pub const MAX_NAME: usize = 200;

impl SessionSpec {
    /// The settings as the log shows them to everyone: without values that may be secrets.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut shown = self.clone();
        for value in shown.env.values_mut() {
            MASK.clone_into(value);
        }
        shown.mcp_servers.values_mut().for_each(mask_server);
        shown
    }

    /// The options that these settings use.
    pub fn used(&self) -> Vec<SpecOption> {
        use SpecOption as O;
        let used = |option, is_used: bool| is_used.then_some(option);
        [
            used(O::Cwd, !self.cwd.as_os_str().is_empty()),
            used(O::Prompt, !self.prompt.is_empty()),
            used(O::Name, self.name.is_some()),
            used(O::Model, self.model.is_some()),
            used(O::Mode, self.mode.is_some()),
            used(O::Env, !self.env.is_empty()),
            used(O::SystemPrompt, self.system_prompt.is_some()),
            used(O::AllowedTools, !self.allowed_tools.is_empty()),
            used(O::DisallowedTools, !self.disallowed_tools.is_empty()),
            used(O::McpServers, !self.mcp_servers.is_empty()),
            used(O::Subagents, !self.subagents.is_empty()),
            used(O::Hooks, !self.hooks.is_empty()),
            used(O::SettingSources, self.setting_sources.is_some()),
            used(O::ExtraDirs, !self.extra_dirs.is_empty()),
            used(O::MaxTurns, self.max_turns.is_some()),
            used(O::MaxBudgetUsd, self.max_budget_usd.is_some()),
            used(O::JsonSchema, self.json_schema.is_some()),
            used(O::Resume, self.resume.is_some()),
            used(O::Fork, self.fork.is_some()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Checks the settings against the agent's capabilities, and removes the asking tools from the disallowed tools.
    pub fn admit(mut self, capabilities: &Capabilities) -> Result<Self, Refusal> {
        for option in self.used() {
            if !capabilities.options.contains(&option) {
                let name = serde_json::to_value(option).unwrap_or_default();
                let name = name.as_str().unwrap_or_default();
                return Err(Refusal::new(
                    RefusalCode::Unsupported,
                    format!("the agent `{}` does not support the option `{name}`", self.agent),
                ));
            }
        }
        let invalid = |why: String| Err(Refusal::new(RefusalCode::Invalid, why));
        if self.name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
            return invalid(format!("a name has at most {MAX_NAME} characters"));
        }
        if self.max_budget_usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
            return invalid("`max_budget_usd` must be above zero".into());
        }
        if let Some(Err(why)) = self.budget.map(|budget| budget.limits.check()) {
            return invalid(why);
        }
        if !self.prompt.is_empty() {
            crate::prompt::check(&self.prompt)?;
        }
        self.mode.as_ref().map_or(Ok(()), |mode| capabilities.has_mode(mode))?;
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return invalid(format!(
                    "`{}` cannot be the name of an environment variable",
                    name.escape_debug()
                ));
            }
        }
        if let Some((name, _)) = self.env.iter().find(|(_, value)| value.contains('\0')) {
            return invalid(format!(
                "the value of the environment variable `{}` contains NUL; remove the NUL",
                name.escape_debug()
            ));
        }
        self.disallowed_tools.retain(|tool| !ASKING_TOOLS.contains(&tool.as_str()));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_spec_holds_no_secret_value() {
        let spec: SessionSpec = serde_json::from_value(serde_json::json!({
            "agent": "x", "env": {"API_KEY": "hunter2"},
            "mcp_servers": {"a": {"command": "run", "env": {"T": "hunter2"}, "headers": {"H": "hunter2"},
                                  "url": "http://localhost/?key=hunter2"}},
        }))
        .unwrap();
        let shown = serde_json::to_string(&spec.masked()).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("API_KEY") && shown.contains("run"), "{shown}");
    }

    fn everything() -> Capabilities {
        Capabilities { options: SpecOption::ALL.to_vec(), ..Capabilities::default() }
    }

    // covers: 002-049
    #[test]
    fn asking_the_user_is_never_disallowed() {
        let spec = SessionSpec {
            agent: "x".into(),
            disallowed_tools: vec!["Bash".into(), "AskUserQuestion".into()],
            ..SessionSpec::default()
        };
        assert_eq!(spec.admit(&everything()).unwrap().disallowed_tools, ["Bash"]);
    }

    #[test]
    fn an_option_the_agent_lacks_is_refused_by_name() {
        let spec = SessionSpec { agent: "x".into(), model: Some("m".into()), ..SessionSpec::default() };
        let refusal = spec.admit(&Capabilities::default()).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Unsupported);
        assert!(refusal.message.contains("`model`"), "{}", refusal.message);
    }

    #[test]
    fn every_field_of_a_spec_is_an_option() {
        let filled = serde_json::json!({
            "agent": "x", "cwd": "/", "prompt": [{"type": "text", "text": "hi"}], "name": "n", "model": "m",
            "mode": "d", "env": {"A": "1"}, "system_prompt": {"how": "append", "text": "t"},
            "allowed_tools": ["a"], "disallowed_tools": ["b"], "mcp_servers": {"s": {}},
            "subagents": {"r": {"description": "d", "prompt": "p"}}, "hooks": [{"event": "Stop"}],
            "setting_sources": ["user"], "extra_dirs": ["/"], "max_turns": 1, "max_budget_usd": 1.0,
            "json_schema": {}, "resume": "id", "fork": {"session": SessionId::from_u128(1)},
        });
        let fields = filled.as_object().unwrap().len();
        let spec: SessionSpec = serde_json::from_value(filled).unwrap();
        assert_eq!(spec.used(), SpecOption::ALL);
        assert_eq!(fields - 1, SpecOption::ALL.len(), "every field but `agent` is an option");
    }
}
