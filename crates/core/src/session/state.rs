//! The state of a session: the fold of its entries. Readers get it as a snapshot.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{
    open::{Keyed, Open},
    spending::{SessionBudget, Used, first_budget},
};
use crate::{
    Actor, Capabilities, Generation, Millis, RequestId, Seq, SessionId, SessionSpec,
    command::{ActionName, CommandKey, Stage},
    event::{AgentInfo, Content, HolderInfo, ItemKind, McpServer, PlanStep, Task, TurnOrigin},
    policy::{Rule, Standing},
    request::{Outcome, Request},
    spec::ForkPoint,
    usage::{ByModel, DEFAULT_CONTEXT_WINDOW, TokenUsage},
};

/// The status of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent's process is being started.
    #[default]
    Starting,
    /// The agent is ready and has not run a turn yet.
    Connected,
    /// A turn is running.
    Active,
    /// The last turn has ended.
    Idle,
    /// The connection to a running agent is lost.
    Disconnected,
    /// The agent has ended. The session can be read, and resumed if the agent supports it.
    Terminated,
    /// The agent failed; `error` says why.
    Error,
}

/// A session's line in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Summary {
    /// The session's id.
    pub session: SessionId,
    /// The agent kind.
    pub agent: String,
    /// The session's name, or the beginning of its first prompt.
    pub name: String,
    /// The session's folder.
    #[cfg_attr(feature = "schema", ts(type = "string"))]
    pub cwd: PathBuf,
    /// The session's status.
    pub status: Status,
    /// The error, with status `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The agent had nothing to do and was ended; the next prompt starts it again. `status` is then `terminated`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asleep: bool,
    /// The session is archived.
    #[serde(default)]
    pub archived: bool,
    /// When the session was created.
    pub created_at: Millis,
    /// When something last happened in the session.
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
    /// The number of requests that wait for an answer.
    #[serde(default)]
    pub waiting: u32,
    /// The number of prompts in the queue.
    #[serde(default)]
    pub queued: u32,
    /// The number of turns.
    #[serde(default)]
    pub turns: u32,
    /// The session's cost so far; unknown when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why prompts wait: the budget that is spent, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<String>,
    /// The session and entry that this session was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

impl Summary {
    /// Whether the agent may still run, so that a restart must handle it.
    pub fn is_live(&self) -> bool {
        !matches!(self.status, Status::Terminated | Status::Error)
    }

    /// Whether the next prompt continues the session: its agent runs, or is asleep.
    pub fn is_open(&self) -> bool {
        self.is_live() || self.asleep
    }

    /// The prompts that wait for a budget with room, or for an agent that nothing starts by itself, in words.
    pub fn parked(&self) -> Option<String> {
        if let (Some(why), 1..) = (&self.over_budget, self.queued) {
            let wait = if self.queued == 1 {
                "1 prompt waits".into()
            } else {
                format!("{} prompts wait", self.queued)
            };
            return Some(format!("{wait}: {why}"));
        }
        if self.is_live() {
            return None;
        }
        match self.queued {
            0 => None,
            1 => Some("1 prompt waits; resume the session to send it".into()),
            more => Some(format!("{more} prompts wait; resume the session to send them")),
        }
    }
}

/// Whether a value is the default and need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An item that is streaming.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenItem {
    /// The item's name.
    pub item: String,
    /// The kind of item.
    pub kind: ItemKind,
    /// The message that the item is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The subagent that the item belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The item's whole text so far.
    pub text: String,
    /// The entry that started the item.
    #[serde(skip)]
    pub(crate) started: Seq,
    /// The text's length after each entry, so that a slow reader gets exactly the missing text.
    #[serde(skip)]
    pub(crate) marks: Vec<(Seq, usize)>,
}

/// A tool call without its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenTool {
    /// The agent's own id of the tool call.
    pub tool: String,
    /// The tool's name.
    pub name: String,
    /// The subagent that called the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Keyed for OpenTool {
    fn key(&self) -> &str {
        &self.tool
    }
}

/// A running subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct OpenSubagent {
    /// The tool call that started the subagent.
    pub subagent: String,
    /// The subagent that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The kind of subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// The subagent's task.
    pub description: String,
    /// The agent continues while the subagent works.
    #[serde(default)]
    pub background: bool,
}

impl Keyed for OpenSubagent {
    fn key(&self) -> &str {
        &self.subagent
    }
}

/// An unsettled command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct OpenCommand {
    /// The command's entry.
    pub seq: Seq,
    /// The command's sender and id.
    pub key: CommandKey,
    /// Who sent the command.
    pub by: Actor,
    /// The command's name, such as `prompt`.
    #[cfg_attr(feature = "schema", schemars(with = "String"), ts(type = "string"))]
    pub name: ActionName,
    /// The command's progress.
    pub stage: Stage,
    /// With a prompt: its content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
}

/// The running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct OpenTurn {
    /// The turn's number.
    pub turn: u32,
    /// The cause of the turn.
    pub origin: TurnOrigin,
    /// When the turn started.
    pub started_at: Millis,
}

/// A closed request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClosedRequest {
    /// The request's id.
    pub request: RequestId,
    /// The tool, if the request was a permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub tool_name: Option<String>,
    /// How the request ended.
    pub outcome: Outcome,
}

/// Everything that a new reader must know besides the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct State {
    /// The session's line in lists.
    pub summary: Summary,
    /// The session's settings, with secrets masked.
    pub spec: SessionSpec,
    /// What the agent supports.
    pub capabilities: Capabilities,
    /// The number of the agent's start.
    pub generation: Generation,
    /// The agent's process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The process that holds the agent, if the agent outlives the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderInfo>,
    /// Somebody stopped the agent, and nobody has used it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// What the agent reported about itself.
    pub agent: AgentInfo,
    /// The thinking budget, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u32>,
    /// What the agent is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// The running turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<OpenTurn>,
    /// Items that are streaming, oldest first.
    #[serde(default)]
    pub items: Vec<OpenItem>,
    /// Tool calls without their result, oldest first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<OpenTool>"), ts(as = "Vec<OpenTool>"))]
    pub tools: Open<OpenTool>,
    /// Running subagents.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<OpenSubagent>"), ts(as = "Vec<OpenSubagent>"))]
    pub subagents: Open<OpenSubagent>,
    /// Running background tasks.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Waiting requests, oldest first.
    #[serde(default)]
    pub requests: Vec<Request>,
    /// How the last requests ended, so that the sender of a late answer learns who answered first.
    #[serde(default)]
    pub closed_requests: Vec<ClosedRequest>,
    /// Unsettled commands, oldest first; prompts that are accepted but not sending are the queue. Uncertain commands
    /// stay until they are sent again or withdrawn.
    #[serde(default)]
    pub commands: Vec<OpenCommand>,
    /// The agent's list of steps.
    #[serde(default)]
    pub plan: Vec<PlanStep>,
    /// The MCP servers.
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
    /// The texts of this session's own rules that allow: `TOOL` or `TOOL(PATTERN)`.
    #[serde(default)]
    pub rules: Vec<String>,
    /// This session's own rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Rule>>", optional))]
    pub session_rules: Vec<Rule>,
    /// This session's own budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<SessionBudget>,
    /// The budgets of this session that are nearly or wholly spent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Standing>>", optional))]
    pub budgets: Vec<Standing>,
    /// Tokens so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Tokens so far by model.
    #[serde(default)]
    pub by_model: ByModel,
    /// Tokens in the context window at the last request to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub context_used: Option<u64>,
    /// The size of the context window in tokens.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub context_window: u64,
    /// The entry since which `activity` has its value.
    #[serde(skip)]
    pub(crate) activity_since: Seq,
    /// The newest entry that ended an item.
    #[serde(skip)]
    pub(crate) item_ended: Seq,
    /// See [`crate::ports::ResumePoint::exchanges`]. For the daemon alone; stored, because after a restart only the
    /// checkpoint is read.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) exchanges: u64,
    /// The last prompt is one of the agent's own commands. For the daemon alone.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) asked_by_command: bool,
    /// The last time before `active_at` at which something happened. For the daemon alone.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) active_before: Millis,
    /// What the session has used, for budgets. For the daemon alone.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    pub(crate) used: Used,
}

impl State {
    /// A session that was just requested.
    pub fn new(session: SessionId, spec: SessionSpec, at: Millis) -> Self {
        let budget = first_budget(spec.budget, at);
        Self {
            summary: Summary {
                session,
                agent: spec.agent.clone(),
                name: spec.name.clone().unwrap_or_default(),
                cwd: spec.cwd.clone(),
                status: Status::Starting,
                error: None,
                asleep: false,
                archived: false,
                created_at: at,
                active_at: at,
                agent_session: None,
                model: spec.model.clone(),
                mode: spec.mode.clone(),
                waiting: 0,
                queued: 0,
                turns: 0,
                cost_usd: None,
                over_budget: None,
                forked_from: spec.fork.clone(),
            },
            spec,
            capabilities: Capabilities::default(),
            generation: Generation(0),
            pid: None,
            holder: None,
            stopped: false,
            agent: AgentInfo::default(),
            thinking: None,
            activity: None,
            turn: None,
            items: Vec::new(),
            tools: Open::default(),
            subagents: Open::default(),
            tasks: Vec::new(),
            requests: Vec::new(),
            closed_requests: Vec::new(),
            commands: Vec::new(),
            plan: Vec::new(),
            mcp_servers: Vec::new(),
            rules: Vec::new(),
            session_rules: Vec::new(),
            usage: TokenUsage::default(),
            by_model: IndexMap::new(),
            context_used: None,
            context_window: DEFAULT_CONTEXT_WINDOW,
            activity_since: Seq::ZERO,
            item_ended: Seq::ZERO,
            exchanges: 0,
            asked_by_command: false,
            active_before: at,
            budget,
            budgets: Vec::new(),
            used: Used::default(),
        }
    }
}
