//! Calls that a person edits before approving them: the rules are asked again, whichever frontend sends the answer.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use common::World;
use portolan_core::{
    Action, CommandId, Event, Refusal, RefusalCode, RequestId, Role, Seq, SessionId, WayOut,
    log::delivery::Start,
    policy::{Effect, RuleDraft, rule::ScopeDraft},
    ports::{Order, Report},
    request::{Answer, Ask, Scope},
};
use portolan_testkit::{
    agents::{Strings, permission},
    sessions::principal,
};
use serde_json::{Value, json};

/// The agent asks, and its request waits for a person.
async fn opened(world: &World, session: SessionId, puppet: &Strings, key: &str, ask: Ask) -> RequestId {
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let ask = Box::new(ask);
    puppet
        .say(Report::RequestOpened { key: key.into(), ask: ask.clone(), parent: None, tool: None, raw: None })
        .await;
    let is_it = |event: &Event| matches!(event, Event::RequestOpened { request } if request.ask == *ask);
    let Event::RequestOpened { request } = reader.until(is_it).await else { unreachable!("just found") };
    request.request
}

/// An operator answers.
async fn answer(
    world: &World,
    session: SessionId,
    request: RequestId,
    answer: Answer,
) -> Result<(), Refusal> {
    let action = Action::Answer { request, digest: None, answer, persist: None };
    let operator = principal("operator", Role::Operator);
    world.registry.submit(&operator, session, CommandId::random(), action).await.map(drop)
}

fn with(input: Value) -> Answer {
    Answer::Allow { input: Some(input), scope: Scope::Once, mode: None, option: None }
}

// covers: 002-059
#[tokio::test]
async fn an_approval_of_an_edited_call_is_refused_if_a_rule_denies_that_call() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let deny = world.rule(Effect::Deny, "Bash(git push --force)", ScopeDraft::User).await;
    world.rule(Effect::Deny, "Edit(vendor/**)", ScopeDraft::User).await;
    let request = opened(&world, session, &puppet, "1", permission("Bash", json!({ "command": "ls" }))).await;
    let refused = answer(&world, session, request, with(json!({ "command": "git -C x push -f" })))
        .await
        .expect_err("a rule denies it");
    assert_eq!(refused.code, RefusalCode::Forbidden);
    assert_eq!(
        refused.message,
        "the rule `deny Bash(git push --force)` denies the edited call; change the input, or deny the request"
    );
    assert_eq!(refused.way_out, Some(WayOut::RemoveRule { rule: deny.rule }));
    let path = permission("Edit", json!({ "file_path": "src/a" }));
    let edit = opened(&world, session, &puppet, "2", path).await;
    assert!(answer(&world, session, edit, with(json!({ "file_path": "vendor/a" }))).await.is_err());
    // The requests still wait, and another input is taken.
    answer(&world, session, request, with(json!({ "command": "git push" })))
        .await
        .expect("no rule denies it");
    let told = puppet.told().await.order;
    assert!(matches!(told, Order::Answer { key, .. } if key == "1"));
}

#[tokio::test]
async fn an_edited_call_that_a_rule_only_asks_about_may_be_approved() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    world.rule(Effect::Ask, "Bash(git push *)", ScopeDraft::User).await;
    let overridable =
        RuleDraft { overridable: true, ..RuleDraft::new(Effect::Deny, "Bash(make)", ScopeDraft::User) };
    let owner = portolan_testkit::sessions::owner();
    world.registry.add_rule(&owner, CommandId::random(), overridable).await.expect("a rule");
    world.rule(Effect::Allow, "Bash(make)", ScopeDraft::Session { session }).await;
    for (key, command) in [("1", "git push origin"), ("2", "make")] {
        let request =
            opened(&world, session, &puppet, key, permission("Bash", json!({ "command": key }))).await;
        assert_eq!(answer(&world, session, request, with(json!({ "command": command }))).await, Ok(()));
    }
}

#[tokio::test]
async fn a_hook_cannot_replace_a_call_by_one_that_a_rule_denies() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    world.rule(Effect::Deny, "Bash(rm *)", ScopeDraft::User).await;
    let input =
        json!({ "tool_name": "Bash", "tool_input": { "command": "ls" }, "cwd": std::env::temp_dir() });
    let hook = Ask::Hook { event: "PreToolUse".into(), input };
    let request = opened(&world, session, &puppet, "1", hook).await;
    let output = |updated: Value| Answer::Output {
        output: json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse",
            "permissionDecision": "allow", "updatedInput": updated } }),
    };
    let refused = answer(&world, session, request, output(json!({ "command": "rm -r x" }))).await;
    assert!(refused.expect_err("a rule denies it").message.contains("`deny Bash(rm *)`"));
    assert_eq!(answer(&world, session, request, output(json!({ "command": "ls -l" }))).await, Ok(()));
}
