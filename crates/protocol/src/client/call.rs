//! What a client asks by WebSocket; REST asks the same.

use std::path::PathBuf;

use portolan_core::{
    Action, Position, Seq, SessionId, SessionSpec, TokenId,
    audit::AuditQuery,
    log::delivery::Start,
    policy::{BudgetDraft, BudgetId, RuleDraft, RuleId},
    ports::LogIn,
};
use serde::{Deserialize, Serialize};

use super::body::{ArchivePast, CreateToken, SimulateRule, TestRule};

/// A client's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Call {
    /// List sessions, newest first. Reply: `sessions`.
    List {
        /// `true`: only archived sessions. `false`: only the others. Absent: both.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        archived: Option<bool>,
        /// Only sessions older than this one, for the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        before: Option<SessionId>,
        /// The largest number of sessions; 100 when absent, 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// Find the session whose id begins or ends with these characters. Reply: `resolved`.
    Resolve {
        /// At least 4 characters.
        prefix: String,
    },
    /// Create a session. Reply: `session`.
    Create {
        /// The new session's settings.
        spec: Box<SessionSpec>,
    },
    /// List past conversations that agents keep by themselves, newest first. Reply: `past`.
    Past {
        /// Only conversations of this agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        agent: Option<String>,
        /// Only conversations held in this folder or below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "string"))]
        cwd: Option<PathBuf>,
        /// `true`: only conversations that the agent has archived. `false`: only the others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        archived: bool,
        /// The largest number of conversations; 100 when absent, 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// Import a past conversation: the reply names a new session with its messages, or the session that already
    /// continues it. Reply: `taken_up`.
    TakeUp {
        /// The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
        past: String,
        /// Keep the original conversation unchanged: the agent continues in a copy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy: bool,
        /// The session's other settings. An empty `agent` means any agent that has the conversation; without `cwd`, the
        /// session uses the folder in which the conversation was held.
        spec: Box<SessionSpec>,
    },
    /// Let an agent archive a past conversation in its own list, or restore it. Reply: `past`, with that conversation.
    ArchivePast(ArchivePast),
    /// Delete a session for good. Reply: `done`.
    Delete {
        /// The session to delete.
        session: SessionId,
    },
    /// Join a session. Reply: `attached`, then the session's entries, a snapshot, and every new entry.
    Attach {
        /// The session to join.
        session: SessionId,
        /// Where reading begins.
        start: Start,
        /// Only finished items, no deltas.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        items_only: bool,
    },
    /// Leave a session. Reply: `done`; no frame of that session follows the reply.
    Detach {
        /// The session to leave.
        session: SessionId,
    },
    /// Read the daemon's log. Reply: `subscribed`, then the log's entries, a snapshot, and every new entry.
    Subscribe {
        /// Where reading begins.
        start: Start,
    },
    /// Stop reading the daemon's log. Reply: `done`.
    Unsubscribe,
    /// Send a command to a session. Reply: `receipt`.
    Command {
        /// The session.
        session: SessionId,
        /// The command.
        command: Action,
    },
    /// Get the current state of a session without joining the session. Reply: `state`.
    State {
        /// The session.
        session: SessionId,
    },
    /// Get a page of a session's history. Reply: `history`.
    History {
        /// The session.
        session: SessionId,
        /// Only entries after this number.
        #[serde(default)]
        after: Seq,
        /// Only entries up to this number; up to the newest when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        upto: Option<Seq>,
        /// The largest number of entries; 1,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// List files and folders below a session's folder, for completion in a prompt; operators only. Hidden files and
    /// files that Git ignores are left out. Reply: `files`.
    Files {
        /// The session.
        session: SessionId,
        /// A part of the path, in upper or lower case, of at most 256 characters. Empty: every path.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        query: String,
        /// The largest number of paths; 20 when absent, 100 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        limit: Option<u32>,
    },
    /// Get the agent's original text of an entry; owners only. Reply: `raw`.
    Raw {
        /// The session.
        session: SessionId,
        /// The entry's number.
        seq: Seq,
    },
    /// Get the environment variables of a session's agent; owners only. Reply: `environment`.
    Environment {
        /// The session.
        session: SessionId,
    },
    /// List the agents. Reply: `agents`.
    Agents {
        /// Check each agent again.
        #[serde(default)]
        probe: bool,
    },
    /// Get the account that an agent is logged in with. Reply: `account`.
    Account {
        /// The agent's kind.
        agent: String,
    },
    /// Log an agent in, for every program that uses the agent's home; owners only. Reply: `account`, when the login is
    /// done or when a person must continue on the page that `under_way` names.
    LogIn {
        /// The agent's kind.
        agent: String,
        /// The way to log in.
        with: LogIn,
    },
    /// Log an agent out, for every program that uses the agent's home; owners only. Reply: `account`.
    LogOut {
        /// The agent's kind.
        agent: String,
    },
    /// List the rules for projects and for every session, and the rules of one session. Reply: `rules`.
    RuleList {
        /// Also the rules of this session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        session: Option<SessionId>,
    },
    /// Add a rule. A rule for one session needs the role operator, any other rule the role owner. Reply: `rule`.
    RuleAdd {
        /// The rule.
        rule: Box<RuleDraft>,
    },
    /// Replace a rule for a project or for every session; owners only. Reply: `rule`.
    RuleEdit {
        /// The rule's id.
        rule: RuleId,
        /// What the rule becomes.
        draft: Box<RuleDraft>,
    },
    /// Remove a rule for a project or for every session; owners only. Reply: `rule`, with the removed rule.
    RuleRemove {
        /// The rule's id.
        rule: RuleId,
    },
    /// Get the decision about a call, without running anything. Reply: `judgement`.
    RuleTest(TestRule),
    /// Find the recorded requests that a rule would have decided; nothing changes. Reply: `simulation`.
    RuleSimulate(SimulateRule),
    /// List what people, rules and agents did, from the logs; owners only. Reply: `audit`.
    AuditList(AuditQuery),
    /// Get one record of the audit with its entry and its seal; owners only. Reply: `audit_record`.
    AuditShow {
        /// The record's position.
        position: Position,
    },
    /// List the budgets for projects, agents and every session, or those that count one session. Reply: `budgets`.
    BudgetList {
        /// Only the budgets that count this session, with its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        session: Option<SessionId>,
    },
    /// Set the limits of the budget with this scope and period, and make the budget if there is none; owners only. What
    /// was used so far still counts. Reply: `budget`.
    BudgetSet {
        /// The budget.
        budget: Box<BudgetDraft>,
    },
    /// Let a budget count from zero again; owners only. Reply: `budget`.
    BudgetReset {
        /// The budget's id.
        budget: BudgetId,
    },
    /// Remove a budget; owners only. Reply: `budget`, with the removed budget.
    BudgetRemove {
        /// The budget's id.
        budget: BudgetId,
    },
    /// Create a token; owners only. Reply: `token`.
    TokenCreate(CreateToken),
    /// List the tokens; owners only. Reply: `tokens`.
    TokenList,
    /// Revoke a token and close its connections; owners only. Reply: `done`.
    TokenRevoke {
        /// The token's public name.
        token: TokenId,
    },
    /// Create a one-time ticket with which a browser logs in as the sender. Reply: `ticket`.
    TicketCreate,
    /// Create a one-time ticket for another device. A browser that logs in with the ticket gets a new token, whose
    /// lifetime begins at that login. The ticket works for 5 minutes; owners only. Reply: `ticket`.
    Pair(CreateToken),
    /// List the browsers that are logged in; owners only. Reply: `browsers`.
    BrowserList,
    /// Log a browser out and close its connections; owners only. Reply: `done`.
    BrowserLogOut {
        /// The browser's public name.
        browser: String,
    },
    /// Check the connection. Reply: `pong`.
    Ping,
}

impl Call {
    /// Every call's name on the wire, in the order of the enum.
    pub const NAMES: [&'static str; 41] = [
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
        "rule_list",
        "rule_add",
        "rule_edit",
        "rule_remove",
        "rule_test",
        "rule_simulate",
        "audit_list",
        "audit_show",
        "budget_list",
        "budget_set",
        "budget_reset",
        "budget_remove",
        "token_create",
        "token_list",
        "token_revoke",
        "ticket_create",
        "pair",
        "browser_list",
        "browser_log_out",
        "ping",
    ];

    /// Whether a client may repeat the call when nobody knows whether the first one arrived. Most calls that change
    /// something run at most once under their id, or have the same effect twice. The calls excluded here would create a
    /// second thing.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(
            self,
            Self::RuleAdd { .. }
                | Self::TokenCreate(_)
                | Self::Pair(_)
                | Self::TicketCreate
                | Self::LogIn { .. }
        )
    }

    /// The session that the call is about, if any.
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
            | Self::RuleList { .. }
            | Self::RuleAdd { .. }
            | Self::RuleEdit { .. }
            | Self::RuleRemove { .. }
            | Self::RuleTest(_)
            | Self::RuleSimulate(_)
            | Self::AuditList(_)
            | Self::AuditShow { .. }
            | Self::BudgetList { .. }
            | Self::BudgetSet { .. }
            | Self::BudgetReset { .. }
            | Self::BudgetRemove { .. }
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
