//! The OpenAI Chat Completions API, as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod client;

use client::{ask, post, start};
use portolan_scripted::{
    Asked, Credential, Delivery, FailureKind, Script, StopReason, ToolResult, Usage, call, contains, fail,
    text, thinking, tool, tools,
};
use serde_json::{Value, json};

const PATH: &str = "/v1/chat/completions";
const USAGE: Usage = Usage { input: 1200, output: 25, cache_read: 300, cache_creation: 0 };

fn request(prompt: &str) -> Value {
    json!({
        "model": "m1", "stream": true, "stream_options": { "include_usage": true },
        "tools": [{ "type": "function", "function": { "name": "bash", "parameters": { "type": "object" } } }],
        "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": prompt }],
    })
}

/// The content of a chunk, without the fields that are the same in all chunks.
fn delta(chunk: &Value) -> (Value, Value) {
    let choice = &chunk["choices"][0];
    (choice["delta"].clone(), choice["finish_reason"].clone())
}

#[tokio::test]
async fn a_whole_stream_is_chunks_a_chunk_of_tokens_and_the_end_mark() {
    let calls = [call("bash", json!({"command": "ls"})), call("stop", json!({}))].map(|mut call| {
        call.id = Some(format!("call_{}", call.name));
        call
    });
    let step = thinking("hm").and(text("Häuser, then")).and(tools(calls)).chunks_of(8).usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let answer = post(&server, PATH, &request("go")).await;
    assert_eq!((answer.status, answer.whole), (200, true));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut chunks = answer.unnamed();
    assert_eq!(chunks.pop(), Some(json!("[DONE]")));
    let last = chunks.pop().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]),
        (
            &json!([]),
            &json!({ "prompt_tokens": 1500, "completion_tokens": 25, "total_tokens": 1525,
                "prompt_tokens_details": { "cached_tokens": 300 },
                "completion_tokens_details": { "reasoning_tokens": 0 } })
        )
    );
    let begun = |index: u8, name: &str| {
        json!({ "tool_calls": [{ "index": index, "id": format!("call_{name}"), "type": "function",
            "function": { "name": name, "arguments": "" } }] })
    };
    let piece = |index: u8, text: &str| json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] });
    let more = |delta: Value| (delta, Value::Null);
    assert_eq!(
        chunks.iter().map(delta).collect::<Vec<_>>(),
        [
            more(json!({ "role": "assistant", "content": "" })),
            more(json!({ "reasoning_content": "hm" })),
            more(json!({ "content": "Häuser, " })),
            more(json!({ "content": "then" })),
            more(begun(0, "bash")),
            more(piece(0, "{\"comman")),
            more(piece(0, "d\":\"ls\"}")),
            more(begun(1, "stop")),
            more(piece(1, "{}")),
            (json!({}), json!("tool_calls")),
        ]
    );
    assert!(chunks.iter().all(|chunk| chunk["id"] == last["id"] && chunk["model"] == "m1"));
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_one_body() {
    let step = thinking("hm").and(text("I look")).and(tool("bash", json!({"command": "ls"}))).usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let mut body = request("go");
    body["stream"] = Value::Bool(false);
    let mut said = post(&server, PATH, &body).await.json();
    let id = said["choices"][0]["message"]["tool_calls"][0]["id"].take();
    assert!(id.as_str().unwrap().starts_with("call_"));
    assert_eq!(
        said["choices"],
        json!([{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look", "refusal": null, "reasoning_content": "hm",
            "tool_calls": [{ "id": null, "type": "function",
                "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" } }] } }])
    );
    assert_eq!(said["usage"]["total_tokens"], 1525);
}

#[tokio::test]
async fn a_turn_ends_for_the_reason_in_the_script() {
    for (reason, word) in [
        (StopReason::EndTurn, "stop"),
        (StopReason::MaxTokens, "length"),
        (StopReason::Refusal, "content_filter"),
    ] {
        let server = start(Script::new().then(text("no").stop(reason))).await;
        let chunks = post(&server, PATH, &request("go")).await.unnamed();
        assert_eq!(delta(&chunks[chunks.len() - 3]), (json!({}), json!(word)));
    }
}

#[tokio::test]
async fn a_request_is_read_as_prompts_calls_and_results() {
    let server = start(Script::new().on(contains("look")).reply(text("fine"))).await;
    let mut body = request("first");
    body["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": "Yes?" }),
        json!({ "role": "user", "content": [
            { "type": "text", "text": "<system-reminder>x</system-reminder>" },
            { "type": "text", "text": "look at it" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
            { "type": "file", "file": { "filename": "a.pdf" } },
        ] }),
        json!({ "role": "assistant", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "bash", "arguments": "{}" } } ] }),
        json!({ "role": "tool", "tool_call_id": "c1", "content": "out" }),
        json!({ "role": "a_role_of_tomorrow", "content": 7 }),
    ]);
    post(&server, PATH, &body).await;
    let recorded = server.requests().remove(0);
    assert_eq!(recorded.credential, Credential::Bearer);
    let mut asked = recorded.asked.clone().unwrap();
    assert!(asked.tokens > 0);
    asked.tokens = 0;
    assert_eq!(
        asked,
        Asked {
            model: "m1".to_owned(),
            system: "be brief".to_owned(),
            prompts: vec!["first".to_owned(), "look at it".to_owned()],
            turns: 1,
            notes: Vec::new(),
            results: vec![ToolResult {
                id: "c1".to_owned(),
                name: "bash".to_owned(),
                text: "out".to_owned(),
                is_error: false
            }],
            tools: vec!["bash".to_owned()],
            images: 1,
            documents: 1,
            delivery: Delivery::Streamed,
            session: String::new(),
            tokens: 0,
        }
    );
}

#[tokio::test]
async fn text_that_an_agent_adds_is_no_prompt_and_joined_prompts_are_several() {
    let server = start(Script::new()).await;
    for (said, prompts, notes) in [
        ("<info-msg>\nIt is noon\n</info-msg>\nfirst", &["first"][..], 1),
        ("never answered\nsecond\n<info-msg>\nIt is one\n</info-msg>", &["never answered", "second"], 1),
        ("an open <info-msg> is just a word", &["an open <info-msg> is just a word"], 0),
    ] {
        post(&server, PATH, &request(said)).await;
        let asked = server.requests().pop().unwrap().asked.clone().unwrap();
        assert_eq!(
            (asked.prompts.as_slice(), asked.notes.len()),
            (&prompts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..], notes)
        );
    }
}

#[tokio::test]
async fn a_tool_loop_plays_the_steps_of_its_rule_in_turn() {
    let script = Script::new()
        .on(contains("list"))
        .reply(tool("bash", json!({"command": "ls"})))
        .then(text("there is: {last_tool_result}"));
    let server = start(script).await;
    let mut body = request("list the files");
    body["stream"] = Value::Bool(false);
    let said = post(&server, PATH, &body).await.json()["choices"][0]["message"].take();
    let id = said["tool_calls"][0]["id"].clone();
    body["messages"]
        .as_array_mut()
        .unwrap()
        .extend([said, json!({ "role": "tool", "tool_call_id": id, "content": "a.txt" })]);
    let said = post(&server, PATH, &body).await.json()["choices"][0]["message"].take();
    assert_eq!(said["content"], "there is: a.txt");
}

#[tokio::test]
async fn failures_have_the_api_s_status_and_form_before_and_inside_a_stream() {
    let server = start(Script::new().then(fail(FailureKind::RateLimited).message("slow down"))).await;
    let answer = post(&server, PATH, &request("go")).await;
    assert_eq!(answer.status, 429);
    let error = json!({ "error": { "type": "requests", "code": "rate_limit_exceeded", "message": "slow down",
        "param": null } });
    assert_eq!(answer.json(), error);
    server.play(Script::new().then(text("one two").breaks_with(FailureKind::Internal)));
    let chunks = post(&server, PATH, &request("go")).await.unnamed();
    assert_eq!(chunks.last().unwrap()["error"]["code"], "server_error");
    server.play(Script::new().then(text("one two").chunks_of(4).cut()));
    let answer = post(&server, PATH, &request("go")).await;
    assert_eq!((answer.whole, answer.unnamed().len()), (false, 3));
}

#[tokio::test]
async fn an_invalid_request_is_refused_in_the_api_s_form() {
    let server = start(Script::new()).await;
    for (body, words) in [
        (json!({ "messages": [] }), "you must provide a model parameter"),
        (json!({ "model": "m" }), "Missing required parameter: 'messages'."),
    ] {
        let answer = post(&server, PATH, &body).await;
        assert_eq!((answer.status, &answer.json()["error"]["message"]), (400, &json!(words)));
    }
    let answer = ask(&server, "POST", PATH, "", "{ no json").await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (400, &json!("invalid_request_error")));
}
