//! A stream while its turn runs: entries in, events out, until there is a reason to end.

use portolan_core::{Action, CommandId, Event, Seq, command::Stage, log::delivery::Delivery};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{GRACE, HEARTBEAT, NO_TURN, STOPPED, Task, end::End, open::Joined};
use crate::agui::{
    OnClose,
    project::{Ended, Voice},
    runs::Left,
    wire::AguiEvent,
};

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
        if turn_runs {
            task.agui.runs.leave(session, &task.input.thread_id, Left { projector, last });
        }
        end
    }

    async fn until_the_end(&mut self, events: &mut Vec<AguiEvent>) -> End {
        let keeper = std::sync::Arc::clone(&self.task.agui.keeper);
        let gone = keeper.until_gone(&self.task.who.token);
        tokio::pin!(gone);
        let stopping = self.task.agui.stopping.clone();
        let stop = self.joined.place.stop.clone();
        let stay = self.task.stay.clone();
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
                () = self.task.out.closed() => return self.client_left().await,
                () = &mut gone => return End::failed("unauthenticated", "the token was revoked or has expired"),
                () = stay.over() => return End::failed("unauthenticated", "this browser was logged out"),
                () = stopping.cancelled() => {
                    return End::failed("stopping", "Portolan is shutting down; try again when it is back");
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
        let interrupts = self.joined.projector.interrupts();
        if speaks && !interrupts.is_empty() {
            return Some(End::Interrupted(interrupts));
        }
        let waiting = self.waiting.borrow_and_update().clone();
        // The page carries its tools out only once the run has ended: so it ends, and the agent's call waits on.
        if !waiting.is_empty()
            && self.joined.projector.has_shown(&waiting)
            && self.joined.projector.is_quiet()
        {
            self.joined.projector.close(events);
            self.task.agui.tools.handed_over(self.joined.session, &waiting);
            return Some(End::Finished);
        }
        None
    }

    fn take(
        &mut self,
        delivery: Delivery<Event, portolan_core::session::state::State>,
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
                    self.before(&entry.event);
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
                None
            }
            Delivery::Presence(_) => None,
            Delivery::Closed(reason) => Some(End::closed(reason)),
        }
    }

    /// What an entry means for the run, before it is told.
    fn before(&mut self, event: &Event) {
        let own = |command: &Seq| self.goal == Goal::Own(*command);
        match event {
            Event::Prompt { command, .. } if own(command) => {
                self.progress.sent = true;
                self.joined.place.begin();
                self.joined.projector.speak(Voice::Full);
            }
            Event::TurnStarted { .. } => {
                self.joined.turn_runs = true;
                self.progress.turn_began |= self.progress.sent;
                if self.progress.consumed {
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
        let thread = &self.task.input.thread_id;
        let is_stop = match (self.task.agui.settings.on_close, self.goal) {
            (OnClose::Continue, _) | (_, Goal::Any) => false,
            (OnClose::Stop, Goal::Own(_)) => true,
            (OnClose::Auto, Goal::Own(_)) => !self.task.agui.runs.has_connected(thread),
        };
        if !is_stop {
            return End::Finished;
        }
        let (Goal::Own(prompt), session) = (self.goal, self.joined.session) else { return End::Finished };
        if let Some(grace) = self.task.agui.runs.abandon(&self.joined.place, thread, prompt) {
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
            let came_back = self.task.agui.runs.has_connected(&self.task.input.thread_id);
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
