//! How runs end early: a stop, a closed connection, a reload, the end of the daemon.

use std::time::Duration;

use super::*;
use crate::agui::OnClose;

fn waits() -> String {
    steps(&json!([
        {"event": {"type": "item_started", "item": "m1", "kind": "text"}},
        {"event": {"type": "delta", "item": "m1", "text": "tick "}},
        "wait",
    ]))
}

async fn begun(client: &Client, thread: &str, run: &str) -> Answer {
    let mut answer = client.begin(input(thread, run, &[user(&format!("u-{run}"), &waits())])).await;
    answer.until(|event| event["delta"] == "tick ").await;
    answer
}

// covers: 004-017
#[tokio::test]
async fn a_stop_ends_that_run_with_everything_closed() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let (one, two) = (begun(&ada, "one", "r1").await, begun(&ada, "two", "r2").await);
    let (status, other) = ada.json(Method::POST, "/agent/default/stop/one", &json!({"runId": "r2"})).await;
    assert_eq!((status, &other["stopped"]), (StatusCode::OK, &json!(false)), "another run, another thread");
    let (_, stopped) = ada.json(Method::POST, "/agent/default/stop/one", &json!({"runId": "r1"})).await;
    assert_eq!(stopped, json!({"stopped": true, "interrupt": {"type": "stop", "threadId": "one"}}));
    let events = one.events().await;
    assert_eq!(
        outline(&events)[1..],
        ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    );
    let single = json!({"method": "agent/stop", "params": {"agentId": "default", "threadId": "two"}});
    let (_, stopped) = ada.json(Method::POST, "/", &single).await;
    assert_eq!(stopped["stopped"], true, "whatever runs on the thread");
    two.events().await;
    for thread in ["one", "nobody"] {
        let (status, nothing) =
            ada.json(Method::POST, &format!("/agent/default/stop/{thread}"), &Value::Null).await;
        assert_eq!((status, &nothing["stopped"]), (StatusCode::OK, &json!(false)));
        assert!(nothing["message"].is_string());
    }
}

#[tokio::test]
async fn a_run_that_waits_in_the_queue_is_taken_back_and_the_other_goes_on() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let first = begun(&ada, "t1", "r1").await;
    let session = stand.sessions().await[0].session;
    let mut second = ada.begin(input("t1", "r2", &[user("u2", "two")])).await;
    second.until(is("STATE_SNAPSHOT")).await;
    stand.until(session, |state| state.summary.queued == 1).await;
    let (_, stopped) = ada.json(Method::POST, "/agent/default/stop/t1", &json!({"runId": "r2"})).await;
    assert_eq!(stopped["stopped"], true);
    assert_eq!(outline(&second.events().await), ["RUN_STARTED", "RUN_FINISHED"]);
    let state = stand.state(session).await;
    assert_eq!(
        (state.summary.queued, state.turn.is_some()),
        (0, true),
        "nobody said it, and the first still runs"
    );
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    first.events().await;
}

#[tokio::test]
async fn a_page_that_came_back_stops_without_naming_a_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.connect("t1").await;
    let run = begun(&ada, "t1", "r1").await;
    let session = stand.sessions().await[0].session;
    drop(run);
    let mut page = ada.post("/agent/default/connect", &input("t1", "c1", &[])).await;
    page.until(|event| event["delta"] == "tick ").await;
    let (_, stopped) = ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    assert_eq!(stopped["stopped"], true);
    let events = page.events().await;
    assert_eq!(outline(&events).last(), Some(&"RUN_FINISHED"));
    assert!(stand.state(session).await.turn.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_plain_client_stops_its_run_by_closing_it() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    drop(begun(&ada, "t1", "r1").await);
    let session = stand.sessions().await[0].session;
    stand.until(session, |state| state.turn.is_none()).await;
    let page = shown(&[&ada.connect("t1").await]);
    assert_eq!(page.last().unwrap().2, "tick ", "what it had said stays");
}

#[tokio::test]
async fn a_plain_client_that_runs_again_at_once_has_stopped_its_earlier_run() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    // Once after the server noticed the closed connection, once perhaps before.
    for (run, next) in [("r1", "r2"), ("r3", "r4")] {
        drop(begun(&ada, "t1", run).await);
        let session = stand.sessions().await[0].session;
        if run == "r1" {
            stand.until_abandoned().await;
        }
        let events =
            ada.begin(input("t1", next, &[user(&format!("u-{next}"), "and now")])).await.events().await;
        assert_eq!(outline(&events).last(), Some(&"RUN_FINISHED"), "{events:?}");
        let state = stand.state(session).await;
        assert_eq!((state.turn.is_none(), state.summary.queued), (true, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_reloaded_does_not_stop_what_runs() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.say("t1", "hello").await;
    ada.connect("t1").await;
    drop(begun(&ada, "t1", "r1").await);
    let session = stand.sessions().await[0].session;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(stand.state(session).await.turn.is_some(), "it goes on without anyone");
    let mut page = ada.post("/agent/default/connect", &input("t1", "c2", &[])).await;
    page.until(|event| event["delta"] == "tick ").await;
    ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    page.events().await;
}

#[tokio::test(start_paused = true)]
async fn someone_else_who_watches_keeps_a_run_that_its_client_left() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let run = begun(&ada, "t1", "r1").await;
    let session = stand.sessions().await[0].session;
    let start = portolan_core::log::delivery::Start::Tail(0);
    let owner = owner();
    let watcher =
        stand.agui.registry.attach(&owner, session, start, portolan_core::log::delivery::Mode::Items).await;
    drop(run);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(stand.state(session).await.turn.is_some());
    drop(watcher);
}

#[tokio::test(start_paused = true)]
async fn the_configuration_decides_what_a_closed_connection_means() {
    for (on_close, goes_on) in [(OnClose::Continue, true), (OnClose::Stop, false)] {
        let stand = Stand::with(|settings| settings.on_close = on_close).await;
        let ada = stand.ada().await;
        ada.connect("t1").await;
        drop(begun(&ada, "t1", "r1").await);
        let session = stand.sessions().await[0].session;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(stand.state(session).await.turn.is_some(), goes_on, "{on_close:?}");
    }
}

#[tokio::test]
async fn the_end_of_the_daemon_ends_every_stream() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let run = begun(&ada, "t1", "r1").await;
    stand.agui.stopping.cancel();
    let events = run.events().await;
    assert_eq!(events.last().unwrap()["code"], "stopping");
    stand.agui.connections.close();
    tokio::time::timeout(PATIENCE, stand.agui.connections.wait()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_streams() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let run = begun(&ada, "t1", "r1").await;
    stand.behind.tokens.revoke(&ada.who.token).await.unwrap();
    let events = run.events().await;
    assert_eq!(events.last().unwrap()["code"], "unauthenticated");
}
