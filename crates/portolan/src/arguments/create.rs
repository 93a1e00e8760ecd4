//! What the verbs that make a session take.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

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
