//! A session as a slot of the app shows it: a view, and how each entry changes it. No I/O, no clock.
//!
//! The facts of a session (open requests, running calls, context usage) come from core's own fold, so that this
//! frontend never disagrees with the others. The view adds what the fold does not keep: the last text, the end of the
//! last turn, the start time of a tool.

mod changes;

use std::{collections::BTreeMap, path::Path};

use portolan_core::{
    Action, Event, Generation, Millis, RequestId, Seq, SessionId, SessionSpec,
    command::{ActionName, Stage},
    event::{Content, ResetReason},
    log::{Folded as _, delivery::Seen},
    policy::{Call, Kind, budget::Level},
    request::{Ask, Request},
    session::state::{OpenCommand, State, Status},
};

use super::{
    answers::{self, Given},
    wire::{AutoEdit, Face, SlotState},
};

/// A start that resumes an old conversation and fails within this time failed because of that conversation.
pub const EARLY_DEATH_MS: i64 = 5000;

/// The agent's word for compacting its context.
const COMPACTING: &str = "compacting";

/// Whether an entry can change what the app shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It can.
    Seen,
    /// It cannot: streaming text causes no frame.
    Unseen,
}

/// One session as a slot shows it.
#[derive(Clone, Debug)]
pub struct View {
    state: State,
    /// The agent's last text in the newest turn.
    said: Option<String>,
    /// A prompt was accepted, and nothing has happened since.
    processing: bool,
    /// An interrupt is in progress.
    interrupting: bool,
    /// How the last turn ended, if that matters more than the last text.
    ended: Option<(SlotState, String)>,
    /// An error since the agent's last activity.
    trouble: Option<String>,
    /// The agent began with an empty conversation, and has done nothing since.
    forgot: Option<ResetReason>,
    /// The start time of each open call.
    calls: BTreeMap<String, Millis>,
    /// The first entry of the newest turn.
    turn_at: Seq,
    /// How the process ended.
    exit: Option<String>,
    /// The start time of a start that resumes an old conversation.
    resuming: Option<Millis>,
    died_early: bool,
    /// The request that is being answered question by question, the answers so far, and the problem of the last answer.
    answering: Option<(RequestId, Given, Option<String>)>,
    /// Requests that auto-edit does not answer, with the reason: they are shown.
    left_to_people: BTreeMap<RequestId, String>,
    /// A message only for the device's user, until something happens.
    note: Option<String>,
}

impl View {
    /// A session without any known state.
    pub fn new(session: SessionId) -> Self {
        Self {
            state: State::new(session, SessionSpec::default(), Millis(0)),
            said: None,
            processing: false,
            interrupting: false,
            ended: None,
            trouble: None,
            forgot: None,
            calls: BTreeMap::new(),
            turn_at: Seq::ZERO,
            exit: None,
            resuming: None,
            died_early: false,
            answering: None,
            left_to_people: BTreeMap::new(),
            note: None,
        }
    }

    /// Core's state of the session.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether its agent has ended and is not about to start.
    pub fn is_gone(&self) -> bool {
        !self.state.summary.is_open() && !self.prompt_underway()
    }

    /// Its agent is being started.
    pub fn is_starting(&self) -> bool {
        self.state.summary.status == Status::Starting
    }

    /// Whether its agent resumed an old conversation and failed at once.
    pub fn died_early(&self) -> bool {
        self.died_early
    }

    /// Shows a message to the device's user, until something happens in the session.
    pub fn note(&mut self, text: String) {
        self.note = Some(text);
    }

    /// Replaces the folded state.
    pub fn reset(&mut self, state: &State) {
        self.state = state.clone();
        self.calls.retain(|call, _| state.tools.contains(call));
        for open in &state.tools {
            // The call began before the part of the history that was read.
            self.calls.entry(open.tool.clone()).or_insert(state.summary.active_at);
        }
        self.interrupting = self.is_interrupting();
        self.processing &= self.prompt_underway() || state.turn.is_some() || state.summary.turns == 0;
        self.forget_closed();
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &Seen<'_, Event>) -> Effect {
        let busy = self.can_interrupt();
        let settled = match &*entry.event {
            Event::Receipt { command, .. } => self.command_name(*command),
            _ => None,
        };
        self.state.apply(entry.seq, entry.at, entry.by.as_deref(), &entry.event);
        if matches!(*entry.event, Event::ItemStarted { .. } | Event::ToolNamed { .. } | Event::Delta { .. }) {
            return Effect::Unseen;
        }
        self.note = None;
        match &*entry.event {
            Event::ItemStarted { .. } | Event::ToolNamed { .. } | Event::Delta { .. } => {}
            Event::AgentStarting { resume, .. } => {
                self.resuming = resume.is_some().then_some(entry.at);
                self.exit = None;
                self.died_early = false;
            }
            Event::AgentExited { exit, .. } => self.end_agent(exit, entry.at),
            Event::TurnStarted { .. } => self.begin_turn(entry.seq),
            Event::TurnEnded { result, .. } => self.end_turn(result),
            Event::Message { content, parent: None, .. } => {
                self.progress();
                if let Some(text) = first_text(content) {
                    self.said = Some(text.to_owned());
                }
            }
            Event::ToolCall { tool, .. } => {
                self.progress();
                self.calls.insert(tool.clone(), entry.at);
            }
            Event::ToolProgress { tool, elapsed_seconds, .. } => {
                if let Some(seconds) = elapsed_seconds.filter(|seconds| seconds.is_finite()) {
                    let since = entry.at.0.saturating_sub((seconds * 1000.0) as i64);
                    self.calls.insert(tool.clone(), Millis(since));
                }
            }
            Event::ToolResult { tool, .. } => {
                self.progress();
                self.calls.remove(tool);
            }
            Event::Activity { activity } => {
                if activity.as_deref() == Some(COMPACTING) {
                    // The summary then contains the earlier text.
                    self.wait(String::new());
                }
            }
            Event::CommandAccepted { action, .. } => match **action {
                Action::Prompt { .. } | Action::SendAgain { .. } => self.begin_prompt(),
                Action::Interrupt if busy => self.interrupting = true,
                _ => {}
            },
            Event::Receipt { stage, .. } => self.settle(settled.as_ref(), stage),
            Event::Failure { error, .. } => self.trouble = Some(error.message.clone()),
            Event::AuthStatus { error, .. } => self.trouble.clone_from(error),
            Event::Retry { attempt, max, error, .. } => {
                let of = max.map(|max| format!("/{max}")).unwrap_or_default();
                self.wait(format!("Retrying ({attempt}{of}): {}", error.message));
            }
            Event::BudgetReached { standing } if standing.level == Level::Over => {
                self.wait(standing.words());
            }
            Event::ConversationReset { reason: Some(reason), .. } => self.forgot = Some(*reason),
            // Core's fold has the changes of these events, or a slot does not show them.
            Event::SessionCreated { .. }
            | Event::SessionRenamed { .. }
            | Event::SessionArchived { .. }
            | Event::Imported { .. }
            | Event::AgentStarted { .. }
            | Event::AgentReady { .. }
            | Event::AgentInfo { .. }
            | Event::LinkLost { .. }
            | Event::LinkRestored
            | Event::Prompt { .. }
            | Event::Message { parent: Some(_), .. }
            | Event::Plan { .. }
            | Event::Usage { .. }
            | Event::Compacted { .. }
            | Event::ConversationReset { reason: None, .. }
            | Event::SubagentStarted { .. }
            | Event::SubagentEnded { .. }
            | Event::TaskChanged { .. }
            | Event::RequestOpened { .. }
            | Event::RequestClosed { .. }
            | Event::RequestDecided { .. }
            | Event::SettingChanged { .. }
            | Event::RuleAdded { .. }
            | Event::DeadlineChanged { .. }
            | Event::BudgetChanged { .. }
            | Event::BudgetReached { .. }
            | Event::RuleRemoved { .. }
            | Event::McpServers { .. }
            | Event::ToolSummary { .. }
            | Event::Notice { .. }
            | Event::Hook { .. }
            | Event::FilesPersisted { .. }
            | Event::Unknown { .. } => {}
        }
        self.forget_closed();
        Effect::Seen
    }

    fn command_name(&self, command: Seq) -> Option<ActionName> {
        self.state.commands.iter().find(|open| open.seq == command).map(|open| open.name.clone())
    }

    fn forget_closed(&mut self) {
        let open = |request: &RequestId| self.state.requests.iter().any(|open| open.request == *request);
        if self.answering.as_ref().is_some_and(|(request, ..)| !open(request)) {
            self.answering = None;
        }
        let requests = &self.state.requests;
        self.left_to_people.retain(|left, _| requests.iter().any(|open| open.request == *left));
    }

    /// A prompt waits, or was just sent. A prompt that was sent before the newest turn belongs to that turn, whether or
    /// not the agent confirms it.
    fn prompt_underway(&self) -> bool {
        self.state.commands.iter().filter(|open| open.name == ActionName::Prompt).any(|open| {
            match open.stage {
                Stage::Accepted | Stage::Sending => true,
                Stage::Delivered => open.seq > self.turn_at,
                Stage::Consumed { .. } | Stage::Refused { .. } | Stage::Uncertain { .. } => false,
            }
        })
    }

    /// Somebody stops the agent, and it has not ended yet.
    fn is_ending(&self) -> bool {
        let ends = |open: &OpenCommand| matches!(open.name, ActionName::Stop | ActionName::Archive);
        self.state
            .commands
            .iter()
            .any(|open| ends(open) && matches!(open.stage, Stage::Sending | Stage::Delivered))
    }

    /// There is something that an interrupt can stop.
    pub fn can_interrupt(&self) -> bool {
        self.state.turn.is_some() || !self.state.requests.is_empty() || self.prompt_underway()
    }

    fn is_interrupting(&self) -> bool {
        self.state.commands.iter().any(|open| open.name == ActionName::Interrupt && !open.stage.is_final())
    }

    // ------------------------------------------------------------------------------------ requests

    /// The open request for the device: the oldest request that auto-edit does not answer.
    pub fn waiting(&self, auto_edit: AutoEdit) -> Option<&Request> {
        self.state.requests.iter().find(|open| !self.is_automatic(open, auto_edit))
    }

    /// The requests that auto-edit answers now, or leaves to people when it knows the paths of the files.
    pub fn automatic(&self, auto_edit: AutoEdit) -> Vec<Request> {
        self.state.requests.iter().filter(|open| self.is_automatic(open, auto_edit)).cloned().collect()
    }

    fn is_automatic(&self, open: &Request, auto_edit: AutoEdit) -> bool {
        auto_edit == AutoEdit::On
            && !self.left_to_people.contains_key(&open.request)
            && is_plain_edit(&open.ask)
    }

    /// The folder of the session.
    pub fn folder(&self) -> &Path {
        &self.state.summary.cwd
    }

    /// Auto-edit does not answer this one.
    pub fn leave_to_people(&mut self, request: RequestId, why: String) {
        self.left_to_people.insert(request, why);
        self.forget_closed();
    }

    /// The answered questions of this request.
    pub fn given(&self, request: RequestId) -> Given {
        match &self.answering {
            Some((of, given, _)) if *of == request => given.clone(),
            _ => Given::new(),
        }
    }

    /// Keeps answers until all questions have one, and the problem of the last answer.
    pub fn answer_so_far(&mut self, request: RequestId, given: Given, complaint: Option<String>) {
        self.answering = Some((request, given, complaint));
        self.forget_closed();
    }

    // --------------------------------------------------------------------------------------- faces

    /// What the app shows now.
    pub fn face(&self, auto_edit: AutoEdit, now: Millis) -> Face {
        let (state, message) = self.doing(auto_edit, now);
        let waits = self.waiting(auto_edit).filter(|_| state == SlotState::Waiting);
        let prompt = waits.map(|open| {
            let complaint = match &self.answering {
                Some((of, _, complaint)) if *of == open.request => complaint.clone(),
                _ => None,
            };
            let left = || {
                let why = self.left_to_people.get(&open.request).filter(|_| auto_edit == AutoEdit::On)?;
                Some(format!("Auto-edit asks you: {why}"))
            };
            let complaint = complaint.or_else(left);
            let prompt = answers::prompt(&open.ask, &self.given(open.request), complaint.as_deref());
            answers::with_risk(prompt, open)
        });
        let message = self.note.clone().unwrap_or(message);
        Face { state, message, prompt, context_percent: self.context_percent(), active: !self.is_gone() }
    }

    fn doing(&self, auto_edit: AutoEdit, now: Millis) -> (SlotState, String) {
        let summary = &self.state.summary;
        if self.is_gone() {
            let why = self.exit.as_ref().or(summary.error.as_ref());
            return (SlotState::Done, why.map_or_else(|| "Ended".into(), |why| format!("Ended: {why}")));
        }
        if self.is_ending() {
            return (SlotState::Working, "Ending...".into());
        }
        if self.interrupting {
            return (SlotState::Working, "Interrupting...".into());
        }
        if let Some(open) = self.waiting(auto_edit) {
            return (SlotState::Waiting, answers::title(&open.ask, &self.given(open.request)));
        }
        if let Some(trouble) = &self.trouble {
            return (SlotState::Error, trouble.clone());
        }
        // A prompt may wait for a resume, but the agent does not work.
        if summary.status == Status::Error {
            return (SlotState::Error, summary.error.clone().unwrap_or_else(|| "The agent failed".into()));
        }
        if let Some(reason) = self.forgot {
            let state = if self.is_busy() { SlotState::Working } else { SlotState::Idle };
            return (state, reason.words().into());
        }
        if self.is_starting() {
            let again = self.state.generation > Generation(1);
            let word = if again { "Starting again..." } else { "Starting..." };
            return (SlotState::Working, word.into());
        }
        if self.is_busy() {
            return (SlotState::Working, self.working_on(now));
        }
        if summary.status == Status::Disconnected {
            return (SlotState::Idle, "Waiting for the agent's connection...".into());
        }
        if let Some((state, message)) = &self.ended {
            return (*state, message.clone());
        }
        let silent = if summary.turns == 0 { "Ready" } else { "Done" };
        (SlotState::Idle, self.said.clone().unwrap_or_else(|| silent.into()))
    }

    /// Whether the agent starts or works.
    fn is_busy(&self) -> bool {
        self.is_starting() || self.state.turn.is_some() || self.prompt_underway() || self.processing
    }

    fn working_on(&self, now: Millis) -> String {
        if self.state.summary.status == Status::Disconnected {
            return "Waiting for the agent's connection...".into();
        }
        if self.state.activity.as_deref() == Some(COMPACTING) {
            return "Compacting context...".into();
        }
        if self.processing {
            return "Processing prompt...".into();
        }
        match self.state.tools.last() {
            Some(open) => {
                let since = self.calls.get(&open.tool).copied().unwrap_or(now);
                let seconds = now.0.saturating_sub(since.0).max(0) / 1000;
                format!("Running: {} ({seconds}s)", open.name)
            }
            None => self.said.clone().unwrap_or_else(|| "Working...".into()),
        }
    }

    fn context_percent(&self) -> u8 {
        let (used, window) = (self.state.context_used.unwrap_or(0), self.state.context_window.max(1));
        // At most 100, so that it fits.
        (used.saturating_mul(100) / window).min(100) as u8
    }
}

/// The first text of a message; many have none.
fn first_text(content: &[Content]) -> Option<&str> {
    content.iter().find_map(|piece| match piece {
        Content::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// A call that changes files, names them clearly, and that the agent has no reason of its own to ask about.
fn is_plain_edit(ask: &Ask) -> bool {
    Call::of(ask).is_some_and(|call| {
        let names_files = || call.files().is_some_and(|files| !files.is_empty());
        call.kind() == Kind::Edit && !call.has_reason && names_files()
    })
}
