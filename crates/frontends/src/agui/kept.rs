//! The stored threads: the session of each thread, across restarts. Their number is limited, and they are removed with
//! their sessions. Access is not checked here.

use std::collections::HashSet;

use bytes::Bytes;
use portolan_core::{
    DaemonEvent, LogId, Principal, Refusal, RefusalCode, Role, SessionId, TokenId,
    log::delivery::{Delivery, Start},
    ports::{Op, SessionQuery, StoreError, Write},
    registry::Registry,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The records of threads, by their names.
pub(super) const RECORDS: &str = "agui_threads";

/// How many threads are kept. Each takes about 200 bytes on disk, and all are read when one is added, which also starts
/// an agent; above the limit, the thread of the oldest session is forgotten, and starts a new session when it is used
/// again.
pub(super) const KEPT: usize = 10_000;

/// How many sessions are listed at once.
const LISTED: u32 = 200;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    session: SessionId,
}

impl Kept {
    fn read(record: &Bytes) -> Option<SessionId> {
        serde_json::from_slice::<Self>(record).ok().map(|kept| kept.session)
    }
}

/// The key of a record: a thread; plus an agent if the thread itself belongs to a session of another agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) thread: &'a str,
    pub(super) agent: Option<&'a str>,
}

impl Name<'_> {
    /// As JSON, so that any two thread names stay different.
    fn key(self) -> String {
        serde_json::json!([self.thread, self.agent]).to_string()
    }
}

fn unreadable(error: &StoreError) -> Refusal {
    Refusal::new(RefusalCode::StoreFailing, format!("the store cannot be read: {error}"))
}

/// The session of a name, whether it still exists or not.
pub(super) async fn session_of(registry: &Registry, name: Name<'_>) -> Result<Option<SessionId>, Refusal> {
    let record = registry.store().record(RECORDS, name.key()).await;
    Ok(record.map_err(|error| unreadable(&error))?.as_ref().and_then(Kept::read))
}

/// Stores the session of a name.
pub(super) async fn keep(registry: &Registry, name: Name<'_>, session: SessionId) -> Result<(), Refusal> {
    let key = name.key();
    let mut others = records(registry).await.map_err(|error| unreadable(&error))?;
    others.retain(|(known, _)| *known != key);
    let value = serde_json::to_vec(&Kept { session }).unwrap_or_default();
    let mut ops = vec![Op::Put { collection: RECORDS, key, value: value.into() }];
    if others.len() >= KEPT {
        // Session ids are ordered by creation time; an unreadable record is removed first.
        others.sort_by_key(|(_, session)| *session);
        ops.extend(
            others.drain(..=others.len() - KEPT).map(|(key, _)| Op::Remove { collection: RECORDS, key }),
        );
    }
    let written = write(registry, ops).await;
    written.ok_or_else(|| Refusal::new(RefusalCode::StoreFailing, "the thread could not be saved; try again"))
}

/// Forgets the threads of deleted sessions, until `stopping`; first those of sessions that were deleted before.
pub(super) async fn watch(registry: Registry, stopping: CancellationToken) {
    let mut reader = match registry.watch(&own(), Start::Tail(0)).await {
        Ok(reader) => reader,
        Err(refusal) => {
            tracing::error!(%refusal, "threads of deleted sessions are not forgotten");
            return;
        }
    };
    loop {
        // Both arms are cancel-safe.
        let delivery = tokio::select! {
            delivery = reader.next() => delivery,
            () = stopping.cancelled() => return,
        };
        let done = match delivery {
            Delivery::Entries(pieces) => {
                let gone = |event: &DaemonEvent| match event {
                    DaemonEvent::SessionDeleted { session } => Some(*session),
                    _ => None,
                };
                let gone: HashSet<SessionId> =
                    pieces.iter().filter_map(|piece| gone(&piece.entry().ok()?.event)).collect();
                if gone.is_empty() {
                    Ok(())
                } else {
                    forget(&registry, |session| gone.contains(&session)).await
                }
            }
            // At the beginning, or after very many entries at once.
            Delivery::Snapshot(_) => sweep(&registry).await,
            Delivery::Presence(_) => Ok(()),
            Delivery::Closed(_) => return,
        };
        if let Err(error) = done {
            // The next start looks again.
            tracing::warn!(%error, "threads of deleted sessions could not be forgotten");
        }
    }
}

async fn sweep(registry: &Registry) -> Result<(), StoreError> {
    let mut there = HashSet::new();
    let mut before = None;
    loop {
        let query = SessionQuery { archived: None, live: false, before, limit: LISTED };
        let page = registry.store().sessions(query).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.session);
        there.extend(page.iter().map(|summary| summary.session));
    }
    forget(registry, |session| !there.contains(&session)).await
}

async fn forget(registry: &Registry, is_gone: impl Fn(SessionId) -> bool) -> Result<(), StoreError> {
    let gone = records(registry).await?.into_iter().filter(|(_, session)| session.is_none_or(&is_gone));
    let ops: Vec<Op> = gone.map(|(key, _)| Op::Remove { collection: RECORDS, key }).collect();
    if !ops.is_empty() {
        write(registry, ops).await;
    }
    Ok(())
}

/// Every name, with its session if it can be read.
async fn records(registry: &Registry) -> Result<Vec<(String, Option<SessionId>)>, StoreError> {
    let all = registry.store().records(RECORDS).await?;
    Ok(all.into_iter().map(|(key, record)| (key, Kept::read(&record))).collect())
}

/// Writes and waits until it is written.
async fn write(registry: &Registry, ops: Vec<Op>) -> Option<()> {
    let (done, committed) = oneshot::channel();
    let done: Box<dyn FnOnce() + Send> = Box::new(move || {
        // The caller may be gone; the record is still written.
        let _ = done.send(());
    });
    registry.store().write(Write { log: LogId::Daemon, ops, done: Some(done) }).await.ok()?;
    committed.await.ok()
}

/// The identity that reads the daemon's log here, and removes empty sessions.
pub(super) fn own() -> Principal {
    Principal {
        // A constant that fits.
        token: "agui-threads".parse().unwrap_or_else(|_| TokenId::random()),
        name: "threads".into(),
        role: Role::Owner,
        sessions: None,
        via: super::VIA.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_another_s() {
        let names = [
            ("a", None),
            ("a", Some("b")),
            ("a\nb", None),
            ("[\"a\",\"b\"]", None),
            ("a\",\"b", None),
            ("", Some("ab")),
            ("ab", Some("")),
        ];
        let keys: HashSet<String> = names.map(|(thread, agent)| Name { thread, agent }.key()).into();
        assert_eq!(keys.len(), names.len());
    }
}
