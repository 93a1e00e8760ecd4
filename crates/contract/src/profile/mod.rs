//! Profile: what an agent calls its tools, modes, models and commands. Data, one file per agent.
//!
//! What a profile leaves out, the agent does not offer, whatever its capabilities say.

mod acp;
mod claude;
pub mod codex;

use std::{ffi::OsString, path::Path};

use portolan_core::request::Question;
use portolan_scripted::Call;
use serde_json::Value;

pub use self::{
    acp::{CLAUDE_AGENT_ACP, CODEX_ACP, GEMINI, GOOSE, OPENCODE, QWEN},
    claude::CLAUDE,
    codex::CODEX,
};

/// What an agent calls things.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its kind, such as `claude`.
    pub agent: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// How to install a version that runs the whole suite.
    pub install: &'static str,
    /// Its environment, given its home folder, the address of its model and the PATH to use. Nothing is inherited:
    /// a key that opens nothing, telemetry and updates off, and few retries so that errors come soon.
    pub environment: fn(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)>,
    /// Are these words of a conversation on disk, below the agent's home, by the agent's own session id? Agents write
    /// behind what they say: one that is killed too soon has nothing to take up again.
    pub saved: fn(home: &Path, agent_session: &str, words: &str) -> bool,
    /// Calls its shell.
    pub shell: fn(command: &str) -> Call,
    /// Calls its shell in a way that does not wait for the command.
    pub background: Option<fn(command: &str) -> Call>,
    /// Calls the tool that writes a file.
    pub write: fn(path: &Path, text: &str) -> Call,
    /// What people are told that the shell and the tool that writes a file are called, where that is not what the model
    /// calls them.
    pub shown_as: Option<Shown>,
    /// What comes of a denial.
    pub denial: Denial,
    /// A permission can be given for another input than was asked for.
    pub edits_input: bool,
    /// Thinking is shown.
    pub shows_thinking: bool,
    /// What it tells of the model's cache.
    pub cache: CacheTold,
    /// It tells what a turn costs, without being told any prices.
    pub tells_cost: bool,
    /// It tells how full the context is.
    pub tells_context: bool,
    /// It gives up on a model that cannot be reached while this suite waits.
    pub gives_up: bool,
    /// Asks its user these questions.
    pub ask: Option<fn(&[Question]) -> Call>,
    /// Has a plan approved.
    pub plan: Option<PlanCall>,
    /// Starts a subagent with a description and a prompt.
    pub subagent: Option<fn(description: &str, prompt: &str) -> Call>,
    /// How two requests come to be open at once.
    pub two_at_once: Option<TwoAtOnce>,
    /// Gives the result that fits the schema.
    pub structured: Option<fn(Value) -> Call>,
    /// A tool of an MCP server, by the model's name for it.
    pub mcp_tool: Option<fn(server: &str, tool: &str) -> String>,
    /// An MCP server in the agent's own form, by its command line.
    pub mcp_server: fn(command: &[String]) -> Value,
    /// It tells how its MCP servers are, and which of them asks.
    pub mcp_listed: bool,
    /// Its MCP servers can ask the user.
    pub mcp_asks: bool,
    /// The mode in which it asks, and the one in which it does not ask before it changes files.
    pub modes: Option<(&'static str, &'static str)>,
    /// A model other than its default.
    pub other_model: &'static str,
    /// What the model's API calls that one, where it is not the same.
    pub other_model_asked: Option<&'static str>,
    /// A command that it answers itself.
    pub slash: Option<&'static str>,
    /// The command that makes the context smaller, and what the model is then told.
    pub compact: Option<(&'static str, &'static str)>,
    /// The command that makes it forget the conversation.
    pub clear: Option<&'static str>,
    /// The hook that stops it before it uses a tool.
    pub hook: Option<HookCall>,
    /// How much the model may think.
    pub thinking_budget: Option<ThinkingBudget>,
}

impl Profile {
    /// The profile of an agent kind, where there is one: those without cannot be tried against the scripted model.
    pub fn of(agent: &str) -> Option<Self> {
        [CLAUDE, CODEX, CLAUDE_AGENT_ACP, CODEX_ACP, GEMINI, QWEN, OPENCODE, GOOSE]
            .into_iter()
            .find(|profile| profile.agent == agent)
    }

    /// What people are told that the shell is called.
    pub fn shell_name(&self) -> String {
        self.shown_as.map_or_else(|| (self.shell)("").name, |shown| shown.shell.to_owned())
    }

    /// What people are told that the tool that writes a file is called.
    pub fn write_name(&self) -> String {
        self.shown_as.map_or_else(|| (self.write)(Path::new(""), "").name, |shown| shown.write.to_owned())
    }
}

/// Names of tools as people see them.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The shell.
    pub shell: &'static str,
    /// The tool that writes a file.
    pub write: &'static str,
}

/// What comes of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The model is told, with the reason, and goes on.
    Reasoned,
    /// The model is told, without a reason, and goes on.
    Plain,
    /// The turn ends.
    EndsTurn,
}

/// What an agent tells of the tokens that its model's cache held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTold {
    /// What was read from it and what was put into it.
    Both,
    /// What was read from it. What was put into it counts as read anew.
    Read,
    /// Nothing: all of it counts as read anew.
    Nothing,
}

/// How an agent has a plan approved.
#[derive(Clone, Copy, Debug)]
pub struct PlanCall {
    /// The mode in which it plans.
    pub mode: &'static str,
    /// The call that asks.
    pub call: fn(plan: &str) -> Call,
}

/// A hook before a tool is used.
#[derive(Clone, Copy, Debug)]
pub struct HookCall {
    /// The agent's name for it.
    pub event: &'static str,
    /// The output that lets the tool run without further questions.
    pub allow: fn() -> Value,
}

/// How much a model may think.
#[derive(Clone, Copy, Debug)]
pub struct ThinkingBudget {
    /// A model that has such a budget: some decide for themselves.
    pub model: &'static str,
    /// How many tokens it may think with, by the request that the agent makes to it.
    pub asked: fn(request: &Value) -> Option<u64>,
}

/// How two requests come to be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoAtOnce {
    /// Two calls of one message are asked for at once.
    Calls,
    /// The same, and neither goes on before both are answered.
    CallsTogether,
    /// Only two subagents ask at once.
    Subagents,
}

/// Is there a file with these words whose name contains `name`, anywhere below `folder`? Any bytes: agents also keep
/// conversations in databases.
fn on_disk(folder: &Path, name: &str, words: &str) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_string_lossy().contains(name)
                && std::fs::read(&path)
                    .is_ok_and(|bytes| memchr::memmem::find(&bytes, words.as_bytes()).is_some())
            {
                return true;
            }
        }
    }
    false
}

/// Writes a file of the agent's, with the folders it lies in. Where it cannot be written, every scenario fails and says
/// that the agent knows no model.
fn put(path: &Path, text: &str) {
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(path, text);
}

/// The fake key: the scripted model takes any.
const KEY: &str = "fake-key-for-the-scripted-model";

/// An environment from what is fixed, beside the home and the PATH.
fn variables(home: &Path, path: OsString, fixed: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let own = [("HOME".into(), home.into()), ("PATH".into(), path), ("LANG".into(), "C.UTF-8".into())];
    fixed.iter().map(|(name, value)| (name.into(), value.into())).chain(own).collect()
}
