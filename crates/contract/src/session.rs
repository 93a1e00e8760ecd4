//! A session as a scenario sees it: what a frontend would see, in order, with a bound on every wait.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use portolan_core::{
    Action, CommandId, Event, Seq, SessionId,
    command::Stage,
    event::{Content, TurnOutcome, TurnResult, plain_text},
    log::delivery::{Delivery, Mode, Start},
    registry::{Registry, SessionReader},
    request::{Answer, Ask, Request},
    session::state::State,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{Fault, bench::owner, fault::must, transcript::Transcript};

/// How long a wait may go on without a new event: ten times the time of the slowest step. Every event of the agent
/// starts this time again, so that many steps on a busy machine are not a fault.
const PATIENCE: Duration = Duration::from_secs(40);

/// The same time for an agent that tries again several times. Some agents do not report their tries: one agent pauses
/// for 68 s in total.
const LONG: Duration = Duration::from_secs(150);

/// The same time for the start of an agent. Adapters end an agent whose start takes too long, and report the end. No
/// adapter waits this long.
const STARTING: Duration = Duration::from_secs(200);

/// Numbers readers, so that the transcript shows them apart.
static READERS: AtomicU32 = AtomicU32::new(1);

/// A session of the agent under test.
#[derive(Debug)]
pub struct Session {
    registry: Registry,
    id: SessionId,
    reader: SessionReader,
    transcript: Transcript,
    label: String,
    seen: Vec<(Seq, Event)>,
    /// Entries before this position were checked.
    place: usize,
    patience: Duration,
    /// Whether the agent is starting, according to the events so far.
    starts: bool,
}

impl Session {
    /// Reads the session from its beginning.
    pub(crate) async fn join(
        registry: Registry,
        id: SessionId,
        transcript: Transcript,
    ) -> Result<Self, Fault> {
        let reader = registry.attach(&owner(), id, Start::After(Seq::ZERO), Mode::Every).await?;
        let id_text = id.to_string();
        let label = format!("{}.{}", &id_text[id_text.len() - 4..], READERS.fetch_add(1, Ordering::Relaxed));
        let (seen, place, patience, starts) = (Vec::new(), 0, PATIENCE, false);
        Ok(Self { registry, id, reader, transcript, label, seen, place, patience, starts })
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// From now on a long time may pass without a new event: a conversation is resumed, or the agent tries again
    /// several times.
    pub fn may_take_long(&mut self) {
        self.patience = LONG;
    }

    /// All entries so far.
    pub fn seen(&self) -> impl Iterator<Item = &Event> {
        self.seen.iter().map(|(_, event)| event)
    }

    /// Its state now.
    pub async fn state(&self) -> Result<State, Fault> {
        let snapshot = self.registry.snapshot(&owner(), self.id).await?;
        Ok((*snapshot.state).clone())
    }

    // ----------------------------------------------------------------------------------------- doing

    /// Sends an action; returns the number of the command.
    pub async fn submit(&self, action: Action) -> Result<Seq, Fault> {
        self.transcript.add(&format!("{} > {action:?}", self.label));
        Ok(self.registry.submit(&owner(), self.id, CommandId::random(), action).await?.seq)
    }

    /// Sends a prompt.
    pub async fn prompt(&self, text: &str) -> Result<Seq, Fault> {
        self.submit(Action::Prompt { content: vec![Content::text(text)] }).await
    }

    /// Answers a request with the digest that was shown.
    pub async fn answer(&self, request: &Request, answer: Answer) -> Result<Seq, Fault> {
        let digest = Some(request.digest.clone());
        self.submit(Action::Answer { request: request.request, digest, answer, persist: None }).await
    }

    /// Sends an action and waits until the agent did it; returns the result.
    pub async fn carry_out(&mut self, action: Action) -> Result<Option<Value>, Fault> {
        let command = self.submit(action).await?;
        self.settled(command).await
    }

    // --------------------------------------------------------------------------------------- waiting

    /// Waits for the first entry that fits, after those of earlier waits. A failure of the agent ends the wait.
    pub async fn until<T>(
        &mut self,
        what: &str,
        mut fits: impl FnMut(&Event) -> Option<T>,
    ) -> Result<T, Fault> {
        let mut since = Instant::now();
        loop {
            while let Some((_, event)) = self.seen.get(self.place) {
                self.place += 1;
                if let Some(found) = fits(event) {
                    return Ok(found);
                }
                if let Event::AgentExited { exit, .. } = event
                    && exit.reason.is_error()
                {
                    let why = format!("the agent ended before {what} came: {}", exit.message);
                    return Err(Fault::Wrong(if exit.stderr.is_empty() {
                        why
                    } else {
                        format!("{why}; it said: {}", exit.stderr.trim())
                    }));
                }
            }
            self.more(&mut since, what).await?;
        }
    }

    /// Waits until a command is settled: done, or a fault with the reason. Entries stay available for later waits.
    pub async fn settled(&mut self, command: Seq) -> Result<Option<Value>, Fault> {
        let mut since = Instant::now();
        let mut looked_at = 0;
        loop {
            while let Some((_, event)) = self.seen.get(looked_at) {
                looked_at += 1;
                if let Event::Receipt { command: of, stage } = event
                    && *of == command
                {
                    match stage {
                        Stage::Consumed { result } => return Ok(result.clone()),
                        Stage::Refused { refusal } => return Err(refusal.clone().into()),
                        Stage::Uncertain { reason } => {
                            return Err(Fault::wrong(format!("command {command} is uncertain: {reason}")));
                        }
                        Stage::Accepted | Stage::Sending | Stage::Delivered => {}
                    }
                }
            }
            self.more(&mut since, &format!("the end of command {command}")).await?;
        }
    }

    /// Waits for more entries, and sets `since` to the time of the last event.
    async fn more(&mut self, since: &mut Instant, what: &str) -> Result<(), Fault> {
        let patience = if self.starts { STARTING } else { self.patience };
        let Ok(delivery) = tokio::time::timeout_at(*since + patience, self.reader.next()).await else {
            let told = self.seen.iter().rev().find_map(|(_, event)| trouble(event));
            let told = told.map(|told| format!("; before that, {told}")).unwrap_or_default();
            let seconds = patience.as_secs();
            return Err(Fault::wrong(format!(
                "{what} did not come, and nothing else came for {seconds} s{told}"
            )));
        };
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in pieces {
                    let entry = piece.entry().map_err(|error| Fault::wrong(format!("an entry: {error}")))?;
                    let event = entry.event.into_owned();
                    self.transcript.entry(&self.label, entry.seq, &event);
                    match event {
                        Event::AgentStarting { .. } => self.starts = true,
                        Event::AgentReady { .. } | Event::AgentExited { .. } => self.starts = false,
                        _ => {}
                    }
                    // A notice that the agent is silent does not show that the agent works.
                    if !matches!(event, Event::Notice { .. }) {
                        *since = Instant::now();
                    }
                    self.seen.push((entry.seq, event));
                }
                Ok(())
            }
            Delivery::Snapshot(_) | Delivery::Presence(_) => Ok(()),
            Delivery::Closed(why) => Err(Fault::wrong(format!("the session was closed ({why:?})"))),
        }
    }

    /// Waits until the agent takes prompts.
    pub async fn ready(&mut self) -> Result<(), Fault> {
        self.until("a ready agent", |event| matches!(event, Event::AgentReady { .. }).then_some(())).await
    }

    /// Waits for the end of a turn.
    pub async fn turn_end(&mut self) -> Result<TurnResult, Fault> {
        self.until("the end of the turn", |event| match event {
            Event::TurnEnded { result, .. } => Some((**result).clone()),
            _ => None,
        })
        .await
    }

    /// Waits for the end of a successful turn, and returns the agent's last text in it.
    pub async fn completes(&mut self) -> Result<String, Fault> {
        let mut words = String::new();
        let result = self
            .until("the end of the turn", |event| match event {
                Event::Message { parent: None, content, .. } if !plain_text(content).is_empty() => {
                    words = plain_text(content);
                    None
                }
                Event::TurnEnded { result, .. } => Some((**result).clone()),
                _ => None,
            })
            .await?;
        must!(
            result.outcome == TurnOutcome::Completed,
            "the turn ended as {:?} instead of completed ({})",
            result.outcome,
            result.error.map_or_else(|| "no error".into(), |error| error.message)
        );
        Ok(words)
    }

    /// Sends a prompt and returns the agent's last text in the turn that follows.
    pub async fn exchange(&mut self, prompt: &str) -> Result<String, Fault> {
        self.prompt(prompt).await?;
        self.completes().await
    }

    /// Waits for a stopped turn to end as interrupted.
    pub async fn interrupted(&mut self) -> Result<(), Fault> {
        let result = self.turn_end().await?;
        must!(
            result.outcome == TurnOutcome::Interrupted,
            "the turn ended as {:?} instead of interrupted ({:?})",
            result.outcome,
            result.error
        );
        Ok(())
    }

    /// Waits for a request of the agent.
    pub async fn request(&mut self) -> Result<Request, Fault> {
        self.until("a request", |event| match event {
            Event::RequestOpened { request } => Some((**request).clone()),
            _ => None,
        })
        .await
    }

    /// Waits for the agent to ask for permission to use this tool.
    pub async fn permission(&mut self, tool: &str) -> Result<Request, Fault> {
        let request = self.request().await?;
        match &request.ask {
            Ask::Permission { tool_name, .. } if tool_name == tool => Ok(request),
            other => Err(Fault::wrong(format!(
                "the agent asked for {} instead of permission for {tool}",
                other.title()
            ))),
        }
    }

    /// Waits until the turn is visibly at work: until text streams, if the agent can stream.
    pub async fn at_work(&mut self) -> Result<(), Fault> {
        let streams = self.state().await?.capabilities.streaming;
        self.until("the work of the turn", |event| match event {
            Event::Delta { .. } => Some(()),
            Event::TurnStarted { .. } if !streams => Some(()),
            _ => None,
        })
        .await
    }

    /// Whether there is a cut-off message that begins with this text.
    pub fn kept(&self, beginning: &str) -> bool {
        self.seen().any(|event| match event {
            Event::Message { content, interrupted: true, .. } => plain_text(content).starts_with(beginning),
            _ => false,
        })
    }

    /// The number of the newest entry.
    pub fn newest(&self) -> Seq {
        self.seen.last().map_or(Seq::ZERO, |(seq, _)| *seq)
    }
}

/// The failure in an entry, if it has one.
fn trouble(event: &Event) -> Option<String> {
    match event {
        Event::AgentExited { exit, .. } => Some(format!("the agent ended: {}", exit.message)),
        Event::Failure { error, .. } => Some(format!("a failure: {}", error.message)),
        Event::TurnEnded { result, .. } => {
            let error = result.error.as_ref().map(|error| format!(": {}", error.message));
            Some(format!("the turn ended as {:?}{}", result.outcome, error.unwrap_or_default()))
        }
        Event::RequestOpened { request } => Some(format!("a request was opened: {}", request.ask.title())),
        _ => None,
    }
}
