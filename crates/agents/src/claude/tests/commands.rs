//! Requests to the CLI, its own requests, and unknown messages, one by one.

use indexmap::indexmap;
use portolan_core::{
    Event,
    event::{Content, ErrorKind, HookStatus, Level, Setting, TurnOutcome, plain_text},
    policy::Decision,
    ports::{Doer, InstructionId, Order, Report},
    request::{Answer, Ask, Scope},
};
use serde_json::{Value, json};

use super::{events, latest, output_of, ready, said, told, written};
use crate::{
    claude::{
        Version, names,
        translate::{Repeats, Translate},
    },
    driver::{Output, Settles, Timer, Translator as _},
};

fn ask(request: Value) -> Value {
    json!({ "type": "control_request", "request_id": "k1", "request": request })
}

fn tool_request() -> Value {
    ask(json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "ls", "z": 1, "a": 2 },
        "tool_use_id": "t1", "description": "List", "decision_reason": "why", "blocked_path": "/p",
        "permission_suggestions": [{ "type": "setMode", "mode": "acceptEdits", "destination": "session" },
            { "type": "something_newer", "x": 1 }] }))
}

fn opened(out: &Output) -> (String, Ask) {
    match &out.reports[..] {
        [Report::RequestOpened { key, ask, .. }] => (key.clone(), (**ask).clone()),
        other => panic!("{other:?}"),
    }
}

/// Asks, answers, and returns the answer that goes back.
fn answered(request: Value, answer: Answer) -> Value {
    let mut translate = ready();
    let (key, ask) = opened(&said(&mut translate, &request));
    let out = told(&mut translate, 7, Order::Answer { key, ask: Box::new(ask), answer });
    assert_eq!((out.writes[0].instruction_id, out.writes[0].settles), (Some(InstructionId(7)), Settles::Now));
    let line = written(&out).remove(0);
    assert_eq!(line["type"], "control_response");
    assert_eq!(line["response"]["subtype"], "success");
    assert_eq!(line["response"]["request_id"], "k1");
    line["response"]["response"].clone()
}

fn allow(input: Option<Value>) -> Answer {
    Answer::Allow { input, scope: Scope::Session, mode: None, option: None }
}

// covers: 000-021, 000-036, 000-040, 003-131
#[test]
fn a_permission_shows_everything_that_the_cli_reports() {
    let out = said(&mut ready(), &tool_request());
    let [Report::RequestOpened { tool, .. }] = &out.reports[..] else { panic!("{out:?}") };
    assert_eq!(tool.as_deref(), Some("t1"));
    let (key, asked) = opened(&out);
    assert_eq!(key, "k1");
    let Ask::Permission { tool_name, input, description, reason, blocked_path, suggestions, .. } = asked
    else {
        panic!("{asked:?}")
    };
    assert_eq!(tool_name, "Bash");
    assert_eq!(input["command"], "ls");
    assert_eq!((description.as_deref(), reason.as_deref()), (Some("List"), Some("why")));
    assert_eq!(blocked_path.as_deref(), Some("/p"));
    assert_eq!(suggestions.len(), 2, "also those of a newer kind");
}

// covers: 002-073, 000-030, 000-032, 000-034, 000-035, 003-104, 004-095, 004-096
#[test]
fn an_allow_echoes_the_input_and_never_the_suggestions() {
    let response = answered(tool_request(), allow(None));
    assert_eq!(response.to_string(), r#"{"behavior":"allow","updatedInput":{"command":"ls","z":1,"a":2}}"#);
}

// covers: 002-073
#[test]
fn an_edited_input_replaces_the_original() {
    let response = answered(tool_request(), allow(Some(json!({ "command": "pwd" }))));
    assert_eq!(response["updatedInput"], json!({ "command": "pwd" }));
}

// covers: 000-031, 002-059, 004-097
#[test]
fn a_deny_says_why_and_ends_the_turn_only_where_asked() {
    let deny = |message: Option<&str>, interrupt| Answer::Deny {
        message: message.map(Into::into),
        interrupt,
        option: None,
    };
    let response = answered(tool_request(), deny(Some("no"), false));
    assert_eq!(response, json!({ "behavior": "deny", "message": "no" }));
    let response = answered(tool_request(), deny(None, true));
    assert_eq!(response["interrupt"], true);
    assert!(!response["message"].as_str().unwrap().is_empty());
}

#[test]
fn questions_take_joined_choices_and_free_text() {
    let request = ask(
        json!({ "subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": { "questions": [
        { "question": "Which?", "header": "H", "multiSelect": true, "options": [{ "label": "A" }, { "label": "B" }] },
        { "question": "Why?", "options": [] }], "extra": 1 } }),
    );
    let answers = indexmap! {
        "Which?".to_owned() => vec!["A".to_owned(), "B".to_owned()],
        "Why?".to_owned() => vec!["just so".to_owned()],
    };
    let response = answered(request, Answer::Choices { answers });
    assert_eq!(response["updatedInput"]["answers"], json!({ "Which?": "A, B", "Why?": "just so" }));
    assert_eq!(response["updatedInput"]["extra"], 1, "the rest of the input is echoed");
}

#[test]
fn an_approved_plan_can_set_the_mode_and_may_have_no_text() {
    let request = ask(json!({ "subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {} }));
    let (_, asked) = opened(&said(&mut ready(), &request));
    assert_eq!(asked, Ask::Plan { plan: None, input: json!({}) });
    let mode = Some("acceptEdits".to_owned());
    let response = answered(request, Answer::Allow { input: None, scope: Scope::Once, mode, option: None });
    let set = json!([{ "type": "setMode", "mode": "acceptEdits", "destination": "session" }]);
    assert_eq!(response, json!({ "behavior": "allow", "updatedInput": {}, "updatedPermissions": set }));
}

// covers: 003-032, 004-051
#[test]
fn a_hook_opens_a_request_and_its_output_goes_back_unchanged() {
    let request = |event: &str| {
        ask(json!({ "subtype": "hook_callback", "callback_id": "hook-0", "tool_use_id": "x",
            "input": { "hook_event_name": event, "agent_id": "a1", "agent_type": "Explore" } }))
    };
    let (_, asked) = opened(&said(&mut ready(), &request("SubagentStop")));
    let Ask::Hook { event, input } = asked else { panic!("{asked:?}") };
    assert_eq!((event.as_str(), input["agent_type"].as_str()), ("SubagentStop", Some("Explore")));
    let output = json!({ "decision": "block", "reason": "r" });
    assert_eq!(answered(request("Stop"), Answer::Output { output: output.clone() }), output);
    // A denial blocks a tool, but never the end: the agent would go on for ever.
    let denied = answered(request("PreToolUse"), Answer::deny(None));
    assert_eq!(denied["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(answered(request("Stop"), Answer::deny(None)), json!({}));
}

fn before_call(tool: &str, input: &Value) -> Value {
    ask(json!({ "subtype": "hook_callback", "callback_id": "portolan-rules", "tool_use_id": "toolu_1",
        "input": { "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1" } }))
}

// covers: 002-059
#[test]
fn before_a_call_that_is_not_asked_about_policy_is_asked_and_only_a_rule_has_an_opinion() {
    let read = before_call("Read", &json!({ "file_path": "/x/.env" }));
    let checked = |decision| {
        let mut translate = ready();
        let out = said(&mut translate, &read);
        let [Report::Unasked { key, ask, tool, doer: Doer::Agent, .. }] = &out.reports[..] else {
            panic!("{out:?}")
        };
        assert!(matches!(&**ask, Ask::Permission { tool_name, .. } if tool_name == "Read"));
        assert_eq!(tool.as_deref(), Some("toolu_1"));
        assert!(written(&out).is_empty(), "the call waits");
        let out = told(&mut translate, 0, Order::Checked { key: key.clone(), decision });
        let response = written(&out)[0]["response"]["response"].clone();
        assert_eq!(told(&mut translate, 0, Order::Checked { key: key.clone(), decision }).writes, []);
        response
    };
    assert_eq!(checked(Decision::Allow), json!({}));
    assert_eq!(checked(Decision::Ask)["hookSpecificOutput"]["permissionDecision"], "ask");
    for name in ["AskUserQuestion", "ExitPlanMode"] {
        let out = said(&mut ready(), &before_call(name, &json!({})));
        assert_eq!((out.reports.len(), &written(&out)[0]["response"]["response"]), (0, &json!({})));
    }
}

#[test]
fn the_folder_that_the_hook_names_is_the_folder_of_the_call() {
    let folder_of = |cwd: &str| {
        let mut translate = ready();
        let mut hook = before_call("Bash", &json!({ "command": "ls" }));
        hook["request"]["input"]["cwd"] = json!(cwd);
        said(&mut translate, &hook);
        let mut request = tool_request();
        request["request_id"] = json!("k2");
        request["request"]["tool_use_id"] = json!("toolu_1");
        let out = said(&mut translate, &request);
        let [Report::RequestOpened { ask, .. }] = &out.reports[..] else { panic!("{out:?}") };
        let Ask::Permission { folder, input, .. } = &**ask else { panic!("{ask:?}") };
        assert_eq!(input["command"], "ls");
        folder.clone()
    };
    assert_eq!(folder_of("/workspace/demo"), None, "the session's");
    assert_eq!(folder_of("/workspace/demo/sub").as_deref(), Some("/workspace/demo/sub"));
}

// covers: 002-071
#[test]
fn a_call_that_a_rule_denies_is_stopped_with_the_words_of_the_rule() {
    let mut translate = ready();
    let out = said(&mut translate, &before_call("Read", &json!({ "file_path": "/x/.env" })));
    let [Report::Unasked { key, ask, .. }] = &out.reports[..] else { panic!("{out:?}") };
    let answer = Answer::deny(Some("Denied by persisted rule for Read.".into()));
    let out = told(&mut translate, 7, Order::Answer { key: key.clone(), ask: ask.clone(), answer });
    assert_eq!(
        written(&out)[0]["response"]["response"],
        json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "deny",
            "permissionDecisionReason": "Denied by persisted rule for Read." } })
    );
}

// covers: 002-077
#[test]
fn a_call_that_policy_has_not_seen_does_not_run_after_an_interrupt_or_a_stop() {
    let interrupt = |translate: &mut Translate| told(translate, 2, Order::Interrupt);
    let stop = |translate: &mut Translate| output_of(|out| translate.farewell(out));
    for end in [interrupt as fn(&mut Translate) -> Output, stop] {
        let mut translate = ready();
        told(&mut translate, 1, Order::Prompt { content: vec![Content::text("go")] });
        said(&mut translate, &before_call("Bash", &json!({ "command": "ls" })));
        let out = end(&mut translate);
        let released = written(&out).into_iter().find(|line| line["type"] == "control_response").unwrap();
        let output = &released["response"]["response"]["hookSpecificOutput"];
        assert_eq!(output["permissionDecision"], "deny");
        assert_eq!(output["permissionDecisionReason"], "Approval cancelled for tool Bash");
    }
}

#[test]
fn an_elicitation_takes_data_or_a_denial() {
    let request = ask(json!({ "subtype": "elicitation", "mcp_server_name": "s", "message": "Name?",
        "requested_schema": { "type": "object" } }));
    let (_, asked) = opened(&said(&mut ready(), &request));
    assert_eq!(asked.title(), "s: Name?");
    let content = json!({ "name": "x" });
    let response = answered(request.clone(), Answer::Content { content: content.clone() });
    assert_eq!(response, json!({ "action": "accept", "content": content }));
    assert_eq!(answered(request, Answer::deny(None)), json!({ "action": "decline" }));
}

// covers: 000-005, 004-046
#[test]
fn messages_to_a_served_mcp_server_open_requests_even_before_the_start_is_answered() {
    let mut translate = latest();
    output_of(|out| translate.start(out));
    let request =
        |message: Value| ask(json!({ "subtype": "mcp_message", "server_name": "demo", "message": message }));
    let out = said(&mut translate, &request(json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize" })));
    let (key, asked) = opened(&out);
    let answer = Answer::Output { output: json!({ "result": { "ok": true } }) };
    let out = told(&mut translate, 7, Order::Answer { key, ask: Box::new(asked), answer });
    let expected = json!({ "mcp_response": { "result": { "ok": true }, "jsonrpc": "2.0", "id": 3 } });
    assert_eq!(written(&out)[0]["response"]["response"], expected);
    // A notification is answered at once: the envelope needs it.
    let out =
        said(&mut translate, &request(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })));
    assert_eq!((out.reports.len(), written(&out).len()), (0, 1));
    // The CLI gets an error for a server that nobody serves.
    let out = said(
        &mut translate,
        &ask(json!({ "subtype": "mcp_message", "server_name": "other", "message": { "id": 1 } })),
    );
    assert_eq!(written(&out)[0]["response"]["response"]["mcp_response"]["error"]["code"], -32601);
}

#[test]
fn an_unknown_or_broken_request_is_answered_with_an_error() {
    for request in
        [json!({ "subtype": "fly_to_the_moon" }), json!({ "subtype": "can_use_tool" }), json!("text")]
    {
        let out = said(&mut ready(), &ask(request));
        let line = &written(&out)[0];
        assert_eq!(
            (&line["response"]["subtype"], &line["response"]["request_id"]),
            (&json!("error"), &json!("k1"))
        );
        assert!(matches!(events(&out)[..], [Event::Unknown { .. }]), "{out:?}");
    }
}

// covers: 000-033, 002-059, 003-105, 004-053
#[test]
fn an_interrupt_releases_hooks_and_the_cli_takes_permissions_back() {
    let mut translate = ready();
    said(&mut translate, &tool_request());
    let hook = json!({ "type": "control_request", "request_id": "h1",
        "request": { "subtype": "hook_callback", "input": { "hook_event_name": "Stop" } } });
    said(&mut translate, &hook);
    let out = told(&mut translate, 7, Order::Interrupt);
    let lines = written(&out);
    assert_eq!(lines[0]["request"], json!({ "subtype": "interrupt" }));
    assert_eq!(lines[1]["response"], json!({ "subtype": "success", "request_id": "h1", "response": {} }));
    let out = said(&mut translate, &json!({ "type": "control_cancel_request", "request_id": "k1" }));
    assert_eq!(out.reports, [Report::RequestWithdrawn { key: "k1".into() }]);
    let late = Order::Answer {
        key: "k1".into(),
        ask: Box::new(Ask::Plan { plan: None, input: json!({}) }),
        answer: Answer::allow(),
    };
    let out = told(&mut translate, 8, late);
    assert!(
        matches!(out.reports[..], [Report::Rejected { instruction_id: InstructionId(8), .. }]),
        "{out:?}"
    );
}

// ------------------------------------------------------------------------------ control requests

fn reply(translate: &mut Translate, id: &Value, response: Value) -> Output {
    let mut response = response;
    response["request_id"] = id.clone();
    said(translate, &json!({ "type": "control_response", "response": response }))
}

/// Sends an order, and returns its request and the result of a bare success.
fn controlled(order: Order) -> (Value, Output) {
    let mut translate = ready();
    let out = told(&mut translate, 7, order);
    let line = written(&out).remove(0);
    assert_eq!(line["type"], "control_request");
    let answer = reply(&mut translate, &line["request_id"], json!({ "subtype": "success" }));
    (line["request"].clone(), answer)
}

// covers: 004-042
#[test]
fn each_mode_of_the_cli_is_set_by_its_word_and_another_word_is_refused() {
    for mode in ["default", "plan", "acceptEdits", "bypassPermissions", "dontAsk"] {
        let (sent, answer) = controlled(Order::SetMode(mode.into()));
        assert_eq!(sent, json!({ "subtype": "set_permission_mode", "mode": mode }));
        let consumed = Report::Consumed { instruction_id: InstructionId(7), result: None };
        assert!(answer.reports.contains(&consumed), "{mode}: {answer:?}");
    }
    let out = told(&mut ready(), 7, Order::SetMode("anarchy".into()));
    assert!(written(&out).is_empty(), "{out:?}");
    let [Report::Rejected { error, .. }] = &out.reports[..] else { panic!("{out:?}") };
    assert!(error.contains("unknown mode `anarchy`"), "{error}");
}

// covers: 003-106, 003-107, 003-114, 004-018, 004-042, 004-043, 004-044, 004-047, 004-048, 004-050
#[test]
fn every_control_is_sent_in_the_words_of_the_cli_and_a_bare_success_settles_it() {
    let server = || "s".to_owned();
    let prompt = names::prompt(super::SESSION, InstructionId(3));
    for (order, request) in [
        (Order::SetModel(Some("m".into())), json!({ "subtype": "set_model", "model": "m" })),
        (Order::SetModel(None), json!({ "subtype": "set_model" })),
        (Order::SetMode("plan".into()), json!({ "subtype": "set_permission_mode", "mode": "plan" })),
        (
            Order::SetThinking(Some(9)),
            json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 9 }),
        ),
        (
            Order::SetThinking(None),
            json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": null }),
        ),
        (Order::McpReconnect(server()), json!({ "subtype": "mcp_reconnect", "serverName": "s" })),
        (
            Order::McpToggle { server: server(), enabled: false },
            json!({ "subtype": "mcp_toggle", "serverName": "s", "enabled": false }),
        ),
        (
            Order::McpMessage { server: server(), message: json!({ "id": 1 }) },
            json!({ "subtype": "mcp_message", "server_name": "s", "message": { "id": 1 } }),
        ),
        (
            Order::Rewind { prompt: InstructionId(3), dry_run: true },
            json!({ "subtype": "rewind_files", "user_message_id": prompt, "dry_run": true }),
        ),
        (Order::Context, json!({ "subtype": "get_context_usage" })),
        (Order::StopTask("t".into()), json!({ "subtype": "stop_task", "task_id": "t" })),
    ] {
        let (sent, answer) = controlled(order);
        assert_eq!(sent, request);
        assert!(
            answer.reports.contains(&Report::Consumed { instruction_id: InstructionId(7), result: None }),
            "{answer:?}"
        );
    }
}

#[test]
fn an_error_rejects_with_the_message_of_the_cli() {
    let mut translate = ready();
    let out = told(&mut translate, 7, Order::McpReconnect("nope".into()));
    let id = written(&out)[0]["request_id"].clone();
    let out = reply(&mut translate, &id, json!({ "subtype": "error", "error": "Server not found: nope" }));
    assert_eq!(
        out.reports,
        [Report::Rejected { instruction_id: InstructionId(7), error: "Server not found: nope".into() }]
    );
    let again = reply(&mut translate, &id, json!({ "subtype": "success" }));
    assert_eq!(again.reports, [], "a second answer is nobody's");
}

// covers: 004-086
#[test]
fn a_control_request_without_an_answer_fails_after_its_time_limit() {
    let mut translate = ready();
    let out = told(&mut translate, 7, Order::McpStatus);
    let &[(timer, Some(after))] = &out.timers[..] else { panic!("{out:?}") };
    assert_eq!(after.as_secs(), 30);
    let id = written(&out)[0]["request_id"].clone();
    let out = output_of(|out| translate.timeout(timer, out));
    let [Report::Rejected { instruction_id: InstructionId(7), error }] = &out.reports[..] else {
        panic!("{out:?}")
    };
    assert!(error.contains("30 s"), "{error}");
    assert_eq!(reply(&mut translate, &id, json!({ "subtype": "success" })).reports, [], "a late answer");
    assert_eq!(output_of(|out| translate.timeout(Timer(99), out)), Output::default());
}

// covers: 004-111
#[test]
fn a_lost_connection_rejects_open_requests_and_a_new_one_begins_with_initialize() {
    let mut translate = ready();
    told(&mut translate, 7, Order::Context);
    let out = output_of(|out| translate.link_lost(out));
    assert!(
        matches!(out.reports[..], [Report::Rejected { instruction_id: InstructionId(7), .. }]),
        "{out:?}"
    );
    let out = output_of(|out| translate.link_restored(out));
    assert_eq!(written(&out)[0]["request"]["subtype"], "initialize");
}

#[test]
fn a_permission_that_was_taken_back_while_the_link_was_down_is_withdrawn() {
    let mut translate = ready();
    said(&mut translate, &tool_request());
    let out = output_of(|out| translate.link_restored(out));
    let id = written(&out)[0]["request_id"].clone();
    let lost = json!({ "type": "control_request", "request_id": "k2",
        "request": { "subtype": "can_use_tool", "tool_name": "Read", "input": {} } });
    let answer =
        json!({ "subtype": "error", "error": "Already initialized", "pending_permission_requests": [lost] });
    let out = reply(&mut translate, &id, answer);
    assert!(
        matches!(&out.reports[..],
        [Report::RequestOpened { key, .. }, Report::RequestWithdrawn { key: gone }] if key == "k2" && gone == "k1"),
        "{out:?}"
    );
}

#[test]
fn a_permission_that_is_answered_while_the_open_ones_are_listed_is_not_asked_again() {
    let mut translate = ready();
    let (key, asked) = opened(&said(&mut translate, &tool_request()));
    let id = written(&output_of(|out| translate.link_restored(out)))[0]["request_id"].clone();
    told(&mut translate, 7, Order::Answer { key, ask: Box::new(asked), answer: Answer::allow() });
    let list = |id: &Value| {
        let answer = json!({ "subtype": "error", "error": "Already initialized",
            "pending_permission_requests": [tool_request()] });
        (id.clone(), answer)
    };
    let (id, answer) = list(&id);
    assert_eq!(reply(&mut translate, &id, answer).reports, [], "the list is older than the answer");
    // After the next loss the same list means that the answer never arrived.
    let id = written(&output_of(|out| translate.link_restored(out)))[0]["request_id"].clone();
    let (id, answer) = list(&id);
    assert_eq!(opened(&reply(&mut translate, &id, answer)).0, "k1");
}

// covers: 004-106
#[test]
fn a_mode_that_the_version_does_not_have_is_refused_without_asking() {
    let out = told(&mut ready(), 7, Order::SetMode("nonsense".into()));
    assert_eq!(out.writes, []);
    assert!(matches!(&out.reports[..], [Report::Rejected { error, .. }] if error.contains("acceptEdits")));
}

// covers: 003-111, 004-045
#[test]
fn the_state_of_mcp_servers_shows_no_configuration() {
    let mut translate = ready();
    let out = told(&mut translate, 7, Order::McpStatus);
    let id = written(&out)[0]["request_id"].clone();
    let servers = json!([{ "name": "s", "status": "connected", "scope": "user", "tools": [{ "name": "echo" }],
        "config": { "env": { "TOKEN": "hunter2" } } }]);
    let response = json!({ "subtype": "success", "response": { "mcpServers": servers } });
    let out = reply(&mut translate, &id, response);
    assert!(!format!("{:?}", out.reports).contains("hunter2"));
    let [Event::McpServers { servers }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!((servers[0].name.as_str(), &servers[0].tools), ("s", &vec!["echo".to_owned()]));
}

// covers: 004-049
#[test]
fn setting_servers_keeps_those_of_the_session() {
    let mut translate = ready();
    translate.setup.servers = indexmap! { "own".to_owned() => json!({ "command": "x" }) };
    let new = indexmap! { "new".to_owned() => json!({ "command": "y" }) };
    let out = told(&mut translate, 7, Order::McpSet(new));
    let expected = json!({ "own": { "command": "x" }, "new": { "command": "y" } });
    assert_eq!(written(&out)[0]["request"]["servers"], expected);
}

fn environment() -> Order {
    Order::SetEnvironment(indexmap! { "A".to_owned() => "1".to_owned(), "B".to_owned() => "2".to_owned() })
}

// covers: 004-055
#[test]
fn older_versions_never_answer_a_change_of_the_environment_so_it_is_done_once_written() {
    let mut translate = Translate::new(super::setup(Version(2, 1, 120), Repeats::Never));
    let out = told(&mut translate, 7, environment());
    let expected = json!({ "type": "update_environment_variables", "variables": { "A": "1", "B": "2" } });
    assert_eq!(written(&out)[0], expected);
    assert_eq!(out.writes[0].settles, Settles::Now);
}

// covers: 004-055
#[test]
fn environment_variables_that_the_running_cli_does_not_take_are_reported() {
    let mut translate = ready();
    let out = told(&mut translate, 7, environment());
    let id = written(&out)[0]["request_id"].clone();
    assert_eq!(written(&out)[0]["variables"], json!({ "A": "1", "B": "2" }));
    let answer = json!({ "subtype": "success", "response": { "applied": ["A"] } });
    let out = reply(&mut translate, &id, answer);
    assert!(
        matches!(&out.reports[0], Report::Consumed { instruction_id: InstructionId(7), .. }),
        "the session has them for its next start: {out:?}"
    );
    let [Event::Notice { level: Level::Warning, text }] = events(&out)[..] else { panic!("{out:?}") };
    assert!(text.contains("`B`") && !text.contains("`A`"), "{text}");
    // All variables were taken, or there was no answer at all: no notice.
    let out = told(&mut translate, 8, environment());
    let id = written(&out)[0]["request_id"].clone();
    let answer = json!({ "subtype": "success", "response": { "applied": ["A", "B"] } });
    assert_eq!(events(&reply(&mut translate, &id, answer)), [] as [&Event; 0]);
    let out = told(&mut translate, 9, environment());
    let &[(timer, Some(_))] = &out.timers[..] else { panic!("{out:?}") };
    let out = output_of(|out| translate.timeout(timer, out));
    assert_eq!(out.reports, [Report::Consumed { instruction_id: InstructionId(9), result: None }]);
}

#[test]
fn a_session_id_that_changes_without_a_report_is_no_reset() {
    let mut translate = ready();
    let init = |session: &str| json!({ "type": "system", "subtype": "init", "session_id": session });
    said(&mut translate, &init("first"));
    let out = said(&mut translate, &init("second"));
    let [Event::Notice { level: Level::Warning, .. }, Event::AgentInfo { info }] = events(&out)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(info.agent_session.as_deref(), Some("second"), "a later resume uses the new one");
    // A reported reset is a reset, and is shown once.
    let out = said(&mut translate, &json!({ "type": "conversation_reset", "new_conversation_id": "x" }));
    assert_eq!(events(&out), [&Event::ConversationReset { agent_session: None, reason: None }]);
    let out = said(&mut translate, &init("third"));
    let [Event::AgentInfo { info }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(info.agent_session.as_deref(), Some("third"));
}

#[test]
fn text_that_only_the_end_of_a_turn_has_is_shown() {
    let end = |text: &str| json!({ "type": "result", "subtype": "success", "result": text });
    let messages = |out: &Output| -> Vec<String> {
        let text = |event: &&Event| match event {
            Event::Message { content, .. } => Some(plain_text(content)),
            _ => None,
        };
        events(out).iter().filter_map(text).collect()
    };
    let mut translate = ready();
    said(&mut translate, &json!({ "type": "system", "subtype": "init", "session_id": "s" }));
    let out = said(&mut translate, &end("Unknown command: /x"));
    assert_eq!(messages(&out), ["Unknown command: /x"]);
    // Shown already.
    let message = json!({ "role": "assistant", "id": "m", "model": "x", "content": [{ "type": "text", "text": "Hello." }] });
    said(&mut translate, &json!({ "type": "assistant", "message": message }));
    assert_eq!(messages(&said(&mut translate, &end("Hello."))), [] as [&str; 0]);
}

// covers: 003-171, 004-054
#[test]
fn a_message_of_the_clis_own_protocol_goes_through() {
    let out = told(&mut ready(), 7, Order::Native(json!({ "type": "keep_alive" })));
    assert_eq!(written(&out)[0], json!({ "type": "keep_alive" }));
    for body in [json!({}), json!([]), json!({ "type": "control_request" })] {
        let out = told(&mut ready(), 7, Order::Native(body));
        assert_eq!(out.writes, []);
        assert!(matches!(out.reports[..], [Report::Rejected { .. }]));
    }
}

// covers: 000-029, 003-103, 004-052
#[test]
fn a_prompt_is_plain_text_or_blocks_with_its_own_uuid() {
    let mut translate = ready();
    let out = told(&mut translate, 3, Order::Prompt { content: vec![Content::text("/compact")] });
    let line = &written(&out)[0];
    assert_eq!(line["message"], json!({ "role": "user", "content": "/compact" }));
    assert_eq!((&line["parent_tool_use_id"], &line["session_id"]), (&Value::Null, &json!("")));
    assert_eq!(line["uuid"], names::prompt(super::SESSION, InstructionId(3)));
    let picture = Content::Image { media_type: "image/png".into(), data: "AA==".into() };
    let out = told(&mut translate, 4, Order::Prompt { content: vec![Content::text("see"), picture] });
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "AA==" });
    let blocks = json!([{ "type": "text", "text": "see" }, { "type": "image", "source": source }]);
    assert_eq!(written(&out)[0]["message"]["content"], blocks);
}

// ------------------------------------------------------------------------- what the CLI says rarely

// covers: 000-009, 000-026, 004-108, 004-112
#[test]
fn unknown_messages_are_kept_and_stop_nothing() {
    let mut translate = ready();
    for (line, kind) in [
        (r#"{"type":"brand_new","x":1}"#, "brand_new"),
        (r#"{"type":"system","subtype":"brand_new"}"#, "system/brand_new"),
        (r#"{"type":"assistant"}"#, "assistant"),
        (r#"{"type":"user","message":7}"#, "user"),
        (r#"{"type":"result","num_turns":"many"}"#, "result"),
        (r#"{"type":"user","isReplay":"yes"}"#, "user"),
    ] {
        let out = output_of(|out| translate.line(line, out));
        let [Report::Event { event: Event::Unknown { kind: told, .. }, raw: Some(raw) }] = &out.reports[..]
        else {
            panic!("{line}: {out:?}")
        };
        assert_eq!((told.as_str(), raw.as_ref()), (kind, line.as_bytes()));
    }
    let long = "this is no JSON ".repeat(7);
    let out = output_of(|out| translate.line(&long, out));
    assert_eq!(out.unreadable, 1);
    let [Event::Notice { level: Level::Warning, text }] = events(&out)[..] else { panic!("{out:?}") };
    assert!(text.ends_with(&long[..100]), "the first 100 characters of it and no more: {text}");
    let [Report::Event { raw: Some(raw), .. }] = &out.reports[..] else { panic!("{out:?}") };
    assert_eq!(raw.as_ref(), long.as_bytes(), "all of it is kept");
    let out =
        said(&mut translate, &json!({ "type": "system", "subtype": "informational", "content": "after it" }));
    let [Event::Notice { text, .. }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(text, "after it");
    assert_eq!(said(&mut translate, &json!({ "type": "keep_alive" })), Output::default());
}

// covers: 000-024, 003-129, 003-130, 003-132, 003-134, 004-037, 004-039
#[test]
fn messages_that_were_never_recorded_are_understood() {
    let mut translate = ready();
    let mut event = |message: Value| {
        let out = said(&mut translate, &message);
        events(&out).first().map_or_else(|| panic!("{message}: {out:?}"), |event| (*event).clone())
    };
    let progress = event(json!({ "type": "tool_progress", "tool_use_id": "t", "tool_name": "Bash",
        "parent_tool_use_id": "p", "elapsed_time_seconds": 1.5 }));
    assert_eq!(
        progress,
        Event::ToolProgress {
            tool: "t".into(),
            name: "Bash".into(),
            parent: Some("p".into()),
            elapsed_seconds: Some(1.5)
        }
    );
    let summary =
        event(json!({ "type": "tool_use_summary", "summary": "s", "preceding_tool_use_ids": ["t"] }));
    assert_eq!(summary, Event::ToolSummary { summary: "s".into(), tools: vec!["t".into()] });
    let auth =
        event(json!({ "type": "auth_status", "isAuthenticating": true, "output": ["o"], "error": "e" }));
    assert_eq!(
        auth,
        Event::AuthStatus { authenticating: true, output: vec!["o".into()], error: Some("e".into()) }
    );
    let files = event(json!({ "type": "system", "subtype": "files_persisted", "files": [1], "failed": [2] }));
    assert_eq!(files, Event::FilesPersisted { files: vec![json!(1)], failed: vec![json!(2)] });
    let hook =
        event(json!({ "type": "system", "subtype": "hook_progress", "hook_id": "h", "stdout": "out" }));
    let Event::Hook { status: HookStatus::Progress, data: Some(data), .. } = hook else { panic!("{hook:?}") };
    assert_eq!(data["stdout"], "out");
}

// covers: 003-125
#[test]
fn structured_output_that_never_fitted_has_its_own_outcome() {
    let mut translate = ready();
    let out = said(
        &mut translate,
        &json!({ "type": "result", "subtype": "error_max_structured_output_retries", "is_error": true }),
    );
    let result = out.reports.iter().find_map(|report| match report {
        Report::TurnEnded { result, .. } => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!(result.outcome, TurnOutcome::StructuredOutputFailed);
    assert_eq!(result.error.as_ref().unwrap().kind, ErrorKind::Limit);
}

#[test]
fn a_change_of_mode_is_reported_once_whoever_made_it() {
    let mut translate = ready();
    let out = told(&mut translate, 7, Order::SetMode("plan".into()));
    let id = written(&out)[0]["request_id"].clone();
    let status =
        |mode: &str| json!({ "type": "system", "subtype": "status", "status": null, "permissionMode": mode });
    assert_eq!(events(&said(&mut translate, &status("plan"))), [] as [&Event; 0]);
    reply(&mut translate, &id, json!({ "subtype": "success", "response": { "mode": "plan" } }));
    assert_eq!(events(&said(&mut translate, &status("plan"))), [] as [&Event; 0]);
    let out = said(&mut translate, &status("default"));
    let setting = Setting::Mode { mode: "default".into() };
    assert_eq!(events(&out), [&Event::SettingChanged { setting }]);
}

// covers: 000-073
#[test]
fn a_stop_interrupts_a_running_turn_and_closes_the_input() {
    let mut translate = ready();
    let out = output_of(|out| translate.farewell(out));
    assert!(out.writes.is_empty() && out.closes_input);
    said(&mut translate, &json!({ "type": "system", "subtype": "init", "session_id": "s" }));
    let out = output_of(|out| translate.farewell(out));
    assert_eq!(written(&out)[0]["request"]["subtype"], "interrupt");
    assert!(out.closes_input);
}
