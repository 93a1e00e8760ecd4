//! What happened in the daemon.

use serde::{Deserialize, Serialize};

use crate::{
    Millis, RequestId, SessionId, TokenId,
    policy::{Budget, Rule},
    request::{Outcome, Request},
    session::state::Summary,
};

/// What happened in the daemon. Session lists, the inbox and the audit come from this log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DaemonEvent {
    /// The daemon started.
    Started {
        /// The daemon's version.
        version: String,
    },
    /// The daemon is about to end.
    Stopping,
    /// A session was created.
    SessionCreated {
        /// The session's line in lists.
        summary: Box<Summary>,
    },
    /// A session's line in lists has changed.
    SessionChanged {
        /// The session's new line in lists.
        summary: Box<Summary>,
    },
    /// A session was deleted for good.
    SessionDeleted {
        /// The session.
        session: SessionId,
    },
    /// An agent waits for an answer.
    RequestOpened {
        /// The session.
        session: SessionId,
        /// The request.
        request: Box<Request>,
    },
    /// A waiting request is denied at another time than before, or never.
    RequestDeadline {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// When the request is denied; absent for never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        deadline: Option<Millis>,
    },
    /// A request no longer waits.
    RequestClosed {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// How the request ended.
        outcome: Outcome,
    },
    /// A token was created.
    TokenCreated {
        /// The token's public name.
        token: TokenId,
        /// The token's name for people.
        name: String,
        /// The token's role.
        role: crate::Role,
    },
    /// A token was revoked.
    TokenRevoked {
        /// The token's public name.
        token: TokenId,
    },
    /// A token has a new secret; the old secret is invalid.
    TokenRotated {
        /// The token's public name.
        token: TokenId,
    },
    /// A listener was opened with these settings: the main listener, or the listener of one frontend.
    DoorOpened {
        /// The frontend, if this is not the main listener: `insights`, `handheld`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        frontend: Option<String>,
        /// Some clients get in without a token.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tokenless: bool,
        /// The addresses that it listens on.
        addresses: Vec<String>,
        /// The listener uses TLS.
        tls: bool,
        /// Host names that the listener accepts, in addition to its addresses.
        hosts: Vec<String>,
        /// Origins whose pages may use the listener, in addition to its own.
        origins: Vec<String>,
        /// The listener trusts what a proxy reports about its clients.
        behind_proxy: bool,
    },
    /// A browser logged in.
    LoggedIn {
        /// The browser's address, as the listener saw it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        address: Option<String>,
        /// The browser's public name, as in the list of browsers; absent in older entries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// A browser logged out, or was logged out by somebody.
    LoggedOut {
        /// The browser's public name, as in the list of browsers; absent in older entries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// A client was refused several times.
    AccessRefused {
        /// Where the client is, as the listener saw it: an address, or a process at the Unix socket.
        from: String,
        /// The number of refusals since the last such entry.
        attempts: u32,
        /// The reason.
        reason: String,
    },
    /// A frontend now approves some requests by itself, in the name of the person who switched this on; or it no longer
    /// does.
    AutoApproval {
        /// The frontend.
        frontend: String,
        /// `true` if the frontend approves from now on.
        on: bool,
        /// The tools that the frontend approves.
        tools: Vec<String>,
    },
    /// A rule was made or changed.
    RuleSaved {
        /// The rule as it is now.
        rule: Box<Rule>,
    },
    /// A rule was removed.
    RuleRemoved {
        /// The rule as it was.
        rule: Box<Rule>,
    },
    /// A budget was made, changed or reset.
    BudgetSaved {
        /// The budget as it is now.
        budget: Box<Budget>,
    },
    /// A budget was removed.
    BudgetRemoved {
        /// The budget as it was.
        budget: Box<Budget>,
    },
    /// An agent was logged in or out through Portolan, or a login failed.
    AccountChanged {
        /// The agent's kind.
        agent: String,
        /// Whether the agent is logged in now, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        login: Option<crate::ports::Login>,
        /// Why the login failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        failed: Option<String>,
    },
}
