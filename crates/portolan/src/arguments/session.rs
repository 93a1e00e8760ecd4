//! What the verbs about one session take: reading it, prompts, answers, settings.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

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

/// How a history is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One entry per line, as it stands in the log
    Jsonl,
    /// The conversation, for people
    Markdown,
}
