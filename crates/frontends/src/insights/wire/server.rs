//! The messages of the server.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "payload")]
pub enum ServerMessage {
    /// The session exists.
    #[serde(rename = "session.created")]
    SessionCreated(SessionCreated),
    /// There is a new agent.
    #[serde(rename = "agent.spawned")]
    AgentSpawned(AgentSpawned),
    /// An output of an agent: text or thinking.
    #[serde(rename = "agent.output")]
    AgentOutput(AgentOutput),
    /// An agent calls a tool.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse(AgentToolUse),
    /// A tool has finished.
    #[serde(rename = "agent.tool_result")]
    AgentToolResult(AgentToolResult),
    /// An agent asks; `user.input` answers.
    #[serde(rename = "agent.question")]
    AgentQuestion(AgentQuestion),
    /// A subagent has finished.
    #[serde(rename = "agent.completed")]
    AgentCompleted(AgentCompleted),
    /// The status of an agent has changed.
    #[serde(rename = "agent.status")]
    AgentStatus(AgentStatus),
    /// A turn has ended; the session continues with the next `user.input`.
    #[serde(rename = "session.completed")]
    SessionCompleted(SessionCompleted),
    /// The permission mode has changed.
    #[serde(rename = "permission_mode.changed")]
    PermissionModeChanged(PermissionModeChanged),
    /// A tool waits for permission; `permission.response` answers.
    #[serde(rename = "permission.request")]
    PermissionRequest(PermissionRequest),
    /// Something went wrong.
    #[serde(rename = "error")]
    Error(ErrorPayload),
    /// Addition: the answer to `auth`.
    #[serde(rename = "auth.ok")]
    AuthOk(AuthOk),
    /// Addition: the answer to `session.list`.
    #[serde(rename = "session.listed")]
    SessionListed(SessionListed),
    /// Addition: the answer to `session.attach`. The past events follow, then new events.
    #[serde(rename = "session.attached")]
    SessionAttached(ListedSession),
    /// Addition: a permission is closed, whoever closed it.
    #[serde(rename = "permission.resolved")]
    PermissionResolved(PermissionResolved),
    /// Addition: a question is closed, whoever closed it.
    #[serde(rename = "question.resolved")]
    QuestionResolved(QuestionResolved),
}

/// `session.created`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SessionCreated {
    /// Its id.
    pub session_id: String,
}

/// `agent.spawned`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentSpawned {
    /// The session.
    pub session_id: String,
    /// `main`, or the `tool_use_id` of the call that started it.
    pub agent_id: String,
    /// The agent that started it.
    pub parent_id: Option<String>,
    /// `Main`, `Sub1`, `Sub1.1`.
    pub label: String,
    /// Its prompt or its purpose.
    pub task_description: Option<String>,
}

/// The kind of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentType {
    /// Text.
    Text,
    /// Thinking.
    Thinking,
}

/// `agent.output`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentOutput {
    /// The session.
    pub session_id: String,
    /// The agent.
    pub agent_id: String,
    /// The text: a complete block, or the next part of a block.
    pub content: String,
    /// Text or thinking.
    pub content_type: ContentType,
    /// Addition, only where the client asked for `stream`: outputs with the same item are one block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// `agent.tool_use`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentToolUse {
    /// The session.
    pub session_id: String,
    /// The agent that calls.
    pub agent_id: String,
    /// The tool's name; `Task` for whatever starts a subagent.
    pub tool_name: String,
    /// The input of the call.
    pub tool_input: Map<String, Value>,
    /// The id of the call.
    pub tool_use_id: String,
    /// The model that calls, if known.
    pub model: Option<String>,
}

/// `agent.tool_result`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentToolResult {
    /// The session.
    pub session_id: String,
    /// The agent that called.
    pub agent_id: String,
    /// The id of the call.
    pub tool_use_id: String,
    /// The output, as text.
    pub result: String,
    /// It failed, was denied or was cut off.
    pub is_error: bool,
}

/// `agent.question`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentQuestion {
    /// The session.
    pub session_id: String,
    /// The agent that asks.
    pub agent_id: String,
    /// The id of the question.
    pub question_id: String,
    /// The text of the question.
    pub question: String,
    /// The choices; an empty list asks for free text.
    pub options: Vec<QuestionOption>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct QuestionOption {
    /// The label.
    pub label: String,
    /// The description.
    pub description: Option<String>,
}

/// Tokens and costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Usage {
    /// Input tokens that were not in the cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens from the cache.
    pub cache_read_tokens: u64,
    /// Tokens put into the cache.
    pub cache_creation_tokens: u64,
    /// The cost in dollars.
    pub cost_usd: f64,
}

/// `agent.completed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentCompleted {
    /// The session.
    pub session_id: String,
    /// The agent.
    pub agent_id: String,
    /// Its last text.
    pub result: Option<String>,
    /// Its own usage, without its subagents.
    pub usage: Usage,
}

/// The status of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// The agent thinks or writes.
    Working,
    /// One of its tools runs.
    WaitingTool,
    /// It waits for an answer.
    WaitingUser,
    /// It has finished.
    Completed,
    /// It has failed.
    Error,
}

/// `agent.status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentStatus {
    /// The session.
    pub session_id: String,
    /// The agent.
    pub agent_id: String,
    /// The status.
    pub status: StatusWord,
}

/// `session.completed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SessionCompleted {
    /// The session.
    pub session_id: String,
    /// The usage of all its agents since the session began.
    pub total_usage: Usage,
}

/// `permission_mode.changed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionModeChanged {
    /// The session.
    pub session_id: String,
    /// The current mode.
    pub permission_mode: String,
}

/// `permission.request`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionRequest {
    /// The session.
    pub session_id: String,
    /// The agent that asks.
    pub agent_id: String,
    /// The id of the permission.
    pub permission_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The input of the call.
    pub tool_input: Map<String, Value>,
    /// The id of the call; empty if the agent gives none.
    pub tool_use_id: String,
}

/// The error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame is not JSON.
    InvalidJson,
    /// An unknown type, or an invalid payload.
    InvalidMessage,
    /// Any other failure.
    HandlerError,
    /// The session could not be created, or its agent could not be started.
    SessionCreateFailed,
    /// There is no such session, it was killed, or the token may not know of it.
    SessionNotFound,
    /// The input could not be sent to the agent.
    InputFailed,
    /// Nothing was running, or the interrupt failed.
    InterruptFailed,
    /// The mode could not be changed.
    PermissionModeChangeFailed,
    /// No permission with that id is open.
    PermissionResponseFailed,
}

/// `error`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ErrorPayload {
    /// The session.
    pub session_id: Option<String>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The message for people.
    pub message: String,
    /// The code for programs.
    pub code: ErrorCode,
}

/// `auth.ok`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AuthOk {
    /// The name people see.
    pub name: String,
    /// The role of the token: `viewer`, `operator` or `owner`.
    pub role: String,
}

/// `session.listed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SessionListed {
    /// Newest first, without killed sessions.
    pub sessions: Vec<ListedSession>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ListedSession {
    /// Its id.
    pub session_id: String,
    /// Its name.
    pub name: String,
    /// The agent.
    pub agent: String,
    /// The folder it works in.
    pub cwd: String,
    /// A turn runs.
    pub is_running: bool,
    /// How many permissions and questions are open.
    pub waiting: u32,
    /// The permission mode, if known.
    pub permission_mode: Option<String>,
    /// The model, if known.
    pub model: Option<String>,
}

/// `permission.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionResolved {
    /// The session.
    pub session_id: String,
    /// The agent that asked.
    pub agent_id: String,
    /// The id of the permission.
    pub permission_id: String,
    /// `true` is allowed, `false` is denied; `null` if nobody answered.
    pub approved: Option<bool>,
    /// Who or what closed it, for people.
    pub reason: String,
}

/// `question.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct QuestionResolved {
    /// The session.
    pub session_id: String,
    /// The agent that asked.
    pub agent_id: String,
    /// The id of the question.
    pub question_id: String,
    /// Who or what closed it, for people.
    pub reason: String,
}

impl ServerMessage {
    /// An error.
    pub fn error(
        code: ErrorCode,
        session_id: Option<String>,
        agent_id: Option<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::Error(ErrorPayload { session_id, agent_id, message: message.into(), code })
    }

    /// As text.
    pub fn to_text(&self) -> Bytes {
        let text = serde_json::to_vec(self).unwrap_or_else(|error| {
            // Our own types always serialise; if one does not, the client gets an error instead of waiting for ever.
            tracing::error!(%error, "a message cannot be written");
            br#"{"type":"error","payload":{"session_id":null,"agent_id":null,"message":"a message cannot be written","code":"HANDLER_ERROR"}}"#.to_vec()
        });
        text.into()
    }
}
