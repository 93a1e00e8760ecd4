//! A session gets each message once, whoever sends it and however often; and a client that has left or lost access
//! sends nothing more.

use std::time::Duration;

use portolan_core::{Action, CommandId, SessionSpec, event::Content, session::state::Status};

use super::*;
use crate::agui::{OnClose, runs::STREAMS};

fn asks() -> String {
    steps(&json!([{"ask": {"ask": permission(), "tool": null}}]))
}

#[tokio::test]
async fn an_answer_by_another_token_does_not_repeat_the_prompt() {
    let stand = Stand::new().await;
    let (ada, bob) = (stand.ada().await, stand.someone("bob", Role::Operator).await);
    let said = user("u1", &asks());
    let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
    let asked = interrupts(&first)[0].clone();
    let run = resumed(input("t1", "r2", std::slice::from_ref(&said)), &asked, &json!(true));
    let second = bob.run(run.clone()).await;
    assert!(texts(&shown(&[&second]))[0].1.starts_with("answer: "), "{second:?}");
    // And when it comes late: with the same run, with another run, under a name that is not a valid command id.
    for run_id in ["r2", "r3"] {
        let mut late = run.clone();
        late["runId"] = json!(run_id);
        assert_eq!(outline(&bob.run(late).await), ["RUN_STARTED", "RUN_FINISHED"]);
    }
    assert_eq!(stand.state(session_of(&first)).await.summary.turns, 1);
}

#[tokio::test]
async fn an_answer_on_a_thread_that_a_terminal_began_does_not_repeat_the_prompt() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let spec = SessionSpec { agent: "player".into(), cwd: "/".into(), ..SessionSpec::default() };
    let session = stand.agui.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session;
    let prompt = Action::Prompt { content: vec![Content::text(asks())] };
    stand.agui.registry.submit(&owner(), session, CommandId::random(), prompt).await.unwrap();
    stand.until(session, |state| !state.requests.is_empty()).await;
    let thread = session.to_string();
    let connected = ada.post("/agent/default/connect", &by_interrupt(input(&thread, "c1", &[]))).await;
    let connected = connected.events().await;
    let asked = interrupts(&connected)[0].clone();
    let history = connected.iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").unwrap();
    let messages = history["messages"].as_array().unwrap().clone();
    assert!(messages[0]["id"].as_str().unwrap().starts_with("prompt-"), "{messages:?}");
    for run in ["r1", "r2"] {
        ada.run(resumed(input(&thread, run, &messages), &asked, &json!(true))).await;
    }
    assert_eq!(stand.state(session).await.summary.turns, 1);
    // A page may also use such a name for its own message.
    let own = input(&thread, "r3", &[user(messages[0]["id"].as_str().unwrap(), "something else")]);
    assert_eq!(texts(&shown(&[&ada.run(own).await])), [("assistant", "you said: something else")]);
}

#[tokio::test]
async fn a_new_message_beside_an_answer_is_sent_to_the_agent() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let said = user("u1", &asks());
    let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
    let asked = interrupts(&first)[0].clone();
    let run = resumed(input("t1", "r1", &[said, user("u2", "and this")]), &asked, &json!(true));
    let second = ada.run(run).await;
    assert_eq!(texts(&shown(&[&second])).last(), Some(&("assistant", "you said: and this")));
    let nowhere = resumed(input("nowhere", "r1", &[user("u3", "hello?")]), &asked, &json!(true));
    assert_eq!(ada.run(nowhere).await.last().unwrap()["code"], "not_found");
    assert_eq!(stand.sessions().await.len(), 1, "an answer begins no session");
}

#[tokio::test]
async fn a_run_that_is_sent_again_and_again_prompts_the_agent_once_and_ends_each_time() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let run = input("t1", "r1", &[user("u1", "hello")]);
    let first = ada.run(run.clone()).await;
    assert_eq!(texts(&shown(&[&first])), [("assistant", "you said: hello")]);
    for _ in 0..3 {
        assert_eq!(outline(&ada.run(run.clone()).await), ["RUN_STARTED", "RUN_FINISHED"]);
    }
    // Sent again in another run, and that run repeated.
    let again = input("t1", "r2", &[user("u1", "hello")]);
    assert_eq!(texts(&shown(&[&ada.run(again.clone()).await])), [("assistant", "you said: hello")]);
    for _ in 0..3 {
        assert_eq!(outline(&ada.run(again.clone()).await), ["RUN_STARTED", "RUN_FINISHED"]);
    }
    let state = stand.state(session_of(&first)).await;
    assert_eq!((state.summary.turns, state.commands.len()), (2, 0));
}

#[tokio::test]
async fn a_run_that_is_sent_several_times_at_once_prompts_the_agent_once() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.say("t1", "first of all").await;
    for message in ["u2", "u3"] {
        let run = || ada.run(input("t1", "r2", &[user(message, "hello")]));
        let all = tokio::join!(run(), run(), run(), run());
        for events in [all.0, all.1, all.2, all.3] {
            assert_eq!(outline(&events).last(), Some(&"RUN_FINISHED"));
        }
    }
    let session = stand.sessions().await[0].session;
    assert_eq!(stand.state(session).await.summary.turns, 3);
}

#[tokio::test]
async fn a_stopped_run_that_is_sent_again_ends_with_an_error() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut first = ada.begin(input("t1", "r1", &[user("u1", "[\"wait\"]")])).await;
    let session = session_of(&first.until(is("STATE_SNAPSHOT")).await);
    stand.until(session, |state| state.turn.is_some()).await;
    let run = input("t1", "r2", &[user("u2", "two")]);
    let mut second = ada.begin(run.clone()).await;
    second.until(is("STATE_SNAPSHOT")).await;
    stand.until(session, |state| state.summary.queued == 1).await;
    ada.json(Method::POST, "/agent/default/stop/t1", &json!({"runId": "r2"})).await;
    assert_eq!(outline(&second.events().await), ["RUN_STARTED", "RUN_FINISHED"]);
    let again = ada.run(run).await;
    assert_eq!(
        (&again.last().unwrap()["type"], &again.last().unwrap()["code"]),
        (&json!("RUN_ERROR"), &json!("ended"))
    );
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    first.events().await;
    assert_eq!(stand.state(session).await.summary.turns, 1);
}

#[tokio::test]
async fn a_message_that_another_token_repeats_during_its_run_is_not_sent_again() {
    let stand = Stand::new().await;
    let (ada, bob) = (stand.ada().await, stand.someone("bob", Role::Operator).await);
    let message = user("u1", "[\"wait\"]");
    let mut first = ada.begin(input("t1", "r1", std::slice::from_ref(&message))).await;
    let session = session_of(&first.until(is("STATE_SNAPSHOT")).await);
    stand.until(session, |state| state.turn.is_some()).await;
    let mut second = bob.begin(input("t1", "r2", &[message])).await;
    second.until(is("STATE_SNAPSHOT")).await;
    // A message that waited for its turn would start now.
    ada.json(Method::POST, "/agent/default/stop/t1", &json!({"runId": "r1"})).await;
    for run in [first, second] {
        assert_eq!(outline(&run.events().await).last(), Some(&"RUN_FINISHED"));
    }
    let state = stand.state(session).await;
    assert_eq!((state.summary.turns, state.summary.queued), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_waits_for_a_withdrawn_prompt_ends() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let spec = SessionSpec { agent: "sleeper".into(), cwd: "/".into(), ..SessionSpec::default() };
    let session = stand.agui.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session;
    let submit = |action| stand.agui.registry.submit(&ada.who, session, CommandId::random(), action);
    let prompt = submit(Action::Prompt { content: vec![Content::text("are you there?")] }).await.unwrap().seq;
    let mut page = ada.post("/agent/default/connect", &input(&session.to_string(), "c1", &[])).await;
    page.until(is("MESSAGES_SNAPSHOT")).await;
    submit(Action::Withdraw { prompt }).await.unwrap();
    assert_eq!(outline(&page.events().await).last(), Some(&"RUN_FINISHED"));
}

#[tokio::test]
async fn a_revoked_or_stopped_run_prompts_nothing_when_the_agent_becomes_ready() {
    for how in ["is revoked", "stops it", "stops whatever runs"] {
        let stand = Stand::new().await;
        let ada = stand.ada().await;
        let mut run = ada.post("/agent/late/run", &input("t1", "r1", &[user("u1", "hello")])).await;
        let session = session_of(&run.until(is("STATE_SNAPSHOT")).await);
        stand.until(session, |state| state.summary.queued == 1).await;
        let (events, code) = if how == "is revoked" {
            stand.behind.tokens.revoke(&ada.who.token).await.unwrap();
            (run.events().await, json!("unauthenticated"))
        } else {
            let body = if how == "stops it" { json!({"runId": "r1"}) } else { Value::Null };
            let stop = ada.json(Method::POST, "/agent/late/stop/t1", &body).await;
            assert_eq!(stop.1["stopped"], true);
            (run.events().await, json!(null))
        };
        assert_eq!(events.last().unwrap()["code"], code, "{how}");
        stand.until_all_ended().await;
        stand.ready.cancel();
        let state = stand.until(session, |state| state.summary.status == Status::Connected).await;
        assert_eq!((state.summary.turns, state.commands.len()), (0, 0), "{how}: nothing was said");
    }
}

#[tokio::test]
async fn waiting_prompts_of_a_revoked_token_are_withdrawn() {
    let stand = Stand::new().await;
    let (ada, bob) = (stand.ada().await, stand.someone("bob", Role::Operator).await);
    let mut first = ada.begin(input("t1", "r1", &[user("u1", "[\"wait\"]")])).await;
    let session = session_of(&first.until(is("STATE_SNAPSHOT")).await);
    stand.until(session, |state| state.turn.is_some()).await;
    let mut second = bob.begin(input("t1", "r2", &[user("u2", "two")])).await;
    second.until(is("STATE_SNAPSHOT")).await;
    stand.until(session, |state| state.summary.queued == 1).await;
    stand.behind.tokens.revoke(&bob.who.token).await.unwrap();
    assert_eq!(second.events().await.last().unwrap()["code"], "unauthenticated");
    stand.until(session, |state| state.summary.queued == 0).await;
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    first.events().await;
    assert_eq!(stand.state(session).await.summary.turns, 1);
}

#[tokio::test(start_paused = true)]
async fn on_close_decides_alike_for_a_new_run_and_for_a_resumed_run() {
    for (on_close, goes_on) in [(OnClose::Auto, false), (OnClose::Stop, false), (OnClose::Continue, true)] {
        let stand = Stand::with(|settings| settings.on_close = on_close).await;
        let ada = stand.ada().await;
        let said = user("u1", &steps(&json!([{"ask": {"ask": permission(), "tool": null}}, "wait"])));
        let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
        let asked = interrupts(&first)[0].clone();
        let mut second = ada.begin(resumed(input("t1", "r1", &[said]), &asked, &json!(true))).await;
        second.until(is("TEXT_MESSAGE_END")).await;
        drop(second);
        let session = session_of(&first);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(stand.state(session).await.turn.is_some(), goes_on, "{on_close:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_connect_of_another_client_changes_nothing_for_a_run() {
    let stand = Stand::new().await;
    let (ada, val) = (stand.ada().await, stand.someone("val", Role::Viewer).await);
    // A plain client does not become a page because a viewer or another page has connected to its thread.
    for other in [&val, &stand.someone("bob", Role::Operator).await] {
        other.connect("t1").await;
    }
    let mut run = ada.begin(input("t1", "r1", &[user("u1", "[\"wait\"]")])).await;
    let session = session_of(&run.until(is("STATE_SNAPSHOT")).await);
    stand.until(session, |state| state.turn.is_some()).await;
    drop(run);
    stand.until(session, |state| state.turn.is_none()).await;
    // And the state that its run has left stays, whoever connected meanwhile.
    let said = user(
        "u2",
        &steps(&json!([
            {"event": {"type": "item_started", "item": "m1", "kind": "text"}},
            {"event": {"type": "delta", "item": "m1", "text": "I would "}},
            {"ask": {"ask": permission(), "tool": null}},
            {"event": {"type": "delta", "item": "m1", "text": "like that."}},
            {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "I would like that."}]}},
        ])),
    );
    let first = ada.run(by_interrupt(input("t1", "r2", std::slice::from_ref(&said)))).await;
    val.post("/agent/default/connect", &by_interrupt(input("t1", "c1", &[]))).await.events().await;
    let asked = interrupts(&first)[0].clone();
    let second = ada.run(resumed(input("t1", "r2", &[said]), &asked, &json!(true))).await;
    assert_eq!(shown(&[&first, &second])[0].2, "I would like that.");
}

#[tokio::test]
async fn a_token_with_too_many_streams_is_refused_and_other_tokens_are_not() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let seats: Vec<_> = (0..STREAMS).map(|_| stand.agui.runs.sit_down(&ada.who.token).unwrap()).collect();
    for path in ["/agent/default/run", "/agent/default/connect"] {
        let (status, answer) = ada.json(Method::POST, path, &input("t1", "r1", &[user("u1", "hi")])).await;
        assert_eq!((status, &answer["error"]), (StatusCode::TOO_MANY_REQUESTS, &json!("busy")));
        assert!(answer["message"].as_str().unwrap().contains("256 streams"), "{answer}");
    }
    let bob = stand.someone("bob", Role::Operator).await;
    assert_eq!(texts(&shown(&[&bob.say("t1", "hi").await])), [("assistant", "you said: hi")]);
    drop(seats);
    for number in 0..=STREAMS {
        ada.connect(&format!("thread {number}")).await;
    }
}
