//! Positions: the order of the entries of all logs.

use portolan_core::{
    LogId, Position, Seq,
    ports::{Op, Page, Placed},
};

use super::Engine;
use crate::contract::{append, commit, entry, fill, log, placed, session};

pub(in crate::contract) async fn positions_are_in_the_order_of_the_commits_over_all_logs(store: Engine) {
    fill(&*store, log(2), [7, 9]).await;
    fill(&*store, LogId::Daemon, [1]).await;
    fill(&*store, log(1), [3]).await;
    fill(&*store, log(2), [12]).await;
    commit(&*store, log(3), vec![Op::CopyFrom { source: session(2), upto: Seq(9) }]).await.unwrap();
    let expected = [
        (1, log(2), 7),
        (2, log(2), 9),
        (3, LogId::Daemon, 1),
        (4, log(1), 3),
        (5, log(2), 12),
        (6, log(3), 7),
        (7, log(3), 9),
    ];
    assert_eq!(placed(&*store).await, expected);
    let since = store.since(Position(3), Page { entries: 1, bytes: u32::MAX }).await.unwrap();
    assert_eq!(since, [Placed { position: Position(4), log: log(1), entry: entry(log(1), 3, "3") }]);
    assert_eq!(store.since(Position(7), Page::BATCH).await.unwrap(), []);
    let before = async |position, entries| {
        let page = store.before(Position(position), Page { entries, bytes: u32::MAX }).await.unwrap();
        page.into_iter().map(|placed| (placed.position.0, placed.log, placed.entry.seq.0)).collect::<Vec<_>>()
    };
    let newest_first: Vec<_> = expected.into_iter().rev().collect();
    assert_eq!(before(u64::MAX, 99).await, newest_first);
    assert_eq!(before(5, 2).await, newest_first[3..5]);
    assert_eq!(before(1, 99).await, []);
    assert_eq!(before(0, 99).await, []);
    for (position, log, seq) in expected {
        let place = store.place(log, Seq(seq)).await.unwrap().unwrap();
        assert_eq!(
            (place.position, place.link.is_some_and(|link| !link.matches)),
            (Position(position), false)
        );
    }
    assert_eq!(store.place(log(2), Seq(8)).await.unwrap(), None);
    assert_eq!(store.since(Position(u64::MAX), Page::BATCH).await.unwrap(), []);
}

pub(in crate::contract) async fn positions_of_what_is_gone_are_not_given_again(store: Engine) {
    fill(&*store, log(1), 1..=3).await;
    fill(&*store, log(2), 1..=3).await;
    commit(&*store, log(2), vec![Op::Delete]).await.unwrap();
    commit(&*store, log(1), vec![Op::Trim { upto: Seq(2) }]).await.unwrap();
    assert_eq!(placed(&*store).await, [(3, log(1), 3)]);
    store.flush().await.unwrap();
    fill(&*store, log(2), [1]).await;
    assert_eq!(placed(&*store).await, [(3, log(1), 3), (7, log(2), 1)]);
}

pub(in crate::contract) async fn a_page_of_positions_ends_like_any_page(store: Engine) {
    let large = "x".repeat(1000);
    for seq in 1..=3 {
        commit(&*store, log(1), vec![append(log(1), seq, &large)]).await.unwrap();
    }
    let each = entry(log(1), 1, &large).frame.len() as u32;
    let count = |entries, bytes| {
        let page = store.since(Position::ZERO, Page { entries, bytes });
        async { page.await.unwrap().len() }
    };
    assert_eq!(count(2, u32::MAX).await, 2);
    assert_eq!(count(9, 2 * each).await, 2);
    assert_eq!(count(9, 2 * each - 1).await, 1);
    assert_eq!(count(9, 1).await, 1, "however large");
    assert_eq!(count(0, 0).await, 1);
}
