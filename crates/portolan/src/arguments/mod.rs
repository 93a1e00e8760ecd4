//! The command line: every verb with its options. The doc comments are the help texts and docs/cli.md.
//!
//! Only shapes; what a verb does lies in `commands`. Here are the verbs; what they take lies in a file for each group of them.

mod access;
mod account;
#[cfg(feature = "conformance")]
mod conformance;
mod create;
mod daemon;
mod session;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};

pub(crate) use access::{Audit, Devices, Handheld, Pair, Token};
pub(crate) use account::AccountVerb;
#[cfg(feature = "conformance")]
pub(crate) use conformance::{Doctor, Scripted};
pub(crate) use create::{New, Past, PastVerb, TakeUp};
pub(crate) use daemon::{Config, Down, Page, Service, Up};
pub(crate) use session::{Answer, Approve, Attach, ExportFormat, Mcp, Rule, Send, Set, Switch, Task};

/// Any coding agent, any screen: runs coding agents and shares their live sessions.
///
/// A session goes on in a daemon while clients come and go; a command that needs the daemon starts it. Ids of
/// sessions may be shortened as long as they stay unique.
#[derive(Debug, Parser)]
#[command(
    name = "portolan",
    version,
    propagate_version = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options that every verb takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Global {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use the daemon at this address, such as https://host:7420, instead of the local one
    #[arg(long, global = true, env = "PORTOLAN_URL", value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// Take the token from this file; the variable PORTOLAN_TOKEN may hold the token itself
    #[arg(long, global = true, env = "PORTOLAN_TOKEN_FILE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file, beside those of the system
    #[arg(long, global = true, env = "PORTOLAN_CA_FILE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon
    ///
    /// SIGTERM, SIGINT and SIGHUP end it in order: no new connections, running turns get a grace time, then every
    /// agent is ended. A second signal ends everything at once.
    Up(Up),
    /// Stop the daemon: running turns get a grace time, then agents end
    Down(Down),
    /// Tell whether the daemon runs, where, and what it does
    Status,
    /// Open the page in a browser, by a link that works once
    Open {
        /// Only print the link
        #[arg(long)]
        print: bool,
    },
    /// Let another device in, such as a phone, by a QR code that works once
    ///
    /// The device gets a token of its own when it comes, with its own name and role: `portolan token list` shows it,
    /// `portolan token revoke` puts it out. The code works for 5 minutes. The daemon must be reachable from the device, by an
    /// address of its own or through a proxy.
    Pair(Pair),
    /// List the agents there are and what they can do
    Agents {
        /// Look at each of them anew
        #[arg(long)]
        probe: bool,
    },
    /// Tell who an agent is logged in as, log it in or out
    ///
    /// The account is the agent's own and holds for everything that uses its home, also outside of Portolan. Without a verb it
    /// is told, with the limits of the account where the agent tells them. Not every agent can be logged in from here:
    /// `portolan agents --json` lists the ways under `logins`. Owners only, but for looking.
    Account {
        /// Which agent
        agent: String,
        #[command(subcommand)]
        verb: Option<AccountVerb>,
    },
    /// Tell whether the agents are here, how they will be spoken to, and whether they are logged in and ask before they act
    ///
    /// Needs no daemon. Each that is here is started against a scripted model, to see the mode that it begins in; with --deep
    /// it is tried further. Both are offline, free, and in an empty home. Ends with 0 when all is well, 8 when something does not work or an agent is not
    /// logged in, 1 when an agent cannot be worked with.
    #[cfg(feature = "conformance")]
    Doctor(Doctor),
    /// Start a session
    New(Box<New>),
    /// List conversations that agents have kept by themselves, take one up, or put one away
    ///
    /// Such as those that were held with the agent's own program. Taking one up makes a session with everything that
    /// was said in it, subagents included; the agent goes on with it at the next prompt. What the agent keeps is only
    /// read, and put away by the agent itself.
    Past(Past),
    /// List sessions
    Ls {
        /// Archived ones too
        #[arg(long, short)]
        all: bool,
        /// Only archived ones
        #[arg(long, conflicts_with = "all")]
        archived: bool,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show a session
    Show {
        /// Which session
        id: String,
        /// The environment variables its agent gets; owners only
        #[arg(long)]
        env: bool,
        /// Its history, entry by entry
        #[arg(long, conflicts_with = "env")]
        entries: bool,
        /// With --entries: only those after this number
        #[arg(long, value_name = "SEQ", requires = "entries")]
        after: Option<u64>,
        /// What the agent really said at this entry; owners only
        #[arg(long, value_name = "SEQ", conflicts_with_all = ["env", "entries"])]
        raw: Option<u64>,
    },
    /// Join a session: see it live, prompt, answer
    ///
    /// Enter sends, Alt-Enter begins a new line, Esc or Ctrl-C stops the running turn, Ctrl-C twice or Ctrl-D leaves,
    /// Ctrl-O shows in full what waits for an answer, else the last call of a tool. While a request waits and the line
    /// is empty, one key answers it: y allows, a allows always, n denies, d denies with a reason, e edits the input in
    /// $EDITOR, digits choose. Comes back by itself when the connection is lost. Without a terminal it prints plain
    /// lines, with --json frames.
    Attach(Attach),
    /// Say something to the agent
    Send(Send),
    /// Allow what the agent asks for
    Approve(Approve),
    /// Deny what the agent asks for
    Deny {
        /// Which session
        id: String,
        /// Which request; when absent the only open one, unless it has opened within the last two seconds
        request: Option<u64>,
        /// Why; the agent is told
        #[arg(long, short, value_name = "TEXT")]
        message: Option<String>,
        /// Stop the turn too
        #[arg(long)]
        interrupt: bool,
        /// One of the agent's own options, by its id
        #[arg(long, value_name = "OPTION")]
        option: Option<String>,
    },
    /// Answer a question, an elicitation or a hook
    Answer(Answer),
    /// Stop the running turn
    Interrupt {
        /// Which session
        id: String,
    },
    /// End the agent; the session can be read on and resumed
    Stop {
        /// Which session
        id: String,
    },
    /// Start the agent again where it left off
    Resume {
        /// Which session
        id: String,
    },
    /// Go on in a copy of a session
    Fork {
        /// Which session
        id: String,
        /// The last entry both share; the newest when absent
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// The copy's name
        #[arg(long, short)]
        name: Option<String>,
        /// Join the copy at once
        #[arg(long)]
        attach: bool,
        /// The copy's first prompt
        prompt: Vec<String>,
    },
    /// Give a session another name
    Rename {
        /// Which session
        id: String,
        /// The new name
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Put a session away; its agent is stopped
    Archive {
        /// Which session
        id: String,
        /// Take it out again
        #[arg(long)]
        undo: bool,
    },
    /// Delete a session and its history for good
    Delete {
        /// Which session
        id: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Write a session's history to a file or to stdout
    Export {
        /// Which session
        id: String,
        /// In which form
        #[arg(long, short, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        /// Into this file, which must not be there yet
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Replace a file that is there already
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Show the daemon's log, or what a session's agent wrote beside the conversation
    Logs {
        /// Which session; the daemon itself when absent
        id: Option<String>,
        /// Go on as it grows
        #[arg(long, short)]
        follow: bool,
        /// Only the last so many lines
        #[arg(long, short = 'n', default_value_t = 200, value_name = "LINES")]
        lines: usize,
    },
    /// Change a setting of a session
    Set {
        /// Which session
        id: String,
        #[command(subcommand)]
        setting: Set,
    },
    /// Take files back to what they were before a prompt
    Rewind {
        /// Which session
        id: String,
        /// The prompt's entry
        #[arg(long, value_name = "SEQ")]
        to: u64,
        /// Only tell what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Look at and change a live session's MCP servers
    Mcp {
        /// Which session
        id: String,
        #[command(subcommand)]
        verb: Mcp,
    },
    /// Tell what fills the context window
    Context {
        /// Which session
        id: String,
    },
    /// Background tasks of a session
    Task {
        #[command(subcommand)]
        verb: Task,
    },
    /// Take back a prompt that still waits in the queue
    Withdraw {
        /// Which session
        id: String,
        /// The prompt's entry
        prompt: u64,
    },
    /// Put a prompt that waits in the queue into the running turn, now
    Steer {
        /// Which session
        id: String,
        /// The prompt's entry
        prompt: u64,
    },
    /// Send again what ended as uncertain
    Resend {
        /// Which session
        id: String,
        /// The command's entry
        command: u64,
    },
    /// Rules that an "always" made
    Rule {
        #[command(subcommand)]
        verb: Rule,
    },
    /// Send a message of the agent's own protocol; owners only
    Native {
        /// Which session
        id: String,
        /// The message: JSON, @FILE, or - for stdin
        body: String,
    },
    /// Tokens: who may come in, and what they may do
    Token {
        #[command(subcommand)]
        verb: Token,
    },
    /// The record of who came in and did what
    Audit {
        #[command(subcommand)]
        verb: Audit,
    },
    /// Devices at the handheld's listener: who may come in
    Devices {
        #[command(subcommand)]
        verb: Devices,
    },
    /// The four slots of a handheld
    Handheld {
        #[command(subcommand)]
        verb: Handheld,
    },
    /// Show the configuration in force and where each value comes from
    Config {
        #[command(subcommand)]
        verb: Option<Config>,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Let systemd run the daemon for this user
    Service {
        #[command(subcommand)]
        verb: Service,
    },
    /// The built-in agent's own process
    #[command(hide = true)]
    DemoAgent {
        /// Whatever the demo agent takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the reference pages that are made from the code
    #[command(hide = true)]
    Reference {
        /// Which page
        #[arg(value_enum)]
        page: Page,
    },
    /// Serve a scripted model API on loopback until interrupted, and print each request
    ///
    /// For trying an agent by hand without an account: set the agent's base URL to the address in the first line. An empty
    /// script answers every request with the same words.
    #[cfg(feature = "conformance")]
    #[command(hide = true)]
    Scripted(Scripted),
}
