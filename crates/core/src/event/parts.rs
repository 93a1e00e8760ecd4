//! The parts of events: content, tools, results, errors and what agents tell about themselves.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Capabilities,
    capabilities::{CommandInfo, ModelInfo},
    usage::{ByModel, TokenUsage},
};

/// What an item will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// Text of the agent.
    Text,
    /// Its thinking.
    Thinking,
    /// A tool's input, as JSON text.
    ToolInput,
    /// A tool's output while it runs; the item's name is the call's.
    ToolOutput,
}

/// What sort of tool, so that a frontend can show it well without knowing every agent's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Runs a command.
    Execute,
    /// Reads.
    Read,
    /// Changes files.
    Edit,
    /// Searches.
    Search,
    /// Fetches from a network.
    Fetch,
    /// Starts a subagent.
    Subagent,
    /// Thinks, plans, keeps a list.
    Think,
    /// A tool of an MCP server.
    Mcp,
    /// None of these, or unknown.
    #[default]
    #[serde(other)]
    Other,
}

/// How a tool or a subagent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did what it was called for.
    Done,
    /// It failed.
    Failed,
    /// It was not allowed.
    Denied,
    /// It was cut off.
    Interrupted,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text, usually Markdown.
    Text {
        /// The text.
        text: String,
    },
    /// What the agent thought.
    Thinking {
        /// The text.
        text: String,
    },
    /// What it thought, but does not show.
    RedactedThinking,
    /// A picture.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// A file or another thing with an address.
    Resource {
        /// Its address.
        uri: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        name: Option<String>,
        /// Its text, where told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        text: Option<String>,
    },
    /// Something structured.
    Data {
        /// All of it.
        data: Value,
    },
    /// A piece in a form that Portolan does not know; kept as it came.
    Other {
        /// All of it.
        body: Value,
    },
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The plain text of some content, pieces joined by line ends.
pub fn plain_text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A change to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct FileChange {
    /// Which file.
    pub path: String,
    /// What is done to it.
    pub change: ChangeKind,
    /// Where it was before, where it gets another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub from: Option<String>,
    /// The unified diff, where known. What stands behind the numbers of a hunk says what its lines cannot: that every
    /// occurrence is replaced, or which cell of a notebook it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub diff: Option<String>,
    /// How much the diff would hold, where it is too large to be told. What is asked for then stands in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub left_out: Option<LeftOut>,
}

/// A diff that is too large to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct LeftOut {
    /// Lines it adds.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub added: u64,
    /// Lines it removes.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub removed: u64,
    /// Its length.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub bytes: u64,
}

/// The largest diff that is told. Beyond it people read the file.
const LARGEST_DIFF: usize = 256 * 1024;

impl FileChange {
    /// A change with the hunks of its diff; those that are too large are counted.
    pub fn new(path: impl Into<String>, change: ChangeKind, hunks: &str) -> Self {
        Self { path: path.into(), change, from: None, diff: None, left_out: None }.with(hunks)
    }

    /// A file that gets another name, with the hunks of what else changes in it.
    pub fn renamed(from: impl Into<String>, to: impl Into<String>, hunks: &str) -> Self {
        let from = Some(from.into());
        Self { path: to.into(), change: ChangeKind::Rename, from, diff: None, left_out: None }.with(hunks)
    }

    fn with(mut self, hunks: &str) -> Self {
        if hunks.len() > LARGEST_DIFF {
            let count = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count() as u64;
            let (added, removed) = (count('+'), count('-'));
            self.left_out = Some(LeftOut { added, removed, bytes: hunks.len() as u64 });
        } else if !hunks.is_empty() {
            let nothing = "/dev/null";
            let before = match self.change {
                ChangeKind::Create => nothing,
                _ => self.from.as_deref().unwrap_or(&self.path),
            };
            let after = if self.change == ChangeKind::Delete { nothing } else { &self.path };
            self.diff = Some(format!("--- {before}\n+++ {after}\n{hunks}"));
        }
        self
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Create,
    /// It is changed.
    Modify,
    /// It is gone.
    Delete,
    /// It has another name.
    Rename,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// The agent's own word: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

/// What the agent told about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentInfo {
    /// The agent's own session id: what resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The folder it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(as = "Option<String>"))]
    pub cwd: Option<PathBuf>,
    /// The model in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The tools it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The MCP servers it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<McpServer>>,
    /// The slash commands it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<CommandInfo>>,
    /// The models it can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<ModelInfo>>,
    /// The permission modes it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<String>>,
    /// Whose account it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// The subagents it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagents: Option<Vec<String>>,
    /// Its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Its plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<Value>>,
    /// The style it writes in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    /// The styles it could write in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_styles: Option<Vec<String>>,
    /// Where its key comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_source: Option<String>,
    /// Fast mode, in the agent's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<String>,
    /// What it can do, where it tells only once it runs. Replaces what was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<Capabilities>>,
    /// Features the agent names beyond all this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl AgentInfo {
    /// Takes over what `newer` says; keeps the rest.
    pub fn merge(&mut self, newer: Self) {
        macro_rules! take {
            ($($field:ident),+) => { $(if newer.$field.is_some() { self.$field = newer.$field; })+ };
        }
        take!(agent_session, version, cwd, model, mode, tools, mcp_servers, commands, models, modes, account);
        take!(subagents, skills, plugins, output_style, output_styles, api_key_source, fast_mode, features);
    }
}

/// Whose account an agent uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(default)]
pub struct Account {
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Where the token comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<String>,
}

/// An MCP server as the agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// The agent's own word: `connected`, `failed`, `disabled`, …
    pub status: String,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<String>,
    /// The tools it gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub scope: Option<String>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Exit {
    /// Why.
    pub reason: ExitReason,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub signal: Option<i32>,
    /// In words.
    pub message: String,
    /// The last of what it wrote to stderr, secrets masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It was asked to stop, and did.
    Stopped,
    /// It ended by itself, in order.
    Finished,
    /// It failed.
    Failed,
    /// It could not be started.
    NotStarted,
    /// It never became ready.
    NotReady,
    /// Its connection stayed down for too long.
    LinkDown,
    /// It broke its own protocol's limits.
    Misbehaved,
    /// The daemon ended under it.
    DaemonGone,
    /// It had nothing to do and was ended; the next prompt starts it again.
    Idle,
}

impl ExitReason {
    /// The session shows this as an error.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Stopped | Self::Finished | Self::DaemonGone | Self::Idle)
    }
}

/// Why an agent begins with an empty conversation although its session has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ResetReason {
    /// The agent was started again, and it cannot take up a conversation.
    CannotResume,
    /// The agent was to take up its conversation and no longer has it.
    Lost,
    /// A reason of a newer version.
    #[serde(other)]
    Other,
}

impl ResetReason {
    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::CannotResume => {
                "the agent was started again and cannot take up a conversation: it knows nothing of what was said before"
            }
            Self::Lost => {
                "the agent has lost this conversation and begins anew: it knows nothing of what was said before"
            }
            Self::Other => "the agent begins anew: it knows nothing of what was said before",
        }
    }
}

/// What set a turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// Someone's prompt.
    Prompt,
    /// The agent itself: a background task ended, a timer, a hook.
    Agent,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct TurnResult {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub error: Option<ErrorInfo>,
    /// The last words, where the agent tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub text: Option<String>,
    /// The result that fits the JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub structured: Option<Value>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub stop_reason: Option<String>,
    /// Steps the agent took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub steps: Option<u32>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_ms: Option<u64>,
    /// How long the model took of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub duration_api_ms: Option<u64>,
    /// Tokens of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub usage: Option<TokenUsage>,
    /// Tokens of this turn by model, subagents included.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_model: ByModel,
    /// What this turn cost; absent is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub cost_usd: Option<f64>,
    /// Lines added to files, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_added: Option<u64>,
    /// Lines removed from files, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub lines_removed: Option<u64>,
}

impl TurnResult {
    /// A result that says only how it ended.
    pub fn bare(outcome: TurnOutcome) -> Self {
        Self {
            outcome,
            error: None,
            text: None,
            structured: None,
            stop_reason: None,
            steps: None,
            duration_ms: None,
            duration_api_ms: None,
            usage: None,
            by_model: IndexMap::new(),
            cost_usd: None,
            lines_added: None,
            lines_removed: None,
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent was done.
    Completed,
    /// Someone stopped it, or its agent ended.
    Interrupted,
    /// It failed; `error` says why.
    Failed,
    /// It came to the limit of steps.
    MaxTurns,
    /// It came to the limit of money.
    MaxBudget,
    /// The result did not fit the JSON Schema, however often it was tried.
    StructuredOutputFailed,
}

/// An error in words and as a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ErrorInfo {
    /// The kind.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub way_out: Option<String>,
}

/// Errors as kinds a user understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Not logged in, or the key is wrong.
    Auth,
    /// No credit.
    Billing,
    /// Too many requests.
    RateLimit,
    /// The model's service has too much to do.
    Overloaded,
    /// The model's service failed.
    Server,
    /// No connection.
    Network,
    /// The context is full.
    ContextFull,
    /// There is no such model.
    ModelNotFound,
    /// The request was wrong.
    InvalidRequest,
    /// The model wrote as much as it can at once.
    OutputLimit,
    /// The model would not.
    Refused,
    /// A limit of the session was reached.
    Limit,
    /// The agent's process failed.
    Agent,
    /// The agent sent what cannot be read.
    Protocol,
    /// Something else.
    #[serde(other)]
    Unknown,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
}

/// How far a hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum HookStatus {
    /// It began.
    Started,
    /// It goes on.
    Progress,
    /// It ended.
    Completed,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Setting {
    /// The model; absent is the agent's default.
    Model {
        /// Which.
        #[serde(default)]
        model: Option<String>,
    },
    /// The permission mode.
    Mode {
        /// Which.
        mode: String,
    },
    /// The thinking budget; absent is the agent's default.
    Thinking {
        /// In tokens.
        #[serde(default)]
        tokens: Option<u32>,
    },
    /// Environment variables. The log keeps their names only.
    Environment {
        /// The names.
        names: Vec<String>,
    },
}

/// What a subagent or task used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct WorkDone {
    /// Tokens in all.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub tokens: u64,
    /// Calls of tools.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub tool_uses: u64,
    /// How long it took.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub duration_ms: u64,
}

/// A background task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Task {
    /// Its id.
    pub task: String,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The agent's own word: `local_agent`, `local_bash`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How far it is.
    pub status: TaskStatus,
    /// What it did, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Where its output lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkDone>,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It runs.
    #[default]
    Running,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Issue 15, item 3.
    #[test]
    fn a_diff_that_is_too_large_is_counted_and_never_looks_like_no_change() {
        let hunks = format!("@@ -1,2 +1,2 @@\n-old\n-older\n{}", "+x\n".repeat(LARGEST_DIFF / 3));
        let change = FileChange::new("/big", ChangeKind::Modify, &hunks);
        let left_out = LeftOut { added: (LARGEST_DIFF / 3) as u64, removed: 2, bytes: hunks.len() as u64 };
        assert_eq!((change.diff, change.left_out), (None, Some(left_out)));
        let most = format!("+{}\n", "x".repeat(LARGEST_DIFF - 2));
        assert_eq!(FileChange::new("/big", ChangeKind::Create, &most).left_out, None);
    }

    #[test]
    fn a_diff_names_both_sides_and_a_moved_file_where_it_was() {
        let diff = |change: FileChange| change.diff.unwrap_or_default();
        assert_eq!(diff(FileChange::new("/a", ChangeKind::Create, "+x\n")), "--- /dev/null\n+++ /a\n+x\n");
        assert_eq!(diff(FileChange::new("/a", ChangeKind::Delete, "-x\n")), "--- /a\n+++ /dev/null\n-x\n");
        assert_eq!(diff(FileChange::renamed("/a", "/b", "-x\n")), "--- /a\n+++ /b\n-x\n");
        let moved = FileChange::renamed("/a", "/b", "");
        assert_eq!((moved.from.as_deref(), moved.diff), (Some("/a"), None));
    }
}
