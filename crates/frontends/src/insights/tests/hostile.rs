//! Any invalid input of a client gets an error of the protocol, and disturbs nobody.

use futures_util::SinkExt as _;
use portolan_core::Role;
use tokio_tungstenite::tungstenite::Message;

use super::*;

#[tokio::test]
async fn nonsense_is_answered_by_the_protocols_own_errors_and_the_connection_goes_on() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Operator).await;
    let mut watcher = stand.client("bob", Role::Operator).await;
    let watched = watcher.create("wait").await;
    let deep = "[".repeat(100_000);
    for (text, code) in [
        ("", "INVALID_JSON"),
        ("{", "INVALID_JSON"),
        ("\u{0}\u{1}", "INVALID_JSON"),
        (deep.as_str(), "INVALID_JSON"),
        ("null", "INVALID_MESSAGE"),
        ("[]", "INVALID_MESSAGE"),
        (r#"{"type":"session.created","payload":{"session_id":"x"}}"#, "INVALID_MESSAGE"),
        (r#"{"type":"dance","payload":{}}"#, "INVALID_MESSAGE"),
        (r#"{"type":"user.input","payload":{"session_id":7,"text":"x"}}"#, "INVALID_MESSAGE"),
        (r#"{"type":"user.input","payload":{"session_id":"x","text":null}}"#, "INVALID_MESSAGE"),
        (r#"{"type":"user.input","payload":"x"}"#, "INVALID_MESSAGE"),
        (r#"{"type":"session.create","payload":{"prompt":["x"],"cwd":"/"}}"#, "INVALID_MESSAGE"),
        (r#"{"type":"user.input","payload":{"session_id":"","text":"x"}}"#, "SESSION_NOT_FOUND"),
        (r#"{"type":"session.kill","payload":{"session_id":"../../etc"}}"#, "SESSION_NOT_FOUND"),
        (
            r#"{"type":"session.kill","payload":{"session_id":"00000000-0000-0000-0000-000000000001"}}"#,
            "SESSION_NOT_FOUND",
        ),
    ] {
        client.send_text(text).await;
        let shown: String = text.chars().take(60).collect();
        assert_eq!(client.error().await.0, code, "{shown}");
    }
    // Binary frames are treated like text; broken text is not JSON.
    client.socket.send(Message::binary(b"\xff\xfe".to_vec())).await.unwrap();
    assert_eq!(client.error().await.0, "INVALID_JSON");
    client.create("say:fine").await;
    client.until("session.completed").await;
    // The other client got nothing of it.
    watcher.send("session.interrupt", json!({"session_id": watched})).await;
    let heard = watcher.until("session.completed").await;
    assert!(heard.iter().all(|message| message["type"] != "error"), "{heard:?}");
}

#[tokio::test]
async fn messages_that_cannot_be_read_take_their_share_of_the_rate() {
    let slow = |door: &mut DoorSettings| {
        door.limits.requests_per_second = 1;
        door.limits.request_burst = 3;
    };
    let stand = Stand::behind(slow, Settings { agent: "puppet".into(), ..Settings::default() }).await;
    let mut client = stand.client("ada", Role::Operator).await;
    for _ in 0..3 {
        client.send_text("{").await;
        assert_eq!(client.error().await.0, "INVALID_JSON");
    }
    client.send_text("{").await;
    let (code, why) = client.error().await;
    assert!(code == "HANDLER_ERROR" && why.contains("sends too many requests"), "{code} {why}");
}

#[tokio::test]
async fn a_message_larger_than_any_prompt_ends_the_connection_with_its_error() {
    let stand = Stand::new().await;
    let (ada, _) = stand.someone("ada", Role::Operator).await;
    let mut client = stand.client_of(&ada, 16 * 1024 * 1024).await;
    let huge = "x".repeat(portolan_host::door::FRAME_BYTES + 1);
    client.send_text(&huge).await;
    let (messages, code) = client.closed().await;
    assert_eq!(code, Some(1009));
    assert_eq!(messages.last().unwrap()["payload"]["code"], "INVALID_MESSAGE");
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_so_and_may_go_on() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Operator).await;
    let burst = stand.behind.door.limits.request_burst as usize;
    let mut refused = 0;
    for _ in 0..burst + 50 {
        client.send("session.list", json!({})).await;
        let answer = client.next().await;
        if answer["type"] == "error" {
            assert_eq!(answer["payload"]["code"], "HANDLER_ERROR");
            refused += 1;
        }
    }
    // On a slow machine the allowance recovers during the test: then nobody is refused, which is correct.
    assert!(refused <= 50, "{refused}");
}

#[tokio::test]
async fn a_client_that_floods_and_leaves_takes_nothing_with_it() {
    let stand = Stand::new().await;
    let mut watcher = stand.client("bob", Role::Operator).await;
    let watched = watcher.create("wait").await;
    for _ in 0..20 {
        let mut client = stand.client("ada", Role::Operator).await;
        for _ in 0..20 {
            client.send_text("{\"type\":").await;
        }
        client.send("session.create", json!({"prompt": "say:x", "cwd": "/"})).await;
        drop(client);
    }
    watcher.send("session.interrupt", json!({"session_id": watched})).await;
    watcher.until("session.completed").await;
}
