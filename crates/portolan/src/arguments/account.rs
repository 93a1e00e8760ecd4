//! Arguments of the verb that logs an agent in and out.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

/// What to do with an account.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountVerb {
    /// Log the agent in, with a page in a browser on the machine of the agent
    ///
    /// Prints the address of the page and waits until the login has ended. Ctrl-C ends the wait, not the
    /// login.
    Login {
        /// Log in with a code, on a page that you can open on any machine
        #[arg(long)]
        device_code: bool,
        /// Log in with the API key in this file; `-` reads the key from stdin
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "device_code")]
        key_file: Option<PathBuf>,
    },
    /// Log the agent out
    Logout,
}
