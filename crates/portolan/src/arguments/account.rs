//! What the verb takes that logs an agent in and out.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

/// What to do with an account.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountVerb {
    /// Log the agent in, by a page in a browser on its machine
    ///
    /// The address of the page is printed; the verb waits until the login has ended. Leaving it does not end the login.
    Login {
        /// By a page that can be opened anywhere, and a code
        #[arg(long)]
        device_code: bool,
        /// With the API key in this file; - reads it from stdin
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "device_code")]
        key_file: Option<PathBuf>,
    },
    /// Log the agent out
    Logout,
}
