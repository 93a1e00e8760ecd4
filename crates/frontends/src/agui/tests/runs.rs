//! Runs and connects: every message is sent and shown once, and every body ends.

use std::time::Duration;

use portolan_core::{Action, CommandId, command::Stage, event::Content, session::state::OpenCommand};

use super::*;

// covers: 004-016, 004-030, 004-056, 004-057, 004-065, 004-066, 004-067, 004-077
#[tokio::test]
async fn a_run_says_something_and_streams_the_answer_to_its_end() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let events = ada.say("t1", "hello there").await;
    assert_eq!(events[0], json!({"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}));
    assert_eq!(
        outline(&events),
        [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
    );
    assert_eq!(texts(&shown(&[&events])), [("assistant", "you said: hello there")]);
    assert_eq!(events.last().unwrap(), &json!({"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}));
    let stats = custom(&events, "result_stats");
    assert_eq!(
        (&stats[0]["subtype"], &stats[0]["isError"], &stats[0]["totalCostUsd"]),
        (&json!("success"), &json!(false), &json!(0.25))
    );
    let place = |kind: &str| events.iter().rposition(|event| event["type"] == kind || event["name"] == kind);
    assert!(place("result_stats") < place("RUN_FINISHED"), "the figures come before the end");
}

// covers: 004-015, 004-025, 004-026, 004-027, 004-113
#[tokio::test]
async fn connecting_shows_the_same_messages_however_often() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = json!([
        {"event": {"type": "message", "item": "m1", "content": [{"type": "thinking", "text": "hm"}]}},
        {"event": {"type": "message", "item": "m2", "content": [{"type": "text", "text": "I look."}]}},
        {"event": {"type": "tool_call", "tool": "c1", "name": "Bash", "kind": "execute", "input": {"command": "ls"}}},
        {"event": {"type": "tool_result", "tool": "c1", "outcome": "done", "content": [{"type": "text", "text": "a file"}]}},
        {"event": {"type": "message", "item": "m3", "content": [{"type": "text", "text": "There is a file."}]}},
    ]);
    let script = steps(&script);
    let run = ada.say("t1", &script).await;
    let first = ada.connect("t1").await;
    let second = ada.connect("t1").await;
    assert_eq!(first, second, "read-only and the same each time");
    assert_eq!(outline(&first), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    let page = shown(&[&first, &second]);
    let user = ("user".to_owned(), "u1".to_owned(), script);
    let mut expected = vec![user];
    expected.extend(shown(&[&run]));
    assert_eq!(page, expected, "the page's own id for its own message; for the rest what was streamed");
    assert_eq!(stand.sessions().await.len(), 1, "no session is made by connecting");
}

#[tokio::test]
async fn connecting_to_a_thread_that_nobody_knows_is_an_empty_run() {
    let stand = Stand::new().await;
    let events = stand.ada().await.connect("nobody").await;
    assert_eq!(
        events,
        [
            json!({"type": "RUN_STARTED", "threadId": "nobody", "runId": "c1"}),
            json!({"type": "RUN_FINISHED", "threadId": "nobody", "runId": "c1"})
        ]
    );
    assert!(stand.sessions().await.is_empty());
}

#[tokio::test]
async fn a_page_that_connects_in_the_middle_sees_what_came_and_what_comes_once() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = json!([
        {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "Before."}]}},
        {"event": {"type": "item_started", "item": "m2", "kind": "text"}},
        {"event": {"type": "delta", "item": "m2", "text": "half "}},
        {"ask": {"ask": permission(), "tool": null}},
        {"event": {"type": "delta", "item": "m2", "text": "and half"}},
        {"event": {"type": "message", "item": "m2", "content": [{"type": "text", "text": "half and half"}]}},
    ]);
    let mut run = ada.begin(input("t1", "r1", &[user("u1", &steps(&script))])).await;
    let so_far = run.until(|event| event["name"] == "tool_approval_request").await;
    let asked = custom(&so_far, "tool_approval_request")[0].clone();
    // Two connects at once, as a loading page makes them.
    let mut pages = [
        ada.post("/agent/default/connect", &input("t1", "c1", &[])).await,
        ada.post("/agent/default/connect", &input("t1", "c2", &[])).await,
    ];
    for page in &mut pages {
        let events = page.until(|event| event["delta"] == "half ").await;
        assert_eq!(custom(&events, "tool_approval_request"), [&asked], "what waits is asked again");
    }
    let path = format!("/api/sessions/{}/tool-approval", asked["sessionId"].as_str().unwrap());
    let answer = json!({"requestId": asked["requestId"], "behavior": "allow"});
    assert_eq!(ada.json(Method::POST, &path, &answer).await.0, StatusCode::OK);
    let told = run.events().await;
    let expected = shown(&[&told]);
    for page in pages {
        let events = page.events().await;
        assert_eq!(custom(&events, "tool_approval_resolved").len(), 1, "answered elsewhere, it closes here");
        let page = shown(&[&events]);
        assert_eq!(page[1..], expected[..], "the same texts as in the run, whole and once");
    }
}

#[tokio::test]
async fn the_history_holds_the_users_own_words_without_the_context_of_the_page() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = input("t1", "r1", &[user("u1", "what do you see?")]);
    run["context"] = json!([{"description": "scratchpad", "value": "\"secret plans\""}]);
    let events = ada.run(run).await;
    let session = session_of(&events);
    let state = stand.state(session).await;
    assert_eq!(state.summary.name, "what do you see?");
    let entries =
        stand.agui.registry.history(&owner(), session, portolan_core::Seq::ZERO, None, 1000).await.unwrap();
    let log =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.frame).into_owned()).collect::<String>();
    assert!(
        log.contains("[CURRENT WORKSPACE STATE — ") && log.contains("secret plans"),
        "the agent gets it: {log}"
    );
    let history = ada.connect("t1").await;
    assert_eq!(texts(&shown(&[&history]))[0], ("user", "what do you see?"));
    assert!(!serde_json::to_string(&history).unwrap().contains("secret plans"));
}

#[tokio::test]
async fn prompts_of_other_clients_are_shown_too() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let session = session_of(&ada.say("t1", "hello").await);
    let prompt = Action::Prompt { content: vec![Content::text("from a terminal")] };
    stand.agui.registry.submit(&owner(), session, CommandId::random(), prompt).await.unwrap();
    stand.until(session, |state| state.summary.turns == 2 && state.turn.is_none()).await;
    let page = shown(&[&ada.connect("t1").await]);
    assert_eq!(
        texts(&page),
        [
            ("user", "hello"),
            ("assistant", "you said: hello"),
            ("user", "from a terminal"),
            ("assistant", "you said: from a terminal"),
        ]
    );
}

#[tokio::test]
async fn a_repeated_message_is_sent_to_the_agent_again_only_when_nothing_runs() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([{"event": {"type": "notice", "level": "info", "text": "here"}}, "wait"]));
    let message = user("u1", &script);
    let mut first = ada.begin(input("t1", "r1", std::slice::from_ref(&message))).await;
    let session = session_of(&first.until(|event| event["name"] == "notice").await);
    let mut twice = ada.begin(input("t1", "r1", std::slice::from_ref(&message))).await;
    twice.until(is("STATE_SNAPSHOT")).await;
    assert_eq!(stand.state(session).await.commands.len(), 0, "nothing waits: it was said already");
    let stopped = ada.json(Method::POST, "/agent/default/stop/t1", &json!({})).await;
    assert_eq!(stopped.1["stopped"], true);
    assert_eq!(outline(&first.events().await).last(), Some(&"RUN_FINISHED"));
    assert_eq!(outline(&twice.events().await).last(), Some(&"RUN_FINISHED"));
    // The page sends the same message again, in another run.
    let mut again = ada.begin(input("t1", "r2", &[message])).await;
    again.until(|event| event["name"] == "notice").await;
    assert_eq!(stand.state(session).await.summary.turns, 2);
}

#[tokio::test]
async fn a_run_that_waits_for_another_run_streams_only_its_own_turn() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([
        {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "one"}]}},
        {"ask": {"ask": permission(), "tool": null}},
    ]));
    let mut first = ada.begin(input("t1", "r1", &[user("u1", &script)])).await;
    let so_far = first.until(|event| event["name"] == "tool_approval_request").await;
    let asked = custom(&so_far, "tool_approval_request")[0].clone();
    let mut second = ada.begin(input("t1", "r2", &[user("u1", &script), user("u2", "two")])).await;
    let so_far = second.until(|event| event["name"] == "tool_approval_request").await;
    assert_eq!(outline(&so_far), ["RUN_STARTED"], "what waits is told, nothing else");
    let path = format!("/api/sessions/{}/tool-approval", asked["sessionId"].as_str().unwrap());
    ada.json(Method::POST, &path, &json!({"requestId": asked["requestId"], "behavior": "deny"})).await;
    let (first, second) = (first.events().await, second.events().await);
    let first = shown(&[&first]);
    assert!(first[0].2 == "one" && first[1].2.starts_with("answer: "), "{first:?}");
    assert_eq!(texts(&shown(&[&second])), [("assistant", "you said: two")]);
}

#[tokio::test]
async fn a_run_that_waits_within_the_agent_gets_the_figures_of_its_own_turn() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = steps(&json!([
        {"event": {"type": "message", "item": "m1", "content": [{"type": "text", "text": "one"}]}},
        {"ask": {"ask": permission(), "tool": null}},
        {"event": {"type": "message", "item": "m2", "content": [{"type": "text", "text": "still one"}]}},
    ]));
    let eager = |run: &str, messages: &[Value]| {
        let (ada, body) = (ada.clone(), input("t1", run, messages));
        async move { ada.post("/agent/eager/run", &body).await }
    };
    let mut first = eager("r1", &[user("u1", &script)]).await;
    let so_far = first.until(|event| event["name"] == "tool_approval_request").await;
    let asked = custom(&so_far, "tool_approval_request")[0].clone();
    let session = session_of(&so_far);
    // The agent has both, while the first turn runs.
    let delivered = |state: &State| {
        let there = |open: &&OpenCommand| open.stage == Stage::Delivered;
        state.commands.iter().filter(there).count()
    };
    let mut second = eager("r2", &[user("u1", &script), user("u2", "two")]).await;
    second.until(is("STATE_SNAPSHOT")).await;
    stand.until(session, |state| delivered(state) == 1).await;
    let mut third = eager("r3", &[user("u1", &script), user("u2", "two"), user("u3", "three")]).await;
    third.until(is("STATE_SNAPSHOT")).await;
    stand.until(session, |state| delivered(state) == 2).await;
    let path = format!("/api/sessions/{session}/tool-approval");
    ada.json(Method::POST, &path, &json!({"requestId": asked["requestId"], "behavior": "allow"})).await;
    let (first, second, third) = tokio::join!(first.events(), second.events(), third.events());
    let turns = |events: &[Value]| {
        let told = custom(events, "result_stats");
        told.iter().map(|stats| stats["sessionTurns"].clone()).collect::<Vec<_>>()
    };
    assert_eq!([turns(&first), turns(&second), turns(&third)], [1, 2, 3].map(|turn| vec![json!(turn)]));
    assert_eq!(texts(&shown(&[&second])), [("assistant", "you said: two")], "nor the words of another");
    assert_eq!(texts(&shown(&[&third])), [("assistant", "you said: three")]);
}

// covers: 004-058
#[tokio::test]
async fn a_turn_that_fails_ends_with_an_error_and_nothing_after_it() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = json!([
        {"event": {"type": "item_started", "item": "m1", "kind": "text"}},
        {"event": {"type": "delta", "item": "m1", "text": "so far"}},
        {"fail": "the model has too much to do"},
    ]);
    let events = ada.say("t1", &steps(&script)).await;
    let last = events.last().unwrap();
    assert_eq!(
        last,
        &json!({"type": "RUN_ERROR", "message": "the model has too much to do", "code": "overloaded"})
    );
    assert_eq!(texts(&shown(&[&events])), [("assistant", "so far")], "what there was stays");
    assert_eq!(custom(&events, "result_stats")[0]["isError"], true);
    let next = ada.run(input("t1", "r2", &[user("u2", "and now?")])).await;
    assert_eq!(outline(&next).last(), Some(&"RUN_FINISHED"), "the next run works");
    let crash = ada.run(input("t1", "r3", &[user("u3", "[\"crash\"]")])).await;
    let last = crash.last().unwrap();
    assert_eq!((&last["type"], &last["message"]), (&json!("RUN_ERROR"), &json!("it broke")));
}

// covers: 004-118
#[tokio::test(start_paused = true)]
async fn a_run_waits_fifteen_seconds_for_a_session_that_is_starting() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let began = tokio::time::Instant::now();
    let run = ada.post("/agent/sleeper/run", &input("t1", "r1", &[user("u1", "wake up")])).await;
    let events = run.events().await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(15) && waited < Duration::from_secs(20), "{waited:?}");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("session_starting")));
    let session = stand.sessions().await[0].session;
    assert_eq!(stand.state(session).await.summary.queued, 0, "nothing is said later to nobody");
}

#[tokio::test]
async fn an_agent_that_has_ended_is_started_again_by_the_next_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let session = session_of(&ada.say("t1", "hello").await);
    stand.agui.registry.submit(&owner(), session, CommandId::random(), Action::Stop).await.unwrap();
    stand.until(session, |state| !state.summary.is_live()).await;
    let events = ada.run(input("t1", "r2", &[user("u2", "still there?")])).await;
    assert_eq!(texts(&shown(&[&events])), [("assistant", "you said: still there?")]);
    assert_eq!(session_of(&events), session);
}

#[tokio::test]
async fn a_run_with_nothing_to_say_ends_at_once() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    for messages in [vec![], vec![json!({"id": "s", "role": "system", "content": "be kind"})]] {
        let events = ada.run(input("t1", "r1", &messages)).await;
        assert_eq!(outline(&events), ["RUN_STARTED", "RUN_FINISHED"]);
    }
    assert!(stand.sessions().await.is_empty());
    let audio = json!({"id": "u", "role": "user", "content": [{"type": "audio", "source": {"type": "data", "value": "AA"}}]});
    let events = ada.run(input("t1", "r1", &[audio])).await;
    assert_eq!(events.last().unwrap()["code"], "invalid");
}

#[tokio::test]
async fn a_picture_reaches_the_agent() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let parts = json!([{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}]);
    let events = ada.run(input("t1", "r1", &[json!({"id": "u1", "role": "user", "content": parts})])).await;
    assert_eq!(texts(&shown(&[&events])), [("assistant", "you said: look")]);
    assert_eq!(texts(&shown(&[&ada.connect("t1").await]))[0], ("user", "look\n[image/png]"));
}

#[tokio::test(start_paused = true)]
async fn a_comment_keeps_a_silent_run_alive() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let mut run = ada.begin(input("t1", "r1", &[user("u1", "[\"wait\"]")])).await;
    run.until(is("STATE_SNAPSHOT")).await;
    while !run.text.contains(": keep-alive\n\n") {
        assert!(run.more().await);
    }
    assert_eq!(ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await.1["stopped"], true);
    run.events().await;
}
