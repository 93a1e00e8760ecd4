//! What to start for a Claude Code session: arguments, environment, and the first message.
//!
//! Everyone on the machine can read a command line: prompts, subagents, hooks and MCP servers are sent as messages
//! instead.

use std::{
    ffi::OsString,
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use portolan_core::{event::ResetReason, ports::Launch, spec::SystemPrompt};
use serde_json::{Value, json};

use super::{
    Config, KIND, Version, Way,
    history::{self, Home},
    names,
    requests::RULES,
    translate::{Repeats, Setup},
    version,
};
use crate::{
    Environment, Supervision,
    child::{Program, environment as variables},
    dial_in::Expected,
    prices::Prices,
};

/// The mode of a session that names none: Claude Code asks before it acts. By itself, 2.1.290 begins in `auto` if it
/// has a key and an empty home, and runs commands without asking.
const ASKS: &str = "default";

/// The mode that asks nothing.
const BYPASS: &str = "bypassPermissions";

/// Lifts the CLI's refusal to bypass permissions as root: only the person who set up a sandbox may set it.
const SANDBOX: &str = "IS_SANDBOX";

/// Marks of an outer Claude Code, which would change the behaviour of this one.
const OUTER: &[&str] = &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", SECRET];

/// The variable with the bearer token of the CLI's connection.
const SECRET: &str = "CLAUDE_CODE_SESSION_ACCESS_TOKEN";

/// The variables that Portolan sets for every session, and why.
const OURS: &[(&str, &str)] = &[
    // The CLI behaves as under the vendor's own SDK, whose protocol this is.
    ("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"),
    // Without it no file can be rewound.
    ("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "1"),
];

/// The program and its first arguments.
pub(super) fn command(config: &Config) -> Vec<OsString> {
    if config.command.is_empty() { vec!["claude".into()] } else { config.command.clone() }
}

/// The user's environment less marks of an outer Claude Code, plus the session's and Portolan's variables.
pub(super) fn environment(
    supervision: &Supervision,
    asked: &IndexMap<String, String>,
) -> Result<Environment, String> {
    let mut environment =
        variables::environment(&supervision.environment, asked).map_err(|refused| refused.to_string())?;
    environment.variables.retain(|(name, _)| {
        let name = name.to_string_lossy();
        let ours = OURS.iter().any(|(ours, _)| *ours == name) && !asked.contains_key(&*name);
        !ours && !OUTER.contains(&&*name)
    });
    for (name, value) in OURS {
        if !asked.contains_key(*name) {
            environment.variables.push((name.into(), value.into()));
        }
    }
    environment.variables.sort();
    Ok(environment)
}

/// As root the CLI bypasses permissions only in a sandbox, and ends with an error otherwise.
pub(super) fn may_bypass(
    mode: Option<&str>,
    asked: &IndexMap<String, String>,
    supervision: &Supervision,
) -> Result<(), String> {
    let is_set = |value: &str| value == "1";
    let sandboxed = asked.get(SANDBOX).is_some_and(|value| is_set(value))
        || supervision.environment.iter().any(|(name, value)| name == SANDBOX && value == "1");
    if mode != Some(BYPASS) || !rustix::process::geteuid().is_root() || sandboxed {
        return Ok(());
    }
    Err(format!(
        "Claude Code does not take the mode `{BYPASS}` as root; run the daemon as another user, or set \
         `{SANDBOX}=1` in a sandbox"
    ))
}

/// A session's own conversation that is to be resumed but was never written to disk: it begins again from nothing, with
/// a notice, because the CLI would refuse for ever. If a client asked for a conversation by its id, the CLI refuses it.
pub(super) async fn without_lost_conversation(
    launch: Launch,
    supervision: &Supervision,
) -> (Launch, Option<ResetReason>) {
    let own = launch.resume.as_ref().filter(|point| !point.fork && launch.generation.0 > 1);
    let Some(session) = own.map(|point| point.agent_session.clone()) else { return (launch, None) };
    let Ok(environment) = environment(supervision, &launch.spec.env) else { return (launch, None) };
    let home = history::home(&environment.variables, &supervision.home_key);
    let holds = tokio::task::spawn_blocking(move || home.is_none_or(|home| home.holds(&session)));
    if holds.await.unwrap_or(true) {
        return (launch, None);
    }
    (Launch { resume: None, ..launch }, Some(ResetReason::Lost))
}

/// A running CLI writes its conversation to disk about 100 ms after a message; a busy machine takes longer.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3);

/// The line that ends a message in the conversation's file, after it is written.
async fn written_line(home: Home, session: &str, message: &str) -> Option<String> {
    let deadline = Instant::now() + WRITTEN_WITHIN;
    let mut pause = Duration::from_millis(50);
    loop {
        let (home, session, message) = (home.clone(), session.to_owned(), message.to_owned());
        let found = tokio::task::spawn_blocking(move || home.line_of(&session, &message));
        let found = found.await.ok().flatten();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        tokio::time::sleep(pause).await;
        // Long conversations take long to read.
        pause *= 2;
    }
}

/// Everything that a start depends on.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) launch: &'a Launch,
    pub(super) version: Option<Version>,
    pub(super) config: &'a Config,
    pub(super) supervision: &'a Supervision,
}

impl Plan<'_> {
    /// The program to start.
    pub(super) async fn program(&self, expected: Option<&Expected>) -> Result<Program, String> {
        let spec = &self.launch.spec;
        may_bypass(spec.mode.as_deref(), &spec.env, self.supervision)?;
        let mut environment = environment(self.supervision, &spec.env)?;
        self.require_unheld(&environment).await?;
        if let Some(expected) = expected {
            environment.variables.push((SECRET.into(), expected.secret.reveal().into()));
            environment.variables.sort();
        }
        let at = self.fork_point(&environment).await?;
        let mut command = command(self.config);
        command.extend(self.arguments(expected.map(|expected| expected.url.as_str()), at));
        Ok(Program { agent: KIND.into(), command, folder: spec.cwd.clone(), environment })
    }

    /// Refuses to resume a conversation that another program has open.
    async fn require_unheld(&self, environment: &Environment) -> Result<(), String> {
        let Some(point) = self.launch.resume.as_ref().filter(|point| !point.fork) else { return Ok(()) };
        let home = history::home(&environment.variables, &self.supervision.home_key);
        let session = point.agent_session.clone();
        let holder = tokio::task::spawn_blocking(move || home?.held_by(&session)).await.ok().flatten();
        holder.map_or(Ok(()), |process| {
            Err(format!(
                "the process {process} has this conversation open, and two programs in one conversation do not see \
                 each other's messages; end that process and resume, or fork this session"
            ))
        })
    }

    /// The CLI forks at one of its own uuids, which only its file has; the log knows messages by the model's id.
    async fn fork_point(&self, environment: &Environment) -> Result<Option<String>, String> {
        let Some(point) = &self.launch.resume else { return Ok(None) };
        let Some(message) = point.at_message.as_ref().or(point.last_message.as_ref()) else {
            return Ok(None);
        };
        let found = match history::home(&environment.variables, &self.supervision.home_key) {
            Some(home) => written_line(home, &point.agent_session, message).await,
            None => None,
        };
        match (&point.at_message, found) {
            (Some(_), Some(line)) => Ok(Some(line)),
            (Some(_), None) => Err("the conversation to fork no longer has that message".into()),
            // The whole conversation; a missing line will not come later.
            (None, _) => Ok(None),
        }
    }

    fn arguments(&self, dial: Option<&str>, at: Option<String>) -> Vec<OsString> {
        let spec = &self.launch.spec;
        let mut arguments = Arguments::default();
        match dial {
            Some(url) => arguments.pair("--sdk-url", url).flag("--print"),
            None => arguments.pair("--permission-prompt-tool", "stdio"),
        };
        arguments.pair("--output-format", "stream-json").pair("--input-format", "stream-json");
        arguments.flag("--verbose").flag("--include-partial-messages");
        if !self.version.is_some_and(Version::tells_of_prompts) {
            arguments.flag("--replay-user-messages");
        }
        arguments.optional("--model", spec.model.as_deref()).pair("--permission-mode", self.mode());
        if self.mode() == BYPASS {
            arguments.flag("--allow-dangerously-skip-permissions");
        }
        arguments
            .list("--allowedTools", &spec.allowed_tools)
            .list("--disallowedTools", &spec.disallowed_tools);
        if let Some(sources) = &spec.setting_sources {
            arguments.pair("--setting-sources", sources.join(","));
        }
        for folder in &spec.extra_dirs {
            arguments.pair("--add-dir", folder);
        }
        arguments.optional("--max-turns", spec.max_turns.map(|turns| turns.to_string()));
        arguments.optional("--max-budget-usd", spec.max_budget_usd.map(|budget| budget.to_string()));
        arguments.optional("--json-schema", spec.json_schema.as_ref().map(Value::to_string));
        let own = names::conversation(self.launch.session, self.launch.generation);
        match &self.launch.resume {
            None => {
                arguments.pair("--session-id", own);
            }
            Some(point) => {
                arguments.pair("--resume", &point.agent_session);
                if point.fork {
                    arguments.flag("--fork-session").pair("--session-id", own);
                }
                arguments.optional("--resume-session-at", at);
            }
        }
        if dial.is_some() {
            // Ignored, but without it the CLI waits for a prompt on stdin.
            arguments.pair("-p", "");
        }
        arguments.0
    }

    /// The mode to begin in.
    fn mode(&self) -> &str {
        self.launch.spec.mode.as_deref().unwrap_or(ASKS)
    }

    /// What the conversation begins with.
    pub(super) fn setup(&self, way: Way) -> Setup {
        let spec = &self.launch.spec;
        let (served, servers): (Vec<_>, Vec<_>) =
            spec.mcp_servers.iter().partition(|(_, server)| is_served(server));
        Setup {
            session: self.launch.session,
            generation: self.launch.generation,
            folder: spec.cwd.clone(),
            version: self.version,
            initialize: self.initialize(),
            servers: servers.into_iter().map(|(name, server)| (name.clone(), server.clone())).collect(),
            served: served.into_iter().map(|(name, _)| name.clone()).collect(),
            mode: self.mode().to_owned(),
            modes: version::modes(self.version),
            prices: Prices::new(self.config.prices.clone()),
            patience: self.supervision.answer,
            repeats: match way {
                Way::Stdio => Repeats::Never,
                Way::Websocket => Repeats::AfterReconnect,
            },
            reset: None,
        }
    }

    /// The first message: everything that must not or cannot be on a command line.
    fn initialize(&self) -> Value {
        let spec = &self.launch.spec;
        let mut request = json!({ "subtype": "initialize" });
        if self.version.is_none_or(Version::forwards_subagents) {
            // Without it only the caller sees a subagent's messages.
            request["forwardSubagentText"] = json!(true);
        }
        match &spec.system_prompt {
            None => {}
            Some(SystemPrompt::Append(text)) => request["appendSystemPrompt"] = json!(text),
            Some(SystemPrompt::Replace(text)) => {
                let in_pieces = self.version.is_none_or(Version::takes_system_prompt_in_pieces);
                request["systemPrompt"] = if in_pieces { json!([text]) } else { json!(text) };
            }
        }
        if !spec.subagents.is_empty() {
            request["agents"] = json!(spec.subagents);
        }
        let mut hooks: IndexMap<&str, Vec<Value>> = IndexMap::new();
        for (number, hook) in spec.hooks.iter().enumerate() {
            let mut entry = json!({ "hookCallbackIds": [format!("hook-{number}")] });
            if let Some(matcher) = &hook.matcher {
                entry["matcher"] = json!(matcher);
            }
            if let Some(seconds) = hook.timeout_seconds {
                entry["timeout"] = json!(seconds);
            }
            hooks.entry(&hook.event).or_default().push(entry);
        }
        // For the calls that the CLI makes without asking. Always set: rules can be added while the session runs.
        hooks.entry("PreToolUse").or_default().push(json!({ "hookCallbackIds": [RULES] }));
        request["hooks"] = json!(hooks);
        let served: Vec<_> = spec.mcp_servers.iter().filter(|(_, server)| is_served(server)).collect();
        if !served.is_empty() {
            request["sdkMcpServers"] = served.into_iter().map(|(name, _)| json!(name)).collect();
        }
        request
    }
}

/// A server that the client serves, not a process or an address.
fn is_served(server: &Value) -> bool {
    server["type"] == "sdk"
}

/// A command line under construction.
#[derive(Debug, Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, name: &str) -> &mut Self {
        self.0.push(name.into());
        self
    }

    fn pair(&mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> &mut Self {
        let value = value.as_ref();
        let looks_like_a_flag = value.as_encoded_bytes().starts_with(b"-") && name.starts_with("--");
        if looks_like_a_flag {
            // A value must never be read as a flag: it is joined to its name.
            let mut bound = OsString::from(name);
            bound.push("=");
            bound.push(value);
            self.0.push(bound);
        } else {
            self.0.push(name.into());
            self.0.push(value.into());
        }
        self
    }

    fn optional(&mut self, name: &str, value: Option<impl AsRef<std::ffi::OsStr>>) -> &mut Self {
        if let Some(value) = value {
            self.pair(name, value);
        }
        self
    }

    fn list(&mut self, name: &str, values: &[String]) -> &mut Self {
        if !values.is_empty() {
            self.pair(name, values.join(","));
        }
        self
    }
}
