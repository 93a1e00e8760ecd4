//! The projection of entries, event by event; and that both clients accept every result.

use portolan_core::{Actor, Event, Millis, Seq, SessionSpec, event::ResetReason, log::Folded as _};
use proptest::prelude::*;

use super::*;
use crate::agui::{
    project::{Approvals, PageNames, Projector, Prompts, history::History},
    tools::PREFIX,
    wire::AguiEvent,
};

const SESSION: SessionId = SessionId::from_u128(7);

fn names() -> PageNames {
    PageNames::new(|name: &str| name.strip_prefix(PREFIX).map(str::to_owned))
}

/// A log, and one stream of events over it.
struct Desk {
    state: State,
    projector: Projector,
    history: History,
    seq: u64,
}

impl Desk {
    fn new(approvals: Approvals) -> Self {
        let spec = SessionSpec { agent: "player".into(), cwd: "/".into(), ..SessionSpec::default() };
        let state = State::new(SESSION, spec, Millis(0));
        let projector = Projector::new(SESSION, "default", names(), approvals, Prompts::All, &state);
        Self { state, projector, history: History::new(names()), seq: 0 }
    }

    /// The events of this entry.
    fn take(&mut self, event: Value) -> Vec<Value> {
        let event: Event =
            serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"));
        self.seq += 1;
        let seq = Seq(self.seq);
        let person = || Actor::Person { token: "t".parse().unwrap(), name: "bob".into(), via: "cli".into() };
        let by = matches!(event, Event::Prompt { .. } | Event::CommandAccepted { .. }).then(person);
        self.state.apply(seq, Millis(0), by.as_ref(), &event);
        self.history.take(seq, by.as_ref(), &event);
        let mut out = Vec::new();
        self.projector.project(seq, by.as_ref(), &event, &mut out);
        json_of(&out)
    }

    fn close(&mut self) -> Vec<Value> {
        let mut out = Vec::new();
        self.projector.close(&mut out);
        json_of(&out)
    }
}

fn json_of(events: &[AguiEvent]) -> Vec<Value> {
    events.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn one(event: Value) -> Vec<Value> {
    Desk::new(Approvals::Event).take(event)
}

fn custom_of(event: Value) -> (String, Value) {
    let events = one(event.clone());
    let [only] = &*events else { panic!("{event} became {events:?}") };
    assert_eq!(only["type"], "CUSTOM");
    (only["name"].as_str().unwrap().to_owned(), only["value"].clone())
}

fn message(item: &str, content: Value) -> Value {
    json!({"type": "message", "item": item, "content": content})
}

fn text(item: &str, text: &str) -> Value {
    message(item, json!([{"type": "text", "text": text}]))
}

fn started(item: &str, kind: &str) -> Value {
    json!({"type": "item_started", "item": item, "kind": kind})
}

fn delta(item: &str, text: &str) -> Value {
    json!({"type": "delta", "item": item, "text": text})
}

fn call(tool: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_call", "tool": tool, "name": name, "kind": "other", "input": input})
}

fn result(tool: &str, outcome: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool": tool, "outcome": outcome, "content": [{"type": "text", "text": text}]})
}

// covers: 004-060, 004-061, 004-062, 004-063, 004-064, 004-074, 004-075, 004-076
#[test]
fn entries_without_an_event_of_the_protocol_become_custom_events() {
    let cases = [
        (json!({"type": "activity", "activity": "compacting"}), None),
        (
            json!({"type": "task_changed", "task": {"task": "b1", "status": "completed", "summary": "done", "output_file": "/o", "tool": "c1"}}),
            Some((
                "task_notification",
                json!({"taskId": "b1", "taskStatus": "completed", "outputFile": "/o",
                  "summary": "done", "description": null, "toolUseId": "c1"}),
            )),
        ),
        (
            json!({"type": "compacted", "trigger": "auto", "tokens_before": 900, "tokens_after": 90}),
            Some(("compact_boundary", json!({"trigger": "auto", "preTokens": 900, "postTokens": 90}))),
        ),
        (
            json!({"type": "files_persisted", "files": ["a"], "failed": ["b"]}),
            Some(("files_persisted", json!({"files": ["a"], "failed": ["b"]}))),
        ),
        (
            json!({"type": "hook", "hook": "h1", "name": "lint", "event": "PreToolUse", "status": "started"}),
            Some(("hook_started", json!({"hookId": "h1", "hookName": "lint", "hookEvent": "PreToolUse"}))),
        ),
        (
            json!({"type": "hook", "hook": "h1", "name": "lint", "event": "PreToolUse", "status": "progress", "data": {"output": "o", "stdout": "s", "stderr": "e"}}),
            Some((
                "hook_progress",
                json!({"hookId": "h1", "hookName": "lint", "hookEvent": "PreToolUse", "output": "o", "stdout": "s", "stderr": "e"}),
            )),
        ),
        (
            json!({"type": "hook", "hook": "h1", "name": "lint", "event": "PreToolUse", "status": "completed", "data": {"exit_code": 0, "outcome": "success"}}),
            Some((
                "hook_response",
                json!({"hookId": "h1", "hookName": "lint", "hookEvent": "PreToolUse", "exitCode": 0, "outcome": "success"}),
            )),
        ),
        (
            json!({"type": "tool_progress", "tool": "c1", "name": "Bash", "elapsed_seconds": 2.5}),
            Some((
                "tool_progress",
                json!({"toolUseId": "c1", "toolName": "Bash", "elapsedTimeSeconds": 2.5}),
            )),
        ),
        (
            json!({"type": "tool_summary", "summary": "read two files", "tools": ["c1", "c2"]}),
            Some((
                "tool_use_summary",
                json!({"summary": "read two files", "precedingToolUseIds": ["c1", "c2"]}),
            )),
        ),
        (
            json!({"type": "auth_status", "authenticating": true, "output": ["open this page"], "error": null}),
            Some((
                "auth_status",
                json!({"isAuthenticating": true, "output": ["open this page"], "error": null}),
            )),
        ),
        (
            json!({"type": "notice", "level": "warning", "text": "careful"}),
            Some(("notice", json!({"level": "warning", "text": "careful"}))),
        ),
        (
            json!({"type": "conversation_reset", "reason": "lost"}),
            Some(("notice", json!({"level": "warning", "text": ResetReason::Lost.words()}))),
        ),
    ];
    for (event, expected) in cases {
        let Some((name, value)) = expected else { continue };
        assert_eq!(custom_of(event), (name.to_owned(), value));
    }
    let status = one(json!({"type": "activity", "activity": "compacting"}));
    assert_eq!(
        status[0],
        json!({"type": "CUSTOM", "name": "system_status", "value": {"status": "compacting", "permissionMode": null}})
    );
    assert_eq!(status[1]["snapshot"]["isCompacting"], true, "the snapshot says so as well");
}

// covers: 004-078
#[test]
fn entries_that_no_page_needs_become_no_event() {
    for event in [
        json!({"type": "session_renamed", "name": "n"}),
        json!({"type": "receipt", "command": 1, "stage": "delivered"}),
        json!({"type": "agent_ready", "generation": 1}),
        json!({"type": "usage", "usage": {"input": 1}}),
        json!({"type": "unknown", "source": "claude", "kind": "keep_alive"}),
        json!({"type": "rule_added", "tool_name": "Bash"}),
        json!({"type": "link_restored"}),
    ] {
        assert_eq!(one(event.clone()), [] as [Value; 0], "{event}");
    }
    // A page has its own prompts already.
    let mut desk = Desk::new(Approvals::Event);
    let own = Actor::Person { token: "t".parse().unwrap(), name: "bob".into(), via: "cli".into() };
    desk.projector =
        Projector::new(SESSION, "default", names(), Approvals::Event, Prompts::NotOf(own), &desk.state);
    assert_eq!(
        desk.take(json!({"type": "prompt", "command": 1, "content": [{"type": "text", "text": "hi"}]})),
        [] as [Value; 0]
    );
}

// covers: 004-059
#[test]
fn the_info_of_an_agent_becomes_a_state_snapshot() {
    let info = json!({"type": "agent_info", "info": {
        "agent_session": "abc", "version": "2.1.325", "cwd": "/w", "model": "opus", "mode": "plan",
        "tools": ["Bash"], "mcp_servers": [{"name": "s", "status": "connected", "error": "secret"}],
        "commands": [{"name": "compact", "description": "d", "argument_hint": "h"}],
        "models": [{"id": "opus", "display_name": "Opus", "description": "big"}],
        "account": {"email": "a@b.c", "subscription": "max"}, "subagents": ["Explore"], "skills": ["pdf"],
        "plugins": [], "output_style": "default", "output_styles": ["default"], "api_key_source": "none"}});
    let mut desk = Desk::new(Approvals::Event);
    let events = desk.take(info.clone());
    assert_eq!(
        events,
        [json!({"type": "STATE_SNAPSHOT", "snapshot": {
            "agentId": "default", "sessionId": SESSION, "agent": "player", "cwd": "/w", "model": "opus",
            "permissionMode": "plan", "version": "2.1.325", "cliSessionId": "abc", "tools": ["Bash"], "agents": ["Explore"],
            "skills": ["pdf"], "slashCommands": ["compact"],
            "commands": [{"name": "compact", "description": "d", "argumentHint": "h"}],
            "models": [{"value": "opus", "displayName": "Opus", "description": "big"}],
            "mcpServers": [{"name": "s", "status": "connected"}], "plugins": [], "outputStyle": "default",
            "availableOutputStyles": ["default"], "apiKeySource": "none",
            "account": {"email": "a@b.c", "subscriptionType": "max"}, "numTurns": 0, "isCompacting": false}})]
    );
    assert_eq!(desk.take(info), [] as [Value; 0], "the same again is not told again");
    let mode = desk.take(json!({"type": "setting_changed", "setting": {"name": "mode", "mode": "default"}}));
    assert_eq!(mode[0]["snapshot"]["permissionMode"], "default");
    assert_eq!(mode[1]["value"], json!({"status": null, "permissionMode": "default"}));
}

#[test]
fn a_state_snapshot_stays_small_however_many_tools_an_agent_has() {
    let many: Vec<String> = (0..5000).map(|n| format!("tool-{n}")).collect();
    let commands: Vec<Value> =
        many.iter().map(|name| json!({"name": name, "description": "x".repeat(10_000)})).collect();
    let events = one(json!({"type": "agent_info", "info": {"tools": many, "commands": commands}}));
    let bytes = serde_json::to_vec(&events).unwrap().len();
    assert!(bytes < 100 * 1024, "clients send it back with every run: {bytes}");
}

// covers: 004-065, 004-066, 004-067, 004-071, 004-113
#[test]
fn a_text_is_sent_once_whether_it_streamed_or_came_whole() {
    let mut desk = Desk::new(Approvals::Event);
    let mut streamed = desk.take(started("m1", "text"));
    assert_eq!(streamed, [] as [Value; 0], "an empty text is no message yet");
    streamed.extend(desk.take(delta("m1", "Hel")));
    streamed.extend(desk.take(delta("m1", "lo")));
    streamed.extend(desk.take(text("m1", "Hello")));
    let kinds = |events: &[Value]| {
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&streamed),
        ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    );
    assert_eq!(streamed[0], json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}));
    let whole = desk.take(text("m2", "World"));
    assert_eq!(kinds(&whole), ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]);
    assert_eq!(texts(&shown(&[&streamed, &whole])), [("assistant", "Hello"), ("assistant", "World")]);
    desk.take(started("m3", "text"));
    desk.take(delta("m3", "half"));
    let rest = desk.take(text("m3", "half, and the rest"));
    assert_eq!(rest[0]["delta"], ", and the rest", "what the deltas left out is told at the end");
    let two = desk.take(message(
        "m4",
        json!([{"type": "text", "text": "a"}, {"type": "redacted_thinking"}, {"type": "text", "text": "b"}]),
    ));
    assert_eq!(shown(&[&two]).iter().map(|(_, id, _)| id.as_str()).collect::<Vec<_>>(), ["m4", "m4:2"]);
}

#[test]
fn thinking_becomes_reasoning_events() {
    let mut desk = Desk::new(Approvals::Event);
    let mut events = desk.take(started("m1", "thinking"));
    events.extend(desk.take(delta("m1", "hm")));
    events.extend(desk.take(message("m1", json!([{"type": "thinking", "text": "hm"}]))));
    let expected = [
        json!({"type": "REASONING_START", "messageId": "m1"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "m1", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "m1", "delta": "hm"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "m1"}),
        json!({"type": "REASONING_END", "messageId": "m1"}),
    ];
    assert_eq!(events, expected);
    assert_eq!(one(message("m1", json!([{"type": "thinking", "text": "hm"}]))), expected, "whole as well");
}

// covers: 004-068, 004-069, 004-070, 004-072, 004-113
#[test]
fn a_tool_call_is_sent_once_whether_its_input_streamed_or_came_whole() {
    let mut desk = Desk::new(Approvals::Event);
    let mut events = desk.take(started("i1", "tool_input"));
    events.extend(desk.take(json!({"type": "tool_named", "item": "i1", "tool": "c1", "name": "Bash"})));
    events.extend(desk.take(delta("i1", "{\"com")));
    events.extend(desk.take(delta("i1", "mand\":\"ls\"}")));
    let mut finished = call("c1", "Bash", json!({"command": "ls"}));
    finished["item"] = json!("i1");
    events.extend(desk.take(finished.clone()));
    let expected = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "Bash"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"com"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "mand\":\"ls\"}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
    ];
    assert_eq!(events, expected);
    let given = desk.take(result("c1", "done", "a file"));
    let result_event = json!({"type": "TOOL_CALL_RESULT", "messageId": "c1:result", "toolCallId": "c1", "content": "a file", "role": "tool"});
    assert_eq!(given, [result_event]);
    let whole = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "Bash"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"command\":\"ls\"}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
    ];
    assert_eq!(one(call("c1", "Bash", json!({"command": "ls"}))), whole, "not streamed");
    // An agent that does not name its calls early: they are sent when they are complete.
    let mut desk = Desk::new(Approvals::Event);
    assert_eq!(desk.take(started("i1", "tool_input")), [] as [Value; 0]);
    assert_eq!(desk.take(delta("i1", "{\"command\":\"ls\"}")), [] as [Value; 0]);
    assert_eq!(desk.take(finished), whole);
}

#[test]
fn a_call_that_breaks_off_is_closed_and_never_run() {
    let mut desk = Desk::new(Approvals::Event);
    desk.take(started("i1", "tool_input"));
    desk.take(json!({"type": "tool_named", "item": "i1", "tool": "c1", "name": format!("{PREFIX}setColor")}));
    desk.take(delta("i1", "{\"col"));
    let cut = desk.take(json!({"type": "message", "item": "i1", "interrupted": true, "content": [{"type": "other", "body": {"tool_input": "{\"col"}}]}));
    assert_eq!(cut[0], json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}));
    assert_eq!(
        (&cut[1]["type"], &cut[1]["toolCallId"]),
        (&json!("TOOL_CALL_RESULT"), &json!("c1")),
        "the page must not run half of it"
    );
}

// covers: 004-032
#[test]
fn a_page_s_tool_goes_by_its_own_name_and_its_result_is_the_page_s() {
    let name = format!("{PREFIX}setColor");
    let mut desk = Desk::new(Approvals::Event);
    let called = desk.take(call("c1", &name, json!({"color": "teal"})));
    assert_eq!(called[0]["toolCallName"], "setColor");
    assert!(desk.projector.has_shown(&["c1".into()]) && !desk.projector.has_shown(&["c2".into()]));
    let mut asked = json!({"type": "request_opened", "request": {"request": 9, "generation": 1, "digest": "d", "opened_at": 0,
                           "ask": {"kind": "permission", "tool_name": name, "input": {}}}});
    let mut decided = asked.clone();
    decided["type"] = json!("request_decided");
    decided["outcome"] = json!({"how": "answered", "answer": {"kind": "allow"}, "by": {"kind": "policy", "rule": "allow setColor"}});
    assert_eq!(desk.take(decided), [] as [Value; 0], "its permission is answered by policy");
    desk.projector.next_run("default", Approvals::Event);
    assert!(!desk.projector.has_shown(&["c1".into()]), "shown in the run before");
    assert_eq!(desk.take(result("c1", "done", "ok")), [] as [Value; 0], "the page has it already");
    // A call that ends in the run in which it was shown never reached the page.
    desk.take(call("c2", &name, json!({})));
    assert_eq!(desk.take(result("c2", "denied", "no"))[0]["type"], "TOOL_CALL_RESULT");
    for (number, name) in ["Bash".to_owned(), format!("{PREFIX}gone")].into_iter().enumerate() {
        asked["request"]["request"] = json!(20 + number);
        asked["request"]["ask"]["tool_name"] = json!(name);
        assert_eq!(desk.take(asked.clone())[0]["name"], "tool_approval_request", "{name}: people are asked");
    }
    let history = desk.history.into_messages(&desk.state);
    let history = serde_json::to_value(&history).unwrap();
    assert_eq!(
        history[0]["toolCalls"][0]["function"],
        json!({"name": "setColor", "arguments": "{\"color\":\"teal\"}"})
    );
}

#[test]
fn subagents_are_runs_inside_the_run() {
    let mut desk = Desk::new(Approvals::Event);
    let sub = |event: Value| {
        let mut event = event;
        event["parent"] = json!("c1");
        event
    };
    let mut events = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
    events.extend(desk.take(call("c1", "Task", json!({}))));
    events.extend(desk.take(json!({"type": "subagent_started", "subagent": "c1", "subagent_type": "Explore", "description": "look around"})));
    events.extend(desk.take(sub(started("m1", "text"))));
    events.extend(desk.take(delta("m1", "looking")));
    events.extend(desk.take(sub(call("c2", "Bash", json!({})))));
    events.extend(desk.take(sub(result("c2", "done", "x"))));
    events.extend(desk.take(json!({"type": "subagent_started", "subagent": "c3", "parent": "c1", "description": "deeper", "background": true})));
    let ended = desk
        .take(json!({"type": "subagent_ended", "subagent": "c1", "outcome": "done", "summary": "looked"}));
    assert_eq!(
        ended[0],
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m1", "subagentRunId": "c1"}),
        "nothing of it stays open"
    );
    assert_eq!(ended[1], json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "c1", "result": "looked"}));
    events.extend(ended);
    let late = desk.take(sub(text("m9", "late words")));
    assert_eq!(late[0].get("subagentRunId"), None, "its name is used up");
    events.extend(late);
    events.extend(desk.take(json!({"type": "subagent_ended", "subagent": "unheard", "outcome": "failed"})));
    events.extend(desk.close());
    events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    verify(&events).unwrap();
    let begun: Vec<_> = events.iter().filter(|event| event["type"] == "SUBAGENT_STARTED").collect();
    assert_eq!(
        begun[0],
        &json!({"type": "SUBAGENT_STARTED", "subagentRunId": "c1", "name": "Explore", "description": "look around", "parentToolCallId": "c1"})
    );
    assert_eq!(begun[1]["parentSubagentRunId"], "c1");
    // A subagent in the background is sent again in the next run.
    desk.projector.next_run("default", Approvals::Event);
    let mut next = text("m5", "still here");
    next["parent"] = json!("c3");
    let next = desk.take(next);
    assert_eq!((&next[0]["type"], &next[0]["name"]), (&json!("SUBAGENT_STARTED"), &json!("deeper")));
}

/// Any entry that an agent can cause, over few names, so that they meet.
fn any_event() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let parent = prop::sample::select(vec![None, Some("s1"), Some("s2")]);
    let word = prop::sample::select(vec!["x", "y z", ""]);
    let kind = prop::sample::select(vec!["text", "thinking", "tool_input", "tool_output"]);
    let tool = prop::sample::select(vec!["Bash".to_owned(), format!("{PREFIX}setColor")]);
    (0..14_u8, name, parent, word, kind, tool).prop_map(|(which, item, parent, word, kind, tool)| {
        let mut event = match which {
            0 | 1 => started(item, kind),
            2..=4 => delta(item, word),
            5 => text(item, word),
            6 => message(item, json!([{"type": "thinking", "text": word}, {"type": "text", "text": "t"}])),
            7 => json!({"type": "tool_named", "item": item, "tool": format!("call-{item}"), "name": tool}),
            8 => {
                let mut event = call(&format!("call-{item}"), &tool, json!({}));
                event["item"] = json!(item);
                event
            }
            9 => result(&format!("call-{item}"), "done", word),
            10 => json!({"type": "subagent_started", "subagent": parent.unwrap_or("s1"), "description": word}),
            11 => return json!({"type": "subagent_ended", "subagent": parent.unwrap_or("s2"), "outcome": "done"}),
            12 => json!({"type": "message", "item": item, "interrupted": true, "content": [{"type": "other", "body": {}}]}),
            _ => return json!({"type": "activity", "activity": word}),
        };
        if which == 10 {
            event["parent"] = json!(if parent == Some("s2") { Some("s1") } else { None });
        } else {
            event["parent"] = json!(parent);
        }
        event
    })
}

proptest! {
    #[test]
    fn both_clients_accept_whatever_entries_become(
        runs in prop::collection::vec(prop::collection::vec(any_event(), 0..25), 1..4)
    ) {
        let mut desk = Desk::new(Approvals::Event);
        for (number, entries) in runs.into_iter().enumerate() {
            if number > 0 {
                desk.projector.next_run("default", Approvals::Event);
            }
            let mut events = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
            for entry in entries {
                events.extend(desk.take(entry));
            }
            events.extend(desk.close());
            events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
            let verdict = verify(&events);
            prop_assert!(verdict.is_ok(), "{verdict:?}\n{events:#?}");
        }
        let snapshot = json!({"type": "MESSAGES_SNAPSHOT", "messages": desk.history.into_messages(&desk.state)});
        let events = [json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}), snapshot,
                      json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})];
        prop_assert_eq!(verify(&events), Ok(()));
    }
}

/// The verdicts of the released clients on the tested sequences: our verifier gives the same verdict for each sequence
/// that can occur.
#[test]
fn the_verifier_of_these_tests_has_the_rules_of_the_clients() {
    let run = |events: &[Value]| {
        let mut all = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
        all.extend_from_slice(events);
        all.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
        verify(&all)
    };
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"});
    let content = json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"});
    let end = json!({"type": "TEXT_MESSAGE_END", "messageId": "m"});
    let (begin_call, args) = (
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "t"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"}),
    );
    let sub = json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"});
    for good in [
        vec![],
        vec![start.clone(), content.clone(), end.clone()],
        vec![start.clone(), content.clone(), end.clone(), start.clone(), content.clone(), end.clone()],
        vec![json!({"type": "TOOL_CALL_RESULT", "messageId": "w", "toolCallId": "c", "content": "x"})],
        vec![json!({"type": "CUSTOM", "name": "n", "value": null})],
        vec![json!({"type": "STATE_SNAPSHOT", "snapshot": null})],
    ] {
        assert_eq!(run(&good), Ok(()), "{good:?}");
    }
    for bad in [
        vec![start.clone()],
        vec![content.clone()],
        vec![start.clone(), end.clone(), end.clone()],
        vec![start.clone(), start.clone(), end.clone()],
        vec![args],
        vec![begin_call],
        vec![json!({"type": "TOOL_CALL_RESULT", "toolCallId": "c", "content": "x"})],
        vec![
            json!({"type": "TOOL_CALL_RESULT", "messageId": "w", "toolCallId": "c", "content": [{"type": "text"}]}),
        ],
        vec![json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})],
        vec![json!({"type": "RUN_ERROR", "message": "m"})],
        vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})],
        vec![json!({"type": "REASONING_START", "messageId": "q"})],
        vec![json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "q", "delta": "h"})],
        vec![json!({"type": "REASONING_MESSAGE_START", "messageId": "q", "role": "assistant"})],
        vec![json!({"type": "NEW_THING"})],
        vec![json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "tool"})],
        vec![json!({"type": "CUSTOM", "name": "n"})],
        vec![json!({"type": "CUSTOM", "name": "n", "value": 1, "timestamp": null})],
        vec![sub.clone()],
        vec![sub.clone(), json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s"}), sub],
        vec![
            json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "assistant", "content": null}]}),
        ],
    ] {
        assert!(run(&bad).is_err(), "{bad:?}");
    }
    let outcome = |outcome: Value| {
        verify(&[
            json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}),
        ])
    };
    assert!(outcome(json!({"type": "cancelled"})).is_err());
    assert!(outcome(json!({"type": "interrupt", "interrupts": []})).is_err());
    assert!(outcome(json!({"type": "success", "pendingToolCallIds": []})).is_err());
    assert!(verify(&[start]).is_err(), "no RUN_STARTED");
}
