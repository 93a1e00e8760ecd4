//! What lies beside the logs: the lines of sessions, and records.

use bytes::Bytes;
use portolan_core::{
    LogId,
    ports::{Op, SessionQuery, Store},
    session::state::{Status, Summary},
};

use super::Engine;
use crate::contract::{commit, session, summary};

async fn summarise(store: &dyn Store, summary: Summary) {
    commit(store, LogId::Session(summary.session), vec![Op::Summary(Box::new(summary))]).await.unwrap();
}

async fn names(store: &dyn Store, query: SessionQuery) -> Vec<String> {
    store.sessions(query).await.unwrap().into_iter().map(|summary| summary.name).collect()
}

pub(in crate::contract) async fn sessions_come_newest_first_in_pages(store: Engine) {
    for n in [2, 5, 1, 4, 3] {
        summarise(&*store, summary(n, Status::Idle)).await;
    }
    let page = |before| SessionQuery { before, limit: 2, ..SessionQuery::default() };
    assert_eq!(names(&*store, page(None)).await, ["session 5", "session 4"]);
    assert_eq!(names(&*store, page(Some(session(4)))).await, ["session 3", "session 2"]);
    assert_eq!(names(&*store, page(Some(session(2)))).await, ["session 1"]);
    assert_eq!(names(&*store, page(Some(session(1)))).await, [""; 0]);
}

pub(in crate::contract) async fn sessions_are_found_by_archived_and_live(store: Engine) {
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

pub(in crate::contract) async fn a_summary_replaces_the_one_before(store: Engine) {
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

pub(in crate::contract) async fn ids_are_found_by_their_first_or_last_characters(store: Engine) {
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

pub(in crate::contract) async fn records_are_kept_by_collection_and_key(store: Engine) {
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
