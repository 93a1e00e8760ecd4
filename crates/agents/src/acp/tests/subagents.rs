//! Subagents as the adapter of Claude Code marks them: each of their messages names the call that started the subagent.

use portolan_core::{Event, event::ToolOutcome, ports::Report};
use serde_json::{Value, json};

use super::{events, prompt, ready, said, setup, told, update};
use crate::driver::Output;

fn marked(mut told: Value, parent: &str) -> Value {
    told["_meta"]["claudeCode"]["parentToolUseId"] = json!(parent);
    update(&told)
}

fn chunk(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

fn started(id: &str, description: &str) -> Value {
    json!({ "sessionUpdate": "tool_call", "toolCallId": id, "kind": "think", "title": description, "status": "pending",
        "rawInput": { "description": description, "prompt": "look", "subagent_type": "general-purpose" },
        "_meta": { "claudeCode": { "toolName": "Agent" } } })
}

fn ended(id: &str, status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
        "content": [{ "type": "content", "content": { "type": "text", "text": "it leans" } }] })
}

/// The events in a word or two, with their parents.
fn shown(outs: &[Output]) -> Vec<String> {
    let word = |event: &Event| match event {
        Event::SubagentStarted { subagent, parent, description, background, .. } => {
            Some(format!("begins {subagent} {description} of {parent:?} {background}"))
        }
        Event::SubagentEnded { subagent, outcome, .. } => Some(format!("ends {subagent} {outcome:?}")),
        Event::ToolCall { tool, parent, kind, .. } => Some(format!("calls {tool} {kind:?} of {parent:?}")),
        Event::ToolResult { tool, parent, .. } => Some(format!("result {tool} of {parent:?}")),
        Event::Message { content, parent, .. } => {
            Some(format!("says {} of {parent:?}", portolan_core::event::plain_text(content)))
        }
        _ => None,
    };
    outs.iter().flat_map(events).filter_map(word).collect()
}

#[test]
fn messages_and_calls_of_a_subagent_are_its_own_and_run_beside_the_others() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("look at everything"));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "status": "pending",
        "rawInput": { "command": "ls" } });
    let lines = [
        update(&started("A", "look at the mast")),
        update(&started("B", "look at the sail")),
        marked(chunk("I see "), "A"),
        marked(chunk("A sail, "), "B"),
        marked(chunk("the mast."), "A"),
        marked(call, "A"),
        marked(ended("c", "completed"), "A"),
        marked(chunk("torn."), "B"),
        update(&ended("A", "completed")),
        update(&ended("B", "failed")),
        update(&chunk("Both looked.")),
    ];
    let outs: Vec<_> = lines.iter().map(|line| said(&mut acp, line)).collect();
    assert_eq!(
        shown(&outs),
        [
            "calls A Subagent of None",
            "calls B Subagent of None",
            "begins A look at the mast of None false",
            "begins B look at the sail of None false",
            "says I see the mast. of Some(\"A\")",
            "calls c Execute of Some(\"A\")",
            "result c of Some(\"A\")",
            "ends A Done",
            "result A of None",
            "says A sail, torn. of Some(\"B\")",
            "ends B Failed",
            "result B of None",
        ]
    );
    let out = said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let result = out.reports.iter().find_map(|report| match report {
        Report::TurnEnded { result, .. } => Some(result),
        _ => None,
    });
    assert_eq!(
        result.unwrap().text.as_deref(),
        Some("Both looked."),
        "a subagent's words are not the result"
    );
}

#[test]
fn a_request_of_a_subagent_is_its_own() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("look"));
    said(&mut acp, &update(&started("A", "look at the mast")));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "status": "pending",
        "rawInput": { "command": "ls" } });
    said(&mut acp, &marked(call, "A"));
    let asks = json!({ "id": 0, "method": "session/request_permission", "params": { "sessionId": "S",
        "toolCall": { "toolCallId": "c" }, "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }] } });
    let out = said(&mut acp, &asks);
    let parent = out.reports.iter().find_map(|report| match report {
        Report::RequestOpened { parent, .. } => Some(parent.clone()),
        _ => None,
    });
    assert_eq!(parent, Some(Some("A".to_owned())));
}

#[test]
fn a_subagent_whose_call_has_ended_works_in_the_background_until_the_turn_ends() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("look"));
    let outs = [
        said(&mut acp, &update(&started("A", "look at the mast"))),
        said(&mut acp, &update(&ended("A", "completed"))),
        said(&mut acp, &marked(chunk("I see it."), "A")),
        said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } })),
    ];
    let shown = shown(&outs);
    assert_eq!(
        shown[2..],
        ["begins A look at the mast of None true", "says I see it. of Some(\"A\")", "ends A Done",]
    );
}

#[test]
fn a_background_subagent_does_not_end_with_its_call_even_if_it_spoke_before() {
    let launched = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "A",
        "_meta": { "claudeCode": { "toolName": "Agent", "toolResponse": { "isAsync": true, "status": "async_launched" } } } });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "status": "pending",
        "rawInput": { "command": "ls" } });
    for first in [&update(&launched), &marked(call.clone(), "A")] {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("look"));
        let outs = [
            said(&mut acp, &update(&started("A", "look at the mast"))),
            said(&mut acp, first),
            said(&mut acp, &marked(call.clone(), "A")),
            said(&mut acp, &update(&launched)),
            said(&mut acp, &update(&ended("A", "completed"))),
            said(&mut acp, &marked(ended("c", "completed"), "A")),
            said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } })),
        ];
        assert_eq!(
            shown(&outs)[2..],
            ["calls c Execute of Some(\"A\")", "result A of None", "result c of Some(\"A\")", "ends A Done"]
        );
    }
}

#[test]
fn a_call_is_not_its_own_parent_and_a_mark_without_a_call_is_no_fault() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("look"));
    let out = said(&mut acp, &marked(started("A", "look"), "A"));
    assert_eq!(shown(&[out]), ["calls A Subagent of None"]);
    let out = said(&mut acp, &marked(chunk("hello"), "nobody"));
    assert_eq!(shown(&[out]), ["begins nobody a subagent of None true"]);
    let ends = said(&mut acp, &json!({ "id": 3, "error": { "code": 1, "message": "no" } }));
    let ends: Vec<_> = events(&ends)
        .into_iter()
        .filter_map(|event| match event {
            Event::SubagentEnded { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [ToolOutcome::Interrupted]);
}
