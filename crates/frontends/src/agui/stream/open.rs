//! The beginning of a stream: which session it is about, what the run brings, what the page is shown first.

use portolan_core::{
    Action, CommandId, LogId, Refusal, RefusalCode, RequestId, Seq, SessionId,
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
};
use crate::agui::{
    answers,
    context::{self, Action as PageAction},
    project::{
        PageNames, Projector, Prompts, Voice,
        history::{HISTORY_ENTRIES, History},
    },
    prompt::{Said, again, results, said},
    runs::{Left, Place},
    threads::Wanted,
    tools::{OfferedTool, PageTool},
    wire::AguiEvent,
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
    pub(super) place: Place,
}

impl Task {
    pub(super) async fn serve(mut self, kind: Kind) {
        let begun = AguiEvent::RunStarted {
            thread_id: self.input.thread_id.clone(),
            run_id: self.input.run_id.clone(),
        };
        self.out.send(&mut vec![begun]).await;
        let ended = match kind {
            Kind::Run => self.run().await,
            Kind::Connect => self.connect().await,
        };
        self.finish(ended).await;
    }

    fn names(&self, session: SessionId) -> PageNames {
        let tools = self.agui.tools.clone();
        PageNames::new(move |name| tools.page_name(session, name))
    }

    // ------------------------------------------------------------------------------------ connect

    async fn connect(&mut self) -> End {
        self.agui.runs.connected(&self.input.thread_id);
        let wanted = Wanted { who: &self.who, agent: &self.agent, thread: &self.input.thread_id };
        let found = match self.agui.threads.find(&self.agui.registry, wanted).await {
            Ok(Some(found)) => found.session,
            // A thread that nobody has said anything on yet.
            Ok(None) => return End::done(),
            Err(refusal) => return End::refused(&refusal),
        };
        // The page gets all of it anew: where an earlier stream ended counts no more.
        self.agui.runs.take_left(found, &self.input.thread_id);
        let start = Start::Tail(HISTORY_ENTRIES);
        let reader = self.agui.registry.attach(&self.who, found, start, Mode::Every).await;
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(refusal) if refusal.code == RefusalCode::NotFound => return End::done(),
            Err(refusal) => return End::refused(&refusal),
        };
        let mut history = History::new(self.names(found));
        let state = loop {
            match reader.next().await {
                Delivery::Entries(pieces) => {
                    for piece in &pieces {
                        if let Ok(entry) = piece.entry() {
                            history.take(entry.seq, entry.by.as_deref(), &entry.event);
                        }
                    }
                }
                Delivery::Snapshot(snapshot) => break snapshot,
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return End::closed(reason),
            }
        };
        let (last, state) = (state.seq, state.state);
        let approvals = self.approvals();
        let mut projector =
            Projector::new(found, &self.agent, self.names(found), approvals, Prompts::All, &state);
        let mut events = Vec::new();
        projector.tell_state(&mut events);
        events.push(AguiEvent::MessagesSnapshot { messages: history.into_messages(&state) });
        projector.tell_requests(&mut events);
        if is_busy(&state) {
            projector.from_the_beginning(&state, &mut events);
        }
        let interrupts = projector.interrupts();
        // The page is to answer first: by a run of its own, once this one has ended.
        let page_is_asked = !self.agui.tools.waiting(found).borrow().is_empty();
        if !is_busy(&state) || page_is_asked || !interrupts.is_empty() {
            projector.close(&mut events);
            self.out.send(&mut events).await;
            if is_busy(&state) {
                self.agui.runs.leave(found, &self.input.thread_id, Left { projector, last });
            }
            return if interrupts.is_empty() { End::done() } else { End::Interrupted(interrupts) };
        }
        let place = self.agui.runs.enter(found, &self.input.run_id, None);
        place.begin();
        self.out.send(&mut events).await;
        let joined = Joined {
            session: found,
            reader,
            projector,
            last,
            is_ready: true,
            is_busy: true,
            turn_runs: state.turn.is_some(),
            place,
        };
        Follow::new(self, joined, Goal::Any).run().await
    }

    // ---------------------------------------------------------------------------------------- run

    async fn run(&mut self) -> End {
        let said = match said(&self.input) {
            Ok(said) => said,
            Err(why) => return End::failed("invalid", why),
        };
        let words = said.as_ref().map(|said| context::own_words(&said.words)).unwrap_or_default();
        let wanted = Wanted { who: &self.who, agent: &self.agent, thread: &self.input.thread_id };
        let session = if said.is_some() {
            let (registry, settings) = (&self.agui.registry, &self.agui.settings);
            match self.agui.threads.find_or_make(registry, settings, wanted, &words).await {
                Ok(found) => found.session,
                Err(refusal) => return End::refused(&refusal),
            }
        } else {
            match self.agui.threads.find(&self.agui.registry, wanted).await {
                Ok(Some(found)) => found.session,
                // Nothing was said, and there is nothing to go on with.
                Ok(None) => return End::done(),
                Err(refusal) => return End::refused(&refusal),
            }
        };
        let said = match said {
            Some(said) => match self.is_new(session, said).await {
                Ok(said) => said,
                Err(refusal) => return End::refused(&refusal),
            },
            None => None,
        };
        let joined = match self.join(session, said.is_some()).await {
            Ok(joined) => joined,
            Err(end) => return end,
        };
        self.carry_on(joined, said).await
    }

    /// The message, where the session has not heard it; said once more, where it has and nothing runs.
    async fn is_new(&self, session: SessionId, said: Said) -> Result<Option<Said>, Refusal> {
        let key = CommandKey { token: self.who.token.clone(), id: said.id.clone() };
        let known =
            self.agui.registry.store().command(LogId::Session(session), key).await.map_err(|error| {
                Refusal::new(RefusalCode::StoreFailing, format!("the store cannot be read: {error}"))
            })?;
        if known.is_none() {
            return Ok(Some(said));
        }
        let state = self.agui.registry.snapshot(&self.who, session).await?.state;
        let brings_answers = !self.input.resume.is_empty();
        if brings_answers || is_busy(&state) {
            return Ok(None);
        }
        Ok(Some(Said { id: again(&said.id, &self.input.run_id), ..said }))
    }

    /// Begins to read the session: where the thread's last stream ended, or here.
    async fn join(&mut self, session: SessionId, says_something: bool) -> Result<Joined, End> {
        let left = self.agui.runs.take_left(session, &self.input.thread_id).filter(|_| !says_something);
        let start = left.as_ref().map_or(Start::Tail(0), |left| Start::After(left.last));
        let reader = self.agui.registry.attach(&self.who, session, start, Mode::Every).await;
        let mut reader = reader.map_err(|refusal| End::refused(&refusal))?;
        let says_on = says_something.then_some(self.input.thread_id.as_str());
        let place = self.agui.runs.enter(session, &self.input.run_id, says_on);
        let approvals = self.approvals();
        let mut projector = left.map(|left| left.projector);
        if let Some(projector) = &mut projector {
            projector.next_run(&self.agent, approvals);
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
                            Projector::new(session, &self.agent, names, approvals, prompts, state);
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
                        place,
                    });
                }
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return Err(End::closed(reason)),
            }
        }
    }

    /// Gives the session what the run brings, and follows what comes of it.
    async fn carry_on(&mut self, mut joined: Joined, said: Option<Said>) -> End {
        let session = joined.session;
        if said.is_some()
            && !joined.is_ready
            && let Err(end) = self.until_ready(&mut joined).await
        {
            return end;
        }
        let tools: Vec<PageTool> = self.input.tools.iter().map(page_tool).collect();
        let actions = if joined.is_ready { self.offer(session, tools).await } else { Vec::new() };
        self.agui.tools.results(session, results(&self.input));
        match self.answer(session).await {
            Ok(answered) => answered.into_iter().for_each(|request| joined.projector.answered(request)),
            Err(end) => {
                let Joined { projector, last, .. } = joined;
                self.agui.runs.leave(session, &self.input.thread_id, Left { projector, last });
                return end;
            }
        }
        let Some(said) = said else {
            if !joined.is_busy {
                // The turn ended between two runs: what happened meanwhile was told above.
                let mut events = Vec::new();
                joined.projector.close(&mut events);
                self.out.send(&mut events).await;
                return End::done();
            }
            joined.place.begin();
            return Follow::new(self, joined, Goal::Any).run().await;
        };
        self.stop_abandoned(session).await;
        self.agui.tools.overtake(session);
        let before = context::block(&self.input.context, &actions);
        let content = context::prompt(said.words, before);
        if joined.is_busy {
            joined.projector.speak(Voice::Quiet);
        }
        match self.submit(session, said.id, content).await {
            Ok(command) => Follow::new(self, joined, Goal::Own(command)).run().await,
            Err(end) => end,
        }
    }

    /// A client that says something new has done with the runs it has left: they end before it is said.
    async fn stop_abandoned(&self, session: SessionId) {
        for action in self.agui.runs.overtake(session, &self.input.thread_id) {
            let stopped = self.agui.registry.submit(&self.who, session, CommandId::random(), action).await;
            if let Err(refusal) = stopped {
                // It ended in the same moment.
                tracing::debug!(%refusal, "a run that its client left could not be stopped");
            }
        }
    }

    async fn submit(&self, session: SessionId, id: CommandId, content: Vec<Content>) -> Result<Seq, End> {
        let action = Action::Prompt { content };
        let receipt = self.agui.registry.submit(&self.who, session, id, action).await;
        let receipt = receipt.map_err(|refusal| End::refused(&refusal))?;
        match receipt.stage {
            Stage::Refused { refusal } => Err(End::refused(&refusal)),
            Stage::Uncertain { reason } => Err(End::failed("uncertain", reason)),
            Stage::Accepted | Stage::Sending | Stage::Delivered | Stage::Consumed { .. } => Ok(receipt.seq),
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
                            portolan_core::Event::AgentReady { .. } | portolan_core::Event::LinkRestored => {
                                joined.is_ready = true;
                            }
                            portolan_core::Event::AgentExited { exit, .. } => {
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
    async fn answer(&self, session: SessionId) -> Result<Vec<RequestId>, End> {
        let mut answered = Vec::new();
        if self.input.resume.is_empty() {
            return Ok(answered);
        }
        let state = self.agui.registry.snapshot(&self.who, session).await;
        let state = state.map_err(|refusal| End::refused(&refusal))?.state;
        for resume in &self.input.resume {
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

fn page_tool(tool: &crate::agui::wire::SentTool) -> PageTool {
    PageTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    }
}

/// A turn runs, or is about to.
fn is_busy(state: &State) -> bool {
    let underway = |stage: &Stage| matches!(stage, Stage::Accepted | Stage::Sending | Stage::Delivered);
    state.turn.is_some() || state.commands.iter().any(|open| open.name == "prompt" && underway(&open.stage))
}

/// The agent takes prompts.
fn is_ready(state: &State) -> bool {
    matches!(state.summary.status, Status::Connected | Status::Active | Status::Idle)
}
