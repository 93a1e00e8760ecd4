//! Orders of people and the messages to Codex; and lines that no Codex should send.

use portolan_core::{
    Event,
    event::{Content, ResetReason},
    ports::{InstructionId, Order, Report},
};
use serde_json::json;

use super::{Translate, answer_to, events, output_of, ready, said, setup, told, written};
use crate::{
    codex::{
        fuzz,
        translate::{Begin, Setup},
    },
    driver::{Timer, Translator as _},
};

fn prompt(words: &str) -> Order {
    Order::Prompt { content: vec![Content::text(words)] }
}

// covers: 003-040, 003-042
#[test]
fn commands_and_skills_are_sent_in_their_own_form() {
    let mut codex = ready(setup());
    codex.skills.insert("sail".into(), "/skills/sail".into());
    let asked = |codex: &mut Translate, words: &str| {
        let line = written(&told(codex, 1, prompt(words))).remove(0);
        (line["method"].as_str().unwrap().to_owned(), line["params"].clone())
    };
    assert_eq!(asked(&mut codex, "/compact").0, "thread/compact/start");
    let (method, params) = asked(&mut codex, "/review the rigging");
    assert_eq!((method.as_str(), &params["target"]["instructions"]), ("review/start", &json!("the rigging")));
    let (method, params) = asked(&mut codex, "/sail north");
    assert_eq!(method, "turn/start");
    let input = json!([{ "type": "skill", "name": "sail", "path": "/skills/sail" }, { "type": "text", "text": "north" }]);
    assert_eq!(params["input"], input);
    let (_, params) = asked(&mut codex, "/nonsense is only words");
    assert_eq!(params["input"], json!([{ "type": "text", "text": "/nonsense is only words" }]));
}

// covers: 003-019
#[test]
fn a_model_is_set_with_its_effort_and_unknown_modes_are_refused() {
    let mut codex = ready(setup());
    let out = told(&mut codex, 1, Order::SetModel(Some("gpt-5.5:high".into())));
    let line = written(&out).remove(0);
    assert_eq!(line["method"], "thread/settings/update");
    assert_eq!(line["params"], json!({ "threadId": "T", "model": "gpt-5.5", "effort": "high" }));
    let out = said(&mut codex, &answer_to(&out, "thread/settings/update", &json!({})));
    assert_eq!(out.reports[0], Report::Consumed { instruction_id: InstructionId(1), result: None });
    let out = told(&mut codex, 2, Order::SetMode("on-failure".into()));
    assert!(matches!(&out.reports[..], [Report::Rejected { .. }]), "{out:?}");
}

// covers: 003-036
#[test]
fn a_conversation_that_was_never_written_begins_again_and_one_that_is_open_elsewhere_does_not_begin() {
    let resume = |own| Setup { begin: Begin::Resume { thread: "T".into(), own }, ..setup() };
    for (own, error, anew) in [
        (true, "no rollout found for thread id T", true),
        (false, "no rollout found for thread id T", false),
        (true, "thread T already has an active writer", false),
    ] {
        let mut codex = Translate::new(resume(own));
        let out = output_of(|out| codex.start(out));
        let out = said(&mut codex, &answer_to(&out, "initialize", &json!({})));
        let id =
            written(&out).into_iter().find(|line| line["method"] == "thread/resume").unwrap()["id"].clone();
        let out = said(&mut codex, &json!({ "error": { "code": -32600, "message": error }, "id": id }));
        let begins = written(&out).iter().any(|line| line["method"] == "thread/start");
        assert_eq!((begins, out.fault.is_some()), (anew, !anew), "{error}");
        let (agent_session, reason) = (None, Some(ResetReason::Lost));
        let told = Event::ConversationReset { agent_session, reason };
        assert_eq!(events(&out).contains(&&told), anew, "{error}");
    }
}

// covers: 003-037
#[test]
fn a_fork_takes_the_model_of_its_source_and_ends_at_its_turn() {
    let begin = Begin::Fork { thread: "S".into(), last_turn: Some("turn-3".into()) };
    let mut codex = Translate::new(Setup { begin, ..setup() });
    let out = output_of(|out| codex.start(out));
    let out = said(&mut codex, &answer_to(&out, "initialize", &json!({})));
    let out = said(&mut codex, &answer_to(&out, "thread/read", &json!({ "thread": { "model": "gpt-5.5" } })));
    let line = written(&out).remove(0);
    assert_eq!(line["method"], "thread/fork");
    let expected = json!({ "cwd": "/harbour", "model": "gpt-5.5", "threadId": "S", "excludeTurns": true,
        "lastTurnId": "turn-3" });
    assert_eq!(line["params"], expected);
}

#[test]
fn a_missing_answer_leaves_an_order_uncertain_and_not_refused() {
    for order in [prompt("hello"), Order::SetModel(Some("m".into())), Order::McpStatus] {
        let mut codex = ready(setup());
        let out = told(&mut codex, 1, order);
        let timer = out.timers[0].0;
        let out = output_of(|out| codex.timeout(timer, out));
        let reason = "codex did not answer within 30 s".into();
        assert_eq!(out.reports, [Report::Uncertain { instruction_id: InstructionId(1), reason }]);
        assert_eq!(output_of(|out| codex.timeout(Timer(9999), out)).reports, []);
    }
}

#[test]
fn a_turn_that_begins_though_its_answer_is_late_is_a_turn() {
    let mut codex = ready(setup());
    let sent = told(&mut codex, 1, prompt("hello"));
    told(&mut codex, 2, Order::Interrupt);
    let out = output_of(|out| codex.timeout(sent.timers[0].0, out));
    let reason = "codex did not answer within 30 s".into();
    let doubted = Report::Uncertain { instruction_id: InstructionId(2), reason };
    assert_eq!(out.reports[1..], [doubted], "the turn may yet come, and would go on");
    let turn = json!({ "id": "A" });
    let out =
        said(&mut codex, &json!({ "method": "turn/started", "params": { "threadId": "T", "turn": turn } }));
    assert!(matches!(out.reports[..], [Report::TurnStarted { .. }]), "{out:?}");
    let out = said(&mut codex, &answer_to(&sent, "turn/start", &json!({ "turn": turn })));
    assert_eq!(out.reports, [Report::Consumed { instruction_id: InstructionId(1), result: None }]);
}

#[test]
fn in_a_wrong_mode_nothing_begins_and_that_mode_is_not_reported() {
    let begun = |mode: &str| {
        let mut codex = Translate::new(Setup { mode: Some(mode.into()), ..setup() });
        let out = output_of(|out| codex.start(out));
        let out = said(&mut codex, &answer_to(&out, "initialize", &json!({})));
        let thread = json!({ "thread": { "id": "T" }, "model": "m", "approvalPolicy": { "granular": {} },
            "sandbox": { "type": "dangerFullAccess" } });
        let out = said(&mut codex, &answer_to(&out, "thread/start", &thread));
        (codex, out)
    };
    let modes = |out: &crate::driver::Output| {
        let mode = |event: &&Event| match event {
            Event::AgentInfo { info } => info.mode.clone(),
            _ => None,
        };
        events(out).iter().filter_map(mode).collect::<Vec<_>>()
    };
    let (mut codex, begins) = begun("read-only");
    assert_eq!(modes(&begins), [""; 0], "it would be asked for at the next start");
    assert!(!begins.reports.contains(&Report::Ready));
    let out = said(&mut codex, &answer_to(&begins, "thread/settings/update", &json!({})));
    assert!(!out.reports.contains(&Report::Ready), "it has not said yet that it is in it");
    let in_mode = |policy: &str| {
        let settings = json!({ "approvalPolicy": policy, "sandboxPolicy": { "type": "readOnly" } });
        json!({ "method": "thread/settings/updated", "params": { "threadId": "T", "threadSettings": settings } })
    };
    let out = said(&mut codex, &in_mode("on-request"));
    assert_eq!(modes(&out), ["read-only"]);
    assert!(out.reports.contains(&Report::Ready));

    let refusal = |begins: &crate::driver::Output| {
        let asked = answer_to(begins, "thread/settings/update", &json!({}));
        json!({ "error": { "code": -32600, "message": "not today" }, "id": asked["id"] })
    };
    let (mut codex, begins) = begun("read-only");
    let refused = said(&mut codex, &refusal(&begins));
    let (mut codex, begins) = begun("read-only");
    let last = begins.timers.iter().rfind(|(_, after)| after.is_some()).unwrap().0;
    let silent = output_of(|out| codex.timeout(last, out));
    let (_, unknown) = begun("yolo");
    let (mut codex, begins) = begun("read-only");
    let out = said(&mut codex, &answer_to(&begins, "thread/settings/update", &json!({})));
    let waits = out.timers.last().unwrap().0;
    let unsaid = output_of(|out| codex.timeout(waits, out));
    let (mut codex, begins) = begun("read-only");
    said(&mut codex, &answer_to(&begins, "thread/settings/update", &json!({})));
    assert_eq!(modes(&said(&mut codex, &in_mode("never"))), [""; 0]);
    let another = output_of(|out| codex.timeout(waits, out));
    for (out, why) in [
        (refused, "not today"),
        (silent, "30 s"),
        (unknown, "no such mode"),
        (unsaid, "did not report that mode within 30 s"),
        (another, "it reports `never, readOnly`"),
    ] {
        assert!(out.fault.as_ref().is_some_and(|fault| fault.contains(why)), "{out:?}");
        assert!(
            events(&out).iter().any(|event| matches!(event, Event::Failure { recoverable: false, .. })),
            "{out:?}"
        );
        assert!(!out.reports.contains(&Report::Ready));
    }
    // The user's own settings that have no name here already hold.
    let (_, out) = begun("granular, dangerFullAccess");
    assert_eq!(modes(&out), ["granular, dangerFullAccess"]);
    assert!(out.reports.contains(&Report::Ready));
}

#[test]
fn a_session_that_names_no_mode_begins_in_a_mode_that_asks() {
    for (policy, sandbox, expected) in [
        ("on-request", "readOnly", None),
        ("on-request", "workspaceWrite", None),
        ("never", "dangerFullAccess", Some("full-access")),
        ("on-request", "dangerFullAccess", Some("on-request, dangerFullAccess")),
    ] {
        let mut codex = Translate::new(setup());
        let out = output_of(|out| codex.start(out));
        let out = said(&mut codex, &answer_to(&out, "initialize", &json!({})));
        let thread = json!({ "thread": { "id": "T" }, "model": "m", "approvalPolicy": policy,
            "sandbox": { "type": sandbox } });
        let out = said(&mut codex, &answer_to(&out, "thread/start", &thread));
        let Some(own) = expected else {
            assert!(out.reports.contains(&Report::Ready), "{policy}, {sandbox}: {out:?}");
            continue;
        };
        let notice = |event: &&Event| matches!(event, Event::Notice { text, .. } if text.contains(&format!("`{own}`")));
        assert!(events(&out).iter().any(notice), "{out:?}");
        let asked =
            written(&out).into_iter().find(|line| line["method"] == "thread/settings/update").unwrap();
        let params = &asked["params"];
        assert_eq!(
            (&params["approvalPolicy"], &params["sandboxPolicy"]["type"]),
            (&json!("on-request"), &json!("readOnly"))
        );
        assert!(!out.reports.contains(&Report::Ready));
    }
}

#[test]
fn an_unknown_request_of_codex_is_refused_and_kept() {
    let mut codex = ready(setup());
    let out = said(&mut codex, &json!({ "id": 0, "method": "item/brandNew/ask", "params": {} }));
    assert_eq!(written(&out)[0]["id"], 0);
    assert_eq!(written(&out)[0]["error"]["code"], -32601);
    assert!(matches!(events(&out)[..], [Event::Unknown { .. }]), "{out:?}");
}

#[test]
fn a_repeated_request_is_opened_once() {
    let mut codex = ready(setup());
    let asked = json!({ "id": 0, "method": "item/commandExecution/requestApproval",
        "params": { "threadId": "T", "itemId": "c", "command": "ls", "cwd": "/" } });
    assert_eq!(said(&mut codex, &asked).reports.len(), 1);
    assert_eq!(said(&mut codex, &asked).reports, []);
    let out = said(&mut codex, &json!({ "method": "serverRequest/resolved", "params": { "requestId": 0 } }));
    assert_eq!(out.reports, [Report::RequestWithdrawn { key: "0".into() }]);
}

// covers: 003-038
#[test]
fn a_message_of_codex_own_protocol_is_passed_on_and_its_answer_comes_back() {
    let mut codex = ready(setup());
    for (instruction_id, method) in
        [(1, "thread/list"), (2, "thread/unsubscribe"), (3, "thread/revert"), (4, "hooks/list")]
    {
        let out = told(
            &mut codex,
            instruction_id,
            Order::Native(json!({ "method": method, "params": { "a": 1 } })),
        );
        let line = written(&out).remove(0);
        assert_eq!((&line["method"], &line["params"]), (&json!(method), &json!({ "a": 1 })));
        let out = said(&mut codex, &answer_to(&out, method, &json!({ "data": [] })));
        let result = Some(json!({ "data": [] }));
        assert_eq!(out.reports, [Report::Consumed { instruction_id: InstructionId(instruction_id), result }]);
    }
    for body in [json!({ "method": "turn/start" }), json!({ "params": {} }), json!(7)] {
        let out = told(&mut codex, 9, Order::Native(body));
        assert!(matches!(&out.reports[..], [Report::Rejected { .. }]), "{out:?}");
    }
}

// covers: 003-043
#[test]
fn the_reason_of_a_denial_steers_the_turn_before_the_denial_is_sent() {
    let mut codex = ready(setup());
    let turn = json!({ "id": "turn-1" });
    said(&mut codex, &json!({ "method": "turn/started", "params": { "threadId": "T", "turn": turn } }));
    let asked = json!({ "id": 0, "method": "item/commandExecution/requestApproval",
        "params": { "threadId": "T", "itemId": "c", "command": "ls", "cwd": "/" } });
    let out = said(&mut codex, &asked);
    let [Report::RequestOpened { key, ask, .. }] = &out.reports[..] else { panic!("{out:?}") };
    let answer = portolan_core::request::Answer::deny(Some("too loud".into()));
    let out = told(&mut codex, 1, Order::Answer { key: key.clone(), ask: ask.clone(), answer });
    let lines = written(&out);
    assert_eq!(
        (&lines[0]["method"], &lines[0]["params"]["expectedTurnId"]),
        (&json!("turn/steer"), &json!("turn-1"))
    );
    assert!(lines[0]["params"]["input"][0]["text"].as_str().unwrap().ends_with("too loud"));
    assert_eq!(lines[1], json!({ "id": 0, "result": { "decision": "decline" } }));
}

// covers: 003-051
#[test]
fn a_near_limit_is_reported_once_per_mark() {
    let mut codex = ready(setup());
    let told = |codex: &mut Translate, used: u64| {
        let primary = json!({ "usedPercent": used, "windowDurationMins": 300 });
        let limits = json!({ "method": "account/rateLimits/updated", "params": { "rateLimits": { "primary": primary } } });
        said(codex, &limits).reports.len()
    };
    assert_eq!([13, 76, 77, 91, 92, 100].map(|used| told(&mut codex, used)), [0, 1, 0, 1, 0, 1]);
}

// covers: 003-023, 003-052
#[test]
fn models_skills_and_servers_are_reported() {
    let mut codex = Translate::new(setup());
    let out = output_of(|out| codex.start(out));
    let out = said(&mut codex, &answer_to(&out, "initialize", &json!({})));
    let out = said(&mut codex, &answer_to(&out, "thread/start", &json!({ "thread": { "id": "T" } })));
    let models = json!({ "data": [{ "id": "m", "displayName": "M", "isDefault": true }, { "id": "h", "hidden": true }] });
    let info = |out: &crate::driver::Output| match events(out)[..] {
        [Event::AgentInfo { info }] => (**info).clone(),
        _ => panic!("{out:?}"),
    };
    let told_models = said(&mut codex, &answer_to(&out, "model/list", &models));
    assert_eq!(info(&told_models).models.unwrap().len(), 1);
    let skills = json!({ "data": [{ "skills": [{ "name": "sail", "path": "/s", "enabled": true }] }] });
    let told_skills = said(&mut codex, &answer_to(&out, "skills/list", &skills));
    let names: Vec<_> =
        info(&told_skills).commands.unwrap().into_iter().map(|command| command.name).collect();
    assert_eq!(names, ["compact", "review", "sail"]);
    let out = told(&mut codex, 1, Order::McpStatus);
    let servers =
        json!({ "data": [{ "name": "harbour", "runtimeStatus": "connected", "tools": { "depth": {} } }] });
    let out = said(&mut codex, &answer_to(&out, "mcpServerStatus/list", &servers));
    let [Event::McpServers { servers }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!((servers[0].status.as_str(), servers[0].tools.len()), ("connected", 1));
}

#[test]
fn a_task_whose_process_was_never_reported_is_looked_up_and_stopped() {
    let mut codex = ready(setup());
    let told_of = |method: &str, more: serde_json::Value| {
        let mut params =
            json!({ "threadId": "T", "turnId": "A", "turn": { "id": "A", "status": "completed" } });
        params["item"] = more;
        json!({ "method": method, "params": params })
    };
    said(&mut codex, &told_of("turn/started", json!(null)));
    let command = json!({ "type": "commandExecution", "id": "c", "command": "sail", "processId": null });
    said(&mut codex, &told_of("item/started", command));
    assert!(matches!(
        told(&mut codex, 1, Order::StopTask("c".into())).reports[..],
        [Report::Rejected { .. }]
    ));
    said(&mut codex, &told_of("turn/completed", json!(null)));
    for (instruction_id, running, stops) in [(2, "another", false), (3, "c", true)] {
        let out = told(&mut codex, instruction_id, Order::StopTask("c".into()));
        let running = json!({ "data": [{ "itemId": running, "processId": "90125" }] });
        let out = said(&mut codex, &answer_to(&out, "thread/backgroundTerminals/list", &running));
        let process = written(&out).first().map(|line| line["params"]["processId"].clone());
        assert_eq!((process.is_some(), out.reports.is_empty()), (stops, stops), "{out:?}");
        assert!(process.is_none_or(|process| process == "90125"));
    }
}

#[test]
fn a_subagent_that_begins_before_its_call_reports_its_thread_has_its_name_and_prompt() {
    for calls in [&["dig"][..], &["sail", "dig"][..]] {
        let mut codex = ready(setup());
        let tells = |codex: &mut Translate, method: &str, thread: &str, item: serde_json::Value| {
            let params = json!({ "threadId": thread, "turn": { "id": thread }, "item": item });
            said(codex, &json!({ "method": method, "params": params }))
        };
        for prompt in calls {
            let call = json!({ "type": "collabAgentToolCall", "tool": "spawnAgent", "id": format!("call-{prompt}"),
                "receiverThreadIds": [], "prompt": prompt, "status": "inProgress" });
            tells(&mut codex, "item/started", "T", call);
        }
        let began = tells(&mut codex, "turn/started", "child", json!(null));
        let words =
            json!({ "type": "userMessage", "id": "u", "content": [{ "type": "text", "text": "dig" }] });
        let spoken = tells(&mut codex, "item/started", "child", words);
        let all: Vec<_> = events(&began).into_iter().chain(events(&spoken)).collect();
        let [Event::SubagentStarted { subagent, prompt, .. }] = all[..] else { panic!("{all:?}") };
        assert_eq!((subagent.as_str(), prompt.as_deref()), ("call-dig", Some("dig")), "{calls:?}");
    }
}

#[test]
fn hostile_lines_break_nothing_and_are_kept() {
    let lines = [
        "",
        "null",
        "[]",
        "{}",
        "{\"id\":99}",
        "\u{0}",
        "{\"method\":7}",
        "{\"method\":\"\"}",
        "{\"method\":\"item/started\",\"params\":7}",
        "{\"method\":\"item/started\",\"params\":{}}",
        "{\"method\":\"item/completed\",\"params\":{\"item\":{\"type\":\"brandNew\",\"id\":\"x\"}}}",
        "{\"method\":\"item/agentMessage/delta\",\"params\":{\"itemId\":\"x\",\"delta\":\"y\"}}",
        "{\"method\":\"turn/completed\",\"params\":{}}",
        "{\"method\":\"turn/started\"}",
        "{\"method\":\"error\",\"params\":{\"willRetry\":true}}",
        "{\"id\":1,\"result\":7}",
        "{\"id\":2,\"result\":{\"thread\":{}}}",
        "{\"id\":0,\"method\":\"item/tool/requestUserInput\",\"params\":{}}",
        "{\"id\":\"a\",\"method\":\"mcpServer/elicitation/request\"}",
        ">prompt",
        ">interrupt",
        ">answer \"a\"",
        ">timeout",
        ">mode",
        ">model",
        ">compact",
    ];
    for first in lines {
        for second in lines {
            fuzz::lines(format!("{first}\n{second}\n{first}").as_bytes());
        }
    }
}
