//! The clauses of the contract. Each gets an empty store.

use std::sync::Arc;

use bytes::Bytes;
use portolan_core::{
    LogId, Position, Seq,
    command::CommandKey,
    ports::{LogHead, Op, OpenItem, Page, Placed, SessionQuery, Store, StoreHealth, Write},
    session::state::{Status, Summary},
};

use super::{
    Notes, append, chunk, command, commit, entry, everything, fill, log, numbers, placed, session, summary,
};

type Engine = Arc<dyn Store>;

/// No end.
const END: Seq = Seq(u64::MAX);

pub(super) async fn entries_come_back_in_order_and_as_they_were_given(store: Engine) {
    let odd = "ünïcode 🗺 \" \\ \n \0 and a long tail".repeat(300);
    commit(&*store, log(1), vec![append(log(1), 1, "a"), append(log(1), 2, &odd)]).await.unwrap();
    commit(&*store, log(1), vec![append(log(1), 7, "c")]).await.unwrap();
    let expected = vec![entry(log(1), 1, "a"), entry(log(1), 2, &odd), entry(log(1), 7, "c")];
    assert_eq!(everything(&*store, log(1)).await, expected);
}

pub(super) async fn a_page_ends_at_its_number_of_entries(store: Engine) {
    fill(&*store, log(1), 1..=10).await;
    let page = Page { entries: 4, bytes: u32::MAX };
    let read = |after| store.read(log(1), Seq(after), END, page);
    assert_eq!(numbers(&read(0).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(numbers(&read(4).await.unwrap()), [5, 6, 7, 8]);
    assert_eq!(numbers(&read(8).await.unwrap()), [9, 10]);
    assert_eq!(numbers(&read(10).await.unwrap()), [0; 0]);
}

pub(super) async fn a_page_ends_before_its_bytes_run_out(store: Engine) {
    fill(&*store, log(1), 1..=9).await;
    let each = entry(log(1), 1, "1").frame.len() as u32;
    let read = |bytes| store.read(log(1), Seq::ZERO, END, Page { entries: 100, bytes });
    assert_eq!(numbers(&read(3 * each).await.unwrap()), [1, 2, 3]);
    assert_eq!(numbers(&read(3 * each + 1).await.unwrap()), [1, 2, 3]);
    assert_eq!(numbers(&read(3 * each - 1).await.unwrap()), [1, 2]);
}

pub(super) async fn an_entry_larger_than_a_page_comes_alone(store: Engine) {
    let large = "x".repeat(1_000_000);
    let ops = vec![append(log(1), 1, "small"), append(log(1), 2, &large), append(log(1), 3, "small")];
    commit(&*store, log(1), ops).await.unwrap();
    let read = |after| store.read(log(1), Seq(after), END, Page { entries: 100, bytes: 1000 });
    assert_eq!(read(0).await.unwrap(), [entry(log(1), 1, "small")]);
    assert_eq!(read(1).await.unwrap(), [entry(log(1), 2, &large)]);
    assert_eq!(read(2).await.unwrap(), [entry(log(1), 3, "small")]);
}

pub(super) async fn a_page_that_allows_nothing_gives_one_entry(store: Engine) {
    fill(&*store, log(1), 1..=3).await;
    let page = Page { entries: 0, bytes: 0 };
    assert_eq!(numbers(&store.read(log(1), Seq(1), END, page).await.unwrap()), [2]);
}

pub(super) async fn reading_between_two_numbers_gives_what_lies_between(store: Engine) {
    fill(&*store, log(1), [2, 4, 6, 8]).await;
    let read = |after, upto| store.read(log(1), Seq(after), Seq(upto), Page::BATCH);
    assert_eq!(numbers(&read(2, 6).await.unwrap()), [4, 6]);
    assert_eq!(numbers(&read(3, 7).await.unwrap()), [4, 6]);
    assert_eq!(numbers(&read(6, 6).await.unwrap()), [0; 0]);
    assert_eq!(numbers(&read(8, 2).await.unwrap()), [0; 0]);
    assert_eq!(numbers(&read(u64::MAX, u64::MAX).await.unwrap()), [0; 0]);
}

pub(super) async fn logs_do_not_see_each_other(store: Engine) {
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

pub(super) async fn a_log_nobody_wrote_to_is_not_there(store: Engine) {
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

pub(super) async fn positions_are_in_the_order_of_the_commits_over_all_logs(store: Engine) {
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

pub(super) async fn positions_of_what_is_gone_are_not_given_again(store: Engine) {
    fill(&*store, log(1), 1..=3).await;
    fill(&*store, log(2), 1..=3).await;
    commit(&*store, log(2), vec![Op::Delete]).await.unwrap();
    commit(&*store, log(1), vec![Op::Trim { upto: Seq(2) }]).await.unwrap();
    assert_eq!(placed(&*store).await, [(3, log(1), 3)]);
    store.flush().await.unwrap();
    fill(&*store, log(2), [1]).await;
    assert_eq!(placed(&*store).await, [(3, log(1), 3), (7, log(2), 1)]);
}

pub(super) async fn a_page_of_positions_ends_like_any_page(store: Engine) {
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

pub(super) async fn the_tail_lies_after_the_entry_before_it(store: Engine) {
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

pub(super) async fn raw_text_lies_beside_its_entry(store: Engine) {
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

pub(super) async fn a_log_tells_its_last_and_its_reserved_number(store: Engine) {
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

pub(super) async fn chunks_of_open_items_come_back_oldest_item_first(store: Engine) {
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

pub(super) async fn a_closed_item_is_open_no_more(store: Engine) {
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

pub(super) async fn the_newest_checkpoint_comes_back(store: Engine) {
    fill(&*store, log(1), 1..=9).await;
    for (seq, state) in [(3, &b"three"[..]), (9, b"nine, \xff\0 in any bytes")] {
        let state = Bytes::from_static(state);
        commit(&*store, log(1), vec![Op::Checkpoint { seq: Seq(seq), state: state.clone() }]).await.unwrap();
        assert_eq!(store.load(log(1)).await.unwrap().unwrap().checkpoint, Some((Seq(seq), state)));
    }
}

pub(super) async fn a_command_is_known_by_its_newest_stage(store: Engine) {
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

async fn summarise(store: &dyn Store, summary: Summary) {
    commit(store, LogId::Session(summary.session), vec![Op::Summary(Box::new(summary))]).await.unwrap();
}

async fn names(store: &dyn Store, query: SessionQuery) -> Vec<String> {
    store.sessions(query).await.unwrap().into_iter().map(|summary| summary.name).collect()
}

pub(super) async fn sessions_come_newest_first_in_pages(store: Engine) {
    for n in [2, 5, 1, 4, 3] {
        summarise(&*store, summary(n, Status::Idle)).await;
    }
    let page = |before| SessionQuery { before, limit: 2, ..SessionQuery::default() };
    assert_eq!(names(&*store, page(None)).await, ["session 5", "session 4"]);
    assert_eq!(names(&*store, page(Some(session(4)))).await, ["session 3", "session 2"]);
    assert_eq!(names(&*store, page(Some(session(2)))).await, ["session 1"]);
    assert_eq!(names(&*store, page(Some(session(1)))).await, [""; 0]);
}

pub(super) async fn sessions_are_found_by_archived_and_live(store: Engine) {
    summarise(&*store, summary(1, Status::Active)).await;
    summarise(&*store, summary(2, Status::Terminated)).await;
    summarise(&*store, Summary { archived: true, ..summary(3, Status::Error) }).await;
    summarise(&*store, Summary { archived: true, ..summary(4, Status::Disconnected) }).await;
    let found = |archived, live| {
        let query = SessionQuery { archived, live, before: None, limit: 10 };
        async { names(&*store, query).await.join(", ") }
    };
    assert_eq!(found(None, false).await, "session 4, session 3, session 2, session 1");
    assert_eq!(found(Some(false), false).await, "session 2, session 1");
    assert_eq!(found(Some(true), false).await, "session 4, session 3");
    assert_eq!(found(None, true).await, "session 4, session 1");
    assert_eq!(found(Some(false), true).await, "session 1");
}

pub(super) async fn a_summary_replaces_the_one_before(store: Engine) {
    let live = SessionQuery { live: true, limit: 10, ..SessionQuery::default() };
    summarise(&*store, summary(1, Status::Active)).await;
    let renamed = Summary { name: "new name".to_owned(), ..summary(1, Status::Idle) };
    summarise(&*store, renamed.clone()).await;
    assert_eq!(store.sessions(live.clone()).await.unwrap(), [renamed]);
    let ended = Summary { archived: true, ..summary(1, Status::Terminated) };
    summarise(&*store, ended.clone()).await;
    assert_eq!(store.sessions(live).await.unwrap(), []);
    let all = SessionQuery { limit: 10, ..SessionQuery::default() };
    assert_eq!(store.sessions(all).await.unwrap(), [ended]);
}

pub(super) async fn ids_are_found_by_their_first_or_last_characters(store: Engine) {
    for n in [0x1a, 0x2b, 0x2c] {
        summarise(&*store, summary(n, Status::Idle)).await;
    }
    let found = |prefix: &str, limit| store.matching(prefix.to_owned(), limit);
    let text = session(0x2b).to_string();
    assert_eq!(found(&text, 10).await.unwrap(), [session(0x2b)]);
    assert_eq!(found(&text[..35], 10).await.unwrap(), [session(0x2b), session(0x2c)]);
    assert_eq!(found("0190", 10).await.unwrap(), [session(0x1a), session(0x2b), session(0x2c)]);
    assert_eq!(found("", 2).await.unwrap(), [session(0x1a), session(0x2b)]);
    assert_eq!(found(&text[1..], 10).await.unwrap(), [session(0x2b)]);
    assert_eq!(found("2b", 10).await.unwrap(), [session(0x2b)]);
    assert_eq!(found("-2b", 10).await.unwrap(), []);
    for nothing in ["%", "_190", "0190%", "*", "\0", "0190\u{10ffff}", "x' OR 1 --", "019000000000z"] {
        assert_eq!(found(nothing, 10).await.unwrap(), [], "{nothing:?}");
    }
}

pub(super) async fn records_are_kept_by_collection_and_key(store: Engine) {
    let put = |collection, key: &str, value: &'static str| Op::Put {
        collection,
        key: key.to_owned(),
        value: Bytes::from_static(value.as_bytes()),
    };
    let ops = vec![
        put("tokens", "b", "1"),
        put("tokens", "a", "2"),
        put("devices", "a", "3"),
        put("tokens", "b", "4"),
    ];
    commit(&*store, LogId::Daemon, ops).await.unwrap();
    let pair = |key: &str, value: &'static str| (key.to_owned(), Bytes::from_static(value.as_bytes()));
    assert_eq!(store.records("tokens").await.unwrap(), [pair("a", "2"), pair("b", "4")]);
    assert_eq!(store.record("devices", "a".to_owned()).await.unwrap(), Some(Bytes::from_static(b"3")));
    let remove = Op::Remove { collection: "tokens", key: "a".to_owned() };
    commit(&*store, LogId::Daemon, vec![remove.clone(), remove]).await.unwrap();
    assert_eq!(store.records("tokens").await.unwrap(), [pair("b", "4")]);
    assert_eq!(store.record("tokens", "a".to_owned()).await.unwrap(), None);
    assert_eq!(store.records("devices").await.unwrap(), [pair("a", "3")]);
    assert_eq!(store.load(LogId::Daemon).await.unwrap(), None);
}

pub(super) async fn a_copy_has_the_same_entries_under_its_own_name(store: Engine) {
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

pub(super) async fn a_copy_of_nothing_is_an_empty_log(store: Engine) {
    commit(&*store, log(2), vec![Op::CopyFrom { source: session(1), upto: Seq(7) }]).await.unwrap();
    commit(&*store, log(3), vec![Op::CopyFrom { source: session(3), upto: Seq(7) }]).await.unwrap();
    assert_eq!(store.load(log(2)).await.unwrap(), Some(LogHead::default()));
    assert_eq!(store.load(log(3)).await.unwrap(), Some(LogHead::default()));
}

pub(super) async fn only_an_empty_session_log_can_become_a_copy(store: Engine) {
    fill(&*store, log(1), [1, 2]).await;
    fill(&*store, log(2), [9]).await;
    let copy = || vec![Op::CopyFrom { source: session(1), upto: END }];
    assert!(commit(&*store, log(2), copy()).await.is_err());
    assert!(commit(&*store, LogId::Daemon, copy()).await.is_err());
    assert_eq!(numbers(&everything(&*store, log(2)).await), [9]);
    assert_eq!(store.load(LogId::Daemon).await.unwrap(), None);
}

pub(super) async fn a_deleted_log_leaves_nothing(store: Engine) {
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

pub(super) async fn a_log_can_begin_anew_after_its_deletion(store: Engine) {
    fill(&*store, log(1), 1..=5).await;
    commit(&*store, log(1), vec![Op::Delete, append(log(1), 1, "new")]).await.unwrap();
    assert_eq!(everything(&*store, log(1)).await, [entry(log(1), 1, "new")]);
    store.flush().await.unwrap();
    assert_eq!(everything(&*store, log(1)).await, [entry(log(1), 1, "new")]);
}

pub(super) async fn a_deletion_gives_its_room_back(store: Engine) {
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

pub(super) async fn a_trimmed_log_keeps_its_numbers(store: Engine) {
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

pub(super) async fn flush_waits_for_everything_before_it(store: Engine) {
    for seq in 1..=500 {
        let write = Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: None };
        store.write(write).await.unwrap();
    }
    store.flush().await.unwrap();
    assert_eq!(everything(&*store, log(1)).await.len(), 500);
}

pub(super) async fn done_is_called_in_the_order_of_the_writes(store: Engine) {
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

pub(super) async fn a_write_that_can_never_succeed_fails_alone_and_whole(store: Engine) {
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

pub(super) async fn a_summary_of_another_session_is_refused(store: Engine) {
    let ops = vec![Op::Summary(Box::new(summary(1, Status::Idle)))];
    assert!(commit(&*store, log(2), ops.clone()).await.is_err());
    assert!(commit(&*store, LogId::Daemon, ops).await.is_err());
    assert_eq!(store.matching(String::new(), 10).await.unwrap(), []);
}

pub(super) async fn many_logs_are_written_at_once(store: Engine) {
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
