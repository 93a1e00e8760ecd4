//! The handheld: four sessions on a Nintendo 3DS, by the existing rAI3DS app as it is. docs/frontends/handheld.md
//! tells how to use it and every message.
//!
//! The app cannot be changed, has no token and no TLS. So this is the one frontend with a listener of its own, off
//! unless configured, and with a door of its own: a device is let in by its address, once the owner said so
//! ([`devices`]). Behind it a device is a principal like any other, and core decides what it may do.
//!
//! Pure and tested as such: [`project`] (entries to faces), [`answers`] (requests to panels, buttons and words to
//! answers), [`parse`], [`names`], [`text`], [`desk`] (what a device is sent, and which press counts). What auto-edit
//! may approve is core's to judge ([`portolan_core::policy`]).
//! Around them: [`hub`] (sessions in slots), [`device`] (a connection), [`in_flight`] (what has not reached it),
//! [`listen`] (HTTP), [`places`] (how many may come), [`api`] (the owner).

pub mod answers;
mod api;
pub mod board;
pub mod desk;
mod device;
pub mod devices;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod hub;
mod in_flight;
mod listen;
pub mod names;
pub mod parse;
mod places;
pub mod project;
#[cfg(test)]
mod tests;
pub mod text;
pub mod wire;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use axum::Router;
use portolan_core::{
    DaemonEvent,
    ports::{Boxed, Clock, StoreError},
    registry::Registry,
};
use portolan_host::{
    Frontend, Host, MountError, Mounted, Place,
    settings::{folder, optional_address},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use self::devices::Devices;
pub use self::{
    api::{Bind, BoundSession, Standing},
    devices::{DeviceInfo, DeviceState, Network},
    hub::{Hub, Slots},
};

/// `[handheld]` in portolan.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where handheld devices connect, such as `0.0.0.0:3333`; nowhere when absent. Plain HTTP without a token: a device is
    /// let in by its address, see `portolan devices`.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// Addresses and networks of devices that need no approval, such as `192.168.1.7` or `192.168.1.0/24`. A program on
    /// this machine is not let in by a network, only by an address of its own.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Network>,
    /// The agent that a device's `spawn` starts.
    pub agent: String,
    /// The folder it works in, within `sessions.roots`. The one that the daemon was started in when absent.
    pub folder: Option<PathBuf>,
    /// Put the newest active sessions into free slots.
    pub fill: bool,
    /// Start an agent in slot 0 together with the daemon.
    pub autospawn: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: None,
            allow: Vec::new(),
            agent: "claude".into(),
            folder: None,
            fill: true,
            autospawn: false,
        }
    }
}

/// What a handheld is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Addresses and networks that need no approval.
    pub allow: Vec<Network>,
    /// What happens in the slots.
    pub slots: Slots,
}

/// The handheld: what its owner asks on the main listener, and its devices on a listener of its own.
pub fn frontend(settings: Settings) -> Box<dyn Frontend> {
    Box::new(HandheldFrontend(settings))
}

#[derive(Debug)]
struct HandheldFrontend(Settings);

impl Frontend for HandheldFrontend {
    fn name(&self) -> &'static str {
        "handheld"
    }

    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        Box::pin(async move {
            let Settings { listen, allow, agent, folder: set, fill, autospawn } = self.0;
            let Some(listen) = listen else { return Ok(Mounted::default()) };
            let own = host.home.iter().cloned().collect();
            let slots = Slots { agent, folder: folder("handheld", set)?, fill, autospawn, own };
            let setup = Setup { listen, allow, slots };
            let opened = Handheld::open(setup, host.registry.clone(), host.clock.clone()).await;
            let handheld =
                opened.map_err(|error| MountError { frontend: "handheld", message: error.to_string() })?;
            let (routes, starting, stopping, ending) =
                (handheld.clone(), handheld.clone(), handheld.clone(), handheld.clone());
            Ok(Mounted {
                main: Some(Place::new(move |_| routes.routes())),
                opened: vec![handheld.opened()],
                start: Some(Box::new(move |_| starting.start())),
                stop: Some(Box::new(move || stopping.stop())),
                ended: Some(Box::pin(async move { ending.closed().await })),
                ..Mounted::default()
            })
        })
    }
}

/// The handheld cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HandheldError {
    /// The address cannot be had.
    #[error(
        "the handheld cannot listen on `{address}`: {source}; change `listen` under [handheld], or leave it out"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The handheld: its listener, its devices, its slots. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handheld {
    hub: Hub,
    listener: Arc<std::sync::Mutex<Option<TcpListener>>>,
    address: SocketAddr,
}

impl Handheld {
    /// Takes the address; nobody is served before [`Handheld::start`].
    pub async fn open(setup: Setup, registry: Registry, clock: Clock) -> Result<Self, HandheldError> {
        let refused = |source| HandheldError::Listen { address: setup.listen, source };
        let listener = TcpListener::bind(setup.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let devices = Devices::open(registry.store(), clock.clone(), setup.allow).await?;
        let hub = Hub::new(registry, clock, setup.slots, devices);
        Ok(Self { hub, listener: Arc::new(std::sync::Mutex::new(Some(listener))), address })
    }

    /// How its listener is set, for the log: plain, and no device has a token.
    fn opened(&self) -> DaemonEvent {
        DaemonEvent::DoorOpened {
            frontend: Some("handheld".into()),
            tokenless: true,
            addresses: vec![self.address.to_string()],
            tls: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            behind_proxy: false,
        }
    }

    /// Where it listens, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The slots.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What the owner asks, for the daemon's own listener.
    pub fn routes(&self) -> Router {
        api::routes(self.clone())
    }

    /// Serves devices and keeps the slots up to date, until [`Handheld::stop`]. Devices are served once the slots hold
    /// again what they held before.
    pub fn start(&self) {
        let listener = self.listener.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(listener) = listener else { return };
        tracing::warn!(
            address = %self.address,
            "the handheld's listener speaks plain HTTP and takes no token: whoever has the address of an approved \
             device on this network can act as it"
        );
        let hub = self.hub.clone();
        self.hub.start();
        self.hub.spawn_task(listen::accept(listener, hub));
    }

    /// No new devices, and nothing that happens from here on changes what is kept of the slots.
    pub fn stop(&self) {
        self.hub.stop();
    }

    /// Returns once every connection has ended; for after [`Handheld::stop`].
    pub async fn closed(&self) {
        self.hub.closed().await;
    }
}
