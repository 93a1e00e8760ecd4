//! Devices, slots and sessions together.

use std::sync::atomic::Ordering;

use portolan_core::{
    Action, Actor, Event, Seq,
    request::{Answer, Outcome},
    session::state::Status,
};
use serde_json::json;

use super::stand::{Stand, is_idle, owner};

// covers: 000-061, 000-086, 000-087
#[tokio::test]
async fn a_device_spawns_prompts_and_approves_in_its_own_name() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    assert_eq!(slot, 0);
    device.command(slot, "ask Bash ls").await;
    let shown = device.panel(slot, "Bash").await;
    assert_eq!(
        (&shown["state"], &shown["promptToolDetail"], &shown["promptDescription"], &shown["message"]),
        (&json!("waiting"), &json!("ls"), &json!("may I · risk high: runs a command"), &json!("Bash: ls"))
    );
    device.decide(slot, "yes").await;
    let done = device.until_message(slot, "allowed").await;
    assert!(done.get("promptToolType").is_none(), "{done}");
    device.until_state(slot, "idle").await;
    let session = stand.in_slot(slot).unwrap();
    let state = stand.state(session).await;
    let Outcome::Answered { answer, by } = &state.closed_requests[0].outcome else { panic!("{state:?}") };
    assert_eq!(*answer, Answer::allow(), "with the input as it was asked");
    assert_eq!(by.to_string(), "handheld at 192.168.1.7 (handheld)");
    // Every reader of the log sees the same.
    let entries = stand.registry.history(&owner(), session, Seq::ZERO, None, 1000).await.unwrap();
    let accepted = entries.iter().filter_map(|entry| {
        let entry = entry.decode::<Event>().unwrap();
        matches!(entry.event, Event::CommandAccepted { .. }).then(|| entry.by.unwrap())
    });
    let names: Vec<String> = accepted
        .map(|by| match by {
            Actor::Person { name, .. } => name,
            other => other.to_string(),
        })
        .collect();
    assert_eq!(names, ["handheld at 192.168.1.7"; 2]);
}

// covers: 000-062, 000-063, 000-098
#[tokio::test]
async fn the_answer_no_denies_and_the_answer_always_allows_the_tool_for_the_session() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "ask Bash rm").await;
    device.panel(slot, "Bash").await;
    device.decide(slot, "no").await;
    device.until_message(slot, "denied: Denied by user via rAI3DS").await;
    device.command(slot, "ask Bash ls").await;
    device.panel(slot, "Bash").await;
    device.decide(slot, "always").await;
    device.until_message(slot, "allowed").await;
    device.command(slot, "say between").await;
    device.until_message(slot, "say between").await;
    device.command(slot, "ask Bash again").await;
    device.until_message(slot, "allowed").await;
    let state = stand.state(stand.in_slot(slot).unwrap()).await;
    assert_eq!(state.rules, ["Bash"]);
}

// covers: 000-059, 000-064
#[tokio::test]
async fn escape_interrupts_the_turn_and_leaves_the_slot_idle() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "hang").await;
    device.until_message(slot, "Processing prompt...").await;
    device.press(slot, "escape").await;
    let status = device.until_message(slot, "Interrupted").await;
    assert_eq!(status["state"], "idle");
    device.command(slot, "ask Bash ls").await;
    device.until(slot, |status| status["promptToolType"] == "Bash").await;
    device.press(slot, "escape").await;
    let status = device.until_message(slot, "Interrupted").await;
    assert!(status["state"] == "idle" && status.get("promptToolType").is_none(), "{status}");
}

// covers: 000-096
#[tokio::test]
async fn the_unchanged_app_uses_every_slot_without_touching_another_slot() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    for expected in 0..4 {
        assert_eq!(device.spawn().await, expected);
    }
    for slot in 0..4 {
        device.command(slot, &format!("ask Bash in {slot}")).await;
    }
    for slot in 0..4 {
        let status = device.panel(slot, "Bash").await;
        assert_eq!(status["promptToolDetail"], format!("in {slot}"));
    }
    device.decide(2, "yes").await;
    device.until_message(2, "allowed").await;
    device.decide(1, "no").await;
    device.until_state(1, "idle").await;
    for slot in [0, 3] {
        let session = stand.in_slot(slot).unwrap();
        assert_eq!(stand.state(session).await.requests.len(), 1, "slot {slot} still waits");
    }
    let names: Vec<_> = device.slots.iter().map(|status| status["agent"].clone()).collect();
    let mut distinct = names.clone();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{names:?}");
}

// covers: 000-067, 000-088, 000-089
#[tokio::test]
async fn a_spawn_takes_a_free_slot_and_fails_with_the_reason_if_there_is_none() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let mut other = stand.device("192.168.1.8").await;
    let result = |slot: i64, error: Option<&str>| match error {
        None => json!({ "type": "spawn_result", "slot": slot, "success": true }),
        Some(error) => json!({ "type": "spawn_result", "slot": slot, "success": false, "error": error }),
    };
    device.say(json!({ "type": "spawn_request", "slot": 2 })).await;
    assert_eq!(device.spawn_result().await, result(2, None));
    assert_eq!(other.spawn_result().await, result(2, None), "every device is told");
    let running = stand.in_slot(2).unwrap();
    device.say(json!({ "type": "spawn_request", "slot": 2 })).await;
    assert_eq!(device.spawn_result().await, result(2, Some("Spawn failed")));
    assert_eq!(stand.in_slot(2), Some(running), "the running session is untouched");
    for slot in [4, -1, 99] {
        device.say(json!({ "type": "spawn_request", "slot": slot })).await;
        assert_eq!(device.spawn_result().await, result(-1, Some("Invalid slot")));
    }
    for slot in [0, 1, 3] {
        device.say(json!({ "type": "spawn_request" })).await;
        assert_eq!(device.spawn_result().await, result(slot, None));
    }
    device.command(0, "spawn").await;
    assert_eq!(device.spawn_result().await, result(-1, Some("No free slots")));
}

// covers: 000-071, 000-089, 000-097
#[tokio::test]
async fn an_agent_that_does_not_start_or_has_ended_leaves_a_slot_that_can_be_spawned_again() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    stand.agent.faults.broken.store(true, Ordering::Relaxed);
    device.command(0, "spawn").await;
    let failed = device.spawn_result().await;
    assert_eq!(
        failed,
        json!({ "type": "spawn_result", "slot": 0, "success": false, "error": "Spawn failed" })
    );
    let status = device.until_state(0, "done").await;
    assert_eq!((&status["active"], &status["message"]), (&json!(false), &json!("Ended: it would not start")));
    stand.agent.faults.broken.store(false, Ordering::Relaxed);
    assert_eq!(device.spawn().await, 0);
    device.command(0, "exit").await;
    let status = device.until_state(0, "done").await;
    assert_eq!((&status["active"], &status["message"]), (&json!(false), &json!("Ended: it has ended")));
    assert_eq!(device.spawn().await, 0);
}

#[tokio::test]
async fn a_question_is_answered_by_commands_and_never_by_yes() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "question").await;
    let status = device.panel(slot, "Question 1/3").await;
    assert_eq!(status["promptToolDetail"], "Where?\n1 Genoa\n2 Majorca");
    device.press(slot, "yes").await;
    device.press(slot, "always").await;
    device.reply(slot, "9").await;
    let status = device
        .until(slot, |status| {
            status["promptDescription"].as_str().unwrap_or_default().starts_with("Send a number from 1 to 2.")
        })
        .await;
    assert_eq!(status["promptToolType"], "Question 1/3", "neither button answered anything");
    device.reply(slot, "2").await;
    device.until(slot, |status| status["promptToolType"] == "Question 2/3").await;
    device.reply(slot, "Argo").await;
    device.panel(slot, "Question 3/3").await;
    device.reply(slot, "at dawn").await;
    let chosen = r#"chosen: {"Where?":["Majorca"],"Name?":["Argo"],"When?":["at dawn"]}"#;
    device.until_message(slot, chosen).await;
}

#[tokio::test]
async fn active_sessions_come_into_free_slots_by_themselves_and_go_when_they_are_deleted() {
    let stand = Stand::with(|slots| slots.fill = true).await;
    let session = stand.session("say hello").await;
    let mut device = stand.device("192.168.1.7").await;
    device.until_message(0, "say hello").await;
    assert_eq!(stand.in_slot(0), Some(session));
    stand.session_slots.take_out(0).await.unwrap();
    device.until(0, |status| status["agent"] == "slot-0").await;
    stand
        .submit(session, Action::Prompt { content: vec![portolan_core::event::Content::text("say more")] })
        .await;
    stand.until(session, is_idle).await;
    let second = stand.session("say two").await;
    device.until_message(0, "say two").await;
    assert_eq!(stand.in_slot(0), Some(second), "what the owner took out does not come back");
    stand.registry.delete(&owner(), second).await.unwrap();
    device.until(0, |status| status["agent"] == "slot-0").await;
}

#[tokio::test]
async fn what_one_device_answers_the_others_see_at_once_and_a_late_one_learns_who_was_first() {
    let stand = Stand::new().await;
    let mut one = stand.device("192.168.1.7").await;
    let slot = one.spawn().await;
    let mut two = stand.device("192.168.1.8").await;
    one.command(slot, "ask Bash ls").await;
    one.panel(slot, "Bash").await;
    two.panel(slot, "Bash").await;
    two.decide(slot, "no").await;
    one.until_message(slot, "denied: Denied by user via rAI3DS").await;
    one.press(slot, "yes").await;
    one.command(slot, "say on").await;
    one.until_message(slot, "say on").await;
    let session = stand.in_slot(slot).unwrap();
    let state = stand.until(session, is_idle).await;
    assert_eq!(state.closed_requests.len(), 1);
    let Outcome::Answered { by, .. } = &state.closed_requests[0].outcome else { panic!("{state:?}") };
    assert_eq!(by.to_string(), "handheld at 192.168.1.8 (handheld)");
}

#[tokio::test]
async fn an_answer_from_elsewhere_clears_the_panel() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "ask Bash ls").await;
    device.until(slot, |status| status["promptToolType"] == "Bash").await;
    let session = stand.in_slot(slot).unwrap();
    let request = stand.state(session).await.requests[0].request;
    let answer = Action::Answer { request, digest: None, answer: Answer::allow(), persist: None };
    stand.submit(session, answer).await;
    let status = device.until_message(slot, "allowed").await;
    assert!(status.get("promptToolType").is_none(), "{status}");
}

// covers: 000-075
#[tokio::test]
async fn autospawn_starts_an_agent_in_slot_zero_and_its_failure_stops_nothing() {
    let stand = Stand::with(|slots| slots.autospawn = true).await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(0, |status| status["active"] == true && status["state"] == "idle").await;
    let stand = Stand::with(|slots| {
        slots.autospawn = true;
        slots.agent = "nobody".into();
    })
    .await;
    let mut device = stand.device("192.168.1.7").await;
    let status = device.until(0, |status| !status.is_null()).await;
    assert_eq!((&status["active"], &status["agent"]), (&json!(false), &json!("slot-0")));
    let session = stand.session("say hello").await;
    stand.session_slots.put_in(&owner(), 3, session).await.unwrap();
    device.until_message(3, "say hello").await;
}

// covers: 000-069
#[tokio::test]
async fn a_spawned_session_works_in_the_configured_folder() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let state = stand.state(stand.in_slot(slot).unwrap()).await;
    assert_eq!((&state.summary.cwd, &*state.summary.agent), (&stand.folder, "obedient"));
    assert!(matches!(state.summary.status, Status::Connected | Status::Idle));
}

// covers: 000-101
#[tokio::test]
async fn every_device_gets_the_result_of_a_spawn_of_any_device() {
    let stand = Stand::new().await;
    let mut devices = [stand.device("192.168.1.7").await, stand.device("192.168.1.8").await];
    for device in &mut devices {
        device.until(3, |status| !status.is_null()).await;
    }
    let started = |slot: i32| json!({ "type": "spawn_result", "slot": slot, "success": true });
    devices[0].command(0, "spawn").await;
    for device in &mut devices {
        assert_eq!(device.spawn_result().await, started(0));
    }
    devices[1].say(json!({ "type": "spawn_request", "slot": 2 })).await;
    for device in &mut devices {
        assert_eq!(device.spawn_result().await, started(2));
    }
    devices[0].say(json!({ "type": "spawn_request", "slot": 2 })).await;
    let failed = json!({ "type": "spawn_result", "slot": 2, "success": false, "error": "Spawn failed" });
    for device in &mut devices {
        assert_eq!(device.spawn_result().await, failed);
    }
}

// covers: 000-027
#[tokio::test]
async fn streamed_text_causes_no_frame_to_the_device() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.command(slot, "stream").await;
    let words = |state: &portolan_core::session::state::State| {
        state.items.first().is_some_and(|item| item.text.ends_with("word199 "))
    };
    stand.until(session, words).await;
    device.press(slot, "escape").await;
    let mut shown = Vec::new();
    while shown.last().is_none_or(|message| message != "Interrupted") {
        let status = device.next().await;
        shown.push(status["message"].as_str().unwrap().to_owned());
    }
    shown.dedup();
    assert_eq!(
        shown,
        ["Processing prompt...", "Interrupting...", "Interrupted"],
        "nothing for 200 pieces of text"
    );
}
