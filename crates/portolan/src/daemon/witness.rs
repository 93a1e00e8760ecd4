//! From the door to the daemon's log: what happened at the door, in order, without the door ever waiting for the disk.

use portolan_core::{DaemonEvent, Principal, registry::Registry};
use portolan_frontends::door::{DoorSettings, Listening};
use tokio::sync::mpsc;

/// Notes of the door that wait for the log. Full means that the disk is far behind; what does not fit is counted.
const NOTES: usize = 256;

/// One note, and who caused it.
type Note = (Option<Principal>, DaemonEvent);

/// What the door is given to tell.
#[derive(Clone, Debug)]
pub(super) struct Witness(mpsc::Sender<Note>);

/// Where it arrives.
#[derive(Debug)]
pub(crate) struct Notes(mpsc::Receiver<Note>);

/// Both ends.
pub(super) fn witness() -> (Witness, Notes) {
    let (sender, receiver) = mpsc::channel(NOTES);
    (Witness(sender), Notes(receiver))
}

impl Witness {
    pub(super) fn tell(&self, who: Option<&Principal>, event: DaemonEvent) {
        if self.0.try_send((who.cloned(), event.clone())).is_err() {
            // The text log still has it.
            tracing::warn!(
                who = who.map(|who| who.name.as_str()),
                ?event,
                "not in the daemon's log: it is behind"
            );
        }
    }
}

impl Notes {
    /// Writes down what arrives, for as long as there is a door.
    pub(super) async fn write(mut self, registry: Registry) {
        while let Some((who, event)) = self.0.recv().await {
            if let Err(refusal) = registry.note(who.as_ref(), event.clone()).await {
                tracing::warn!(%refusal, ?event, "not in the daemon's log");
            }
        }
    }
}

/// How the door is set, for the log.
pub(super) fn opened(settings: &DoorSettings, addresses: &[Listening]) -> DaemonEvent {
    DaemonEvent::DoorOpened {
        addresses: addresses.iter().map(|listening| listening.address.to_string()).collect(),
        tls: settings.tls.is_some(),
        hosts: settings.hosts.clone(),
        origins: settings.origins.clone(),
        behind_proxy: settings.behind_proxy,
    }
}
