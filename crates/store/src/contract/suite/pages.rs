//! Reading a log: its pages, what lies between, its end, its raw texts.

use bytes::Bytes;
use portolan_core::{
    LogId, Seq,
    ports::{Op, Page},
};

use super::{END, Engine};
use crate::contract::{append, command, commit, entry, everything, fill, log, numbers};

pub(in crate::contract) async fn entries_come_back_in_order_and_as_they_were_given(store: Engine) {
    let odd = "ünïcode 🗺 \" \\ \n \0 and a long tail".repeat(300);
    commit(&*store, log(1), vec![append(log(1), 1, "a"), append(log(1), 2, &odd)]).await.unwrap();
    commit(&*store, log(1), vec![append(log(1), 7, "c")]).await.unwrap();
    let expected = vec![entry(log(1), 1, "a"), entry(log(1), 2, &odd), entry(log(1), 7, "c")];
    assert_eq!(everything(&*store, log(1)).await, expected);
}

pub(in crate::contract) async fn a_page_ends_at_its_number_of_entries(store: Engine) {
    fill(&*store, log(1), 1..=10).await;
    let page = Page { entries: 4, bytes: u32::MAX };
    let read = |after| store.read(log(1), Seq(after), END, page);
    assert_eq!(numbers(&read(0).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(numbers(&read(4).await.unwrap()), [5, 6, 7, 8]);
    assert_eq!(numbers(&read(8).await.unwrap()), [9, 10]);
    assert_eq!(numbers(&read(10).await.unwrap()), [0; 0]);
}

pub(in crate::contract) async fn a_page_ends_before_its_bytes_run_out(store: Engine) {
    fill(&*store, log(1), 1..=9).await;
    let each = entry(log(1), 1, "1").frame.len() as u32;
    let read = |bytes| store.read(log(1), Seq::ZERO, END, Page { entries: 100, bytes });
    assert_eq!(numbers(&read(3 * each).await.unwrap()), [1, 2, 3]);
    assert_eq!(numbers(&read(3 * each + 1).await.unwrap()), [1, 2, 3]);
    assert_eq!(numbers(&read(3 * each - 1).await.unwrap()), [1, 2]);
}

pub(in crate::contract) async fn an_entry_larger_than_a_page_comes_alone(store: Engine) {
    let large = "x".repeat(1_000_000);
    let ops = vec![append(log(1), 1, "small"), append(log(1), 2, &large), append(log(1), 3, "small")];
    commit(&*store, log(1), ops).await.unwrap();
    let read = |after| store.read(log(1), Seq(after), END, Page { entries: 100, bytes: 1000 });
    assert_eq!(read(0).await.unwrap(), [entry(log(1), 1, "small")]);
    assert_eq!(read(1).await.unwrap(), [entry(log(1), 2, &large)]);
    assert_eq!(read(2).await.unwrap(), [entry(log(1), 3, "small")]);
}

pub(in crate::contract) async fn a_page_that_allows_nothing_gives_one_entry(store: Engine) {
    fill(&*store, log(1), 1..=3).await;
    let page = Page { entries: 0, bytes: 0 };
    assert_eq!(numbers(&store.read(log(1), Seq(1), END, page).await.unwrap()), [2]);
}

pub(in crate::contract) async fn reading_between_two_numbers_gives_what_lies_between(store: Engine) {
    fill(&*store, log(1), [2, 4, 6, 8]).await;
    let read = |after, upto| store.read(log(1), Seq(after), Seq(upto), Page::BATCH);
    assert_eq!(numbers(&read(2, 6).await.unwrap()), [4, 6]);
    assert_eq!(numbers(&read(3, 7).await.unwrap()), [4, 6]);
    assert_eq!(numbers(&read(6, 6).await.unwrap()), [0; 0]);
    assert_eq!(numbers(&read(8, 2).await.unwrap()), [0; 0]);
    assert_eq!(numbers(&read(u64::MAX, u64::MAX).await.unwrap()), [0; 0]);
}

pub(in crate::contract) async fn logs_do_not_see_each_other(store: Engine) {
    fill(&*store, log(1), [1, 3]).await;
    fill(&*store, LogId::Daemon, [1, 2]).await;
    fill(&*store, log(2), [2, 4]).await;
    assert_eq!(numbers(&everything(&*store, log(1)).await), [1, 3]);
    assert_eq!(
        everything(&*store, LogId::Daemon).await,
        [entry(LogId::Daemon, 1, "1"), entry(LogId::Daemon, 2, "2")]
    );
    assert_eq!(numbers(&everything(&*store, log(2)).await), [2, 4]);
    assert_eq!(store.tail(log(2), END, 5).await.unwrap(), Seq::ZERO);
}

pub(in crate::contract) async fn a_log_nobody_wrote_to_is_not_there(store: Engine) {
    commit(
        &*store,
        log(1),
        vec![Op::CloseItem { item: "i".to_owned() }, Op::Trim { upto: Seq(5) }, Op::Delete],
    )
    .await
    .unwrap();
    assert_eq!(store.load(log(1)).await.unwrap(), None);
    assert_eq!(everything(&*store, log(1)).await, []);
    assert_eq!(store.tail(log(1), END, 3).await.unwrap(), Seq::ZERO);
    assert_eq!(store.raw(log(1), Seq(1)).await.unwrap(), None);
    assert_eq!(store.command(log(1), command("t", "c", 1, "").key).await.unwrap(), None);
}

pub(in crate::contract) async fn the_tail_lies_after_the_entry_before_it(store: Engine) {
    fill(&*store, log(1), [2, 4, 6, 8]).await;
    let tail = |upto, count| store.tail(log(1), upto, count);
    assert_eq!(tail(END, 0).await.unwrap(), Seq(8));
    assert_eq!(tail(END, 1).await.unwrap(), Seq(6));
    assert_eq!(tail(END, 3).await.unwrap(), Seq(2));
    assert_eq!(tail(END, 4).await.unwrap(), Seq::ZERO);
    assert_eq!(tail(END, u32::MAX).await.unwrap(), Seq::ZERO);
    assert_eq!(tail(Seq(7), 2).await.unwrap(), Seq(2));
    let after = tail(Seq(7), 2).await.unwrap();
    assert_eq!(numbers(&store.read(log(1), after, Seq(7), Page::BATCH).await.unwrap()), [4, 6]);
}

pub(in crate::contract) async fn raw_text_lies_beside_its_entry(store: Engine) {
    let bare = |op| match op {
        Op::Append { seq, at, frame, .. } => Op::Append { seq, at, frame, raw: None },
        other => other,
    };
    commit(&*store, log(1), vec![append(log(1), 1, "a"), bare(append(log(1), 2, "b"))]).await.unwrap();
    assert_eq!(store.raw(log(1), Seq(1)).await.unwrap(), Some(Bytes::from_static(b"raw a")));
    assert_eq!(store.raw(log(1), Seq(2)).await.unwrap(), None);
    assert_eq!(store.raw(log(1), Seq(3)).await.unwrap(), None);
    assert_eq!(store.raw(log(2), Seq(1)).await.unwrap(), None);
}
