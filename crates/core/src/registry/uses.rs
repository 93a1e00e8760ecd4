//! How often each rule was used, and when last: a fold over the requests in the logs of all sessions.
//!
//! A decision writes nothing for this. The fold reads what was recorded since it last looked, when somebody asks. The
//! store keeps the fold from time to time with the position that it has reached, so that a new daemon reads only what
//! came after. A lost copy costs reading, never a use.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::{Registry, broken, gone};
use crate::{
    Event, LogId, Millis, Position, Refusal, SessionId,
    audit::{Copies, record::kind},
    policy::{Rule, RuleId, RuleScope},
    ports::{Op, Page, Placed, Write},
};

/// The collection and the key of the kept fold.
const KEPT: (&str, &str) = ("rule_uses", "all");

/// The fold is kept after this many entries: a new daemon reads at most as many again, which takes milliseconds.
const KEEP_AFTER: u64 = 10_000;

/// Rules that are counted at once, removed ones and those of sessions included. Beyond, those that were not used for
/// the longest time are forgotten.
const COUNTED: usize = 10_000;

/// A rule: those of a session have an id that is unique in their session only.
type Key = (Option<SessionId>, RuleId);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Use {
    session: Option<SessionId>,
    rule: RuleId,
    count: u64,
    last: Millis,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    upto: Position,
    uses: Vec<Use>,
}

/// The fold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counted {
    upto: Position,
    uses: BTreeMap<Key, (u64, Millis)>,
}

impl Counted {
    /// How often a rule was used, and when last.
    pub(super) fn of(&self, rule: &Rule) -> (u64, Option<Millis>) {
        let session = match rule.scope {
            RuleScope::Session { session } => Some(session),
            RuleScope::User | RuleScope::Project { .. } => None,
        };
        let found = self.uses.get(&(session, rule.rule.clone()));
        found.map_or((0, None), |(count, last)| (*count, Some(*last)))
    }

    fn take(&mut self, placed: &Placed) {
        let LogId::Session(session) = placed.log else { return };
        // A request of a newer version that cannot be read is not counted.
        let Ok(entry) = placed.entry.decode::<Event>() else { return };
        let (Event::RequestDecided { request, .. } | Event::RequestOpened { request }) = entry.event else {
            return;
        };
        let Some(judgement) = request.policy else { return };
        for rule in judgement.rules {
            let own = rule.scope.starts_with("session:").then_some(session);
            let (count, last) = self.uses.entry((own, rule.rule)).or_insert((0, entry.at));
            *count += 1;
            *last = (*last).max(entry.at);
        }
        while self.uses.len() > COUNTED {
            let oldest = self.uses.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone());
            oldest.map(|key| self.uses.remove(&key));
        }
    }
}

impl From<Kept> for Counted {
    fn from(Kept { upto, uses }: Kept) -> Self {
        let uses = uses.into_iter().map(|used| ((used.session, used.rule), (used.count, used.last)));
        Self { upto, uses: uses.collect() }
    }
}

impl From<&Counted> for Kept {
    fn from(counted: &Counted) -> Self {
        let uses = counted.uses.iter().map(|((session, rule), (count, last))| Use {
            session: *session,
            rule: rule.clone(),
            count: *count,
            last: *last,
        });
        Self { upto: counted.upto, uses: uses.collect() }
    }
}

/// The fold as it was when somebody last asked.
#[derive(Debug)]
pub(super) struct Uses {
    counted: Mutex<Option<Arc<Counted>>>,
    kept: Mutex<Position>,
    /// One reads at a time; those behind find most of it read.
    turn: Semaphore,
}

impl Default for Uses {
    fn default() -> Self {
        Self { counted: Mutex::default(), kept: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Registry {
    /// How often each rule was used until now.
    pub(super) async fn rule_uses(&self) -> Result<Arc<Counted>, Refusal> {
        let uses = &self.shared.uses;
        let _turn = uses.turn.acquire().await.map_err(|_| gone())?;
        let known = uses.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counted = match known {
            Some(known) => known,
            None => Arc::new(self.kept_uses().await?),
        };
        let mut copies = Copies::default();
        loop {
            let page = self.shared.store.since(counted.upto, Page::HISTORY).await.map_err(broken)?;
            let Some(last) = page.last() else { break };
            let fold = Arc::make_mut(&mut counted);
            fold.upto = last.position;
            for placed in &page {
                if matches!(kind(&placed.entry), Some("request_decided" | "request_opened"))
                    && !copies.is_copy(&*self.shared.store, placed).await.map_err(broken)?
                {
                    fold.take(placed);
                }
            }
        }
        *uses.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&counted));
        self.keep_uses(&counted, KEEP_AFTER).await;
        Ok(counted)
    }

    /// Counts what a session is about to take with it.
    pub(super) async fn count_before_deletion(&self, session: SessionId) {
        match self.rule_uses().await {
            // A new daemon cannot read the deleted requests again.
            Ok(counted) => self.keep_uses(&counted, 0).await,
            Err(refusal) => {
                tracing::warn!(%session, %refusal, "the counts may miss uses of rules in a deleted session");
            }
        }
    }

    async fn kept_uses(&self) -> Result<Counted, Refusal> {
        let (collection, key) = KEPT;
        let record = self.shared.store.record(collection, key.to_owned()).await.map_err(broken)?;
        // A fold that cannot be read is made again from the logs.
        let kept: Option<Kept> = record.and_then(|record| serde_json::from_slice(&record).ok());
        let counted = Counted::from(kept.unwrap_or_default());
        *self.shared.uses.kept.lock().unwrap_or_else(PoisonError::into_inner) = counted.upto;
        Ok(counted)
    }

    /// Keeps the fold if it has read this many entries since it was last kept.
    async fn keep_uses(&self, counted: &Counted, after: u64) {
        let kept = *self.shared.uses.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.upto.0.saturating_sub(kept.0) < after || self.store_takes_writes().is_err() {
            return;
        }
        let (collection, key) = KEPT;
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(&Kept::from(counted)).unwrap_or_default());
        let ops = vec![Op::Put { collection, key: key.to_owned(), value }];
        // A store that is closed keeps nothing more; the next daemon reads the entries again.
        if self.shared.store.write(Write { log: LogId::Daemon, ops, done: None }).await.is_ok() {
            *self.shared.uses.kept.lock().unwrap_or_else(PoisonError::into_inner) = counted.upto;
        }
    }
}
