//! Any sequence of writes leaves SQLite and memory with the same contents, also after SQLite is opened again.

use std::fmt::Write as _;

use bytes::Bytes;
use portolan_core::{
    LogId, Seq,
    ports::{Op, Page, SessionQuery, Store, Write},
    session::state::{Status, Summary},
};
use proptest::prelude::*;

use super::{ALL, Home as _, InMemory, OnDisk, append, chunk, command, log, session, summary};

const LOGS: u128 = 3;

fn logs() -> impl Iterator<Item = LogId> {
    (0..LOGS).map(log).chain([LogId::Daemon])
}

fn any_log() -> impl Strategy<Value = LogId> {
    prop_oneof![4 => (0..LOGS).prop_map(log), 1 => Just(LogId::Daemon)]
}

/// Numbers close together, so that some writes break the rules and some overlap.
fn any_seq() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 1..60_u64, 1 => Just(0), 1 => Just(u64::MAX)]
}

fn any_op(log: LogId) -> impl Strategy<Value = Op> {
    let item = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let key = || prop_oneof![Just("k"), Just("l")];
    prop_oneof![
        12 => (any_seq(), "[a-zä\"\\\\]{0,40}").prop_map(move |(seq, text)| append(log, seq, &text)),
        2 => any_seq().prop_map(|upto| Op::Reserve { upto: Seq(upto) }),
        4 => (item(), any_seq(), any::<bool>(), "[a-zä]{0,9}").prop_map(|(item, seq, first, text)| {
            chunk(item, seq, first.then_some("{started}"), &text)
        }),
        2 => item().prop_map(|item| Op::CloseItem { item: item.to_owned() }),
        2 => (any_seq(), any::<[u8; 4]>()).prop_map(|(seq, state)| Op::Checkpoint {
            seq: Seq(seq),
            state: Bytes::copy_from_slice(&state),
        }),
        2 => (key(), any_seq()).prop_map(|(id, seq)| Op::Command(command("t", id, seq, "stage"))),
        3 => (0..LOGS, any::<bool>(), any::<bool>(), 0..9_u32).prop_map(|(n, archived, live, turns)| {
            let status = if live { Status::Idle } else { Status::Terminated };
            Op::Summary(Box::new(Summary { archived, turns, ..summary(n, status) }))
        }),
        2 => (0..LOGS, any_seq()).prop_map(|(n, upto)| Op::CopyFrom { source: session(n), upto: Seq(upto) }),
        1 => Just(Op::Delete),
        2 => any_seq().prop_map(|upto| Op::Trim { upto: Seq(upto) }),
        1 => (key(), any::<[u8; 2]>()).prop_map(|(key, value)| Op::Put {
            collection: "c",
            key: key.to_owned(),
            value: Bytes::copy_from_slice(&value),
        }),
        1 => key().prop_map(|key| Op::Remove { collection: "c", key: key.to_owned() }),
    ]
}

fn any_write() -> impl Strategy<Value = (LogId, Vec<Op>)> {
    any_log().prop_flat_map(|log| (Just(log), prop::collection::vec(any_op(log), 1..4)))
}

/// Everything that a store returns.
async fn contents(store: &dyn Store) -> String {
    let mut told = String::new();
    for log in logs() {
        writeln!(told, "{log}: {:?}", store.load(log).await.unwrap()).unwrap();
        writeln!(told, "{:?}", store.read(log, Seq::ZERO, Seq(u64::MAX), ALL).await.unwrap()).unwrap();
        let page = Page { entries: 3, bytes: 400 };
        for seq in [0, 7, 20, 59].map(Seq) {
            writeln!(told, "{:?}", store.read(log, seq, Seq(50), page).await.unwrap()).unwrap();
            writeln!(
                told,
                "{:?} {:?}",
                store.raw(log, seq).await.unwrap(),
                store.tail(log, seq, 2).await.unwrap()
            )
            .unwrap();
        }
        for id in ["k", "l"] {
            writeln!(told, "{:?}", store.command(log, command("t", id, 0, "").key).await.unwrap()).unwrap();
        }
    }
    for (archived, live) in [(None, false), (Some(true), false), (Some(false), true), (None, true)] {
        let query = SessionQuery { archived, live, before: None, limit: 10 };
        writeln!(told, "{:?}", store.sessions(query).await.unwrap()).unwrap();
    }
    writeln!(told, "{:?}", store.matching("0190".to_owned(), 10).await.unwrap()).unwrap();
    writeln!(told, "{:?}", store.records("c").await.unwrap()).unwrap();
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_writes_leaves_both_engines_the_same(writes in prop::collection::vec(any_write(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let (memory, home) = (InMemory.open(), OnDisk::new());
            let sqlite = home.open();
            let committed = [super::Notes::default(), super::Notes::default()];
            for (n, (log, ops)) in writes.into_iter().enumerate() {
                for (store, notes) in [&memory, &sqlite].into_iter().zip(&committed) {
                    let write = Write { log, ops: ops.clone(), done: Some(notes.when_done(n)) };
                    store.write(write).await.unwrap();
                }
            }
            sqlite.flush().await.unwrap();
            let expected = contents(&*memory).await;
            prop_assert_eq!(committed[0].all(), committed[1].all());
            prop_assert_eq!(&contents(&*sqlite).await, &expected);
            drop(sqlite);
            prop_assert_eq!(&contents(&*home.open()).await, &expected);
            Ok(())
        });
        outcome?;
    }
}
