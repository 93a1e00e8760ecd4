//! Behaviour that breaks a naive client, each as seen on the wire of a real agent.

use portolan_core::{
    Event,
    event::{Content, ResetReason, ToolOutcome, TurnOutcome, TurnResult},
    ports::{InstructionId, Order, Report},
    request::{Answer, Ask, AskOption, Scope, Verdict},
};
use serde_json::{Value, json};

use super::{
    Begin, Player, Setup, Translate, answer_to, asked, catalogue, events, events_of, everything, initialized,
    output_of, prompt, ready, refusal_of, said, setup, told, update, words, written,
};
use crate::{
    acp::{Serves, requests::Choices},
    driver::Translator as _,
};

fn allow(option: Option<&str>, input: Option<Value>) -> Answer {
    Answer::Allow { input, scope: Scope::Once, mode: None, option: option.map(str::to_owned) }
}

fn deny(option: Option<&str>) -> Answer {
    Answer::Deny { message: None, interrupt: false, option: option.map(str::to_owned) }
}

/// The choices that Portolan passes on. A choice named `mode` leads to a mode.
fn choices(options: &[(&str, &str)]) -> Choices {
    let option = |(id, kind): &(&str, &str)| json!({ "optionId": id, "name": id, "kind": kind });
    let leads = |id: &str| (id == "mode").then(|| "acceptEdits".to_owned());
    Choices::read(&options.iter().map(option).collect::<Vec<_>>()).without_lasting(leads)
}

fn permission(id: Value, tool: &str) -> Value {
    let options = json!([{ "optionId": "always", "name": "Always", "kind": "allow_always" },
        { "optionId": "once", "name": "Once", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" }]);
    json!({ "id": id, "method": "session/request_permission", "params": { "sessionId": "S", "options": options,
        "toolCall": { "toolCallId": tool, "kind": "execute", "title": "touch x", "rawInput": { "command": "touch x" } } } })
}

fn answer(key: &str, answer: Answer) -> Order {
    Order::Answer { key: key.into(), ask: Box::new(Ask::Plan { plan: None, input: Value::Null }), answer }
}

fn ended(reports: &[Report]) -> Option<&TurnResult> {
    reports.iter().find_map(|report| match report {
        Report::TurnEnded { result, .. } => Some(&**result),
        _ => None,
    })
}

// --------------------------------------------------------------------------------- 1. the order of options

// covers: 003-061
#[test]
fn a_plain_approval_is_the_approval_for_once_at_any_place() {
    let widest_first = choices(&[
        ("always", "allow_always"),
        ("once", "allow_once"),
        ("no", "reject_once"),
        ("never", "reject_always"),
    ]);
    assert_eq!(widest_first.chosen(&allow(None, None)), Some("once"));
    assert_eq!(widest_first.chosen(&deny(None)), Some("no"));
    assert_eq!(widest_first.chosen(&deny(Some("never"))), Some("never"));
    let beyond: Vec<_> =
        widest_first.beyond(|_| None).into_iter().map(|option| (option.id, option.verdict)).collect();
    assert_eq!(beyond, [("never".into(), Verdict::Deny)]);
}

// covers: 003-061
#[test]
fn both_of_two_fitting_choices_are_shown_and_a_plain_answer_takes_the_shorter_id() {
    let tied = choices(&[("once_and_switch", "allow_once"), ("once", "allow_once"), ("no", "reject_once")]);
    assert_eq!(tied.chosen(&allow(None, None)), Some("once"));
    assert_eq!(tied.chosen(&allow(Some("once_and_switch"), None)), Some("once_and_switch"));
    let shown: Vec<AskOption> = tied.beyond(|_| None);
    assert_eq!(
        shown.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(),
        ["once_and_switch", "once"]
    );
}

#[test]
fn an_approval_that_lasts_is_neither_offered_nor_sent_unless_it_leads_to_a_mode() {
    let plan = choices(&[("mode", "allow_always"), ("always", "allow_always"), ("once", "allow_once")]);
    let offered: Vec<_> = plan.beyond(|_| None).into_iter().map(|option| option.id).collect();
    assert_eq!(offered, ["mode"]);
    assert_eq!(plan.chosen(&allow(Some("mode"), None)), Some("mode"));
    assert_eq!(plan.chosen(&allow(Some("always"), None)), None);
    assert_eq!(
        choices(&[("mode", "allow_always")]).chosen(&allow(None, None)),
        None,
        "a mode is chosen by name"
    );
    assert_eq!(choices(&[("newer", "maybe")]).chosen(&allow(Some("newer"), None)), None, "it may last");
}

// covers: 003-061
#[test]
fn no_answer_allows_more_than_it_says() {
    let plain = choices(&[("always", "allow_always"), ("once", "allow_once"), ("no", "reject_once")]);
    assert_eq!(plain.chosen(&deny(Some("always"))), Some("no"), "a denial never becomes an approval");
    assert_eq!(plain.chosen(&allow(Some("no"), None)), Some("no"));
    assert_eq!(plain.chosen(&allow(Some("newer"), None)), Some("no"), "the agent did not offer that");
    assert_eq!(plain.chosen(&allow(None, Some(json!({})))), Some("no"), "another input was not allowed");
    let only_wide =
        choices(&[("always", "allow_always"), ("for_session", "allow_always"), ("newer", "maybe")]);
    assert_eq!(only_wide.chosen(&allow(None, None)), None, "an approval for once is not one for ever");
    assert_eq!(only_wide.chosen(&deny(None)), None);
    assert_eq!(
        choices(&[("yes", "allow_always")]).chosen(&allow(None, None)),
        None,
        "the agent would act without asking from now on"
    );
}

// ------------------------------------------------------------------------------------ 2. modes that never ask

// covers: 003-020, 003-058
#[test]
fn an_agent_that_would_not_ask_is_set_to_ask_before_the_first_prompt() {
    // Also agents that today begin in a mode that asks.
    for (agent, mode) in [
        ("codex-acp", "read-only"),
        ("qwen", "default"),
        ("claude-agent-acp", "default"),
        ("gemini", "default"),
        ("copilot", "agent"),
        ("goose", "approve"),
    ] {
        let setup = Setup { known: catalogue::known(agent), ..setup() };
        let (mut translate, out) = initialized(setup, &everything());
        let modes = json!({ "currentModeId": "auto", "availableModes": [{ "id": "auto" }, { "id": mode }] });
        let begun = answer_to(&out, "session/new", &json!({ "sessionId": "S", "modes": modes }));
        let out = said(&mut translate, &begun);
        assert!(!out.reports.contains(&Report::Ready), "{agent}: {out:?}");
        assert_eq!(asked(&out, "session/set_mode")["params"], json!({ "sessionId": "S", "modeId": mode }));
        let out = said(&mut translate, &answer_to(&out, "session/set_mode", &json!({})));
        assert!(out.reports.contains(&Report::Ready), "{agent}: {out:?}");
    }
}

#[test]
fn the_requested_mode_comes_before_the_catalogues_mode() {
    let setup = Setup { known: catalogue::known("qwen"), mode: Some("yolo".into()), ..setup() };
    let (mut translate, out) = initialized(setup, &everything());
    let modes = json!({ "currentModeId": "auto", "availableModes": [{ "id": "default" }, { "id": "yolo" }] });
    let out =
        said(&mut translate, &answer_to(&out, "session/new", &json!({ "sessionId": "S", "modes": modes })));
    assert_eq!(asked(&out, "session/set_mode")["params"]["modeId"], "yolo");
}

#[test]
fn in_a_wrong_mode_nothing_begins_and_a_later_start_asks_for_the_right_mode_again() {
    let begun = |modes: &[&str]| {
        let setup = Setup { known: catalogue::known("qwen"), ..setup() };
        let (mut translate, out) = initialized(setup, &everything());
        let available: Vec<_> = modes.iter().map(|mode| json!({ "id": mode })).collect();
        let modes = json!({ "currentModeId": "auto", "availableModes": available });
        let begun = answer_to(&out, "session/new", &json!({ "sessionId": "S", "modes": modes }));
        let out = said(&mut translate, &begun);
        (translate, out)
    };
    let (_, out) = begun(&["auto", "renamed"]);
    assert!(out.fault.as_ref().is_some_and(|fault| fault.contains("no mode `default`")), "{out:?}");
    assert!(!out.reports.contains(&Report::Ready));

    let (mut translate, out) = begun(&["auto", "default"]);
    let is_mode = |event: &&Event| matches!(event, Event::AgentInfo { info } if info.mode.is_some());
    assert_eq!(
        events(&out).iter().filter(|event| is_mode(event)).count(),
        0,
        "it would be asked for at the next start"
    );
    let out = said(&mut translate, &refusal_of(&out, "session/set_mode", -32603, "not today"));
    assert!(out.fault.as_ref().is_some_and(|fault| fault.contains("not today")), "{out:?}");
    assert!(!out.reports.contains(&Report::Ready));

    // The agent takes the mode, and reports another one.
    let options = json!([{ "id": "mode", "category": "mode", "currentValue": "auto",
        "options": [{ "value": "auto" }, { "value": "default" }] }]);
    let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "auto" });
    let told = json!({ "method": "session/update", "params": { "sessionId": "S", "update": update } });
    let (mut translate, begins) = begun(&["auto", "default"]);
    let in_answer =
        said(&mut translate, &answer_to(&begins, "session/set_mode", &json!({ "configOptions": options })));
    let says = |fault: &String| fault.contains("`default` but reports the mode `auto`");
    assert!(in_answer.fault.as_ref().is_some_and(says), "{in_answer:?}");
    assert!(!in_answer.reports.contains(&Report::Ready));
    assert_eq!(events(&in_answer).iter().filter(|event| is_mode(event)).count(), 0);
    let (mut translate, _) = begun(&["auto", "default"]);
    assert_eq!(said(&mut translate, &told).reports, [], "nothing begins, and nothing is reported");
}

// ------------------------------------------------------------------------------------ 3. calls without a call

// covers: 003-059, 003-060
#[test]
fn a_call_may_begin_with_its_permission_and_is_closed_if_nothing_follows() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let out = said(&mut acp, &permission(json!(0), "t1"));
    assert!(matches!(events(&out)[..], [Event::ToolCall { .. }]), "{out:?}");
    let out = told(&mut acp, 2, answer("0", Answer::deny(None)));
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
    assert_eq!(written(&out)[0]["result"], outcome);
    let out = said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let results: Vec<_> = events(&out);
    assert!(matches!(results[..], [Event::ToolResult { outcome: ToolOutcome::Denied, .. }]), "{out:?}");
    assert_eq!(ended(&out.reports).unwrap().outcome, TurnOutcome::Completed);
    let late =
        update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed" }));
    assert_eq!(said(&mut acp, &late).reports, [], "it is closed");
}

#[test]
fn a_call_is_shown_once_its_input_is_known() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let begun = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "name": "Bash", "rawInput": {},
        "status": "pending", "title": "Terminal", "kind": "execute", "content": [] });
    let out = said(&mut acp, &update(&begun));
    assert!(matches!(events(&out)[..], [Event::ItemStarted { .. }, Event::ToolNamed { .. }]), "{out:?}");
    let input = json!({ "command": "ls" });
    let more =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": input, "title": "ls" });
    let out = said(&mut acp, &update(&more));
    let [Event::ToolCall { name, input: shown, item: Some(_), .. }] = events(&out)[..] else {
        panic!("{out:?}")
    };
    assert_eq!((name.as_str(), shown), ("Bash", &input));
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "rawOutput": "out" });
    let out = said(&mut acp, &update(&done));
    let [Event::ToolResult { content, outcome: ToolOutcome::Done, .. }] = events(&out)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(content, &[Content::text("out")]);
}

// --------------------------------------------------------------------- 4. updates before and after their time

// covers: 003-055
#[test]
fn updates_before_the_session_has_an_id_wait_for_it() {
    let (mut acp, out) = initialized(setup(), &everything());
    let begun = answer_to(&out, "session/new", &json!({ "sessionId": "S" }));
    let commands =
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{ "name": "init" }] });
    assert_eq!(said(&mut acp, &update(&commands)).reports, []);
    let out = said(&mut acp, &begun);
    let told = events(&out).into_iter().any(|event| {
        matches!(event, Event::AgentInfo { info } if info.commands.as_ref().is_some_and(|all| all.len() == 1))
    });
    assert!(told, "{out:?}");
}

#[test]
fn an_agent_with_too_many_early_updates_loses_nothing() {
    let (mut acp, _) = initialized(setup(), &everything());
    let kept = (0..300).filter(|_| said(&mut acp, &words("early")).reports.is_empty()).count();
    assert_eq!(kept, 256);
    let out = said(&mut acp, &words("early"));
    assert!(matches!(events(&out)[..], [Event::Unknown { .. }]), "kept with its raw text: {out:?}");
}

// covers: 003-056
#[test]
fn updates_after_the_end_of_a_turn_still_count() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let out = said(&mut acp, &words("by the way"));
    let [Event::Message { content, interrupted: false, .. }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(content, &[Content::text("by the way")]);
    let usage = json!({ "sessionUpdate": "usage_update", "used": 7, "size": 100 });
    assert!(matches!(events(&said(&mut acp, &update(&usage)))[..], [Event::Usage { .. }]));
}

// ----------------------------------------------------------------------------------------- 5. the past, again

#[test]
fn the_past_is_not_repeated_however_late_the_agent_replays_it() {
    let setup = Setup { begin: Begin::Resume { session: "S".into(), own: true }, ..setup() };
    let mut told_caps = everything();
    told_caps["agentCapabilities"]["sessionCapabilities"] = json!({});
    let (mut acp, out) = initialized(setup, &told_caps);
    assert_eq!(said(&mut acp, &words("long ago")).reports, []);
    let out = said(&mut acp, &answer_to(&out, "session/load", &json!({})));
    assert!(!out.reports.contains(&Report::Ready), "more may come: {out:?}");
    let timer = out.timers.last().unwrap().0;
    let out = said(&mut acp, &words("not so long ago"));
    assert_eq!((out.reports.len(), out.timers.len()), (0, 1), "it is waited for quiet: {out:?}");
    let out = output_of(|out| acp.timeout(timer, out));
    assert_eq!(out.reports, [Report::Ready]);
    told(&mut acp, 1, prompt("go on"));
    assert!(!said(&mut acp, &words("now")).reports.is_empty());
}

// -------------------------------------------------------------------------------------------------- 6. cancel

// covers: 003-057
#[test]
fn after_any_answer_to_a_cancel_the_turn_was_stopped() {
    for result in [
        json!({ "result": { "stopReason": "end_turn" } }),
        json!({ "result": { "stopReason": "cancelled" } }),
        json!({ "error": { "code": -32603, "message": "Request was aborted" } }),
    ] {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("do it"));
        said(&mut acp, &words("I beg"));
        let out = told(&mut acp, 2, Order::Interrupt);
        assert_eq!(written(&out)[0]["method"], "session/cancel");
        assert!(written(&out)[0].get("id").is_none(), "a notification, not a request");
        let mut line = result.clone();
        line["id"] = json!(3);
        let out = said(&mut acp, &line);
        let ended = ended(&out.reports).unwrap();
        assert_eq!((ended.outcome, &ended.error), (TurnOutcome::Interrupted, &None), "{result}");
        assert!(
            matches!(events(&out)[..], [Event::Message { interrupted: true, .. }]),
            "its text so far is kept: {out:?}"
        );
    }
}

// covers: 003-057
#[test]
fn a_cancel_without_an_answer_still_ends_the_turn() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let out = told(&mut acp, 2, Order::Interrupt);
    let (timer, after) = out.timers[0];
    assert_eq!(after, Some(setup().patience));
    let out = output_of(|out| acp.timeout(timer, out));
    assert_eq!(ended(&out.reports).unwrap().outcome, TurnOutcome::Interrupted);
    assert!(events(&out).iter().any(|event| matches!(event, Event::Notice { .. })), "{out:?}");
    let late = said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "cancelled" } }));
    assert_eq!(late.reports, [], "nobody waits for it any more");
    assert!(!told(&mut acp, 4, prompt("again")).writes.is_empty());
}

#[test]
fn open_requests_are_answered_when_the_turn_is_stopped_or_the_agent_takes_them_back() {
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    said(&mut acp, &permission(json!(0), "t1"));
    let out = told(&mut acp, 2, Order::Interrupt);
    assert_eq!(written(&out)[1], json!({ "jsonrpc": "2.0", "id": 0, "result": cancelled }));
    // The agent takes it back once more, and there is nothing left to answer.
    let back = json!({ "method": "$/cancel_request", "params": { "requestId": 0 } });
    assert_eq!(said(&mut acp, &back).writes, []);

    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    said(&mut acp, &permission(json!("u-u-i-d"), "t1"));
    let back = json!({ "method": "$/cancel_request", "params": { "requestId": "u-u-i-d" } });
    let out = said(&mut acp, &back);
    assert_eq!(out.reports, [Report::RequestWithdrawn { key: "\"u-u-i-d\"".into() }]);
    assert_eq!(written(&out)[0]["result"], cancelled);
    let out = told(&mut acp, 2, answer("\"u-u-i-d\"", Answer::allow()));
    assert!(matches!(out.reports[..], [Report::Rejected { .. }]), "{out:?}");
}

// ------------------------------------------------------------------------------------------ 7. second prompts

// covers: 003-056
#[test]
fn a_second_prompt_never_reaches_an_agent_that_is_at_work() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("first"));
    let out = told(&mut acp, 2, prompt("second"));
    assert_eq!(out.writes, []);
    assert!(
        matches!(out.reports[..], [Report::Rejected { instruction_id: InstructionId(2), .. }]),
        "{out:?}"
    );
    let capabilities = crate::acp::capabilities(catalogue::known("goose"), &crate::acp::Config::default());
    assert_eq!(capabilities.prompt_queue, portolan_core::capabilities::PromptQueue::Held);
    for agent in ["claude-agent-acp", "codex-acp", "copilot", "opencode", "qwen"] {
        let player = Player::play(&format!("{agent}/concurrent"));
        let prompts = player.writes.iter().filter(|line| line["method"] == "session/prompt").count();
        assert_eq!(prompts, 1, "{agent}: the session holds the second back");
    }
}

// -------------------------------------------------------------------------------- 8. words that nobody knows

#[test]
fn unknown_messages_are_kept_and_unknown_requests_are_answered() {
    let mut acp = ready(setup());
    let out = said(&mut acp, &json!({ "id": 1, "method": "craft/drainMidTurnQueue", "params": {} }));
    assert_eq!((&written(&out)[0]["id"], &written(&out)[0]["error"]["code"]), (&json!(1), &json!(-32601)));
    for line in [
        json!({ "method": "qwen/notify/session/prompt-suggestion", "params": {} }),
        json!({ "method": "_vendor/notify", "params": { "a": 1 } }),
        update(&json!({ "sessionUpdate": "totally_new_update", "x": 1 })),
        json!({ "method": "session/update", "params": { "sessionId": "another", "update": { "sessionUpdate": "plan" } } }),
        json!({ "method": "session/update", "params": [] }),
    ] {
        let out = said(&mut acp, &line);
        assert!(matches!(events(&out)[..], [Event::Unknown { .. }]), "{line}: {out:?}");
        assert_eq!(out.writes, []);
        let Report::Event { raw: Some(raw), .. } = &out.reports[0] else { panic!("{out:?}") };
        assert_eq!(&serde_json::from_slice::<Value>(raw).unwrap(), &line, "as it came");
    }
}

// ----------------------------------------------------------------------------------------- 9. ids that collide

#[test]
fn an_id_of_the_agent_is_not_an_id_of_portolan() {
    let mut acp = ready(setup());
    let out = told(&mut acp, 1, prompt("do it"));
    let ours = written(&out)[0]["id"].clone();
    let out = said(&mut acp, &permission(ours.clone(), "t"));
    assert!(out.reports.iter().any(|report| matches!(report, Report::RequestOpened { .. })), "{out:?}");
    // The id may come after the result, and may be a text.
    let line = format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"stopReason\":\"end_turn\"}},\"id\":{ours}}}");
    let out = output_of(|out| acp.line(&line, out));
    assert!(ended(&out.reports).is_some(), "{out:?}");
    let text = said(&mut acp, &json!({ "id": ours.to_string(), "result": {} }));
    assert_eq!(text.reports, [], "nobody asked under that name");
}

// ---------------------------------------------------------------------------------------- 10. and 11. files, terminals

// covers: 003-062, 003-063
#[test]
fn only_offered_errands_are_done_and_others_are_declined() {
    let read =
        json!({ "id": 0, "method": "fs/read_text_file", "params": { "sessionId": "S", "path": "/x" } });
    let run =
        json!({ "id": 1, "method": "terminal/create", "params": { "sessionId": "S", "command": "ls" } });
    for (serves, files, terminals) in [(false, 0, 0), (true, 1, 1)] {
        let serves = Serves { files: serves, terminals: serves };
        let mut acp = Translate::new(Setup { serves, ..setup() });
        let out = output_of(|out| acp.start(out));
        let offered = &asked(&out, "initialize")["params"]["clientCapabilities"];
        assert_eq!(offered["fs"], json!({ "readTextFile": serves.files, "writeTextFile": serves.files }));
        assert_eq!(offered["terminal"], serves.terminals);
        let mut acp = ready(Setup { serves, ..setup() });
        let (read, run) = (said(&mut acp, &read), said(&mut acp, &run));
        let asked = |out: &crate::driver::Output| {
            let waits =
                |report: &&Report| matches!(report, Report::Unasked { .. } | Report::RequestOpened { .. });
            out.reports.iter().filter(waits).count()
        };
        assert_eq!((asked(&read), asked(&run)), (files, terminals));
        if !serves.files {
            assert_eq!(written(&read)[0]["error"]["code"], -32601);
        }
    }
}

#[test]
fn an_unknown_terminal_is_no_fault() {
    let player = Player::play("codex-acp/permission");
    let result = events_of(&player.reports).into_iter().find_map(|event| match event {
        Event::ToolResult { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(result, Some(ToolOutcome::Done), "{}", player.score);
}

#[test]
fn the_output_of_a_terminal_is_shown_with_its_call() {
    let mut acp = ready(Setup { serves: Serves { files: true, terminals: true }, ..setup() });
    told(&mut acp, 1, prompt("do it"));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "status": "in_progress",
        "title": "ls", "content": [{ "type": "terminal", "terminalId": "terminal-1" }] });
    said(&mut acp, &update(&call));
    let release = json!({ "id": 9, "method": "terminal/release", "params": { "terminalId": "terminal-1" } });
    let key = said(&mut acp, &release).tasks[0].key.clone();
    let out =
        output_of(|out| acp.task_done(&key, Ok(json!({ "output": "a.txt\n", "truncated": false })), out));
    assert_eq!(written(&out)[0]["result"], json!({}));
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" });
    let out = said(&mut acp, &update(&done));
    let [Event::ToolResult { content, .. }] = events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(content, &[Content::text("a.txt\n")]);
}

// ----------------------------------------------------------------------------- 12. a conversation that is lost

#[test]
fn a_lost_conversation_begins_again_only_if_it_is_the_sessions_own() {
    for (own, code, message, anew) in [
        (true, -32002, "Resource not found", true),
        (true, -32603, "Invalid session identifier \"x\"", true),
        (true, -32602, "Session x not found", true),
        (true, -32603, "the disk is on fire", false),
        (false, -32002, "Resource not found", false),
    ] {
        let setup = Setup { begin: Begin::Resume { session: "x".into(), own }, ..setup() };
        let (mut acp, out) = initialized(setup, &everything());
        let out = said(&mut acp, &refusal_of(&out, "session/resume", code, message));
        let begins = written(&out).iter().any(|line| line["method"] == "session/new");
        assert_eq!((begins, out.fault.is_some()), (anew, !anew), "{message}");
        let failed =
            events(&out).iter().any(|event| matches!(event, Event::Failure { recoverable: false, .. }));
        assert_eq!(failed, !anew, "{message}");
    }
}

#[test]
fn an_agent_that_cannot_resume_begins_again_and_one_that_cannot_fork_says_so() {
    let mut forgetful = everything();
    forgetful["agentCapabilities"] = json!({});
    let resume = |own| Setup { begin: Begin::Resume { session: "x".into(), own }, ..setup() };
    let (_, out) = initialized(resume(true), &forgetful);
    assert_eq!(asked(&out, "session/new")["params"], json!({ "cwd": "/harbour", "mcpServers": [] }));
    let lost = Event::ConversationReset { agent_session: None, reason: Some(ResetReason::Lost) };
    assert!(events(&out).contains(&&lost), "{out:?}");
    let (_, out) = initialized(resume(false), &forgetful);
    assert!(out.fault.is_some(), "{out:?}");
    let (_, out) = initialized(Setup { begin: Begin::Fork { session: "x".into() }, ..setup() }, &forgetful);
    assert!(out.fault.as_deref().is_some_and(|why| why.contains("fork")), "{out:?}");
    let (_, out) =
        initialized(Setup { begin: Begin::Fork { session: "x".into() }, ..setup() }, &everything());
    assert_eq!(asked(&out, "session/fork")["params"]["sessionId"], "x");
}

// ------------------------------------------------------------------------------- 13. what a session begins with

// covers: 003-024, 003-055
#[test]
fn servers_are_always_sent_in_the_form_of_acp() {
    let servers = vec![
        ("files".into(), json!({ "command": "serve", "args": ["-x"], "env": { "KEY": "1" } })),
        ("web".into(), json!({ "type": "http", "url": "http://127.0.0.1:1/", "headers": { "A": "b" } })),
    ];
    let extra = vec!["/more".into()];
    let (_, out) = initialized(Setup { servers: servers.clone(), extra, ..setup() }, &everything());
    let expected = json!([
        { "name": "files", "command": "serve", "args": ["-x"], "env": [{ "name": "KEY", "value": "1" }] },
        { "type": "http", "name": "web", "url": "http://127.0.0.1:1/", "headers": [{ "name": "A", "value": "b" }] },
    ]);
    let params = &asked(&out, "session/new")["params"];
    assert_eq!((&params["mcpServers"], &params["additionalDirectories"]), (&expected, &json!(["/more"])));
    let mut pipes_only = everything();
    pipes_only["agentCapabilities"]["mcpCapabilities"] = json!({});
    let (_, out) = initialized(Setup { servers, ..setup() }, &pipes_only);
    assert!(out.fault.as_deref().is_some_and(|why| why.contains("`web`")), "refused, not left out: {out:?}");
    let (_, out) = initialized(setup(), &everything());
    assert_eq!(asked(&out, "session/new")["params"], json!({ "cwd": "/harbour", "mcpServers": [] }));
}

// ------------------------------------------------------------------------------------ 14. two shapes of models

// covers: 003-019, 003-058
#[test]
fn models_and_modes_are_set_in_whichever_shape_the_agent_has_them() {
    let models = json!({ "currentModelId": "a", "availableModels": [{ "modelId": "a" }, { "modelId": "b", "name": "B" }] });
    let option = |id: &str, category: &str, values: &[&str]| {
        let options: Vec<_> = values.iter().map(|value| json!({ "value": value, "name": value })).collect();
        json!({ "id": id, "category": category, "type": "select", "currentValue": values[0], "options": options })
    };
    let grouped = json!({ "id": "llm", "category": "model", "currentValue": "a",
        "options": [{ "group": "g", "name": "G", "options": [{ "value": "a" }, { "value": "b" }] }] });
    for (begun, method, params) in [
        (json!({ "models": models }), "session/set_model", json!({ "modelId": "b", "sessionId": "S" })),
        (
            json!({ "models": models, "configOptions": [option("model", "model", &["a", "b"])] }),
            "session/set_config_option",
            json!({ "configId": "model", "value": "b", "sessionId": "S" }),
        ),
        (
            json!({ "configOptions": [grouped] }),
            "session/set_config_option",
            json!({ "configId": "llm", "value": "b", "sessionId": "S" }),
        ),
    ] {
        let (mut acp, out) = initialized(setup(), &everything());
        let mut result = begun.clone();
        result["sessionId"] = json!("S");
        let out = said(&mut acp, &answer_to(&out, "session/new", &result));
        let [.., Event::AgentInfo { info }] = events(&out)[..] else { panic!("{out:?}") };
        let listed: Vec<_> = info.models.iter().flatten().map(|model| model.id.as_str()).collect();
        assert_eq!((listed, info.model.as_deref()), (vec!["a", "b"], Some("a")), "{begun}");
        let out = told(&mut acp, 1, Order::SetModel(Some("b".into())));
        assert_eq!(asked(&out, method)["params"], params);
        let out = said(&mut acp, &answer_to(&out, method, &json!({})));
        assert!(out.reports.contains(&Report::Consumed { instruction_id: InstructionId(1), result: None }));
        assert!(
            matches!(events(&out)[..], [Event::AgentInfo { info }] if info.model.as_deref() == Some("b"))
        );
    }
    // A mode as an option, and by a word of its id.
    let (mut acp, out) = initialized(setup(), &everything());
    let modes =
        option("mode", "mode", &["https://example.com/modes#agent", "https://example.com/modes#plan"]);
    let begun = json!({ "sessionId": "S", "configOptions": [modes] });
    let out = said(&mut acp, &answer_to(&out, "session/new", &begun));
    assert!(
        matches!(events(&out)[..], [.., Event::AgentInfo { info }] if info.mode.as_deref() == Some("agent"))
    );
    let out = told(&mut acp, 1, Order::SetMode("plan".into()));
    let params = json!({ "configId": "mode", "value": "https://example.com/modes#plan", "sessionId": "S" });
    assert_eq!(asked(&out, "session/set_config_option")["params"], params);
    let out = told(&mut acp, 2, Order::SetMode("fly".into()));
    assert!(
        matches!(&out.reports[..], [Report::Rejected { error, .. }] if error.contains("agent, plan")),
        "{out:?}"
    );
}

// --------------------------------------------------------------------------------------- 16. usage in four ways

// covers: 003-031
#[test]
fn the_usage_of_a_turn_is_read_in_every_form() {
    let usage = |result: Value, updates: &[Value]| {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("do it"));
        for line in updates {
            said(&mut acp, &update(line));
        }
        let out = said(&mut acp, &json!({ "id": 3, "result": result }));
        let ended = ended(&out.reports).unwrap().clone();
        (
            ended.usage.map(|usage| (usage.input, usage.output, usage.cache_read)),
            ended.cost_usd,
            ended.by_model.len(),
        )
    };
    let plain = json!({ "stopReason": "end_turn" });
    let result = json!({ "stopReason": "end_turn", "usage": { "inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 3 } });
    assert_eq!(usage(result, &[]), (Some((1, 2, 3)), None, 0));
    let quota = json!({ "stopReason": "end_turn", "_meta": { "quota": { "model_usage": [
        { "model": "a", "token_count": { "input_tokens": 1, "output_tokens": 2 } },
        { "model": "b", "token_count": { "input_tokens": 3, "output_tokens": 4 } } ] } } });
    assert_eq!(usage(quota, &[]), (Some((4, 6, 0)), None, 2));
    let beside = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "" },
        "_meta": { "usage": { "inputTokens": 5, "outputTokens": 6 } } });
    assert_eq!(usage(plain.clone(), &[beside.clone(), beside]), (Some((10, 12, 0)), None, 0));
    let context = json!({ "sessionUpdate": "usage_update", "used": 9, "size": 100, "cost": { "amount": 0.5, "currency": "USD" } });
    assert_eq!(usage(plain, &[context]), (None, Some(0.5), 0));
}

// -------------------------------------------------------------------------------------- 17. a slow start, and none

// covers: 003-054
#[test]
fn version_one_is_offered_and_no_other_is_spoken() {
    let mut acp = Translate::new(setup());
    let out = output_of(|out| acp.start(out));
    assert_eq!(asked(&out, "initialize")["params"]["protocolVersion"], 1);
    assert_eq!(out.timers[0].1, Some(setup().start_patience), "a first start takes long");
    for version in [json!(2), json!(0), json!("1"), Value::Null] {
        let mut told = everything();
        told["protocolVersion"] = version.clone();
        let (_, out) = initialized(setup(), &told);
        assert!(out.fault.is_some() && out.writes.is_empty(), "{version}: {out:?}");
        assert!(
            matches!(events(&out)[..], [Event::Failure { error, .. }] if error.way_out.is_some()),
            "{out:?}"
        );
    }
}

#[test]
fn an_agent_that_never_begins_is_given_up_with_the_reason() {
    let mut acp = Translate::new(setup());
    let out = output_of(|out| acp.start(out));
    let timer = out.timers[0].0;
    let out = output_of(|out| acp.timeout(timer, out));
    assert!(out.fault.as_deref().is_some_and(|why| why.contains("did not answer within 60 s")), "{out:?}");
}
