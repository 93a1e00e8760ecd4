//! The audit: who did what and which rule decided, and how often rules were used.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use common::World;
use portolan_core::{
    Action, CommandId, Event, Millis, Position, Principal, RefusalCode, Role, Seq, SessionId, SessionSpec,
    audit::{AuditOrder, AuditQuery, AuditRecord},
    log::delivery::Start,
    policy::{Effect, rule::ScopeDraft},
    ports::Clock,
    request::Answer,
    session::machine::Policy,
    spec::ForkPoint,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::{Strings, permission},
    sessions::{owner, principal},
};
use serde_json::json;

/// The agent asks about a command, and the test waits until the request is decided or open.
async fn ask(world: &World, session: SessionId, puppet: &Strings, command: &str) -> Event {
    let head = world.registry.snapshot(&owner(), session).await.expect("a snapshot").seq;
    let mut reader = world.attach(session, Start::After(head)).await;
    let key = CommandId::random().to_string();
    puppet.open_request(&key, permission("Bash", json!({ "command": command })), None, None).await;
    reader.until(|event| matches!(event, Event::RequestOpened { .. } | Event::RequestDecided { .. })).await
}

async fn answer(world: &World, who: &Principal, session: SessionId, event: &Event) {
    let Event::RequestOpened { request } = event else { panic!("not open: {event:?}") };
    let answer =
        Action::Answer { request: request.request, digest: None, answer: Answer::allow(), persist: None };
    world.registry.submit(who, session, CommandId::random(), answer).await.expect("answered");
}

/// All records that a query wants, page by page.
async fn all(world: &World, query: AuditQuery) -> Vec<AuditRecord> {
    let (mut query, mut records) = (query, Vec::new());
    loop {
        let page = world.registry.audit(&owner(), &query).await.expect("a page");
        records.extend(page.records);
        query.from = page.next;
        if page.next.is_none() {
            return records;
        }
    }
}

/// What was done and by whom.
fn told(records: &[AuditRecord]) -> Vec<(&str, String)> {
    records.iter().map(|record| (record.what.as_str(), record.by.to_string())).collect()
}

fn oldest() -> AuditQuery {
    AuditQuery { order: AuditOrder::Oldest, ..AuditQuery::default() }
}

/// Waits for records: a session notes in the daemon's log what happened after its own commit.
async fn until<T>(world: &World, what: &str, look: impl Fn(&[AuditRecord]) -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(found) = look(&all(world, oldest()).await) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never so: {what}");
}

#[tokio::test]
async fn the_audit_names_who_did_what_and_the_rule_that_decided() {
    let world = World::new().await;
    let rule = world.rule(Effect::Allow, "Bash(git *)", ScopeDraft::User).await;
    let (session, puppet) = world.session().await;
    let ada = principal("ada", Role::Operator);
    world.prompt(session, "tidy up").await;
    ask(&world, session, &puppet, "git status").await;
    let opened = ask(&world, session, &puppet, "rm x").await;
    answer(&world, &ada, session, &opened).await;
    let closed =
        |records: &[AuditRecord]| records.iter().any(|record| record.what == "request_closed").then_some(());
    until(&world, "the request is closed", closed).await;

    let records = all(&world, oldest()).await;
    let person = |name: &str| format!("{name} (test)");
    assert_eq!(
        told(&records),
        [
            ("started", "portolan".to_owned()),
            ("rule_saved", person("owner")),
            ("session_created", person("owner")),
            ("prompt", person("owner")),
            ("request_decided", "rule allow Bash(git *)".into()),
            ("request_opened", "agent".into()),
            ("request_closed", person("ada")),
        ]
    );
    let decided = &records[4];
    assert_eq!((decided.session, &decided.rules), (Some(session), &vec![rule.rule.clone()]));
    assert_eq!(decided.text, "Bash: git status: allowed");
    assert_eq!(records[3].text, "tidy up");
    assert!(records.is_sorted_by_key(|record| record.position));

    let newest: Vec<_> = all(&world, AuditQuery::default()).await.into_iter().rev().collect();
    assert_eq!(newest, records, "the same records in both orders");
    for order in [AuditOrder::Newest, AuditOrder::Oldest] {
        let mut single = all(&world, AuditQuery { order, limit: Some(1), ..AuditQuery::default() }).await;
        single.sort_by_key(|record| record.position);
        assert_eq!(single, records, "page by page, {order:?}");
    }

    let by =
        async |who: &str| told(&all(&world, AuditQuery { who: Some(who.into()), ..oldest() }).await).len();
    assert_eq!([by("ADA").await, by("rule").await, by("agent").await, by("nobody").await], [1, 1, 1, 0]);
    let of_rule = AuditQuery { rule: Some(rule.rule.clone()), ..oldest() };
    assert_eq!(all(&world, of_rule).await, [records[1].clone(), records[4].clone()]);
    let of_session = AuditQuery { session: Some(session), ..oldest() };
    assert_eq!(all(&world, of_session).await, records[2..]);

    let details = world.registry.audit_record(&owner(), records[4].position).await.expect("a record");
    assert_eq!((&details.record, &details.entry["event"]["type"]), (&records[4], &json!("request_decided")));
    let none = world.registry.audit_record(&owner(), Position(99_999)).await.expect_err("no record");
    assert_eq!(none.code, RefusalCode::NotFound);
}

#[tokio::test]
async fn the_audit_since_a_time_begins_at_that_time() {
    let time = Arc::new(AtomicI64::new(1_000));
    let now = Arc::clone(&time);
    let clock = Clock::new(move || Millis(now.load(Ordering::Relaxed)));
    let world = World::at(clock, Arc::new(MemoryStore::new()), Policy::default()).await;
    for (at, text) in [(2_000, "Bash(a)"), (3_000, "Bash(b)"), (4_000, "Bash(c)")] {
        time.store(at, Ordering::Relaxed);
        world.rule(Effect::Deny, text, ScopeDraft::User).await;
    }
    for (since, expected) in [(0, 4), (1_000, 4), (2_000, 3), (2_001, 2), (4_000, 1), (4_001, 0)] {
        for order in [AuditOrder::Newest, AuditOrder::Oldest] {
            let query = AuditQuery { since: Some(Millis(since)), order, ..AuditQuery::default() };
            assert_eq!(all(&world, query).await.len(), expected, "since {since}, {order:?}");
        }
    }
}

#[tokio::test]
async fn only_an_owner_of_everything_reads_the_audit() {
    let world = World::new().await;
    let (session, _puppet) = world.session().await;
    let bound = Principal { sessions: Some([session].into()), ..owner() };
    for who in [principal("ada", Role::Viewer), principal("ada", Role::Operator), bound] {
        let query = AuditQuery { session: Some(session), ..AuditQuery::default() };
        let listed = world.registry.audit(&who, &query).await.expect_err("forbidden");
        let shown = world.registry.audit_record(&who, Position(1)).await.expect_err("forbidden");
        assert_eq!([listed.code, shown.code], [RefusalCode::Forbidden; 2], "{who:?}");
    }
}

async fn uses(world: &World, session: Option<SessionId>) -> Vec<u64> {
    let mut rules = world.registry.rules(&owner(), session).await.expect("rules");
    // Rules of the same moment are listed in any order.
    rules.sort_by(|a, b| a.rule.text.cmp(&b.rule.text));
    assert!(rules.iter().all(|rule| rule.used_at.is_some() == (rule.uses > 0)), "{rules:?}");
    rules.iter().map(|rule| rule.uses).collect()
}

#[tokio::test]
async fn the_uses_of_each_rule_are_counted_once_and_survive_a_restart_and_the_end_of_the_session() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(Arc::clone(&store), Policy::default()).await;
    world.rule(Effect::Allow, "Bash(git *)", ScopeDraft::User).await;
    world.rule(Effect::Ask, "Bash(rm)", ScopeDraft::User).await;
    let (session, puppet) = world.session().await;
    world.rule(Effect::Deny, "Bash(npm)", ScopeDraft::Session { session }).await;
    assert_eq!(uses(&world, Some(session)).await, [0, 0, 0]);
    for command in ["git status", "git log", "npm publish", "rm x", "ls"] {
        ask(&world, session, &puppet, command).await;
    }
    assert_eq!(uses(&world, Some(session)).await, [2, 1, 1]);
    assert_eq!(uses(&world, None).await, [2, 1]);

    let fork = ForkPoint { session, at: None };
    let spec = SessionSpec { fork: Some(fork), ..SessionSpec::default() };
    let forked = world.registry.create(&owner(), CommandId::random(), spec).await.expect("a fork").session;
    let copied = world.registry.history(&owner(), forked, Seq::ZERO, None, 1000).await.expect("a history");
    assert!(
        copied.iter().any(|entry| entry
            .decode::<Event>()
            .is_ok_and(|entry| matches!(entry.event, Event::RequestDecided { .. }))),
        "the fork has the history of its source"
    );
    assert_eq!(uses(&world, None).await, [2, 1], "a fork repeats nothing");
    let of_fork = until(&world, "the fork is created", |records| {
        let of_fork: Vec<_> =
            records.iter().filter(|record| record.session == Some(forked)).cloned().collect();
        (!of_fork.is_empty()).then_some(of_fork)
    });
    let created = ("session_created", "owner (test)".to_owned());
    assert_eq!(told(&of_fork.await), [created], "a fork repeats nothing");

    world.registry.shutdown(Duration::ZERO).await;
    let world = World::over(Arc::clone(&store), Policy::default()).await;
    assert_eq!(uses(&world, Some(session)).await, [2, 1, 1]);
    world.registry.delete(&owner(), session).await.expect("deleted");
    world.registry.delete(&owner(), forked).await.expect("deleted");
    assert_eq!(uses(&world, None).await, [2, 1]);
    world.registry.shutdown(Duration::ZERO).await;
    let world = World::over(store, Policy::default()).await;
    assert_eq!(uses(&world, None).await, [2, 1], "the requests are gone, their count is not");
}
