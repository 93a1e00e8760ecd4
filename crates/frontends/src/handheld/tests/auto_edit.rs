//! Auto-edit: what it approves, who is told, and when it ends.

use portolan_core::{
    DaemonEvent, Seq,
    log::delivery::{Delivery, Start},
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

/// Who switched auto-edit, and which way, as the daemon's log tells it.
async fn switches(stand: &Stand) -> Vec<(String, bool)> {
    let mut reader = stand.registry.watch(&owner(), Start::After(Seq::ZERO)).await.unwrap();
    let mut all = Vec::new();
    while let Delivery::Entries(pieces) = reader.next().await {
        for piece in &pieces {
            let entry = piece.entry().unwrap();
            if let DaemonEvent::AutoApproval { frontend, on, tools } = &*entry.event {
                assert_eq!((frontend.as_str(), tools.len()), ("handheld", 4));
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
    // Another device is put out: that changes nothing.
    let put_out = |address: &str| {
        let (hub, address) = (stand.hub.clone(), address.parse().unwrap());
        async move { hub.devices().decide(address, Decide::Revoke).await.unwrap() }
    };
    put_out("192.168.1.9").await;
    two.command(slot, "ask Edit a.rs").await;
    two.until_message(slot, "allowed").await;
    // The one that wanted it is.
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
    // Nor can it switch it on again, should one of its messages still be on its way.
    let gone = Peer { address: "192.168.1.7".parse().unwrap(), origin: Origin::Elsewhere };
    stand.hub.set_auto_edit(&principal(gone.address), gone, AutoEdit::On).await;
    assert!(!stand.hub.health().auto_edit);
}
