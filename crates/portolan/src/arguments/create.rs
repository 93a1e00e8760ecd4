//! Arguments of the verbs that create a session.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Arguments of `new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The agent, such as demo
    pub(crate) agent: String,
    /// The first prompt; `-` reads the prompt from stdin
    pub(crate) prompt: Vec<String>,
    /// Join the new session
    #[arg(long)]
    pub(crate) attach: bool,
    /// Deny at once everything that neither a rule nor the mode allows. Show the turn, wait for its end, end the agent
    /// and list what was denied. Exit with 10 if anything was denied
    #[arg(long, conflicts_with = "attach", requires = "prompt")]
    pub(crate) unattended: bool,
    /// Deny a request that nobody answers within this time, such as 90s or 5m; `none` waits without end
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<String>,
    /// The folder that the agent works in; default: the current folder
    #[arg(long, short = 'C', value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Name of the session
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// The model
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The permission mode: how much the agent may do without asking
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// An environment variable for the agent; NAME alone takes the value from your environment
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Replace the agent's system prompt with this text; @FILE reads the text from a file
    #[arg(long, value_name = "TEXT", conflicts_with = "append_system_prompt")]
    pub(crate) system_prompt: Option<String>,
    /// Append this text to the agent's system prompt; @FILE reads the text from a file
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,
    /// A tool that the agent may use without asking
    #[arg(long = "allow-tool", value_name = "TOOL")]
    pub(crate) allowed_tools: Vec<String>,
    /// A tool that the agent may not use
    #[arg(long = "disallow-tool", value_name = "TOOL")]
    pub(crate) disallowed_tools: Vec<String>,
    /// MCP servers by name, in the agent's own format: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) mcp_servers: Option<String>,
    /// Subagents by name: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) subagents: Option<String>,
    /// Open a request when this hook of the agent runs; the hook waits for the answer. MATCHER names the tools that
    /// trigger the hook; default: all tools
    #[arg(long = "hook", value_name = "EVENT[:MATCHER]")]
    pub(crate) hooks: Vec<String>,
    /// Which settings files the agent reads, by the agent's own names, separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) setting_sources: Option<Vec<String>>,
    /// Another folder that the agent may use
    #[arg(long = "add-dir", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) extra_dirs: Vec<PathBuf>,
    /// End a turn after this many steps
    #[arg(long, value_name = "STEPS")]
    pub(crate) max_turns: Option<u32>,
    /// End a turn when it has cost this many US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget: Option<f64>,
    /// Let prompts wait when the session has cost this many US dollars, until an owner raises the budget
    #[arg(long, value_name = "USD")]
    pub(crate) budget_cost: Option<f64>,
    /// Let prompts wait when the session has used this many tokens, and interrupt the turn that reaches this number
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget_tokens: Option<u64>,
    /// Let prompts wait after this many turns of the session
    #[arg(long, value_name = "TURNS")]
    pub(crate) budget_turns: Option<u32>,
    /// JSON Schema that the result must match: JSON or @FILE
    #[arg(long, value_name = "JSON")]
    pub(crate) json_schema: Option<String>,
    /// Resume this past conversation of the agent, by the agent's own session id
    #[arg(long, value_name = "AGENT_SESSION", conflicts_with = "fork")]
    pub(crate) resume: Option<String>,
    /// Start with a copy of this Portolan session
    #[arg(long, value_name = "ID")]
    pub(crate) fork: Option<String>,
    /// With --fork: number of the last entry to copy
    #[arg(long, value_name = "SEQ", requires = "fork")]
    pub(crate) fork_at: Option<u64>,
    /// An image for the first prompt
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,
}

/// Arguments of `past`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Past {
    #[command(subcommand)]
    pub(crate) verb: Option<PastVerb>,
    /// List only conversations of this agent
    pub(crate) agent: Option<String>,
    /// List only conversations in this folder or below it
    #[arg(long, short = 'C', value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// List only archived conversations
    #[arg(long)]
    pub(crate) archived: bool,
    /// List at most this many
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}

/// What to do with a past conversation.
#[derive(Debug, Subcommand)]
pub(crate) enum PastVerb {
    /// Import a past conversation as a session, with its history, and resume it
    ///
    /// A conversation that is already a session is not imported twice: the verb prints that session and sends
    /// the prompt to it.
    Resume(Box<TakeUp>),
    /// Archive a conversation in the agent's own list, if the agent can do so
    Archive {
        /// Id of the conversation; may be shortened
        id: String,
        /// The agent that holds the conversation; default: any agent
        #[arg(long)]
        agent: Option<String>,
        /// Take the conversation out of the archive
        #[arg(long)]
        undo: bool,
    },
}

/// Arguments of `past resume`.
#[derive(Debug, Args)]
pub(crate) struct TakeUp {
    /// Id of the conversation; may be shortened
    pub(crate) id: String,
    /// The next prompt; `-` reads the prompt from stdin
    pub(crate) prompt: Vec<String>,
    /// The agent that holds the conversation; default: any agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Continue in a copy and leave the conversation as it is
    #[arg(long)]
    pub(crate) fork: bool,
    /// Join the session
    #[arg(long)]
    pub(crate) attach: bool,
    /// Name of the session; default: the title of the conversation
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// The model
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The permission mode: how much the agent may do without asking
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// An image for the prompt
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,
}
