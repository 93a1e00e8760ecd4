//! The handheld's listener, where the configuration asks for it.

use portolan_core::{DaemonEvent, ports::Clock, registry::Registry};
use portolan_frontends::handheld::{self, Handheld, Slots};

use crate::{
    config::Settings,
    failure::{Failure, Outcome},
    home::Home,
};

/// Takes its address; nobody is served before it is started.
pub(super) async fn open(settings: &Settings, home: &Home, registry: &Registry) -> Outcome<Option<Handheld>> {
    let wanted = &settings.handheld;
    let Some(listen) = wanted.listen else { return Ok(None) };
    let folder = match &wanted.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| {
            Failure::new(format!(
                "the folder of the daemon cannot be told ({error}); set `folder` under [handheld]"
            ))
        })?,
    };
    let settings = handheld::Settings {
        listen,
        allow: wanted.allow.clone(),
        slots: Slots {
            agent: wanted.agent.clone(),
            folder,
            fill: wanted.fill,
            autospawn: wanted.autospawn,
            own: vec![home.path().to_path_buf()],
        },
    };
    let opened = Handheld::open(settings, registry.clone(), Clock::system()).await;
    opened.map(Some).map_err(|error| Failure::new(error.to_string()))
}

/// How its listener is set, for the log: plain, and no device has a token.
pub(super) fn opened(handheld: &Handheld) -> DaemonEvent {
    DaemonEvent::DoorOpened {
        frontend: Some("handheld".into()),
        tokenless: true,
        addresses: vec![handheld.address().to_string()],
        tls: false,
        hosts: Vec::new(),
        origins: Vec::new(),
        behind_proxy: false,
    }
}
