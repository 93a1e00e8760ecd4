//! Requests in both forms: a custom event with a separate answer, or an interrupt and a resume.

use portolan_core::{Action, CommandId, RefusalCode, RequestId, request};

use super::*;

fn call() -> Value {
    json!({"event": {"type": "tool_call", "tool": "c1", "name": "Bash", "kind": "execute", "input": {"command": "ls"}}})
}

fn result() -> Value {
    json!({"event": {"type": "tool_result", "tool": "c1", "outcome": "done", "content": [{"type": "text", "text": "a file"}]}})
}

fn asks(ask: Value) -> String {
    steps(&json!([call(), {"ask": {"ask": ask, "tool": "c1"}}, result()]))
}

fn question() -> Value {
    json!({"kind": "question", "questions": [
        {"question": "Where to?", "choices": [{"label": "North"}, {"label": "South"}], "multiple": false, "free_text": true}]})
}

async fn approve(client: &Client, asked: &Value, answer: Value) -> (StatusCode, Value) {
    let mut body = answer;
    body["requestId"] = asked["requestId"].clone();
    let path = format!("/api/sessions/{}/tool-approval", asked["sessionId"].as_str().unwrap());
    client.json(Method::POST, &path, &body).await
}

async fn until_asked(run: &mut Answer) -> Value {
    let so_far = run.until(|event| event["name"] == "tool_approval_request").await;
    custom(&so_far, "tool_approval_request")[0].clone()
}

// covers: 004-019, 004-031
#[tokio::test]
async fn a_permission_is_a_custom_event_and_its_answer_lets_the_tool_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(permission()))])).await;
    let asked = until_asked(&mut run).await;
    assert_eq!(
        (&asked["toolName"], &asked["toolInput"], &asked["kind"], &asked["toolCallId"]),
        (&json!("Bash"), &json!({"command": "ls"}), &json!("permission"), &json!("c1"))
    );
    assert_eq!(asked["risk"], json!({"level": "high", "reasons": ["runs a command"]}));
    let edited = json!({"behavior": "allow", "updatedInput": {"command": "ls -l"}});
    assert_eq!(
        approve(&ada, &asked, edited).await,
        (StatusCode::OK, json!({"ok": true, "requestId": asked["requestId"]}))
    );
    let events = run.events().await;
    let resolved = custom(&events, "tool_approval_resolved");
    assert_eq!((&resolved[0]["outcome"], &resolved[0]["by"]), (&json!("allowed"), &json!("ada (agui)")));
    let page = shown(&[&events]);
    assert!(page[1].2.contains(r#""input":{"command":"ls -l"}"#), "{page:?}");
    assert_eq!(page[2].0, "tool");
    let again = approve(&ada, &asked, json!({"behavior": "allow"})).await;
    assert_eq!(
        (again.0, &again.1["error"]),
        (StatusCode::CONFLICT, &json!("already_closed")),
        "the first answer wins"
    );
    assert!(again.1["message"].as_str().unwrap().contains("ada"), "{}", again.1);
}

#[tokio::test]
async fn a_question_a_plan_and_a_form_are_asked_and_answered_the_same_way() {
    let plan = json!({"kind": "plan", "plan": "1. sail", "input": {}});
    let form = json!({"kind": "elicitation", "server": "harbour", "message": "Which berth?", "schema": {"type": "object"}});
    let newer = json!({"kind": "other", "name": "newer", "body": [1]});
    let cases = [
        (
            question(),
            "AskUserQuestion",
            json!({"answers": {"Where to?": "North"}}),
            r#"{"Where to?":["North"]}"#,
        ),
        (
            question(),
            "AskUserQuestion",
            json!({"behavior": "allow", "updatedInput": {"answers": {"Where to?": "my own way"}}}),
            "my own way",
        ),
        (plan.clone(), "ExitPlanMode", json!({"behavior": "allow"}), r#""kind":"allow""#),
        (plan, "ExitPlanMode", json!({"behavior": "deny", "message": "think again"}), "think again"),
        (form, "harbour", json!({"content": {"berth": 7}}), r#"{"berth":7}"#),
        (newer, "newer", json!({"output": {"x": 1}}), r#"{"x":1}"#),
    ];
    for (ask, tool, answer, told) in cases {
        let stand = Stand::new().await;
        let ada = stand.ada().await;
        let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(ask.clone()))])).await;
        let asked = until_asked(&mut run).await;
        assert_eq!((&asked["kind"], &asked["toolName"]), (&ask["kind"], &json!(tool)));
        assert_eq!(approve(&ada, &asked, answer.clone()).await.0, StatusCode::OK, "{answer}");
        let page = shown(&[&run.events().await]);
        assert!(page[1].2.contains(told), "{page:?}");
    }
}

#[tokio::test]
async fn the_answer_to_a_plan_names_no_mode_that_may_ask_nobody() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let plan = json!({"kind": "plan", "plan": "1. sail", "input": {}});
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(plan))])).await;
    let asked = until_asked(&mut run).await;
    let off = json!({"behavior": "allow", "mode": "bypassPermissions"});
    assert_eq!(approve(&ada, &asked, off).await.0, StatusCode::FORBIDDEN);
    assert_eq!(approve(&ada, &asked, json!({"behavior": "allow"})).await.0, StatusCode::OK);
}

// covers: 004-073
#[tokio::test]
async fn a_hook_that_waits_is_a_hook_callback() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let hook = json!({"kind": "hook", "event": "PreToolUse", "input": {"tool": "Bash"}});
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(hook))])).await;
    let so_far = run.until(|event| event["name"] == "hook_callback").await;
    let asked = custom(&so_far, "hook_callback")[0].clone();
    assert_eq!((&asked["hookEvent"], &asked["input"]), (&json!("PreToolUse"), &json!({"tool": "Bash"})));
    assert!(custom(&so_far, "tool_approval_request").is_empty());
    assert_eq!(approve(&ada, &asked, json!({"output": {"continue": true}})).await.0, StatusCode::OK);
    assert!(shown(&[&run.events().await])[1].2.contains(r#"{"continue":true}"#));
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_changes_nothing() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(permission()))])).await;
    let asked = until_asked(&mut run).await;
    let path = format!("/agui/api/sessions/{}/tool-approval", asked["sessionId"].as_str().unwrap());
    for body in [
        json!({}),
        json!({"requestId": [7], "behavior": "allow"}),
        json!({"requestId": asked["requestId"]}),
        json!({"requestId": asked["requestId"], "behavior": "maybe"}),
        json!({"requestId": asked["requestId"], "behavior": "allow", "updatedInput": 7}),
    ] {
        let (status, answer) = ada.json(Method::POST, &path, &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {answer}");
        assert!(answer["message"].is_string());
    }
    let other = json!({"requestId": asked["requestId"], "behavior": "allow", "digest": "00"});
    assert_eq!(ada.json(Method::POST, &path, &other).await.1["error"], "stale", "it is not what was shown");
    let viewer = stand.someone("val", Role::Viewer).await;
    assert_eq!(approve(&viewer, &asked, json!({"behavior": "allow"})).await.0, StatusCode::FORBIDDEN);
    let unknown = SessionId::new();
    let nowhere = format!("/api/sessions/{unknown}/tool-approval");
    let (status, _) = ada.json(Method::POST, &nowhere, &json!({"requestId": "1", "behavior": "allow"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // Also by the thread's name, and none of the above has counted.
    let by_thread = json!({"requestId": asked["requestId"], "behavior": "allow"});
    assert_eq!(ada.json(Method::POST, "/api/sessions/t1/tool-approval", &by_thread).await.0, StatusCode::OK);
    run.events().await;
}

#[tokio::test]
async fn a_request_that_somebody_else_answers_closes_in_the_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(permission()))])).await;
    let asked = until_asked(&mut run).await;
    let request = RequestId(asked["requestId"].as_str().unwrap().parse().unwrap());
    let action = Action::Answer { request, digest: None, answer: request::Answer::deny(None), persist: None };
    let session = asked["sessionId"].as_str().unwrap().parse().unwrap();
    let elsewhere = Principal { via: "cli".into(), ..owner() };
    stand.agui.registry.submit(&elsewhere, session, CommandId::random(), action).await.unwrap();
    let events = run.events().await;
    let resolved = custom(&events, "tool_approval_resolved");
    assert_eq!((&resolved[0]["outcome"], &resolved[0]["by"]), (&json!("denied"), &json!("owner (cli)")));
}

#[tokio::test]
async fn a_request_that_waits_after_the_turn_is_shown_again_on_connect() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.say("t1", &steps(&json!([{"linger": permission()}]))).await;
    let session = stand.sessions().await[0].session;
    stand.until(session, |state| !state.requests.is_empty()).await;
    for _ in 0..2 {
        let events = ada.connect("t1").await;
        assert_eq!(custom(&events, "tool_approval_request").len(), 1);
        assert_eq!(outline(&events).last(), Some(&"RUN_FINISHED"), "nothing runs: the chat can be used");
    }
}

#[tokio::test]
async fn a_client_that_asks_for_interrupts_gets_an_interrupt_and_resumes_the_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([
        {"event": {"type": "item_started", "item": "m1", "kind": "text"}},
        {"event": {"type": "delta", "item": "m1", "text": "I would "}},
        call(), {"ask": {"ask": permission(), "tool": "c1"}}, result(),
        {"event": {"type": "delta", "item": "m1", "text": "like that."}},
        {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "I would like that."}]}},
    ]));
    let said = user("u1", &script);
    let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
    let asked = interrupts(&first);
    assert_eq!(asked.len(), 1);
    assert_eq!(
        (&asked[0]["reason"], &asked[0]["toolCallId"], &asked[0]["message"]),
        (&json!("permission"), &json!("c1"), &json!("Bash: ls"))
    );
    assert_eq!(asked[0]["metadata"]["toolInput"], json!({"command": "ls"}));
    assert!(custom(&first, "tool_approval_request").is_empty(), "asked once");
    // A reloaded page gets the request again.
    let connected =
        ada.post("/agent/default/connect", &by_interrupt(input("t1", "c1", &[]))).await.events().await;
    assert_eq!(interrupts(&connected), asked);
    let mut resume = by_interrupt(input("t1", "r1", &[said]));
    resume["resume"] =
        json!([{"interruptId": asked[0]["id"], "status": "resolved", "payload": {"approved": true}}]);
    let second = ada.run(resume.clone()).await;
    assert_eq!(interrupts(&second), [] as [Value; 0]);
    let page = shown(&[&connected, &second]);
    let seen = texts(&page);
    assert_eq!(seen[1], ("Bash", r#"{"command":"ls"}"#));
    assert!(
        seen.iter().any(|(role, text)| *role == "assistant" && *text == "I would like that."),
        "{seen:?}"
    );
    assert!(seen.iter().any(|(role, text)| *role == "tool" && *text == "a file"), "{seen:?}");
    let late = ada.run(resume).await;
    assert_eq!(outline(&late), ["RUN_STARTED", "RUN_FINISHED"], "an old answer does nothing");
}

#[tokio::test]
async fn a_text_that_an_interrupt_cuts_goes_on_in_the_next_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([
        {"event": {"type": "item_started", "item": "m1", "kind": "text"}},
        {"event": {"type": "delta", "item": "m1", "text": "I would "}},
        {"ask": {"ask": question(), "tool": null}},
        {"event": {"type": "delta", "item": "m1", "text": "like that."}},
        {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "I would like that."}]}},
    ]));
    let said = user("u1", &script);
    let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
    let asked = interrupts(&first);
    assert_eq!(texts(&shown(&[&first])), [("assistant", "I would ")]);
    let mut wrong = by_interrupt(input("t1", "r1", std::slice::from_ref(&said)));
    wrong["resume"] = json!([{"interruptId": asked[0]["id"], "status": "resolved", "payload": 7}]);
    assert_eq!(ada.run(wrong).await.last().unwrap()["code"], "invalid_answer");
    let mut resume = by_interrupt(input("t1", "r1", &[said]));
    resume["resume"] =
        json!([{"interruptId": asked[0]["id"], "status": "resolved", "payload": {"Where to?": "South"}}]);
    let second = ada.run(resume).await;
    let page = shown(&[&first, &second]);
    assert_eq!(page[0].2, "I would like that.", "{page:?}");
    assert!(page[1].2.contains("South"));
}

#[tokio::test]
async fn an_app_of_the_older_form_is_asked_by_on_interrupt_and_answers_by_a_command() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([
        call(), {"ask": {"ask": permission(), "tool": "c1"}}, result(), {"ask": {"ask": question(), "tool": null}},
    ]));
    let older = |mut run: Value| {
        run["forwardedProps"]["approvals"] = json!("on_interrupt");
        run
    };
    let said = user("u1", &script);
    let mut run = older(input("t1", "r1", std::slice::from_ref(&said)));
    let mut asked = Vec::new();
    for answer in [json!({"approved": true}), json!({"answers": {"Where to?": "North"}}), json!(null)] {
        let events = ada.run(run.clone()).await;
        let last = events.last().unwrap();
        assert_eq!((&last["type"], last.get("outcome")), (&json!("RUN_FINISHED"), None), "{last}");
        assert!(custom(&events, "tool_approval_request").is_empty(), "asked once");
        let events = custom(&events, "on_interrupt");
        let Some(event) = events.first() else { break };
        asked.push(event["kind"].as_str().unwrap().to_owned());
        assert_eq!(events.len(), 1, "clients keep one");
        // Its page may be reloaded meanwhile.
        let connected =
            ada.post("/agent/default/connect", &older(input("t1", "c1", &[]))).await.events().await;
        assert_eq!(custom(&connected, "on_interrupt"), [*event]);
        run["forwardedProps"]["command"] = json!({"resume": answer, "interruptEvent": event});
    }
    assert_eq!(asked, ["permission", "question"]);
    let session = stand.sessions().await[0].session;
    assert_eq!(stand.state(session).await.summary.turns, 1, "nothing was said again");
    let history = shown(&[&ada.connect("t1").await]);
    assert!(history.iter().any(|(_, _, text)| text.contains("North")), "{history:?}");
    run["forwardedProps"]["command"] = json!({"resume": true, "interruptEvent": "?"});
    assert_eq!(ada.run(run).await.last().unwrap()["code"], "invalid");
}

#[tokio::test]
async fn a_request_that_does_not_wait_is_not_answered() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(permission()))])).await;
    let asked = until_asked(&mut run).await;
    let session = asked["sessionId"].as_str().unwrap().parse().unwrap();
    let path = format!("/api/sessions/{session}/tool-approval");
    let later: u64 = asked["requestId"].as_str().unwrap().parse::<u64>().unwrap() + 3;
    let body = json!({"requestId": later, "behavior": "allow"});
    // Apps may use any name for a request; a foreign name counts as a closed request.
    let names = [json!(later), json!(later.to_string()), json!("toolu_1"), json!(-1)];
    for name in names {
        let body = json!({"requestId": name, "behavior": "allow"});
        let (status, answer) = ada.json(Method::POST, &path, &body).await;
        assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{name}");
        assert!(answer["message"].as_str().unwrap().contains("waits in this session"), "{answer}");
    }
    let viewer = stand.someone("val", Role::Viewer).await;
    assert_eq!(viewer.json(Method::POST, &path, &body).await.0, StatusCode::FORBIDDEN);
    let (registry, owner) = (&stand.agui.registry, owner());
    let entries = registry.history(&owner, session, portolan_core::Seq::ZERO, None, 1000).await.unwrap();
    let submitted = |frame: &[u8]| String::from_utf8_lossy(frame).contains("\"name\":\"answer\"");
    assert!(!entries.iter().any(|entry| submitted(&entry.frame)), "nothing was asked of the session");
    assert_eq!(stand.state(session).await.requests.len(), 1);
    approve(&ada, &asked, json!({"behavior": "allow"})).await;
    run.events().await;
}

#[test]
fn an_answer_is_made_only_for_what_is_known_to_wait() {
    let spec = portolan_core::SessionSpec {
        agent: "player".into(),
        cwd: "/".into(),
        ..portolan_core::SessionSpec::default()
    };
    let state = State::new(SessionId::from_u128(7), spec, portolan_core::Millis(0));
    let approval = serde_json::from_value(json!({"requestId": "9", "behavior": "allow"})).unwrap();
    let made = crate::agui::answers::action(&state, RequestId(9), &approval);
    // The request may open in the next moment; a denial would be an answer that nobody gave.
    assert!(
        matches!(made, Err(crate::agui::answers::NoAnswer::Refused(refusal)) if refusal.code == RefusalCode::NotFound)
    );
}

#[tokio::test]
async fn an_answer_to_a_request_that_never_existed_ends_with_an_error() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let said = user("u1", &asks(permission()));
    let first = ada.run(by_interrupt(input("t1", "r1", std::slice::from_ref(&said)))).await;
    let asked = interrupts(&first)[0].clone();
    for unknown in ["nobody", "999999", "1", ""] {
        let id = json!({"id": unknown});
        let events =
            ada.run(resumed(input("t1", "r2", std::slice::from_ref(&said)), &id, &json!(true))).await;
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("not_found")), "{unknown}");
        let message = format!("this session never had a request `{unknown}`");
        assert_eq!(last["message"], message);
    }
    // The open request stays open, and a repeated answer is not a failure.
    for _ in 0..2 {
        let events =
            ada.run(resumed(input("t1", "r3", std::slice::from_ref(&said)), &asked, &json!(true))).await;
        assert_eq!(outline(&events).last(), Some(&"RUN_FINISHED"), "{events:?}");
    }
}

#[tokio::test]
async fn the_event_of_an_answered_request_names_its_outcome() {
    let hook = json!({"kind": "hook", "event": "PreToolUse", "input": {}});
    let plan = json!({"kind": "plan", "plan": "1. sail", "input": {}});
    let cases = [
        (permission(), json!({"behavior": "allow"}), "allowed"),
        (permission(), json!({"behavior": "allow", "scope": "session"}), "allowed"),
        (permission(), json!({"behavior": "deny"}), "denied"),
        (plan.clone(), json!({"behavior": "allow"}), "allowed"),
        (plan, json!({"behavior": "deny"}), "denied"),
        (question(), json!({"answers": {"Where to?": "North"}}), "answered"),
        (question(), json!({"behavior": "deny"}), "denied"),
        (hook, json!({"output": {"decision": "block"}}), "answered"),
    ];
    for (ask, answer, outcome) in cases {
        let stand = Stand::new().await;
        let ada = stand.ada().await;
        let mut run = ada.begin(input("t1", "r1", &[user("u1", &asks(ask))])).await;
        let is_asked = |event: &Value| {
            ["tool_approval_request", "hook_callback"].iter().any(|name| event["name"] == *name)
        };
        let asked = run.until(is_asked).await.last().unwrap()["value"].clone();
        assert_eq!(approve(&ada, &asked, answer.clone()).await.0, StatusCode::OK, "{answer}");
        let events = run.events().await;
        assert_eq!(custom(&events, "tool_approval_resolved")[0]["outcome"], outcome, "{answer}");
    }
}
