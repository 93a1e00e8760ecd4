//! Arguments of the verbs about access: tokens, paired devices, handhelds, the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Arguments of `pair`.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// Name of the device; default: `phone`, then `phone 2` and so on
    pub(crate) name: Option<String>,
    /// Role: owner, operator (prompts and answers) or viewer (reads)
    #[arg(long, default_value = "operator")]
    pub(crate) role: portolan_core::Role,
    /// Give access to this session only; may be repeated
    #[arg(long = "session", value_name = "ID")]
    pub(crate) sessions: Vec<String>,
    /// How long the device keeps its access, such as 12h or 30d; default: until you revoke it
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Address at which the device reaches the daemon, such as `https://desk.example:7420`; default: found
    /// automatically
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) at: Option<String>,
}

/// Tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token and show its secret, which is never shown again
    Create {
        /// Name of the token
        name: String,
        /// Role: owner, operator (prompts and answers) or viewer (reads)
        #[arg(long, default_value = "operator")]
        role: portolan_core::Role,
        /// Give access to this session only; may be repeated
        #[arg(long = "session", value_name = "ID")]
        sessions: Vec<String>,
        /// How long the token works, such as 12h or 30d; default: no end
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Write the secret to this file (mode 0600) instead of stdout
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// List the tokens
    List,
    /// Give the owner's token a new secret and disconnect every client that used the old secret
    Rotate,
    /// Revoke a token and close its connections
    Revoke {
        /// Name or id of the token; an id may be shortened
        token: String,
    },
}

/// The audit: who did what, when, and which rule decided.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Show who did what, when, and which rule decided; newest last
    ///
    /// The records come from the daemon's log and from the logs of the sessions: commands, requests and their answers,
    /// decisions of rules, changes of rules, modes, deadlines, tokens, devices and sessions. Reads the database of this
    /// machine directly and needs no daemon; with --url, asks the daemon at that address. `verify` checks that
    /// nobody changed the daemon's log.
    List {
        #[command(flatten)]
        wanted: Wanted,
        /// Show at most this many records, the newest ones
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Show the newest record first
        #[arg(long)]
        newest_first: bool,
        /// Show the oldest records, oldest first
        #[arg(long, conflicts_with = "newest_first")]
        oldest: bool,
        /// Continue an earlier list: show records older than this one; with --oldest, newer than this one
        #[arg(long, value_name = "RECORD")]
        from: Option<u64>,
    },
    /// Show one record, its whole entry, and whether the entry matches its seal
    Show {
        /// Which record, by the number in the first column of `list`
        record: u64,
    },
    /// Write the records to stdout or to a file, oldest first
    ///
    /// A file gets the mode 0600 and appears only when it is complete.
    Export {
        #[command(flatten)]
        wanted: Wanted,
        /// Format of the output
        #[arg(long, short, value_enum, default_value_t = AuditFormat::Jsonl)]
        format: AuditFormat,
        /// Write to this file, which must not exist yet
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Replace a file that exists
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Check that nobody changed the daemon's log
    ///
    /// The seal of an entry is a hash that includes the seal of the entry before it. Prints the first entry
    /// that does not match its seal, and the head: the number and seal of the last entry. Keep the head on
    /// another machine and pass it later with --head: `verify` then also finds a log whose end was cut off or
    /// that was rewritten as a whole. Needs no daemon. Exits with 9 when something does not match.
    Verify {
        /// A head that an earlier `verify` printed, such as 412:9f86...
        #[arg(long, value_name = "HEAD")]
        head: Option<String>,
    },
}

/// Which records of the audit.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Only records since then: a duration such as 12h or 30d, a day such as 2026-11-18 (UTC), or a time in RFC 3339;
    /// default: all
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only records of this actor: part of a name, the id of a token, a frontend, an address, or one of the words
    /// agent, portolan, deadline and rule
    #[arg(long, value_name = "WHO")]
    pub(crate) who: Option<String>,
    /// Only records about this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only records that name this rule, by its id
    #[arg(long, value_name = "ID")]
    pub(crate) rule: Option<String>,
}

/// The format of an export of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// One record per line, as JSON
    Jsonl,
    /// A table with a header line
    Csv,
}

/// Devices that connect to the handheld's listener.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    /// List the devices that tried to connect, and those that are approved or revoked
    List,
    /// Allow a device to connect from now on
    Approve {
        /// Address of the device, as `list` shows it
        address: std::net::IpAddr,
    },
    /// Disconnect and refuse a device, even if portolan.toml allows its network
    Revoke {
        /// Address of the device, as `list` shows it
        address: std::net::IpAddr,
    },
}

/// The slots of a handheld.
#[derive(Debug, Subcommand)]
pub(crate) enum Handheld {
    /// Show the session in each slot
    Status,
    /// Put a session into a slot
    Bind {
        /// Which slot, 0 to 3
        #[arg(value_parser = clap::value_parser!(u8).range(0..4))]
        slot: u8,
        /// Which session
        session: String,
    },
    /// Empty a slot; the session keeps running
    Unbind {
        /// Which slot, 0 to 3
        #[arg(value_parser = clap::value_parser!(u8).range(0..4))]
        slot: u8,
    },
}
