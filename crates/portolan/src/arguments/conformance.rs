//! What the verbs take that try agents: doctor, and the scripted model by itself.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Look at the agents.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only this agent
    pub(crate) agent: Option<String>,
    /// Try it against a scripted model
    #[arg(long)]
    pub(crate) deep: bool,
}

/// Serve a scripted model API.
#[derive(Debug, Args)]
pub(crate) struct Scripted {
    /// The script, a JSON file; an empty script when absent
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) script: Option<PathBuf>,
    /// Listen on this port of loopback; on a free port when absent
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Print the headers and the body of each request, too
    #[arg(long)]
    pub(crate) bodies: bool,
}
