//! Writes: their order, what is refused, and many at once.

use bytes::Bytes;
use portolan_core::{
    LogId, Seq,
    ports::{Op, StoreHealth, Write},
    session::state::Status,
};

use super::{END, Engine};
use crate::contract::{Notes, append, commit, everything, fill, log, numbers, summary};

pub(in crate::contract) async fn flush_waits_for_everything_before_it(store: Engine) {
    for seq in 1..=500 {
        let write = Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: None };
        store.write(write).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(everything(&*store, log(1)).await.len(), 500);
}

pub(in crate::contract) async fn done_is_called_in_the_order_of_the_writes(store: Engine) {
    let notes = Notes::default();
    for n in 1..=300_u64 {
        let log = log(u128::from(n % 3));
        store
            .write(Write { log, ops: vec![append(log, n, "x")], done: Some(notes.when_done(n)) })
            .await
            .unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(notes.all(), (1..=300).collect::<Vec<u64>>());
}

pub(in crate::contract) async fn a_write_that_can_never_succeed_fails_alone_and_whole(store: Engine) {
    let notes = Notes::default();
    fill(&*store, log(1), [5]).await;
    let write = async |log, ops, note| {
        store.write(Write { log, ops, done: Some(notes.when_done(note)) }).await.unwrap();
    };
    write(log(1), vec![append(log(1), 6, "good")], "before").await;
    let put = Op::Put { collection: "c", key: "k".to_owned(), value: Bytes::new() };
    write(log(1), vec![put, append(log(1), 7, "good"), append(log(1), 5, "a number twice")], "bad").await;
    write(log(2), vec![append(log(2), 1 << 40, "too high a number")], "bad").await;
    write(log(1), vec![append(log(1), 8, "good")], "after").await;
    write(log(2), vec![append(log(2), 1, "good")], "another log").await;
    store.flush().await.unwrap();
    assert_eq!(notes.all(), ["before", "after", "another log"]);
    assert_eq!(numbers(&everything(&*store, log(1)).await), [5, 6, 8]);
    assert_eq!(numbers(&everything(&*store, log(2)).await), [1]);
    assert_eq!(store.records("c").await.unwrap(), []);

    assert!(commit(&*store, log(1), vec![append(log(1), 8, "a number twice")]).await.is_err());
    let reason = format!(
        "a write to log {} was refused: entry 8 is not above the last entry, 8; please report this",
        log(1)
    );
    let mut health = store.health();
    health.wait_for(|now| *now == StoreHealth::Failing { reason: reason.clone() }).await.unwrap();
    fill(&*store, log(1), [9]).await;
    health.wait_for(|now| *now == StoreHealth::Good).await.unwrap();
}

pub(in crate::contract) async fn a_summary_of_another_session_is_refused(store: Engine) {
    let ops = vec![Op::Summary(Box::new(summary(1, Status::Idle)))];
    assert!(commit(&*store, log(2), ops.clone()).await.is_err());
    assert!(commit(&*store, LogId::Daemon, ops).await.is_err());
    assert_eq!(store.matching(String::new(), 10).await.unwrap(), []);
}

pub(in crate::contract) async fn many_logs_are_written_at_once(store: Engine) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            for seq in 1..=100 {
                let done = seq % 10 == 0;
                let ops = vec![append(log(n), seq, "x"), Op::Summary(Box::new(summary(n, Status::Active)))];
                if done {
                    commit(&*store, log(n), ops).await.unwrap();
                    // Every committed entry can be read.
                    assert_eq!(store.tail(log(n), END, 0).await.unwrap(), Seq(seq));
                } else {
                    store.write(Write { log: log(n), ops, done: None }).await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
    for n in 0..16 {
        assert_eq!(numbers(&everything(&*store, log(n)).await), (1..=100).collect::<Vec<_>>());
    }
}
