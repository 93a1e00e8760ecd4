//! The hooks of the engine: writes that wait, writes that fail.

use super::*;
use crate::contract::{Notes, append, everything, fill, log, numbers};

#[tokio::test]
async fn held_writes_are_neither_shown_nor_done_until_they_are_released_in_order() {
    let store = MemoryStore::new();
    fill(&store, log(1), [1]).await;
    store.hold();
    let notes = Notes::default();
    for seq in 2..=4 {
        let write =
            Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: Some(notes.when_done(seq)) };
        store.write(write).await.unwrap();
    }
    assert_eq!(store.waiting(), 3);
    assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
    assert_eq!(notes.all(), [0; 0]);
    assert_eq!(*store.health().borrow(), StoreHealth::Good);
    store.release();
    assert_eq!(notes.all(), [2, 3, 4]);
    assert_eq!(numbers(&everything(&store, log(1)).await), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_failing_store_says_so_until_it_is_released() {
    let store = MemoryStore::new();
    store.fail("no space left");
    let failing = StoreHealth::Failing { reason: "no space left".to_owned() };
    assert_eq!(*store.health().borrow(), failing);
    store.write(Write { log: log(1), ops: vec![append(log(1), 1, "x")], done: None }).await.unwrap();
    assert_eq!(store.load(log(1)).await.unwrap(), None);
    store.release();
    assert_eq!(*store.health().borrow(), StoreHealth::Good);
    assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
}

#[tokio::test]
async fn a_flush_of_a_held_store_waits() {
    let store = Arc::new(MemoryStore::new());
    store.hold();
    store.write(Write { log: log(1), ops: vec![append(log(1), 1, "x")], done: None }).await.unwrap();
    let mut flush = std::pin::pin!(store.flush());
    assert!(polled_once(flush.as_mut()).await.is_none());
    store.release();
    flush.await.unwrap();
}

#[tokio::test]
async fn a_full_queue_of_a_held_store_makes_writers_wait() {
    let store = MemoryStore::new();
    store.hold();
    let write = |seq| store.write(Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: None });
    for seq in 1..=QUEUE as u64 {
        write(seq).await.unwrap();
    }
    let mut one_more = write(QUEUE as u64 + 1);
    assert!(polled_once(one_more.as_mut()).await.is_none());
    store.release();
    one_more.await.unwrap();
    assert_eq!(everything(&store, log(1)).await.len(), QUEUE + 1);
}

/// One poll: a future that is not ready now gives nothing.
async fn polled_once<T>(mut future: std::pin::Pin<&mut (dyn Future<Output = T> + Send + '_)>) -> Option<T> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
