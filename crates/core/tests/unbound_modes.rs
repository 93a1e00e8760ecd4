//! Modes in which an agent acts without asking, while there are deny rules; and tools that a session is created with.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::sync::Arc;

use common::{World, spec};
use portolan_core::{
    Action, CommandId, Event, Principal, Refusal, RefusalCode, Role, Seq, SessionSpec, WayOut,
    access::Bypass,
    log::delivery::Start,
    policy::{Effect, rule::ScopeDraft},
    request::{Answer, Outcome},
    session::machine::Policy,
    spec::ForkPoint,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::permission,
    sessions::{owner, principal},
};
use serde_json::json;

async fn world() -> World {
    let policy = Policy { bypass: Bypass::ForOwners, ..Policy::default() };
    World::over(Arc::new(MemoryStore::new()), policy).await
}

fn with_mode(mode: &str) -> SessionSpec {
    SessionSpec { mode: Some(mode.into()), ..spec() }
}

async fn create(world: &World, who: &Principal, spec: SessionSpec) -> Result<(), Refusal> {
    let made = world.registry.create(who, CommandId::random(), spec).await;
    if made.is_ok() {
        world.puppet().await.ready().await;
    }
    made.map(drop)
}

// covers: 002-067, 004-042
#[tokio::test]
async fn a_mode_in_which_a_deny_rule_cannot_stop_the_agent_is_refused_while_the_rule_holds() {
    let world = world().await;
    let (session, _puppet) = world.session().await;
    let set = async |mode: &str| {
        let action = Action::SetMode { mode: mode.into() };
        world.registry.submit(&owner(), session, CommandId::random(), action).await.map(drop)
    };
    world.rule(Effect::Allow, "Bash(ls)", ScopeDraft::User).await;
    world.rule(Effect::Ask, "Bash(rm *)", ScopeDraft::User).await;
    assert_eq!(create(&world, &owner(), with_mode("edit")).await, Ok(()), "no rule denies");
    let deny = world.rule(Effect::Deny, "Bash(git push --force)", ScopeDraft::User).await;
    for mode in ["edit", "off"] {
        for refused in [create(&world, &owner(), with_mode(mode)).await, set(mode).await] {
            let refused = refused.expect_err(mode);
            assert_eq!(refused.code, RefusalCode::Forbidden);
            assert!(refused.message.contains("`deny Bash(git push --force)`"), "{refused}");
            assert_eq!(refused.way_out, Some(WayOut::RemoveRule { rule: deny.rule.clone() }));
        }
    }
    assert_eq!(create(&world, &owner(), with_mode("ask")).await, Ok(()), "the agent asks there");
    assert!(set("ask").await.is_ok());
    world.registry.remove_rule(&owner(), &deny.rule).await.expect("a removal");
    assert_eq!(create(&world, &owner(), with_mode("edit")).await, Ok(()));
    assert!(set("off").await.is_ok());
}

#[tokio::test]
async fn a_deny_rule_of_another_project_refuses_no_mode() {
    let world = world().await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let scope = ScopeDraft::Project { folder: elsewhere.path().to_owned() };
    world.rule(Effect::Deny, "Bash(rm *)", scope).await;
    assert_eq!(create(&world, &owner(), with_mode("edit")).await, Ok(()));
    let there = SessionSpec { cwd: elsewhere.path().to_owned(), ..with_mode("edit") };
    assert!(create(&world, &owner(), there).await.is_err());
}

// covers: 004-042
#[tokio::test]
async fn a_fork_does_not_lead_past_the_deny_rule() {
    let world = world().await;
    let made =
        world.registry.create(&owner(), CommandId::random(), with_mode("off")).await.expect("a session");
    world.puppet().await.ready().await;
    world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
    let fork = |mode: Option<&str>| SessionSpec {
        fork: Some(ForkPoint { session: made.session, at: None }),
        mode: mode.map(Into::into),
        ..SessionSpec::default()
    };
    assert!(create(&world, &owner(), fork(None)).await.is_err(), "the mode of its source");
    assert_eq!(create(&world, &owner(), fork(Some("ask"))).await, Ok(()));
}

// covers: 002-070
#[tokio::test]
async fn the_tools_of_a_new_session_are_rules_and_a_deny_rule_still_holds() {
    let world = world().await;
    world.rule(Effect::Deny, "Bash(git push --force)", ScopeDraft::User).await;
    let tools = ["Bash(git:*)", "Read", "mcp__db"].map(str::to_owned).to_vec();
    let asked = SessionSpec { allowed_tools: tools, ..spec() };
    let operator = principal("operator", Role::Operator);
    let session =
        world.registry.create(&operator, CommandId::random(), asked).await.expect("a session").session;
    let puppet = world.puppet().await;
    assert_eq!(puppet.launch.spec.allowed_tools, [""; 0], "the agent allows nothing by itself");
    puppet.ready().await;
    let state = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state;
    assert_eq!(state.spec.allowed_tools, ["Bash(git *)", "Read", "mcp__db__*"], "as texts of rules");
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    for (key, tool, input, allowed) in [
        ("1", "Bash", json!({ "command": "git log --oneline" }), Some(true)),
        ("2", "Bash", json!({ "command": "git push -f" }), Some(false)),
        ("3", "Bash", json!({ "command": "git log; rm x" }), None),
        ("4", "mcp__db__query", json!({}), Some(true)),
    ] {
        puppet.open_request(key, permission(tool, input), None, None).await;
        let event = reader
            .until(|event| matches!(event, Event::RequestOpened { .. } | Event::RequestDecided { .. }))
            .await;
        let decided = match event {
            Event::RequestDecided { outcome: Outcome::Answered { answer, .. }, .. } => {
                Some(matches!(answer, Answer::Allow { .. }))
            }
            _ => None,
        };
        assert_eq!(decided, allowed, "{key}");
    }
}
