//! Who commits a write: its caller, or the thread. The thread is recognised by its name.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use portolan_core::ports::{Op, Store as _, Write};
use rusqlite::Connection;

use super::SMALL;
use crate::{
    Durability, SqliteStore,
    contract::{Home as _, OnDisk, append, everything, log, numbers},
};

/// Which write was committed, and by which thread.
#[derive(Clone, Default)]
struct Committers(Arc<Mutex<Vec<(u64, String)>>>);

impl Committers {
    fn write(&self, seq: u64, text: &str) -> Write {
        let list = Arc::clone(&self.0);
        let done = move || {
            let thread = thread::current().name().unwrap_or_default().to_owned();
            list.lock().unwrap().push((seq, thread));
        };
        let ops: Vec<Op> = vec![append(log(1), seq, text)];
        Write { log: log(1), ops, done: Some(Box::new(done)) }
    }

    fn all(&self) -> Vec<(u64, String)> {
        self.0.lock().unwrap().clone()
    }
}

fn here() -> String {
    thread::current().name().unwrap().to_owned()
}

const THREAD: &str = "store";

#[tokio::test]
async fn a_small_write_is_committed_by_its_caller() {
    let (home, committed) = (OnDisk::new(), Committers::default());
    let store = home.store();
    store.write(committed.write(1, "small")).await.unwrap();
    assert_eq!(committed.all(), [(1, here())], "nothing more is waited for");
    assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
}

#[tokio::test]
async fn a_large_write_and_one_that_waits_for_the_disk_are_left_to_the_thread() {
    let (home, committed) = (OnDisk::new(), Committers::default());
    let store = home.store();
    store.write(committed.write(1, &"x".repeat(SMALL + 1))).await.unwrap();
    store.flush().await.unwrap();
    store.close().unwrap();
    let store = SqliteStore::open(&home.path(), Durability::Full).unwrap();
    store.write(committed.write(2, "small")).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(committed.all(), [(1, THREAD.into()), (2, THREAD.into())]);
}

#[tokio::test]
async fn no_write_overtakes_one_that_waits() {
    let (home, committed) = (OnDisk::new(), Committers::default());
    let store = home.store();
    let stranger = Connection::open(home.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.write(committed.write(1, "first")).await.unwrap();
    stranger.execute_batch("ROLLBACK").unwrap();
    // The thread has the first write, and may not have noticed that the lock is gone.
    store.write(committed.write(2, "second")).await.unwrap();
    store.flush().await.unwrap();
    store.write(committed.write(3, "third")).await.unwrap();
    let (order, by): (Vec<_>, Vec<_>) = committed.all().into_iter().unzip();
    assert_eq!(order, [1, 2, 3]);
    assert_eq!(
        (by[0].as_str(), by[2].as_str()),
        (THREAD, here().as_str()),
        "once nothing waits, at once again"
    );
    assert_eq!(numbers(&everything(&store, log(1)).await), [1, 2, 3]);
}

/// Pages of the write-ahead log that are not in the database yet.
fn not_taken_in(connection: &Connection) -> i64 {
    // PRAGMA wal_checkpoint(NOOP) only reports.
    let told = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (pages, taken) = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], told).unwrap();
    pages - taken
}

#[tokio::test]
async fn the_write_ahead_log_is_merged_by_its_own_thread() {
    let (home, committed) = (OnDisk::new(), Committers::default());
    let store = home.store();
    let stranger = Connection::open(home.path()).unwrap();
    let mut most = 0;
    for seq in 1..=2000 {
        store.write(committed.write(seq, &"x".repeat(8000))).await.unwrap();
        most = most.max(not_taken_in(&stranger));
    }
    assert!(most > 64, "there was something to take in: {most} pages");
    // The rest is less than the next merge needs.
    let rest = || async {
        while not_taken_in(&stranger) > 512 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), rest()).await.expect("it is never taken in");
    drop(stranger);
    store.close().unwrap();
    assert!(!home.path().with_extension("db-wal").exists(), "nothing is left beside the database");
}
