//! What the verbs take: their options and their own verbs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

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

/// Look at the agents.
#[cfg(feature = "conformance")]
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Only this agent
    pub(crate) agent: Option<String>,
    /// Try it against a scripted model
    #[arg(long)]
    pub(crate) deep: bool,
}

/// Serve a scripted model API.
#[cfg(feature = "conformance")]
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

/// Everything a new session is made of.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The agent, such as demo
    pub(crate) agent: String,
    /// The first prompt; - reads it from stdin
    pub(crate) prompt: Vec<String>,
    /// Join it at once
    #[arg(long)]
    pub(crate) attach: bool,
    /// The folder it works in; this one when absent
    #[arg(long, short = 'C', value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// What people call it
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// The model
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The permission mode
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// An environment variable; NAME alone takes its value from here
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Words that stand instead of the agent's own system prompt; @FILE reads them
    #[arg(long, value_name = "TEXT", conflicts_with = "append_system_prompt")]
    pub(crate) system_prompt: Option<String>,
    /// Words that follow the agent's own system prompt; @FILE reads them
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,
    /// A tool that needs no permission
    #[arg(long = "allow-tool", value_name = "TOOL")]
    pub(crate) allowed_tools: Vec<String>,
    /// A tool that is not offered
    #[arg(long = "disallow-tool", value_name = "TOOL")]
    pub(crate) disallowed_tools: Vec<String>,
    /// MCP servers by name in the agent's own form: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) mcp_servers: Option<String>,
    /// Subagents by name: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) subagents: Option<String>,
    /// A hook the agent calls back for, answered like any request
    #[arg(long = "hook", value_name = "EVENT[:MATCHER]")]
    pub(crate) hooks: Vec<String>,
    /// Which of the agent's settings files count, separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) setting_sources: Option<Vec<String>>,
    /// A further folder it may use
    #[arg(long = "add-dir", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) extra_dirs: Vec<PathBuf>,
    /// A turn ends after so many steps
    #[arg(long, value_name = "STEPS")]
    pub(crate) max_turns: Option<u32>,
    /// A turn ends when so many US dollars are spent
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget: Option<f64>,
    /// The result must fit this JSON Schema: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) json_schema: Option<String>,
    /// Take up this conversation: the agent's own session id
    #[arg(long, value_name = "AGENT_SESSION", conflicts_with = "fork")]
    pub(crate) resume: Option<String>,
    /// Go on in a copy of this session of Portolan
    #[arg(long, value_name = "ID")]
    pub(crate) fork: Option<String>,
    /// With --fork: the last entry both share
    #[arg(long, value_name = "SEQ", requires = "fork")]
    pub(crate) fork_at: Option<u64>,
    /// A picture for the first prompt
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,
}

/// Conversations that agents have kept by themselves.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Past {
    #[command(subcommand)]
    pub(crate) verb: Option<PastVerb>,
    /// Only of this agent
    pub(crate) agent: Option<String>,
    /// Only those held in this folder or below it
    #[arg(long, short = 'C', value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Those that are put away
    #[arg(long)]
    pub(crate) archived: bool,
    /// At most so many
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}

/// What to do with one.
#[derive(Debug, Subcommand)]
pub(crate) enum PastVerb {
    /// Take one up as a session, with what was said in it
    ///
    /// One that lives here already is not taken up twice: its session is told instead, and the prompt goes there.
    Resume(Box<TakeUp>),
    /// Have the agent put one away in its own list, where it can
    Archive {
        /// Which conversation; its id may be shortened
        id: String,
        /// The agent that has kept it; any when absent
        #[arg(long)]
        agent: Option<String>,
        /// Take it out again
        #[arg(long)]
        undo: bool,
    },
}

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

/// Take up a conversation.
#[derive(Debug, Args)]
pub(crate) struct TakeUp {
    /// Which conversation; its id may be shortened
    pub(crate) id: String,
    /// What to go on with; - reads it from stdin
    pub(crate) prompt: Vec<String>,
    /// The agent that has kept it; any when absent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Leave the conversation as it is and go on in a copy
    #[arg(long)]
    pub(crate) fork: bool,
    /// Join the session at once
    #[arg(long)]
    pub(crate) attach: bool,
    /// What people call the session; the conversation's title when absent
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// The model
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The permission mode
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// A picture for the prompt
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,
}

/// Join a session.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Which session
    pub(crate) id: String,
    /// Begin with the last so many entries
    #[arg(long, value_name = "ENTRIES", default_value_t = 200, conflicts_with = "from")]
    pub(crate) tail: u32,
    /// Begin after this entry; 0 is the whole history
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
}

/// Say something to the agent.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Which session
    pub(crate) id: String,
    /// What; - reads it from stdin
    pub(crate) text: Vec<String>,
    /// A picture
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,
    /// Show what the agent does until its turn ends
    #[arg(long, short)]
    pub(crate) wait: bool,
}

/// Allow what the agent asks for.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Which session
    pub(crate) id: String,
    /// Which request; when absent the only open one, unless it has opened within the last two seconds
    pub(crate) request: Option<u64>,
    /// And every later call of this tool in this session
    #[arg(long)]
    pub(crate) always: bool,
    /// With this input instead: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// After a plan: the permission mode to go on in
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// One of the agent's own options, by its id
    #[arg(long, value_name = "OPTION")]
    pub(crate) option: Option<String>,
}

/// Answer a question.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Which session
    pub(crate) id: String,
    /// Choices by label or number, or own words; with several questions one for each, commas between choices
    pub(crate) choices: Vec<String>,
    /// Which request; when absent the only open one, unless it has opened within the last two seconds
    #[arg(long, short)]
    pub(crate) request: Option<u64>,
    /// Answer one of several questions; may be repeated
    #[arg(long = "question", value_name = "QUESTION=ANSWER")]
    pub(crate) questions: Vec<String>,
    /// The data an elicitation asks for: JSON or @FILE
    #[arg(long, value_name = "JSON", conflicts_with_all = ["choices", "questions", "output"])]
    pub(crate) content: Option<String>,
    /// The output a hook waits for: JSON or @FILE
    #[arg(long, value_name = "JSON", conflicts_with_all = ["choices", "questions"])]
    pub(crate) output: Option<String>,
}

/// A setting of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum Set {
    /// The model
    Model {
        /// Which; the agent's default when absent
        model: Option<String>,
    },
    /// The permission mode
    Mode {
        /// Which
        mode: String,
    },
    /// The thinking budget
    Thinking {
        /// In tokens; the agent's default when absent
        tokens: Option<u32>,
    },
    /// Environment variables for what the agent starts from now on; owners only
    Env {
        /// NAME alone takes its value from here
        #[arg(required = true, value_name = "NAME[=VALUE]")]
        variables: Vec<String>,
    },
}

/// A live session's MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Tell how they are
    Status,
    /// Connect one again
    Reconnect {
        /// Which server
        server: String,
    },
    /// Switch one on or off
    Toggle {
        /// Which server
        server: String,
        /// On or off
        #[arg(value_enum)]
        state: Switch,
    },
    /// Set the session's own servers, beside the user's; owners only
    Set {
        /// By name, in the agent's own form: JSON, @FILE, or - for stdin
        servers: String,
    },
    /// Send a JSON-RPC message to a server; owners only
    Message {
        /// Which server
        server: String,
        /// The message: JSON, @FILE, or - for stdin
        message: String,
    },
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Background tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Stop one
    Stop {
        /// In which session
        id: String,
        /// Which task
        task: String,
    },
}

/// Rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Rule {
    /// Drop one: the agent asks again
    Remove {
        /// In which session
        id: String,
        /// The tool it is about
        tool: String,
    },
}

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

/// How a history is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One entry per line, as it stands in the log
    Jsonl,
    /// The conversation, for people
    Markdown,
}

/// A page of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// docs/cli.md
    Cli,
    /// docs/configuration.md
    Configuration,
}
