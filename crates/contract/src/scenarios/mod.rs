//! Scenarios: what is tried, one function each, named by a sentence.
//!
//! Each scenario has the agent under test, a fresh environment ([`Bench`]) and its own time limit. It reads Portolan's
//! events and the requests to the model, never the agent's own messages.

mod budget;
mod errors;
mod hooks;
mod input;
mod interrupt;
mod life;
mod permission;
mod prompt;
mod question;
mod rules;
mod servers;
mod settings;
mod subagent;
mod talk;
mod tools;

use std::{fmt, time::Duration};

use portolan_core::{Capabilities, policy::Mode, ports::Boxed, spec::SpecOption};

pub use self::life::FORGOTTEN_ALOUD;
use crate::{Bench, Fault, Profile, profile::Denial};

/// Where the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// On loopback, playing a script.
    Scripted,
    /// Nowhere: every connection is refused.
    Unreachable,
}

/// Whether the agent offers it; otherwise what it lacks.
pub type Offered = fn(&Profile, &Capabilities) -> Result<(), &'static str>;

/// One thing to try. These scenarios are for every agent; a test of one agent may have more.
pub struct Scenario {
    /// Its name, for the command line and for lists.
    pub name: &'static str,
    /// What should happen, as a sentence.
    pub says: &'static str,
    /// Part of the quick look that `doctor` takes.
    pub core: bool,
    /// Where the model is.
    pub model: Model,
    /// How long it may take in all.
    pub limit: Duration,
    /// Whether the agent offers it.
    pub offered: Offered,
    /// Plays it.
    pub play: for<'a> fn(&'a Bench) -> Boxed<'a, Result<(), Fault>>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scenario({})", self.name)
    }
}

/// How long a scenario may take unless it sets another limit: the longest start of an agent that adapters wait for, a
/// second start on a busy machine, and the time to write a conversation to disk.
pub const LIMIT: Duration = Duration::from_mins(5);

const ALWAYS: Offered = |_, _| Ok(());

/// `Ok` if the flag is set, otherwise what the agent lacks.
const fn flag(is_set: bool, lacks: &'static str) -> Result<(), &'static str> {
    if is_set { Ok(()) } else { Err(lacks) }
}

macro_rules! scenario {
    ($name:literal, $says:literal, $play:path $(, $field:ident : $value:expr)*) => {
        Scenario {
            $($field: $value,)*
            ..Scenario {
                name: $name,
                says: $says,
                core: false,
                model: Model::Scripted,
                limit: LIMIT,
                offered: ALWAYS,
                play: |bench| Box::pin($play(bench)),
            }
        }
    };
}

/// The scenario that `doctor` always runs: an agent that would act without asking must not count as ready.
pub static FIRST_MODE: Scenario = scenario!(
    "first-mode", "A session that names no mode begins in a mode that asks.", settings::first_mode,
    offered: |profile, _| flag(profile.modes.is_some(), "modes"));

static SCENARIOS: &[Scenario] = &[
    scenario!("text", "A turn's text streams, and the finished message has the same text.", talk::words_stream, core: true),
    scenario!("thinking", "Thinking is shown separately from the text.", talk::thinking_shown,
        offered: |profile, _| flag(profile.shows_thinking, "shown thinking")),
    scenario!("usage", "A turn reports its tokens and its model.", talk::tokens_told),
    scenario!("cost", "A turn reports its cost.", talk::cost_told,
        offered: |profile, can| flag(can.cost_tracking || profile.tells_cost, "cost")),
    scenario!("permission-allow", "A tool that needs permission runs after a person allows it.",
        permission::allow, core: true),
    scenario!("permission-edit", "An allowed tool runs with the edited input.", permission::edited_input,
        offered: |profile, _| flag(profile.edits_input, "edited input")),
    scenario!("permission-deny", "A denied tool does not run, and the session goes on.", permission::deny, core: true),
    scenario!("permission-reason", "The reason of a denial reaches the model.", permission::deny_with_reason,
        offered: |profile, _| flag(profile.denial == Denial::Reasoned, "a reason for a denial")),
    scenario!(
        "permission-deny-stop",
        "A denial can end the turn, and the session goes on.",
        permission::deny_and_interrupt
    ),
    scenario!(
        "permission-always",
        "After \"always\" the agent uses that tool without asking, and no other tool is allowed.",
        permission::always
    ),
    scenario!("permission-two", "Two requests can be open at once, and are answered in any order.", permission::two_at_once,
        offered: |profile, _| flag(profile.two_at_once.is_some(), "two requests at once")),
    scenario!(
        "rule",
        "One rule allows a command, another rule denies a command, and a deadline denies a command; no person answers.",
        rules::answers
    ),
    scenario!("rule-bypass", "A deny rule stops a command in the mode that asks nobody.", rules::stop_bypass,
        offered: |_, can| flag(
            can.mode_means.values().any(|means| *means == Mode::BypassPermissions), "a mode whose requests Portolan answers")),
    scenario!(
        "unattended",
        "In an unattended session, what no rule allows is denied at once.",
        rules::unattended
    ),
    scenario!(
        "budget",
        "A session stops when its turns or tokens are spent; a waiting prompt goes on after a raise or a reset.",
        budget::holds
    ),
    scenario!("question", "Questions are answered with one choice, with several, and with free text.",
        question::all_kinds,
        core: true, offered: |profile, _| flag(profile.ask.is_some(), "questions")),
    scenario!("plan-approve", "An approved plan is carried out, in the mode that the approval names.",
        question::approve_plan,
        offered: |profile, _| flag(profile.plan.is_some(), "plans to approve")),
    scenario!("plan-refuse", "If a plan is not approved, the agent continues to plan.", question::keep_planning,
        offered: |profile, _| flag(profile.plan.is_some(), "plans to approve")),
    scenario!("interrupt-stream", "A turn is stopped while it writes, and what it wrote is kept.", interrupt::in_the_stream,
        core: true, offered: |_, can| flag(can.interrupt, "interrupts")),
    scenario!("interrupt-tool", "A turn is stopped while a tool runs.", interrupt::in_a_tool,
        offered: |_, can| flag(can.interrupt, "interrupts")),
    scenario!("interrupt-request", "A turn is stopped while a request waits, and the request is closed.",
        interrupt::at_a_request,
        offered: |_, can| flag(can.interrupt, "interrupts")),
    scenario!("mode", "The permission mode changes while the session runs.", settings::mode,
        offered: |profile, can| flag(
            can.permission_mode_switching_mid_session && profile.modes.is_some(), "a change of mode")),
    scenario!("model", "The model changes while the session runs.", settings::model,
        offered: |_, can| flag(can.model_switching, "a change of model")),
    scenario!("thinking-budget", "The thinking budget changes while the session runs.", settings::thinking_budget,
        offered: |profile, can| flag(
            can.thinking_budget && profile.thinking_budget.is_some(), "a change of the thinking budget")),
    scenario!("environment", "Tools see a variable that is set while the session runs, at the latest after a restart.",
        settings::environment, offered: |_, can| flag(can.environment, "a change of the environment")),
    scenario!("prompts-queued", "The agent gets every prompt sent while a turn runs.", prompt::queued),
    scenario!("prompt-in-tool", "The agent gets a prompt sent while a tool runs.", prompt::during_a_tool),
    scenario!("steer", "A prompt that waits is put into the running turn, once.", prompt::steered,
        offered: |_, can| flag(can.steering, "prompts put into a running turn")),
    scenario!("subagent", "The work of a subagent is shown apart from the work of its parent.", subagent::one,
        offered: |profile, _| flag(profile.subagent.is_some(), "subagents")),
    scenario!("image", "A picture in a prompt reaches the model.", input::image,
        offered: |_, can| flag(can.image_input, "pictures")),
    scenario!("slash-command", "A slash command of the agent gives an answer.", input::slash_command,
        offered: |profile, can| flag(can.slash_commands && profile.slash.is_some(), "slash commands")),
    scenario!("structured-output", "The result fits the JSON Schema that was asked for.", input::structured_output,
        offered: |profile, can| flag(
            can.structured_output && profile.structured.is_some(), "structured output")),
    scenario!("structured-output-fails", "A result that never fits the schema ends the turn with an error that says so.",
        input::structured_output_fails,
        offered: |profile, can| flag(can.structured_output && profile.structured.is_some(), "structured output")),
    scenario!("mcp", "A tool of an MCP server runs, and the server is listed if the agent lists its servers.",
        servers::tool_runs,
        offered: |profile, can| flag(can.mcp && profile.mcp_tool.is_some(), "MCP servers")),
    scenario!("mcp-change", "While the session runs, MCP servers are added to the user's own, and a server is reconnected.",
        servers::changes, offered: |profile, can| flag(
            can.mcp_changes && profile.mcp_tool.is_some(), "a change of MCP servers")),
    scenario!("mcp-toggle", "The tools of an MCP server that is switched off cannot be used until it is on again.",
        servers::toggle, offered: |profile, can| flag(
            can.mcp_changes && profile.mcp_tool.is_some(), "a change of MCP servers")),
    scenario!("mcp-question", "An MCP server asks the user something, and gets the answer.", servers::elicitation,
        offered: |profile, can| flag(
            can.mcp && profile.mcp_tool.is_some() && profile.mcp_asks, "questions of MCP servers")),
    scenario!("hook", "A hook makes a tool wait, and the answer to the hook decides whether the tool runs.",
        hooks::before_a_tool,
        offered: |profile, can| flag(
            can.options.contains(&SpecOption::Hooks) && profile.hook.is_some(), "hooks")),
    scenario!("compaction", "The context is made smaller on request, and the conversation goes on.", tools::compaction,
        offered: |profile, can| flag(can.slash_commands && profile.compact.is_some(), "compaction")),
    scenario!("context", "The agent reports what fills the context.", tools::context,
        offered: |_, can| flag(can.context_usage, "what fills the context")),
    scenario!("background", "A task in the background is shown, and its end begins a turn.", tools::background,
        offered: |profile, can| flag(can.background_tasks && profile.background.is_some(), "background tasks")),
    scenario!("background-stop", "A task in the background is stopped, and its process is gone.", tools::stop_task,
        offered: |profile, can| flag(can.background_tasks && profile.background.is_some(), "background tasks")),
    scenario!("rewind", "Files go back to what they were before a prompt.", tools::rewind,
        offered: |_, can| flag(can.file_checkpointing, "files that are taken back")),
    scenario!(
        "error-401",
        "A wrong key is reported as a wrong key, and the session goes on once the key is right.",
        errors::unauthorized
    ),
    scenario!("error-429", "A rate limit is reported as a rate limit.", errors::rate_limited),
    scenario!("error-529", "An overloaded service is reported as overloaded.", errors::overloaded),
    scenario!("error-network", "A model that cannot be reached is reported as unreachable.",
        errors::unreachable,
        // One agent pauses for 68 s in total between its tries.
        model: Model::Unreachable, limit: LIMIT.saturating_mul(2),
        offered: |profile, _| flag(profile.gives_up, "an end of its tries while this suite waits")),
    scenario!("resume", "A conversation is resumed after the agent's process has ended.", life::resume,
        core: true, offered: |_, can| flag(can.session_resume, "resuming")),
    scenario!("resume-twice", "A conversation is resumed a second time, with all that was said in it.",
        life::resume_twice,
        // The agent is started three times, and some wait a minute before they resume a young conversation.
        limit: LIMIT.saturating_mul(2), offered: |_, can| flag(can.session_resume, "resuming")),
    scenario!("clear", "A conversation is cleared on request, and a later resume continues the new conversation.",
        life::cleared, offered: |profile, can| flag(
            can.slash_commands && can.session_resume && profile.clear.is_some(), "a command that forgets")),
    scenario!("fork", "A fork has the whole earlier conversation, and its source has nothing that was said in the fork.",
        life::fork,
        offered: |_, can| flag(can.session_fork, "forks")),
    scenario!("fork-at", "A fork at a point in the past has nothing of what came after that point.",
        life::fork_at,
        offered: |_, can| flag(can.session_fork_at, "forks at a point in the past")),
    scenario!("kill-agent", "An agent that was killed is started again, with its conversation.", life::agent_killed,
        offered: |_, can| flag(can.session_resume, "resuming")),
    scenario!("kill-early", "An agent that was killed in its first turn takes a prompt again.",
        life::killed_early,
        offered: |_, can| flag(can.session_resume, "resuming")),
    scenario!("kill-daemon", "After the daemon was killed, everything open is closed and the conversation goes on.",
        life::daemon_killed, offered: |_, can| flag(can.session_resume, "resuming")),
];

impl Scenario {
    /// All of them, in the order in which they are shown.
    pub fn all() -> Vec<&'static Self> {
        SCENARIOS.iter().collect()
    }

    /// The quick look: enough to say whether an agent can be worked with.
    pub fn core() -> Vec<&'static Self> {
        SCENARIOS.iter().filter(|scenario| scenario.core).collect()
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scenario_has_its_own_name_and_a_sentence() {
        let names: BTreeSet<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
        assert!(SCENARIOS.iter().all(|scenario| scenario.says.ends_with('.')));
    }

    #[test]
    fn the_quick_look_has_only_the_essential_scenarios() {
        let names: Vec<_> = Scenario::core().iter().map(|scenario| scenario.name).collect();
        assert_eq!(
            names,
            ["text", "permission-allow", "permission-deny", "question", "interrupt-stream", "resume"]
        );
    }
}
