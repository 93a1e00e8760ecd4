//! Orders to an agent and their effects; and arbitrary bytes.

use std::time::Duration;

use portolan_core::{
    Event,
    event::{Content, ErrorKind, ItemKind, TurnOutcome},
    ports::{InstructionId, Order, Report},
    request::{Answer, Ask},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Setup, answer_to, asked, events, everything, initialized, output_of, prompt, ready, refusal_of, said,
    setup, told, update, words, written,
};
use crate::{
    acp::{
        fuzz,
        translate::{Begin, HEARD_SINCE, OLD_ENOUGH},
    },
    driver::Translator as _,
};

// covers: 003-026, 003-029, 003-054
#[test]
fn the_first_report_of_an_agent_gives_its_capabilities() {
    let mut acp_told = everything();
    acp_told["agentCapabilities"]["promptCapabilities"] = json!({});
    let (mut acp, out) = initialized(setup(), &acp_told);
    assert!(
        matches!(events(&out)[..], [Event::AgentInfo { info }] if info.version.as_deref() == Some("1.2.3"))
    );
    let out = said(&mut acp, &answer_to(&out, "session/new", &json!({ "sessionId": "S" })));
    let [Event::AgentInfo { info }] = events(&out)[..] else { panic!("{out:?}") };
    let can = info.capabilities.as_deref().unwrap();
    assert_eq!((can.session_resume, can.session_fork, can.image_input), (true, true, false));
    assert_eq!((can.model_switching, can.permission_modes), (false, false));
    // The agent is not sent what it does not take.
    let image = Content::Image { media_type: "image/png".into(), data: String::new() };
    let out = told(&mut acp, 1, Order::Prompt { content: vec![image] });
    assert!(
        matches!(&out.reports[..], [Report::Rejected { error, .. }] if error.contains("images")),
        "{out:?}"
    );
    let file = Content::Resource { uri: "file:///a.txt".into(), name: None, text: Some("one".into()) };
    let out = told(&mut acp, 2, Order::Prompt { content: vec![file] });
    assert_eq!(asked(&out, "session/prompt")["params"]["prompt"][0]["type"], "text");
}

#[test]
fn cost_tracking_is_announced_after_the_first_reported_cost() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let costs = |amount: f64| {
        update(&json!({ "sessionUpdate": "usage_update", "cost": { "amount": amount, "currency": "USD" } }))
    };
    assert_eq!(said(&mut acp, &costs(0.0)).reports, [], "agents that know no prices report zero");
    let out = said(&mut acp, &costs(0.5));
    let [Event::AgentInfo { info }] = events(&out)[..] else { panic!("{out:?}") };
    let can = info.capabilities.as_deref().unwrap();
    assert!(can.cost_tracking && can.session_fork, "and the rest of what it can do stays");
    assert_eq!(said(&mut acp, &costs(0.75)).reports, [], "it is known");
}

#[test]
fn a_too_young_conversation_is_resumed_later_and_a_notice_says_so() {
    let begin = Begin::Resume { session: "S".into(), own: true };
    let wait = Duration::from_secs(34);
    let (mut acp, out) = initialized(Setup { begin, too_young: Some(wait), ..setup() }, &everything());
    assert_eq!(written(&out), Vec::<Value>::new());
    assert!(out.timers.contains(&(OLD_ENOUGH, Some(wait))), "{out:?}");
    let waits = |event: &&&Event| matches!(event, Event::Notice { text, .. } if text.contains("waits 34 s"));
    assert_eq!(events(&out).iter().filter(waits).count(), 1, "{out:?}");
    let out = output_of(|out| acp.timeout(OLD_ENOUGH, out));
    assert_eq!(asked(&out, "session/resume")["params"]["sessionId"], "S");
}

// covers: 003-056
#[test]
fn a_prompt_holds_text_images_and_resources() {
    let mut acp = ready(setup());
    let content = vec![
        Content::text("look"),
        Content::Image { media_type: "image/png".into(), data: "AAAA".into() },
        Content::Resource { uri: "file:///a.txt".into(), name: None, text: Some("one".into()) },
        Content::Resource { uri: "file:///b.txt".into(), name: None, text: None },
    ];
    let out = told(&mut acp, 1, Order::Prompt { content });
    let expected = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "mimeType": "image/png", "data": "AAAA" },
        { "type": "resource", "resource": { "uri": "file:///a.txt", "text": "one" } },
        { "type": "resource_link", "uri": "file:///b.txt", "name": "b.txt" },
    ]);
    assert_eq!(asked(&out, "session/prompt")["params"], json!({ "prompt": expected, "sessionId": "S" }));
    assert!(out.timers.iter().all(|(timer, _)| *timer == HEARD_SINCE), "a turn takes as long as it takes");
    assert!(matches!(out.reports[..], [Report::TurnStarted { .. }]));
    let out = said(&mut acp, &words("I"));
    assert_eq!(
        out.reports[0],
        Report::Consumed { instruction_id: InstructionId(1), result: None },
        "it has taken it up"
    );
}

// covers: 003-059
#[test]
fn every_kind_of_update_has_its_event() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let thought =
        json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } });
    let plan = json!({ "sessionUpdate": "plan", "entries": [{ "content": "one", "priority": "high", "status": "pending" }] });
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AA" });
    let expected: Vec<(Value, &[&str])> = vec![
        (thought, &["item_started", "delta"]),
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "so" } }),
            &["message", "item_started", "delta"],
        ),
        (plan, &["plan"]),
        (json!({ "sessionUpdate": "agent_message_chunk", "content": image }), &["message", "message"]),
        (
            json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "echo" } }),
            &[],
        ),
        (json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }), &["agent_info"]),
        (json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }), &[]),
        (json!({ "sessionUpdate": "session_info_update", "title": "T" }), &[]),
        (json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }), &["usage"]),
        (
            json!({ "sessionUpdate": "notice", "severity": "warning", "title": "T", "description": "d" }),
            &["notice"],
        ),
        (
            json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress" }),
            &["activity"],
        ),
        (
            json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed" }),
            &["activity", "compacted"],
        ),
        (
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{ "name": "init" }] }),
            &["agent_info"],
        ),
    ];
    for (line, kinds) in expected {
        let out = said(&mut acp, &update(&line));
        let kind = |event: &&Event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
        assert_eq!(events(&out).iter().map(kind).collect::<Vec<_>>(), kinds, "{line}");
    }
}

#[test]
fn a_message_ends_where_another_begins() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let chunk = |id: &str, text: &str| {
        let content = json!({ "type": "text", "text": text });
        update(&json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content }))
    };
    said(&mut acp, &chunk("a", "one "));
    said(&mut acp, &chunk("a", "two"));
    let out = said(&mut acp, &chunk("b", "three"));
    let [
        Event::Message { content, message, .. },
        Event::ItemStarted { kind: ItemKind::Text, .. },
        Event::Delta { .. },
    ] = events(&out)[..]
    else {
        panic!("{out:?}")
    };
    assert_eq!((content, message.as_deref()), (&vec![Content::text("one two")], Some("a")));
}

#[test]
fn every_end_of_a_turn_has_its_outcome() {
    for (reason, outcome, kind) in [
        ("end_turn", TurnOutcome::Completed, None),
        ("max_tokens", TurnOutcome::Failed, Some(ErrorKind::OutputLimit)),
        ("max_turn_requests", TurnOutcome::MaxTurns, None),
        ("refusal", TurnOutcome::Failed, Some(ErrorKind::Refused)),
        ("cancelled", TurnOutcome::Interrupted, None),
        ("something newer", TurnOutcome::Completed, None),
    ] {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("do it"));
        let out = said(&mut acp, &json!({ "id": 3, "result": { "stopReason": reason } }));
        let [.., Report::TurnEnded { result, raw: Some(_) }] = &out.reports[..] else { panic!("{out:?}") };
        assert_eq!(
            (result.outcome, result.error.as_ref().map(|error| error.kind)),
            (outcome, kind),
            "{reason}"
        );
        assert_eq!(result.stop_reason.as_deref(), Some(reason));
    }
}

#[test]
fn a_missing_login_is_shown_with_its_methods() {
    let mut acp_told = everything();
    acp_told["authMethods"] = json!([{ "id": "key", "name": "API key", "description": "Set KEY" }]);
    // The configuration names a login method.
    let (mut acp, out) = initialized(Setup { login: Some("key".into()), ..setup() }, &acp_told);
    assert_eq!(asked(&out, "authenticate")["params"], json!({ "methodId": "key" }));
    let out = said(&mut acp, &answer_to(&out, "authenticate", &json!({})));
    let out = said(&mut acp, &refusal_of(&out, "session/new", -32000, "Authentication required"));
    let [
        Event::AuthStatus { output, error: Some(said_why), .. },
        Event::Failure { error, recoverable: false },
    ] = events(&out)[..]
    else {
        panic!("{out:?}")
    };
    assert_eq!(output, &["API key (`key`): Set KEY"]);
    assert!(said_why.contains("Set KEY"), "{said_why}");
    assert_eq!(error.kind, ErrorKind::Auth);
    assert!(error.way_out.as_deref().is_some_and(|way| way.contains("API key")), "{error:?}");
    assert!(out.fault.is_some());
    // In the middle of a conversation the session goes on.
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let out = said(&mut acp, &json!({ "id": 3, "error": { "code": -32000, "message": "expired" } }));
    assert!(matches!(events(&out)[..], [Event::AuthStatus { .. }]), "{out:?}");
    assert!(matches!(&out.reports[..], [.., Report::TurnEnded { .. }]) && out.fault.is_none(), "{out:?}");
}

#[test]
fn requested_data_is_given_declined_or_cancelled() {
    let elicitation = json!({ "id": 0, "method": "elicitation/create", "params": { "sessionId": "S", "mode": "form",
        "message": "Your name?", "requestedSchema": { "type": "object" } } });
    for (answer, expected) in [
        (
            Answer::Content { content: json!({ "name": "x" }) },
            json!({ "action": "accept", "content": { "name": "x" } }),
        ),
        (Answer::deny(None), json!({ "action": "decline" })),
        (Answer::Deny { message: None, interrupt: true, option: None }, json!({ "action": "cancel" })),
    ] {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("do it"));
        let out = said(&mut acp, &elicitation);
        let [Report::RequestOpened { key, ask, .. }] = &out.reports[..] else { panic!("{out:?}") };
        assert!(
            matches!(&**ask, Ask::Elicitation { message, schema: Some(_), .. } if message == "Your name?")
        );
        let out = told(&mut acp, 2, Order::Answer { key: key.clone(), ask: ask.clone(), answer });
        assert_eq!(written(&out)[0]["result"], expected);
    }
}

#[test]
fn an_acp_message_can_be_sent_unless_only_portolan_may_send_it() {
    let mut acp = ready(setup());
    let native = |method: &str, params: Value| Order::Native(json!({ "method": method, "params": params }));
    let out = told(
        &mut acp,
        1,
        native("session/set_config_option", json!({ "configId": "effort", "value": "high" })),
    );
    let params = json!({ "configId": "effort", "value": "high", "sessionId": "S" });
    assert_eq!(asked(&out, "session/set_config_option")["params"], params);
    let out = said(&mut acp, &answer_to(&out, "session/set_config_option", &json!({ "configOptions": [] })));
    let result = Some(json!({ "configOptions": [] }));
    assert!(out.reports.contains(&Report::Consumed { instruction_id: InstructionId(1), result }), "{out:?}");
    let out = told(&mut acp, 2, native("session/list", json!({})));
    assert_eq!(asked(&out, "session/list")["params"], json!({}));
    for order in
        [native("session/prompt", json!({})), native("session/new", json!({})), Order::Native(json!(7))]
    {
        assert!(matches!(told(&mut acp, 3, order).reports[..], [Report::Rejected { .. }]));
    }
    for order in
        [Order::McpReconnect("x".into()), Order::Context, Order::SetThinking(None), Order::SetModel(None)]
    {
        assert!(matches!(told(&mut acp, 4, order).reports[..], [Report::Rejected { .. }]));
    }
}

#[test]
fn a_request_that_is_never_answered_fails_with_the_reason() {
    let mut acp = ready(setup());
    let out = told(&mut acp, 1, Order::SetMode("code".into()));
    let timer = out.timers[0].0;
    let out = output_of(|out| acp.timeout(timer, out));
    assert!(
        matches!(&out.reports[..], [Report::Rejected { error, .. }] if error.contains("30 s")),
        "{out:?}"
    );
    assert_eq!(output_of(|out| acp.timeout(timer, out)).reports, []);
}

#[test]
fn an_undelivered_prompt_is_no_turn() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let out = output_of(|out| acp.undelivered(InstructionId(1), "gone", out));
    assert!(matches!(out.reports[..], [Report::TurnEnded { .. }, Report::Rejected { .. }]), "{out:?}");
    assert!(!told(&mut acp, 2, prompt("again")).writes.is_empty());
}

#[test]
fn a_farewell_stops_the_turn_or_closes_the_session() {
    let mut acp = ready(setup());
    let out = output_of(|out| acp.farewell(out));
    assert_eq!(asked(&out, "session/close")["params"], json!({ "sessionId": "S" }));
    assert!(out.closes_input);
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let out = output_of(|out| acp.farewell(out));
    assert_eq!(written(&out)[0]["method"], "session/cancel");
    assert!(out.closes_input);
}

#[test]
fn a_session_over_another_transport_shows_the_transport_first() {
    let mut acp = super::Translate::new(Setup { notices: vec!["no other way".into()], ..setup() });
    let out = output_of(|out| acp.start(out));
    assert!(matches!(events(&out)[..], [Event::Notice { text, .. }] if text == "no other way"), "{out:?}");
}

// ------------------------------------------------------------------------------------------ any bytes

fn recorded() -> Vec<String> {
    let mut lines = vec![];
    for name in
        ["claude-agent-acp/permission", "gemini/permission-reject", "qwen/permission-write", "goose/cancel"]
    {
        for line in super::recording(name) {
            let order = match line.msg["method"].as_str() {
                Some("session/prompt") => ">prompt".to_owned(),
                Some("session/cancel") => ">interrupt".to_owned(),
                _ if line.dir == "out" => continue,
                _ => line.msg.to_string(),
            };
            lines.push(order);
        }
    }
    lines
}

#[test]
fn hostile_lines_break_nothing() {
    let session = "{\"id\":1,\"result\":{\"protocolVersion\":1}}\n{\"id\":2,\"result\":{\"sessionId\":\"S\"}}\n>prompt\n";
    for hostile in [
        "{\"id\":3,\"result\":null}\n",
        "{\"method\":\"session/update\"}\n{\"method\":\"session/update\",\"params\":null}\n",
        "{\"id\":null,\"method\":\"session/request_permission\"}\n{\"id\":0,\"method\":\"session/request_permission\"}\n",
        "{\"id\":0,\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"toolCallId\":\"\"},\"options\":[{}]}}\n",
        "{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":{}}}\n>never\n>quiet\n>interrupt\n>never\n",
        "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"S\",\"update\":{\"sessionUpdate\":\"tool_call\",\"toolCallId\":7}}}\n",
    ] {
        fuzz::lines(format!("{session}{hostile}{hostile}").as_bytes());
        fuzz::lines(hostile.as_bytes());
    }
    fuzz::lines(recorded().join("\n").as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_and_any_order_of_real_lines_break_nothing(bytes: Vec<u8>, order in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        fuzz::lines(&bytes);
        let lines = recorded();
        let mixed: Vec<_> = order.iter().map(|index| index.get(&lines).as_str()).collect();
        fuzz::lines(mixed.join("\n").as_bytes());
    }

    #[test]
    fn a_line_with_a_byte_changed_breaks_nothing(at: prop::sample::Index, byte: u8) {
        let mut bytes = recorded().join("\n").into_bytes();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        fuzz::lines(&bytes);
    }
}
