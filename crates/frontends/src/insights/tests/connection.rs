//! The effects of messages, with a running session.

use std::time::Duration;

use portolan_core::{Action, CommandId, Role, access::Bypass, request::Answer};

use super::*;

async fn stand() -> (Stand, Client<DuplexStream>) {
    let stand = Stand::new().await;
    let client = stand.client("ada", Role::Operator).await;
    (stand, client)
}

// covers: 001-008, 001-012, 001-017, 001-045, 001-050, 001-059
#[tokio::test]
async fn a_session_sends_its_messages_in_order_from_its_creation_to_its_kill() {
    let (stand, mut client) = stand().await;
    let session = client.create("think:hm say:hello tool").await;
    let life = client.until("session.completed").await;
    let expected = [
        "agent.spawned main",
        "agent.status main working",
        "agent.output main hm",
        "agent.output main hello",
        "agent.tool_use main tool-1-3",
        "agent.status main waiting_tool",
        "agent.tool_result main tool-1-3",
        "agent.status main working",
        "agent.status main completed",
        "session.completed",
    ];
    assert_eq!(outline(&life), expected);
    assert!(life.iter().all(|message| message["payload"]["session_id"] == session.as_str()));
    let usage = json!({"input_tokens": 2000, "output_tokens": 200, "cache_read_tokens": 2,
                       "cache_creation_tokens": 20, "cost_usd": 0.5});
    assert_eq!(life.last().unwrap()["payload"]["total_usage"], usage);
    // The session continues with the next input, and keeps counting.
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "say:again"})).await;
    let life = client.until("session.completed").await;
    let expected = [
        "agent.status main working",
        "agent.output main again",
        "agent.status main completed",
        "session.completed",
    ];
    assert_eq!(outline(&life), expected);
    assert_eq!(life[3]["payload"]["total_usage"]["cost_usd"], 1.0);
    // A killed session ends with all its processes.
    client.send("user.input", json!({"session_id": session, "agent_id": "main", "text": "subwait"})).await;
    client.until("agent.spawned").await;
    client.send("session.kill", json!({"session_id": session})).await;
    let end = client.until_fits(|message| {
        message["payload"]["status"] == "completed" && message["payload"]["agent_id"] == "main"
    });
    let end = outline(&end.await);
    assert!(end.iter().any(|line| line.starts_with("agent.completed tool-")), "{end:?}");
    for kind in ["session.kill", "session.interrupt", "session.attach"] {
        client.send(kind, json!({"session_id": session})).await;
        assert_eq!(client.error().await.0, "SESSION_NOT_FOUND", "{kind}");
    }
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "say:more"})).await;
    assert_eq!(client.error().await.0, "SESSION_NOT_FOUND");
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let state = stand.insights.registry.snapshot(&owner, id(&session)).await.unwrap().state;
    assert!(state.summary.archived && state.pid.is_none() && !state.summary.is_live());
}

// covers: 001-011
#[tokio::test]
async fn an_input_after_the_end_of_the_agents_process_goes_on_with_the_conversation_in_a_new_one() {
    let (stand, mut client) = stand().await;
    let session = client.create("say:one").await;
    client.until("session.completed").await;
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let registry = &stand.insights.registry;
    for (turns, end) in [(2, "a stop"), (3, "a crash")] {
        if end == "a stop" {
            registry.submit(&owner, id(&session), CommandId::random(), Action::Stop).await.unwrap();
        } else {
            client
                .send("user.input", json!({"session_id": session, "agent_id": null, "text": "crash"}))
                .await;
        }
        let gone = async {
            loop {
                let state = registry.snapshot(&owner, id(&session)).await.unwrap().state;
                if !state.summary.is_live() {
                    return state.generation;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let before = tokio::time::timeout(PATIENCE, gone).await.expect(end);
        client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "say:more"})).await;
        let told = client.until_fits(|message| message["payload"]["content"] == "more").await;
        assert!(told.iter().all(|message| message["type"] != "session.created"), "{end}: {told:?}");
        client.until("session.completed").await;
        let state = registry.snapshot(&owner, id(&session)).await.unwrap().state;
        assert!(state.generation > before && state.summary.turns >= turns, "{end}: {:?}", state.summary);
    }
}

// The CLI withdraws its open requests while it is ended; the dashboard once showed that as the agent's own decision.
#[tokio::test]
async fn a_request_that_a_kill_closes_names_the_kill_as_the_reason() {
    let (stand, mut client) = stand().await;
    for (prompt, resolved) in [("ask", "permission.resolved"), ("questions", "question.resolved")] {
        let session = client.create(prompt).await;
        client.until_fits(|message| message["payload"]["status"] == "waiting_user").await;
        client.send("session.kill", json!({"session_id": session})).await;
        let told = client.one(resolved).await;
        assert_eq!((&told["reason"], &told["approved"]), (&json!("the session was killed"), &json!(null)));
    }
    // A stop by another client is not a kill, and not the agent's own decision either.
    let session = client.create("ask").await;
    client.until_fits(|message| message["payload"]["status"] == "waiting_user").await;
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let registry = &stand.insights.registry;
    registry.submit(&owner, id(&session), CommandId::random(), Action::Stop).await.unwrap();
    let told = client.one("permission.resolved").await;
    assert_eq!(told["reason"], "the agent that asked has ended: it ended");
}

// covers: 001-056
#[tokio::test]
async fn a_message_that_is_sent_twice_is_done_once_and_its_id_never_comes_back() {
    let (_stand, mut client) = stand().await;
    let once = uuid::Uuid::new_v4().to_string();
    let create = json!({"prompt": "say:one", "cwd": "/"});
    client.send_as(&once, "session.create", create.clone()).await;
    let first = client.one("session.created").await;
    client.until("session.completed").await;
    client.send_as(&once, "session.create", create).await;
    assert_eq!(client.one("session.created").await, first, "the same session");
    client.until("session.completed").await;
    let input = json!({"session_id": first["session_id"], "agent_id": null, "text": "say:two"});
    let again = uuid::Uuid::new_v4().to_string();
    client.send_as(&again, "user.input", input.clone()).await;
    client.until("session.completed").await;
    client.send_as(&again, "user.input", input).await;
    client.send("session.list", json!({})).await;
    let said = client.until("session.listed").await;
    assert_eq!(outline(&said), ["session.listed"], "nothing was said a second time");
    assert!(said.iter().all(|message| message.get("id").is_none()));
}

// covers: 001-016, 001-040, 001-049
#[tokio::test]
async fn a_permission_is_allowed_or_denied_and_answered_once() {
    let (_stand, mut client) = stand().await;
    let session = client.create("ask ask").await;
    client.one("agent.status").await;
    let answer = |request: &Value, approved: bool| json!({"session_id": session, "permission_id": request["permission_id"], "approved": approved});
    let mut requests = Vec::new();
    for (approved, is_error) in [(true, false), (false, true)] {
        let request = client.one("permission.request").await;
        assert_eq!(client.one("agent.status").await["status"], "waiting_user");
        client.send("permission.response", answer(&request, approved)).await;
        let after = client.until("agent.tool_result").await;
        let resolved = &after[0]["payload"];
        assert_eq!(resolved["approved"], approved, "{after:?}");
        assert_eq!(resolved["reason"], "answered by ada (insights)");
        let result = &after.last().unwrap()["payload"];
        assert_eq!(
            (&result["tool_use_id"], &result["is_error"]),
            (&request["tool_use_id"], &json!(is_error))
        );
        requests.push((request, approved));
    }
    client.until("session.completed").await;
    for (request, approved) in requests {
        client.send("permission.response", answer(&request, !approved)).await;
        let (code, why) = client.error().await;
        assert_eq!(code, "PERMISSION_RESPONSE_FAILED");
        assert!(why.contains("already answered by ada (insights)"), "{why}");
    }
    for unknown in ["99999", "", "x", "1.1"] {
        let answer = json!({"session_id": session, "permission_id": unknown, "approved": true});
        client.send("permission.response", answer).await;
        let error = client.one("error").await;
        assert_eq!(
            (&error["code"], &error["session_id"], &error["agent_id"]),
            (&json!("PERMISSION_RESPONSE_FAILED"), &json!(session), &json!(null))
        );
    }
}

#[tokio::test]
async fn an_answer_given_elsewhere_closes_the_permission_here_at_once() {
    let (stand, mut client) = stand().await;
    let (bob, _) = stand.someone("bob", Role::Operator).await;
    let mut other = stand.client_of(&bob, 64 * 1024).await;
    let session = client.create("ask").await;
    let request = client.one("permission.request").await;
    other.send("session.attach", json!({"session_id": session})).await;
    assert_eq!(other.one("permission.request").await, request, "who comes late sees what is open");
    // As any other frontend does it.
    let number = request["permission_id"].as_str().unwrap().parse().unwrap();
    let answer = Action::Answer {
        request: portolan_core::RequestId(number),
        digest: None,
        answer: Answer::allow(),
        persist: None,
    };
    stand.insights.registry.submit(&bob, id(&session), CommandId::random(), answer).await.unwrap();
    for client in [&mut client, &mut other] {
        let resolved = client.one("permission.resolved").await;
        assert_eq!(
            (&resolved["approved"], &resolved["reason"]),
            (&json!(true), &json!("answered by bob (test)"))
        );
        assert_eq!(client.one("agent.status").await["status"], "waiting_tool");
        client.until("session.completed").await;
    }
    let late = json!({"session_id": session, "permission_id": request["permission_id"], "approved": false});
    client.send("permission.response", late).await;
    let (code, why) = client.error().await;
    assert_eq!(code, "PERMISSION_RESPONSE_FAILED");
    assert!(why.contains("already answered by bob"), "{why}");
}

// covers: 001-010, 001-026, 001-052
#[tokio::test]
async fn inputs_answer_the_waiting_questions_in_their_order() {
    let (_stand, mut client) = stand().await;
    let session = client.create("questions").await;
    let first = client.one("agent.question").await;
    let options = json!([{"label": "North", "description": "where it is cold"}, {"label": "South", "description": null}]);
    assert_eq!((&first["question"], &first["options"]), (&json!("Where to?"), &options));
    let second = client.one("agent.question").await;
    assert_eq!((&second["question"], &second["options"]), (&json!("How?"), &json!([])));
    assert_eq!(client.one("agent.status").await["status"], "waiting_user");
    let input = |text: &str| json!({"session_id": session, "agent_id": null, "text": text});
    client.send("user.input", input("")).await;
    assert_eq!(client.error().await.0, "INPUT_FAILED", "an answer must not be empty");
    client.send("user.input", input("north")).await;
    client.send("user.input", input("by boat")).await;
    let after = client.until("agent.output").await;
    assert_eq!(outline(&after)[..2], ["question.resolved main", "question.resolved main"]);
    let said = after.last().unwrap()["payload"]["content"].as_str().unwrap();
    assert!(said.contains(r#""Where to?": ["North"]"#) && said.contains(r#""How?": ["by boat"]"#), "{said}");
    client.until("session.completed").await;
}

#[tokio::test]
async fn a_question_of_a_subagent_is_answered_and_nothing_else_is_said_to_it() {
    let (_stand, mut client) = stand().await;
    let session = client.create("subask subwait").await;
    let question = client.one("agent.question").await;
    let subagent = question["agent_id"].clone();
    let by_permission = json!({"session_id": session, "permission_id": "1", "approved": true});
    client.send("permission.response", by_permission).await;
    assert_eq!(client.error().await.0, "PERMISSION_RESPONSE_FAILED");
    let named = json!({"session_id": session, "agent_id": null, "text": "x", "question_id": "7.9"});
    client.send("user.input", named).await;
    assert_eq!(client.error().await.0, "INPUT_FAILED", "there is no such question");
    client.send("user.input", json!({"session_id": session, "agent_id": subagent, "text": "South"})).await;
    let said = client.one("agent.output").await;
    assert_eq!(said["agent_id"], subagent);
    assert!(said["content"].as_str().unwrap().contains("South"));
    let working = client.one("agent.spawned").await["agent_id"].clone();
    for agent in [working, json!("nobody")] {
        client.send("user.input", json!({"session_id": session, "agent_id": agent, "text": "hey"})).await;
        let error = client.one("error").await;
        assert_eq!((&error["code"], &error["agent_id"]), (&json!("INPUT_FAILED"), &agent));
    }
}

#[tokio::test]
async fn plans_forms_hooks_and_unknown_requests_become_permissions_or_questions() {
    let (_stand, mut client) = stand().await;
    let session = client.create("plan form hook other").await;
    let plan = client.one("permission.request").await;
    assert_eq!(
        (&plan["tool_name"], &plan["tool_input"]),
        (&json!("ExitPlanMode"), &json!({"plan": "1. sail"}))
    );
    let respond = |request: &Value, approved: bool| json!({"session_id": session, "permission_id": request["permission_id"], "approved": approved});
    client.send("permission.response", respond(&plan, true)).await;
    let form = client.one("agent.question").await;
    assert!(form["question"].as_str().unwrap().starts_with("harbour: Which berth?"), "{form}");
    let number = form["question_id"].as_str().unwrap().split('.').next().unwrap();
    let wrong = json!({"session_id": session, "permission_id": number, "approved": true});
    client.send("permission.response", wrong).await;
    assert_eq!(client.error().await.0, "PERMISSION_RESPONSE_FAILED", "it is a question");
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "7"})).await;
    assert!(client.one("agent.output").await["content"].as_str().unwrap().contains("berth"));
    let hook = client.one("permission.request").await;
    assert_eq!((&hook["tool_name"], &hook["tool_use_id"]), (&json!("Hook PreToolUse"), &json!("")));
    client.send("permission.response", respond(&hook, true)).await;
    assert!(client.one("agent.output").await["content"].as_str().unwrap().contains("Output"));
    let other = client.one("permission.request").await;
    assert_eq!((&other["tool_name"], &other["tool_input"]), (&json!("newer"), &json!({"input": [1]})));
    client.send("permission.response", respond(&other, true)).await;
    assert_eq!(client.error().await.0, "PERMISSION_RESPONSE_FAILED", "a yes says too little");
    client.send("permission.response", respond(&other, false)).await;
    assert!(client.one("agent.output").await["content"].as_str().unwrap().contains("Deny"));
}

// covers: 001-013, 001-047
#[tokio::test]
async fn an_interrupt_stops_the_turn_and_the_session_goes_on() {
    let (_stand, mut client) = stand().await;
    let session = client.create("say:one wait").await;
    client.one("agent.output").await;
    client.send("session.interrupt", json!({"session_id": session})).await;
    let end = client.until("session.completed").await;
    assert_eq!(outline(&end), ["agent.status main completed", "session.completed"]);
    client.send("session.interrupt", json!({"session_id": session})).await;
    assert_eq!(client.error().await.0, "INTERRUPT_FAILED", "nothing runs");
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "ask"})).await;
    client.one("permission.request").await;
    client.send("session.interrupt", json!({"session_id": session})).await;
    let resolved = client.one("permission.resolved").await;
    assert_eq!(
        (&resolved["approved"], &resolved["reason"]),
        (&json!(null), &json!("interrupted by ada (insights)"))
    );
    client.until("session.completed").await;
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "say:two"})).await;
    assert_eq!(client.one("agent.output").await["content"], "two");
}

// covers: 001-014, 001-015, 001-048
#[tokio::test]
async fn a_change_of_mode_is_confirmed_or_refused_with_the_reason() {
    let (stand, mut client) = stand().await;
    let session = client.create("say:one").await;
    client.until("session.completed").await;
    let change = |mode: &str| json!({"session_id": session, "permission_mode": mode});
    client.send("permission_mode.change", change("acceptEdits")).await;
    let changed = client.next().await;
    assert_eq!(changed["type"], "permission_mode.changed");
    assert_eq!(changed["payload"], change("acceptEdits"));
    for (mode, why) in [
        ("plan", "a puppet has no plan"),
        ("anarchy", "unknown mode `anarchy`"),
        ("", "unknown mode ``"),
        ("bypassPermissions", "the mode needs the role owner"),
    ] {
        client.send("permission_mode.change", change(mode)).await;
        let (code, told) = client.error().await;
        assert_eq!(code, "PERMISSION_MODE_CHANGE_FAILED", "{mode}");
        assert!(told.contains(why), "{mode}: {told}");
    }
    let (bob, _) = stand.someone("bob", Role::Operator).await;
    let elsewhere = Action::SetMode { mode: "default".into() };
    stand.insights.registry.submit(&bob, id(&session), CommandId::random(), elsewhere).await.unwrap();
    assert_eq!(client.one("permission_mode.changed").await, change("default"));
}

// covers: 001-006
#[tokio::test]
async fn only_an_owner_may_use_a_mode_that_asks_nobody_and_only_if_allowed() {
    let off = Stand::new().await;
    let mut owner = off.client("own", Role::Owner).await;
    owner
        .send("session.create", json!({"prompt": "x", "cwd": "/", "permission_mode": "bypassPermissions"}))
        .await;
    let (code, why) = owner.error().await;
    assert_eq!(code, "SESSION_CREATE_FAILED");
    assert!(why.contains("; change the setting `policy.allow_bypass` of Portolan"), "{why}");
    let policy = Policy { bypass: Bypass::ForOwners, ..Policy::default() };
    let stand = Stand::under(Settings { agent: "puppet".into(), ..Settings::default() }, policy).await;
    let create = json!({"prompt": "say:one", "cwd": "/", "permission_mode": "bypassPermissions"});
    let mut operator = stand.client("ada", Role::Operator).await;
    operator.send("session.create", create.clone()).await;
    assert_eq!(operator.error().await.0, "SESSION_CREATE_FAILED");
    let session = operator.create("say:one").await;
    let change = json!({"session_id": session, "permission_mode": "bypassPermissions"});
    operator.send("permission_mode.change", change.clone()).await;
    assert_eq!(operator.error().await.0, "PERMISSION_MODE_CHANGE_FAILED");
    let mut owner = stand.client("own", Role::Owner).await;
    owner.send("session.create", create).await;
    let bypassed = owner.one("session.created").await;
    owner.until("session.completed").await;
    owner.send("permission_mode.change", change).await;
    assert_eq!(owner.one("permission_mode.changed").await["permission_mode"], "bypassPermissions");
    owner.send("session.list", json!({})).await;
    let listed = owner.one("session.listed").await;
    let made =
        listed["sessions"].as_array().unwrap().iter().find(|it| it["session_id"] == bypassed["session_id"]);
    assert_eq!(made.unwrap()["permission_mode"], "bypassPermissions", "in force from the first turn");
}

// covers: 001-004, 001-005, 001-007
#[tokio::test]
async fn the_settings_of_a_create_message_reach_the_session() {
    let (stand, mut client) = stand().await;
    let more = json!({"prompt": "tool", "allowed_tools": ["Read", "Bash(git *)"], "permission_mode": "plan",
                      "model": "opus", "agent": "puppet"});
    let session = client.create_with(more).await;
    assert_eq!(client.one("agent.spawned").await["task_description"], "tool");
    assert_eq!(client.one("agent.tool_use").await["model"], "opus");
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let state = stand.insights.registry.snapshot(&owner, id(&session)).await.unwrap().state;
    assert_eq!(state.spec.allowed_tools, ["Read", "Bash(git *)"]);
    assert_eq!((state.summary.mode.as_deref(), state.summary.model.as_deref()), (Some("plan"), Some("opus")));
    let plain = client.create_with(json!({"prompt": ""})).await;
    let state = stand.insights.registry.snapshot(&owner, id(&plain)).await.unwrap().state;
    assert!(state.spec.allowed_tools.is_empty() && state.spec.prompt.is_empty(), "empty changes nothing");
    assert_eq!(client.one("agent.spawned").await["task_description"], json!(null));
}

#[tokio::test]
async fn text_arrives_while_it_is_written_where_the_client_asks_for_it() {
    let (_stand, mut client) = stand().await;
    let session = client.create_with(json!({"prompt": "stream:abcdef", "stream": true})).await;
    let said = client.until("session.completed").await;
    let outputs: Vec<_> = said.iter().filter(|message| message["type"] == "agent.output").collect();
    let text: String = outputs.iter().map(|output| output["payload"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, "abcdef");
    assert!(outputs.iter().all(|output| output["payload"]["item"] == outputs[0]["payload"]["item"]));
    // A client without streaming gets the whole block of the same session.
    client.send("session.attach", json!({"session_id": session, "stream": false})).await;
    assert_eq!(client.one("agent.output").await["content"], "abcdef");
}

// covers: 001-043, 001-044, 001-046
#[tokio::test]
async fn every_failed_message_gets_its_documented_error_code() {
    let (stand, mut client) = stand().await;
    let creates = [
        (json!({"prompt": "say:x", "cwd": "/nowhere/at/all"}), "/nowhere/at/all"),
        (json!({"prompt": "say:x", "cwd": "relative"}), "not an absolute path"),
        (json!({"prompt": "say:x", "cwd": ""}), "cwd"),
        (json!({"prompt": "say:x", "cwd": "/", "agent": "nobody"}), "unknown agent `nobody`"),
        (json!({"prompt": "say:x", "cwd": "/", "permission_mode": "anarchy"}), "unknown mode `anarchy`"),
    ];
    for (create, why) in creates {
        client.send("session.create", create).await;
        let (code, told) = client.error().await;
        assert_eq!(code, "SESSION_CREATE_FAILED");
        assert!(told.contains(why), "{told}");
    }
    // A session whose agent does not start exists, and shows the error.
    let session = client.create_with(json!({"prompt": "say:x", "model": "none"})).await;
    let error = client.one("error").await;
    assert_eq!((&error["code"], &error["session_id"]), (&json!("SESSION_CREATE_FAILED"), &json!(session)));
    let session = client.create("say:one").await;
    client.until("session.completed").await;
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": ""})).await;
    assert_eq!(client.error().await.0, "INPUT_FAILED", "a prompt needs words");
    client.send("user.input", json!({"session_id": session, "agent_id": null, "text": "fail"})).await;
    let failed = client.until("session.completed").await;
    let expected =
        ["agent.status main working", "error main", "agent.status main error", "session.completed"];
    assert_eq!(outline(&failed), expected);
    assert_eq!(failed[1]["payload"]["code"], "HANDLER_ERROR");
    // A viewer may read, and gets a refusal for everything else.
    let mut viewer = stand.client("eve", Role::Viewer).await;
    viewer.send("session.attach", json!({"session_id": session})).await;
    viewer.until("agent.status").await;
    let asks = [
        ("session.create", json!({"prompt": "say:x", "cwd": "/"}), "SESSION_CREATE_FAILED"),
        ("user.input", json!({"session_id": session, "agent_id": null, "text": "say:x"}), "INPUT_FAILED"),
        ("session.kill", json!({"session_id": session}), "HANDLER_ERROR"),
        (
            "permission_mode.change",
            json!({"session_id": session, "permission_mode": "default"}),
            "PERMISSION_MODE_CHANGE_FAILED",
        ),
    ];
    for (kind, payload, code) in asks {
        viewer.send(kind, payload).await;
        let (found, told) = viewer.error().await;
        assert_eq!(found, code, "{kind}");
        assert!(told.ends_with("; ask an owner for a token with the role operator"), "{told}");
    }
}

#[tokio::test]
async fn a_bound_token_gets_the_same_error_for_foreign_and_missing_sessions() {
    let (stand, mut client) = stand().await;
    let (mine, other) = (client.create("say:mine").await, {
        client.until("session.completed").await;
        client.create("say:other").await
    });
    let (mut bound, _) = stand.someone("guest", Role::Operator).await;
    bound.sessions = Some([id(&mine)].into());
    let mut guest = stand.client_of(&bound, 64 * 1024).await;
    for kind in ["session.attach", "session.kill", "session.interrupt"] {
        guest.send(kind, json!({"session_id": other})).await;
        assert_eq!(guest.error().await.0, "SESSION_NOT_FOUND");
    }
    guest.send("session.list", json!({})).await;
    let listed = guest.one("session.listed").await;
    let listed: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|it| it["session_id"].clone()).collect();
    assert_eq!(listed, [mine]);
}

#[tokio::test]
async fn a_client_that_reconnects_can_attach_to_its_sessions_again() {
    let (stand, mut client) = stand().await;
    let (ada, _) = stand.someone("ada", Role::Operator).await;
    let session = client.create("say:hello subagent ask").await;
    let request = client.one("permission.request").await;
    drop(client);
    let mut back = stand.client_of(&ada, 64 * 1024).await;
    back.send("session.list", json!({})).await;
    let listed = back.one("session.listed").await;
    let expected = json!({"session_id": session, "name": "say:hello subagent ask", "agent": "puppet", "cwd": "/",
                          "is_running": true, "waiting": 1, "permission_mode": "default", "model": "wood"});
    assert_eq!(listed["sessions"], json!([expected]));
    back.send("session.attach", json!({"session_id": session})).await;
    let attached = back.next().await;
    assert_eq!((&attached["type"], &attached["payload"]), (&json!("session.attached"), &expected));
    let past = back.until("permission.request").await;
    let past_outline = outline(&past);
    assert_eq!(past_outline[0], "agent.spawned main");
    assert!(past_outline.contains(&"agent.output main hello".to_owned()), "{past_outline:?}");
    assert!(past_outline.contains(&"agent.status main waiting_user".to_owned()), "{past_outline:?}");
    assert_eq!(past.last().unwrap()["payload"], request, "what waits is asked again");
    let answer = json!({"session_id": session, "permission_id": request["permission_id"], "approved": true});
    back.send("permission.response", answer).await;
    back.until("session.completed").await;
}

#[tokio::test]
async fn an_old_client_that_reconnects_without_attaching_gets_the_result_of_its_input() {
    let (stand, mut client) = stand().await;
    let (ada, _) = stand.someone("ada", Role::Operator).await;
    let session = client.create("say:hello subagent").await;
    client.until("session.completed").await;
    drop(client);
    let mut back = stand.client_of(&ada, 64 * 1024).await;
    back.send("user.input", json!({"session_id": session, "agent_id": null, "text": "say:again subagent"}))
        .await;
    let heard = back.until("session.completed").await;
    let heard_outline = outline(&heard);
    assert!(
        !heard_outline.contains(&"agent.output main hello".to_owned()),
        "it knows the past: {heard_outline:?}"
    );
    assert!(heard_outline.contains(&"agent.output main again".to_owned()), "{heard_outline:?}");
    let spawned = heard.iter().find(|message| message["type"] == "agent.spawned").unwrap();
    assert_eq!(spawned["payload"]["label"], "Sub2", "the tree is the whole session's");
}

#[tokio::test]
async fn a_token_that_is_revoked_closes_the_connection() {
    let (stand, _) = stand().await;
    let (ada, _) = stand.someone("ada", Role::Operator).await;
    let mut client = stand.client_of(&ada, 64 * 1024).await;
    client.create("say:one").await;
    stand.behind.tokens.revoke(&ada.token).await.unwrap();
    let (messages, code) = client.closed().await;
    assert_eq!(code, Some(4001));
    assert_eq!(messages.last().unwrap()["payload"]["code"], "HANDLER_ERROR");
}

#[tokio::test]
async fn a_kill_ends_the_agent_even_when_the_disk_is_full() {
    let (stand, mut client) = stand().await;
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let session = client.create("say:one wait").await;
    client.one("agent.output").await;
    let mut stranger = stand.client("bob", Role::Operator).await;
    stand.behind.store.fail("the disk is full");
    // The agent's output waits to be recorded; neither of these may wait for it.
    client.send("session.interrupt", json!({"session_id": session})).await;
    let (code, why) = client.error().await;
    assert_eq!(code, "INTERRUPT_FAILED");
    assert!(why.starts_with("the agent was asked to interrupt its turn; nothing can be recorded"), "{why}");
    // A client that does not follow the session may kill it, too.
    stranger.send("session.kill", json!({"session_id": session})).await;
    let (code, why) = stranger.error().await;
    assert_eq!(code, "HANDLER_ERROR");
    assert!(why.contains("the agent was asked to stop") && why.contains("the disk is full"), "{why}");
    let newest = || stand.insights.registry.newest_state(&owner, id(&session));
    let gone = async {
        while newest().await.unwrap().summary.is_live() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    stand.behind.store.release();
    client.until_fits(|message| message["payload"]["status"] == "completed").await;
    client.send("session.kill", json!({"session_id": session})).await;
    assert_eq!(client.error().await.0, "SESSION_NOT_FOUND", "it is in the archive now");
}

#[tokio::test]
async fn a_message_that_cannot_be_recorded_gets_an_error_with_the_reason() {
    let (stand, mut client) = stand().await;
    let (owner, _) = stand.someone("owner", Role::Owner).await;
    let session = client.create("say:one wait").await;
    client.one("agent.output").await;
    stand.behind.store.fail("the disk is full");
    client.send("session.interrupt", json!({"session_id": session})).await;
    client.error().await;
    // The end of the turn is not recorded, so nobody may see it.
    let ended = async {
        while stand.insights.registry.newest_state(&owner, id(&session)).await.unwrap().turn.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    client.send("session.attach", json!({"session_id": session})).await;
    let (code, why) = client.error().await;
    assert_eq!(code, "HANDLER_ERROR");
    assert!(why.contains("the disk is full"), "{why}");
    stand.behind.store.release();
    client.until("session.completed").await;
}

#[tokio::test]
async fn the_end_of_the_daemon_closes_the_connection_with_a_code_to_come_back() {
    let (stand, mut client) = stand().await;
    client.create("say:one").await;
    stand.insights.stopping.cancel();
    assert_eq!(client.closed().await.1, Some(1012));
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_nobody_down() {
    let (stand, mut client) = stand().await;
    let (bob, _) = stand.someone("bob", Role::Operator).await;
    let mut asleep = stand.client_of(&bob, 1024).await;
    let big = format!("say:{}", "x".repeat(100_000));
    let session = client.create(&big).await;
    asleep.send("session.attach", json!({"session_id": session})).await;
    client.until("session.completed").await;
    for _ in 0..20 {
        client.send("user.input", json!({"session_id": session, "agent_id": null, "text": big})).await;
        client.until("session.completed").await;
    }
}
