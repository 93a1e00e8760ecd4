//! The command line: every verb with its options. The doc comments are the help texts and docs/cli.md.
//!
//! This file has the verbs; the other files have their arguments, one file for each group of verbs.
//! `commands` carries the verbs out.

mod access;
mod account;
#[cfg(feature = "conformance")]
mod conformance;
mod create;
mod daemon;
mod policy;
mod session;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};

pub(crate) use access::{Audit, AuditFormat, Devices, Handheld, Pair, Token, Wanted};
pub(crate) use account::AccountVerb;
#[cfg(feature = "conformance")]
pub(crate) use conformance::{Doctor, Scripted};
pub(crate) use create::{New, Past, PastVerb, TakeUp};
pub(crate) use daemon::{Config, Down, Page, Service, Up};
pub(crate) use policy::{BudgetLimits, Budgets, Draft, Rules, SetBudget, Simulate};
pub(crate) use session::{
    Always, Answer, Approve, Attach, ExportFormat, Mcp, Rule, RuleAt, Send, Set, Switch, Task,
};

/// Any coding agent, any screen: runs coding agents and shares their live sessions.
///
/// Sessions run in a daemon and continue when clients disconnect. A verb that needs the daemon starts it.
/// Session ids may be shortened as long as they stay unique.
#[derive(Debug, Parser)]
#[command(
    name = "portolan",
    version = crate::target::VERSION,
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
    /// Read the token from this file; the variable PORTOLAN_TOKEN may hold the token itself
    #[arg(long, global = true, env = "PORTOLAN_TOKEN_FILE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file, in addition to those of the system
    #[arg(long, global = true, env = "PORTOLAN_CA_FILE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon
    ///
    /// SIGINT (Ctrl-C) stops the daemon gracefully: it takes no new connections, gives running turns some time to
    /// end, then ends every agent. SIGTERM and SIGHUP do the same, but agents with the setting `agents.outlive` go
    /// on, and the next daemon takes these agents over. A second signal ends everything at once.
    Up(Up),
    /// Stop the daemon and its agents
    ///
    /// If agents with the setting `agents.outlive` run, the verb asks in a terminal whether these agents go on;
    /// without a terminal, the verb ends these agents too. Before an agent ends, its running turn gets some time to
    /// end.
    Down(Down),
    /// Stop the daemon and start it again
    ///
    /// Agents that outlive the daemon do not notice: their turns go on, and open requests and waiting prompts
    /// stay. Clients connect again by themselves. The new daemon runs the same program as this verb: to upgrade
    /// Portolan, run `restart` with the new program.
    Restart,
    /// List the running agents with their processes
    ///
    /// An agent that outlives the daemon is held by a separate process, the holder. The holder keeps the agent's
    /// reports until a daemon has recorded the reports. Agents with a holder are listed even if no daemon runs.
    /// With --json, the command prints an object for each agent; docs/outliving.md lists the fields.
    Ps,
    /// Show whether the daemon runs, where it listens, and what it does
    Status,
    /// Open the page in a browser, with a link that works once
    Open {
        /// Only print the link
        #[arg(long)]
        print: bool,
    },
    /// Give another device access, such as a phone, with a QR code that works once
    ///
    /// The device gets its own token when it connects, with its own name and role: `portolan token list`
    /// shows the token, `portolan token revoke` ends the access. The code works for 5 minutes. The device
    /// must be able to reach the daemon, directly or through a proxy.
    Pair(Pair),
    /// List the agents and what they can do
    Agents {
        /// Check each agent again
        #[arg(long)]
        probe: bool,
    },
    /// Show the account of an agent, or log the agent in or out
    ///
    /// The account belongs to the agent. Every program that uses the agent's own settings folder uses the same
    /// account, even outside of Portolan. Without a verb, prints the account, and its limits if the agent
    /// reports them. Portolan can log in only some agents: `portolan agents --json` lists the ways to log in
    /// under `logins`. Only owners may log an agent in or out.
    Account {
        /// Which agent
        agent: String,
        #[command(subcommand)]
        verb: Option<AccountVerb>,
    },
    /// Check whether each agent is installed and logged in, how Portolan talks to it, and whether it asks
    /// before it acts
    ///
    /// Needs no daemon. Starts each installed agent with a scripted model (a model that plays written answers), to
    /// see the mode that the agent begins in; --deep runs a longer test. All tests run offline, cost nothing, and
    /// give the agent an empty home folder. Exits with 0 if every installed agent is ready; with 8 if an agent is
    /// not logged in, or fails a part of the test; with 1 if an agent cannot be used, or acts without asking.
    #[cfg(feature = "conformance")]
    Doctor(Doctor),
    /// Start a session
    New(Box<New>),
    /// List past conversations of agents, import one, or archive one
    ///
    /// Past conversations are those that an agent stored itself, for example when you used its own program.
    /// An import makes a session with the whole history, subagents included; the next prompt resumes the
    /// conversation. Portolan reads the agent's files and never changes them: to archive a conversation,
    /// Portolan asks the agent to archive the conversation.
    Past(Past),
    /// List sessions
    Ls {
        /// List archived sessions too
        #[arg(long, short)]
        all: bool,
        /// List only archived sessions
        #[arg(long, conflicts_with = "all")]
        archived: bool,
        /// List at most this many
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show a session
    Show {
        /// Which session
        id: String,
        /// Show the environment variables of the agent; owners only
        #[arg(long)]
        env: bool,
        /// Show the history, entry by entry
        #[arg(long, conflicts_with = "env")]
        entries: bool,
        /// With --entries: show only entries after this number
        #[arg(long, value_name = "SEQ", requires = "entries")]
        after: Option<u64>,
        /// Show the agent's original message at the entry with this number; owners only
        #[arg(long, value_name = "SEQ", conflicts_with_all = ["env", "entries"])]
        raw: Option<u64>,
    },
    /// Join a session: see it live, send prompts, answer requests
    ///
    /// Enter sends the line, and Alt-Enter begins a new line. Esc or Ctrl-C stops the running turn. Ctrl-D, or
    /// Ctrl-C twice, leaves the session. Ctrl-O shows the open request in full, or the last tool call if no
    /// request is open. While a request waits and the line is empty, one key answers the request: y allows, a
    /// allows always, n denies, d denies with a reason, e edits the input in $EDITOR, and digits choose an option. If
    /// the connection is lost, `attach` reconnects by itself. Without a terminal, `attach` prints plain lines; with
    /// --json, it prints the frames of the protocol.
    Attach(Attach),
    /// Send a prompt to the agent
    Send(Send),
    /// Allow what the agent asks for
    Approve(Approve),
    /// Deny what the agent asks for
    Deny {
        /// Which session
        id: String,
        /// Number of the request; default: the only open request, if it has been open for at least two seconds
        request: Option<u64>,
        /// The reason, for the agent
        #[arg(long, short, value_name = "TEXT")]
        message: Option<String>,
        /// Also stop the turn
        #[arg(long)]
        interrupt: bool,
        #[command(flatten)]
        persist: Always,
        /// Choose one of the agent's own options, by the id of the option
        #[arg(long, value_name = "OPTION")]
        option: Option<String>,
    },
    /// Answer a question, a form of an MCP server (an elicitation) or a hook
    Answer(Answer),
    /// Stop the running turn
    Interrupt {
        /// Which session
        id: String,
    },
    /// End the agent; you can still read and resume the session
    Stop {
        /// Which session
        id: String,
    },
    /// Start the agent again where it left off
    Resume {
        /// Which session
        id: String,
    },
    /// Copy a session and continue in the copy
    Fork {
        /// Which session
        id: String,
        /// Number of the last entry to copy; default: the newest entry
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Name of the copy
        #[arg(long, short)]
        name: Option<String>,
        /// Join the copy
        #[arg(long)]
        attach: bool,
        /// First prompt of the copy
        prompt: Vec<String>,
    },
    /// Rename a session
    Rename {
        /// Which session
        id: String,
        /// The new name
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Archive a session; its agent stops
    Archive {
        /// Which session
        id: String,
        /// Take the session out of the archive
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
        /// Format of the output
        #[arg(long, short, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        /// Write to this file, which must not exist yet
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Replace a file that exists
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Show the daemon's text log (its diagnostic messages), or what the agent of a session wrote outside of
    /// the conversation
    Logs {
        /// Which session; default: the daemon itself
        id: Option<String>,
        /// Print new lines as they come
        #[arg(long, short)]
        follow: bool,
        /// Show this many of the last lines
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
    /// Restore files to what they were before a prompt
    Rewind {
        /// Which session
        id: String,
        /// Number of the prompt's entry, as `portolan show ID --entries` prints it
        #[arg(long, value_name = "SEQ")]
        to: u64,
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Show and change the MCP servers of a live session
    Mcp {
        /// Which session
        id: String,
        #[command(subcommand)]
        verb: Mcp,
    },
    /// Show what fills the context window
    Context {
        /// Which session
        id: String,
    },
    /// Stop a background task of a session
    Task {
        #[command(subcommand)]
        verb: Task,
    },
    /// Remove a prompt from the queue
    Withdraw {
        /// Which session
        id: String,
        /// Number of the prompt's entry, as `portolan show ID --entries` prints it
        prompt: u64,
    },
    /// Change how long requests wait for an answer before Portolan denies them
    Deadline {
        /// Which session
        id: String,
        /// How long requests wait, such as 90s or 5m; `none` waits without end
        time: String,
        /// Change only this open request, and count from now; default: change every later request of the session
        #[arg(long, value_name = "REQUEST")]
        request: Option<u64>,
    },
    /// Move a prompt from the queue into the running turn
    Steer {
        /// Which session
        id: String,
        /// Number of the prompt's entry, as `portolan show ID --entries` prints it
        prompt: u64,
    },
    /// Send a command again when nobody knows whether the agent got it
    Resend {
        /// Which session
        id: String,
        /// Number of the command's entry, as `portolan show ID --entries` prints it
        command: u64,
    },
    /// Rules: what agents may do without asking, and what they may never do
    Rules {
        #[command(subcommand)]
        verb: Rules,
    },
    /// Budgets: how much sessions may use
    Budget {
        #[command(subcommand)]
        verb: Budgets,
    },
    /// Explain why each request of a session was allowed, was denied or went to a person
    Explain {
        /// Which session
        id: String,
        /// Which request; default: all of them, the newest last
        request: Option<u64>,
    },
    /// Show which recorded requests a rule would have answered; nothing changes
    Simulate(Simulate),
    /// Rules of a session; use `rules` instead
    #[command(hide = true)]
    Rule {
        #[command(subcommand)]
        verb: Rule,
    },
    /// Send a message of the agent's own protocol; owners only
    Native {
        /// Which session
        id: String,
        /// The message: JSON, @FILE, or `-` for stdin
        body: String,
    },
    /// Tokens: who has access, with which role
    Token {
        #[command(subcommand)]
        verb: Token,
    },
    /// The audit: who did what, when, and which rule decided
    Audit {
        #[command(subcommand)]
        verb: Audit,
    },
    /// List the devices that want to connect as a handheld (a Nintendo 3DS), and approve or revoke them
    Devices {
        #[command(subcommand)]
        verb: Devices,
    },
    /// Show and change which sessions are in the four slots of a handheld (a Nintendo 3DS)
    Handheld {
        #[command(subcommand)]
        verb: Handheld,
    },
    /// Show every configuration value in use, and where it comes from
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
    /// The process of the built-in agent
    #[command(hide = true)]
    DemoAgent {
        /// Arguments of the demo agent
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Hold a running agent, so that it outlives the daemon
    #[command(hide = true)]
    Hold {
        /// Which session
        session: portolan_core::SessionId,
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
    /// For a manual test of an agent without an account: set the agent's base URL to the address in the first
    /// line. An empty script answers every request with the same text.
    #[cfg(feature = "conformance")]
    #[command(hide = true)]
    Scripted(Scripted),
}
