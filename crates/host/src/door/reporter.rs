//! From the door to the daemon's log: the door's events in order, without the door ever waiting for the disk.

use portolan_core::{DaemonEvent, Principal, registry::Registry};
use tokio::sync::mpsc;

use super::{bind::Listening, settings::DoorSettings};

/// Notes of the door that wait for the log. A full queue means that the disk is far behind; notes that do not fit are
/// counted.
const NOTES: usize = 256;

/// One note, and who caused it.
type Note = (Option<Principal>, DaemonEvent);

/// Where the checks of a listener report: [`AccessCheck::with_reporter`](super::AccessCheck::with_reporter). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter(mpsc::Sender<Note>);

/// The receiving end of the notes.
#[derive(Debug)]
pub struct Notes(mpsc::Receiver<Note>);

/// Both ends.
pub fn reporter() -> (Reporter, Notes) {
    let (sender, receiver) = mpsc::channel(NOTES);
    (Reporter(sender), Notes(receiver))
}

impl Reporter {
    /// Queues a note for the log. Never waits: a note that does not fit is only in the text log.
    pub fn tell(&self, who: Option<&Principal>, event: DaemonEvent) {
        if self.0.try_send((who.cloned(), event.clone())).is_err() {
            tracing::warn!(
                who = who.map(|who| who.name.as_str()),
                ?event,
                "an event is missing in the daemon's log: too many events wait to be written"
            );
        }
    }
}

impl Notes {
    /// Writes the notes while any listener reports.
    pub async fn write(mut self, registry: Registry) {
        while let Some((who, event)) = self.0.recv().await {
            if let Err(refusal) = registry.note(who.as_ref(), event.clone()).await {
                tracing::warn!(%refusal, ?event, "an event is missing in the daemon's log");
            }
        }
    }
}

/// The settings of a door, for the log. Without a frontend it is the main door.
pub fn opened(settings: &DoorSettings, addresses: &[Listening]) -> DaemonEvent {
    DaemonEvent::DoorOpened {
        frontend: None,
        tokenless: false,
        addresses: addresses.iter().map(|listening| listening.address.to_string()).collect(),
        tls: settings.tls.is_some(),
        hosts: settings.hosts.clone(),
        origins: settings.origins.clone(),
        behind_proxy: settings.behind_proxy,
    }
}
