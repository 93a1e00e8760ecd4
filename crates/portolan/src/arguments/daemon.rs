//! Arguments of the verbs about the daemon: start, stop, configuration, systemd unit, reference pages.

use clap::{Args, Subcommand, ValueEnum};

/// Run the daemon.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Listen on this address instead of the configured one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Run in the background; return once the daemon is ready
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Set a configuration key for this run
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Write the log to the home folder instead of stderr
    #[arg(long, hide = true)]
    pub(crate) log_file: bool,
}

/// Stop the daemon.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// End running turns and all agents at once
    #[arg(long, conflicts_with = "keep")]
    pub(crate) now: bool,
    /// Let agents that outlive the daemon go on; the next daemon takes these agents over
    #[arg(long)]
    pub(crate) keep: bool,
    /// End all agents, also those that an earlier daemon left running
    #[arg(long, conflicts_with = "keep")]
    pub(crate) end: bool,
}

/// The configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the path of portolan.toml
    Path,
    /// List the mistakes in the configuration
    Check,
}

/// The systemd user unit.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Write the unit and start the daemon
    Install {
        /// Only print the unit
        #[arg(long)]
        print: bool,
        /// Write the unit and do not start the daemon
        #[arg(long, conflicts_with = "print")]
        no_start: bool,
    },
    /// Stop the daemon and remove the unit
    Uninstall,
    /// Show whether the unit is installed and running
    Status,
}

/// A page of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// docs/cli.md
    Cli,
    /// docs/configuration.md
    Configuration,
}
