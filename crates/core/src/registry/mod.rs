//! The registry: every session by its id. Frontends and embedding programs call it.
//!
//! The registry opens a session when a caller needs it and closes it when nobody does: a session without an agent and
//! without a reader is only a row in the store. The registry checks roles, equally for every frontend.

mod account;
mod agents;
mod alone;
mod asked;
mod audit;
mod budgets;
mod create;
mod daemon;
mod edited;
mod failing;
mod held;
pub(crate) mod ledger;
pub(crate) mod lent;
mod live_sessions;
mod modes;
mod past;
mod persisted;
mod reader;
mod retention;
mod rules;
mod uses;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::oneshot;

pub use self::{
    account::AccountDescription,
    agents::AgentDescription,
    budgets::BudgetDescription,
    daemon::{DaemonState, Waiting},
    held::HeldPrompt,
    lent::AcceptsEdits,
    past::{PAST_LISTED, PastDescription, PastListing, PastMove, TakeUp, TakenUp},
    reader::{DaemonReader, SessionReader},
    rules::{
        RuleDescription, SimulatedEnd, SimulatedRequest, SimulatedSession, Simulation, Trial, project_id,
    },
};
use self::{alone::Doing, live_sessions::LiveSessions};
pub(crate) use self::{asked::Asked, daemon::Daemon, live_sessions::LiveSessionsRef};
use crate::{
    Action, CommandId, DaemonEvent, Event, LogId, Principal, Refusal, RefusalCode, Role, Seq, SessionId,
    Stored, WayOut,
    command::{Command, CommandKey, Receipt, Stage},
    log::{
        cursor::Cursor,
        delivery::{Mode, Presence, Snapshot, Start},
    },
    ports::{Agent, Clock, CommandRow, Page, Probe, SessionQuery, Store, StoreError},
    session::{
        crew::Crew,
        machine::{Policy, masked},
        state::{State, Summary},
        task::{AgentsAtShutdown, Handle, Mail, ORIGINS, Origin},
    },
};

/// The most entries that one page of history holds.
const HISTORY_PAGE: u32 = 1000;

/// The most bytes that one page of history holds.
const HISTORY_BYTES: u32 = 4 * 1024 * 1024;

/// The most sessions that one page of a list holds.
const LIST_PAGE: u32 = 1000;

/// The fewest characters that may name a whole id.
const SHORTEST_PART: usize = 4;

/// How long ending an agent may take beyond the grace of its turn before it is reported as not stopped.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Every session by its id. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    agents: Vec<Arc<dyn Agent>>,
    probes: Mutex<HashMap<String, Probe>>,
    clock: Clock,
    policy: Policy,
    crew: Crew,
    daemon: Daemon,
    live_sessions: LiveSessions,
    creating: Doing<CommandKey>,
    /// Conversations, by the agent and its own id.
    importing: Doing<(String, String)>,
    past_turns: tokio::sync::Semaphore,
    logins: account::Logins,
    lending: lent::Lending,
    uses: uses::Uses,
}

impl Registry {
    /// Opens the registry over a store. First it handles sessions that the daemon before left open: it rejoins agents
    /// that still run, and settles the rest.
    pub async fn open(
        store: Arc<dyn Store>,
        agents: Vec<Arc<dyn Agent>>,
        clock: Clock,
        policy: Policy,
    ) -> Result<Self, StoreError> {
        let daemon = Daemon::open(Arc::clone(&store), clock.clone()).await?;
        let shared = Arc::new(Shared {
            store,
            agents,
            probes: Mutex::default(),
            clock,
            crew: Crew::new(policy.agents_at_once),
            policy,
            daemon,
            live_sessions: LiveSessions::default(),
            creating: Mutex::default(),
            importing: Mutex::default(),
            past_turns: tokio::sync::Semaphore::new(past::PAST_AT_ONCE),
            logins: account::Logins::default(),
            lending: lent::Lending::default(),
            uses: uses::Uses::default(),
        });
        let registry = Self { shared };
        registry.forget_unfinished_imports().await?;
        registry.settle_left_open().await?;
        Ok(registry)
    }

    /// Opens every session whose agent may have run when the daemon ended, and every session in the inbox. Opening
    /// settles the session and corrects the inbox.
    async fn settle_left_open(&self) -> Result<(), StoreError> {
        let mut left_open = self.shared.daemon.waiting_sessions();
        let mut before = None;
        loop {
            let query = SessionQuery { archived: None, live: true, before, limit: LIST_PAGE };
            let page = self.shared.store.sessions(query).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.session);
            left_open.extend(page.iter().map(|summary| summary.session));
        }
        // A prompt that waits for a budget goes on when the budget has room.
        let waits = |summary: &&Summary| summary.queued > 0 && summary.over_budget.is_some();
        let sessions = self.shared.daemon.log().state().sessions.clone();
        left_open.extend(sessions.iter().filter(waits).map(|summary| summary.session));
        for session in left_open {
            if let Err(refusal) = self.wake(session).await {
                tracing::warn!(%session, %refusal, "a session that an earlier daemon left open cannot be loaded");
                self.shared.daemon.forget(session).await;
            }
        }
        Ok(())
    }

    // ------------------------------------------------------------------------------------- sessions

    /// Sessions, newest first, without the sessions that `who` may not see.
    pub async fn list(&self, who: &Principal, query: SessionQuery) -> Result<Vec<Summary>, Refusal> {
        let query = SessionQuery { limit: query.limit.clamp(1, LIST_PAGE), ..query };
        if let Some(bound) = &who.sessions {
            // A bound token has few sessions: each is looked up, newest first.
            let mut seen = Vec::new();
            for session in bound.iter().rev().filter(|id| query.before.is_none_or(|before| **id < before)) {
                if let Ok(snapshot) = self.snapshot(who, *session).await
                    && query.archived.is_none_or(|wanted| wanted == snapshot.state.summary.archived)
                {
                    seen.push(snapshot.state.summary.clone());
                }
            }
            seen.truncate(query.limit as usize);
            return Ok(seen);
        }
        let mut page = self.shared.store.sessions(query).await.map_err(broken)?;
        for summary in &mut page {
            // An open session is newer than its row; a session that a crash left open is settled first.
            let awake = match self.shared.live_sessions.awake(summary.session) {
                None if summary.is_live() => self.wake(summary.session).await.ok(),
                awake => awake,
            };
            if let Some(handle) = awake {
                *summary = handle.log.state().summary.clone();
            }
        }
        Ok(page)
    }

    /// The session whose id begins or ends with `part`, if there is exactly one.
    pub async fn resolve(&self, who: &Principal, part: &str) -> Result<SessionId, Refusal> {
        if let Ok(id) = part.parse::<SessionId>() {
            who.may(Role::Viewer, id)?;
            return Ok(id);
        }
        let part = part.to_ascii_lowercase();
        let is_hex = part.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        if part.len() < SHORTEST_PART || !is_hex {
            let message = format!(
                "`{}` cannot be part of a session's id; give at least {SHORTEST_PART} characters of an id",
                part.escape_debug()
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let matching: Vec<_> = match &who.sessions {
            Some(bound) => bound.iter().copied().filter(|id| id.is_named_by(&part)).collect(),
            None => self.shared.store.matching(part.clone(), 2).await.map_err(broken)?,
        };
        match matching.as_slice() {
            [one] => Ok(*one),
            [] => Err(Refusal::new(
                RefusalCode::NotFound,
                format!("no session's id begins or ends with `{part}`"),
            )
            .with_way_out(WayOut::ListSessions)),
            _ => Err(Refusal::new(
                RefusalCode::Invalid,
                format!("the ids of several sessions begin or end with `{part}`; give more characters"),
            )
            .with_way_out(WayOut::ListSessions)),
        }
    }

    /// Sends a command to a session. Returns when the command is in the log, with its number and its progress;
    /// everything later arrives as entries. The same id again gives the same receipt; another command under that id is
    /// refused.
    pub async fn submit(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<Receipt, Refusal> {
        let rule = self.rule_to_persist(who, session, &action).await?;
        let receipt = self.submit_alone(who, session, id, action).await?;
        match rule {
            Some(rule) if !matches!(receipt.stage, Stage::Refused { .. }) => self.persist(who, rule).await?,
            Some(_) | None => {}
        }
        Ok(receipt)
    }

    /// [`submit`](Self::submit), without the rule that an answer makes for other sessions.
    async fn submit_alone(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<Receipt, Refusal> {
        who.may(action.needs(), session)?;
        let key = CommandKey { token: who.token.clone(), id };
        let handle = self.wake(session).await?;
        self.guard_action(who, &handle, &action)?;
        self.guard_edit(&handle, &action).await?;
        let known = if handle.asked.is_new(&key) {
            None
        } else {
            self.shared.store.command(LogId::Session(session), key.clone()).await.map_err(broken)?
        };
        if let Some(row) = known
            && let Ok(stage) = serde_json::from_slice(&row.stage)
        {
            self.require_same(session, &row, &action).await?;
            if stage == Stage::Accepted {
                self.send_parked(&handle, Some(row.key)).await?;
            }
            return Ok(Receipt { seq: row.seq, stage });
        }
        if matches!(action, Action::Prompt { .. } | Action::SendAgain { .. } | Action::Resume)
            && !handle.log.state().summary.is_live()
        {
            self.shared.crew.require_room()?;
        }
        let command = Command { key, by: who.actor(), action };
        match command.action {
            Action::Interrupt | Action::Stop | Action::Archive { archived: true } => {
                self.submit_urgent(&handle, command).await
            }
            _ => {
                self.store_takes_writes()?;
                tokio::select! {
                    biased;
                    receipt = self.record(&handle, command) => receipt,
                    reason = self.store_stays_failing() => Err(failing::waits(&reason)),
                }
            }
        }
    }

    /// Starts a session's agent if a prompt with this key (or any prompt) waits because the daemon had ended.
    pub(super) async fn send_parked(&self, handle: &Handle, key: Option<CommandKey>) -> Result<(), Refusal> {
        let is_parked = handle.log.state().summary.parked().is_some();
        if !is_parked {
            return Ok(());
        }
        self.shared.crew.require_room()?;
        let (reply, started) = oneshot::channel();
        handle.mailbox.send(Mail::Again { key, reply }).await.map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    /// Refuses a command with the id of another command: otherwise its sender would believe that it was done.
    async fn require_same(
        &self,
        session: SessionId,
        row: &CommandRow,
        action: &Action,
    ) -> Result<(), Refusal> {
        let only = Page { entries: 1, bytes: HISTORY_BYTES };
        let read = self.shared.store.read(LogId::Session(session), row.seq.previous(), row.seq, only).await;
        let recorded = read.map_err(broken)?.first().and_then(|entry| entry.decode::<Event>().ok());
        match recorded.map(|entry| entry.event) {
            Some(Event::CommandAccepted { action: recorded, .. }) if *recorded != masked(action) => {
                Err(Refusal::id_used(&row.key.id, row.seq))
            }
            // The commands are the same, or the first is no longer there to compare with.
            _ => Ok(()),
        }
    }

    /// Passes a command to the session's task and waits until it is recorded.
    async fn record(&self, handle: &Handle, command: Command) -> Result<Receipt, Refusal> {
        let command = Box::new(command);
        let (reply, answer) = oneshot::channel();
        match handle.mailbox.try_send(Mail::Command { command, reply }) {
            Ok(()) => {}
            Err(tokio::sync::mpsc::error::TrySendError::Full(_)) => {
                return Err(Refusal::busy("the session is overloaded; try again", 250));
            }
            Err(tokio::sync::mpsc::error::TrySendError::Closed(_)) => return Err(gone()),
        }
        let answer = answer.await.map_err(|_| gone())?;
        let known = match &answer {
            Ok(receipt) => receipt.seq,
            // The refusal says how a request ended; after somebody knows that, a crash must not undo it.
            Err(refusal) if refusal.outcome.is_some() => handle.log.head(),
            Err(_) => return answer,
        };
        if handle.log.wait_visible(known).await { answer } else { Err(gone()) }
    }

    async fn erase(&self, session: SessionId, who: Option<&Principal>) -> Result<(), Refusal> {
        let handle = self.wake(session).await?;
        self.count_before_deletion(session).await;
        let (reply, done) = oneshot::channel();
        handle.mailbox.send(Mail::Delete { reply }).await.map_err(|_| gone())?;
        done.await.map_err(|_| gone())?;
        self.shared.live_sessions.remove(session);
        self.shared.daemon.note(who.map(Principal::actor), DaemonEvent::SessionDeleted { session }).await;
        Ok(())
    }

    /// The current state of a session.
    pub async fn snapshot(&self, who: &Principal, session: SessionId) -> Result<Snapshot<State>, Refusal> {
        who.may(Role::Viewer, session)?;
        let handle = self.wake(session).await?;
        let snapshot = handle.log.snapshot();
        tokio::select! {
            biased;
            visible = handle.log.wait_visible(snapshot.seq) => if visible { Ok(snapshot) } else { Err(gone()) },
            reason = self.store_stays_failing() => Err(failing::unseen(&reason)),
        }
    }

    /// The state as the session's own task has it now. The state may be ahead of the log, and is available even while
    /// nothing can be recorded. Use it only to decide whether something must be ended, never to report what happened.
    pub async fn newest_state(&self, who: &Principal, session: SessionId) -> Result<Arc<State>, Refusal> {
        who.may(Role::Viewer, session)?;
        Ok(self.wake(session).await?.log.snapshot().state)
    }

    /// Joins a session: history from `start`, a snapshot, then every new entry. The reader is added to the session's
    /// presence.
    pub async fn attach(
        &self,
        who: &Principal,
        session: SessionId,
        start: Start,
        mode: Mode,
    ) -> Result<SessionReader, Refusal> {
        who.may(Role::Viewer, session)?;
        let handle = self.wake(session).await?;
        let cursor = Cursor::join(Arc::clone(&handle.log), start, mode).await.map_err(broken)?;
        Ok(SessionReader::new(cursor, handle, who, self.shared.clock.now()))
    }

    /// A page of durable entries with `after < seq <= upto` (up to the newest if `upto` is absent), oldest first, at
    /// most `limit` (and at most 1,000).
    pub async fn history(
        &self,
        who: &Principal,
        session: SessionId,
        after: Seq,
        upto: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Stored>, Refusal> {
        who.may(Role::Viewer, session)?;
        let handle = self.wake(session).await?;
        let upto = upto.unwrap_or(Seq(u64::MAX)).min(handle.log.visible());
        let page = Page { entries: limit.clamp(1, HISTORY_PAGE), bytes: HISTORY_BYTES };
        self.shared.store.read(LogId::Session(session), after, upto, page).await.map_err(broken)
    }

    /// The agent's original text of an entry. For owners.
    pub async fn raw(&self, who: &Principal, session: SessionId, seq: Seq) -> Result<Option<Bytes>, Refusal> {
        who.may(Role::Owner, session)?;
        let handle = self.wake(session).await?;
        if seq > handle.log.visible() {
            return Ok(None);
        }
        self.shared.store.raw(LogId::Session(session), seq).await.map_err(broken)
    }

    /// The environment of a session's agent. For owners.
    pub async fn environment(
        &self,
        who: &Principal,
        session: SessionId,
    ) -> Result<indexmap::IndexMap<String, String>, Refusal> {
        who.may(Role::Owner, session)?;
        let spec = self.origin(session).await?.spec;
        let Some(agent) = self.agent(&spec.agent) else { return Ok(spec.env) };
        agent.environment(&spec).map_err(|why| Refusal::new(RefusalCode::Invalid, why))
    }

    async fn origin(&self, session: SessionId) -> Result<Origin, Refusal> {
        let record = self.shared.store.record(ORIGINS, session.to_string()).await.map_err(broken)?;
        let record = record.ok_or_else(|| Refusal::no_session(session))?;
        serde_json::from_slice(&record).map_err(|error| {
            let message = format!("the settings of session `{session}` cannot be read: {error}");
            Refusal::new(RefusalCode::Internal, message)
        })
    }

    /// Everyone who reads a session now.
    pub fn presence(&self, session: SessionId) -> Arc<Vec<Presence>> {
        let awake = self.shared.live_sessions.awake(session);
        awake.map(|handle| handle.presence.borrow().clone()).unwrap_or_default()
    }

    // --------------------------------------------------------------------------------------- daemon

    /// Reads the daemon's log: history from `start`, a snapshot, then every new entry.
    pub async fn watch(&self, who: &Principal, start: Start) -> Result<DaemonReader, Refusal> {
        let cursor = Cursor::join(self.shared.daemon.log(), start, Mode::Every).await.map_err(broken)?;
        Ok(DaemonReader::new(cursor, who.clone()))
    }

    /// Records an event of the listeners (tokens, devices) in the daemon's log.
    pub async fn note(&self, who: Option<&Principal>, event: DaemonEvent) -> Result<Seq, Refusal> {
        self.store_takes_writes()?;
        self.shared.daemon.note_and_wait(who.map(Principal::actor), event).await.ok_or_else(gone)
    }

    /// The store, for the frontends' own records (tokens, devices).
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    /// Ends everything: it accepts no new prompts, gives running turns `grace`, then ends agents by the stop ladder.
    /// Returns the names of sessions whose agent did not stop.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        self.close_sessions(grace, AgentsAtShutdown::End).await
    }

    /// Like [`Registry::shutdown`], but agents that outlive the daemon go on running, and the next daemon rejoins them.
    pub async fn leave(&self, grace: Duration) -> Vec<String> {
        self.close_sessions(grace, AgentsAtShutdown::Keep).await
    }

    async fn close_sessions(&self, grace: Duration, agents: AgentsAtShutdown) -> Vec<String> {
        self.shared.daemon.note(None, DaemonEvent::Stopping).await;
        let mut ending = Vec::new();
        for handle in self.shared.live_sessions.close() {
            let (reply, done) = oneshot::channel();
            if handle.mailbox.send(Mail::ShutDown { grace, agents, reply }).await.is_ok() {
                ending.push((handle, done));
            }
        }
        let deadline = tokio::time::Instant::now() + grace + STOP_LIMIT;
        let mut stuck = Vec::new();
        for (handle, done) in ending {
            if tokio::time::timeout_at(deadline, done).await.is_err() {
                stuck.push(format!("{} ({})", handle.id, handle.log.state().summary.name));
            }
        }
        self.shared.daemon.close().await;
        stuck
    }
}

/// The store cannot be read.
fn broken(error: StoreError) -> Refusal {
    Refusal::new(RefusalCode::StoreFailing, format!("the store cannot be read: {error}"))
}

/// The session ended during the call.
fn gone() -> Refusal {
    Refusal::new(RefusalCode::Ended, "the session has just ended; try again")
}
