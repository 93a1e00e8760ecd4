//! Which presses and texts count, and for which prompt.

use std::sync::atomic::Ordering;

use futures_util::SinkExt as _;
use portolan_core::{Action, CommandId, Event, RefusalCode, RequestId, Seq, SessionId, request::Answer};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::stand::{Device, Stand, is_idle, owner};
use crate::handheld::{
    desk::{Asked, GUARD, Panel},
    devices::principal,
    parse::Button,
};

/// Makes a device send a message with a visible effect, so that all its earlier messages were read.
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
    // From now on the network accepts everything and delivers nothing.
    device.unconfirmed.store(u64::MAX, Ordering::Relaxed);
    device.command(slot, "ask Bash rm").await;
    device.until(slot, |status| status["promptToolType"] == "Bash").await;
    tokio::time::sleep(GUARD * 20).await;
    device.press(slot, "yes").await;
    read_so_far(&mut device).await;
    assert_eq!(stand.state(session).await.requests.len(), 1, "its user has not seen it");
    // The prompt arrives; the half second begins now.
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
    device.panel(slot, "Question 1/3").await;
    device.command(slot, "1").await;
    let status = device.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    assert_eq!(status["promptToolType"], "Question 1/3", "it still waits");
    device.reply(slot, "2").await;
    // Sent twice by accident: the second message is not an answer to the next question.
    device.panel(slot, "Question 2/3").await;
    device.command(slot, "2").await;
    device.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    device.reply(slot, "Argo").await;
    device.panel(slot, "Question 3/3").await;
    device.reply(slot, "at dawn").await;
    let chosen = r#"chosen: {"Where?":["Majorca"],"Name?":["Argo"],"When?":["at dawn"]}"#;
    device.until_message(slot, chosen).await;
    let prompts = stand.state(session).await.summary.turns;
    assert_eq!(prompts, 1, "nor did they become a prompt");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_question_that_another_device_has_answered_is_not_taken_for_the_next_one() {
    let stand = Stand::new().await;
    let mut one = stand.device("192.168.1.7").await;
    let slot = one.spawn().await;
    let asked = stand.session("question").await;
    stand.session_slots.put_in(&owner(), slot, asked).await.unwrap();
    one.panel(slot, "Question 1/3").await;
    let seen = stand.session_slots.slots()[slot].asked.clone().unwrap();
    one.reply(slot, "2").await;
    one.panel(slot, "Question 2/3").await;
    // Another device still shows the first question when its text is read.
    let who = principal("192.168.1.8".parse().unwrap());
    stand.session_slots.say(&who, slot, Panel::Seen(seen), "1".into()).await;
    one.until_message(slot, "Not sent: a question has just come up. Send it again.").await;
    assert_eq!(one.slots[slot]["promptToolType"], "Question 2/3");
}

// Questions 2 and 3 once showed the text of question 1.
#[tokio::test(start_paused = true)]
async fn each_of_several_questions_shows_its_own_text() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "question").await;
    for (number, question, answer) in [(1, "Where?", "1"), (2, "Name?", "Argo"), (3, "When?", "at dawn")] {
        let status = device.panel(slot, &format!("Question {number}/3")).await;
        assert_eq!(status["message"], question);
        device.reply(slot, answer).await;
    }
}

// A button that was pressed too early once did nothing, without a message.
#[tokio::test(start_paused = true)]
async fn a_button_that_is_pressed_too_early_says_so() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    for button in ["yes", "always", "no"] {
        device.command(slot, "ask Bash ls").await;
        device.until(slot, |status| status["promptToolDetail"] == "ls").await;
        device.press(slot, button).await;
        let status = device.until_message(slot, "Too early: this has just come up. Press again.").await;
        assert_eq!((&status["state"], &status["promptToolType"]), (&json!("waiting"), &json!("Bash")));
        assert_eq!(stand.state(session).await.requests.len(), 1, "{button} answered nothing");
        device.decide(slot, "no").await;
        device.until_message(slot, "denied: Denied by user via rAI3DS").await;
    }
    // Somebody else answered the prompt that the device still shows: another press is useless.
    let seen = Asked { session, request: RequestId(1), digest: "d".into(), step: 0 };
    stand.session_slots.too_early(slot, &seen);
    read_so_far(&mut device).await;
    assert_eq!(device.slots[slot]["message"], "denied: Denied by user via rAI3DS");
}

// covers: 000-103
#[tokio::test]
async fn escape_where_nothing_runs_does_nothing_and_says_why() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.press(slot, "escape").await;
    device.until_message(slot, "Nothing to stop: the agent does nothing.").await;
    device.command(slot, "exit").await;
    device.until_state(slot, "done").await;
    device.press(slot, "escape").await;
    let status = device.until_message(slot, "Nothing to stop: the agent has ended.").await;
    assert_eq!((&status["state"], &status["active"]), (&json!("done"), &json!(false)));
    device.press(3, "escape").await;
    let free = "Nothing to stop: this slot is free. The command spawn starts an agent.";
    device.until_message(3, free).await;
    device.command(3, "fix it").await;
    device.until_message(3, "Not sent: this slot is free. The command spawn starts an agent.").await;
    assert_eq!(told(&stand, session).await, ["prompt"], "no interrupt was sent to anybody");
    assert_eq!(stand.in_slot(3), None);
    // Stopping a session that does not exist is refused with the reason, too.
    let nobody = SessionId::from_u128(7);
    let refusal =
        stand.registry.submit(&owner(), nobody, CommandId::random(), Action::Stop).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotFound);
    assert!(refusal.message.contains(&nobody.to_string()), "{refusal}");
}

// covers: 000-057
#[tokio::test]
async fn without_an_agent_an_answer_is_refused_with_the_reason_and_a_prompt_starts_it_again() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.command(slot, "ask Bash ls").await;
    device.panel(slot, "Bash").await;
    let open = stand.until(session, |state| !state.requests.is_empty()).await.requests[0].clone();
    let asked = stand.session_slots.slots()[slot].asked.clone().unwrap();
    stand.submit(session, Action::Stop).await;
    device.until_state(slot, "done").await;
    // By the device, which does not show the prompt any more, and by any other client.
    stand.session_slots.press(&principal("192.168.1.7".parse().unwrap()), slot, asked, Button::Yes).await;
    let answer =
        Action::Answer { request: open.request, digest: None, answer: Answer::allow(), persist: None };
    let refusal = stand.registry.submit(&owner(), session, CommandId::random(), answer).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::AlreadyClosed);
    assert!(refusal.message.contains("the agent that asked has ended"), "{refusal}");
    assert_eq!(told(&stand, session).await, ["prompt", "stop"], "nothing was taken for the agent");
    let before = stand.state(session).await;
    assert!(!before.summary.is_live(), "nor was it started for that");
    device.command(slot, "say here again").await;
    device.until_message(slot, "say here again").await;
    let after = stand.until(session, is_idle).await;
    assert!(after.generation > before.generation, "a prompt starts it again");
}

// The app's old server accepts JSON in both kinds of frames.
#[tokio::test]
async fn json_in_a_binary_frame_is_read_as_in_a_text_frame() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let agent = device.slots[slot]["agent"].clone();
    let command = json!({ "type": "command", "agent": agent, "command": "say by bytes", "slot": 0 });
    device.socket.send(Message::binary(command.to_string().into_bytes())).await.unwrap();
    device.until_message(slot, "say by bytes").await;
    let marked = format!("\u{feff}{}", json!({ "type": "config", "agent": "x", "autoEdit": true }));
    device.socket.send(Message::binary(marked.into_bytes())).await.unwrap();
    device.until(slot, |status| status["autoEdit"] == true).await;
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
    // A foreign name belongs to another program: the slot number counts.
    device.say(json!({ "type": "command", "agent": "claude", "command": "say right", "slot": 0 })).await;
    device.until_message(slot, "say right").await;
    let names: Vec<String> = told(&stand, session).await;
    assert_eq!(names, ["prompt"]);
}

/// The commands that a session has accepted.
async fn told(stand: &Stand, session: SessionId) -> Vec<String> {
    let entries = stand.registry.history(&owner(), session, Seq::ZERO, None, 1000).await.unwrap();
    let commands = entries.iter().filter_map(|entry| match entry.decode::<Event>().unwrap().event {
        Event::CommandAccepted { action, .. } => Some(action.name().to_string()),
        _ => None,
    });
    commands.collect()
}
