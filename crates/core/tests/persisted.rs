//! Answers that make a rule: what the rule says, where it holds, who may make it, and what it answers.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use common::{Reader, World};
use portolan_core::{
    Action, CommandId, Event, Principal, Refusal, RefusalCode, RequestId, Role, Seq, SessionId, SessionSpec,
    log::delivery::Start,
    request::{
        Answer, Ask, Outcome, Scope,
        persist::{Persist, PersistScope},
    },
};
use portolan_testkit::{
    agents::{Strings, permission},
    sessions::{owner, principal},
};
use serde_json::json;

fn operator() -> Principal {
    principal("operator", Role::Operator)
}

fn is_request(event: &Event) -> bool {
    matches!(event, Event::RequestOpened { .. } | Event::RequestDecided { .. })
}

fn run(command: &str) -> Ask {
    permission("Bash", json!({ "command": command }))
}

/// The agent asks; the request waits for a person.
async fn opened(reader: &mut Reader, puppet: &Strings, key: &str, ask: Ask) -> RequestId {
    puppet.open_request(key, ask, None, None).await;
    match reader.until(is_request).await {
        Event::RequestOpened { request } => request.request,
        other => panic!("{other:?}"),
    }
}

/// What a rule answers: the denial's words, or nothing for an approval; `None` if a person is asked.
async fn decided(reader: &mut Reader, puppet: &Strings, key: &str, ask: Ask) -> Option<Option<String>> {
    puppet.open_request(key, ask, None, None).await;
    match reader.until(is_request).await {
        Event::RequestDecided {
            outcome: Outcome::Answered { answer: Answer::Deny { message, .. }, .. },
            ..
        } => Some(message),
        Event::RequestDecided { .. } => Some(None),
        _ => None,
    }
}

async fn give(
    world: &World,
    who: &Principal,
    session: SessionId,
    request: RequestId,
    (answer, scope, rule): (Answer, PersistScope, Option<&str>),
) -> Result<(), Refusal> {
    let persist = Some(Persist { scope, rule: rule.map(str::to_owned) });
    let action = Action::Answer { request, digest: None, answer, persist };
    world.registry.submit(who, session, CommandId::random(), action).await.map(drop)
}

async fn lines(world: &World, session: SessionId) -> Vec<String> {
    let rules = world.registry.rules(&owner(), Some(session)).await.expect("rules");
    rules.iter().map(|known| format!("{} {}", known.rule.scope, known.rule.line())).collect()
}

// covers: 002-065, 002-072
#[tokio::test]
async fn an_answer_can_make_a_rule_of_the_session_that_answers_the_next_such_call() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let asked = opened(&mut reader, &puppet, "1", run("git status")).await;
    let allow = (Answer::allow(), PersistScope::Session, None);
    give(&world, &operator(), session, asked, allow).await.expect("an operator may");
    let asked = opened(&mut reader, &puppet, "2", run("rm -r build")).await;
    let deny = (Answer::deny(None), PersistScope::Session, Some("Bash(rm *)"));
    give(&world, &operator(), session, asked, deny).await.expect("an operator may");
    let here = format!("session:{session}");
    assert_eq!(
        lines(&world, session).await,
        [format!("{here} allow Bash(git status)"), format!("{here} deny Bash(rm *)")],
        "the first is the suggestion, the second the sender's own text"
    );
    assert_eq!(decided(&mut reader, &puppet, "3", run("git status")).await, Some(None));
    let said = Some("Denied by persisted rule for Bash.".to_owned());
    assert_eq!(decided(&mut reader, &puppet, "4", run("rm x")).await, Some(said));
    assert_eq!(decided(&mut reader, &puppet, "5", run("make")).await, None, "no rule is about it");
}

// covers: 002-065, 002-072
#[tokio::test]
async fn only_an_owners_answer_makes_a_rule_for_a_project_or_for_every_session() {
    let world = World::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let spec = SessionSpec { cwd: folder.clone(), ..common::spec() };
    let session =
        world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session").session;
    let puppet = world.puppet().await;
    puppet.ready().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    for (key, command, scope, line) in [
        ("1", "make", PersistScope::Project, format!("project:{} deny Bash(make)", folder.display())),
        ("2", "date", PersistScope::User, "user deny Bash(date)".to_owned()),
    ] {
        let asked = opened(&mut reader, &puppet, key, run(command)).await;
        let deny = || (Answer::deny(None), scope, None);
        let refused = give(&world, &operator(), session, asked, deny()).await.expect_err("an owner's");
        assert_eq!(refused.code, RefusalCode::Forbidden);
        let state = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state;
        assert_eq!(state.requests.len(), 1, "a refusal changes nothing");
        give(&world, &owner(), session, asked, deny()).await.expect("an owner may");
        assert!(lines(&world, session).await.contains(&line));
        let said = Some("Denied by persisted rule for Bash.".to_owned());
        assert_eq!(decided(&mut reader, &puppet, &format!("{key} again"), run(command)).await, Some(said));
    }
    // A late answer makes no rule.
    let late = (Answer::allow(), PersistScope::User, Some("Bash"));
    let refused = give(&world, &owner(), session, RequestId(1), late).await.expect_err("not open");
    assert_eq!(refused.code, RefusalCode::NotFound);
    assert_eq!(lines(&world, session).await.len(), 2);
}

#[tokio::test]
async fn an_answer_makes_no_rule_that_it_cannot_stand_for() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let command = opened(&mut reader, &puppet, "1", run("ls")).await;
    let nameless = opened(&mut reader, &puppet, "2", permission("Run a command", json!({}))).await;
    let plan = opened(&mut reader, &puppet, "3", Ask::Plan { plan: None, input: json!({}) }).await;
    let edited = Answer::Allow {
        input: Some(json!({ "command": "pwd" })),
        scope: Scope::Once,
        mode: None,
        option: None,
    };
    let twice = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    for (request, answer, rule, why) in [
        (command, edited.clone(), None, "name the rule"),
        (command, twice, None, "leave out the scope"),
        (command, Answer::allow(), Some("Bash(ls"), "needs a closing"),
        (nameless, Answer::allow(), None, "name the rule, or answer once"),
        (plan, Answer::allow(), None, "a rule answers permissions, and this is a plan"),
    ] {
        for scope in [PersistScope::Session, PersistScope::User] {
            let refused = give(&world, &owner(), session, request, (answer.clone(), scope, rule)).await;
            let refused = refused.expect_err(why);
            assert_eq!(refused.code, RefusalCode::Invalid);
            assert!(refused.message.contains(why), "{refused}");
        }
    }
    assert_eq!(lines(&world, session).await, [""; 0]);
    let named = (edited, PersistScope::Session, Some("Bash(pwd)"));
    assert_eq!(give(&world, &owner(), session, command, named).await, Ok(()));
}
