//! `[agui]`: CopilotKit and other AG-UI clients: their own listener, whose pages may come, and what new threads begin.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

/// CopilotKit and other AG-UI clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agui {
    #[serde(deserialize_with = "super::optional_address")]
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) origins: Vec<String>,
    pub(crate) agent: String,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) approvals: Approvals,
    pub(crate) unknown_threads: UnknownThreads,
    pub(crate) on_close: OnClose,
}

/// How a client is asked that does not say how it wants to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Approvals {
    /// By a custom event.
    #[default]
    Event,
    /// By the protocol's interrupt.
    Interrupt,
}

/// What a thread that nobody knows begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnknownThreads {
    /// A session of its own.
    #[default]
    New,
    /// It joins the active session.
    JoinActive,
}

/// What the end of a run's connection means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnClose {
    /// By whether a page has connected to the thread.
    #[default]
    Auto,
    /// A stop.
    Stop,
    /// Nothing.
    Continue,
}

impl Default for Agui {
    fn default() -> Self {
        Self {
            listen: None,
            origins: Vec::new(),
            agent: "claude".into(),
            folder: None,
            approvals: Approvals::Event,
            unknown_threads: UnknownThreads::New,
            on_close: OnClose::Auto,
        }
    }
}
