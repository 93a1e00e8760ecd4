//! What a client may say. Unknown fields are ignored: a newer client may say more.

use serde::{Deserialize, Serialize};

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "payload")]
pub enum ClientMessage {
    /// Make a session. Answered by `session.created`, then `agent.spawned` for the main agent.
    #[serde(rename = "session.create")]
    SessionCreate(SessionCreate),
    /// Answer a question, or go on with the conversation.
    #[serde(rename = "user.input")]
    UserInput(UserInput),
    /// End a session for good.
    #[serde(rename = "session.kill")]
    SessionKill(Named),
    /// Stop what runs; the session goes on with the next input.
    #[serde(rename = "session.interrupt")]
    SessionInterrupt(Named),
    /// Change the permission mode. Answered by `permission_mode.changed`.
    #[serde(rename = "permission_mode.change")]
    PermissionModeChange(PermissionModeChange),
    /// Allow or deny what `permission.request` asked.
    #[serde(rename = "permission.response")]
    PermissionResponse(PermissionResponse),
    /// Addition: who the client is, where it could not say so in the handshake. Answered by `auth.ok`.
    #[serde(rename = "auth")]
    Auth(Auth),
    /// Addition: the sessions there are. Answered by `session.listed`.
    #[serde(rename = "session.list")]
    SessionList(SessionList),
    /// Addition: get a session back, with everything that happened in it. Answered by `session.attached`.
    #[serde(rename = "session.attach")]
    SessionAttach(SessionAttach),
}

impl ClientMessage {
    /// Every type there is.
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

/// What a new session is made of.
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
    /// `default`, `acceptEdits`, `bypassPermissions` or `plan`; another agent's own modes are taken too.
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// `sonnet`, `opus` or `haiku`; another agent's own names are taken too.
    #[serde(default)]
    pub model: Option<String>,
    /// Addition: text arrives while it is written, not in complete blocks.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Addition: which agent; the configured one when absent.
    #[serde(default)]
    pub agent: Option<String>,
}

/// What the user says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserInput {
    /// In which session.
    pub session_id: String,
    /// To which agent; `null` is the main one.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// What.
    pub text: String,
    /// Addition: which question this answers; the oldest open one when absent.
    #[serde(default)]
    pub question_id: Option<String>,
}

/// A message that only names a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// Which.
    pub session_id: String,
}

/// A change of the permission mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionModeChange {
    /// In which session.
    pub session_id: String,
    /// To which mode.
    pub permission_mode: String,
}

/// The answer to a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionResponse {
    /// In which session.
    pub session_id: String,
    /// Which, as `permission.request` named it.
    pub permission_id: String,
    /// Yes or no.
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

/// Nothing more to say about a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {}

/// Which session to get back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionAttach {
    /// Which.
    pub session_id: String,
    /// Text arrives while it is written from now on.
    #[serde(default)]
    pub stream: Option<bool>,
}
