//! What an agent works at: items, tools, steps, subagents and tasks.

use serde::{Deserialize, Serialize};

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

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// The agent's own word: `pending`, `in_progress`, `completed`, …
    pub status: String,
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
