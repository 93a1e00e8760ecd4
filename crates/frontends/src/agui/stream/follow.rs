//! A stream while its turn runs: entries in, events out, until there is a reason to end.

use portolan_core::{
    Action, CommandId, Event, Seq, command::Stage, log::delivery::Delivery, session::state::State,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Kind, NO_TURN, STARTING, STOPPED, Task,
    end::End,
    open::{Joined, is_busy, is_ready, open_prompts},
    over::PutOut,
    prepare::{Preparation, Preparing},
};
use crate::agui::{
    project::{Ended, Voice},
    runs::Left,
    tools::PREFIX,
    wire::AguiEvent,
};
use portolan_host::sse::HEARTBEAT;

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The end of the turn that this prompt starts or joins.
    Own(Seq),
    /// The end of the turn that runs.
    Any,
}

/// The progress of the run's own prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The prompt is on its way to the agent.
    pub(super) sent: bool,
    /// The agent has consumed the prompt.
    consumed: bool,
    /// A turn began after it was sent.
    turn_began: bool,
    /// How the agent ended before the prompt could be sent, by itself or by a stop.
    agent_failed: Option<String>,
    agent_stopped: Option<String>,
}

pub(super) struct Follow<'t> {
    pub(super) task: &'t mut Task,
    pub(super) joined: Joined,
    pub(super) goal: Goal,
    pub(super) progress: Progress,
    pub(super) preparing: Preparing,
    /// When an agent that is starting has taken too long.
    pub(super) ready_by: Option<Instant>,
    waiting: watch::Receiver<Vec<String>>,
    /// The deadline of the stream, and its end then.
    deadline: Option<(Instant, End)>,
    is_stopped: bool,
}

impl<'t> Follow<'t> {
    pub(super) fn new(
        task: &'t mut Task,
        joined: Joined,
        goal: Goal,
        preparation: Option<Preparation>,
    ) -> Self {
        let waiting = task.agui.tools.waiting(joined.session);
        let mut follow = Self {
            task,
            joined,
            goal,
            progress: Progress::default(),
            ready_by: matches!(goal, Goal::Own(_)).then(|| Instant::now() + STARTING),
            preparing: preparation.map_or(Preparing::Done, Preparing::Waits),
            waiting,
            deadline: None,
            is_stopped: false,
        };
        if follow.joined.is_ready {
            follow.agent_is_ready();
        }
        follow
    }

    /// The agent accepts prompts: it gets prepared for this one.
    fn agent_is_ready(&mut self) {
        self.ready_by = None;
        self.preparing.begin(&self.task.agui.tools, self.joined.session);
    }

    /// The prompt of this run, until the agent has it.
    pub(super) fn unsent(&self) -> Option<Seq> {
        match self.goal {
            Goal::Own(prompt) if !self.progress.sent => Some(prompt),
            Goal::Own(_) | Goal::Any => None,
        }
    }

    pub(super) async fn run(mut self) -> End {
        let mut events = Vec::new();
        self.joined.projector.tell_requests(&mut events);
        let end = match self.look(&mut events) {
            Some(end) => end,
            None => self.until_the_end(&mut events).await,
        };
        self.joined.projector.close(&mut events);
        self.task.out.send(&mut events).await;
        let Self { task, joined, .. } = self;
        let Joined { session, projector, last, turn_runs, .. } = joined;
        if turn_runs && task.may_act() {
            task.agui.runs.leave(session, &task.client(), Left { projector, last });
        }
        end
    }

    async fn until_the_end(&mut self, events: &mut Vec<AguiEvent>) -> End {
        let (mut put_out, mut left) = (self.task.put_out(), self.task.left());
        let stop = self.joined.place.stop.clone();
        let mut quiet_since = Instant::now();
        loop {
            if !events.is_empty() {
                self.task.out.send(events).await;
                quiet_since = Instant::now();
            }
            if self.task.out.is_gone {
                return self.client_left().await;
            }
            let (deadline, ready_by) = (self.deadline.as_ref().map(|(at, _)| *at), self.ready_by);
            // Every arm can be dropped and polled again: `self` keeps the state.
            tokio::select! {
                delivery = self.joined.reader.next() => {
                    if let Some(end) = self.take(delivery, events) {
                        return end;
                    }
                    if let Some(why) = self.progress.agent_failed.take() {
                        return self.never_began("agent_exited", why).await;
                    }
                }
                () = self.preparing.told() => {}
                () = sleep_until(ready_by.unwrap_or_else(Instant::now)), if ready_by.is_some() => {
                    let late = || format!("the session did not start within {} s", STARTING.as_secs());
                    let why = self.progress.agent_stopped.take().unwrap_or_else(late);
                    return self.never_began("session_starting", why).await;
                }
                Ok(()) = self.waiting.changed() => {}
                () = stop.cancelled(), if !self.is_stopped => self.stopped().await,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    return self.deadline.take().map_or(End::Finished, |(_, end)| end);
                }
                () = sleep_until(quiet_since + HEARTBEAT) => {
                    self.task.out.write(bytes::Bytes::from_static(b": keep-alive\n\n")).await;
                    quiet_since = Instant::now();
                }
                () = &mut left => return self.client_left().await,
                why = &mut put_out => {
                    self.put_out(why).await;
                    return why.into();
                }
            }
            if let Some(end) = self.look(events) {
                return end;
            }
        }
    }

    /// The agent did not start. No message was sent, and the client gets an error.
    async fn never_began(&mut self, code: &str, why: String) -> End {
        if let Some(prompt) = self.unsent() {
            self.withdraw(prompt).await;
        }
        End::failed(code, why)
    }

    /// A prompt that has not reached the agent is withdrawn if its client loses access. When Portolan ends, the prompt
    /// waits for the next start.
    pub(super) async fn put_out(&mut self, why: PutOut) {
        if let Some(prompt) = self.unsent().filter(|_| why != PutOut::Stopping) {
            self.withdraw(prompt).await;
        }
    }

    /// Whether the current state is a reason to end.
    fn look(&mut self, events: &mut Vec<AguiEvent>) -> Option<End> {
        if self.unsent().is_some() {
            // Requests and page calls meanwhile belong to another client's turn.
            return None;
        }
        if let Some(asks) = self.joined.projector.asks() {
            return Some(End::Asks(asks));
        }
        let waiting = self.waiting.borrow_and_update().clone();
        // The page runs its tools only after its stream has ended: so the stream ends, and the agent's call keeps
        // waiting. A viewer's page runs nothing.
        let is_told = || self.joined.projector.has_shown(&waiting) && self.joined.projector.is_quiet();
        if waiting.is_empty() || !self.task.may_act() || !is_told() {
            return None;
        }
        self.joined.projector.close(events);
        let (tools, session) = (&self.task.agui.tools, self.joined.session);
        match self.task.kind {
            Kind::Run => tools.handed_over(session, &waiting),
            // A connected page shows the calls. The waiting run still takes them over.
            Kind::Connect => {
                tools.shown(session);
            }
        }
        Some(End::Finished)
    }

    pub(super) fn take(
        &mut self,
        delivery: Delivery<Event, State>,
        events: &mut Vec<AguiEvent>,
    ) -> Option<End> {
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in &pieces {
                    let entry = match piece.entry() {
                        Ok(entry) => entry,
                        Err(error) => {
                            tracing::warn!(seq = %piece.seq(), %error, "an entry cannot be read");
                            continue;
                        }
                    };
                    self.before(entry.seq, &entry.event);
                    self.joined.projector.project(entry.seq, entry.by.as_deref(), &entry.event, events);
                    self.joined.last = entry.seq;
                    if let Some(end) = self.after(&entry.event) {
                        return Some(end);
                    }
                }
                None
            }
            Delivery::Snapshot(snapshot) => {
                self.joined.projector.catch_up(&snapshot.state, events);
                self.joined.last = snapshot.seq;
                self.caught_up(&snapshot.state)
            }
            Delivery::Presence(_) => None,
            Delivery::Closed(reason) => Some(End::closed(reason)),
        }
    }

    /// The state instead of missed entries: the event that the run waits for may have been among them.
    fn caught_up(&mut self, state: &State) -> Option<End> {
        self.joined.turn_runs = state.turn.is_some();
        self.joined.prompts = open_prompts(state);
        if is_ready(state) {
            self.agent_is_ready();
        }
        if let Goal::Own(command) = self.goal {
            let open = state.commands.iter().find(|open| open.seq == command);
            match open.map(|open| &open.stage) {
                Some(Stage::Accepted) => {
                    if !is_ready(state) {
                        self.ready_by.get_or_insert(Instant::now() + STARTING);
                    }
                    return None;
                }
                Some(Stage::Uncertain { reason }) => return Some(End::failed("uncertain", reason.clone())),
                _ => {}
            }
            self.progress =
                Progress { sent: true, consumed: open.is_none(), turn_began: true, ..Progress::default() };
            self.joined.place.begin();
            self.joined.projector.speak(Voice::Full);
        }
        (!is_busy(state)).then_some(End::Finished)
    }

    /// The effect of an entry on the run, before the entry is sent.
    fn before(&mut self, seq: Seq, event: &Event) {
        let own = |command: &Seq| self.goal == Goal::Own(*command);
        match event {
            Event::CommandAccepted { action, .. } if matches!(**action, Action::Prompt { .. }) => {
                self.joined.prompts.insert(seq);
            }
            Event::AgentReady { .. } | Event::LinkRestored => self.agent_is_ready(),
            Event::Prompt { command, .. } if own(command) => {
                self.progress.sent = true;
                self.joined.place.begin();
                if !self.joined.turn_runs && self.is_next() {
                    self.joined.projector.speak(Voice::Full);
                }
            }
            // An agent that gets a prompt during a turn may add it to that turn, or start another turn with it. Until
            // then, the output of the turn belongs to another client.
            Event::Receipt { command, stage: Stage::Consumed { .. } } if own(command) => {
                self.joined.projector.speak(Voice::Full);
            }
            // The page's tools may have arrived since the stream began.
            Event::ToolCall { name, .. } if name.starts_with(PREFIX) => {
                self.waiting = self.task.agui.tools.waiting(self.joined.session);
            }
            Event::TurnStarted { .. } => {
                self.joined.turn_runs = true;
                if self.progress.sent && self.is_next() {
                    self.progress.turn_began = true;
                    self.joined.projector.speak(Voice::Full);
                }
                if self.progress.consumed || self.goal == Goal::Any {
                    self.deadline = self.deadline.take().filter(|_| self.is_stopped);
                }
            }
            Event::TurnEnded { .. } => self.joined.turn_runs = false,
            _ => {}
        }
    }

    /// Whether no earlier prompt still waits: agents consume prompts in order.
    fn is_next(&self) -> bool {
        match self.goal {
            Goal::Own(prompt) => self.joined.prompts.iter().all(|open| *open >= prompt),
            Goal::Any => true,
        }
    }

    /// Whether the run ends with this entry.
    fn after(&mut self, event: &Event) -> Option<End> {
        let own = |command: &Seq| self.goal == Goal::Own(*command);
        match event {
            Event::Receipt { command, stage } if own(command) => match stage {
                Stage::Consumed { .. } => {
                    self.progress.consumed = true;
                    if !self.joined.turn_runs && self.deadline.is_none() {
                        self.deadline = Some((Instant::now() + NO_TURN, End::Finished));
                    }
                    None
                }
                Stage::Refused { refusal } if self.is_stopped => {
                    tracing::debug!(%refusal, "a run was stopped before it began");
                    Some(End::Finished)
                }
                Stage::Refused { refusal } => Some(End::refused(refusal)),
                Stage::Uncertain { reason } => Some(End::failed("uncertain", reason.clone())),
                Stage::Accepted | Stage::Sending | Stage::Delivered => None,
            },
            Event::Receipt { command, stage } if stage.is_final() => {
                let was_prompt = self.joined.prompts.remove(command);
                let is_idle = self.joined.prompts.is_empty() && !self.joined.turn_runs;
                if !was_prompt || !is_idle || self.goal != Goal::Any {
                    return None;
                }
                // The last prompt that could start a turn was withdrawn, or may need no turn.
                if matches!(stage, Stage::Refused { .. }) {
                    return Some(End::Finished);
                }
                self.deadline.get_or_insert((Instant::now() + NO_TURN, End::Finished));
                None
            }
            Event::TurnEnded { result, .. } => {
                let mine = match self.goal {
                    Goal::Any => true,
                    Goal::Own(_) => self.progress.consumed || self.progress.turn_began,
                };
                mine.then(|| Ended::of(result).into())
            }
            Event::AgentExited { .. } if self.is_stopped => Some(End::Finished),
            Event::AgentExited { exit, .. } if self.unsent().is_some() => {
                let why = Some(exit.message.clone());
                if exit.reason.is_error() {
                    self.progress.agent_failed = why;
                } else {
                    // A stopped agent may be started again for waiting prompts.
                    self.progress.agent_stopped = why;
                    self.ready_by.get_or_insert(Instant::now() + STARTING);
                }
                None
            }
            Event::AgentExited { exit, .. } => Some(End::failed("agent_exited", exit.message.clone())),
            _ => None,
        }
    }

    /// Somebody stops this run. Its turn ends soon, or its prompt is withdrawn.
    pub(super) async fn stopped(&mut self) {
        self.is_stopped = true;
        self.deadline = Some((Instant::now() + STOPPED, End::Finished));
        if let Some(prompt) = self.unsent() {
            self.withdraw(prompt).await;
        }
    }

    /// The agent ended before it got the prompt.
    pub(super) fn has_no_agent(&self) -> bool {
        self.progress.agent_failed.is_some()
    }

    async fn withdraw(&mut self, prompt: Seq) {
        let action = Action::Withdraw { prompt };
        let (registry, who) = (&self.task.agui.registry, &self.task.who);
        if let Err(refusal) = registry.submit(who, self.joined.session, CommandId::random(), action).await {
            // The prompt was consumed at the same moment; its turn continues.
            tracing::debug!(%refusal, "a prompt could not be taken back");
        }
    }
}
