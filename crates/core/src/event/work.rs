//! An agent's work: items, tools, steps, subagents and tasks.

use serde::{Deserialize, Serialize};

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// Text of the agent.
    Text,
    /// Thinking of the agent.
    Thinking,
    /// A tool's input, as JSON text.
    ToolInput,
    /// A tool's output while it runs; the item has the name of the tool call.
    ToolOutput,
}

/// The kind of a tool, so that a frontend can show the tool without knowing every agent's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Runs a command.
    Execute,
    /// Reads files.
    Read,
    /// Changes files.
    Edit,
    /// Searches.
    Search,
    /// Fetches from a network.
    Fetch,
    /// Starts a subagent.
    Subagent,
    /// Thinks, plans or keeps a list.
    Think,
    /// A tool of an MCP server.
    Mcp,
    /// Another or unknown kind.
    #[default]
    #[serde(other)]
    Other,
}

/// How a tool or a subagent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool or subagent succeeded.
    Done,
    /// The tool or subagent failed.
    Failed,
    /// The tool or subagent was not allowed.
    Denied,
    /// The tool or subagent was cut off.
    Interrupted,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct PlanStep {
    /// The step, in words.
    pub text: String,
    /// The step's state in the agent's own word: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

/// What a subagent or task used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
pub struct WorkDone {
    /// The number of tokens.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub tokens: u64,
    /// The number of tool calls.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub tool_uses: u64,
    /// The duration in milliseconds.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub duration_ms: u64,
}

/// A background task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(default)]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Task {
    /// The task's id.
    pub task: String,
    /// The tool call that started the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The task's kind in the agent's own word: `local_agent`, `local_bash`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The purpose of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The task's progress.
    pub status: TaskStatus,
    /// What the task did, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The file with the task's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// What the task used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkDone>,
}

/// The progress of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task is running.
    #[default]
    Running,
    /// The task succeeded.
    Completed,
    /// The task failed.
    Failed,
    /// The task was stopped.
    Stopped,
}
