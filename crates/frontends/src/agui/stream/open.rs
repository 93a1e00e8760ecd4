//! The beginning of a run: its session, its input, and the first events for the page.

use std::collections::HashSet;

use super::{
    Kind, Task,
    end::End,
    follow::{Follow, Goal},
    heard::BringsAnswers,
    prepare::Preparation,
};
use crate::agui::{
    answers,
    context::{self, Action as PageAction},
    parse,
    project::{PageNames, Projector, Prompts, Voice},
    prompt::{Brought, Said, command_id},
    runs::{Left, Place},
    threads::{Found, Wanted},
    tools::OfferedTool,
    wire::{AguiEvent, Resume},
};
use portolan_core::{
    Action, Capabilities, CommandId, Event, Generation, Refusal, RefusalCode, RequestId, Seq, SessionId,
    command::{ActionName, CommandKey, Stage},
    log::delivery::{Delivery, Mode, Start},
    registry::SessionReader,
    session::state::{OpenCommand, State, Status},
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
    /// Prompts that are being sent, or wait.
    pub(super) prompts: HashSet<Seq>,
    pub(super) place: Place,
}

/// A session as a run finds it.
struct Begun {
    joined: Joined,
    /// The first events for the page.
    events: Vec<AguiEvent>,
    /// Whether a prompt waits for an agent that is not started.
    is_parked: bool,
    /// The capabilities of the agent.
    capabilities: Box<Capabilities>,
}

/// Where the events of a run begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// Where the client's last stream ended.
    WhereItLeft,
    /// With new entries.
    Here,
}

impl Task {
    pub(super) async fn serve(mut self, brought: Result<Brought, String>) {
        let begun = AguiEvent::RunStarted { thread_id: self.thread.clone(), run_id: self.run.clone() };
        self.out.send(&mut vec![begun]).await;
        let ended = match (self.kind, brought) {
            _ if self.stay.is_over() => self.may_stay().err().unwrap_or(End::Finished),
            (_, Err(why)) => End::failed("invalid", why),
            (Kind::Run, Ok(brought)) => self.run(brought).await,
            (Kind::Connect, Ok(_)) => self.connect().await,
        };
        self.finish(ended).await;
    }

    pub(super) fn names(&self, session: SessionId) -> PageNames {
        let tools = self.agui.tools.clone();
        PageNames::new(move |name| tools.page_name(session, name))
    }

    async fn run(&mut self, mut brought: Brought) -> End {
        let brings_answers = if brought.answers.is_empty() { BringsAnswers::No } else { BringsAnswers::Yes };
        let found = match self.session_of(&brought, brings_answers).await {
            Ok(found) => found,
            Err(end) => return end,
        };
        let session = found.summary.session;
        let said = match brought.said.take() {
            Some(said) => match self.news(session, said, brings_answers).await {
                Ok(said) => said,
                Err(end) => return end,
            },
            None => None,
        };
        let place = self.agui.runs.enter(session, &self.run, said.as_ref().map(|_| self.client()));
        if let Some(said) = said {
            return self.say(found, place, said, brought).await;
        }
        place.begin();
        self.go_on(session, place, brought).await
    }

    /// The session of the run.
    async fn session_of(&self, brought: &Brought, brings_answers: BringsAnswers) -> Result<Found, End> {
        let wanted = Wanted { who: &self.who, agent: &self.agent, thread: &self.thread };
        let registry = &self.agui.registry;
        let refused = |refusal| End::refused(&refusal);
        match (&brought.said, brings_answers) {
            (Some(said), BringsAnswers::No) => {
                let words = context::own_words(&said.words);
                let settings = &self.agui.settings;
                self.agui.threads.find_or_make(registry, settings, wanted, &words).await.map_err(refused)
            }
            (_, brings_answers) => match self.agui.threads.find(registry, wanted).await.map_err(refused)? {
                Some(summary) => Ok(Found { summary, making: None }),
                None if brings_answers == BringsAnswers::Yes => {
                    Err(End::failed("not_found", "nothing waits for an answer on this thread"))
                }
                // There is no message, and nothing to continue.
                None => Err(End::Finished),
            },
        }
    }

    /// A run without a new message: it brings results and answers, or follows an earlier message.
    async fn go_on(&mut self, session: SessionId, place: Place, mut brought: Brought) -> End {
        let mut put_out = self.put_out();
        // Results and answers count in any case; a disconnect of the client is handled while the turn is followed.
        let ready = tokio::select! {
            biased;
            why = &mut put_out => return why.into(),
            ready = self.bring(session, place, &mut brought) => ready,
        };
        drop(put_out);
        let (mut joined, preparation) = match ready {
            Ok(ready) => ready,
            Err(end) => return end,
        };
        if !joined.is_busy {
            // The turn ended between two runs: its events were sent above.
            let mut events = Vec::new();
            joined.projector.close(&mut events);
            self.out.send(&mut events).await;
            return End::Finished;
        }
        Follow::new(self, joined, Goal::Any, preparation).run().await
    }

    /// Gives the agent the run's input, as far as the agent accepts it now.
    async fn bring(
        &mut self,
        session: SessionId,
        place: Place,
        brought: &mut Brought,
    ) -> Result<(Joined, Option<Preparation>), End> {
        let begun = self.join(session, place, Begins::WhereItLeft).await?;
        let Begun { mut joined, mut events, is_parked, .. } = begun;
        self.out.send(&mut events).await;
        if is_parked {
            // A posted message waits for an agent that is not started: start it, because the client wants the message
            // sent.
            let id = CommandId::random();
            let resumed = self.agui.registry.submit(&self.who, session, id, Action::Resume).await;
            resumed.map_err(|refusal| End::refused(&refusal))?;
            joined.is_busy = true;
        }
        let (tools, results) = (std::mem::take(&mut brought.tools), std::mem::take(&mut brought.results));
        let left = if joined.is_ready {
            let preparation = Preparation { tools, results, message: None };
            preparation.tell(self.agui.tools.clone(), session).await;
            None
        } else {
            // A call may wait for the results, whatever the agent's connection.
            self.agui.tools.results(session, results);
            Some(Preparation { tools, results: Vec::new(), message: None })
        };
        Ok((self.bring_answers(joined, &brought.answers).await?, left))
    }

    /// Gives the agent the answers. If one fails, the next run continues from here.
    async fn bring_answers(&self, mut joined: Joined, answers: &[Resume]) -> Result<Joined, End> {
        match self.answer(joined.session, answers).await {
            Ok(answered) => {
                for request in answered {
                    joined.projector.answered(request);
                }
                Ok(joined)
            }
            Err(end) => {
                let Joined { session, projector, last, .. } = joined;
                self.agui.runs.leave(session, &self.client(), Left { projector, last });
                Err(end)
            }
        }
    }

    /// Begins to read the session: where the client's last stream ended, or now.
    async fn join(&self, session: SessionId, place: Place, begins: Begins) -> Result<Begun, End> {
        let left = self.agui.runs.take_left(session, &self.client());
        let left = left.filter(|_| begins == Begins::WhereItLeft);
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
                    // The entries since the last stream ended.
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
                    let joined = Joined {
                        session,
                        reader,
                        projector,
                        last: snapshot.seq,
                        is_ready: is_ready(state),
                        is_busy: is_busy(state),
                        turn_runs: state.turn.is_some(),
                        prompts: open_prompts(state),
                        place,
                    };
                    let (is_parked, capabilities) = (is_parked(state), self.capabilities(state));
                    return Ok(Begun { joined, events, is_parked, capabilities });
                }
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return Err(End::closed(reason)),
            }
        }
    }

    /// Sends the message, and follows its turn. The message is in the log before the run waits for anything: for a slow
    /// agent, and for the page's tools, which the agent must have before it reads the message.
    async fn say(&mut self, found: Found, place: Place, mut said: Said, brought: Brought) -> End {
        let session = found.summary.session;
        if let Err(end) = self.may_stay() {
            if found.making.is_some() {
                self.agui.threads.unmake(&self.agui.registry, session).await;
            }
            return end;
        }
        let begun = match self.join(session, place, Begins::Here).await {
            Ok(begun) => begun,
            Err(end) => return end,
        };
        let Begun { joined, mut events, capabilities, .. } = begun;
        let Brought { results, tools, context, answers, .. } = brought;
        let mut joined = match self.bring_answers(joined, &answers).await {
            Ok(joined) => joined,
            Err(end) => return end,
        };
        self.stop_abandoned(session).await;
        let offered = self.agui.tools.preview(&capabilities, &tools);
        let words = std::mem::take(&mut said.words);
        let content = context::prompt(words, context::block(&context, &actions(offered)));
        drop(context);
        let registry = &self.agui.registry;
        let held = match registry.hold_prompt(&self.who, session, said.id.clone()).await {
            Ok(held) => held,
            Err(refusal) => return End::refused(&refusal),
        };
        let message = Some(command_id(&said.message)).filter(|_| !said.message.is_empty());
        if let Some(message) = &message {
            let command = CommandKey { token: self.who.token.clone(), id: said.id.clone() };
            self.agui.runs.says(session, &self.run, message, command);
        }
        let receipt = match registry.submit(&self.who, session, said.id, Action::Prompt { content }).await {
            Ok(receipt) => receipt,
            Err(refusal) => {
                if let Some(message) = &message {
                    self.agui.runs.has_not_said(session, &self.run, message);
                }
                if found.making.is_some() {
                    // The session was created for this message.
                    self.agui.threads.unmake(registry, session).await;
                }
                return End::refused(&refusal);
            }
        };
        drop(found);
        self.out.send(&mut events).await;
        let registry = &self.agui.registry;
        match receipt.stage {
            Stage::Refused { refusal } => return End::refused(&refusal),
            Stage::Uncertain { reason } => return End::failed("uncertain", reason),
            Stage::Accepted | Stage::Sending | Stage::Delivered | Stage::Consumed { .. } => {}
        }
        if receipt.seq <= joined.last {
            // A run at the same moment sent the message before this run began to read. The running turn is its turn.
            drop(held);
            let state = match registry.snapshot(&self.who, session).await {
                Ok(snapshot) => snapshot.state,
                Err(refusal) => return End::refused(&refusal),
            };
            if !is_busy(&state) {
                return End::Finished;
            }
            (joined.turn_runs, joined.prompts) = (state.turn.is_some(), open_prompts(&state));
            return Follow::new(self, joined, Goal::Any, None).run().await;
        }
        // The output for other clients is sent in their runs.
        joined.projector.speak(Voice::Quiet);
        let preparation = Preparation { tools, results, message: Some(held) };
        Follow::new(self, joined, Goal::Own(receipt.seq), Some(preparation)).run().await
    }

    /// A client that sends something new has given up the runs that it has left: they end before the message is sent.
    async fn stop_abandoned(&self, session: SessionId) {
        for action in self.agui.runs.overtake(session, &self.client()) {
            let stopped = self.agui.registry.submit(&self.who, session, CommandId::random(), action).await;
            if let Err(refusal) = stopped {
                // The run ended at the same moment.
                tracing::debug!(%refusal, "a run that its client left could not be stopped");
            }
        }
    }

    /// The capabilities of the session's agent; before its first start, those of its kind.
    fn capabilities(&self, state: &State) -> Box<Capabilities> {
        if state.generation == Generation(0) {
            let agents = self.agui.registry.agents();
            let kind = agents.into_iter().find(|agent| agent.kind == state.summary.agent);
            return Box::new(kind.map(|agent| agent.capabilities).unwrap_or_default());
        }
        Box::new(state.capabilities.clone())
    }

    /// Gives the agent the answers of the run; returns the closed requests. A request that somebody else answered first
    /// is not a failure.
    async fn answer(&self, session: SessionId, given: &[Resume]) -> Result<Vec<RequestId>, End> {
        let mut answered = Vec::new();
        if given.is_empty() {
            return Ok(answered);
        }
        let state = self.agui.registry.snapshot(&self.who, session).await;
        let state = state.map_err(|refusal| End::refused(&refusal))?.state;
        // Either all answers are valid, or none is given.
        let mut actions = Vec::new();
        for resume in given {
            let named = answers::named(&resume.interrupt_id);
            let open = state.requests.iter().find(|open| Some(open.request) == named);
            let Some(open) = open else {
                self.was_asked(session, &resume.interrupt_id).await?;
                continue;
            };
            let answer =
                answers::resumed(&open.ask, resume).map_err(|why| End::failed("invalid_answer", why))?;
            actions.push((open.request, open.digest.clone(), answer));
        }
        for (request, digest, answer) in actions {
            let action = Action::Answer { request, digest: Some(digest), answer, persist: None };
            match self.agui.registry.submit(&self.who, session, CommandId::random(), action).await {
                Err(refusal) if refusal.code != RefusalCode::AlreadyClosed => {
                    return Err(End::refused(&refusal));
                }
                Ok(_) | Err(_) => answered.push(request),
            }
        }
        Ok(answered)
    }

    /// An answer to a closed request is not a failure: somebody else was first, or the answer is repeated. An answer to
    /// an unknown request is a failure.
    async fn was_asked(&self, session: SessionId, interrupt: &str) -> Result<(), End> {
        let refused = |refusal: Refusal| End::refused(&refusal);
        if let Some(RequestId(number)) = answers::named(interrupt) {
            let (entry, registry) = (Seq(number), &self.agui.registry);
            let found = registry.history(&self.who, session, entry.previous(), Some(entry), 1).await;
            let found = found.map_err(refused)?.into_iter().find(|stored| stored.seq == entry);
            let entry = found.and_then(|stored| stored.decode::<Event>().ok());
            if entry.is_some_and(|entry| matches!(entry.event, Event::RequestOpened { .. })) {
                return Ok(());
            }
        }
        let named = parse::shown(interrupt, 60);
        Err(End::failed("not_found", format!("this session never had a request `{named}`")))
    }
}

/// The page's tools as the prompt lists them.
fn actions(offered: Vec<OfferedTool>) -> Vec<PageAction> {
    let action = |tool: OfferedTool| PageAction {
        name: tool.name,
        description: tool.page.description,
        parameters: tool.page.parameters,
    };
    offered.into_iter().map(action).collect()
}

/// Prompts that are being sent, or wait.
pub(super) fn open_prompts(state: &State) -> HashSet<Seq> {
    let underway = |stage: &Stage| matches!(stage, Stage::Accepted | Stage::Sending | Stage::Delivered);
    let open = state.commands.iter().filter(|open| open.name == ActionName::Prompt && underway(&open.stage));
    open.map(|open| open.seq).collect()
}

/// A turn runs or is about to start. If the agent has ended, the prompt waits until somebody starts the agent.
pub(super) fn is_busy(state: &State) -> bool {
    state.turn.is_some() || state.summary.is_live() && !open_prompts(state).is_empty()
}

/// A prompt waits, and no agent runs or is starting.
fn is_parked(state: &State) -> bool {
    !state.summary.is_live() && state.commands.iter().any(OpenCommand::is_queued_prompt)
}

/// Whether the agent accepts prompts.
pub(super) fn is_ready(state: &State) -> bool {
    matches!(state.summary.status, Status::Connected | Status::Active | Status::Idle)
}
