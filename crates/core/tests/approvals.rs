//! Approvals as people see them: what a pending one holds, what a decision does, and how each of them ends.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{sync::Arc, time::Duration};

use common::World;
use portolan_core::{
    Action, CommandId, Event, Millis, Refusal, RefusalCode, RequestId, Role, Seq, SessionId,
    event::TurnOrigin,
    log::delivery::Start,
    policy::Rule,
    ports::{Clock, Order, Report},
    request::{Answer, Outcome, Request, Scope},
    session::machine::Policy,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::{Strings, permission},
    sessions::{owner, principal},
};
use serde_json::json;

/// A registry whose clock is the clock of the test.
async fn world(request_deadline: Option<Duration>) -> World {
    let begin = tokio::time::Instant::now();
    let clock = Clock::new(move || Millis(begin.elapsed().as_millis() as i64));
    let policy = Policy { request_deadline, ..Policy::default() };
    World::at(clock, Arc::new(MemoryStore::new()), policy).await
}

/// Opens a request for `ls`.
async fn asked(world: &World, session: SessionId, puppet: &Strings, key: &str) -> Box<Request> {
    let before = world.registry.snapshot(&owner(), session).await.expect("a snapshot").seq;
    let mut reader = world.attach(session, Start::After(before)).await;
    puppet.open_request(key, permission("Bash", json!({ "command": "ls" })), None, None).await;
    match reader.until(|event| matches!(event, Event::RequestOpened { .. })).await {
        Event::RequestOpened { request } => request,
        other => panic!("{other:?}"),
    }
}

async fn answer(
    world: &World,
    session: SessionId,
    request: RequestId,
    answer: Answer,
) -> Result<(), Refusal> {
    let action = Action::Answer { request, digest: None, answer, persist: None };
    let who = principal("ada", Role::Owner);
    world.registry.submit(&who, session, CommandId::random(), action).await.map(drop)
}

async fn told(puppet: &mut Strings) -> Answer {
    match puppet.told().await.order {
        Order::Answer { answer, .. } => answer,
        other => panic!("{other:?}"),
    }
}

// covers: 002-060
#[tokio::test(start_paused = true)]
async fn without_a_deadline_an_agent_that_asks_waits_for_its_answer_as_long_as_it_takes() {
    let world = world(None).await;
    let (session, mut puppet) = world.session().await;
    let request = asked(&world, session, &puppet, "1").await;
    assert_eq!(request.deadline, None);
    tokio::time::sleep(Duration::from_hours(24 * 365)).await;
    let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
    assert_eq!(snapshot.state.requests.len(), 1, "a year later it still waits");
    assert!(puppet.instructions.try_recv().is_err(), "the agent was told nothing");
    answer(&world, session, request.request, Answer::allow()).await.expect("an answer");
    assert_eq!(told(&mut puppet).await, Answer::allow());
}

// covers: 002-064
#[tokio::test(start_paused = true)]
async fn a_pending_approval_says_what_is_asked_where_since_when_and_until_when() {
    let world = world(Some(Duration::from_mins(5))).await;
    let (session, puppet) = world.session().await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    let request = asked(&world, session, &puppet, "1").await;
    assert_eq!(request.ask, permission("Bash", json!({ "command": "ls" })));
    assert!(request.opened_at >= Millis(7000), "{:?}", request.opened_at);
    assert_eq!(request.deadline, Some(Millis(request.opened_at.0 + 300_000)));
    let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
    assert_eq!(snapshot.state.summary.session, session);
    assert_eq!(snapshot.state.requests, [*request]);
}

// covers: 002-065, 002-072
#[tokio::test]
async fn a_decision_carries_an_input_a_message_a_stop_or_a_rule_and_only_a_scope_makes_a_rule() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let rules = async || {
        let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
        snapshot.state.session_rules.iter().map(Rule::line).collect::<Vec<_>>()
    };
    let deny = |interrupt| Answer::Deny { message: Some("not now".into()), interrupt, option: None };
    let allow =
        |scope| Answer::Allow { input: Some(json!({ "command": "ls -l" })), scope, mode: None, option: None };
    for (key, given) in [("1", deny(false)), ("2", deny(true)), ("3", allow(Scope::Once))] {
        let request = asked(&world, session, &puppet, key).await;
        answer(&world, session, request.request, given.clone()).await.expect("an answer");
        assert_eq!(told(&mut puppet).await, given);
        assert_eq!(rules().await, [""; 0], "nothing is kept");
    }
    let request = asked(&world, session, &puppet, "4").await;
    answer(&world, session, request.request, allow(Scope::Session)).await.expect("an answer");
    assert_eq!(told(&mut puppet).await, allow(Scope::Session));
    assert_eq!(rules().await, ["allow Bash"]);
}

// covers: 002-074
#[tokio::test]
async fn a_deny_without_a_message_says_that_the_user_denied_the_tool() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let request = asked(&world, session, &puppet, "1").await;
    answer(&world, session, request.request, Answer::deny(None)).await.expect("an answer");
    let said = Answer::deny(Some("Tool \"Bash\" was denied by the user.".into()));
    assert_eq!(told(&mut puppet).await, said);
}

// covers: 002-080
#[tokio::test]
async fn a_decision_about_an_unknown_or_settled_approval_is_refused_with_its_id() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let unknown =
        answer(&world, session, RequestId(4711), Answer::allow()).await.expect_err("no such request");
    assert_eq!(unknown.code, RefusalCode::NotFound);
    assert!(unknown.message.contains("4711"), "{unknown}");
    let request = asked(&world, session, &puppet, "1").await.request;
    answer(&world, session, request, Answer::allow()).await.expect("an answer");
    told(&mut puppet).await;
    let settled = answer(&world, session, request, Answer::deny(None)).await.expect_err("settled");
    assert_eq!(settled.code, RefusalCode::AlreadyClosed);
    assert_eq!(settled.message, format!("request {request} was already answered by ada (test)"));
}

// covers: 002-076
#[tokio::test(start_paused = true)]
async fn an_approval_that_nobody_answers_in_time_is_denied_for_everybody_and_the_agent_reads_why() {
    let world = world(Some(Duration::from_mins(5))).await;
    let (session, mut puppet) = world.session().await;
    let request = asked(&world, session, &puppet, "1").await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert!(puppet.instructions.try_recv().is_err(), "there is time left");
    let said = Answer::deny(Some("Approval timeout for tool Bash".into()));
    assert_eq!(told(&mut puppet).await, said);
    let closed = reader.until(|event| matches!(event, Event::RequestClosed { .. })).await;
    assert_eq!(closed, Event::RequestClosed { request: request.request, outcome: Outcome::Expired });
    let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
    assert_eq!(snapshot.state.requests, []);
    let late = answer(&world, session, request.request, Answer::allow()).await.expect_err("too late");
    assert_eq!(late.code, RefusalCode::AlreadyClosed);
}

// covers: 002-077
#[tokio::test]
async fn an_interrupt_or_a_stop_settles_every_pending_approval_for_every_client() {
    for end in [Action::Interrupt, Action::Stop] {
        let world = World::new().await;
        let (session, puppet) = world.session().await;
        puppet.say(Report::TurnStarted { origin: TurnOrigin::Agent }).await;
        let first = asked(&world, session, &puppet, "1").await.request;
        let second = asked(&world, session, &puppet, "2").await.request;
        let mut readers = Vec::new();
        for _ in 0..2 {
            readers.push(world.attach(session, Start::After(Seq::ZERO)).await);
        }
        world.registry.submit(&owner(), session, CommandId::random(), end.clone()).await.expect("taken in");
        for reader in &mut readers {
            let is_last =
                |event: &Event| matches!(event, Event::RequestClosed { request, .. } if *request == second);
            reader.until(is_last).await;
            let settled = |event: &Event| match (event, &end) {
                (
                    Event::RequestClosed { request, outcome: Outcome::Interrupted { .. } },
                    Action::Interrupt,
                )
                | (Event::RequestClosed { request, outcome: Outcome::AgentGone { .. } }, Action::Stop) => {
                    Some(*request)
                }
                _ => None,
            };
            let settled: Vec<_> = reader.seen.iter().filter_map(|(_, event)| settled(event)).collect();
            assert_eq!(settled, [first, second], "{end:?}");
        }
        let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
        assert_eq!(snapshot.state.requests, []);
    }
}
