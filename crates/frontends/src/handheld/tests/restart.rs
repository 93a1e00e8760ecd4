//! The slots survive a restart.

use std::sync::atomic::Ordering;

use portolan_core::{Action, SessionSpec, session::state::Status};
use serde_json::json;

use super::stand::{Stand, is_idle, owner};

// covers: 000-092, 000-093
#[tokio::test]
async fn slots_come_back_after_a_restart_and_what_ran_is_resumed_under_its_own_id() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "say hello").await;
    device.until_message(slot, "say hello").await;
    let spawned = stand.in_slot(slot).unwrap();
    let bound = stand.session("say bound").await;
    stand.session_slots.put_in(&owner(), 2, bound).await.unwrap();
    let ended = stand.session("say ended").await;
    stand.session_slots.put_in(&owner(), 3, ended).await.unwrap();
    stand.until(ended, is_idle).await;
    stand.submit(ended, Action::Stop).await;
    device.until_state(3, "done").await;
    let own_id = stand.until(spawned, is_idle).await.summary.agent_session.clone().unwrap();

    let stand = stand.restarted(|_| {}).await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(slot, |status| status["state"] == "idle" && status["active"] == true).await;
    device.until(2, |status| status["state"] == "idle" && status["active"] == true).await;
    assert_eq!(
        (stand.in_slot(0), stand.in_slot(2), stand.in_slot(3)),
        (Some(spawned), Some(bound), Some(ended))
    );
    let state = stand.state(spawned).await;
    assert_eq!((state.generation.0, state.summary.agent_session.as_ref()), (2, Some(&own_id)));
    let status = device.until(3, |status| status["state"] == "done").await;
    assert_eq!(status["active"], json!(false), "what had ended is not started again");
    assert_eq!(stand.state(ended).await.summary.status, Status::Terminated);
    device.command(slot, "say again").await;
    device.until_message(slot, "say again").await;
}

// covers: 000-094
#[tokio::test]
async fn a_conversation_that_cannot_be_resumed_begins_anew_once_in_the_same_slot() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "say hello").await;
    device.until_message(slot, "say hello").await;
    let first = stand.in_slot(slot).unwrap();
    stand.until(first, is_idle).await;
    stand.agent.faults.forgetful.store(true, Ordering::Relaxed);

    let stand = stand.restarted(|_| {}).await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(slot, |status| status["state"] == "idle" && status["active"] == true).await;
    let second = stand.in_slot(slot).unwrap();
    assert_ne!(first, second);
    let state = stand.state(second).await;
    assert_eq!((&state.summary.cwd, &*state.summary.agent), (&stand.folder, "obedient"));
    device.command(slot, "say fresh").await;
    device.until_message(slot, "say fresh").await;
    assert_eq!(stand.in_slot(slot), Some(second), "once");
}

// covers: 000-094
#[tokio::test]
async fn a_conversation_that_begins_anew_keeps_what_its_session_was_made_with() {
    let stand = Stand::new().await;
    let session = stand
        .session_with("say hello", |spec| {
            spec.model = Some("swift".into());
            spec.mode = Some("plan".into());
            spec.max_turns = Some(7);
            spec.env.insert("HARBOUR".into(), "secret".into());
        })
        .await;
    stand.session_slots.put_in(&owner(), 1, session).await.unwrap();
    stand.until(session, is_idle).await;
    stand.agent.faults.forgetful.store(true, Ordering::Relaxed);

    let stand = stand.restarted(|_| {}).await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(1, |status| status["state"] == "idle" && status["active"] == true).await;
    let anew = stand.in_slot(1).unwrap();
    assert_ne!(anew, session);
    let last = stand.agent.puppet.launches().pop().unwrap().spec;
    let SessionSpec { model, mode, max_turns, env, prompt, resume, .. } = &*last;
    assert_eq!(
        (model.as_deref(), mode.as_deref(), *max_turns, prompt.len(), resume),
        (Some("swift"), Some("plan"), Some(7), 0, &None)
    );
    assert_eq!(
        env.get("HARBOUR").map(String::as_str),
        Some("secret"),
        "the real one, not what the log shows"
    );
    let shown = serde_json::to_string(&stand.state(anew).await.spec).unwrap();
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn a_new_conversation_that_fails_too_is_not_started_again() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "say hello").await;
    device.until_message(slot, "say hello").await;
    stand.until(stand.in_slot(slot).unwrap(), is_idle).await;
    stand.agent.faults.broken.store(true, Ordering::Relaxed);
    let stand = stand.restarted(|_| {}).await;
    let mut device = stand.device("192.168.1.7").await;
    let status = device.until(slot, |status| status["message"] == "Ended: it would not start").await;
    assert_eq!((&status["state"], &status["active"]), (&json!("done"), &json!(false)));
}

#[tokio::test]
async fn a_session_that_filled_a_slot_is_not_resumed_and_a_removed_session_stays_out() {
    let stand = Stand::with(|slots| slots.fill = true).await;
    let session = stand.session("say filled").await;
    let mut device = stand.device("192.168.1.7").await;
    device.until_message(0, "say filled").await;
    let other = stand.session("say other").await;
    device.until_message(1, "say other").await;
    stand.session_slots.take_out(1).await.unwrap();
    stand.until(session, is_idle).await;
    let stand = stand.restarted(|slots| slots.fill = true).await;
    let mut device = stand.device("192.168.1.7").await;
    device.until(3, |status| !status.is_null()).await;
    assert_eq!((stand.in_slot(0), stand.in_slot(1)), (None, None));
    for session in [session, other] {
        assert_eq!(stand.state(session).await.summary.status, Status::Terminated);
    }
}
