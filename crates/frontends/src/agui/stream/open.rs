//! The beginning of a run: which session it is about, what it brings, what the page is shown first.

use std::collections::HashSet;

use portolan_core::{
    Action, CommandId, Event, RefusalCode, RequestId, Seq, SessionId,
    command::{CommandKey, Stage},
    event::Content,
    log::delivery::{Delivery, Mode, Start},
    registry::SessionReader,
    session::state::{State, Status},
};
use tokio::time::{Instant, timeout_at};

use super::{
    Kind, STARTING, Task,
    end::End,
    follow::{Follow, Goal},
    heard::BringsAnswers,
};
use crate::agui::{
    answers,
    context::{self, Action as PageAction},
    project::{PageNames, Projector, Prompts, Voice},
    prompt::{Brought, Said, command_id},
    runs::{Left, Place},
    threads::Wanted,
    tools::{OfferedTool, PageTool},
    wire::{AguiEvent, Resume},
};

/// A session that a stream reads, at its beginning.
pub(super) struct Joined {
    pub(super) session: SessionId,
    pub(super) reader: SessionReader,
    pub(super) projector: Projector,
    pub(super) last: Seq,
    pub(super) is_ready: bool,
    pub(super) is_busy: bool,
    pub(super) turn_runs: bool,
    /// Prompts that are on their way, or wait for it.
    pub(super) prompts: HashSet<Seq>,
    pub(super) place: Place,
}

/// A run that can be carried out: the agent is there, knows the page's tools, has its results and answers.
struct Ready {
    joined: Joined,
    actions: Vec<PageAction>,
}

impl Task {
    pub(super) async fn serve(mut self, brought: Result<Brought, String>) {
        let begun = AguiEvent::RunStarted { thread_id: self.thread.clone(), run_id: self.run.clone() };
        self.out.send(&mut vec![begun]).await;
        let ended = match (self.kind, brought) {
            (_, Err(why)) => End::failed("invalid", why),
            (Kind::Run, Ok(brought)) => self.run(brought).await,
            (Kind::Connect, Ok(_)) => self.connect().await,
        };
        self.finish(ended).await;
    }

    pub(super) fn names(&self, session: SessionId) -> PageNames {
        let (tools, allowing) = (self.agui.tools.clone(), self.agui.tools.clone());
        PageNames::new(
            move |name| tools.page_name(session, name),
            move |request| allowing.allows(session, request),
        )
    }

    async fn run(&mut self, mut brought: Brought) -> End {
        let brings_answers = if brought.answers.is_empty() { BringsAnswers::No } else { BringsAnswers::Yes };
        let session = match self.session_of(&brought, brings_answers).await {
            Ok(session) => session,
            Err(end) => return end,
        };
        let said = match brought.said.take() {
            Some(said) => match self.news(session, said, brings_answers).await {
                Ok(said) => said,
                Err(end) => return end,
            },
            None => None,
        };
        let place = self.agui.runs.enter(session, &self.run, said.as_ref().map(|_| self.client()));
        if said.is_none() {
            place.begin();
        }
        let (stop, mut put_out, mut left) = (place.stop.clone(), self.put_out(), self.left());
        // Who has left, or may not stay, says nothing more: not even once an agent that takes its time is there. What a
        // run brings that only goes on is facts, and its client's leaving is dealt with where it is followed.
        let ready = tokio::select! {
            biased;
            why = &mut put_out => return why.into(),
            () = stop.cancelled(), if said.is_some() => return End::Finished,
            () = &mut left, if said.is_some() => return End::Finished,
            ready = self.prepare(session, place, said.as_ref(), &mut brought) => ready,
        };
        drop((put_out, left));
        let Ready { mut joined, actions } = match ready {
            Ok(ready) => ready,
            Err(end) => return end,
        };
        let Some(mut said) = said else {
            if !joined.is_busy {
                // The turn ended between two runs: what happened meanwhile was told above.
                let mut events = Vec::new();
                joined.projector.close(&mut events);
                self.out.send(&mut events).await;
                return End::Finished;
            }
            return Follow::new(self, joined, Goal::Any).run().await;
        };
        if self.out.is_gone {
            return End::Finished;
        }
        let words = std::mem::take(&mut said.words);
        let content = context::prompt(words, context::block(&brought.context, &actions));
        drop(brought);
        self.say(joined, said, content).await
    }

    /// The session that the run is about.
    async fn session_of(&self, brought: &Brought, brings_answers: BringsAnswers) -> Result<SessionId, End> {
        let wanted = Wanted { who: &self.who, agent: &self.agent, thread: &self.thread };
        let registry = &self.agui.registry;
        let refused = |refusal| End::refused(&refusal);
        match (&brought.said, brings_answers) {
            (Some(said), BringsAnswers::No) => {
                let words = context::own_words(&said.words);
                let settings = &self.agui.settings;
                let found = self.agui.threads.find_or_make(registry, settings, wanted, &words).await;
                Ok(found.map_err(refused)?.session)
            }
            (_, brings_answers) => match self.agui.threads.find(registry, wanted).await.map_err(refused)? {
                Some(found) => Ok(found.session),
                None if brings_answers == BringsAnswers::Yes => {
                    Err(End::failed("not_found", "nothing waits for an answer on this thread"))
                }
                // Nothing was said, and there is nothing to go on with.
                None => Err(End::Finished),
            },
        }
    }

    /// Everything before something is said: what may take its time, and may be broken off at any point.
    async fn prepare(
        &mut self,
        session: SessionId,
        place: Place,
        said: Option<&Said>,
        brought: &mut Brought,
    ) -> Result<Ready, End> {
        let mut joined = self.join(session, place, said).await?;
        if said.is_some() && !joined.is_ready {
            self.until_ready(&mut joined).await?;
        }
        let tools = std::mem::take(&mut brought.tools);
        let actions = if joined.is_ready { self.offer(session, tools).await } else { Vec::new() };
        self.agui.tools.results(session, std::mem::take(&mut brought.results));
        match self.answer(session, &brought.answers).await {
            Ok(answered) => answered.into_iter().for_each(|request| joined.projector.answered(request)),
            Err(end) => {
                let Joined { projector, last, .. } = joined;
                self.agui.runs.leave(session, &self.client(), Left { projector, last });
                return Err(end);
            }
        }
        Ok(Ready { joined, actions })
    }

    /// Begins to read the session: where the client's last stream ended, or here.
    async fn join(&mut self, session: SessionId, place: Place, said: Option<&Said>) -> Result<Joined, End> {
        let left = self.agui.runs.take_left(session, &self.client()).filter(|_| said.is_none());
        let start = left.as_ref().map_or(Start::Tail(0), |left| Start::After(left.last));
        let reader = self.agui.registry.attach(&self.who, session, start, Mode::Every).await;
        let mut reader = reader.map_err(|refusal| End::refused(&refusal))?;
        let mut projector = left.map(|left| left.projector);
        if let Some(projector) = &mut projector {
            projector.next_run(&self.agent, self.approvals);
        }
        let mut events = Vec::new();
        loop {
            match reader.next().await {
                Delivery::Entries(pieces) => {
                    // What happened since the last stream ended.
                    for piece in &pieces {
                        if let (Some(projector), Ok(entry)) = (&mut projector, piece.entry()) {
                            projector.project(entry.seq, entry.by.as_deref(), &entry.event, &mut events);
                        }
                    }
                }
                Delivery::Snapshot(snapshot) => {
                    let state = &*snapshot.state;
                    let projector = if let Some(mut projector) = projector {
                        projector.catch_up(state, &mut events);
                        projector
                    } else {
                        let (names, prompts) = (self.names(session), Prompts::NotOf(self.who.actor()));
                        let mut projector =
                            Projector::new(session, &self.agent, names, self.approvals, prompts, state);
                        projector.tell_state(&mut events);
                        projector
                    };
                    self.out.send(&mut events).await;
                    return Ok(Joined {
                        session,
                        reader,
                        projector,
                        last: snapshot.seq,
                        is_ready: is_ready(state),
                        is_busy: is_busy(state),
                        turn_runs: state.turn.is_some(),
                        prompts: open_prompts(state),
                        place,
                    });
                }
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return Err(End::closed(reason)),
            }
        }
    }

    /// Says it, and follows what comes of it.
    async fn say(&mut self, mut joined: Joined, said: Said, content: Vec<Content>) -> End {
        let session = joined.session;
        self.stop_abandoned(session).await;
        self.agui.tools.overtake(session);
        let message = Some(command_id(&said.message)).filter(|_| !said.message.is_empty());
        if let Some(message) = &message {
            let command = CommandKey { token: self.who.token.clone(), id: said.id.clone() };
            self.agui.runs.says(session, &self.run, message, command);
        }
        let action = Action::Prompt { content };
        let receipt = match self.agui.registry.submit(&self.who, session, said.id, action).await {
            Ok(receipt) => receipt,
            Err(refusal) => {
                if let Some(message) = &message {
                    self.agui.runs.has_not_said(session, &self.run, message);
                }
                return End::refused(&refusal);
            }
        };
        match receipt.stage {
            Stage::Refused { refusal } => return End::refused(&refusal),
            Stage::Uncertain { reason } => return End::failed("uncertain", reason),
            Stage::Accepted | Stage::Sending | Stage::Delivered | Stage::Consumed { .. } => {}
        }
        if receipt.seq <= joined.last {
            // It was said before this run began to read: by one that came at the same moment. What runs is its turn.
            let state = match self.agui.registry.snapshot(&self.who, session).await {
                Ok(snapshot) => snapshot.state,
                Err(refusal) => return End::refused(&refusal),
            };
            if !is_busy(&state) {
                return End::Finished;
            }
            (joined.turn_runs, joined.prompts) = (state.turn.is_some(), open_prompts(&state));
            return Follow::new(self, joined, Goal::Any).run().await;
        }
        if joined.is_busy {
            joined.projector.speak(Voice::Quiet);
        }
        Follow::new(self, joined, Goal::Own(receipt.seq)).run().await
    }

    /// A client that says something new has done with the runs it has left: they end before it is said.
    async fn stop_abandoned(&self, session: SessionId) {
        for action in self.agui.runs.overtake(session, &self.client()) {
            let stopped = self.agui.registry.submit(&self.who, session, CommandId::random(), action).await;
            if let Err(refusal) = stopped {
                // It ended in the same moment.
                tracing::debug!(%refusal, "a run that its client left could not be stopped");
            }
        }
    }

    /// Waits until the agent takes prompts; starts it where it has ended.
    async fn until_ready(&mut self, joined: &mut Joined) -> Result<(), End> {
        let deadline = Instant::now() + STARTING;
        let session = joined.session;
        let state = self.agui.registry.snapshot(&self.who, session).await;
        let state = state.map_err(|refusal| End::refused(&refusal))?.state;
        if matches!(state.summary.status, Status::Terminated | Status::Error) {
            let resumed =
                self.agui.registry.submit(&self.who, session, CommandId::random(), Action::Resume).await;
            resumed.map_err(|refusal| End::refused(&refusal))?;
        }
        let mut why = None;
        let mut events = Vec::new();
        loop {
            let Ok(delivery) = timeout_at(deadline, joined.reader.next()).await else {
                let late = format!("the session did not start within {} s", STARTING.as_secs());
                return Err(End::failed("session_starting", why.unwrap_or(late)));
            };
            match delivery {
                Delivery::Entries(pieces) => {
                    for piece in &pieces {
                        let Ok(entry) = piece.entry() else { continue };
                        joined.last = entry.seq;
                        match &*entry.event {
                            Event::AgentReady { .. } | Event::LinkRestored => {
                                joined.is_ready = true;
                            }
                            Event::AgentExited { exit, .. } => {
                                joined.is_ready = false;
                                why = Some(exit.message.clone());
                            }
                            _ => {}
                        }
                        joined.projector.project(entry.seq, entry.by.as_deref(), &entry.event, &mut events);
                    }
                }
                Delivery::Snapshot(snapshot) => {
                    joined.is_ready = is_ready(&snapshot.state);
                    joined.projector.catch_up(&snapshot.state, &mut events);
                }
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return Err(End::closed(reason)),
            }
            self.out.send(&mut events).await;
            if joined.is_ready {
                return Ok(());
            }
        }
    }

    /// Offers the page's tools to the agent; those it has from now on.
    async fn offer(&mut self, session: SessionId, tools: Vec<PageTool>) -> Vec<PageAction> {
        let offered = self.agui.tools.offer(session, tools).await;
        if let Some(why) = &offered.unavailable {
            tracing::debug!(%session, why, "the page's tools are not offered");
        }
        for left_out in &offered.left_out {
            tracing::debug!(%session, ?left_out, "a tool of the page is not offered");
        }
        if offered.unavailable.is_some() {
            return Vec::new();
        }
        let action = |tool: OfferedTool| PageAction {
            name: tool.name,
            description: tool.page.description,
            parameters: tool.page.parameters,
        };
        offered.tools.into_iter().map(action).collect()
    }

    /// Gives the agent the answers that the run brings; tells which requests wait no longer. One that someone else
    /// answered first is no failure.
    async fn answer(&self, session: SessionId, given: &[Resume]) -> Result<Vec<RequestId>, End> {
        let mut answered = Vec::new();
        if given.is_empty() {
            return Ok(answered);
        }
        let state = self.agui.registry.snapshot(&self.who, session).await;
        let state = state.map_err(|refusal| End::refused(&refusal))?.state;
        for resume in given {
            let Some(named) = answers::named(&resume.interrupt_id) else { continue };
            let Some(open) = state.requests.iter().find(|open| open.request == named) else { continue };
            let answer =
                answers::resumed(&open.ask, resume).map_err(|why| End::failed("invalid_answer", why))?;
            let action = Action::Answer { request: named, digest: Some(open.digest.clone()), answer };
            match self.agui.registry.submit(&self.who, session, CommandId::random(), action).await {
                Err(refusal) if refusal.code != RefusalCode::AlreadyClosed => {
                    return Err(End::refused(&refusal));
                }
                Ok(_) | Err(_) => answered.push(named),
            }
        }
        Ok(answered)
    }
}

/// Prompts that are on their way, or wait for it.
pub(super) fn open_prompts(state: &State) -> HashSet<Seq> {
    let underway = |stage: &Stage| matches!(stage, Stage::Accepted | Stage::Sending | Stage::Delivered);
    let open = state.commands.iter().filter(|open| open.name == "prompt" && underway(&open.stage));
    open.map(|open| open.seq).collect()
}

/// A turn runs, or is about to.
pub(super) fn is_busy(state: &State) -> bool {
    state.turn.is_some() || !open_prompts(state).is_empty()
}

/// The agent takes prompts.
fn is_ready(state: &State) -> bool {
    matches!(state.summary.status, Status::Connected | Status::Active | Status::Idle)
}
