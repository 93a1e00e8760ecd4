//! A stream while its turn runs: entries in, events out, until there is a reason to end.

use portolan_core::{
    Action, CommandId, Event, Seq, command::Stage, log::delivery::Delivery, session::state::State,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    GRACE, Kind, NO_TURN, STOPPED, Task,
    end::End,
    open::{Joined, is_busy, open_prompts},
};
use crate::agui::{
    OnClose,
    project::{Ended, Voice},
    runs::Left,
    wire::AguiEvent,
};
use crate::sse::HEARTBEAT;

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The end of the turn that this prompt sets off, or is put into.
    Own(Seq),
    /// The end of the turn that runs.
    Any,
}

/// How far the own prompt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// It is on its way to the agent.
    sent: bool,
    /// The agent has taken it up.
    consumed: bool,
    /// A turn began after it was sent.
    turn_began: bool,
}

pub(super) struct Follow<'t> {
    task: &'t mut Task,
    joined: Joined,
    goal: Goal,
    progress: Progress,
    waiting: watch::Receiver<Vec<String>>,
    /// When it ends whatever happens, and how.
    deadline: Option<(Instant, End)>,
    is_stopped: bool,
}

impl<'t> Follow<'t> {
    pub(super) fn new(task: &'t mut Task, joined: Joined, goal: Goal) -> Self {
        let waiting = task.agui.tools.waiting(joined.session);
        Self { task, joined, goal, progress: Progress::default(), waiting, deadline: None, is_stopped: false }
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
            let deadline = self.deadline.as_ref().map(|(at, _)| *at);
            // Every arm can be dropped and polled again: what was begun lies in `self`.
            tokio::select! {
                delivery = self.joined.reader.next() => {
                    if let Some(end) = self.take(delivery, events) {
                        return end;
                    }
                }
                Ok(()) = self.waiting.changed() => {}
                () = stop.cancelled(), if !self.is_stopped => {
                    if let Some(end) = self.stopped().await {
                        return end;
                    }
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    return self.deadline.take().map_or(End::Finished, |(_, end)| end);
                }
                () = sleep_until(quiet_since + HEARTBEAT) => {
                    self.task.out.write(bytes::Bytes::from_static(b": keep-alive\n\n")).await;
                    quiet_since = Instant::now();
                }
                () = &mut left => return self.client_left().await,
                why = &mut put_out => {
                    // What has not reached the agent yet is not said for who may not stay.
                    if let Goal::Own(prompt) = self.goal
                        && !self.progress.sent
                    {
                        self.withdraw(prompt).await;
                    }
                    return why.into();
                }
            }
            if let Some(end) = self.look(events) {
                return end;
            }
        }
    }

    /// Whether there is a reason to end that lies in what is known now.
    fn look(&mut self, events: &mut Vec<AguiEvent>) -> Option<End> {
        let speaks = self.goal == Goal::Any || self.progress.sent;
        if speaks && let Some(asks) = self.joined.projector.asks() {
            return Some(End::Asks(asks));
        }
        let waiting = self.waiting.borrow_and_update().clone();
        // The page carries its tools out only once its stream has ended: so it ends, and the agent's call waits on. A viewer's
        // page carries out nothing.
        let is_told = || self.joined.projector.has_shown(&waiting) && self.joined.projector.is_quiet();
        if waiting.is_empty() || !self.task.may_act() || !is_told() {
            return None;
        }
        self.joined.projector.close(events);
        let (tools, session) = (&self.task.agui.tools, self.joined.session);
        match self.task.kind {
            Kind::Run => tools.handed_over(session, &waiting),
            // A page that has connected is shown them. The run that waits for them is still to take them over.
            Kind::Connect => {
                tools.shown(session);
            }
        }
        Some(End::Finished)
    }

    fn take(&mut self, delivery: Delivery<Event, State>, events: &mut Vec<AguiEvent>) -> Option<End> {
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

    /// The state in place of entries that were missed: what the run waits for may have been among them.
    fn caught_up(&mut self, state: &State) -> Option<End> {
        self.joined.turn_runs = state.turn.is_some();
        self.joined.prompts = open_prompts(state);
        if let Goal::Own(command) = self.goal {
            let open = state.commands.iter().find(|open| open.seq == command);
            match open.map(|open| &open.stage) {
                Some(Stage::Accepted) => return None,
                Some(Stage::Uncertain { reason }) => return Some(End::failed("uncertain", reason.clone())),
                _ => {}
            }
            self.progress = Progress { sent: true, consumed: open.is_none(), turn_began: true };
            self.joined.place.begin();
            self.joined.projector.speak(Voice::Full);
        }
        (!is_busy(state)).then_some(End::Finished)
    }

    /// What an entry means for the run, before it is told.
    fn before(&mut self, seq: Seq, event: &Event) {
        let own = |command: &Seq| self.goal == Goal::Own(*command);
        match event {
            Event::CommandAccepted { action, .. } if matches!(**action, Action::Prompt { .. }) => {
                self.joined.prompts.insert(seq);
            }
            Event::Prompt { command, .. } if own(command) => {
                self.progress.sent = true;
                self.joined.place.begin();
                self.joined.projector.speak(Voice::Full);
            }
            Event::TurnStarted { .. } => {
                self.joined.turn_runs = true;
                self.progress.turn_began |= self.progress.sent;
                if self.progress.consumed || self.goal == Goal::Any {
                    self.deadline = self.deadline.take().filter(|_| self.is_stopped);
                }
            }
            Event::TurnEnded { .. } => self.joined.turn_runs = false,
            _ => {}
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
                // The last prompt that could set off a turn was taken back, or needs none.
                let is_idle = self.joined.prompts.is_empty() && !self.joined.turn_runs;
                if was_prompt && is_idle && self.goal == Goal::Any && self.deadline.is_none() {
                    self.deadline = Some((Instant::now() + NO_TURN, End::Finished));
                }
                None
            }
            Event::TurnEnded { result, .. } => {
                let mine = match self.goal {
                    Goal::Any => true,
                    Goal::Own(_) => self.progress.consumed || self.progress.turn_began,
                };
                mine.then(|| Ended::of(result).into())
            }
            Event::AgentExited { exit, .. } => Some(if self.is_stopped {
                End::Finished
            } else {
                End::failed("agent_exited", exit.message.clone())
            }),
            _ => None,
        }
    }

    /// Someone stops this run. What it waits for ends soon, or is taken back.
    async fn stopped(&mut self) -> Option<End> {
        self.is_stopped = true;
        self.deadline = Some((Instant::now() + STOPPED, End::Finished));
        if let Goal::Own(command) = self.goal
            && !self.progress.sent
        {
            self.withdraw(command).await;
        }
        None
    }

    async fn withdraw(&self, prompt: Seq) {
        let action = Action::Withdraw { prompt };
        let (registry, who) = (&self.task.agui.registry, &self.task.who);
        if let Err(refusal) = registry.submit(who, self.joined.session, CommandId::random(), action).await {
            // It was taken up in the same moment; the turn it sets off goes on.
            tracing::debug!(%refusal, "a prompt could not be taken back");
        }
    }

    /// The client's connection is closed. A page comes back and connects; a plain client has stopped its run.
    async fn client_left(&mut self) -> End {
        let client = self.task.client();
        let is_page = self.task.agui.runs.has_connected(&client);
        let is_stop = match (self.task.kind, self.task.agui.settings.on_close) {
            (Kind::Connect, _) | (Kind::Run, OnClose::Continue) => false,
            (Kind::Run, OnClose::Stop) => true,
            (Kind::Run, OnClose::Auto) => !is_page,
        };
        if !is_stop {
            return End::Finished;
        }
        let session = self.joined.session;
        let prompt = match self.goal {
            Goal::Own(prompt) => Some(prompt),
            // It went on with a turn; that is what is stopped.
            Goal::Any => None,
        };
        if let Some(grace) = self.task.agui.runs.abandon(&self.joined.place, &client, prompt) {
            // Meanwhile the turn may end by itself, and the registry may stop.
            let until = Instant::now() + GRACE;
            let mut ignored = Vec::new();
            loop {
                tokio::select! {
                    delivery = self.joined.reader.next() => {
                        ignored.clear();
                        if let Some(end) = self.take(delivery, &mut ignored) {
                            return end;
                        }
                    }
                    () = grace.overtaken.cancelled() => return End::Finished,
                    () = sleep_until(until) => break,
                }
            }
            // Someone else who watches keeps it: we are one of those who are present.
            let others = self.task.agui.registry.presence(session).len() > 1;
            let came_back = self.task.agui.runs.has_connected(&client);
            if others || (came_back && self.task.agui.settings.on_close == OnClose::Auto) {
                return End::Finished;
            }
        }
        let (registry, who) = (&self.task.agui.registry, &self.task.who);
        let action = self.joined.place.stop_of(prompt);
        if let Err(refusal) = registry.submit(who, session, CommandId::random(), action).await {
            tracing::debug!(%refusal, "a run that its client left could not be stopped");
        }
        End::Finished
    }
}
