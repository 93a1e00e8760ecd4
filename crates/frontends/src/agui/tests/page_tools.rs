//! Which stream takes over a call of a page's tool: only an operator's run.

use super::*;
use crate::agui::tools::PREFIX;

fn call() -> Value {
    let name = format!("{PREFIX}setColor");
    json!({"event": {"type": "tool_call", "tool": "c1", "name": name, "kind": "other", "input": {}}})
}

fn script() -> String {
    steps(&json!([call(), "wait"]))
}

fn with_tools(mut input: Value) -> Value {
    input["tools"] = json!([{"name": "setColor", "description": "paints", "parameters": {"type": "object"}}]);
    input
}

#[tokio::test]
async fn a_connect_shows_a_call_and_leaves_it_to_a_run() {
    let stand = Stand::new().await;
    let (ada, bob) = (stand.ada().await, stand.someone("bob", Role::Operator).await);
    let val = stand.someone("val", Role::Viewer).await;
    let mut run = ada.begin(with_tools(input("t1", "r1", &[user("u1", &script())]))).await;
    let session = session_of(&run.until(is("TOOL_CALL_END")).await);
    let (viewer, operator) = (connected(&val).await, connected(&bob).await);
    let tools = stand.agui.tools.clone();
    let calling = tokio::spawn(async move { tools.call(session, "c1").await });
    // The run that has shown the call ends with it, whoever else reads.
    let told = run.events().await;
    assert_eq!(outline(&told).last(), Some(&"RUN_FINISHED"));
    assert!(stand.agui.tools.waiting(session).borrow().is_empty(), "the run has taken it over");
    assert!(!calling.is_finished());
    // The stream of a page that may answer ends, so that it can answer; a viewer's stream continues.
    assert_eq!(outline(&bob.connect("t1").await).last(), Some(&"RUN_FINISHED"));
    drop(operator);
    let mut result = with_tools(input("t1", "r2", &[user("u1", &script())]));
    result["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "w1", "role": "tool", "toolCallId": "c1", "content": "it is blue"}));
    let mut next = ada.begin(result).await;
    next.until(is("STATE_SNAPSHOT")).await;
    assert_eq!(calling.await.unwrap(), Ok("it is blue".to_owned()));
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    next.events().await;
    assert_eq!(outline(&viewer.events().await).last(), Some(&"RUN_FINISHED"));
}

#[tokio::test]
async fn a_viewer_and_a_page_that_only_connects_take_nothing_over() {
    let stand = Stand::with(|settings| settings.on_close = crate::agui::OnClose::Continue).await;
    let (ada, val) = (stand.ada().await, stand.someone("val", Role::Viewer).await);
    let script = steps(&json!([{"ask": {"ask": permission(), "tool": null}}, call(), "wait"]));
    let mut run = ada.begin(with_tools(input("t1", "r1", &[user("u1", &script)]))).await;
    let so_far = run.until(|event| event["name"] == "tool_approval_request").await;
    let (session, asked) = (session_of(&so_far), custom(&so_far, "tool_approval_request")[0].clone());
    drop(run);
    stand.until_all_ended().await;
    // Both see the call when it is made, and no run exists.
    let (mut viewer, mut page) = (connected(&val).await, connected(&ada).await);
    let path = format!("/api/sessions/{session}/tool-approval");
    ada.json(Method::POST, &path, &json!({"requestId": asked["requestId"], "behavior": "allow"})).await;
    for stream in [&mut viewer, &mut page] {
        stream.until(is("TOOL_CALL_END")).await;
    }
    let tools = stand.agui.tools.clone();
    let calling = tokio::spawn(async move { tools.call(session, "c1").await });
    assert_eq!(outline(&page.events().await).last(), Some(&"RUN_FINISHED"), "its user can answer now");
    assert_eq!(*stand.agui.tools.waiting(session).borrow(), ["c1"], "nobody has taken it over");
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    let seen = viewer.events().await;
    assert_eq!(custom(&seen, "result_stats").len(), 1, "a viewer's goes on to the end of the turn");
    calling.abort();
}

async fn connected(client: &Client) -> Answer {
    let mut page = client.post("/agent/default/connect", &input("t1", "c1", &[])).await;
    page.until(is("MESSAGES_SNAPSHOT")).await;
    page
}
