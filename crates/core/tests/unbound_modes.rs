//! Modes in which an agent acts without asking, while there are deny rules; and tools that a session is created with.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::sync::Arc;

use common::{World, spec};
use portolan_core::{
    Action, Capabilities, CommandId, Event, Principal, Refusal, RefusalCode, Role, Seq, SessionSpec, WayOut,
    access::Bypass,
    capabilities::RulesBind,
    event::Level,
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

#[tokio::test]
async fn a_fork_does_not_inherit_a_mode_of_which_nobody_knows_what_it_asks_while_a_rule_denies() {
    let world = world().await;
    let made = world.registry.create(&owner(), CommandId::random(), with_mode("build")).await;
    let source = made.expect("a session").session;
    world.puppet().await.ready().await;
    world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
    let fork = SessionSpec { fork: Some(ForkPoint { session: source, at: None }), ..SessionSpec::default() };
    let made = world.registry.create(&owner(), CommandId::random(), fork.clone()).await.expect("a fork");
    let puppet = world.puppet().await;
    assert_eq!((puppet.launch.spec.mode.as_deref(), made.mode), (None, None), "as a new session begins");
    let chosen = SessionSpec { mode: Some("build".into()), ..fork };
    assert!(create(&world, &owner(), chosen).await.is_err());
}

/// The next warning of this session.
async fn warning(reader: &mut common::Reader) -> String {
    let is_warning = |event: &Event| matches!(event, Event::Notice { level: Level::Warning, text } if text.contains("rule `"));
    match reader.until(is_warning).await {
        Event::Notice { text, .. } => text,
        _ => unreachable!("just found"),
    }
}

// covers: 002-067
#[tokio::test]
async fn a_mode_of_which_nobody_knows_what_it_asks_is_refused_while_a_deny_rule_holds() {
    let world = world().await;
    let (session, _puppet) = world.session().await;
    assert_eq!(create(&world, &owner(), with_mode("autopilot")).await, Ok(()), "no rule denies");
    world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
    let refused = create(&world, &owner(), with_mode("autopilot")).await.expect_err("nobody knows");
    assert!(refused.message.contains("`deny Bash(rm *)`"), "{refused}");
    let action = Action::SetMode { mode: "autopilot".into() };
    assert!(world.registry.submit(&owner(), session, CommandId::random(), action).await.is_err());
}

#[test]
fn only_agents_that_ask_portolan_before_every_call_are_bound_in_an_unknown_mode() {
    let (advisory, enforced) =
        (common::capabilities(), Capabilities { rules: RulesBind::Enforced, ..common::capabilities() });
    let binds =
        |can: &Capabilities| ["ask", "edit", "off", "never heard of"].map(|mode| can.rules_bind(mode));
    assert_eq!(binds(&advisory), [true, false, false, false]);
    assert_eq!(binds(&enforced), [true; 4]);
}

// covers: 002-067
#[tokio::test]
async fn an_agent_does_not_start_again_in_a_mode_in_which_a_new_deny_rule_cannot_stop_it() {
    let world = world().await;
    for mode in ["edit", "off"] {
        let made = world.registry.create(&owner(), CommandId::random(), with_mode(mode)).await;
        let session = made.expect("a session").session;
        let mut puppet = world.puppet().await;
        puppet.ready().await;
        let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
        world.registry.submit(&owner(), session, CommandId::random(), Action::Stop).await.expect("stopped");
        drop(puppet);
        reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
        let deny = world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
        world.registry.submit(&owner(), session, CommandId::random(), Action::Resume).await.expect("resumed");
        puppet = world.puppet().await;
        assert_eq!(puppet.launch.spec.mode.as_deref(), Some("ask"), "{mode}: its asking mode");
        let told = warning(&mut reader).await;
        assert!(
            told.contains(&format!("in the mode `{mode}`")) && told.contains("`deny Bash(rm *)`"),
            "{told}"
        );
        let state = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state;
        assert_eq!(state.summary.mode.as_deref(), Some("ask"), "everyone sees it");
        world.registry.remove_rule(&owner(), &deny.rule).await.expect("a removal");
    }
}

// covers: 004-042
#[tokio::test]
async fn a_running_session_says_that_a_new_deny_rule_may_not_stop_its_agent() {
    let world = world().await;
    let made = world.registry.create(&owner(), CommandId::random(), with_mode("off")).await;
    let session = made.expect("a session").session;
    world.puppet().await.ready().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    world.rule(Effect::Allow, "Bash(ls)", ScopeDraft::User).await;
    world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
    let told = warning(&mut reader).await;
    assert!(
        told.contains("the new rule `deny Bash(rm *)` may not stop the agent: in the mode `off`"),
        "{told}"
    );
    world.rule(Effect::Deny, "Bash(dd *)", ScopeDraft::Session { session }).await;
    let told = warning(&mut reader).await;
    assert!(told.contains("the new rule `deny Bash(dd *)`"), "{told}");
    let (asking, _puppet) = {
        let made = world.registry.create(&owner(), CommandId::random(), with_mode("ask")).await;
        let session = made.expect("a session").session;
        let puppet = world.puppet().await;
        puppet.ready().await;
        (session, puppet)
    };
    world.rule(Effect::Deny, "Bash(mkfs *)", ScopeDraft::User).await;
    assert!(warning(&mut reader).await.contains("mkfs"), "one notice for each rule");
    world.prompt(asking, "hello").await;
    let mut quiet = world.attach(asking, Start::After(Seq::ZERO)).await;
    quiet.until(|event| matches!(event, Event::CommandAccepted { .. })).await;
    assert!(!quiet.seen.iter().any(|(_, event)| matches!(event, Event::Notice { .. })), "{:?}", quiet.seen);
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
