//! What clients send: frames by WebSocket, bodies by REST.

use std::{collections::BTreeSet, path::PathBuf};

use portolan_core::{
    Action, CommandId, Role, Seq, SessionId, SessionSpec, TokenId,
    log::delivery::Start,
    ports::{LogIn, Secret},
};
use serde::{Deserialize, Serialize};

/// The first frame. Nothing else is answered before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Greeting {
    /// The only way to greet.
    Hello {
        /// The highest protocol version the client speaks.
        protocol: u32,
        /// Who it is.
        client: ClientInfo,
        /// Browsers only: the key from origin storage that goes with the cookie.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(
            feature = "schema",
            schemars(with = "Option<String>"),
            ts(optional, as = "Option<String>")
        )]
        key: Option<Secret>,
    },
}

impl Greeting {
    /// Its name on the wire.
    pub const NAME: &'static str = "hello";
}

/// Every other frame from the client: a call, under an id that the reply repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClientFrame {
    /// Made by the client. For `command`, `create` and `take_up` it is also the key under which the thing is done at most
    /// once.
    pub id: CommandId,
    /// What the client asks.
    #[serde(flatten)]
    pub call: Call,
}

impl ClientFrame {
    /// A call under a new id.
    pub fn new(call: Call) -> Self {
        Self { id: CommandId::random(), call }
    }
}

/// What a client can ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Call {
    /// Sessions, newest first. Reply: `sessions`.
    List {
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
    /// The session whose id begins or ends with these characters. Reply: `resolved`.
    Resolve {
        /// At least 4 characters.
        prefix: String,
    },
    /// Make a session. Reply: `session`.
    Create {
        /// What it is made of.
        spec: Box<SessionSpec>,
    },
    /// Conversations that agents have kept by themselves, the newest first. Reply: `past`.
    Past {
        /// Only of this agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        agent: Option<String>,
        /// Only those held in this folder or below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "string"))]
        cwd: Option<PathBuf>,
        /// Those that the agent has put away, instead of the others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        archived: bool,
        /// At most so many; 100 when absent, 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// Take up a conversation that an agent has kept: a session with what was said in it, or the one under which it
    /// lives already. Reply: `taken_up`.
    TakeUp {
        /// The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
        past: String,
        /// Leave that one as it is: the agent goes on in a copy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy: bool,
        /// What the session is made of beside. An empty `agent` is any that has the conversation; without `cwd` it is
        /// the folder that the conversation was held in.
        spec: Box<SessionSpec>,
    },
    /// Have an agent put a conversation away in its own list, or take it out again. Reply: `past`, with that one.
    ArchivePast(ArchivePast),
    /// Delete a session for good. Reply: `done`.
    Delete {
        /// Which.
        session: SessionId,
    },
    /// Join a session. Reply: `attached`, then its entries, a snapshot, and everything as it happens.
    Attach {
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
        /// Which.
        session: SessionId,
    },
    /// Read the daemon's log. Reply: `subscribed`, then its entries, a snapshot, and everything as it happens.
    Subscribe {
        /// From where.
        start: Start,
    },
    /// No longer. Reply: `done`.
    Unsubscribe,
    /// Ask something of a session. Reply: `receipt`.
    Command {
        /// Of which.
        session: SessionId,
        /// What.
        command: Action,
    },
    /// The state of a session now, without joining it. Reply: `state`.
    State {
        /// Which.
        session: SessionId,
    },
    /// A page of a session's history. Reply: `history`.
    History {
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
    /// Files and folders below a session's folder, for completion in a prompt; operators only. What Git ignores and what is
    /// hidden is left out. Reply: `files`.
    Files {
        /// Below the folder of which session.
        session: SessionId,
        /// What the path holds, in any case; at most 256 characters. Everything when empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        query: String,
        /// At most so many; 20 when absent, 100 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// What the agent really said at an entry; owners only. Reply: `raw`.
    Raw {
        /// In which session.
        session: SessionId,
        /// Which entry.
        seq: Seq,
    },
    /// The environment a session's agent gets; owners only. Reply: `environment`.
    Environment {
        /// Which session.
        session: SessionId,
    },
    /// The agents there are. Reply: `agents`.
    Agents {
        /// Look at each of them anew.
        #[serde(default)]
        probe: bool,
    },
    /// Who an agent is logged in as. Reply: `account`.
    Account {
        /// Which agent.
        agent: String,
    },
    /// Log an agent in, for everything that uses its home; owners only. Reply: `account`, once it is done or a person has to
    /// go on, on the page that `under_way` names.
    LogIn {
        /// Which agent.
        agent: String,
        /// How.
        with: LogIn,
    },
    /// Log an agent out, for everything that uses its home; owners only. Reply: `account`.
    LogOut {
        /// Which agent.
        agent: String,
    },
    /// Make a token; owners only. Reply: `token`.
    TokenCreate(CreateToken),
    /// The tokens there are; owners only. Reply: `tokens`.
    TokenList,
    /// Make a token useless; owners only. Its connections are closed. Reply: `done`.
    TokenRevoke {
        /// Which.
        token: TokenId,
    },
    /// A one-time ticket with which a browser logs in as the sender. Reply: `ticket`.
    TicketCreate,
    /// A one-time ticket for another device: a browser that logs in by it gets a token of its own, made at that moment, whose
    /// time runs from then on. Works for 5 minutes; owners only. Reply: `ticket`.
    Pair(CreateToken),
    /// The browsers that are logged in; owners only. Reply: `browsers`.
    BrowserList,
    /// Log a browser out; owners only. Its connections are closed. Reply: `done`.
    BrowserLogOut {
        /// Which.
        browser: String,
    },
    /// Are you there? Reply: `pong`.
    Ping,
}

impl Call {
    /// Every call's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 29] = [
        "list",
        "resolve",
        "create",
        "past",
        "take_up",
        "archive_past",
        "delete",
        "attach",
        "detach",
        "subscribe",
        "unsubscribe",
        "command",
        "state",
        "history",
        "files",
        "raw",
        "environment",
        "agents",
        "account",
        "log_in",
        "log_out",
        "token_create",
        "token_list",
        "token_revoke",
        "ticket_create",
        "pair",
        "browser_list",
        "browser_log_out",
        "ping",
    ];

    /// Whether the same call may be made again when nobody knows whether the first one arrived. Those that change something
    /// are done at most once under their id, or come to the same twice; of these, a second would be made.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Self::TokenCreate(_) | Self::Pair(_) | Self::TicketCreate | Self::LogIn { .. })
    }

    /// The session it is about, where it is about one.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Delete { session, .. }
            | Self::Attach { session, .. }
            | Self::Detach { session, .. }
            | Self::Command { session, .. }
            | Self::State { session, .. }
            | Self::History { session, .. }
            | Self::Files { session, .. }
            | Self::Raw { session, .. }
            | Self::Environment { session, .. } => Some(*session),
            Self::List { .. }
            | Self::Resolve { .. }
            | Self::Create { .. }
            | Self::Past { .. }
            | Self::TakeUp { .. }
            | Self::ArchivePast(_)
            | Self::Subscribe { .. }
            | Self::Unsubscribe
            | Self::Agents { .. }
            | Self::Account { .. }
            | Self::LogIn { .. }
            | Self::LogOut { .. }
            | Self::TokenCreate(_)
            | Self::TokenList
            | Self::TokenRevoke { .. }
            | Self::TicketCreate
            | Self::Pair(_)
            | Self::BrowserList
            | Self::BrowserLogOut { .. }
            | Self::Ping => None,
        }
    }
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

/// The body of a REST request for a new session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CreateSession {
    /// Sent twice, it makes one session; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// What it is made of. It works in a folder, or in that of the session it is forked from.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::created"))]
    pub spec: Box<SessionSpec>,
}

/// The body of a REST request that takes up a past conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct TakeUpPast {
    /// Sent twice, it makes one session; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// The agent's own id of the conversation, or a unique beginning or end.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::past"))]
    pub past: String,
    /// Leave that one as it is: the agent goes on in a copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
    /// What the session is made of beside.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::taken_up"))]
    pub spec: Box<SessionSpec>,
}

/// The body of a REST request that puts a past conversation away, or takes it out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ArchivePast {
    /// The agent's own id of the conversation, or a unique beginning or end.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::past"))]
    pub past: String,
    /// The agent that has kept it; any when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Away or out.
    pub archived: bool,
}

/// The body of a REST request that asks something of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct SendCommand {
    /// Sent twice, it is done once; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// What.
    #[serde(flatten)]
    pub command: Action,
}

/// The body of a REST request for a new token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CreateToken {
    /// What people call it.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::token_name"))]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sessions it is bound to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional), schemars(length(min = 1)))]
    pub sessions: Option<BTreeSet<SessionId>>,
    /// For how many seconds it opens the door; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"), schemars(range(min = 1)))]
    pub expires_in_seconds: Option<u64>,
}

/// What the schemas say of bodies beyond their types.
#[cfg(feature = "schema")]
mod shape {
    use portolan_core::SessionSpec;
    use schemars::{Schema, SchemaGenerator, json_schema};

    /// A new session works in a folder, or is a fork.
    pub(super) fn created(generator: &mut SchemaGenerator) -> Schema {
        let spec = generator.subschema_for::<SessionSpec>();
        json_schema!({
            "allOf": [spec],
            "anyOf": [
                {"required": ["cwd"], "properties": {"cwd": {"pattern": "^/"}}},
                {"required": ["fork"], "properties": {"fork": {"type": "object"}}},
            ],
        })
    }

    /// A conversation that is taken up is neither resumed nor forked by what its session is made of.
    pub(super) fn taken_up(generator: &mut SchemaGenerator) -> Schema {
        let spec = generator.subschema_for::<SessionSpec>();
        json_schema!({"allOf": [spec], "properties": {"resume": {"type": "null"}, "fork": {"type": "null"}}})
    }

    /// An agent's own id, or its beginning.
    pub(super) fn past(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[!-~]{4,}$"})
    }

    /// A token's name: no control characters, and no white space at its ends.
    pub(super) fn token_name(_: &mut SchemaGenerator) -> Schema {
        let (inner, end) = (r"[^\u0000-\u001f\u007f-\u009f]", r"[^\s\u0000-\u001f\u007f-\u009f]");
        json_schema!({"type": "string", "pattern": format!("^{end}({inner}{{0,62}}{end})?$")})
    }
}
