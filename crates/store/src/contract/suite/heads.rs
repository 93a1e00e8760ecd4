//! The head of a log: its numbers, open items, checkpoint and commands.

use bytes::Bytes;
use portolan_core::{
    Seq,
    command::CommandKey,
    ports::{LogHead, Op, OpenItem},
};

use super::Engine;
use crate::contract::{append, chunk, command, commit, everything, fill, log};

pub(in crate::contract) async fn a_log_tells_its_last_and_its_reserved_number(store: Engine) {
    let head =
        |last, reserved| Some(LogHead { last: Seq(last), reserved: Seq(reserved), ..LogHead::default() });
    commit(&*store, log(1), vec![Op::Reserve { upto: Seq(100) }]).await.unwrap();
    assert_eq!(store.load(log(1)).await.unwrap(), head(0, 100));
    fill(&*store, log(1), [5]).await;
    assert_eq!(store.load(log(1)).await.unwrap(), head(5, 100));
    commit(&*store, log(1), vec![Op::Reserve { upto: Seq(50) }]).await.unwrap();
    assert_eq!(store.load(log(1)).await.unwrap(), head(5, 100));
    // The number of an entry in the log is used, reserved or not.
    fill(&*store, log(1), [120]).await;
    assert_eq!(store.load(log(1)).await.unwrap(), head(120, 120));
}

fn open_item(item: &str, started: &'static str, text: &str) -> OpenItem {
    OpenItem { item: item.to_owned(), started: Bytes::from_static(started.as_bytes()), text: text.to_owned() }
}

pub(in crate::contract) async fn chunks_of_open_items_come_back_oldest_item_first(store: Engine) {
    let ops = vec![chunk("b", 2, Some("{b}"), "b1 "), chunk("a", 3, Some("{a}"), "ä1 ")];
    commit(&*store, log(1), ops).await.unwrap();
    commit(&*store, log(2), vec![chunk("b", 2, Some("{other}"), "other log")]).await.unwrap();
    commit(
        &*store,
        log(1),
        vec![chunk("a", 4, None, "a2"), chunk("b", 5, None, ""), chunk("b", 5, None, "b2")],
    )
    .await
    .unwrap();
    let head = store.load(log(1)).await.unwrap().unwrap();
    assert_eq!(head.open_items, [open_item("b", "{b}", "b1 b2"), open_item("a", "{a}", "ä1 a2")]);
    assert_eq!(everything(&*store, log(1)).await, []);
}

pub(in crate::contract) async fn a_closed_item_is_open_no_more(store: Engine) {
    let ops =
        vec![chunk("a", 1, Some("{a}"), "1"), chunk("b", 2, Some("{b}"), "2"), chunk("a", 3, None, "3")];
    commit(&*store, log(1), ops).await.unwrap();
    commit(&*store, log(2), vec![chunk("a", 1, Some("{a}"), "kept")]).await.unwrap();
    let close = |item: &str| Op::CloseItem { item: item.to_owned() };
    commit(&*store, log(1), vec![append(log(1), 4, "the item"), close("a"), close("never opened")])
        .await
        .unwrap();
    assert_eq!(store.load(log(1)).await.unwrap().unwrap().open_items, [open_item("b", "{b}", "2")]);
    assert_eq!(store.load(log(2)).await.unwrap().unwrap().open_items, [open_item("a", "{a}", "kept")]);
}

pub(in crate::contract) async fn the_newest_checkpoint_comes_back(store: Engine) {
    fill(&*store, log(1), 1..=9).await;
    for (seq, state) in [(3, &b"three"[..]), (9, b"nine, \xff\0 in any bytes")] {
        let state = Bytes::from_static(state);
        commit(&*store, log(1), vec![Op::Checkpoint { seq: Seq(seq), state: state.clone() }]).await.unwrap();
        assert_eq!(store.load(log(1)).await.unwrap().unwrap().checkpoint, Some((Seq(seq), state)));
    }
}

pub(in crate::contract) async fn a_command_is_known_by_its_newest_stage(store: Engine) {
    let (accepted, consumed) = (command("t", "c", 4, "accepted"), command("t", "c", 4, "consumed"));
    let others = [command("t2", "c", 5, "other token"), command("t", "c2", 6, "other id")];
    let ops = others.iter().cloned().chain([accepted.clone()]).map(Op::Command).collect();
    commit(&*store, log(1), ops).await.unwrap();
    commit(&*store, log(2), vec![Op::Command(command("t", "c", 9, "other log"))]).await.unwrap();
    let known = |key: CommandKey| store.command(log(1), key);
    assert_eq!(known(accepted.key.clone()).await.unwrap(), Some(accepted.clone()));
    commit(&*store, log(1), vec![Op::Command(consumed.clone())]).await.unwrap();
    assert_eq!(known(accepted.key.clone()).await.unwrap(), Some(consumed));
    for other in others {
        assert_eq!(known(other.key.clone()).await.unwrap(), Some(other));
    }
    assert_eq!(known(command("t3", "c", 1, "").key).await.unwrap(), None);
}
