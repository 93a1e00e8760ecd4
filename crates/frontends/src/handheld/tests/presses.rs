//! Which press and which words count, and for what.

use std::sync::atomic::Ordering;

use portolan_core::{Event, Seq, SessionId};
use serde_json::json;

use super::stand::{Device, Stand, owner};
use crate::handheld::{
    desk::{GUARD, Panel},
    devices::principal,
};

/// Has a device say something whose effect shows, so that everything it said before was read.
async fn read_so_far(device: &mut Device) {
    let wanted = device.slots[3]["autoEdit"] != true;
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": wanted })).await;
    device.until(3, |status| status["autoEdit"] == wanted).await;
}

// covers: 000-060
#[tokio::test(start_paused = true)]
async fn a_double_press_never_approves_the_next_prompt() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.command(slot, "ask Bash first").await;
    device.until(slot, |status| status["promptToolDetail"] == "first").await;
    device.press(slot, "yes").await;
    device.press(slot, "always").await;
    read_so_far(&mut device).await;
    assert_eq!(stand.state(session).await.requests.len(), 1, "nothing was meant yet");
    device.decide(slot, "yes").await;
    device.until_message(slot, "allowed").await;
    device.command(slot, "ask Bash second").await;
    device.until(slot, |status| status["promptToolDetail"] == "second").await;
    device.press(slot, "yes").await;
    read_so_far(&mut device).await;
    let state = stand.state(session).await;
    assert_eq!(state.requests.len(), 1, "the second half of a double press approved nothing");
    device.decide(slot, "no").await;
    device.until_message(slot, "denied: Denied by user via rAI3DS").await;
}

// covers: 000-060
#[tokio::test(start_paused = true)]
async fn a_press_of_a_device_that_is_behind_does_not_answer_what_it_has_not_received() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    // From here on the network takes everything and delivers nothing.
    device.unconfirmed.store(u64::MAX, Ordering::Relaxed);
    device.command(slot, "ask Bash rm").await;
    device.until(slot, |status| status["promptToolType"] == "Bash").await;
    tokio::time::sleep(GUARD * 20).await;
    device.press(slot, "yes").await;
    read_so_far(&mut device).await;
    assert_eq!(stand.state(session).await.requests.len(), 1, "its user has not seen it");
    // It arrives; from then on half a second counts.
    device.unconfirmed.store(0, Ordering::Relaxed);
    device.decide(slot, "yes").await;
    device.until_message(slot, "allowed").await;
}

#[tokio::test(start_paused = true)]
async fn words_that_were_on_their_way_do_not_answer_a_question_that_came_up_meanwhile() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.command(slot, "question").await;
    device.panel(slot, "Question 1/2").await;
    device.command(slot, "1").await;
    let status = device.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    assert_eq!(status["promptToolType"], "Question 1/2", "it still waits");
    device.reply(slot, "2").await;
    // Sent twice by accident: the second is no answer to the next question.
    device.panel(slot, "Question 2/2").await;
    device.command(slot, "2").await;
    device.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    device.reply(slot, "Argo").await;
    device.until_message(slot, r#"chosen: {"Where?":["Majorca"],"Name?":["Argo"]}"#).await;
    let prompts = stand.state(session).await.summary.turns;
    assert_eq!(prompts, 1, "nor did they become a prompt");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_question_that_another_device_has_answered_is_not_taken_for_the_next_one() {
    let stand = Stand::new().await;
    let mut one = stand.device("192.168.1.7").await;
    let slot = one.spawn().await;
    let asked = stand.session("question").await;
    stand.hub.put_in(&owner(), slot, asked).await.unwrap();
    one.panel(slot, "Question 1/2").await;
    let seen = stand.hub.slots()[slot].asked.clone().unwrap();
    one.reply(slot, "2").await;
    one.panel(slot, "Question 2/2").await;
    // Another device still shows the first question when its words are read.
    let who = principal("192.168.1.8".parse().unwrap());
    stand.hub.say(&who, slot, Panel::Seen(seen), "1".into()).await;
    one.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    assert_eq!(one.slots[slot]["promptToolType"], "Question 2/2");
}

#[tokio::test]
async fn the_name_of_a_session_that_has_left_reaches_no_slot() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    for agent in ["obedient-0", "obedient-0 elsewhere", "slot-0"] {
        device.say(json!({ "type": "command", "agent": agent, "command": "say wrong", "slot": 0 })).await;
        device.say(json!({ "type": "action", "agent": agent, "action": "escape", "slot": 0 })).await;
    }
    read_so_far(&mut device).await;
    let session = stand.in_slot(slot).unwrap();
    assert_eq!(stand.state(session).await.summary.turns, 0);
    // A name that is none of ours is another program's: the slot counts.
    device.say(json!({ "type": "command", "agent": "claude", "command": "say right", "slot": 0 })).await;
    device.until_message(slot, "say right").await;
    let names: Vec<String> = told(&stand, session).await;
    assert_eq!(names, ["prompt"]);
}

/// The commands that a session has taken.
async fn told(stand: &Stand, session: SessionId) -> Vec<String> {
    let entries = stand.registry.history(&owner(), session, Seq::ZERO, None, 1000).await.unwrap();
    let commands = entries.iter().filter_map(|entry| match entry.decode::<Event>().unwrap().event {
        Event::CommandAccepted { action, .. } => Some(action.name().to_owned()),
        _ => None,
    });
    commands.collect()
}
