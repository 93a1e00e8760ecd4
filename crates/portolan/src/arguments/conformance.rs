//! Arguments of the verbs that test agents: `doctor`, and the scripted model alone.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Check the agents.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check only this agent
    pub(crate) agent: Option<String>,
    /// Run a longer test of each agent against a scripted model
    #[arg(long)]
    pub(crate) deep: bool,
}

/// Serve a scripted model API.
#[derive(Debug, Args)]
pub(crate) struct Scripted {
    /// The script, a JSON file; default: an empty script
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) script: Option<PathBuf>,
    /// Listen on this port of loopback; default: a free port
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Also print the headers and the body of each request
    #[arg(long)]
    pub(crate) bodies: bool,
}
