//! What the verbs about access take: tokens, paired devices, handhelds, the record of who came in.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What `pair` takes.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// What people call the device; `phone`, or `phone 2` and so on, when absent
    pub(crate) name: Option<String>,
    /// What it may do: owner, operator (prompts and answers) or viewer (reads)
    #[arg(long, default_value = "operator")]
    pub(crate) role: portolan_core::Role,
    /// Bind it to this session; may be repeated
    #[arg(long = "session", value_name = "ID")]
    pub(crate) sessions: Vec<String>,
    /// For how long it is let in, such as 12h or 30d; until it is revoked when absent
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// The address by which the device reaches the daemon, such as `https://desk.example:7420`; found by itself when absent
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) at: Option<String>,
}

/// Tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make one; its secret is shown this once
    Create {
        /// What people call it
        name: String,
        /// What it may do: owner, operator (prompts and answers) or viewer (reads)
        #[arg(long, default_value = "operator")]
        role: portolan_core::Role,
        /// Bind it to this session; may be repeated
        #[arg(long = "session", value_name = "ID")]
        sessions: Vec<String>,
        /// For how long it works, such as 12h or 30d; for ever when absent
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Write the secret to this file (mode 0600) instead of stdout
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// List them
    List,
    /// Give the owner's own token another secret; whoever came in by the old one is put out
    Rotate,
    /// Make one useless; its connections are closed
    Revoke {
        /// Its name or its id; ids may be shortened
        token: String,
    },
}

/// The record of who came in and did what.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Show the daemon's log: who came in, what was opened, made and revoked; the newest last
    ///
    /// Reads the database itself, as `verify` does: needs no daemon. It shows what is there; `verify` tells whether that
    /// is what was written.
    List {
        /// At most so many, of the newest
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Tell whether the daemon's log is as it was written
    ///
    /// Every entry is sealed with a hash over the one before it. Tells the first entry that does not fit, and the head:
    /// the last entry's number and seal. Keep the head elsewhere and give it with --head later: that shows, too, whether
    /// the end was cut off or everything was written anew. Needs no daemon. Ends with 9 when something does not fit.
    Verify {
        /// A head noted earlier, such as 412:9f86...
        #[arg(long, value_name = "HEAD")]
        head: Option<String>,
    },
}

/// Devices at the handheld's listener.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    /// List those that knocked and those that were decided on
    List,
    /// Let one in, from now on
    Approve {
        /// Its address, as `list` shows it
        address: std::net::IpAddr,
    },
    /// Put one out, even where portolan.toml allows its network
    Revoke {
        /// Its address, as `list` shows it
        address: std::net::IpAddr,
    },
}

/// The slots of a handheld.
#[derive(Debug, Subcommand)]
pub(crate) enum Handheld {
    /// Show what is in each slot
    Status,
    /// Put a session into a slot
    Bind {
        /// Which slot, 0 to 3
        #[arg(value_parser = clap::value_parser!(u8).range(0..4))]
        slot: u8,
        /// Which session
        session: String,
    },
    /// Take whatever is in a slot out of it; its session goes on
    Unbind {
        /// Which slot, 0 to 3
        #[arg(value_parser = clap::value_parser!(u8).range(0..4))]
        slot: u8,
    },
}
