//! The parts put together, for a program that is not the daemon.
//!
//! Owns the store, the registry and the checks of the door. Listens nowhere by itself: the program serves the router, or
//! has a door opened for it.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::Router;
use portolan_core::{
    DaemonEvent, Refusal, RefusalCode, Role,
    ports::{Agent, Store, StoreError},
    registry::Registry,
    session::machine::Policy,
};
use portolan_frontends::native;
pub use portolan_host::OpenError;
use portolan_host::{
    BindError, Frontend, Host, HostSettings, House, Open,
    door::{AccessCheck, Authenticator, DoorSettings, ListenAddress, Listening},
};
use portolan_store::{Durability, MemoryStore, SqliteStore};
use tokio::sync::OnceCell;

use crate::Client;

/// What Portolan is made from.
#[derive(Clone)]
pub struct Settings {
    /// Where the logs are kept.
    pub store: Arc<dyn Store>,
    /// The agents that sessions may use: those of [`portolan_agents::catalogue`], one's own, or both.
    pub agents: Vec<Arc<dyn Agent>>,
    /// Under which names the door lets requests in, and where it listens. A program that serves the router itself names its
    /// own hosts here, such as `localhost:8080`: a request under any other name is refused, so that no page of a stranger can
    /// reach it. [`Portolan::listen`] listens where this says: a free port of 127.0.0.1 where nothing else is said.
    pub door: DoorSettings,
    /// What sessions may do, and when requests are denied by themselves.
    pub policy: Policy,
    /// Who finds out who someone is. Without one Portolan has tokens of its own: [`Portolan::token`] makes them.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// The version told to clients.
    pub version: String,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("agents", &self.agents)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The usual ones, over this store.
    pub fn new(store: Arc<dyn Store>, agents: Vec<Arc<dyn Agent>>) -> Self {
        // The daemon has a port that is known. Programs are many: each takes a free one and tells which.
        let anywhere_here = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Self {
            store,
            agents,
            door: DoorSettings { listen: vec![anywhere_here], ..DoorSettings::default() },
            policy: Policy::default(),
            authenticator: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Logs in memory: gone with the program. For tests.
    pub fn in_memory(agents: Vec<Arc<dyn Agent>>) -> Self {
        Self::new(Arc::new(MemoryStore::new()), agents)
    }

    /// Logs in a database at this path, which is made where it is missing. Blocks while an old one is migrated.
    pub fn in_file(path: &Path, agents: Vec<Arc<dyn Agent>>) -> Result<Self, StoreError> {
        Ok(Self::new(Arc::new(SqliteStore::open(path, Durability::Normal)?), agents))
    }

    /// Lets people in by the program's own accounts, and by nothing else: tokens open nothing then, and none can be made.
    #[must_use]
    pub fn with_authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// The names under which the program's own server is reached.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.door.hosts.extend(hosts);
        self
    }
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be had, or not in this way.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Portolan stops.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Everything behind the door. Cheap to clone.
///
/// ```
/// # use portolan_embed::{Portolan, Settings};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let portolan = Portolan::open(Settings::in_memory(vec![])).await?;
/// assert_eq!(portolan.client("my program").sessions().await?, []);
/// let router: axum::Router = axum::Router::new().fallback_service(portolan.router());
/// # drop(router);
/// assert!(portolan.shutdown(std::time::Duration::ZERO).await.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Portolan {
    house: Arc<House>,
    /// Where the door is open, once it is.
    listening: Arc<OnceCell<Vec<Listening>>>,
    open: Arc<Mutex<Option<Open>>>,
}

impl Portolan {
    /// Puts everything together, with the native protocol. Sessions that a crash left open are settled in the background.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::open_with(settings, Vec::new()).await
    }

    /// The same, with more frontends: those of [`portolan_frontends::catalogue`](crate::frontends), one's own, or both.
    pub async fn open_with(settings: Settings, frontends: Vec<Box<dyn Frontend>>) -> Result<Self, OpenError> {
        let Settings { store, agents, door, policy, authenticator, version } = settings;
        let (incarnation, home) = (None, None);
        let settings =
            HostSettings { store, agents, door, policy, authenticator, version, incarnation, home };
        let host = Host::open(settings).await?;
        let frontends = [native::frontend()].into_iter().chain(frontends).collect();
        let house = Arc::new(host.mount(frontends).await?);
        Ok(Self { house, listening: Arc::default(), open: Arc::default() })
    }

    fn host(&self) -> &Host {
        self.house.host()
    }

    /// Every route of the frontends with its guard: to be merged into, or served as, the program's own router. A token is
    /// asked for on all of them but the page's static files.
    ///
    /// Put a [`door::Arrival`](crate::door::Arrival) on requests where the program knows how they came in; without one,
    /// only the hosts of the settings count.
    pub fn router(&self) -> Router {
        self.house.router()
    }

    /// The same routes bare, for [`door::serve`](crate::door::serve()), which puts the guard on itself.
    pub fn routes(&self) -> Router {
        self.house.routes()
    }

    /// Opens the doors of the settings, as the daemon does: one listener for everything, and those that frontends have of
    /// their own. Gives where the first listens, with the port that was picked, and tells owners by
    /// [`DaemonEvent::DoorOpened`]. Asked again, it gives the same.
    pub async fn listen(&self) -> Result<Vec<Listening>, ListenError> {
        if self.host().stopping.is_cancelled() {
            return Err(Refusal::new(RefusalCode::ShuttingDown, "Portolan is shutting down").into());
        }
        self.listening.get_or_try_init(|| self.open_doors()).await.cloned()
    }

    async fn open_doors(&self) -> Result<Vec<Listening>, ListenError> {
        let bound = self.house.bind().await?;
        let open = self.house.open(bound).await;
        let addresses = open.addresses.clone();
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(addresses)
    }

    /// What a browser opens, such as `http://127.0.0.1:40123`; none while no door of [`Portolan::listen`] is open.
    pub fn url(&self) -> Option<String> {
        let open = self.listening.get().filter(|_| !self.host().stopping.is_cancelled())?;
        open.iter().find_map(Listening::url)
    }

    /// The checks of the door, for [`door::serve`](crate::door::serve()).
    pub fn access(&self) -> Arc<AccessCheck> {
        Arc::clone(self.house.access())
    }

    /// Every session by its id: the whole of what frontends call.
    pub fn registry(&self) -> &Registry {
        &self.host().registry
    }

    /// The program itself as an owner of all sessions. Entries name it as a person of this name.
    pub fn client(&self, name: &str) -> Client {
        Client::owner(self.host().registry.clone(), name)
    }

    /// A token for somebody else, as the secret to be sent as `Authorization: Bearer`. It is told this once. Refused where
    /// [`Settings::authenticator`] lets people in.
    pub async fn token(&self, name: &str, role: Role) -> Result<String, Refusal> {
        let (made, secret) = self.host().tokens.create(name, role, None, None).await?;
        let created = DaemonEvent::TokenCreated { token: made.token, name: made.name, role };
        // The token is there whether or not the log can take a line about it.
        if let Err(refusal) = self.host().registry.note(None, created).await {
            tracing::warn!(%refusal, "a new token is not in the log");
        }
        Ok(secret)
    }

    /// Ends everything in order: running turns get `grace`, then their agents are stopped, clients are told, the doors are
    /// closed where some are open, and the store is written to the end. Gives what did not stop.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        self.house.close();
        let mut problems = self.house.end_sessions(grace).await;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        problems.extend(self.house.closed(open).await);
        problems
    }
}
