//! Behaviour of real agents that the contract suite found.

use portolan_core::{
    Event,
    event::{ErrorKind, ToolOutcome, TurnOutcome, TurnResult},
    ports::{Order, Report},
    usage::TokenUsage,
};
use serde_json::{Value, json};

use super::{Setup, Translate, catalogue, events, prompt, ready, said, setup, told, update, words, written};
use crate::acp::wire;

/// An agent that was given a prompt.
fn agent(kind: &str) -> Translate {
    let mut acp = ready(Setup { known: catalogue::known(kind), ..setup() });
    let out = told(&mut acp, 1, prompt("do it"));
    assert_eq!((&written(&out)[0]["id"], &written(&out)[0]["method"]), (&json!(3), &json!("session/prompt")));
    acp
}

fn ended(acp: &mut Translate) -> TurnResult {
    let out = said(acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let result = out.reports.iter().find_map(|report| match report {
        Report::TurnEnded { result, .. } => Some((**result).clone()),
        _ => None,
    });
    result.unwrap()
}

fn outcome(result: &TurnResult) -> (TurnOutcome, Option<ErrorKind>) {
    (result.outcome, result.error.as_ref().map(|error| error.kind))
}

// Witness: goose 1.34.0 reports errors of its model's service as if the model had spoken.
#[test]
fn a_turn_that_goose_reports_as_failed_is_shown_as_failed() {
    for (text, kind) in [
        ("Ran into this error: Authentication error: Status: 401 Unauthorized.", ErrorKind::Auth),
        ("Ran into this error: Rate limit exceeded: Rate limit reached.", ErrorKind::RateLimit),
        ("Network error: Could not connect to 127.0.0.1:1 - try again.", ErrorKind::Network),
    ] {
        let mut goose = agent("goose");
        said(&mut goose, &words(text));
        assert_eq!(outcome(&ended(&mut goose)), (TurnOutcome::Failed, Some(kind)), "{text}");
        let mut other = agent("gemini");
        said(&mut other, &words(text));
        assert_eq!(
            outcome(&ended(&mut other)),
            (TurnOutcome::Completed, None),
            "the model may say so: {text}"
        );
    }
}

// Witness: codex-acp 2.6.0 answers `end_turn`, with the error as text, after it has reported the error separately.
#[test]
fn a_turn_that_the_codex_adapter_reports_as_failed_is_shown_as_failed() {
    let status = |kind: &str| {
        update(&json!({ "sessionUpdate": "session_info_update",
            "_meta": { "codex": { "threadStatus": { "type": kind } } } }))
    };
    let mut codex = agent("codex-acp");
    said(&mut codex, &status("active"));
    said(&mut codex, &words("Selected model is at capacity."));
    said(&mut codex, &status("systemError"));
    assert_eq!(outcome(&ended(&mut codex)), (TurnOutcome::Failed, Some(ErrorKind::Overloaded)));
    let mut codex = agent("codex-acp");
    said(&mut codex, &words("All is well."));
    said(&mut codex, &status("idle"));
    assert_eq!(outcome(&ended(&mut codex)), (TurnOutcome::Completed, None));
}

// Witness: gemini 0.61.0 and opencode 1.18.33 report a stopped command as `completed`, qwen 0.24.4 as `failed`.
#[test]
fn a_call_that_ends_after_its_turn_was_stopped_is_shown_as_stopped() {
    for status in ["completed", "failed"] {
        let mut acp = agent("gemini");
        let call = |status: &str| {
            update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "kind": "execute",
                "title": "tail -f", "rawInput": { "command": "tail -f" }, "status": status }))
        };
        said(&mut acp, &call("in_progress"));
        told(&mut acp, 2, Order::Interrupt);
        let out = said(&mut acp, &call(status));
        let outcomes: Vec<_> = events(&out)
            .into_iter()
            .filter_map(|event| match event {
                Event::ToolResult { outcome, .. } => Some(*outcome),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [ToolOutcome::Interrupted], "{status}");
    }
}

// Witness: qwen 0.24.4 counts cached tokens twice, opencode 1.18.33 does not; the total shows the difference.
#[test]
fn cached_tokens_are_counted_once() {
    let told = |input: u64| {
        let figures: Value = json!({ "inputTokens": input, "outputTokens": 340, "cachedReadTokens": 5000,
            "totalTokens": 6540 });
        wire::tokens(&figures).unwrap()
    };
    let expected = TokenUsage { input: 1200, output: 340, cache_creation: 0, cache_read: 5000 };
    assert_eq!((told(6200), told(1200)), (expected, expected));
}

// Witness: qwen 0.24.4 reports its modes once more, and asks whether a prompt waits.
#[test]
fn known_methods_of_an_agent_are_not_reported_as_unknown() {
    let unknown = |kind: &str, message: &Value| {
        let out = said(&mut agent(kind), message);
        events(&out).iter().any(|event| matches!(event, Event::Unknown { .. }))
    };
    let notified = json!({ "method": "qwen/notify/session/mode-update", "params": { "v": 1 } });
    let asked = json!({ "id": 7, "method": "craft/drainMidTurnQueue", "params": {} });
    assert!(!unknown("qwen", &notified) && !unknown("qwen", &asked));
    assert!(unknown("gemini", &notified) && unknown("gemini", &asked));
    let out = said(&mut agent("qwen"), &asked);
    assert_eq!(written(&out)[0]["error"]["code"], -32601, "and it gets its answer");
}
