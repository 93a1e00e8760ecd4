//! The messages of a client. Unknown fields are ignored: a newer client may send more.

use serde::{Deserialize, Serialize};

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "payload")]
pub enum ClientMessage {
    /// Create a session. Answered by `session.created`, then `agent.spawned` for the main agent.
    #[serde(rename = "session.create")]
    SessionCreate(SessionCreate),
    /// Answer a question, or continue the conversation.
    #[serde(rename = "user.input")]
    UserInput(UserInput),
    /// End a session for good.
    #[serde(rename = "session.kill")]
    SessionKill(Named),
    /// Stop the running turn; the session continues with the next input.
    #[serde(rename = "session.interrupt")]
    SessionInterrupt(Named),
    /// Change the permission mode. Answered by `permission_mode.changed`.
    #[serde(rename = "permission_mode.change")]
    PermissionModeChange(PermissionModeChange),
    /// Allow or deny a `permission.request`.
    #[serde(rename = "permission.response")]
    PermissionResponse(PermissionResponse),
    /// Addition: the token of the client, if the handshake had none. Answered by `auth.ok`.
    #[serde(rename = "auth")]
    Auth(Auth),
    /// Addition: list the sessions. Answered by `session.listed`.
    #[serde(rename = "session.list")]
    SessionList(SessionList),
    /// Addition: attach to a session, with its whole history. Answered by `session.attached`.
    #[serde(rename = "session.attach")]
    SessionAttach(SessionAttach),
}

impl ClientMessage {
    /// Every type.
    pub const TYPES: [&'static str; 9] = [
        "session.create",
        "user.input",
        "session.kill",
        "session.interrupt",
        "permission_mode.change",
        "permission.response",
        "auth",
        "session.list",
        "session.attach",
    ];

    /// The session it names.
    pub fn session_id(&self) -> Option<&str> {
        match self {
            Self::SessionCreate(_) | Self::Auth(_) | Self::SessionList(_) => None,
            Self::UserInput(input) => Some(&input.session_id),
            Self::SessionKill(named) | Self::SessionInterrupt(named) => Some(&named.session_id),
            Self::PermissionModeChange(change) => Some(&change.session_id),
            Self::PermissionResponse(response) => Some(&response.session_id),
            Self::SessionAttach(attach) => Some(&attach.session_id),
        }
    }

    /// The agent it names.
    pub fn agent_id(&self) -> Option<&str> {
        match self {
            Self::UserInput(input) => input.agent_id.as_deref(),
            _ => None,
        }
    }
}

/// The options of a new session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionCreate {
    /// The first prompt; empty makes a session that waits for its first input.
    pub prompt: String,
    /// The folder it works in, as an absolute path.
    pub cwd: String,
    /// Tools that need no permission. Empty changes nothing.
    #[serde(default)]
    pub allowed_tools: Option<Vec<String>>,
    /// `default`, `acceptEdits`, `bypassPermissions` or `plan`; another agent's own modes are accepted too.
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// `sonnet`, `opus` or `haiku`; another agent's own names are accepted too.
    #[serde(default)]
    pub model: Option<String>,
    /// Addition: text streams instead of arriving in complete blocks.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Addition: the agent; default: the configured agent.
    #[serde(default)]
    pub agent: Option<String>,
}

/// An input of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserInput {
    /// The session.
    pub session_id: String,
    /// The agent; `null` is the main agent.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The text.
    pub text: String,
    /// Addition: the question to answer; default: the oldest open question.
    #[serde(default)]
    pub question_id: Option<String>,
}

/// A message that only names a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// The session.
    pub session_id: String,
}

/// A change of the permission mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionModeChange {
    /// The session.
    pub session_id: String,
    /// The new mode.
    pub permission_mode: String,
}

/// The answer to a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionResponse {
    /// The session.
    pub session_id: String,
    /// The id from `permission.request`.
    pub permission_id: String,
    /// `true` allows, `false` denies.
    pub approved: bool,
}

/// Who the client is.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Auth {
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

/// A list request has no fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {}

/// The session to attach to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionAttach {
    /// The session.
    pub session_id: String,
    /// Text streams from now on.
    #[serde(default)]
    pub stream: Option<bool>,
}
