//! The Gemini API, as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod client;

use client::{ask, post, start};
use portolan_scripted::{
    Asked, Credential, Delivery, FailureKind, Script, StopReason, ToolResult, Usage, call, contains, fail,
    text, thinking, tool, tools,
};
use serde_json::{Value, json};

const STREAM: &str = "/v1beta/models/gemini-test:streamGenerateContent?alt=sse";
const WHOLE: &str = "/v1beta/models/gemini-test:generateContent";
const USAGE: Usage = Usage { input: 1200, output: 25, cache_read: 300, cache_creation: 0 };

fn request(prompt: &str) -> Value {
    json!({
        "systemInstruction": { "role": "user", "parts": [{ "text": "be brief" }] },
        "tools": [{ "functionDeclarations": [{ "name": "read_file" }, { "name": "run_shell_command" }] }],
        "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
    })
}

fn usage() -> Value {
    json!({ "promptTokenCount": 1500, "cachedContentTokenCount": 300, "candidatesTokenCount": 25,
        "totalTokenCount": 1525 })
}

fn parts(event: &Value) -> Value {
    event["candidates"][0]["content"]["parts"].clone()
}

#[tokio::test]
async fn a_whole_stream_is_responses_with_a_piece_each() {
    let mut shell = call("run_shell_command", json!({"command": "ls"}));
    shell.id = Some("c1".to_owned());
    let step = thinking("hm").and(text("Häuser, then")).and(tools([shell])).chunks_of(8).usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let answer = post(&server, STREAM, &request("go")).await;
    assert_eq!((answer.status, answer.whole), (200, true));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = answer.unnamed();
    assert_eq!(
        events.iter().map(parts).collect::<Vec<_>>(),
        [
            json!([{ "text": "hm", "thought": true }]),
            json!([{ "text": "Häuser, " }]),
            json!([{ "text": "then" }]),
            json!([{ "functionCall": { "id": "c1", "name": "run_shell_command", "args": { "command": "ls" } } }]),
            json!([{ "text": "" }]),
        ]
    );
    let (last, others) = events.split_last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"], usage());
    assert!(others.iter().all(|event| event["candidates"][0].get("finishReason").is_none()));
    assert!(events.iter().all(|event| event["modelVersion"] == "gemini-test"));
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_one_body() {
    let step = text("I look").and(tool("read_file", json!({"path": "a"}))).usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let mut said = post(&server, WHOLE, &request("go")).await.json();
    let id = said["candidates"][0]["content"]["parts"][1]["functionCall"]["id"].take();
    assert!(id.as_str().unwrap().starts_with("call-"));
    assert_eq!(
        said["candidates"],
        json!([{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [
            { "text": "I look" },
            { "functionCall": { "id": null, "name": "read_file", "args": { "path": "a" } } } ] } }])
    );
    assert_eq!(said["usageMetadata"], usage());
}

#[tokio::test]
async fn a_turn_ends_for_the_reason_in_the_script() {
    for (reason, word) in [
        (StopReason::EndTurn, "STOP"),
        (StopReason::MaxTokens, "MAX_TOKENS"),
        (StopReason::Refusal, "SAFETY"),
    ] {
        let server = start(Script::new().then(text("no").stop(reason))).await;
        let events = post(&server, STREAM, &request("go")).await.unnamed();
        assert_eq!(events.last().unwrap()["candidates"][0]["finishReason"], word);
    }
}

#[tokio::test]
async fn a_request_is_read_as_prompts_calls_and_results() {
    let server = start(Script::new().on(contains("look")).reply(text("fine"))).await;
    let mut body = request("<session_context> x </session_context>");
    body["contents"].as_array_mut().unwrap().extend([
        json!({ "role": "user", "parts": [
            { "text": "look at it" },
            { "inlineData": { "mimeType": "image/png", "data": "AAAA" } },
            { "inlineData": { "mimeType": "application/pdf", "data": "AAAA" } } ] }),
        json!({ "role": "model", "parts": [
            { "functionCall": { "id": "c1", "name": "read_file", "args": {} } },
            { "functionCall": { "id": "c2", "name": "read_file", "args": {} } } ] }),
        json!({ "role": "user", "parts": [
            { "functionResponse": { "id": "c1", "name": "read_file", "response": { "output": "out" } } },
            { "functionResponse": { "id": "c2", "name": "read_file", "response": { "error": "no such file" } } },
            { "a_part_of_tomorrow": 7 } ] }),
    ]);
    post(&server, STREAM, &body).await;
    let recorded = server.requests().remove(0);
    assert_eq!(recorded.credential, Credential::ApiKey);
    let mut asked = recorded.asked.clone().unwrap();
    assert!(asked.tokens > 0);
    asked.tokens = 0;
    let result = |id: &str, text: &str, is_error| ToolResult {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        text: text.to_owned(),
        is_error,
    };
    assert_eq!(
        asked,
        Asked {
            model: "gemini-test".to_owned(),
            system: "be brief".to_owned(),
            prompts: vec!["look at it".to_owned()],
            turns: 1,
            notes: Vec::new(),
            results: vec![result("c1", "out", false), result("c2", "no such file", true)],
            tools: vec!["read_file".to_owned(), "run_shell_command".to_owned()],
            images: 1,
            documents: 1,
            delivery: Delivery::Streamed,
            session: String::new(),
            tokens: 0,
        }
    );
}

#[tokio::test]
async fn a_tool_loop_plays_the_steps_of_its_rule_in_turn() {
    let script = Script::new()
        .on(contains("read"))
        .reply(tool("read_file", json!({"path": "a"})))
        .then(text("it holds: {last_tool_result}"));
    let server = start(script).await;
    let mut body = request("read it");
    let said = post(&server, WHOLE, &body).await.json()["candidates"][0]["content"].take();
    let back = json!({ "functionResponse": { "name": "read_file", "response": { "output": "words" } } });
    body["contents"].as_array_mut().unwrap().extend([said, json!({ "role": "user", "parts": [back] })]);
    let said = post(&server, WHOLE, &body).await.json();
    assert_eq!(parts(&said), json!([{ "text": "it holds: words" }]));
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed() {
    let mut script = Script::new().counts(777);
    script.models = vec!["m1".to_owned()];
    let server = start(script).await;
    let wrapped = json!({ "generateContentRequest": request("go") });
    for body in [request("go"), wrapped] {
        let counted = post(&server, "/v1beta/models/gemini-test:countTokens", &body).await;
        assert_eq!(counted.json(), json!({ "totalTokens": 777 }));
    }
    let listed = ask(&server, "GET", "/v1beta/models", "", "").await.json();
    assert_eq!(listed["models"][0]["name"], "models/m1");
}

#[tokio::test]
async fn failures_have_the_api_s_status_and_form_before_and_inside_a_stream() {
    let limited = fail(FailureKind::RateLimited).message("slow down").retry_after(7);
    let server = start(Script::new().then(limited)).await;
    let answer = post(&server, STREAM, &request("go")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.json(),
        json!({ "error": { "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
            "details": [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s" }] } })
    );
    server.play(Script::new().then(text("one two").breaks_with(FailureKind::Overloaded)));
    let events = post(&server, STREAM, &request("go")).await.unnamed();
    assert_eq!(events.last().unwrap()["error"]["status"], "UNAVAILABLE");
    server.play(Script::new().then(text("one two").chunks_of(4).cut()));
    let answer = post(&server, STREAM, &request("go")).await;
    assert_eq!((answer.whole, answer.unnamed().len()), (false, 2));
}

#[tokio::test]
async fn an_invalid_request_is_refused_in_the_api_s_form() {
    let server = start(Script::new()).await;
    let answer = post(&server, STREAM, &json!({})).await;
    assert_eq!(
        (answer.status, answer.json()["error"].clone()),
        (400, json!({ "code": 400, "message": "contents is not specified", "status": "INVALID_ARGUMENT" }))
    );
    let answer = post(&server, "/v1beta/models/gemini-test:sing", &request("go")).await;
    assert_eq!(answer.status, 404);
}
