//! The Anthropic Messages API, byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod client;

use client::{and_then, ask, request, say, start};
use portolan_scripted::{
    Answered, Credential, Delivery, Script, StopReason, ToolResult, Usage, call, contains, redacted, text,
    thinking, tool, tools,
};
use serde_json::{Value, json};

const USAGE: Usage = Usage { input: 1200, output: 25, cache_read: 300, cache_creation: 40 };

/// Replaces the part that is new in every reply: the hexadecimal part of ids.
fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) =
        ["msg_", "toolu_", "req_"].iter().filter_map(|id| Some(rest.find(id)? + id.len())).min()
    {
        out.push_str(&rest[..at]);
        out.push_str("ID");
        rest = rest[at..].trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    }
    out + rest
}

#[tokio::test]
async fn a_whole_stream_is_the_stream_of_the_api() {
    let step = thinking("first think, ")
        .and(redacted("b3BhcXVl"))
        .and(text("Häuser, then"))
        .and(tool("Bash", json!({"command": "ls -la"})))
        .and(tool("Stop", json!({})))
        .chunks_of(8)
        .usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let answer = say(&server, &request("go")).await;
    assert_eq!((answer.status, answer.whole), (200, true));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.header("request-id").map(without_ids), Some("req_ID".to_owned()));
    assert_eq!(without_ids(&answer.body), include_str!("golden/whole_stream.sse"));
}

#[tokio::test]
async fn text_comes_in_this_sequence_of_events() {
    let server = start(Script::new().then(text("one two").chunks_of(4))).await;
    let answer = say(&server, &request("go")).await;
    assert_eq!(
        answer.event_types(),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[tokio::test]
async fn parallel_tools_have_their_own_ids_in_every_reply() {
    let step = tools([call("Bash", json!({"command": "a"})), call("Bash", json!({"command": "b"}))]);
    let server = start(Script::new().then(step)).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = say(&server, &request("go")).await;
        let started = answer.events();
        let blocks = started.iter().filter(|event| event["type"] == "content_block_start");
        ids.extend(blocks.map(|event| event["content_block"]["id"].as_str().unwrap().to_owned()));
    }
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((ids.len(), distinct.len()), (4, 4));
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_one_body() {
    let step = text("I look").and(tool("Bash", json!({"command": "ls"}))).usage(USAGE);
    let server = start(Script::new().then(step)).await;
    let mut body = request("go");
    body["stream"] = Value::Bool(false);
    let answer = say(&server, &body).await;
    let mut said: Value = serde_json::from_str(&without_ids(&answer.body)).unwrap();
    let content = said["content"].take();
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": "I look"},
            {"type": "tool_use", "id": "toolu_ID", "name": "Bash", "input": {"command": "ls"}},
        ])
    );
    assert_eq!(
        said,
        json!({
            "id": "msg_ID", "type": "message", "role": "assistant", "model": "claude-test", "content": null,
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 1200, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 300,
                "output_tokens": 25, "service_tier": "standard"},
        })
    );
}

#[tokio::test]
async fn a_turn_ends_for_the_reason_in_the_script() {
    for (reason, word) in [(StopReason::MaxTokens, "max_tokens"), (StopReason::Refusal, "refusal")] {
        let server = start(Script::new().then(text("no").stop(reason))).await;
        let events = say(&server, &request("go")).await.events();
        let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
        assert_eq!(delta["delta"], json!({"stop_reason": word, "stop_sequence": null}));
    }
}

#[tokio::test]
async fn tokens_are_counted_by_size_unless_the_script_sets_them() {
    let server = start(Script::new()).await;
    let count = |words: &str| request(words).to_string();
    let ask_count =
        async |body: &str| ask(&server, "POST", "/v1/messages/count_tokens?beta=true", "", body).await.json();
    let short = ask_count(&count("word")).await["input_tokens"].as_u64().unwrap();
    let long = ask_count(&count(&"word".repeat(500))).await["input_tokens"].as_u64().unwrap();
    assert_eq!(long - short, 499, "four bytes are a token");
    server.play(Script::new().counts(777));
    assert_eq!(ask_count(&count("word")).await, json!({"input_tokens": 777}));
}

#[tokio::test]
async fn models_are_listed() {
    let mut script = Script::new();
    script.models = vec!["m1".to_owned(), "m2".to_owned()];
    let server = start(script).await;
    let listed = ask(&server, "GET", "/v1/models?limit=1000", "", "").await.json();
    let ids: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(
        (ids, &listed["last_id"], &listed["has_more"]),
        (vec!["m1", "m2"], &json!("m2"), &json!(false))
    );
}

#[tokio::test]
async fn a_request_is_recorded_with_its_content_and_without_its_key() {
    let server = start(Script::new().on(contains("@@look")).reply(text("fine"))).await;
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let mut body = and_then(
        request("@@look at it"),
        &[("t1", "Bash")],
        &[("t1", "out\n\n<system-reminder>\nx\n</system-reminder>")],
    );
    body["messages"][2]["content"]
        .as_array_mut()
        .unwrap()
        .extend([image, json!({"type": "text", "text": "[Image: source: /a.png]"})]);
    body["system"] = json!([{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]);
    body["metadata"] = json!({"user_id": "session-1"});
    body["a_field_of_tomorrow"] = json!({"deep": [1, 2, 3]});
    let headers =
        "authorization: Bearer secret\r\nanthropic-beta: b1\r\nx-claude-code-agent-id: a7\r\ncookie: c\r\n";
    ask(&server, "POST", "/v1/messages", headers, &body.to_string()).await;

    let recorded = server.requests().remove(0);
    assert_eq!(
        (recorded.number, recorded.method.as_str(), recorded.path.as_str()),
        (1, "POST", "/v1/messages")
    );
    assert_eq!(
        (recorded.credential, recorded.answered),
        (Credential::Bearer, Answered::Rule { rule: 0, step: 0 })
    );
    let kept = [("anthropic-beta", "b1"), ("x-claude-code-agent-id", "a7")];
    assert_eq!(recorded.headers, kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(recorded.body, body);
    let mut asked = recorded.asked.clone().unwrap();
    assert!(asked.tokens > 0);
    asked.tokens = 0;
    assert_eq!(
        asked,
        portolan_scripted::Asked {
            model: "claude-test".to_owned(),
            system: "be\nbrief".to_owned(),
            prompts: vec!["@@look at it".to_owned()],
            turns: 1,
            notes: vec![
                "<system-reminder>\nx\n</system-reminder>".to_owned(),
                "[Image: source: /a.png]".to_owned()
            ],
            results: vec![ToolResult {
                id: "t1".to_owned(),
                name: "Bash".to_owned(),
                text: "out".to_owned(),
                is_error: false
            }],
            tools: vec!["Bash".to_owned()],
            images: 1,
            documents: 0,
            delivery: Delivery::Streamed,
            session: "session-1a7".to_owned(),
            tokens: 0,
        }
    );
}
