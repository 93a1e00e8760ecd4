//! Frames that the server sends, except the frames that core makes.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use portolan_core::{
    CommandId, Millis, Position, Refusal, Role, Seq, SessionId, TokenId,
    audit::{AuditDetails, AuditRecord},
    command::Receipt,
    log::delivery::{Closed, Presence},
    policy::{Judgement, Rule},
    ports::Secret,
    registry::{
        AccountDescription, AgentDescription, BudgetDescription, PastDescription, RuleDescription, Simulation,
    },
    session::state::{State, Summary},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many agents run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AgentsRunning {
    /// The number of agents that run now.
    pub running: u32,
    /// The largest number of agents that may run at once; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A frame from the server. Core makes the other frames (`entry`, `daemon`, `snapshot`, `daemon_snapshot`).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The answer to `hello`.
    Welcome {
        /// The protocol version that both sides speak.
        protocol: u32,
        /// The server.
        server: ServerInfo,
        /// The client, as the server identified it.
        you: You,
        /// The server's limits.
        limits: Limits,
    },
    /// The answer to a call.
    Reply {
        /// The id of the call.
        id: CommandId,
        /// The result of the call.
        #[serde(flatten)]
        body: Box<ReplyBody>,
    },
    /// The server could not carry out a call or read a frame.
    Error {
        /// The id of the call, if the server could read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        id: Option<CommandId>,
        /// The reason.
        #[serde(flatten)]
        refusal: Refusal,
    },
    /// Everyone who reads a session now: sent after attaching, and after each change.
    Presence {
        /// The session.
        session: SessionId,
        /// Everyone who reads the session.
        present: Vec<Presence>,
    },
    /// No more entries of a session will come. Without a session: no more entries of the daemon.
    Ended {
        /// The session; absent for the daemon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        session: Option<SessionId>,
        /// The reason.
        reason: Closed,
    },
    /// The last frame before the server closes the connection.
    Closing {
        /// The reason, as a kind.
        reason: ClosingReason,
        /// The reason, in words.
        message: String,
        /// A client that reconnects with its last numbers continues where this connection ended.
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
    /// The daemon is stopping.
    Stopping,
    /// The client did not read for too long.
    TooSlow,
    /// The token was revoked or expired.
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

    /// The reason, in words.
    pub fn message(self) -> &'static str {
        match self {
            Self::Stopping => "portolan is stopping; reconnect with your last numbers",
            Self::TooSlow => "the client read nothing for 10 seconds; reconnect with your last numbers",
            Self::TokenGone => "the token was revoked, replaced or expired, or the browser was logged out",
            Self::Protocol => "no hello came in time, or the hello cannot be answered",
        }
    }

    /// A client that reconnects with its last numbers continues where this connection ended.
    pub fn is_resumable(self) -> bool {
        match self {
            Self::Stopping | Self::TooSlow => true,
            Self::TokenGone | Self::Protocol => false,
        }
    }
}

/// The server's name, version and clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ServerInfo {
    /// The server's name: `portolan`.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// The server's clock when it sent this frame. Clients compute ages from this time, because their own clock may
    /// differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub now: Option<Millis>,
    /// The random id of the server's home. A different id than before means that the server's logs were replaced, for
    /// example by a backup: earlier entry numbers are invalid, and the client must start from a snapshot. Absent when
    /// the server does not know the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub incarnation: Option<String>,
}

/// The client, as the server identified it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct You {
    /// The token's public name.
    pub token: TokenId,
    /// The token's name for people.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The sessions that the token is bound to; all sessions when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub sessions: Option<BTreeSet<SessionId>>,
}

/// The server's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Limits {
    /// The largest frame from the client, in bytes.
    pub frame_bytes: u32,
    /// The largest number of sessions that one connection may attach to at once.
    pub attachments: u32,
}

/// The result of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ReplyBody {
    /// The call is done.
    Done,
    /// Budgets.
    Budgets {
        /// The budgets, oldest first; the budget of the session itself comes first.
        budgets: Vec<BudgetDescription>,
    },
    /// A budget that was set, reset or removed.
    Budget {
        /// The budget.
        budget: Box<BudgetDescription>,
    },
    /// Rules.
    Rules {
        /// Each rule, and whether it is in force.
        rules: Vec<RuleDescription>,
    },
    /// One rule.
    Rule {
        /// The rule.
        rule: Box<Rule>,
    },
    /// A decision of policy.
    Judgement {
        /// The decision.
        judgement: Judgement,
    },
    /// What a rule would have answered.
    Simulation {
        /// The result.
        simulation: Simulation,
    },
    /// Records of the audit.
    Audit {
        /// The records. A page may hold fewer records than asked for, or none, and still have a `next`.
        records: Vec<AuditRecord>,
        /// Where the next page begins; absent after the last record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        next: Option<Position>,
    },
    /// One record of the audit.
    AuditRecord {
        /// The record, its entry and its seal.
        details: Box<AuditDetails>,
    },
    /// The client has joined a session. The session's entries follow.
    Attached {
        /// The session.
        session: SessionId,
    },
    /// The client reads the daemon's log. The log's entries follow.
    Subscribed,
    /// The command is in the log.
    Receipt {
        /// The command's entry and progress.
        receipt: Receipt,
    },
    /// One session.
    Session {
        /// The session's line in lists.
        session: Summary,
    },
    /// A list of sessions.
    Sessions {
        /// The sessions, newest first.
        sessions: Vec<Summary>,
        /// How many agents run; absent for a token that is bound to certain sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        agents: Option<AgentsRunning>,
    },
    /// Past conversations that agents keep by themselves.
    Past {
        /// The conversations, newest first.
        past: Vec<PastDescription>,
    },
    /// The session that continues a past conversation.
    TakenUp {
        /// The session's line in lists.
        session: Summary,
        /// The session already existed. Nothing was created, no prompt was sent, and the request's settings were
        /// ignored.
        already: bool,
    },
    /// The session with the requested id.
    Resolved {
        /// The session's full id.
        session: SessionId,
    },
    /// A session's state.
    State {
        /// The number of the last entry in the state.
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
        /// Paths below the session's folder, the best match first; a folder ends with `/`.
        files: Vec<String>,
        /// The folder holds more files than were searched, so a path may be missing.
        truncated: bool,
    },
    /// The agent's original text of an entry.
    Raw {
        /// The text, if it was kept.
        text: Option<String>,
    },
    /// A session's environment.
    Environment {
        /// The variables by name.
        variables: IndexMap<String, String>,
    },
    /// A list of agents.
    Agents {
        /// All agents.
        agents: Vec<AgentDescription>,
    },
    /// An agent's account.
    Account {
        /// The agent's login, and the state of a login in progress.
        account: AccountDescription,
    },
    /// A new token.
    Token {
        /// The token, without its secret.
        token: TokenInfo,
        /// The token's secret. The secret is never shown again.
        #[cfg_attr(feature = "schema", schemars(with = "String"), ts(as = "String"))]
        secret: Secret,
    },
    /// A list of tokens.
    Tokens {
        /// All tokens.
        tokens: Vec<TokenInfo>,
    },
    /// A ticket.
    Ticket {
        /// The ticket's secret, for a single use.
        #[cfg_attr(feature = "schema", schemars(with = "String"), ts(as = "String"))]
        ticket: Secret,
        /// When the ticket expires.
        expires_at: Millis,
    },
    /// A list of browsers.
    Browsers {
        /// The browsers that are logged in, the most recently seen first.
        browsers: Vec<BrowserInfo>,
    },
    /// The connection works.
    Pong,
}

/// A browser that is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct BrowserInfo {
    /// The browser's public name. The name gives no access.
    pub browser: String,
    /// The token that the browser's login depends on.
    pub token: TokenId,
    /// The token's name for people.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// When the browser logged in.
    pub logged_in_at: Millis,
    /// When the browser was last seen.
    pub seen_at: Millis,
    /// The address from which the browser logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The browser's `User-Agent` header, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct TokenInfo {
    /// The token's public name.
    pub token: TokenId,
    /// The token's name for people.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The sessions that the token is bound to; all sessions when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<BTreeSet<SessionId>>,
    /// When the token was created.
    pub created_at: Millis,
    /// When the token expires; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When the token was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Millis>,
}
