//! What the server sends, beside what core makes.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use portolan_core::{
    CommandId, Millis, Refusal, Role, Seq, SessionId, TokenId,
    command::Receipt,
    log::delivery::{Closed, Presence},
    ports::Secret,
    registry::{AccountDescription, AgentDescription, PastDescription},
    session::state::{State, Summary},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many agents run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentsRunning {
    /// As many run now.
    pub running: u32,
    /// As many may run at once; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// From the server, beside the frames of core (`entry`, `daemon`, `snapshot`, `daemon_snapshot`).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The answer to `hello`.
    Welcome {
        /// The version both speak.
        protocol: u32,
        /// The server.
        server: ServerInfo,
        /// Who the server takes you for.
        you: You,
        /// What the server will not exceed or accept.
        limits: Limits,
    },
    /// The answer to a frame.
    Reply {
        /// Of the frame.
        id: CommandId,
        /// What it asked for.
        #[serde(flatten)]
        body: Box<ReplyBody>,
    },
    /// A frame that could not be answered as asked.
    Error {
        /// Of the frame, where it could be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        id: Option<CommandId>,
        /// Why.
        #[serde(flatten)]
        refusal: Refusal,
    },
    /// Who reads a session now: after attaching, and whenever it changes.
    Presence {
        /// Which session.
        session: SessionId,
        /// Everyone.
        present: Vec<Presence>,
    },
    /// No more entries of a session (or, without one, of the daemon) will come.
    Ended {
        /// Which session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        session: Option<SessionId>,
        /// Why.
        reason: Closed,
    },
    /// The last frame before the server closes the connection.
    Closing {
        /// Why.
        reason: ClosingReason,
        /// In words.
        message: String,
        /// Coming back with the last numbers seen goes on where this ended.
        resumable: bool,
    },
}

impl ServerFrame {
    /// Every frame's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 6] = ["welcome", "reply", "error", "presence", "ended", "closing"];
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ClosingReason {
    /// The daemon stops.
    Stopping,
    /// The client did not read for too long.
    TooSlow,
    /// The token was revoked or has expired.
    TokenGone,
    /// The client broke the protocol or its limits.
    Protocol,
}

impl ClosingReason {
    /// The WebSocket close code.
    pub fn code(self) -> u16 {
        match self {
            Self::Stopping => 1012,
            Self::TooSlow => 4008,
            Self::TokenGone => 4001,
            Self::Protocol => 1008,
        }
    }

    /// In words.
    pub fn message(self) -> &'static str {
        match self {
            Self::Stopping => "portolan stops; come back with your last numbers",
            Self::TooSlow => "nothing was read for 10 seconds; come back with your last numbers",
            Self::TokenGone => {
                "the token was revoked, replaced or has expired, or the browser was logged out"
            }
            Self::Protocol => "no hello came in time, or it cannot be answered",
        }
    }

    /// Coming back with the last numbers seen goes on where this ended.
    pub fn is_resumable(self) -> bool {
        match self {
            Self::Stopping | Self::TooSlow => true,
            Self::TokenGone | Self::Protocol => false,
        }
    }
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ServerInfo {
    /// `portolan`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its clock, when it greeted: ages are told by it, whatever the client's own clock says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub now: Option<Millis>,
    /// Another one than before means that the server's logs were replaced, as by a backup: numbers of entries from before
    /// mean nothing, and a client starts from a snapshot. Absent where the server does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub incarnation: Option<String>,
}

/// Who the server takes a client for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct You {
    /// The token's public name.
    pub token: TokenId,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sessions it is bound to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub sessions: Option<BTreeSet<SessionId>>,
}

/// What the server will not exceed or accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Limits {
    /// Bytes of one frame from the client.
    pub frame_bytes: u32,
    /// Sessions one connection may be attached to at once.
    pub attachments: u32,
}

/// What a frame asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ReplyBody {
    /// It is done.
    Done,
    /// Entries follow.
    Attached {
        /// Of this session.
        session: SessionId,
    },
    /// Entries follow.
    Subscribed,
    /// It is in the log.
    Receipt {
        /// Where, and how far it is.
        receipt: Receipt,
    },
    /// One session.
    Session {
        /// What it is.
        session: Summary,
    },
    /// Sessions.
    Sessions {
        /// Newest first.
        sessions: Vec<Summary>,
        /// How many agents run; not told to a token that is bound to certain sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        agents: Option<AgentsRunning>,
    },
    /// Conversations that agents have kept by themselves.
    Past {
        /// Newest first.
        past: Vec<PastDescription>,
    },
    /// The session that goes on with a past conversation.
    TakenUp {
        /// What it is.
        session: Summary,
        /// It lived here before, and nothing was made: no prompt was sent, and nothing of the spec counts.
        already: bool,
    },
    /// The one that was meant.
    Resolved {
        /// Which.
        session: SessionId,
    },
    /// A session's state.
    State {
        /// The last entry in it.
        seq: Seq,
        /// The state.
        state: Box<State>,
    },
    /// A page of history.
    History {
        /// The entries' frames, oldest first.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "Vec<super::LogFrame>"),
            ts(type = "Array<EntryFrame>")
        )]
        entries: Vec<Value>,
    },
    /// Files and folders of a session.
    Files {
        /// Paths below the session's folder, the nearest to what was asked first; a folder ends with `/`.
        files: Vec<String>,
        /// There are more files than were looked at, so that one may be missing.
        truncated: bool,
    },
    /// What the agent really said.
    Raw {
        /// The text, where any was kept.
        text: Option<String>,
    },
    /// A session's environment.
    Environment {
        /// By name.
        variables: IndexMap<String, String>,
    },
    /// Agents.
    Agents {
        /// All of them.
        agents: Vec<AgentDescription>,
    },
    /// An agent's account.
    Account {
        /// Who is logged in, and what has become of a login.
        account: AccountDescription,
    },
    /// A new token.
    Token {
        /// What it is.
        token: TokenInfo,
        /// Its secret, told this once.
        #[cfg_attr(feature = "schema", schemars(with = "String"), ts(as = "String"))]
        secret: Secret,
    },
    /// Tokens.
    Tokens {
        /// All of them.
        tokens: Vec<TokenInfo>,
    },
    /// A ticket.
    Ticket {
        /// Its secret; single use.
        #[cfg_attr(feature = "schema", schemars(with = "String"), ts(as = "String"))]
        ticket: Secret,
        /// Until when.
        expires_at: Millis,
    },
    /// Browsers.
    Browsers {
        /// Those that are logged in, the one seen last first.
        browsers: Vec<BrowserInfo>,
    },
    /// Here I am.
    Pong,
}

/// A browser that is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct BrowserInfo {
    /// Its public name; opens nothing.
    pub browser: String,
    /// The token on which its login hangs.
    pub token: TokenId,
    /// What people call that token.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it logged in.
    pub logged_in_at: Millis,
    /// When it was last here.
    pub seen_at: Millis,
    /// From where it logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What it says it is, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct TokenInfo {
    /// Its public name.
    pub token: TokenId,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sessions it is bound to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<BTreeSet<SessionId>>,
    /// When it was made.
    pub created_at: Millis,
    /// Until when it opens the door; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When it last did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Millis>,
}
