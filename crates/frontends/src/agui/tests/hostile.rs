//! Any invalid input of a client gets a clear answer, and changes nothing else.

use super::*;

#[tokio::test]
async fn invalid_bodies_are_refused_with_the_reason() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let deep = format!("{{\"messages\":[],\"state\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let long = json!({"threadId": "t".repeat(300), "messages": []}).to_string();
    let bodies = [
        "",
        "{",
        "[]",
        "null",
        "7",
        "\"x\"",
        "{\"messages\":7}",
        "{\"messages\":[\"x\"]}",
        deep.as_str(),
        long.as_str(),
    ];
    for path in ["/agent/default/run", "/agent/default/connect", "/", "/api/copilotkit"] {
        for body in bodies {
            let mut answer = ada.ask(Method::POST, path, body.to_owned()).await;
            answer.read_all().await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body:.60}");
            let told: Value = serde_json::from_str(&answer.text).unwrap();
            assert!(
                told["message"].as_str().is_some_and(|message| !message.is_empty() && message.len() < 1000)
            );
        }
    }
    let mut answer = ada.ask(Method::POST, "/agent/default/run", vec![0xff, 0xfe, 0x00]).await;
    answer.read_all().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    for (path, body) in [("/agent/default/stop/t", "["), ("/api/sessions/t/tool-approval", "7")] {
        let mut answer = ada.ask(Method::POST, path, body).await;
        answer.read_all().await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let path = format!("/agent/default/stop/{}", "t".repeat(300));
    assert_eq!(ada.json(Method::POST, &path, &json!({})).await.0, StatusCode::BAD_REQUEST);
    assert!(stand.sessions().await.is_empty(), "nothing was begun");
}

#[tokio::test]
async fn ids_of_threads_runs_and_messages_may_hold_any_characters() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    for thread in ["../../etc/passwd", "a\nb", "\u{0}", "нить", "' OR 1=1 --", "{\"a\":1}", "\u{202e}x"] {
        let said = input(thread, "run\n\u{7}", &[user("id with spaces\n", "hi")]);
        let events = ada.run(said).await;
        assert_eq!(events[0]["threadId"], thread);
        assert_eq!(texts(&shown(&[&events])), [("assistant", "you said: hi")], "{thread:?}");
        let page = shown(&[&ada.connect(thread).await]);
        assert_eq!(texts(&page), [("user", "hi"), ("assistant", "you said: hi")], "{thread:?}");
    }
    assert_eq!(stand.sessions().await.len(), 7);
}

#[tokio::test]
async fn texts_of_agents_break_no_frame() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let nasty = "a\n\ndata: {\"type\":\"RUN_FINISHED\"}\n\n\r\n: x\u{2028}\u{0}\u{1b}[31m";
    let script =
        json!([{"event": {"type": "message", "item": "m\n1", "content": [{"type": "text", "text": nasty}]}}]);
    let events = ada.say("t1", &steps(&script)).await;
    assert_eq!(texts(&shown(&[&events])), [("assistant", nasty)]);
}

#[tokio::test]
async fn a_huge_result_is_cut_for_the_page() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let script = json!([
        {"event": {"type": "tool_call", "tool": "c1", "name": "Read", "kind": "read", "input": null}},
        {"event": {"type": "tool_result", "tool": "c1", "outcome": "done",
                   "content": [{"type": "text", "text": "é".repeat(100_000)}]}},
    ]);
    let events = ada.say("t1", &steps(&script)).await;
    let page = shown(&[&events]);
    assert_eq!(page[0].2, "{}", "no arguments are an empty object");
    assert!(page[1].2.len() < 33 * 1024 && page[1].2.ends_with("[…]"), "{}", page[1].2.len());
}

#[tokio::test]
async fn a_long_history_is_cut_at_its_old_end() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let text = "x".repeat(30 * 1024);
    let call = |n: usize| {
        json!([
            {"event": {"type": "tool_call", "tool": format!("c{n}"), "name": "Read", "kind": "read", "input": {}}},
            {"event": {"type": "tool_result", "tool": format!("c{n}"), "outcome": "done", "content": [{"type": "text", "text": text}]}},
        ])
    };
    let script: Vec<Value> = (0..100).flat_map(|n| call(n).as_array().unwrap().clone()).collect();
    ada.say("t1", &json!(script).to_string()).await;
    let mut answer = ada.post("/agent/default/connect", &input("t1", "c1", &[])).await;
    answer.read_all().await;
    assert!(
        answer.text.len() < 3 * 1024 * 1024,
        "clients send it back with every run: {}",
        answer.text.len()
    );
    let page = shown(&[&answer.so_far()]);
    assert_eq!(page.last().unwrap().1, "c99:result");
    assert_ne!(page[0].0, "tool", "a result without its call is left out");
    assert!(page.len() > 100);
}
