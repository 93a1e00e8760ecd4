//! Which step is played to which request.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod client;

use client::{SOON, and_then, request, said, start};
use portolan_scripted::{
    Asked, FailureKind, Playing, Script, ScriptError, StopReason, ToolResult, Usage, anything, contains,
    conversation_contains, fail, hang, model, note_contains, nth, result_contains, result_of,
    system_contains, text, thinking, tool,
};
use serde_json::{Value, json};

fn asked(prompt: &str) -> Asked {
    let tools = vec!["Bash".to_owned()];
    Asked { model: "claude-big".to_owned(), prompts: vec![prompt.to_owned()], tools, ..Asked::default() }
}

fn after(turns: usize, prompt: &str) -> Asked {
    Asked { turns, ..asked(prompt) }
}

/// The positions of the steps played to `requests`, in order; none is the default answer.
fn played(script: Script, requests: &[Asked]) -> Vec<Option<(usize, usize)>> {
    let mut playing = Playing::new(script);
    let cues = requests.iter().map(|asked| playing.cue(asked));
    cues.map(|cue| cue.rule.map(|rule| (rule, cue.step))).collect()
}

#[test]
fn each_matcher_looks_at_its_own_part_of_the_request() {
    let result =
        ToolResult { id: "t1".to_owned(), name: "Read".to_owned(), text: "file".to_owned(), is_error: false };
    let request = Asked {
        model: "claude-small".to_owned(),
        system: "write a title".to_owned(),
        prompts: vec!["early".to_owned(), "late".to_owned()],
        notes: vec!["<task-notification>".to_owned()],
        results: vec![result],
        ..asked("")
    };
    let fits = |matcher| {
        played(Script::new().on(matcher).reply(text("x")), std::slice::from_ref(&request)) == [Some((0, 0))]
    };
    assert!(fits(anything()));
    assert!(fits(contains("late")) && !fits(contains("early")));
    assert!(fits(conversation_contains("early")) && !fits(conversation_contains("never")));
    assert!(fits(system_contains("title")) && !fits(system_contains("late")));
    assert!(fits(model("small")) && !fits(model("big")));
    assert!(fits(result_of("Read")) && fits(result_of("t1")) && !fits(result_of("Bash")));
    assert!(fits(result_contains("file")) && !fits(result_contains("title")));
    assert!(fits(note_contains("task")) && !fits(note_contains("late")));
    assert!(fits(anything().and_offers("Bash")) && !fits(anything().and_offers("Read")));
    assert!(fits(anything().with_tools()) && !fits(anything().on_the_side()));
    assert!(fits(contains("late").and_model("small")) && !fits(contains("late").and_model("big")));
}

#[test]
fn steps_follow_the_turns_of_the_model() {
    let script = Script::new()
        .on(contains("a"))
        .reply(tool("Bash", json!({})))
        .then(tool("Bash", json!({})))
        .then(text("done"));
    let requests = [after(0, "a"), after(1, "a"), after(2, "a"), after(3, "a")];
    assert_eq!(played(script, &requests), [Some((0, 0)), Some((0, 1)), Some((0, 2)), Some((0, 2))]);
}

#[test]
fn a_failure_is_played_once_and_a_last_failure_for_ever() {
    let script = Script::new()
        .on(contains("once"))
        .reply(fail(FailureKind::Overloaded))
        .then(hang())
        .then(text("in"))
        .on(contains("ever"))
        .reply(fail(FailureKind::Overloaded));
    let once = asked("once");
    assert_eq!(
        played(script.clone(), &[once.clone(), once.clone(), once.clone(), once]),
        [Some((0, 0)), Some((0, 1)), Some((0, 2)), Some((0, 2))]
    );
    assert_eq!(played(script, &[asked("ever"), asked("ever")]), [Some((1, 0)), Some((1, 0))]);
}

#[test]
fn a_failure_in_the_middle_of_a_tool_loop_waits_for_its_turn() {
    let script =
        Script::new().then(tool("Bash", json!({}))).then(fail(FailureKind::Overloaded)).then(text("done"));
    let requests = [after(0, "a"), after(1, "a"), after(1, "a")];
    assert_eq!(played(script, &requests), [Some((0, 0)), Some((0, 1)), Some((0, 2))]);
}

#[test]
fn a_last_tool_call_is_not_repeated() {
    let script = Script::new().then(tool("Bash", json!({})));
    assert_eq!(played(script, &[after(0, "a"), after(1, "a")]), [Some((0, 0)), None]);
}

#[test]
fn two_conversations_with_the_same_prompt_do_not_take_each_others_steps() {
    let script = Script::new().then(tool("Bash", json!({}))).then(text("done"));
    let requests = [after(0, "a"), after(0, "a"), after(1, "a"), after(1, "a")];
    assert_eq!(played(script, &requests), [Some((0, 0)), Some((0, 0)), Some((0, 1)), Some((0, 1))]);
}

#[test]
fn sessions_have_their_own_failures() {
    let script = Script::new().then(fail(FailureKind::Internal)).then(text("in"));
    let of = |session: &str| Asked { session: session.to_owned(), ..asked("a") };
    let requests = [of("one"), of("two"), of("one"), of("two")];
    assert_eq!(played(script, &requests), [Some((0, 0)), Some((0, 0)), Some((0, 1)), Some((0, 1))]);
}

#[test]
fn a_rule_for_all_plays_its_steps_over_all_requests() {
    let script = Script::new().then(fail(FailureKind::Unauthorized)).then(text("in")).for_all();
    assert_eq!(
        played(script, &[asked("a"), asked("b"), asked("c")]),
        [Some((0, 0)), Some((0, 1)), Some((0, 1))]
    );
}

#[test]
fn a_rule_can_match_only_the_nth_request() {
    let script = Script::new().on(nth(2).and_contains("a")).reply(text("second")).for_all();
    assert_eq!(
        played(script, &[asked("a"), asked("b"), asked("a"), asked("a")]),
        [None, None, Some((0, 0)), None]
    );
}

#[test]
fn requests_on_the_side_do_not_reach_rules_that_are_not_for_them() {
    let script = Script::new()
        .on(contains("a"))
        .reply(tool("Bash", json!({})))
        .on(system_contains("title").on_the_side())
        .reply(text("A title"))
        .asides(text("aside"));
    let side = Asked { tools: Vec::new(), ..asked("a") };
    let title = Asked { system: "a title, please".to_owned(), ..side.clone() };
    let mut playing = Playing::new(script);
    let plays: Vec<_> = [asked("a"), side, title].iter().map(|asked| playing.cue(asked).play).collect();
    assert_eq!(plays, [tool("Bash", json!({})), text("aside"), text("A title")]);
}

#[test]
fn a_script_is_the_same_written_as_json() {
    let json = r#"{
        "rules": [
            {"when": {"prompt_contains": "files", "nth": 1}, "scope": "server", "steps": [
                {"say": [{"type": "thinking", "text": "hm"}, {"type": "tool", "name": "Bash", "input": {"command": "ls"}}],
                 "usage": {"input": 10, "output": 2}, "wait_ms": 5, "headers": {"x-a": "b"}},
                {"text": "cut", "end": "cut", "chunk": 3, "delay_ms": 7},
                {"text": "broken", "end": {"error": {"kind": "overloaded"}}, "stop": "max_tokens"},
                {"fail": {"kind": "rate_limited", "retry_after": 3, "message": "slow down"}},
                {"hang": true}
            ]}
        ],
        "otherwise": {"text": "what?"},
        "aside": {"text": "Title"},
        "count": 9
    }"#;
    let mut first = thinking("hm").and(tool("Bash", json!({"command": "ls"})));
    first = first.usage(Usage { input: 10, output: 2, ..Usage::default() });
    let built = Script::new()
        .on(contains("files").and_nth(1))
        .reply(first.after(std::time::Duration::from_millis(5)).header("x-a", "b"))
        .then(text("cut").cut().chunks_of(3).each_after(std::time::Duration::from_millis(7)))
        .then(text("broken").breaks_with(FailureKind::Overloaded).stop(StopReason::MaxTokens))
        .then(fail(FailureKind::RateLimited).retry_after(3).message("slow down"))
        .then(hang())
        .for_all()
        .otherwise(text("what?"))
        .asides(text("Title"))
        .counts(9);
    assert_eq!(Script::from_json(json).unwrap(), built);
    let written = serde_json::to_string(&built).unwrap();
    assert_eq!(Script::from_json(&written).unwrap(), built);
}

#[test]
fn a_script_with_a_mistake_is_refused_with_the_reason() {
    let reason = |json: &str| match Script::from_json(json).unwrap_err() {
        ScriptError::Form(error) => error.to_string(),
        error @ ScriptError::NoSteps(_) => error.to_string(),
    };
    for (json, expected) in [
        (r#"{"rulez": []}"#, "unknown field `rulez`"),
        (r#"{"rules": [{"steps": []}]}"#, "rule 0 (counted from 0) has no steps"),
        (r#"{"rules": [{"when": {"promt": "x"}, "steps": []}]}"#, "unknown field `promt`"),
        (r#"{"otherwise": {"txt": "x"}}"#, "unknown field `txt`"),
        (r#"{"otherwise": {}}"#, "exactly one of `text`, `say`, `fail` and `hang`; this one has 0"),
        (r#"{"otherwise": {"text": "x", "say": []}}"#, "this one has 2"),
        (r#"{"otherwise": {"hang": true, "chunk": 3}}"#, "belong to `text` and `say` only"),
        (
            r#"{"otherwise": {"say": [{"type": "tool", "name": "a", "inputs": {}}]}}"#,
            "unknown field `inputs`",
        ),
        (r#"{"otherwise": {"fail": {"kind": "tired"}}}"#, "unknown variant `tired`"),
        ("[]x", "trailing characters"),
    ] {
        let reason = reason(json);
        assert!(reason.contains(expected), "{json}: {reason}");
    }
}

#[tokio::test]
async fn placeholders_prove_what_reached_the_model() {
    let server = start(
        Script::new()
            .on(contains("go"))
            .reply(tool("Bash", json!({"command": "echo {last_user}", "list": ["{model}", 7]})))
            .then(text("{last_user}: {tool_results} / {last_tool_result} / {images} {unknown} {} {")),
    )
    .await;
    let first = client::say(&server, &request("go {model}")).await;
    let input: String =
        first.events().iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    let input: Value = serde_json::from_str(&input).unwrap();
    assert_eq!(input, json!({"command": "echo go {model}", "list": ["claude-test", 7]}));
    let second =
        and_then(request("go {model}"), &[("t1", "Bash"), ("t2", "Bash")], &[("t1", "{one}"), ("t2", "two")]);
    assert_eq!(said(&server, &second).await, "go {model}: {one}\ntwo / two / 0 {unknown} {} {");
}

#[tokio::test]
async fn two_conversations_at_once_do_not_mix() {
    let script = Script::new()
        .on(contains("list"))
        .reply(tool("Bash", json!({"command": "ls"})))
        .then(text("list: {last_tool_result}"))
        .on(contains("date"))
        .reply(tool("Bash", json!({"command": "date"})))
        .then(text("date: {last_tool_result}"));
    let server = start(script).await;
    let converse = async |word: &str| {
        let mut texts = Vec::new();
        for round in 0..20 {
            let prompt = format!("{word} {round}");
            let first = client::say(&server, &request(&prompt)).await;
            assert!(first.event_types().contains(&"content_block_start".to_owned()));
            texts.push(said(&server, &and_then(request(&prompt), &[("t", "Bash")], &[("t", &prompt)])).await);
        }
        texts
    };
    let (lists, dates) = tokio::join!(converse("list"), converse("date"));
    let expected = |word: &str| (0..20).map(|round| format!("{word}: {word} {round}")).collect::<Vec<_>>();
    assert_eq!((lists, dates), (expected("list"), expected("date")));
    assert_eq!(server.wait_for(80, SOON).await.unwrap().len(), 80);
}

#[tokio::test]
async fn prompts_that_were_never_answered_do_not_hide_the_next() {
    let server = start(
        Script::new()
            .on(contains("bad"))
            .reply(fail(FailureKind::NoCredit))
            .on(contains("good"))
            .reply(text("fine")),
    )
    .await;
    assert_eq!(client::say(&server, &request("bad")).await.status, 400);
    let mut both = request("");
    both["messages"] = json!([{"role": "user", "content": [{"type": "text", "text": "bad\n"}, {"type": "text", "text": "good"}]}]);
    assert_eq!(said(&server, &both).await, "fine");
}

#[tokio::test]
async fn a_wait_for_a_request_can_begin_before_it_comes() {
    let server = start(Script::new()).await;
    let (waited, _) = tokio::join!(server.wait_until(SOON, |request| request.prompt() == "second"), async {
        said(&server, &request("first")).await;
        said(&server, &request("second")).await
    });
    assert_eq!(waited.unwrap().number, 2);
}

#[tokio::test]
async fn text_that_the_agent_writes_by_itself_is_no_prompt() {
    let script = Script::new()
        .on(note_contains("<task-id>7</task-id>"))
        .reply(text("task 7: {last_user}"))
        .on(contains("go"))
        .reply(text("cut sh").stop(StopReason::MaxTokens))
        .then(text("the rest of {last_user}"));
    let server = start(script).await;
    let continued = |more: Value| {
        let mut body = request("go");
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": "cut sh"}]}));
        messages.push(more);
        body
    };
    let limit = json!({"role": "user", "content": [{"type": "text", "text": "Output token limit hit. Resume directly"}]});
    assert_eq!(said(&server, &continued(limit)).await, "the rest of go");
    let task = "<task-notification><task-id>7</task-id></task-notification>";
    for news in [json!({"role": "user", "content": task}), json!({"role": "system", "content": task})] {
        assert_eq!(said(&server, &continued(news)).await, "task 7: go");
    }
}
