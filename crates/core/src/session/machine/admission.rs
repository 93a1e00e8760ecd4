//! Admission: may this command be accepted now? Pure; a refusal changes nothing.

use indexmap::IndexMap;

use super::{Machine, QUEUED_PROMPTS, budgets, memory::Running};
use crate::{
    Action, Capabilities, Generation, Refusal, RefusalCode, RequestId, Seq, WayOut,
    command::{ActionName, Stage},
    event::Content,
    policy::{Rule, RuleDraft, RuleId, check},
    request::{
        Answer, Request,
        persist::{Persist, PersistScope},
    },
    session::state::{OpenCommand, State},
};

/// Rules that one session may have of its own. Each is compared at every request.
const SESSION_RULES: usize = 256;

impl Machine {
    pub(super) fn admit(&self, state: &State, action: &Action) -> Result<(), Refusal> {
        if self.shutting_down {
            let why = "Portolan is shutting down; try again when it is back";
            return refuse(RefusalCode::ShuttingDown, why);
        }
        let can = &state.capabilities;
        let agent = state.summary.agent.as_str();
        match action {
            Action::Prompt { content } => self.admit_prompt(state, content),
            Action::Answer { request, digest, answer, persist } => {
                admit_answer(state, *request, digest.as_deref(), answer)?;
                persist.as_ref().map_or(Ok(()), |persist| admit_persist(state, *request, answer, persist))
            }
            Action::Interrupt => Capabilities::require(
                can.interrupt || self.memory.running == Running::No,
                agent,
                "be interrupted",
            ),
            Action::Resume => self.can_start(state),
            Action::Rename { title } => admit_name(title),
            Action::Archive { archived: true } => {
                Capabilities::require(can.session_archive, agent, "have its sessions archived")
            }
            Action::Stop | Action::Archive { archived: false } => Ok(()),
            Action::SetModel { .. } => {
                Capabilities::require(can.model_switching, agent, "change its model while it runs")
            }
            Action::SetMode { mode } => {
                Capabilities::require(
                    can.permission_mode_switching_mid_session,
                    agent,
                    "change its mode while it runs",
                )?;
                can.has_mode(mode)
            }
            Action::SetThinking { .. } => {
                Capabilities::require(can.thinking_budget, agent, "set a thinking budget")
            }
            Action::SetEnvironment { variables } => self.admit_environment(state, variables),
            Action::Rewind { to, .. } => {
                Capabilities::require(can.file_checkpointing, agent, "restore files")?;
                self.must_run(state)?;
                if to.0 == 0 {
                    return refuse(RefusalCode::Invalid, "name the entry of the prompt to go back to");
                }
                Ok(())
            }
            Action::McpStatus => {
                Capabilities::require(can.mcp, agent, "use MCP servers")?;
                self.must_run(state)
            }
            Action::McpReconnect { .. }
            | Action::McpToggle { .. }
            | Action::McpSet { .. }
            | Action::McpMessage { .. } => {
                Capabilities::require(can.mcp_changes, agent, "change its MCP servers while it runs")?;
                self.must_run(state)
            }
            Action::Context => {
                Capabilities::require(can.context_usage, agent, "report what fills its context")?;
                self.must_run(state)
            }
            Action::StopTask { .. } => {
                Capabilities::require(can.background_tasks, agent, "stop background tasks")?;
                self.must_run(state)
            }
            Action::Withdraw { prompt } => waiting(state, |open| open.seq == *prompt).map(drop),
            Action::Steer { prompt } => self.admit_steering(state, *prompt),
            Action::SendAgain { command } => self.admit_sending_again(state, *command),
            Action::AddRule { rule } => admit_rule(state, rule),
            Action::RemoveRule { tool_name, rule } => admit_removal(state, tool_name, rule.as_ref()),
            Action::SetDeadline { request, seconds } => admit_deadline(state, *request, *seconds),
            Action::SetBudget { .. } | Action::ResetBudget => budgets::admit(state, action),
            Action::Native { .. } => {
                Capabilities::require(can.passthrough, agent, "take messages of its own protocol")?;
                self.must_run(state)
            }
        }
    }

    fn admit_prompt(&self, state: &State, content: &[Content]) -> Result<(), Refusal> {
        crate::prompt::check(content)?;
        let picture = content.iter().any(|piece| matches!(piece, Content::Image { .. }));
        let can = !picture || state.capabilities.image_input || self.memory.running == Running::No;
        Capabilities::require(can, &state.summary.agent, "take pictures")?;
        if state.summary.queued as usize >= QUEUED_PROMPTS {
            return Err(Refusal::busy("too many prompts already wait in this session", 1000));
        }
        self.can_start(state)
    }

    fn admit_environment(&self, state: &State, variables: &IndexMap<String, String>) -> Result<(), Refusal> {
        if variables.is_empty() {
            return refuse(RefusalCode::Invalid, "no variable is named");
        }
        if variables
            .iter()
            .any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
        {
            let why = "a variable's name is empty or holds `=`, or a value holds NUL";
            return refuse(RefusalCode::Invalid, why);
        }
        let can = state.capabilities.environment || self.memory.running == Running::No;
        Capabilities::require(can, &state.summary.agent, "change its environment while it runs")
    }

    fn admit_steering(&self, state: &State, prompt: Seq) -> Result<(), Refusal> {
        match waiting(state, |open| open.seq == prompt && open.name == ActionName::Prompt)? {
            Waiting::Queued => {}
            Waiting::Uncertain => {
                let (session, command) = (state.summary.session, prompt);
                let message = "it is uncertain whether the agent has the prompt";
                return Err(Refusal::new(RefusalCode::Stale, message)
                    .with_way_out(WayOut::SendAgain { session, command }));
            }
        }
        self.must_run(state)?;
        let agent = &state.summary.agent;
        Capabilities::require(state.capabilities.steering, agent, "take a prompt into a running turn")?;
        budgets::refuse_steering(state)?;
        if state.turn.is_none() {
            let why = "no turn is running; the prompt is sent without steering";
            return refuse(RefusalCode::Stale, why);
        }
        Ok(())
    }

    fn admit_sending_again(&self, state: &State, command: Seq) -> Result<(), Refusal> {
        let uncertain =
            |open: &OpenCommand| open.seq == command && matches!(open.stage, Stage::Uncertain { .. });
        if !state.commands.iter().any(uncertain) {
            return refuse(RefusalCode::NotFound, "no uncertain prompt has that number");
        }
        self.can_start(state)
    }

    /// The agent runs and takes instructions.
    fn must_run(&self, state: &State) -> Result<(), Refusal> {
        if matches!(self.memory.running, Running::Ready) {
            return Ok(());
        }
        Err(Refusal::new(RefusalCode::NotRunning, "the agent is not running")
            .with_way_out(WayOut::ResumeSession { session: state.summary.session }))
    }

    /// The agent runs, or can be started (again).
    pub(super) fn can_start(&self, state: &State) -> Result<(), Refusal> {
        let first = state.generation == Generation(0);
        let knows = state.summary.agent_session.is_some();
        if self.is_running() || first || state.capabilities.session_resume || !knows {
            return Ok(());
        }
        let message = format!("the agent `{}` has ended and cannot resume", state.summary.agent);
        Err(Refusal::new(RefusalCode::NotRunning, message).with_way_out(WayOut::NewSession))
    }
}

fn refuse(code: RefusalCode, why: &str) -> Result<(), Refusal> {
    Err(Refusal::new(code, why))
}

fn admit_name(title: &str) -> Result<(), Refusal> {
    if title.trim().is_empty() || title.chars().count() > crate::spec::MAX_NAME {
        return refuse(RefusalCode::Invalid, "a name has 1 to 200 characters");
    }
    Ok(())
}

/// Where a prompt is that the agent does not have for certain.
enum Waiting {
    /// In the queue.
    Queued,
    /// Sent, and nobody knows whether it arrived.
    Uncertain,
}

/// The place of the prompt that fits. Refused if there is none, or if it is on its way to the agent.
fn waiting(state: &State, fits: impl Fn(&OpenCommand) -> bool) -> Result<Waiting, Refusal> {
    match state.commands.iter().find(|open| fits(open)) {
        Some(open) if open.is_queued_prompt() => Ok(Waiting::Queued),
        Some(open) if matches!(open.stage, Stage::Uncertain { .. }) => Ok(Waiting::Uncertain),
        Some(_) => {
            let why = "the prompt is already on its way to the agent";
            Err(Refusal::new(RefusalCode::AlreadyClosed, why))
        }
        None => Err(Refusal::new(RefusalCode::NotFound, "no prompt with that number waits")),
    }
}

fn admit_rule(state: &State, rule: &RuleDraft) -> Result<(), Refusal> {
    has_room_for_a_rule(state)?;
    check::draft(rule).map_err(|why| Refusal::new(RefusalCode::Invalid, why.0))
}

fn admit_removal(state: &State, tool_name: &str, rule: Option<&RuleId>) -> Result<(), Refusal> {
    let fits = |known: &Rule| match rule {
        Some(rule) => known.rule == *rule,
        None => known.text == tool_name,
    };
    if state.session_rules.iter().any(fits) {
        return Ok(());
    }
    refuse(RefusalCode::NotFound, "there is no rule for that tool")
}

fn admit_deadline(state: &State, request: Option<RequestId>, seconds: Option<u32>) -> Result<(), Refusal> {
    if seconds == Some(0) {
        let why = "a deadline must be at least one second; answer a request to deny it at once";
        return refuse(RefusalCode::Invalid, why);
    }
    request.map_or(Ok(()), |request| open_request(state, request).map(drop))
}

/// The open request with this id.
fn open_request(state: &State, request: RequestId) -> Result<&Request, Refusal> {
    state.requests.iter().find(|open| open.request == request).ok_or_else(|| {
        let closed = state.closed_requests.iter().rev().find(|closed| closed.request == request);
        closed.map_or_else(
            || Refusal::new(RefusalCode::NotFound, format!("no request {request} waits in this session")),
            |closed| Refusal::already_closed(request, closed.tool_name.as_deref(), closed.outcome.clone()),
        )
    })
}

fn has_room_for_a_rule(state: &State) -> Result<(), Refusal> {
    if state.session_rules.len() < SESSION_RULES {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::Invalid, "this session has too many rules already"))
}

/// The rule that comes with the answer can be made. The registry makes those that hold in other sessions too.
fn admit_persist(
    state: &State,
    request: RequestId,
    answer: &Answer,
    persist: &Persist,
) -> Result<(), Refusal> {
    let scope = persist.scope.draft(state.summary.session, &state.summary.cwd);
    persist.draft(open_request(state, request)?, answer, scope)?;
    match persist.scope {
        PersistScope::Session => has_room_for_a_rule(state),
        PersistScope::Project | PersistScope::User => Ok(()),
    }
}

fn admit_answer(
    state: &State,
    request: RequestId,
    digest: Option<&str>,
    answer: &Answer,
) -> Result<(), Refusal> {
    let open = open_request(state, request)?;
    if open.generation != state.generation {
        return Err(Refusal::new(
            RefusalCode::Stale,
            "this request comes from an earlier start of the agent; look for a newer request",
        ));
    }
    if digest.is_some_and(|digest| digest != open.digest) {
        return Err(Refusal::new(
            RefusalCode::Stale,
            "the request has changed since you saw it; read the request again",
        ));
    }
    if matches!(answer, Answer::Allow { input: Some(_), .. }) {
        Capabilities::require(state.capabilities.edited_input, &state.summary.agent, "take an edited input")?;
    }
    answer.fits(&open.ask).map_err(|why| Refusal::new(RefusalCode::Invalid, why))
}
