//! Profile: an agent's names for its tools, modes, models and commands. Data, one file per agent.
//!
//! The suite does not try what a profile leaves out, whatever the agent's capabilities say: the agent does not offer
//! the feature, or `untested` names the scenario.

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

/// An agent's names for things.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its kind, such as `claude`.
    pub agent: &'static str,
    /// Its display name.
    pub title: &'static str,
    /// How to install a version that runs the whole suite.
    pub install: &'static str,
    /// Its environment, given its home folder, the address of its model and the PATH to use. Nothing is inherited: a
    /// fake key, telemetry and updates off, and few retries so that errors come soon.
    pub environment: fn(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)>,
    /// Whether this text of a conversation is on disk, below the agent's home, by the agent's own session id. Agents
    /// write with a delay: an agent that is killed too soon has nothing to resume.
    pub saved: fn(home: &Path, agent_session: &str, words: &str) -> bool,
    /// Calls its shell.
    pub shell: fn(command: &str) -> Call,
    /// Calls its shell in a way that does not wait for the command.
    pub background: Option<fn(command: &str) -> Call>,
    /// Calls the tool that writes a file.
    pub write: fn(path: &Path, text: &str) -> Call,
    /// The names that people see for the shell and the tool that writes a file, if they differ from the model's names.
    pub shown_as: Option<Shown>,
    /// The effect of a denial.
    pub denial: Denial,
    /// A permission can be given for an edited input.
    pub edits_input: bool,
    /// Thinking is shown.
    pub shows_thinking: bool,
    /// What it reports of the model's cache.
    pub cache: CacheTold,
    /// It reports the cost of a turn without configured prices.
    pub tells_cost: bool,
    /// It reports how full the context is.
    pub tells_context: bool,
    /// It gives up on an unreachable model while this suite waits.
    pub gives_up: bool,
    /// Asks its user these questions.
    pub ask: Option<fn(&[Question]) -> Call>,
    /// Asks for approval of a plan.
    pub plan: Option<PlanCall>,
    /// Starts a subagent with a description and a prompt.
    pub subagent: Option<fn(description: &str, prompt: &str) -> Call>,
    /// How two requests can be open at once.
    pub two_at_once: Option<TwoAtOnce>,
    /// Gives the result that fits the schema.
    pub structured: Option<fn(Value) -> Call>,
    /// A tool of an MCP server, by the model's name for it.
    pub mcp_tool: Option<fn(server: &str, tool: &str) -> String>,
    /// An MCP server in the agent's own form, by its command line.
    pub mcp_server: fn(command: &[String]) -> Value,
    /// It reports the state of its MCP servers, and which of them asks.
    pub mcp_listed: bool,
    /// Its MCP servers can ask the user.
    pub mcp_asks: bool,
    /// The mode in which it asks, and the mode in which it changes files without asking.
    pub modes: Option<(&'static str, &'static str)>,
    /// A model other than its default.
    pub other_model: &'static str,
    /// The name of that model in the model's API, if it differs.
    pub other_model_asked: Option<&'static str>,
    /// A command that it answers itself.
    pub slash: Option<&'static str>,
    /// The command that makes the context smaller, and what the model then gets.
    pub compact: Option<(&'static str, &'static str)>,
    /// The command that makes it forget the conversation.
    pub clear: Option<&'static str>,
    /// The hook that holds it before it uses a tool.
    pub hook: Option<HookCall>,
    /// How much the model may think.
    pub thinking_budget: Option<ThinkingBudget>,
    /// Scenarios, by name, that the suite has no way to play with this agent, although the agent may well offer what
    /// they try.
    pub untested: &'static [&'static str],
}

/// Every profile.
const ALL: [Profile; 8] = [CLAUDE, CODEX, CLAUDE_AGENT_ACP, CODEX_ACP, GEMINI, QWEN, OPENCODE, GOOSE];

impl Profile {
    /// The profile of an agent kind, if there is one: agents without a profile cannot be tried against the scripted
    /// model.
    pub fn of(agent: &str) -> Option<Self> {
        ALL.into_iter().find(|profile| profile.agent == agent)
    }

    /// The name that people see for the shell.
    pub fn shell_name(&self) -> String {
        self.shown_as.map_or_else(|| (self.shell)("").name, |shown| shown.shell.to_owned())
    }

    /// The name that people see for the tool that writes a file.
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

/// The effect of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The model gets it, with the reason, and goes on.
    Reasoned,
    /// The model gets it, without a reason, and goes on.
    Plain,
    /// The turn ends.
    EndsTurn,
}

/// What an agent reports of the tokens in its model's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTold {
    /// Tokens read from it and tokens written to it.
    Both,
    /// Tokens read from it. Tokens written to it count as normally read.
    Read,
    /// Nothing: all tokens count as normally read.
    Nothing,
}

/// How an agent asks for approval of a plan.
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
    /// A model that has such a budget: some models decide for themselves.
    pub model: &'static str,
    /// The thinking budget in tokens, from the agent's request to the model.
    pub asked: fn(request: &Value) -> Option<u64>,
}

/// How two requests can be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoAtOnce {
    /// Two calls of one message ask at once.
    Calls,
    /// The same, and neither goes on before both are answered.
    CallsTogether,
    /// Only two subagents ask at once.
    Subagents,
}

/// Whether a file with this text, whose name contains `name`, is anywhere below `folder`. Any bytes: agents also keep
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

/// Writes a file of the agent, with its folders. If it cannot be written, every scenario fails with the error that the
/// agent knows no model.
fn put(path: &Path, text: &str) {
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(path, text);
}

/// The fake key: the scripted model takes any.
const KEY: &str = "fake-key-for-the-scripted-model";

/// An environment from fixed variables, plus the home and the PATH.
fn variables(home: &Path, path: OsString, fixed: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let own = [("HOME".into(), home.into()), ("PATH".into(), path), ("LANG".into(), "C.UTF-8".into())];
    fixed.iter().map(|(name, value)| (name.into(), value.into())).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn untested_scenarios_exist() {
        for profile in ALL {
            for name in profile.untested {
                assert!(Scenario::named(name).is_some(), "{}: {name}", profile.agent);
            }
        }
    }
}
