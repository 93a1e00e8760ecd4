//! The native protocol's frames: one JSON object per WebSocket text frame. docs/protocol.md specifies them.
//!
//! Entries, daemon entries and snapshots are not here: their frames are made by core, once, and passed through.
//! Readers must ignore fields, frame types and enum values they do not know: additions are not a new version.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use portolan_core::{
    Action, CommandId, Millis, Refusal, Role, Seq, SessionId, SessionSpec, TokenId,
    command::Receipt,
    log::delivery::{Closed, Presence, Start},
    registry::AgentDescription,
    session::state::{State, Summary},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the protocol. It changes only when an older client can no longer work.
pub const PROTOCOL: u32 = 1;

/// From the client. Every frame but `hello` has an id made by the client, which the reply repeats. For
/// `command` and `create` the id is also the key under which the thing is done at most once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The first frame. Nothing else is answered before it.
    Hello {
        /// The highest protocol version the client speaks.
        protocol: u32,
        /// Who it is.
        client: ClientInfo,
        /// Browsers only: the key from origin storage that goes with the cookie.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        key: Option<String>,
    },
    /// Sessions, newest first. Reply: `sessions`.
    List {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Archived ones, others, or (absent) both.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        archived: Option<bool>,
        /// Only those older than this one, for the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        before: Option<SessionId>,
        /// At most so many; 100 when absent, 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// The session whose id begins with these characters. Reply: `resolved`.
    Resolve {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// At least 4 characters.
        prefix: String,
    },
    /// Make a session. Reply: `session`.
    Create {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// What it is made of.
        spec: Box<SessionSpec>,
    },
    /// Delete a session for good. Reply: `done`.
    Delete {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which.
        session: SessionId,
    },
    /// Join a session. Reply: `attached`, then its entries, a snapshot, and everything as it happens.
    Attach {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which.
        session: SessionId,
        /// From where.
        start: Start,
        /// Only finished items, no deltas.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        items_only: bool,
    },
    /// Leave a session. Reply: `done`; no frame of that session follows it.
    Detach {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which.
        session: SessionId,
    },
    /// Read the daemon's log. Reply: `subscribed`, then its entries, a snapshot, and everything as it happens.
    Subscribe {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// From where.
        start: Start,
    },
    /// No longer. Reply: `done`.
    Unsubscribe {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
    },
    /// Ask something of a session. Reply: `receipt`.
    Command {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Of which.
        session: SessionId,
        /// What.
        command: Action,
    },
    /// The state of a session now, without joining it. Reply: `state`.
    State {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which.
        session: SessionId,
    },
    /// A page of a session's history. Reply: `history`.
    History {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Of which session.
        session: SessionId,
        /// Entries after this number.
        #[serde(default)]
        after: Seq,
        /// Up to this number; the newest when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        upto: Option<Seq>,
        /// At most so many; 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// What the agent really said at an entry; owners only. Reply: `raw`.
    Raw {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// In which session.
        session: SessionId,
        /// Which entry.
        seq: Seq,
    },
    /// The environment a session's agent gets; owners only. Reply: `environment`.
    Environment {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which session.
        session: SessionId,
    },
    /// The agents there are. Reply: `agents`.
    Agents {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Look at each of them anew.
        #[serde(default)]
        probe: bool,
    },
    /// Make a token; owners only. Reply: `token`.
    TokenCreate {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// What people call it.
        name: String,
        /// What it may do.
        role: Role,
        /// The sessions it is bound to; all when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        sessions: Option<BTreeSet<SessionId>>,
        /// For how many seconds it opens the door; for ever when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        expires_in_seconds: Option<u64>,
    },
    /// The tokens there are; owners only. Reply: `tokens`.
    TokenList {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
    },
    /// Make a token useless; owners only. Its connections are closed. Reply: `done`.
    TokenRevoke {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
        /// Which.
        token: TokenId,
    },
    /// A one-time ticket with which a browser logs in as the sender. Reply: `ticket`.
    TicketCreate {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
    },
    /// Are you there? Reply: `pong`.
    Ping {
        #[expect(missing_docs, reason = "the id of the frame")]
        id: CommandId,
    },
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClientInfo {
    /// Such as `portolan-cli`; shown to others as the frontend used.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
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
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ServerInfo {
    /// `portolan`.
    pub name: String,
    /// Its version.
    pub version: String,
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
        #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"), ts(type = "Array<EntryFrame>"))]
        entries: Vec<Box<RawValue>>,
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
    /// A new token.
    Token {
        /// What it is.
        token: TokenInfo,
        /// Its secret, told this once.
        secret: String,
    },
    /// Tokens.
    Tokens {
        /// All of them.
        tokens: Vec<TokenInfo>,
    },
    /// A ticket.
    Ticket {
        /// Its secret; single use.
        ticket: String,
        /// Until when.
        expires_at: Millis,
    },
    /// Here I am.
    Pong,
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
