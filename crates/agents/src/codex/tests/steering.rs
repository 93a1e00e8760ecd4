//! Prompts for the running turn: sent once, whatever happens to the turn.

use portolan_core::{
    event::Content,
    ports::{InstructionId, Order, Report},
};
use serde_json::json;

use super::{Translate, answer_to, output_of, ready, said, setup, told, written};
use crate::driver::Translator as _;

fn prompt(words: &str) -> Order {
    Order::Prompt { content: vec![Content::text(words)] }
}

fn begins(codex: &mut Translate, turn: &str) -> crate::driver::Output {
    let params = json!({ "threadId": "T", "turn": { "id": turn } });
    said(codex, &json!({ "method": "turn/started", "params": params }))
}

fn ends(codex: &mut Translate, turn: &str) -> crate::driver::Output {
    let params = json!({ "threadId": "T", "turn": { "id": turn, "status": "completed" } });
    said(codex, &json!({ "method": "turn/completed", "params": params }))
}

fn steer(words: &str) -> Order {
    Order::Steer { content: vec![Content::text(words)] }
}

/// The requests, by method; and the id of the last one.
fn asked(out: &crate::driver::Output) -> (Vec<String>, serde_json::Value) {
    let lines = written(out);
    let methods = lines.iter().map(|line| line["method"].as_str().unwrap_or_default().to_owned()).collect();
    (methods, lines.last().map(|line| line["id"].clone()).unwrap_or_default())
}

#[test]
fn a_prompt_is_steered_into_the_turn_that_runs() {
    let mut codex = ready(setup());
    let out = told(&mut codex, 1, prompt("hello"));
    let out = said(&mut codex, &answer_to(&out, "turn/start", &json!({ "turn": { "id": "A" } })));
    let taken_up = Report::Consumed { instruction_id: InstructionId(1), result: None };
    let begun = Report::TurnStarted { origin: portolan_core::event::TurnOrigin::Prompt };
    assert_eq!(out.reports, [begun, taken_up], "with no turn begun, the session would send the next prompt");
    assert_eq!(
        asked(&told(&mut codex, 2, steer("also"))).0,
        [""; 0],
        "Codex knows the turn once it has begun"
    );
    let out = begins(&mut codex, "A");
    let expected = json!({ "threadId": "T", "input": [{ "type": "text", "text": "also" }], "expectedTurnId": "A",
        "clientUserMessageId": codex.name_of(InstructionId(2)) });
    assert_eq!(written(&out)[0]["params"], expected);
    let out = said(&mut codex, &answer_to(&out, "turn/steer", &json!({ "turnId": "A" })));
    assert_eq!(out.reports, [Report::Consumed { instruction_id: InstructionId(2), result: None }]);
    assert_eq!(asked(&ends(&mut codex, "A")).0, [""; 0], "it is sent once");
}

#[test]
fn a_steered_prompt_whose_turn_has_ended_begins_a_turn_and_is_sent_once() {
    for (error, turn_ends_first) in [
        ("no active turn to steer", true),
        ("no active turn to steer", false),
        ("expected active turn id A but found B", false),
        ("cannot steer a review turn", false),
    ] {
        let mut codex = ready(setup());
        begins(&mut codex, "A");
        let (_, id) = asked(&told(&mut codex, 2, steer("also")));
        let refused = json!({ "error": { "code": -32600, "message": error }, "id": id });
        let lines = if turn_ends_first {
            assert_eq!(asked(&ends(&mut codex, "A")).0, [""; 0]);
            asked(&said(&mut codex, &refused)).0
        } else {
            let out = said(&mut codex, &refused);
            assert_eq!((asked(&out).0.len(), out.reports.len()), (0, 0), "{error}");
            asked(&ends(&mut codex, "A")).0
        };
        assert_eq!(lines, ["turn/start"], "{error}");
    }
}

#[test]
fn a_steered_prompt_without_an_answer_is_uncertain_and_not_sent_again_and_a_late_answer_counts() {
    let refusal = json!({ "code": -32600, "message": "no active turn to steer" });
    for (answer, settled) in [
        (
            json!({ "result": { "turnId": "A" } }),
            Report::Consumed { instruction_id: InstructionId(2), result: None },
        ),
        (
            json!({ "error": refusal }),
            Report::Rejected { instruction_id: InstructionId(2), error: "no active turn to steer".into() },
        ),
    ] {
        let mut codex = ready(setup());
        begins(&mut codex, "A");
        let sent = told(&mut codex, 2, steer("also"));
        let out = output_of(|after| codex.timeout(sent.timers[0].0, after));
        let reason = "codex did not answer within 30 s".into();
        assert_eq!(out.reports, [Report::Uncertain { instruction_id: InstructionId(2), reason }]);
        assert_eq!(asked(&ends(&mut codex, "A")).0, [""; 0]);
        let mut answer = answer;
        answer["id"] = asked(&sent).1;
        assert_eq!(said(&mut codex, &answer).reports, [settled]);
        assert_eq!(said(&mut codex, &answer).reports, [], "once");
    }
}

#[test]
fn commands_of_codex_and_prompts_without_a_turn_begin_turns_one_after_the_other() {
    let mut codex = ready(setup());
    assert_eq!(asked(&told(&mut codex, 1, steer("no turn runs"))).0, ["turn/start"]);
    let mut codex = ready(setup());
    begins(&mut codex, "A");
    assert_eq!(asked(&told(&mut codex, 1, steer("/compact"))).0, [""; 0]);
    let out = ends(&mut codex, "A");
    assert_eq!(asked(&out).0, ["thread/compact/start"]);
    // A prompt that comes while a turn begins enters that turn, or follows it if the turn takes nothing; also if the
    // turn was over at once.
    assert_eq!(asked(&told(&mut codex, 2, steer("also"))).0, [""; 0]);
    let begun = begins(&mut codex, "B");
    assert_eq!(asked(&begun).0, ["turn/steer"]);
    let refusal = json!({ "code": -32600, "message": "cannot steer a compact turn" });
    said(&mut codex, &json!({ "error": refusal, "id": asked(&begun).1 }));
    assert_eq!(asked(&ends(&mut codex, "B")).0, [""; 0], "whether the compaction began is not answered yet");
    let out = said(&mut codex, &answer_to(&out, "thread/compact/start", &json!({ "turn": { "id": "B" } })));
    assert_eq!(asked(&out).0, ["turn/start"]);
}
