//! A guard: how many instructions it takes to append a delta and pass it to readers. valgrind counts in the test
//! profile, so the numbers are high; the test only ensures that they do not grow unnoticed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use portolan_core::{
    Event, LogId, Millis, Seq, SessionId, SessionSpec,
    event::ItemKind,
    log::{
        Book, Writer,
        cursor::Cursor,
        delivery::{Delivery, Mode, Start},
    },
    session::state::State,
};
use portolan_store::MemoryStore;
use portolan_testkit::instructions::{per_round, rounds};

/// Deltas published at once, as in a busy stream.
const BATCH: u64 = 10;

/// The margin above the count from when the limits were set: enough for another compiler, not for another copy.
const MARGIN: f64 = 1.25;

fn stays_within(test: &str, counted: u64) {
    let taken = per_round(test);
    let most = (counted as f64 * MARGIN) as u64;
    assert!(
        taken <= most,
        "`{test}` takes {taken} instructions, before it took {counted}; find the cause, or raise the limit and say why"
    );
}

#[test]
fn a_delta_for_one_reader_stays_within_its_instructions() {
    stays_within("a_delta_reaches_one_reader", 61_500);
}

#[test]
fn a_delta_for_ten_readers_stays_within_its_instructions() {
    stays_within("a_delta_reaches_ten_readers", 69_500);
}

#[test]
fn a_delta_reaches_one_reader() {
    deliver(1);
}

#[test]
fn a_delta_reaches_ten_readers() {
    deliver(10);
}

/// Appends a delta each round, and this many readers read it.
#[tokio::main(flavor = "current_thread")]
async fn deliver(readers: usize) {
    let id = SessionId::from_u128(7);
    let spec: SessionSpec = serde_json::from_str(r#"{"agent": "demo", "cwd": "/"}"#).unwrap();
    let state = State::new(id, spec, Millis(0));
    let log = Writer::new(Arc::new(MemoryStore::default()), Book::new(LogId::Session(id), Seq::ZERO, state));
    let started =
        Event::ItemStarted { item: "1.1".into(), kind: ItemKind::Text, message: None, parent: None };
    log.book().append(Millis(1), None, started);
    log.publish().await.unwrap();
    let mut cursors = Vec::new();
    for _ in 0..readers {
        let mut cursor = Cursor::join(log.log(), Start::Tail(0), Mode::Every).await.unwrap();
        assert!(matches!(cursor.next().await, Delivery::Snapshot(_)));
        cursors.push(cursor);
    }
    let (mut left, mut bytes) = (rounds(), 0);
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        for _ in 0..batch {
            let delta = Event::Delta { item: "1.1".into(), text: "some words of a model ".repeat(5) };
            log.book().append(Millis(2), None, delta);
        }
        log.publish().await.unwrap();
        for cursor in &mut cursors {
            let Delivery::Entries(entries) = cursor.next().await else { panic!("entries come") };
            assert_eq!(entries.len() as u64, batch);
            bytes += entries.iter().map(|entry| entry.frame().len()).sum::<usize>();
        }
    }
    assert!(bytes > 0);
}
