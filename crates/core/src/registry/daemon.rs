//! The daemon's own log: sessions created, changed and ended, requests opened and closed, tokens. Session lists, the
//! inbox of everything that waits and audit are cursors over it.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Actor, DaemonEvent, LogId, Millis, Seq, SessionId,
    event::Durability,
    log::{Book, Folded, Log, Writer, delivery::Closed},
    ports::{Clock, SessionQuery, Store, StoreError},
    request::Request,
    session::state::Summary,
};

/// Notes waiting for the daemon's log. Full means that the store is behind; sessions then wait for it.
const NOTES: usize = 1024;

/// Notes taken in at once.
const NOTE_BATCH: usize = 256;

/// How long the end of the daemon waits for a store that may never write again.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How many sessions the daemon's snapshot lists; older ones are found by asking for pages.
const LISTED: usize = 1000;

/// The daemon's state: the list of sessions and the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct DaemonState {
    /// The newest sessions that are not archived.
    pub sessions: Vec<Summary>,
    /// Everything that waits for an answer, oldest first.
    pub requests: Vec<Waiting>,
}

/// A request in the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Waiting {
    /// In which session.
    pub session: SessionId,
    /// What.
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
            // Whatever waited belonged to agents that ended with the daemon before this one.
            DaemonEvent::Started { .. } => self.requests.clear(),
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
            DaemonEvent::RequestClosed { session, request, .. } => {
                self.requests.retain(|open| open.session != *session || open.request.request != *request);
            }
            DaemonEvent::Stopping
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

/// The daemon's log and the way into it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    log: Arc<Log<DaemonState>>,
    notes: mpsc::Sender<Note>,
}

#[derive(Debug)]
struct Note {
    by: Option<Actor>,
    event: DaemonEvent,
    reply: Option<oneshot::Sender<Seq>>,
}

impl Daemon {
    pub(super) async fn open(store: Arc<dyn Store>, clock: Clock) -> Result<Self, StoreError> {
        let head = store.load(LogId::Daemon).await?.unwrap_or_default();
        let query = SessionQuery { archived: Some(false), live: false, before: None, limit: LISTED as u32 };
        let state = DaemonState { sessions: store.sessions(query).await?, requests: Vec::new() };
        let mut book = Book::new(LogId::Daemon, head.last.max(head.reserved), state);
        book.append(
            clock.now(),
            None,
            DaemonEvent::Started { version: env!("CARGO_PKG_VERSION").to_owned() },
        );
        let writer = Writer::new(store, book);
        writer.publish().await?;
        let (log, (notes, inbox)) = (writer.log(), mpsc::channel(NOTES));
        tokio::spawn(write_notes(writer, clock, inbox));
        Ok(Self { log, notes })
    }

    pub(super) fn log(&self) -> Arc<Log<DaemonState>> {
        Arc::clone(&self.log)
    }

    /// Writes this down, without waiting for it.
    pub(crate) async fn note(&self, by: Option<Actor>, event: DaemonEvent) {
        // Only a daemon that has ended no longer takes notes.
        let _ = self.notes.send(Note { by, event, reply: None }).await;
    }

    /// Writes this down and gives its number once it is committed.
    pub(super) async fn note_and_wait(&self, by: Option<Actor>, event: DaemonEvent) -> Option<Seq> {
        let (reply, written) = oneshot::channel();
        self.notes.send(Note { by, event, reply: Some(reply) }).await.ok()?;
        let seq = written.await.ok()?;
        self.log.wait_visible(seq).await.then_some(seq)
    }

    pub(super) async fn close(&self) {
        // Everything noted before this is written, where the store writes at all.
        let newest = self.log.head();
        if tokio::time::timeout(LAST_WORDS, self.log.wait_visible(newest)).await.is_err() {
            tracing::error!("the daemon's last words could not be written");
        }
        self.log.close(Closed::Stopping);
    }
}

async fn write_notes(log: Writer<DaemonState>, clock: Clock, mut inbox: mpsc::Receiver<Note>) {
    let mut notes = Vec::with_capacity(NOTE_BATCH);
    while inbox.recv_many(&mut notes, NOTE_BATCH).await > 0 {
        {
            let mut book = log.book();
            for Note { by, event, reply } in notes.drain(..) {
                let seq = book.append(clock.now(), by, event);
                if let Some(reply) = reply {
                    // Whoever asked may have gone; it is written all the same.
                    let _ = reply.send(seq);
                }
            }
        }
        if let Err(error) = log.publish().await {
            tracing::error!(%error, "the daemon's log cannot be written");
            log.close(Closed::Failed);
            return;
        }
    }
}
