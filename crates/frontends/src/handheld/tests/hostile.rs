//! Invalid input and stalled devices, which must not affect other devices.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::stand::{PATIENCE, Stand};
use crate::handheld::parse::MESSAGE_LIMIT;
use portolan_host::door::Stall;

// covers: 000-084
#[tokio::test]
async fn invalid_messages_are_ignored_and_the_connection_stays() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let deep = "[".repeat(5000);
    for nonsense in [
        "",
        "{",
        "[]",
        "null",
        r#"{"type":"dance"}"#,
        r#"{"type":"command","agent":"x","command":"say "hi"","slot":0}"#,
        r#"{"type":"command","agent":"x","command":["a"],"slot":0}"#,
        r#"{"type":"action","agent":7,"action":"yes","slot":0}"#,
        r#"{"type":"action","agent":"x","action":"yes","slot":99}"#,
        r#"{"type":"action","agent":"x","action":"yes","slot":-9223372036854775808}"#,
        r#"{"type":"action","agent":"nobody","action":"always","slot":3}"#,
        deep.as_str(),
    ] {
        device.raw(nonsense.to_owned()).await;
    }
    device.socket.send(Message::Binary(Bytes::from_static(&[0xff, 0x00]))).await.unwrap();
    device.socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let pong = tokio::time::timeout(PATIENCE, device.socket.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"there?")));
    device.command(slot, "say still here").await;
    device.until_message(slot, "say still here").await;
}

#[tokio::test]
async fn a_huge_message_or_a_broken_frame_ends_that_connection_only() {
    let stand = Stand::new().await;
    let mut other = stand.device("192.168.1.8").await;
    let slot = other.spawn().await;
    let mut huge = stand.device("192.168.1.7").await;
    huge.raw("x".repeat(MESSAGE_LIMIT + 1)).await;
    tokio::time::timeout(PATIENCE, huge.serving).await.unwrap().unwrap();
    let mut broken = stand.device("192.168.1.7").await;
    // An unmasked frame, which no client may send.
    broken.socket.get_mut().write_all(&[0x81, 0x02, b'{', b'}']).await.unwrap();
    tokio::time::timeout(PATIENCE, broken.serving).await.unwrap().unwrap();
    other.command(slot, "say unmoved").await;
    other.until_message(slot, "say unmoved").await;
    assert_eq!(stand.session_slots.health().ws_clients, 1);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_reads_nothing_is_disconnected_and_a_silent_device_is_not() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    // Its pipe buffers less than the first statuses, and it reads nothing.
    let silent = stand.device_over("192.168.1.9", 64).await;
    tokio::time::sleep(Stall::LIMIT * 2).await;
    assert!(silent.serving.is_finished(), "it is gone");
    // No pings and no answers for an hour.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!device.serving.is_finished(), "no pong is expected of it");
    device.command(slot, "say on").await;
    device.until_message(slot, "say on").await;
}

#[tokio::test]
async fn a_client_that_closes_is_answered_in_kind() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(3, |status| !status.is_null()).await;
    device.socket.close(None).await.unwrap();
    tokio::time::timeout(PATIENCE, device.serving).await.unwrap().unwrap();
    assert_eq!(stand.session_slots.health().ws_clients, 0);
}

#[tokio::test]
async fn words_and_presses_for_an_empty_slot_do_nothing() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(3, |status| !status.is_null()).await;
    for slot in 0..4 {
        device.command(slot, "fix it").await;
        device.press(slot, "yes").await;
        device.press(slot, "escape").await;
    }
    device.say(json!({ "type": "spawn_request", "slot": 1 })).await;
    let result = device.spawn_result().await;
    assert_eq!(result, json!({ "type": "spawn_result", "slot": 1, "success": true }));
    assert_eq!((stand.in_slot(0), stand.in_slot(2), stand.in_slot(3)), (None, None, None));
}
