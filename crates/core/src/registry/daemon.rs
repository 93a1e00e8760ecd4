//! The daemon's own log: sessions created, changed and ended, requests opened and closed, tokens. Session lists, the
//! inbox of all waiting requests and the audit are cursors over this log.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::ledger::Ledger;
use crate::{
    Actor, DaemonEvent, LogId, Millis, RequestId, Seq, SessionId,
    event::Durability,
    log::{Book, Folded, Log, Writer, delivery::Closed},
    policy::{Budget, Rule, RuleSet},
    ports::{Clock, Op, SessionQuery, Store, StoreError},
    request::{Outcome, Request},
    session::state::{ClosedRequest, State, Summary},
};

/// Notes that wait for the daemon's log. A full queue means that the store is behind; sessions then wait for the store.
const NOTES: usize = 1024;

/// How many notes are taken at once.
const NOTE_BATCH: usize = 256;

/// How long the end of the daemon waits for a store that may never write again.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How many sessions the daemon's snapshot lists; older ones are on later pages of `list`.
const LISTED: usize = 1000;

/// The daemon's state: the list of sessions and the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct DaemonState {
    /// The newest sessions that are not archived.
    pub sessions: Vec<Summary>,
    /// All requests that wait for an answer, oldest first.
    pub requests: Vec<Waiting>,
    /// The rules for projects and for every session, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Rule>>", optional))]
    pub rules: Vec<Rule>,
    /// The budgets for projects, agents and every session, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Budget>>", optional))]
    pub budgets: Vec<Budget>,
}

/// A request in the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Waiting {
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: Request,
}

impl DaemonState {
    fn put(&mut self, summary: &Summary) {
        self.sessions.retain(|known| known.session != summary.session);
        if summary.archived {
            return;
        }
        let place = self.sessions.partition_point(|known| known.session > summary.session);
        self.sessions.insert(place, summary.clone());
        self.sessions.truncate(LISTED);
    }
}

impl Folded for DaemonState {
    type Event = DaemonEvent;
    const SNAPSHOT: &'static str = "daemon_snapshot";

    fn durability(_: &DaemonEvent) -> Durability {
        Durability::Durable
    }

    fn apply(&mut self, _: Seq, _: Millis, _: Option<&Actor>, event: &DaemonEvent) {
        match event {
            DaemonEvent::SessionCreated { summary } | DaemonEvent::SessionChanged { summary } => {
                self.put(summary);
            }
            DaemonEvent::SessionDeleted { session } => {
                self.sessions.retain(|known| known.session != *session);
                self.requests.retain(|waiting| waiting.session != *session);
            }
            DaemonEvent::RequestOpened { session, request } => {
                self.requests.push(Waiting { session: *session, request: (**request).clone() });
            }
            DaemonEvent::RequestDeadline { session, request, deadline } => {
                let is_it =
                    |open: &&mut Waiting| open.session == *session && open.request.request == *request;
                if let Some(waiting) = self.requests.iter_mut().find(is_it) {
                    waiting.request.deadline = *deadline;
                }
            }
            DaemonEvent::RequestClosed { session, request, .. } => {
                self.requests.retain(|open| open.session != *session || open.request.request != *request);
            }
            DaemonEvent::RuleSaved { rule } => {
                match self.rules.iter_mut().find(|known| known.rule == rule.rule) {
                    Some(known) => *known = (**rule).clone(),
                    None => self.rules.push((**rule).clone()),
                }
            }
            DaemonEvent::RuleRemoved { rule } => self.rules.retain(|known| known.rule != rule.rule),
            DaemonEvent::BudgetSaved { budget } => {
                match self.budgets.iter_mut().find(|known| known.budget == budget.budget) {
                    Some(known) => *known = (**budget).clone(),
                    None => self.budgets.push((**budget).clone()),
                }
            }
            DaemonEvent::BudgetRemoved { budget } => {
                self.budgets.retain(|known| known.budget != budget.budget);
            }
            DaemonEvent::Started { .. }
            | DaemonEvent::Stopping
            | DaemonEvent::TokenCreated { .. }
            | DaemonEvent::TokenRevoked { .. }
            | DaemonEvent::TokenRotated { .. }
            | DaemonEvent::DoorOpened { .. }
            | DaemonEvent::LoggedIn { .. }
            | DaemonEvent::LoggedOut { .. }
            | DaemonEvent::AccessRefused { .. }
            | DaemonEvent::AutoApproval { .. }
            | DaemonEvent::AccountChanged { .. } => {}
        }
    }

    fn merged(&self, _: Seq, _: Seq) -> Vec<DaemonEvent> {
        Vec::new()
    }

    fn newest_end(&self) -> Seq {
        Seq::ZERO
    }
}

/// The daemon's log and its writer. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    log: Arc<Log<DaemonState>>,
    notes: mpsc::Sender<Note>,
    rules: watch::Receiver<Arc<RuleSet>>,
    ledger: Ledger,
}

#[derive(Debug)]
enum Note {
    /// An event.
    Event { by: Option<Actor>, event: Box<DaemonEvent>, reply: Option<oneshot::Sender<Seq>> },
    /// The requests that wait in a session now, whatever was noted before.
    Compare { session: SessionId, open: Vec<Request>, closed: Vec<ClosedRequest>, reply: oneshot::Sender<()> },
}

impl Daemon {
    pub(super) async fn open(store: Arc<dyn Store>, clock: Clock) -> Result<Self, StoreError> {
        let head = store.load(LogId::Daemon).await?.unwrap_or_default();
        let query = SessionQuery { archived: Some(false), live: false, before: None, limit: LISTED as u32 };
        let (sessions, requests) = (store.sessions(query).await?, inbox(&*store).await?);
        let rules = saved(&*store, RULES, |rule: &Rule| (rule.made_at, rule.rule.0.clone())).await?;
        let budgets =
            saved(&*store, BUDGETS, |budget: &Budget| (budget.made_at, budget.budget.0.clone())).await?;
        let ledger = Ledger::open(&*store, &budgets, clock.now()).await?;
        let state = DaemonState { sessions, requests, rules, budgets };
        let (rules_in_force, rules) = watch::channel(rule_set(&state));
        let mut book = Book::new(LogId::Daemon, head.last.max(head.reserved), state);
        book.append(
            clock.now(),
            None,
            DaemonEvent::Started { version: env!("CARGO_PKG_VERSION").to_owned() },
        );
        let writer = Writer::new(store, book);
        writer.publish().await?;
        let (log, (notes, inbox)) = (writer.log(), mpsc::channel(NOTES));
        tokio::spawn(write_notes(writer, clock, inbox, rules_in_force, ledger.clone()));
        Ok(Self { log, notes, rules, ledger })
    }

    /// The rules for projects and for every session, as they are at each moment.
    pub(super) fn rules(&self) -> watch::Receiver<Arc<RuleSet>> {
        self.rules.clone()
    }

    /// What all sessions have used.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    pub(super) fn log(&self) -> Arc<Log<DaemonState>> {
        Arc::clone(&self.log)
    }

    /// Queues an event for the log, without waiting for the write.
    pub(crate) async fn note(&self, by: Option<Actor>, event: DaemonEvent) {
        // Only a daemon that has ended takes no notes.
        let _ = self.notes.send(Note::Event { by, event: Box::new(event), reply: None }).await;
    }

    /// Compares the inbox with the waiting requests of a session that was just opened, and notes the differences: a
    /// crash between a session's entry and its note here loses nothing. Returns when the inbox is correct.
    pub(super) async fn compare(&self, session: SessionId, state: &State) {
        let is_known = self.log.state().requests.iter().any(|waiting| waiting.session == session);
        if !is_known && state.requests.is_empty() {
            return;
        }
        let (reply, compared) = oneshot::channel();
        let (open, closed) = (state.requests.clone(), state.closed_requests.clone());
        if self.notes.send(Note::Compare { session, open, closed, reply }).await.is_ok() {
            // Only a daemon that has ended does not answer.
            let _ = compared.await;
        }
    }

    /// Removes a session's requests from the inbox: nobody can answer them.
    pub(super) async fn forget(&self, session: SessionId) {
        let (reply, compared) = oneshot::channel();
        let nothing = Note::Compare { session, open: Vec::new(), closed: Vec::new(), reply };
        if self.notes.send(nothing).await.is_ok() {
            // Only a daemon that has ended does not answer.
            let _ = compared.await;
        }
    }

    /// The sessions in the inbox.
    pub(super) fn waiting_sessions(&self) -> BTreeSet<SessionId> {
        self.log.state().requests.iter().map(|waiting| waiting.session).collect()
    }

    /// Records an event and returns its number after the commit.
    pub(super) async fn note_and_wait(&self, by: Option<Actor>, event: DaemonEvent) -> Option<Seq> {
        let (reply, written) = oneshot::channel();
        self.notes.send(Note::Event { by, event: Box::new(event), reply: Some(reply) }).await.ok()?;
        let seq = written.await.ok()?;
        self.log.wait_visible(seq).await.then_some(seq)
    }

    pub(super) async fn close(&self) {
        // Every earlier note is written, if the store writes at all.
        let newest = self.log.head();
        if tokio::time::timeout(LAST_WORDS, self.log.wait_visible(newest)).await.is_err() {
            tracing::error!("the daemon's last entries could not be written");
        }
        self.log.close(Closed::Stopping);
    }
}

/// The rules, ready to be compared. A rule that cannot be read is from a newer version: it decides nothing here. Nor does
/// an allow whose examples do not hold in this version.
fn rule_set(state: &DaemonState) -> Arc<RuleSet> {
    let (rules, left_out) = RuleSet::new(state.rules.iter().cloned());
    for rule in left_out {
        tracing::warn!(%rule, "a rule is not in force: it cannot be read, or its examples no longer hold");
    }
    Arc::new(rules)
}

async fn write_notes(
    log: Writer<DaemonState>,
    clock: Clock,
    mut inbox: mpsc::Receiver<Note>,
    rules: watch::Sender<Arc<RuleSet>>,
    ledger: Ledger,
) {
    let mut notes = Vec::with_capacity(NOTE_BATCH);
    while inbox.recv_many(&mut notes, NOTE_BATCH).await > 0 {
        let (mut new_rules, mut new_budgets) = (false, false);
        {
            let mut book = log.book();
            for note in notes.drain(..) {
                match note {
                    Note::Event { by, event, reply } => {
                        new_rules |=
                            matches!(*event, DaemonEvent::RuleSaved { .. } | DaemonEvent::RuleRemoved { .. });
                        new_budgets |= matches!(
                            *event,
                            DaemonEvent::BudgetSaved { .. } | DaemonEvent::BudgetRemoved { .. }
                        );
                        let seq = write_note(&mut book, clock.now(), by, *event);
                        if let Some(reply) = reply {
                            // The caller may have left; the event is written anyway.
                            let _ = reply.send(seq);
                        }
                    }
                    Note::Compare { session, open, closed, reply } => {
                        for event in differences(book.state(), session, &open, &closed) {
                            write_note(&mut book, clock.now(), None, event);
                        }
                        // The caller may have left; the inbox is correct anyway.
                        let _ = reply.send(());
                    }
                }
            }
        }
        if let Err(error) = log.publish().await {
            tracing::error!(%error, "the daemon's log cannot be written");
            log.close(Closed::Failed);
            return;
        }
        if new_rules {
            rules.send_replace(rule_set(&log.state()));
        }
        if new_budgets {
            let budgets = log.state().budgets.clone();
            ledger.know(&budgets);
        }
    }
}

/// The store's collection of rules.
const RULES: &str = "rules";

/// The store's collection of budgets.
const BUDGETS: &str = "budgets";

/// The records of a collection as the last daemon left them, oldest first.
async fn saved<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    collection: &'static str,
    age: impl Fn(&T) -> (Millis, String),
) -> Result<Vec<T>, StoreError> {
    let records = store.records(collection).await?;
    let read = |(key, value): &(String, Bytes)| match serde_json::from_slice::<T>(value) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::error!(collection, key, %error, "a saved rule or budget cannot be read and is not in force");
            None
        }
    };
    let mut all: Vec<T> = records.iter().filter_map(read).collect();
    all.sort_by_cached_key(age);
    Ok(all)
}

/// The store's collection of waiting requests: the inbox according to the daemon's log.
const INBOX: &str = "inbox";

/// The inbox as the last daemon left it, oldest first.
async fn inbox(store: &dyn Store) -> Result<Vec<Waiting>, StoreError> {
    let records = store.records(INBOX).await?;
    // An unreadable record is from another version: its session reports the request again.
    let read = |(_, value): &(String, Bytes)| serde_json::from_slice::<Waiting>(value).ok();
    let mut waiting: Vec<Waiting> = records.iter().filter_map(read).collect();
    waiting.sort_by_key(|waiting| (waiting.request.opened_at, waiting.session, waiting.request.request));
    Ok(waiting)
}

/// Appends to the daemon's log, and keeps the stored inbox equal to it.
fn write_note(book: &mut Book<DaemonState>, now: Millis, by: Option<Actor>, event: DaemonEvent) -> Seq {
    let key = |session: SessionId, request: RequestId| format!("{session}/{:020}", request.0);
    let remove = |key| Op::Remove { collection: INBOX, key };
    let put = |waiting: &Waiting| {
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(waiting).unwrap_or_default());
        Op::Put { collection: INBOX, key: key(waiting.session, waiting.request.request), value }
    };
    let ops = match &event {
        DaemonEvent::RequestOpened { session, request } => {
            vec![put(&Waiting { session: *session, request: (**request).clone() })]
        }
        DaemonEvent::RequestDeadline { session, request, deadline } => {
            let is_it = |open: &&Waiting| open.session == *session && open.request.request == *request;
            let mut waiting = book.state().requests.iter().find(is_it).cloned();
            if let Some(waiting) = &mut waiting {
                waiting.request.deadline = *deadline;
            }
            waiting.iter().map(put).collect()
        }
        DaemonEvent::RequestClosed { session, request, .. } => vec![remove(key(*session, *request))],
        DaemonEvent::RuleSaved { rule } => {
            let value = Bytes::from(serde_json::to_vec(rule).unwrap_or_default());
            vec![Op::Put { collection: RULES, key: rule.rule.to_string(), value }]
        }
        DaemonEvent::RuleRemoved { rule } => {
            vec![Op::Remove { collection: RULES, key: rule.rule.to_string() }]
        }
        DaemonEvent::BudgetSaved { budget } => {
            let value = Bytes::from(serde_json::to_vec(budget).unwrap_or_default());
            vec![Op::Put { collection: BUDGETS, key: budget.budget.to_string(), value }]
        }
        DaemonEvent::BudgetRemoved { budget } => {
            vec![Op::Remove { collection: BUDGETS, key: budget.budget.to_string() }]
        }
        DaemonEvent::SessionDeleted { session } => {
            let own = book.state().requests.iter().filter(|waiting| waiting.session == *session);
            own.map(|waiting| remove(key(*session, waiting.request.request))).collect()
        }
        _ => Vec::new(),
    };
    let seq = book.append(now, by, event);
    for op in ops {
        book.also(op);
    }
    seq
}

/// The requests of a session that the inbox lacks, and those in the inbox that no longer wait.
fn differences(
    inbox: &DaemonState,
    session: SessionId,
    open: &[Request],
    closed: &[ClosedRequest],
) -> Vec<DaemonEvent> {
    let known: Vec<_> = inbox.requests.iter().filter(|waiting| waiting.session == session).collect();
    let is_open = |request: RequestId| open.iter().any(|open| open.request == request);
    let is_known = |request: RequestId| known.iter().any(|waiting| waiting.request.request == request);
    let gone = known.iter().map(|waiting| waiting.request.request).filter(|request| !is_open(*request));
    let gone = gone.map(|request| {
        let ended = closed.iter().rev().find(|closed| closed.request == request);
        let unknown = || Outcome::AgentGone { reason: "the agent ended when Portolan ended".into() };
        let outcome = ended.map_or_else(unknown, |ended| ended.outcome.clone());
        DaemonEvent::RequestClosed { session, request, outcome }
    });
    let missing = open.iter().filter(|open| !is_known(open.request));
    let missing = missing.map(|open| DaemonEvent::RequestOpened { session, request: Box::new(open.brief()) });
    let moved = open.iter().filter(|open| {
        let known = known.iter().find(|waiting| waiting.request.request == open.request);
        known.is_some_and(|waiting| waiting.request.deadline != open.deadline)
    });
    let moved = moved.map(|open| DaemonEvent::RequestDeadline {
        session,
        request: open.request,
        deadline: open.deadline,
    });
    gone.chain(missing).chain(moved).collect()
}
