//! Arguments of the verbs about one session: reading, prompts, answers, settings.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Join a session.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Which session
    pub(crate) id: String,
    /// Begin with this many of the last entries
    #[arg(long, value_name = "ENTRIES", default_value_t = 200, conflicts_with = "from")]
    pub(crate) tail: u32,
    /// Begin after the entry with this number; 0 shows the whole history
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
}

/// Send a prompt to the agent.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Which session
    pub(crate) id: String,
    /// The prompt; `-` reads the prompt from stdin
    pub(crate) text: Vec<String>,
    /// An image for the prompt
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
    /// Number of the request; default: the only open request, if it has been open for at least two seconds
    pub(crate) request: Option<u64>,
    #[command(flatten)]
    pub(crate) persist: Always,
    /// Allow with this input instead: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// For a plan: the permission mode to continue in
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Choose one of the agent's own options, by the id of the option
    #[arg(long, value_name = "OPTION")]
    pub(crate) option: Option<String>,
}

/// A rule that an answer makes.
#[derive(Debug, Default, Args)]
pub(crate) struct Always {
    /// Also make a rule that answers such calls from now on; the command prints the rule
    #[arg(long = "always")]
    pub(crate) makes_rule: bool,
    /// Where the rule holds; owners only, except `session`
    #[arg(long, value_enum, value_name = "SCOPE", default_value_t, requires = "makes_rule")]
    pub(crate) scope: RuleAt,
    /// The rule, as TOOL or TOOL(PATTERN); default: what Portolan suggests for the request
    #[arg(long, value_name = "RULE", requires = "makes_rule")]
    pub(crate) rule: Option<String>,
}

/// Where a rule holds that an answer makes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum RuleAt {
    /// In this session
    #[default]
    Session,
    /// In every session in this session's folder and below it
    Project,
    /// In every session
    User,
}

/// Answer a question.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Which session
    pub(crate) id: String,
    /// Choices by label or number, or your own text; one argument for each question, commas between choices
    pub(crate) choices: Vec<String>,
    /// Number of the request; default: the only open request, if it has been open for at least two seconds
    #[arg(long, short)]
    pub(crate) request: Option<u64>,
    /// Answer one of several questions; may be repeated
    #[arg(long = "question", value_name = "QUESTION=ANSWER")]
    pub(crate) questions: Vec<String>,
    /// The data for the form of an MCP server: JSON or @FILE
    #[arg(long, value_name = "JSON", conflicts_with_all = ["choices", "questions", "output"])]
    pub(crate) content: Option<String>,
    /// The output that a hook waits for: JSON or @FILE
    #[arg(long, value_name = "JSON", conflicts_with_all = ["choices", "questions"])]
    pub(crate) output: Option<String>,
}

/// A setting of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum Set {
    /// Change the model
    Model {
        /// Name of the model; default: the agent's own default
        model: Option<String>,
    },
    /// Change the permission mode
    Mode {
        /// Name of the mode
        mode: String,
    },
    /// Change how many tokens the model may use to think before it answers
    Thinking {
        /// Number of tokens; default: the agent's own default
        tokens: Option<u32>,
    },
    /// Set environment variables for the programs that the agent starts from now on; owners only
    Env {
        /// A variable; NAME alone takes the value from your environment
        #[arg(required = true, value_name = "NAME[=VALUE]")]
        variables: Vec<String>,
    },
}

/// A live session's MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Show the state of the servers
    Status,
    /// Reconnect a server
    Reconnect {
        /// Which server
        server: String,
    },
    /// Switch a server on or off
    Toggle {
        /// Which server
        server: String,
        /// On or off
        #[arg(value_enum)]
        state: Switch,
    },
    /// Set the servers of the session, in addition to the user's servers; owners only
    Set {
        /// Servers by name, in the agent's own format: JSON, @FILE, or `-` for stdin
        servers: String,
    },
    /// Send a JSON-RPC message to a server; owners only
    Message {
        /// Which server
        server: String,
        /// The message: JSON, @FILE, or `-` for stdin
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
    /// Stop a task
    Stop {
        /// In which session
        id: String,
        /// Which task, by its id
        task: String,
    },
}

/// Rules of a session: the older form of `rules remove`.
#[derive(Debug, Subcommand)]
pub(crate) enum Rule {
    /// Remove a rule of a session, so that the agent asks again
    Remove {
        /// In which session
        id: String,
        /// The rule's TOOL or TOOL(PATTERN)
        tool: String,
    },
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One log entry per line, as JSON
    Jsonl,
    /// The conversation, for people to read
    Markdown,
}
