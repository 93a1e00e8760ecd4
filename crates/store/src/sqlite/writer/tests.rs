//! Who commits a write: whoever brings it, or the thread. The thread is told by its name.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use portolan_core::ports::{Op, Store as _, Write};
use rusqlite::Connection;

use super::{SMALL, TIDY_EVERY};
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
async fn a_small_write_is_committed_by_whoever_brings_it() {
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
    // The thread has the first, and may not have noticed that the lock is gone.
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

#[tokio::test]
async fn the_thread_takes_the_write_ahead_log_in_before_a_commit_has_to() {
    let (home, committed) = (OnDisk::new(), Committers::default());
    let store = home.store();
    let written = || store.desk.as_ref().unwrap().pen().since_tidy;
    for seq in 1..TIDY_EVERY as u64 {
        store.write(committed.write(seq, "small")).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(written(), TIDY_EVERY - 1);
    store.write(committed.write(TIDY_EVERY as u64, "small")).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(written(), 0);
}
