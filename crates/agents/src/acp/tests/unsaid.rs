//! Facts that an agent does not report and Portolan reports for it: silence, a forgotten conversation, a reason that
//! did not arrive.

use portolan_core::{
    Event,
    event::Level,
    ports::{Order, Report},
    request::{Answer, Ask},
};
use serde_json::{Value, json};

use super::{
    Begin, Setup, Translate, answer_to, asked, events, everything, initialized, output_of, prompt, ready,
    refusal_of, said, setup, told, update, words,
};
use crate::{
    acp::translate::{HEARD_SINCE, QUIET_SINCE},
    driver::{Output, Translator as _},
};

fn warnings(out: &Output) -> Vec<String> {
    let warning = |event: &Event| match event {
        Event::Notice { level: Level::Warning, text } => Some(text.clone()),
        _ => None,
    };
    events(out).into_iter().filter_map(warning).collect()
}

// ------------------------------------------------------------------------------------------------ silence

/// Looks once; returns the notices, and whether there will be another look.
fn look(acp: &mut Translate) -> (Vec<String>, bool) {
    let out = output_of(|out| acp.timeout(HEARD_SINCE, out));
    let again = out.timers.iter().any(|(timer, after)| *timer == HEARD_SINCE && after.is_some());
    (warnings(&out), again)
}

fn looks(acp: &mut Translate, count: usize) -> Vec<String> {
    (0..count).flat_map(|_| look(acp).0).collect()
}

// Witness: gemini 0.61.0 asked its model ten times in 206 s, got 429 each time, and reported nothing.
#[test]
fn a_long_silence_of_an_agent_is_reported() {
    let mut acp = ready(setup());
    let out = told(&mut acp, 1, prompt("are you there"));
    assert!(out.timers.iter().any(|(timer, after)| *timer == HEARD_SINCE && after.is_some()), "{out:?}");
    assert_eq!(looks(&mut acp, 2), [] as [&str; 0], "it may be thinking");
    let said_so = looks(&mut acp, 1);
    assert!(said_so[0].contains("Harbour has said nothing for 30 s"), "{said_so:?}");
    assert!(said_so[0].contains("interrupt"), "and what can be done: {said_so:?}");
    assert_eq!(looks(&mut acp, 2), [] as [&str; 0], "not again and again");
    let later = looks(&mut acp, 30).join("\n");
    for after in ["60 s", "120 s", "240 s"] {
        assert_eq!(later.matches(after).count(), 1, "{later}");
    }

    said(&mut acp, &words("Here I am."));
    assert_eq!(looks(&mut acp, 3), [] as [&str; 0], "it spoke, and is silent again");
    assert_eq!(looks(&mut acp, 1).len(), 1);
    said(&mut acp, &json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    assert_eq!(look(&mut acp), (vec![], false), "nobody waits for it");
}

#[test]
fn an_agent_that_waits_for_a_tool_or_an_answer_is_not_reported_as_silent() {
    let mut acp = ready(setup());
    told(&mut acp, 1, prompt("do it"));
    let call = |status: &str| {
        update(&json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "execute", "title": "make",
            "rawInput": { "command": "make" }, "status": status }))
    };
    said(&mut acp, &call("in_progress"));
    assert_eq!(looks(&mut acp, 9), [] as [&str; 0], "a tool may take long");
    said(&mut acp, &call("completed"));
    said(&mut acp, &permission(json!(0)));
    assert_eq!(looks(&mut acp, 9), [] as [&str; 0], "it waits for us");
    told(&mut acp, 2, denial(Some("no")));
    assert_eq!(looks(&mut acp, 3).len(), 1, "now it does not");
}

// --------------------------------------------------------------------------------------------- forgotten

fn loading(exchanges: u64) -> (Translate, Output) {
    let begin = Begin::Resume { session: "S".into(), own: true };
    let mut told = everything();
    told["agentCapabilities"]["sessionCapabilities"] = json!({});
    initialized(Setup { begin, exchanges, ..setup() }, &told)
}

fn piece(kind: &str, text: &str) -> Value {
    update(&json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }))
}

/// The replayed past, before and after the conversation is reported as loaded.
fn loaded(exchanges: u64, past: &[Value]) -> Output {
    let (mut acp, out) = loading(exchanges);
    let (before, after) = past.split_at(past.len() / 2);
    for line in before {
        assert_eq!(said(&mut acp, line).reports, []);
    }
    said(&mut acp, &answer_to(&out, "session/load", &json!({})));
    for line in after {
        assert_eq!(said(&mut acp, line).reports, []);
    }
    output_of(|out| acp.timeout(QUIET_SINCE, out))
}

fn is_reset(out: &Output) -> bool {
    events(out).iter().any(|event| matches!(event, Event::ConversationReset { .. }))
}

// Witness: gemini 0.44.0 reports a conversation as loaded, and replays only its own text.
#[test]
fn a_loaded_but_empty_conversation_is_reported_as_forgotten_first() {
    let context = piece("user_message_chunk", "<session_context>This is the CLI.</session_context>");
    for past in [vec![], vec![context]] {
        let out = loaded(1, &past);
        assert!(is_reset(&out) && warnings(&out)[0].contains("forgotten"), "{past:?}: {out:?}");
        assert_eq!(out.reports.last(), Some(&Report::Ready), "said first: {out:?}");
    }
}

#[test]
fn a_fully_loaded_conversation_is_not_reported_as_forgotten() {
    let past = [
        piece("user_message_chunk", "<session_context>This is the CLI.</session_context>"),
        piece("user_message_chunk", "first words"),
        piece("agent_message_chunk", "I will remember."),
        piece("user_message_chunk", "second words, "),
        piece("user_message_chunk", "in two pieces"),
        piece("agent_thought_chunk", "Hm."),
        piece("agent_message_chunk", "I remember."),
        piece("user_message_chunk", "stopped before there was a word"),
    ];
    assert_eq!(loaded(2, &past).reports, [Report::Ready]);
    assert_eq!(loaded(0, &[]).reports, [Report::Ready], "nothing was ever answered in it");
    let part = loaded(4, &past);
    assert!(warnings(&part)[0].contains("showed 3 of its 4 prompts") && !is_reset(&part), "{part:?}");
}

#[test]
fn a_conversation_that_the_agent_no_longer_has_is_reported_as_forgotten() {
    let (mut acp, out) = loading(1);
    // Witness: gemini 0.61.0, when a conversation is resumed for the second time.
    let lost = refusal_of(&out, "session/load", -32603, "No previous sessions found for this project.");
    let out = said(&mut acp, &lost);
    assert!(is_reset(&out) && warnings(&out)[0].contains("a new one begins"), "{out:?}");
    assert_eq!(asked(&out, "session/new")["params"]["cwd"], "/harbour");
}

// ----------------------------------------------------------------------------------------------- reasons

fn permission(id: Value) -> Value {
    let options = json!([{ "optionId": "once", "name": "Once", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" }]);
    json!({ "id": id, "method": "session/request_permission", "params": { "sessionId": "S", "options": options,
        "toolCall": { "toolCallId": "t2", "kind": "execute", "title": "touch x" } } })
}

fn denial(reason: Option<&str>) -> Order {
    let answer = Answer::deny(reason.map(str::to_owned));
    Order::Answer { key: "0".into(), ask: Box::new(Ask::Plan { plan: None, input: Value::Null }), answer }
}

// The reason was dropped, and its author was not informed.
#[test]
fn a_reason_that_does_not_reach_the_agent_is_reported() {
    for (reason, said_so) in [(Some("use the harbour's own tool"), true), (Some(" "), false), (None, false)] {
        let mut acp = ready(setup());
        told(&mut acp, 1, prompt("do it"));
        said(&mut acp, &permission(json!(0)));
        let out = told(&mut acp, 2, denial(reason));
        assert_eq!(out.writes.len(), 1, "the denial itself: {out:?}");
        let warnings = warnings(&out);
        assert_eq!(warnings.len(), usize::from(said_so), "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|text| text.contains("use the harbour's own tool") && text.contains("prompt"))
        );
    }
}
