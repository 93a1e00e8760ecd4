//! Agents, the port of the south: the trait of an agent kind, and the result of a check.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Account, AgentLink, Boxed, Launch, LeftRunning, Past, Rejoined};
use crate::{Capabilities, SessionSpec};

/// Environment variables by name.
pub type Variables = indexmap::IndexMap<String, String>;

/// An agent kind: what it supports, whether it is installed, and how to start it.
pub trait Agent: fmt::Debug + Send + Sync {
    /// The agent's kind, such as `claude`. Sessions and configuration use this name.
    fn kind(&self) -> &str;

    /// The agent's name for people.
    fn title(&self) -> String;

    /// What the agent supports, without a session.
    fn capabilities(&self) -> Capabilities;

    /// The environment that the agent would start with, as an owner may see it. Or the reason why the agent would not
    /// start, so that a session is refused instead of failing later.
    fn environment(&self, spec: &SessionSpec) -> Result<Variables, String> {
        Ok(spec.env.clone())
    }

    /// What in `means` stops the agent from asking anybody, whatever its mode is; `None` if the agent continues to ask.
    /// A client that may not set such a mode may not get around that by other means either.
    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        let _ = means;
        None
    }

    /// The text of the rule that allows a tool of [`SessionSpec::allowed_tools`], for which an agent may have a spelling
    /// of its own.
    fn rule_for(&self, tool: &str) -> String {
        tool.to_owned()
    }

    /// Checks whether the agent is installed and usable, without starting a turn.
    fn probe(&self) -> Boxed<'_, Probe>;

    /// The agent's past conversations, if they can be read.
    fn past(&self) -> Option<Arc<dyn Past>> {
        None
    }

    /// The agent's login, if the agent itself can read and change it.
    fn account(&self) -> Option<Arc<dyn Account>> {
        None
    }

    /// Starts the agent. Returns at once: the results arrive as reports, the last of which is always
    /// [`Report::Exited`](super::Report::Exited). Dropping the link ends the agent.
    fn start(&self, launch: Launch) -> AgentLink;

    /// Joins an agent that an earlier daemon left running. `None` if the agent no longer runs: by default an agent ends
    /// with its daemon.
    fn rejoin(&self, left: LeftRunning) -> Boxed<'_, Option<Rejoined>> {
        let _ = left;
        Box::pin(async { None })
    }
}

/// Writes methods of [`Agent`] for an agent that wraps another one: `delegates_agent!(field: kind, title)` passes `kind`
/// and `title` on to the agent in `field`.
///
/// A wrapper that forgets a method with a default gets the default instead of the wrapped agent's own method, and nobody
/// notices. So the `impl` of each wrapper has `#[deny(clippy::missing_trait_methods)]`: a new method is then an error
/// there until the wrapper passes it on or defines it.
#[macro_export]
macro_rules! delegates_agent {
    (@kind $field:ident) => {
        fn kind(&self) -> &str {
            self.$field.kind()
        }
    };
    (@title $field:ident) => {
        fn title(&self) -> String {
            self.$field.title()
        }
    };
    (@capabilities $field:ident) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self.$field.capabilities()
        }
    };
    (@environment $field:ident) => {
        fn environment(&self, spec: &$crate::SessionSpec) -> Result<$crate::ports::Variables, String> {
            self.$field.environment(spec)
        }
    };
    (@asks_nothing $field:ident) => {
        fn asks_nothing(&self, means: $crate::ports::Means<'_>) -> Option<String> {
            self.$field.asks_nothing(means)
        }
    };
    (@rule_for $field:ident) => {
        fn rule_for(&self, tool: &str) -> String {
            self.$field.rule_for(tool)
        }
    };
    (@probe $field:ident) => {
        fn probe(&self) -> $crate::ports::Boxed<'_, $crate::ports::Probe> {
            self.$field.probe()
        }
    };
    (@past $field:ident) => {
        fn past(&self) -> Option<std::sync::Arc<dyn $crate::ports::Past>> {
            self.$field.past()
        }
    };
    (@account $field:ident) => {
        fn account(&self) -> Option<std::sync::Arc<dyn $crate::ports::Account>> {
            self.$field.account()
        }
    };
    (@rejoin $field:ident) => {
        fn rejoin(
            &self,
            left: $crate::ports::LeftRunning,
        ) -> $crate::ports::Boxed<'_, Option<$crate::ports::Rejoined>> {
            self.$field.rejoin(left)
        }
    };
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::delegates_agent!(@$method $field);)+
    };
}

/// Something that can change an agent's mode without naming a mode.
#[derive(Clone, Copy, Debug)]
pub enum Means<'a> {
    /// A message of the agent's own protocol.
    Message(&'a Value),
    /// Environment variables that the agent is started with, or gets while it runs.
    Variables(&'a Variables),
    /// One of the agent's own options in a request, by id: some options change the mode.
    Choice(&'a str),
}

/// The result of a check of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Probe {
    /// The agent can be started.
    pub available: bool,
    /// The agent's version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub version: Option<String>,
    /// The result in words, and the way out if something is missing.
    pub message: String,
    /// The program that would be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub program: Option<String>,
    /// The transport that would be used. Earlier versions call it `road`.
    #[serde(default, alias = "road", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub transport: Option<Transport>,
    /// Whether the agent is logged in, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub login: Option<Login>,
}

/// The transport to an agent, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Transport {
    /// The transport's name, such as `stdio`.
    pub name: String,
    /// Why Portolan uses this transport.
    pub why: String,
}

/// Whether an agent is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Login {
    /// The agent is logged in.
    LoggedIn {
        /// The kind of login, in the agent's own words.
        how: String,
    },
    /// The agent is not logged in.
    LoggedOut {
        /// What the user can do.
        way_out: String,
    },
}
