//! Deleted and trimmed logs.

use bytes::Bytes;
use portolan_core::{
    Seq,
    ports::{LogHead, Op},
    session::state::Status,
};

use super::{END, Engine};
use crate::contract::{
    append, chunk, command, commit, entry, everything, fill, log, numbers, session, summary,
};

pub(in crate::contract) async fn a_deleted_log_leaves_nothing(store: Engine) {
    let known = command("t", "c", 1, "consumed");
    for n in [1, 2] {
        let ops = vec![
            append(log(n), 1, "a"),
            Op::Command(known.clone()),
            chunk("a", 2, Some("{a}"), "open"),
            Op::Checkpoint { seq: Seq(1), state: Bytes::from_static(b"state") },
            Op::Summary(Box::new(summary(n, Status::Idle))),
        ];
        commit(&*store, log(n), ops).await.unwrap();
    }
    let other = store.load(log(2)).await.unwrap();
    commit(&*store, log(1), vec![Op::Delete]).await.unwrap();
    assert_eq!(store.load(log(1)).await.unwrap(), None);
    assert_eq!(everything(&*store, log(1)).await, []);
    assert_eq!(store.raw(log(1), Seq(1)).await.unwrap(), None);
    assert_eq!(store.command(log(1), known.key.clone()).await.unwrap(), None);
    assert_eq!(store.matching(String::new(), 10).await.unwrap(), [session(2)]);
    store.flush().await.unwrap();
    assert_eq!(store.load(log(2)).await.unwrap(), other);
    assert_eq!(everything(&*store, log(2)).await, [entry(log(2), 1, "a")]);
    assert_eq!(store.command(log(2), known.key.clone()).await.unwrap(), Some(known));
}

pub(in crate::contract) async fn a_log_can_begin_anew_after_its_deletion(store: Engine) {
    fill(&*store, log(1), 1..=5).await;
    commit(&*store, log(1), vec![Op::Delete, append(log(1), 1, "new")]).await.unwrap();
    assert_eq!(everything(&*store, log(1)).await, [entry(log(1), 1, "new")]);
    store.flush().await.unwrap();
    assert_eq!(everything(&*store, log(1)).await, [entry(log(1), 1, "new")]);
}

pub(in crate::contract) async fn a_deletion_gives_its_room_back(store: Engine) {
    let before = store.size().await.unwrap();
    let text = "x".repeat(10_000);
    for seq in 1..=600 {
        commit(&*store, log(1), vec![append(log(1), seq, &text)]).await.unwrap();
    }
    let full = store.size().await.unwrap();
    assert!(full >= before + 6_000_000, "{before} {full}");
    commit(&*store, log(1), vec![Op::Delete]).await.unwrap();
    store.flush().await.unwrap();
    let after = store.size().await.unwrap();
    assert!(after <= before + 2_000_000, "{before} {full} {after}");
}

pub(in crate::contract) async fn a_trimmed_log_keeps_its_numbers(store: Engine) {
    fill(&*store, log(1), [2, 4, 6, 8]).await;
    commit(&*store, log(1), vec![Op::Trim { upto: Seq(5) }]).await.unwrap();
    let check = async || {
        assert_eq!(numbers(&everything(&*store, log(1)).await), [6, 8]);
        assert_eq!(store.tail(log(1), END, 2).await.unwrap(), Seq::ZERO);
        assert_eq!(store.raw(log(1), Seq(4)).await.unwrap(), None);
    };
    check().await;
    store.flush().await.unwrap();
    check().await;
    commit(&*store, log(1), vec![Op::Trim { upto: END }]).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(everything(&*store, log(1)).await, []);
    let head = LogHead { last: Seq(8), reserved: Seq(8), ..LogHead::default() };
    assert_eq!(store.load(log(1)).await.unwrap(), Some(head));
    assert!(commit(&*store, log(1), vec![append(log(1), 8, "again")]).await.is_err());
    fill(&*store, log(1), [9]).await;
    assert_eq!(numbers(&everything(&*store, log(1)).await), [9]);
}
