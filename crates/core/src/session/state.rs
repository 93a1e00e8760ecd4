//! The state of a session: the fold of its entries. Readers get it as a snapshot.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::open::{Keyed, Open};
use crate::{
    Actor, Capabilities, Generation, Millis, RequestId, Seq, SessionId, SessionSpec,
    command::{ActionName, CommandKey, Stage},
    event::{AgentInfo, Content, ItemKind, McpServer, PlanStep, Task, TurnOrigin},
    request::{Outcome, Request},
    spec::ForkPoint,
    usage::{ByModel, TokenUsage},
};

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent's process is being started.
    #[default]
    Starting,
    /// The agent is ready and has done nothing yet.
    Connected,
    /// A turn runs.
    Active,
    /// The last turn has ended.
    Idle,
    /// The connection to a living agent is lost.
    Disconnected,
    /// The agent has ended; the session can be read, and resumed where the agent can.
    Terminated,
    /// The agent failed; `error` says why.
    Error,
}

/// A session's line in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Summary {
    /// Its id.
    pub session: SessionId,
    /// The agent kind.
    pub agent: String,
    /// What people call it: its name, else the beginning of the first prompt.
    pub name: String,
    /// The folder it works in.
    #[cfg_attr(feature = "schema", ts(type = "string"))]
    pub cwd: PathBuf,
    /// Where it stands.
    pub status: Status,
    /// What went wrong, with status `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its agent had nothing to do and was ended, and the next prompt starts it again. `status` is `terminated` then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asleep: bool,
    /// Put away.
    #[serde(default)]
    pub archived: bool,
    /// When it was made.
    pub created_at: Millis,
    /// When something last happened in it.
    pub active_at: Millis,
    /// The agent's own session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How many requests wait for an answer.
    #[serde(default)]
    pub waiting: u32,
    /// How many prompts wait in the queue.
    #[serde(default)]
    pub queued: u32,
    /// How many turns there were.
    #[serde(default)]
    pub turns: u32,
    /// What it cost so far; absent is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

impl Summary {
    /// Its agent may still run, so a restart has to look after it.
    pub fn is_live(&self) -> bool {
        !matches!(self.status, Status::Terminated | Status::Error)
    }

    /// It goes on with the next word: its agent runs, or is asleep.
    pub fn is_open(&self) -> bool {
        self.is_live() || self.asleep
    }

    /// Prompts that wait for an agent that nothing starts by itself, in words.
    pub fn parked(&self) -> Option<String> {
        if self.is_live() {
            return None;
        }
        match self.queued {
            0 => None,
            1 => Some("1 prompt waits; resume starts it".into()),
            more => Some(format!("{more} prompts wait; resume starts them")),
        }
    }
}

/// Whether a value says nothing, so that it need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An item that streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenItem {
    /// Its name.
    pub item: String,
    /// What it will be.
    pub kind: ItemKind,
    /// The message it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The subagent it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// All of it so far.
    pub text: String,
    /// The entry that started it.
    #[serde(skip)]
    pub(crate) started: Seq,
    /// After which entry the text was how long, so that a slow reader can be given just what it lacks.
    #[serde(skip)]
    pub(crate) marks: Vec<(Seq, usize)>,
}

/// A tool call without its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenTool {
    /// The call.
    pub tool: String,
    /// The tool's name.
    pub name: String,
    /// The subagent that called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Keyed for OpenTool {
    fn key(&self) -> &str {
        &self.tool
    }
}

/// A subagent at work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenSubagent {
    /// The call that started it.
    pub subagent: String,
    /// The subagent that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Which sort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// What it is for.
    pub description: String,
    /// The agent goes on meanwhile.
    #[serde(default)]
    pub background: bool,
}

impl Keyed for OpenSubagent {
    fn key(&self) -> &str {
        &self.subagent
    }
}

/// A command that is not settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct OpenCommand {
    /// Its entry.
    pub seq: Seq,
    /// Its key.
    pub key: CommandKey,
    /// Who sent it.
    pub by: Actor,
    /// Its name, such as `prompt`.
    #[cfg_attr(feature = "schema", schemars(with = "String"), ts(type = "string"))]
    pub name: ActionName,
    /// How far it is.
    pub stage: Stage,
    /// With a prompt: what was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
}

/// The running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct OpenTurn {
    /// Which.
    pub turn: u32,
    /// What set it off.
    pub origin: TurnOrigin,
    /// Since when.
    pub started_at: Millis,
}

/// A request that waits no longer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClosedRequest {
    /// Which.
    pub request: RequestId,
    /// How it ended.
    pub outcome: Outcome,
}

/// Everything a newcomer must know, beside the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct State {
    /// Its line in a list.
    pub summary: Summary,
    /// What was asked for; secrets masked.
    pub spec: SessionSpec,
    /// What the agent can do.
    pub capabilities: Capabilities,
    /// Which start of the agent this is.
    pub generation: Generation,
    /// The agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Somebody stopped the agent, and nobody has asked for it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// What the agent told about itself.
    pub agent: AgentInfo,
    /// The thinking budget, where set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u32>,
    /// What the agent is busy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<OpenTurn>,
    /// Items that stream, oldest first.
    #[serde(default)]
    pub items: Vec<OpenItem>,
    /// Tool calls without their result, oldest first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<OpenTool>"), ts(as = "Vec<OpenTool>"))]
    pub tools: Open<OpenTool>,
    /// Subagents at work.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<OpenSubagent>"), ts(as = "Vec<OpenSubagent>"))]
    pub subagents: Open<OpenSubagent>,
    /// Background tasks at work.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Requests that wait, oldest first.
    #[serde(default)]
    pub requests: Vec<Request>,
    /// How the last requests ended, so that a late answer learns who was faster.
    #[serde(default)]
    pub closed_requests: Vec<ClosedRequest>,
    /// Commands that are not settled, oldest first; prompts that are accepted but not sending are the queue. Those
    /// that ended as uncertain stay until they are sent again or withdrawn.
    #[serde(default)]
    pub commands: Vec<OpenCommand>,
    /// The agent's list of steps.
    #[serde(default)]
    pub plan: Vec<PlanStep>,
    /// The MCP servers.
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
    /// Tools that an "always" allowed.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Tokens so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Tokens so far by model.
    #[serde(default)]
    pub by_model: ByModel,
    /// Tokens in the context at the last request to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub context_used: Option<u64>,
    /// How many fit.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub context_window: u64,
    /// Since which entry `activity` is what it is.
    #[serde(skip)]
    pub(crate) activity_since: Seq,
    /// The newest entry that ended an item.
    #[serde(skip)]
    pub(crate) item_ended: Seq,
    /// See [`crate::ports::ResumePoint::exchanges`]. For the daemon alone; kept, because a checkpoint is all that is read
    /// after a restart.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) exchanges: u64,
    /// The last prompt is a command of the agent's own. For the daemon alone.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) asked_by_command: bool,
    /// When something happened before `active_at`, at another time. For the daemon alone.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) active_before: Millis,
}
