//! Copies of logs.

use bytes::Bytes;
use portolan_core::{
    LogId, Seq,
    ports::{LogHead, Op},
};

use super::{END, Engine};
use crate::contract::{append, chunk, command, commit, entry, everything, fill, log, numbers, session};

pub(in crate::contract) async fn a_copy_has_the_same_entries_under_its_own_name(store: Engine) {
    fill(&*store, log(1), [2, 4, 6, 8]).await;
    let known = command("t", "c", 2, "consumed");
    let state = Bytes::from_static(b"state");
    let beside = vec![
        Op::Command(known.clone()),
        chunk("a", 9, Some("{a}"), "open"),
        Op::Checkpoint { seq: Seq(4), state },
        Op::Reserve { upto: Seq(100) },
    ];
    commit(&*store, log(1), beside).await.unwrap();
    let copy = vec![Op::CopyFrom { source: session(1), upto: Seq(7) }, append(log(2), 8, "own")];
    commit(&*store, log(2), copy).await.unwrap();
    let own = |seq, text| entry(log(2), seq, text);
    assert_eq!(everything(&*store, log(2)).await, [own(2, "2"), own(4, "4"), own(6, "6"), own(8, "own")]);
    let head = LogHead { last: Seq(8), reserved: Seq(8), ..LogHead::default() };
    assert_eq!(store.load(log(2)).await.unwrap(), Some(head));
    assert_eq!(store.raw(log(2), Seq(2)).await.unwrap(), None);
    assert_eq!(store.command(log(2), known.key).await.unwrap(), None);
    assert_eq!(numbers(&everything(&*store, log(1)).await), [2, 4, 6, 8]);
}

pub(in crate::contract) async fn a_copy_of_nothing_is_an_empty_log(store: Engine) {
    commit(&*store, log(2), vec![Op::CopyFrom { source: session(1), upto: Seq(7) }]).await.unwrap();
    commit(&*store, log(3), vec![Op::CopyFrom { source: session(3), upto: Seq(7) }]).await.unwrap();
    assert_eq!(store.load(log(2)).await.unwrap(), Some(LogHead::default()));
    assert_eq!(store.load(log(3)).await.unwrap(), Some(LogHead::default()));
}

pub(in crate::contract) async fn only_an_empty_session_log_can_become_a_copy(store: Engine) {
    fill(&*store, log(1), [1, 2]).await;
    fill(&*store, log(2), [9]).await;
    let copy = || vec![Op::CopyFrom { source: session(1), upto: END }];
    assert!(commit(&*store, log(2), copy()).await.is_err());
    assert!(commit(&*store, LogId::Daemon, copy()).await.is_err());
    assert_eq!(numbers(&everything(&*store, log(2)).await), [9]);
    assert_eq!(store.load(LogId::Daemon).await.unwrap(), None);
}
