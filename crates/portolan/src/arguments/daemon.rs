//! What the verbs about the daemon itself take: its start and end, its configuration, its unit, its reference pages.

use clap::{Args, Subcommand, ValueEnum};

/// Run the daemon.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Listen here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Go to the background once it is ready
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Set a key of the configuration for this run
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Write the log to the home folder instead of stderr
    #[arg(long, hide = true)]
    pub(crate) log_file: bool,
}

/// Stop the daemon.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Do not give running turns time to end
    #[arg(long)]
    pub(crate) now: bool,
}

/// The configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print where portolan.toml lies
    Path,
    /// Tell what is wrong with it
    Check,
}

/// The systemd user unit.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Write the unit and start it
    Install {
        /// Only print the unit
        #[arg(long)]
        print: bool,
        /// Write the unit, but start nothing
        #[arg(long, conflicts_with = "print")]
        no_start: bool,
    },
    /// Stop it and remove the unit
    Uninstall,
    /// Tell whether it is there and runs
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
