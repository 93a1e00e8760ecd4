//! Auto-edit: what it approves, who is notified, and when it ends.

use portolan_core::{
    CommandId, DaemonEvent, Seq,
    log::delivery::{Delivery, Start},
    policy::{Effect, RuleDraft, rule::ScopeDraft},
    request::Outcome,
};
use serde_json::json;

use super::stand::{PATIENCE, Stand, is_idle, owner};
use crate::handheld::{
    devices::{Decide, Origin, Peer, principal},
    wire::AutoEdit,
};

// covers: 000-045, 000-090
#[tokio::test]
async fn auto_edit_approves_edits_at_once_and_a_shell_command_never() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.command(slot, "ask Edit a.rs").await;
    device.until(slot, |status| status["promptToolType"] == "Edit").await;
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    for slot in 0..4 {
        device.until(slot, |status| status["autoEdit"] == true).await;
    }
    device.until_message(slot, "allowed").await;
    let session = stand.in_slot(slot).unwrap();
    let state = stand.until(session, is_idle).await;
    let Outcome::Answered { by, .. } = &state.closed_requests[0].outcome else { panic!("{state:?}") };
    assert_eq!(
        by.to_string(),
        "auto-edit (handheld)",
        "what waited already is approved too, and by whom is told"
    );
    device.command(slot, "ask Write b.rs").await;
    let state = stand.until(session, |state| state.closed_requests.len() == 2).await;
    assert_eq!(state.requests.len(), 0);
    device.command(slot, "ask Bash rm").await;
    device.until(slot, |status| status["promptToolType"] == "Bash").await;
    assert_eq!(stand.state(session).await.requests.len(), 1);
    device.press(slot, "escape").await;
    device.until_message(slot, "Interrupted").await;
    // The same value again sends every slot again.
    device.slots = Default::default();
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    for slot in 0..4 {
        device.until(slot, |status| status["autoEdit"] == true).await;
    }
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": false })).await;
    device.until(slot, |status| status["autoEdit"] == false).await;
    device.command(slot, "ask Edit a.rs").await;
    device.until(slot, |status| status["promptToolType"] == "Edit").await;
}

// Auto-edit once approved writes through a link out of the folder, to a Git hook and to settings of the agent.
// covers: 000-045
#[tokio::test]
async fn auto_edit_leaves_edits_outside_the_folder_and_in_protected_places_to_people() {
    let stand = Stand::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), stand.folder.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), stand.folder.join("dangling")).unwrap();
    std::os::unix::fs::symlink(".git", stand.folder.join("vcs")).unwrap();
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    device.until(slot, |status| status["autoEdit"] == true).await;
    let inside = stand.folder.join("a.rs").display().to_string();
    for fine in ["ask Write a.rs", "ask Edit src/../a.rs", &format!("ask NotebookEdit {inside}")] {
        device.command(slot, fine).await;
        device.until_message(slot, "allowed").await;
        stand.until(session, is_idle).await;
        device.command(slot, "say on").await;
        device.until_message(slot, "say on").await;
    }
    let asked_about = [
        ("ask Write link/x", "is outside the session's folder"),
        ("ask Write dangling", "is outside the session's folder"),
        ("ask Edit ../x", "is outside the session's folder"),
        ("ask Edit /etc/passwd", "is outside the session's folder"),
        ("ask Write .git/hooks/pre-commit", "`.git` belongs to version control"),
        ("ask Write vcs/hooks/pre-commit", "`.git` belongs to version control"),
        ("ask MultiEdit .CLAUDE/settings.json", "`.CLAUDE` belongs to settings of agents"),
        ("ask Write .mcp.json", "belongs to settings of agents"),
        ("ask Write .envrc", "belongs to startup files of programs"),
        ("ask Write daemon/portolan.db", "belongs to Portolan itself"),
    ];
    for (prompt, why) in asked_about {
        device.command(slot, prompt).await;
        let status = device.until(slot, |status| status["state"] == "waiting").await;
        let told = status["promptDescription"].as_str().unwrap();
        assert!(told.contains("Auto-edit asks you: ") && told.contains(why), "{prompt}: {told}");
        assert_eq!(stand.state(session).await.requests.len(), 1, "{prompt}");
        device.decide(slot, "no").await;
        device.until_message(slot, "denied: Denied by user via rAI3DS").await;
    }
    // A path that the agent itself blocks always opens a request, which names the path.
    device.command(slot, "blocked Write a.rs").await;
    device.until(slot, |status| status["promptToolType"] == "Write").await;
    device.decide(slot, "yes").await;
    device.until_message(slot, "allowed").await;
    // Who decided each request.
    let state = stand.state(session).await;
    let by = state.closed_requests.iter().map(|closed| match &closed.outcome {
        Outcome::Answered { by, .. } => by.to_string(),
        other => format!("{other:?}"),
    });
    let automatic = by.filter(|by| by == "mode acceptEdits, set by auto-edit").count();
    assert_eq!(automatic, 3, "only what lies in the folder");
}

#[tokio::test]
async fn a_rule_that_asks_or_denies_beats_auto_edit() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    let session = stand.in_slot(slot).unwrap();
    for (effect, text) in [(Effect::Ask, "Edit(ask.rs)"), (Effect::Deny, "Edit(deny.rs)")] {
        let rule = RuleDraft {
            effect,
            text: text.into(),
            scope: ScopeDraft::Session { session },
            overridable: false,
            expires_in_seconds: None,
            comment: None,
            matches: vec![],
            does_not_match: vec![],
        };
        stand.registry.add_rule(&owner(), CommandId::random(), rule).await.unwrap();
    }
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    device.until(slot, |status| status["autoEdit"] == true).await;
    device.command(slot, "ask Edit deny.rs").await;
    device.until_message(slot, "denied: Denied by persisted rule for Edit.").await;
    device.command(slot, "ask Edit ask.rs").await;
    let status = device.until(slot, |status| status["promptToolType"] == "Edit").await;
    let told = status["promptDescription"].as_str().unwrap();
    assert!(told.contains("Auto-edit asks you: a rule says to ask"), "{told}");
    assert_eq!(stand.state(session).await.requests.len(), 1);
}

// covers: 000-102
#[tokio::test]
async fn a_config_without_auto_edit_changes_nothing() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    device.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    device.until(slot, |status| status["autoEdit"] == true).await;
    let before = switches(&stand).await;
    for config in [json!({ "type": "config" }), json!({ "type": "config", "agent": "x", "autoEdit": null })] {
        device.say(config).await;
    }
    device.command(slot, "say after it").await;
    let status = device.until_message(slot, "say after it").await;
    assert_eq!((&status["autoEdit"], stand.session_slots.health().auto_edit), (&json!(true), true));
    assert_eq!(switches(&stand).await, before);
}

// A change once sent each slot twice.
#[tokio::test]
async fn a_change_of_auto_edit_sends_each_slot_once() {
    let stand = Stand::new().await;
    let mut device = stand.device("192.168.1.7").await;
    let slot = device.spawn().await;
    stand.until(stand.in_slot(slot).unwrap(), is_idle).await;
    for wanted in [true, false, true] {
        device.say(json!({ "type": "config", "agent": "x", "autoEdit": wanted })).await;
        // Two messages with visible effects, one after the other: every other frame until then comes from the switch.
        device.command(3, "anything").await;
        device.press(3, "escape").await;
        let mut sent = Vec::new();
        loop {
            let status = device.next().await;
            assert_eq!(status["autoEdit"], wanted, "{status}");
            match status["message"].as_str().unwrap() {
                told if told.starts_with("Nothing to stop") && sent.contains(&json!("told")) => break,
                told if told.starts_with("Not sent") => sent.push(json!("told")),
                _ => sent.push(status["slot"].clone()),
            }
        }
        assert_eq!(sent, [json!(0), json!(1), json!(2), json!(3), json!("told")], "{wanted}");
    }
}

/// Who switched auto-edit on or off, from the daemon's log.
async fn switches(stand: &Stand) -> Vec<(String, bool)> {
    let mut reader = stand.registry.watch(&owner(), Start::After(Seq::ZERO)).await.unwrap();
    let mut all = Vec::new();
    while let Delivery::Entries(pieces) = reader.next().await {
        for piece in &pieces {
            let entry = piece.entry().unwrap();
            if let DaemonEvent::AutoApproval { frontend, on, tools } = &*entry.event {
                assert_eq!((frontend.as_str(), tools.len()), ("handheld", 1));
                all.push((entry.by.as_ref().unwrap().to_string(), *on));
            }
        }
    }
    all
}

#[tokio::test]
async fn the_log_tells_who_switched_auto_edit_and_it_ends_with_the_device_that_did() {
    let stand = Stand::new().await;
    let mut one = stand.device("192.168.1.7").await;
    let mut two = stand.device("192.168.1.8").await;
    let slot = two.spawn().await;
    one.until(slot, |status| status["active"] == true).await;
    one.say(json!({ "type": "config", "agent": "x", "autoEdit": true })).await;
    two.until(slot, |status| status["autoEdit"] == true).await;
    let by = |name: &str, on| (name.to_owned(), on);
    let first = by("handheld at 192.168.1.7 (handheld)", true);
    assert_eq!(switches(&stand).await, std::slice::from_ref(&first));
    // Another device is revoked: that changes nothing.
    let put_out = |address: &str| {
        let (session_slots, address) = (stand.session_slots.clone(), address.parse().unwrap());
        async move { session_slots.devices().decide(address, Decide::Revoke).await.unwrap() }
    };
    put_out("192.168.1.9").await;
    two.command(slot, "ask Edit a.rs").await;
    two.until_message(slot, "allowed").await;
    // The device that switched it on is revoked.
    put_out("192.168.1.7").await;
    two.until(slot, |status| status["autoEdit"] == false).await;
    two.command(slot, "ask Edit b.rs").await;
    two.until(slot, |status| status["promptToolType"] == "Edit").await;
    let told = async {
        while switches(&stand).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(switches(&stand).await, [first, by("handheld (handheld)", false)]);
    // A message of that device that is still on its way cannot switch auto-edit on again.
    let gone = Peer { address: "192.168.1.7".parse().unwrap(), origin: Origin::Elsewhere };
    stand.session_slots.set_auto_edit(&principal(gone.address), gone, AutoEdit::On).await;
    assert!(!stand.session_slots.health().auto_edit);
}
