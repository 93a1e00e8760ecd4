//! The ledger: what all sessions have used, for the budgets that count more than one session.
//!
//! The store has a row for each session and day: the sum of the turns that ended on that day. The commit that ends a turn
//! writes the row, and the row is the whole sum, so that a crash neither loses nor doubles anything. What running turns
//! have used is only in memory: after a crash, the entry that closes a turn counts it.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    LogId, Millis, SessionId,
    policy::{Budget, Spending, budget::day_of},
    ports::{Op, Store, StoreError, Write},
    session::spending::Used,
};

/// The store's collection of rows.
const SPENDING: &str = "spending";

/// Who uses something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) agent: String,
    pub(crate) folder: PathBuf,
}

/// What one session used on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    user: User,
    spent: Spending,
}

#[derive(Debug, Default)]
struct Rows {
    /// Turns that ended, by day and session.
    ended: BTreeMap<(i64, SessionId), Row>,
    /// Turns that run.
    running: HashMap<SessionId, Row>,
    budgets: Vec<Budget>,
}

impl Rows {
    /// What the users in the budget's scope have used since its first day, before anything is left out.
    fn used(&self, budget: &Budget, now: Millis) -> Spending {
        let first = (budget.first_day(now), SessionId::from_u128(0));
        let ended = self.ended.range(first..).map(|(_, row)| row);
        let all = ended.chain(self.running.values());
        let counted = all.filter(|row| budget.scope.holds(&row.user.agent, &row.user.folder));
        counted.fold(Spending::default(), |sum, row| sum.plus(row.spent))
    }
}

/// What all sessions have used. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    rows: Arc<Mutex<Rows>>,
    /// Grows when a budget may be spent more or less than before.
    changes: watch::Sender<u64>,
}

impl Ledger {
    /// The ledger as the last daemon left it. Rows that no budget counts are removed.
    pub(super) async fn open(store: &dyn Store, budgets: &[Budget], now: Millis) -> Result<Self, StoreError> {
        let mut rows = Rows { budgets: budgets.to_vec(), ..Rows::default() };
        let first = budgets.iter().map(|budget| budget.first_day(now)).min().unwrap_or(i64::MAX);
        let first = first.min(day_of(now));
        let mut old = Vec::new();
        for (key, value) in store.records(SPENDING).await? {
            match (place(&key), serde_json::from_slice::<Row>(&value)) {
                (Some((day, _)), _) if day < first => old.push(Op::Remove { collection: SPENDING, key }),
                (Some(place), Ok(row)) => drop(rows.ended.insert(place, row)),
                _ => tracing::error!(row = key, "a row of spending cannot be read and does not count"),
            }
        }
        if !old.is_empty() {
            store.write(Write { log: LogId::Daemon, ops: old, done: None }).await?;
        }
        Ok(Self { rows: Arc::new(Mutex::new(rows)), changes: watch::channel(0).0 })
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings when a budget may be spent more or less than before.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The budgets, as they are now.
    pub(super) fn know(&self, budgets: &[Budget]) {
        self.rows().budgets = budgets.to_vec();
        self.changed();
    }

    /// Waits until the budgets are as wanted; `None` if the daemon ends first.
    pub(super) async fn until(&self, wanted: impl Fn(&[Budget]) -> bool) -> Option<()> {
        let mut changes = self.changes();
        while !wanted(&self.rows().budgets) {
            changes.changed().await.ok()?;
        }
        Some(())
    }

    /// What a session used on a day, and what its running turn has used so far.
    pub(crate) fn record(&self, session: SessionId, user: &User, used: &Used) {
        let row = |spent| Row { user: user.clone(), spent };
        let Used { day, today, running, .. } = *used;
        let is_counted = {
            let mut rows = self.rows();
            if today.turns > 0 {
                rows.ended.insert((day, session), row(today));
            }
            if running == Spending::default() {
                rows.running.remove(&session);
            } else {
                rows.running.insert(session, row(running));
            }
            rows.budgets.iter().any(|budget| budget.scope.holds(&user.agent, &user.folder))
        };
        if is_counted {
            self.changed();
        }
    }

    /// The budgets that count this user, with what is spent of each.
    pub(crate) fn budgets_of(&self, user: &User, now: Millis) -> Vec<(Budget, Spending)> {
        let rows = self.rows();
        let holds = |budget: &&Budget| budget.scope.holds(&user.agent, &user.folder);
        let counting = rows.budgets.iter().filter(holds);
        counting.map(|budget| (budget.clone(), budget.counts(rows.used(budget, now), now))).collect()
    }

    /// What is spent of a budget.
    pub(super) fn spent(&self, budget: &Budget, now: Millis) -> Spending {
        budget.counts(self.rows().used(budget, now), now)
    }

    /// What a budget that counts from now on must leave out: what was used today already.
    pub(super) fn before(&self, budget: &Budget, now: Millis) -> Spending {
        self.rows().used(&Budget { since: now, ..budget.clone() }, now)
    }
}

/// The write that keeps what a session used on a day.
pub(crate) fn row(session: SessionId, user: &User, used: &Used) -> Op {
    let (day, row) = (used.day, Row { user: user.clone(), spent: used.today });
    // Our own types serialise.
    let value = Bytes::from(serde_json::to_vec(&row).unwrap_or_default());
    Op::Put { collection: SPENDING, key: format!("{day}/{session}"), value }
}

fn place(key: &str) -> Option<(i64, SessionId)> {
    let (day, session) = key.split_once('/')?;
    Some((day.parse().ok()?, session.parse().ok()?))
}
