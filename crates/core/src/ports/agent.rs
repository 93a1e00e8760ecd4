//! Agents, the port of the south: what a kind of agent is, and what a look at it finds.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Account, AgentLink, Boxed, Launch, LeftRunning, Past, Rejoined};
use crate::{Capabilities, SessionSpec};

/// A kind of agent: what it can do, whether it is here, and how to start it.
pub trait Agent: fmt::Debug + Send + Sync {
    /// Its name, such as `claude`. Sessions and configuration use it.
    fn kind(&self) -> &str;

    /// What people call it.
    fn title(&self) -> String;

    /// What it can do, without a session.
    fn capabilities(&self) -> Capabilities;

    /// The environment it would start with, as an owner may see it; or why it would not start, so that a session is
    /// refused instead of failing later.
    fn environment(&self, spec: &SessionSpec) -> Result<indexmap::IndexMap<String, String>, String> {
        Ok(spec.env.clone())
    }

    /// What of this makes the agent ask nobody, whatever its mode is; nothing where it goes on asking. What somebody may not
    /// set as a mode they may not set past the modes either.
    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        let _ = means;
        None
    }

    /// Looks whether it is installed and usable, without starting a turn.
    fn probe(&self) -> Boxed<'_, Probe>;

    /// The conversations that it has kept by itself, where they can be read.
    fn past(&self) -> Option<Arc<dyn Past>> {
        None
    }

    /// Its login, where it can be looked at and changed by asking the agent itself.
    fn account(&self) -> Option<Arc<dyn Account>> {
        None
    }

    /// Starts it. Returns at once: what comes of it arrives as reports, the last of which is always
    /// [`Report::Exited`](super::Report::Exited). Dropping the link ends the agent.
    fn start(&self, launch: Launch) -> AgentLink;

    /// Joins an agent that a daemon before this one has left running. Nothing where it does not run any more: an agent that
    /// says nothing else ends with its daemon.
    fn rejoin(&self, left: LeftRunning) -> Boxed<'_, Option<Rejoined>> {
        let _ = left;
        Box::pin(async { None })
    }
}

/// Something that can change an agent's mode without naming one.
#[derive(Clone, Copy, Debug)]
pub enum Means<'a> {
    /// A message of its own protocol.
    Message(&'a Value),
    /// Variables that it is started with, or given while it runs.
    Variables(&'a indexmap::IndexMap<String, String>),
    /// One of its own options in a request, by id: some go on in another mode.
    Choice(&'a str),
}

/// What a look at an agent found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Probe {
    /// It can be started.
    pub available: bool,
    /// Its version, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub version: Option<String>,
    /// What was found, and the way out where something is missing.
    pub message: String,
    /// The program that would be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub program: Option<String>,
    /// How it would be spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub road: Option<Road>,
    /// Whether it is logged in, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub login: Option<Login>,
}

/// How an agent would be spoken to, and why so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Road {
    /// What people call it, such as `stdio`.
    pub name: String,
    /// Why this one and not another.
    pub why: String,
}

/// Whether an agent is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Login {
    /// It is.
    LoggedIn {
        /// How, in the agent's own words.
        how: String,
    },
    /// It is not.
    LoggedOut {
        /// What the user can do.
        way_out: String,
    },
}
