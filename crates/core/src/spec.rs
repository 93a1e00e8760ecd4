//! The settings of a new session.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Tools that need no permission.
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

/// One option of [`SessionSpec`], for [`Capabilities::options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the field of SessionSpec with that name")]
pub enum SpecOption {
    Cwd,
    Prompt,
    Name,
    Model,
    Mode,
    Env,
    SystemPrompt,
    AllowedTools,
    DisallowedTools,
    McpServers,
    Subagents,
    Hooks,
    SettingSources,
    ExtraDirs,
    MaxTurns,
    MaxBudgetUsd,
    JsonSchema,
    Resume,
    Fork,
}

impl SpecOption {
    /// Every option.
    pub const ALL: [Self; 19] = [
        Self::Cwd,
        Self::Prompt,
        Self::Name,
        Self::Model,
        Self::Mode,
        Self::Env,
        Self::SystemPrompt,
        Self::AllowedTools,
        Self::DisallowedTools,
        Self::McpServers,
        Self::Subagents,
        Self::Hooks,
        Self::SettingSources,
        Self::ExtraDirs,
        Self::MaxTurns,
        Self::MaxBudgetUsd,
        Self::JsonSchema,
        Self::Resume,
        Self::Fork,
    ];
}

/// The tools with which an agent asks its user. They stay allowed whatever the settings disallow: an agent that may not
/// ask would guess.
const ASKING_TOOLS: &[&str] = &["AskUserQuestion"];

/// Replaces a possible secret in the log.
pub const MASK: &str = "•••";

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
            return invalid("max_budget_usd must be above zero".into());
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
        if let Some(value) = self.env.values().find(|value| value.contains('\0')) {
            return invalid(format!("an environment value of {} bytes holds a NUL", value.len()));
        }
        self.disallowed_tools.retain(|tool| !ASKING_TOOLS.contains(&tool.as_str()));
        Ok(self)
    }
}

/// The harmless settings of an MCP server, by their names in all agents' forms. Arguments are not harmless: they often
/// hold a key. Nor is the path of an address: some services put the key there.
enum Setting {
    /// The kind of server.
    Sort,
    /// The server's program.
    Program,
    /// The server's address.
    Address,
    /// A switch or a number.
    Plain,
    /// Names of environment variables that hold the secret.
    Variables,
    /// Names of servers and tools.
    Names,
    /// Anything else.
    Hidden,
}

impl Setting {
    fn of(name: &str) -> Self {
        match name {
            "type" | "transport" => Self::Sort,
            "command" => Self::Program,
            "url" | "httpUrl" | "serverUrl" => Self::Address,
            "timeout"
            | "startup_timeout_sec"
            | "startup_timeout_ms"
            | "tool_timeout_sec"
            | "enabled"
            | "disabled"
            | "required"
            | "trust" => Self::Plain,
            "bearer_token_env_var" | "env_http_headers" | "env_vars" => Self::Variables,
            "name" | "enabled_tools" | "disabled_tools" | "includeTools" | "excludeTools" => Self::Names,
            _ => Self::Hidden,
        }
    }
}

/// The kinds of servers that agents know.
const SORTS: &[&str] = &[
    "stdio",
    "local",
    "http",
    "remote",
    "sse",
    "streamable-http",
    "streamable_http",
    "ws",
    "websocket",
    "sdk",
];

/// Masks every value of an MCP server's configuration that is not known to be harmless. Names of settings, variables
/// and headers stay, and so do the program and the host of an address.
pub fn mask_server(config: &mut Value) {
    let Value::Object(settings) = config else { return mask_all(config) };
    for (name, value) in settings {
        match (Setting::of(name), &mut *value) {
            (Setting::Sort, Value::String(sort)) if SORTS.contains(&sort.as_str()) => {}
            // A group of settings: the same rules apply inside.
            (Setting::Sort, Value::Object(_)) => mask_server(value),
            (Setting::Program, Value::String(line)) => mask_arguments(line),
            (Setting::Program, Value::Array(words)) => {
                words.iter_mut().skip(1).for_each(mask_all);
                match words.first_mut() {
                    Some(Value::String(program)) => mask_arguments(program),
                    Some(other) => mask_all(other),
                    None => {}
                }
            }
            (Setting::Address, Value::String(address)) => mask_address(address),
            (Setting::Plain, Value::Bool(_) | Value::Number(_)) => {}
            // Elsewhere an object holds variables by name, and its values may be secrets.
            (Setting::Variables, Value::Object(_)) if name != "env_http_headers" => mask_all(value),
            (Setting::Variables, value) => mask_all_but_variables(value),
            (Setting::Names, Value::String(_)) => {}
            (Setting::Names, Value::Array(items)) => {
                items.iter_mut().filter(|item| !item.is_string()).for_each(mask_all);
            }
            (_, value) => mask_all(value),
        }
    }
}

/// Keeps the first word of a command line.
fn mask_arguments(line: &mut String) {
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    // A variable may come before the program.
    if line[..end].contains('=') {
        return MASK.clone_into(line);
    }
    if end < line.len() {
        line.truncate(end);
        line.push(' ');
        line.push_str(MASK);
    }
}

/// Keeps variable names, which are usually in capitals, and masks a value after `=`.
fn mask_all_but_variables(value: &mut Value) {
    let is_name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        !text.is_empty() && text.bytes().all(plain)
    };
    match value {
        Value::String(text) if is_name(text) => {}
        Value::String(text) => {
            let name = text.split_once('=').map(|(name, _)| name).filter(|name| is_name(name));
            *text = name.map_or_else(|| MASK.to_owned(), |name| format!("{name}={MASK}"));
        }
        Value::Array(values) => values.iter_mut().for_each(mask_all_but_variables),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| mask_all_but_variables(value)),
        other => mask_all(other),
    }
}

/// Masks every value, and keeps the structure and the names. Some agents use a list of variables or headers in which
/// the name is a value.
fn mask_all(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let named = fields.contains_key("value");
            fields
                .iter_mut()
                .filter(|(name, _)| !(named && *name == "name"))
                .for_each(|(_, it)| mask_all(it));
        }
        Value::Array(values) => values.iter_mut().for_each(mask_all),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => *value = Value::from(MASK),
    }
}

/// Keeps the scheme and host of an address.
fn mask_address(address: &mut String) {
    let Some((scheme, rest)) = address.split_once("://") else { return MASK.clone_into(address) };
    let (authority, beyond) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(_, host)| (MASK, host));
    let user_end = if user.is_empty() { "" } else { "@" };
    let beyond = match beyond.chars().next() {
        Some(sign) if beyond.len() > 1 => format!("{sign}{MASK}"),
        _ => beyond.to_owned(),
    };
    *address = format!("{scheme}://{user}{user_end}{host}{beyond}");
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

    // Secrets in a list, in other headers and in an address were once shown to viewers.
    #[test]
    fn every_setting_of_an_mcp_server_that_is_not_known_to_be_harmless_is_masked() {
        use serde_json::json;
        for (written, shown) in [
            (
                json!({"type": "http", "url": "https://u:hunter2@h.example:8/p/q?k=hunter2#hunter2"}),
                json!({"type": "http", "url": format!("https://{MASK}@h.example:8/{MASK}")}),
            ),
            (
                json!({"url": "https://a@hunter2@h.example/p", "http_headers": {"X-Key": "hunter2"},
                       "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-Org": "ORG"}, "tool_timeout_sec": 5}),
                json!({"url": format!("https://{MASK}@h.example/{MASK}"), "http_headers": {"X-Key": MASK},
                       "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-Org": "ORG"}, "tool_timeout_sec": 5}),
            ),
            (
                json!({"command": "run", "args": ["--key", "hunter2"], "env": [{"name": "TOKEN", "value": "hunter2"}]}),
                json!({"command": "run", "args": [MASK, MASK], "env": [{"name": "TOKEN", "value": MASK}]}),
            ),
            (
                json!({"type": "local", "command": ["run", "hunter2"], "environment": {"PIN": 1234}}),
                json!({"type": "local", "command": ["run", MASK], "environment": {"PIN": MASK}}),
            ),
            (
                json!({"oauth": {"client": {"secret": "hunter2", "name": "hunter2"}}, "env": ["TOKEN=hunter2"]}),
                json!({"oauth": {"client": {"secret": MASK, "name": MASK}}, "env": [MASK]}),
            ),
            (
                json!({"transport": {"type": "sse", "headers": {"X-Key": "hunter2"}, "url": "https://u:hunter2@h.example/"}}),
                json!({"transport": {"type": "sse", "headers": {"X-Key": MASK}, "url": format!("https://{MASK}@h.example/")}}),
            ),
            (
                json!({"enabled_tools": ["look", {"key": "hunter2"}], "name": ["harbour"]}),
                json!({"enabled_tools": ["look", {"key": MASK}], "name": ["harbour"]}),
            ),
            (json!({"url": "hunter2"}), json!({"url": MASK})),
            (
                json!({"url": "https://h.example#hunter2"}),
                json!({"url": format!("https://h.example#{MASK}")}),
            ),
            (
                json!({"url": "https://h.example/api/hunter2/mcp", "command": "run --key hunter2", "cwd": "/hunter2",
                       "timeout": "hunter2", "type": "hunter2", "env_vars": ["A", "K=hunter2"]}),
                json!({"url": format!("https://h.example/{MASK}"), "command": format!("run {MASK}"), "cwd": MASK,
                       "timeout": MASK, "type": MASK, "env_vars": ["A", format!("K={MASK}")]}),
            ),
            (
                json!({"env_http_headers": {"X-Key": "hunter2"}, "enabled": true, "env_vars": {"A": "HUNTER2"},
                       "bearer_token_env_var": "ghp_hunter2", "command": "KEY=hunter2 run"}),
                json!({"env_http_headers": {"X-Key": MASK}, "enabled": true, "env_vars": {"A": MASK},
                       "bearer_token_env_var": MASK, "command": MASK}),
            ),
            (json!({"command": "run\u{a0}hunter2"}), json!({"command": format!("run {MASK}")})),
            (json!({"command": [{"a": "hunter2"}]}), json!({"command": [{"a": MASK}]})),
            (json!("hunter2"), json!(MASK)),
        ] {
            let mut masked = written;
            mask_server(&mut masked);
            assert_eq!(masked, shown);
        }
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
