//! What happened in the daemon.

use serde::{Deserialize, Serialize};

use crate::{
    RequestId, SessionId, TokenId,
    request::{Outcome, Request},
    session::state::Summary,
};

/// What happened in the daemon: the log behind session lists, the inbox and audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DaemonEvent {
    /// The daemon started.
    Started {
        /// Its version.
        version: String,
    },
    /// The daemon is about to end.
    Stopping,
    /// There is a new session.
    SessionCreated {
        /// What it is.
        summary: Box<Summary>,
    },
    /// A session's place in a list has changed.
    SessionChanged {
        /// What it is now.
        summary: Box<Summary>,
    },
    /// A session is gone for good.
    SessionDeleted {
        /// Which.
        session: SessionId,
    },
    /// Something waits for an answer.
    RequestOpened {
        /// In which session.
        session: SessionId,
        /// What.
        request: Box<Request>,
    },
    /// It waits no longer.
    RequestClosed {
        /// In which session.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// There is a new token.
    TokenCreated {
        /// Its public name.
        token: TokenId,
        /// What people call it.
        name: String,
        /// What it may do.
        role: crate::Role,
    },
    /// A token no longer opens the door.
    TokenRevoked {
        /// Its public name.
        token: TokenId,
    },
    /// A token has a new secret; the old one opens nothing any more.
    TokenRotated {
        /// Its public name.
        token: TokenId,
    },
    /// A door has opened, so set: the main one, or that of a frontend with a listener of its own.
    DoorOpened {
        /// Whose it is, where it is not the main one: `insights`, `handheld`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        frontend: Option<String>,
        /// Some get in by it without a token.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tokenless: bool,
        /// Where it listens.
        addresses: Vec<String>,
        /// By TLS.
        tls: bool,
        /// Names it answers to, beside its addresses.
        hosts: Vec<String>,
        /// Origins whose pages may talk to it, beside its own.
        origins: Vec<String>,
        /// What a proxy says about its clients is believed.
        behind_proxy: bool,
    },
    /// A browser was logged in.
    LoggedIn {
        /// From where, as the door saw it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        address: Option<String>,
        /// Which, by the public name under which it is listed; absent in what was written before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// A browser logged out, or was logged out by somebody.
    LoggedOut {
        /// Which, by the public name under which it was listed; absent in what was written before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// Someone was refused so often that it is worth a line.
    AccessRefused {
        /// From where, as the door saw it: an address, or a process at the Unix socket.
        from: String,
        /// How often since the last such line.
        attempts: u32,
        /// What was wrong.
        reason: String,
    },
    /// A frontend approves some requests by itself from now on, in the name of who switched that on; or no longer.
    AutoApproval {
        /// Which frontend.
        frontend: String,
        /// It does.
        on: bool,
        /// The tools that it approves.
        tools: Vec<String>,
    },
    /// An agent was logged in or out through Portolan, or a login that was begun has failed.
    AccountChanged {
        /// Which agent.
        agent: String,
        /// Whether it is logged in now, where it tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        login: Option<crate::ports::Login>,
        /// Why the login failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        failed: Option<String>,
    },
}
