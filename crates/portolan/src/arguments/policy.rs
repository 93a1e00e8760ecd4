//! Arguments of the verbs about policy: rules, explanations and simulations.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use portolan_core::policy::{Effect, Mode};

/// Rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List the rules, and say which ones are not in force
    List {
        /// Also list the rules of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Add a rule
    ///
    /// TOOL is the name of the agent's tool, with `*` for any characters, or a kind of tools: @run, @edit, @read,
    /// @network, @unknown. PATTERN is a command for tools that run commands, a path for tools that read or edit, and a
    /// host for tools that use the network. docs/policy.md defines what each rule covers.
    Add(Draft),
    /// Change a rule that holds for a project or for every session; the rule keeps its id
    ///
    /// Give the whole rule, because an option that you leave out gets its default: without `--scope project:DIR`, the
    /// rule holds for every session. Portolan refuses the scope `session:ID`.
    Edit {
        /// Which rule, by its id
        rule: String,
        #[command(flatten)]
        draft: Draft,
    },
    /// Remove a rule
    Remove {
        /// Which rule, by its id
        rule: String,
        /// The session of the rule, if it is a session's rule
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Show what Portolan would decide about a call; nothing runs
    ///
    /// The exit code is 0 for every decision; read the decision from the output.
    Test {
        /// The tool's name, such as Bash
        tool: String,
        /// The tool's input as JSON, @FILE, or `-` for stdin
        input: String,
        /// Test the call as if it came from a session in this folder; default: the current folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        cwd: Option<PathBuf>,
        /// Test the call as if the session were in this mode
        #[arg(long, default_value = "default")]
        mode: Mode,
        /// Use the folder, the mode and the rules of this session instead
        #[arg(long, value_name = "ID", conflicts_with_all = ["cwd", "mode"])]
        session: Option<String>,
    },
}

/// A new rule.
#[derive(Debug, Args)]
pub(crate) struct Draft {
    /// What the rule does: allow, deny or ask
    pub(crate) effect: Effect,
    /// The calls that the rule covers: TOOL or TOOL(PATTERN)
    #[arg(value_name = "TOOL(PATTERN)")]
    pub(crate) covers: String,
    /// Where the rule holds: `user` (every session), `project:DIR` or `session:ID`
    #[arg(long, default_value = "user")]
    pub(crate) scope: String,
    /// Let an allow rule of a narrower scope win over this deny rule
    #[arg(long)]
    pub(crate) overridable: bool,
    /// How long the rule holds, such as 12h or 30d; default: until you remove it
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Why the rule exists
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Refuse the rule unless it covers this call: {"tool": ..., "input": ...}; may be repeated
    #[arg(long = "match", value_name = "JSON")]
    pub(crate) matches: Vec<String>,
    /// Refuse the rule if it covers this call: {"tool": ..., "input": ...}; may be repeated
    #[arg(long = "not-match", value_name = "JSON")]
    pub(crate) does_not_match: Vec<String>,
}

/// Budgets.
#[derive(Debug, Subcommand)]
pub(crate) enum Budgets {
    /// List the budgets, and show how much of each is used
    List {
        /// List only the budgets that count this session, including the session's own budget
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Set the limits of a budget
    ///
    /// If a budget with the same scope and period exists, the verb replaces its limits, and what was used so far still
    /// counts. Otherwise the verb makes the budget, which counts from now on. At 80 % of a limit Portolan warns. At
    /// 100 % of the tokens Portolan interrupts the running turn; other limits let the turn end. Then prompts wait until
    /// an owner raises or resets the budget.
    Set(SetBudget),
    /// Let a budget count from zero again
    Reset {
        /// Which budget, by its id; `session:ID` for the budget of a session
        budget: String,
    },
    /// Remove a budget
    Remove {
        /// Which budget, by its id; `session:ID` for the budget of a session
        budget: String,
    },
}

/// Arguments of `budget set`.
#[derive(Debug, Args)]
pub(crate) struct SetBudget {
    /// Whose use the budget counts: `user` (every session), `project:DIR`, `agent:NAME` or `session:ID`
    #[arg(long, default_value = "user")]
    pub(crate) scope: String,
    #[command(flatten)]
    pub(crate) limits: BudgetLimits,
    /// Count from zero again at the start of each period; a day begins at 00:00 UTC
    #[arg(long, value_name = "PERIOD", value_parser = ["day"])]
    pub(crate) per: Option<String>,
}

/// The limits of a budget.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct BudgetLimits {
    /// The most US dollars; a turn whose cost is unknown does not count
    #[arg(long, value_name = "USD")]
    pub(crate) cost: Option<f64>,
    /// The most tokens that the model reads and writes; tokens from a cache do not count
    #[arg(long, value_name = "TOKENS")]
    pub(crate) tokens: Option<u64>,
    /// The most turns
    #[arg(long, value_name = "TURNS")]
    pub(crate) turns: Option<u32>,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// What the rule does: allow, deny or ask
    pub(crate) effect: Effect,
    /// The calls that the rule covers: TOOL or TOOL(PATTERN)
    #[arg(value_name = "TOOL(PATTERN)")]
    pub(crate) covers: String,
    /// Where the rule would hold: `user`, `project:DIR` or `session:ID`
    #[arg(long, default_value = "user")]
    pub(crate) scope: String,
    /// Only requests since then: a duration such as 12h or 30d, a day such as 2026-11-18 (UTC), or a time in RFC 3339;
    /// default: all
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
}
