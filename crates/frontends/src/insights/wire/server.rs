//! What the server says.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// What the server tells.
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
    /// An agent said or thought something.
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
    /// An agent does something else now.
    #[serde(rename = "agent.status")]
    AgentStatus(AgentStatus),
    /// A turn has ended; the session goes on with the next `user.input`.
    #[serde(rename = "session.completed")]
    SessionCompleted(SessionCompleted),
    /// The permission mode is this now.
    #[serde(rename = "permission_mode.changed")]
    PermissionModeChanged(PermissionModeChanged),
    /// A tool waits to be allowed; `permission.response` answers.
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
    /// Addition: the answer to `session.attach`. What happened so far follows, then what happens.
    #[serde(rename = "session.attached")]
    SessionAttached(ListedSession),
    /// Addition: a permission waits no longer, whoever settled it.
    #[serde(rename = "permission.resolved")]
    PermissionResolved(PermissionResolved),
    /// Addition: a question waits no longer, whoever settled it.
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
    /// In which session.
    pub session_id: String,
    /// `main`, or the `tool_use_id` of the call that started it.
    pub agent_id: String,
    /// The agent that started it.
    pub parent_id: Option<String>,
    /// `Main`, `Sub1`, `Sub1.1`.
    pub label: String,
    /// What it was told, or is for.
    pub task_description: Option<String>,
}

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentType {
    /// Said.
    Text,
    /// Thought.
    Thinking,
}

/// `agent.output`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentOutput {
    /// In which session.
    pub session_id: String,
    /// Which agent.
    pub agent_id: String,
    /// The text: a complete block, or what follows what came before.
    pub content: String,
    /// Said or thought.
    pub content_type: ContentType,
    /// Addition, only where the client asked for `stream`: outputs with the same item are one block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// `agent.tool_use`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentToolUse {
    /// In which session.
    pub session_id: String,
    /// Which agent calls.
    pub agent_id: String,
    /// The tool's name; `Task` for whatever starts a subagent.
    pub tool_name: String,
    /// What it is called with.
    pub tool_input: Map<String, Value>,
    /// This call.
    pub tool_use_id: String,
    /// The model that calls, where known.
    pub model: Option<String>,
}

/// `agent.tool_result`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentToolResult {
    /// In which session.
    pub session_id: String,
    /// Which agent called.
    pub agent_id: String,
    /// Which call.
    pub tool_use_id: String,
    /// What it gave, as text.
    pub result: String,
    /// It failed, was denied or was cut off.
    pub is_error: bool,
}

/// `agent.question`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentQuestion {
    /// In which session.
    pub session_id: String,
    /// Which agent asks.
    pub agent_id: String,
    /// This question.
    pub question_id: String,
    /// What it asks.
    pub question: String,
    /// What to choose from; empty asks for own words.
    pub options: Vec<QuestionOption>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct QuestionOption {
    /// What is chosen.
    pub label: String,
    /// What it means.
    pub description: Option<String>,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Usage {
    /// Tokens read that no cache held.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Tokens put into the cache.
    pub cache_creation_tokens: u64,
    /// In dollars.
    pub cost_usd: f64,
}

/// `agent.completed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AgentCompleted {
    /// In which session.
    pub session_id: String,
    /// Which agent.
    pub agent_id: String,
    /// Its last words.
    pub result: Option<String>,
    /// What it used itself, without its own subagents.
    pub usage: Usage,
}

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// It thinks or writes.
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
    /// In which session.
    pub session_id: String,
    /// Which agent.
    pub agent_id: String,
    /// What it does.
    pub status: StatusWord,
}

/// `session.completed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SessionCompleted {
    /// Which session.
    pub session_id: String,
    /// What all its agents used since it began.
    pub total_usage: Usage,
}

/// `permission_mode.changed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionModeChanged {
    /// Which session.
    pub session_id: String,
    /// The mode in force.
    pub permission_mode: String,
}

/// `permission.request`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionRequest {
    /// In which session.
    pub session_id: String,
    /// Which agent asks.
    pub agent_id: String,
    /// This permission.
    pub permission_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// What it would be called with.
    pub tool_input: Map<String, Value>,
    /// The call; empty where the agent names none.
    pub tool_use_id: String,
}

/// What sort of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame is no JSON.
    InvalidJson,
    /// An unknown type, or a payload that makes no sense.
    InvalidMessage,
    /// Any other failure.
    HandlerError,
    /// The session could not be made, or its agent not be started.
    SessionCreateFailed,
    /// There is no such session, it was killed, or the token may not know of it.
    SessionNotFound,
    /// The input could not be handed on.
    InputFailed,
    /// There was nothing to interrupt, or it could not be.
    InterruptFailed,
    /// The mode is as it was.
    PermissionModeChangeFailed,
    /// No permission with that id is open.
    PermissionResponseFailed,
}

/// `error`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ErrorPayload {
    /// In which session.
    pub session_id: Option<String>,
    /// At which agent.
    pub agent_id: Option<String>,
    /// For people.
    pub message: String,
    /// For programs.
    pub code: ErrorCode,
}

/// `auth.ok`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AuthOk {
    /// The name people see.
    pub name: String,
    /// What the token may do: `viewer`, `operator` or `owner`.
    pub role: String,
}

/// `session.listed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SessionListed {
    /// Newest first, without those that were killed.
    pub sessions: Vec<ListedSession>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ListedSession {
    /// Its id.
    pub session_id: String,
    /// What people call it.
    pub name: String,
    /// Which agent.
    pub agent: String,
    /// The folder it works in.
    pub cwd: String,
    /// A turn runs.
    pub is_running: bool,
    /// How many permissions and questions wait.
    pub waiting: u32,
    /// The permission mode, where known.
    pub permission_mode: Option<String>,
    /// The model, where known.
    pub model: Option<String>,
}

/// `permission.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PermissionResolved {
    /// In which session.
    pub session_id: String,
    /// Which agent asked.
    pub agent_id: String,
    /// Which permission.
    pub permission_id: String,
    /// Yes or no; `null` where nobody answered.
    pub approved: Option<bool>,
    /// Who or what settled it, for people.
    pub reason: String,
}

/// `question.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct QuestionResolved {
    /// In which session.
    pub session_id: String,
    /// Which agent asked.
    pub agent_id: String,
    /// Which question.
    pub question_id: String,
    /// Who or what settled it, for people.
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
            // Our own types serialise; should one ever not, the client is told instead of left waiting.
            tracing::error!(%error, "a message cannot be written");
            br#"{"type":"error","payload":{"session_id":null,"agent_id":null,"message":"a message cannot be written","code":"HANDLER_ERROR"}}"#.to_vec()
        });
        text.into()
    }
}
