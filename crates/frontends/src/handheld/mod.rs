//! The handheld: four sessions on a Nintendo 3DS, by the existing rAI3DS app as it is. docs/frontends/handheld.md
//! describes its use and every message.
//!
//! The app cannot be changed, has no token and no TLS. So this frontend has its own listener, off unless configured,
//! and its own access check: a device gets access by its address, after the owner's approval ([`devices`]). After that
//! a device is a principal like any other, and core decides what it may do.
//!
//! Pure and tested as such: [`project`] (entries to faces), [`answers`] (requests to panels, buttons and text to
//! answers), [`parse`], [`names`], [`text`], [`desk`] (what a device is sent, and which press counts). Core decides
//! what auto-edit may approve ([`portolan_core::policy`]). Around them: [`session_slots`] (sessions in slots), [`device`] (a
//! connection), [`in_flight`] (bytes that have not reached it), [`listen`] (HTTP), [`places`] (how many may connect),
//! [`api`] (the owner).

pub mod answers;
mod api;
pub mod board;
pub mod desk;
mod device;
pub mod devices;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod in_flight;
mod listen;
pub mod names;
pub mod parse;
mod places;
pub mod project;
pub mod session_slots;
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
    session_slots::{SessionSlots, Slots},
};

/// `[handheld]` in portolan.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The address that handheld devices connect to, such as `0.0.0.0:3333`. Default: none. Devices use plain HTTP
    /// without a token: a device gets access by its address, see `portolan devices`.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// Addresses and networks of devices that need no approval, such as `192.168.1.7` or `192.168.1.0/24`. A network
    /// in this list does not cover programs on this machine; to admit them, list the address that they connect from.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Network>,
    /// The agent that Portolan starts when a device sends the command `spawn`.
    pub agent: String,
    /// The folder in which Portolan starts the agent for `spawn`, within `sessions.roots`. Default: the folder that the
    /// daemon was started in.
    pub folder: Option<PathBuf>,
    /// Put the newest live sessions into free slots.
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

/// Everything that opening a handheld needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Addresses and networks that need no approval.
    pub allow: Vec<Network>,
    /// How slots get their sessions.
    pub slots: Slots,
}

/// The handheld: its owner's API on the main listener, and its devices on their own listener.
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
            let slots = Slots { agent, folder: folder("handheld", set)?, fill, autospawn };
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
    /// The address cannot be used.
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
    session_slots: SessionSlots,
    listener: Arc<std::sync::Mutex<Option<TcpListener>>>,
    address: SocketAddr,
}

impl Handheld {
    /// Binds the address; no device is served before [`Handheld::start`].
    pub async fn open(setup: Setup, registry: Registry, clock: Clock) -> Result<Self, HandheldError> {
        let refused = |source| HandheldError::Listen { address: setup.listen, source };
        let listener = TcpListener::bind(setup.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let devices = Devices::open(registry.store(), clock.clone(), setup.allow).await?;
        let session_slots = SessionSlots::new(registry, clock, setup.slots, devices);
        Ok(Self { session_slots, listener: Arc::new(std::sync::Mutex::new(Some(listener))), address })
    }

    /// The listener for the log: plain HTTP, without tokens.
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

    /// The address it listens on, with the chosen port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The slots.
    pub fn session_slots(&self) -> &SessionSlots {
        &self.session_slots
    }

    /// The owner's API, for the main listener.
    pub fn routes(&self) -> Router {
        api::routes(self.clone())
    }

    /// Serves devices and keeps the slots up to date, until [`Handheld::stop`]. Devices are served when the slots are
    /// restored.
    pub fn start(&self) {
        let listener = self.listener.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(listener) = listener else { return };
        tracing::warn!(
            address = %self.address,
            "the handheld's listener speaks plain HTTP and takes no token: whoever has the address of an approved \
             device on this network can act as it"
        );
        let session_slots = self.session_slots.clone();
        self.session_slots.start();
        self.session_slots.spawn_task(listen::accept(listener, session_slots));
    }

    /// Accepts no new devices; later events do not change the stored slots.
    pub fn stop(&self) {
        self.session_slots.stop();
    }

    /// Returns when every connection has ended; call it after [`Handheld::stop`].
    pub async fn closed(&self) {
        self.session_slots.closed().await;
    }
}
