//! The parts of Portolan for a program that is not the daemon.
//!
//! Owns the store, the registry and the checks of the door. Does not listen by itself: the program serves the router,
//! or opens a door with [`Portolan::listen`].

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
use portolan_holder::Holders;
pub use portolan_host::OpenError;
use portolan_host::{
    BindError, Frontend, Host, HostSettings, House, Open,
    door::{AccessCheck, Authenticator, DoorSettings, ListenAddress, Listening},
};
use portolan_store::{Durability, MemoryStore, SqliteStore};
use tokio::sync::OnceCell;

use crate::{
    Client,
    outliving::{self, Outliving},
};

/// The settings of an embedded Portolan.
#[derive(Clone)]
pub struct Settings {
    /// The store of the logs.
    pub store: Arc<dyn Store>,
    /// The agents that sessions may use: those of [`portolan_agents::catalogue`], the program's own, or both.
    pub agents: Vec<Arc<dyn Agent>>,
    /// The host names that the door accepts, and the address that it listens on. A program that serves the router
    /// itself names its own hosts here, such as `localhost:8080`: a request with any other host name is refused, so
    /// that no hostile web page can reach Portolan. [`Portolan::listen`] listens on this address; default: a free port
    /// of 127.0.0.1.
    pub door: DoorSettings,
    /// What sessions may do, and when a request is denied automatically.
    pub policy: Policy,
    /// Authenticates users. Without an authenticator Portolan uses its own tokens, which [`Portolan::token`] creates.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// How agents outlive the program. Without it, agents end with the program.
    pub outliving: Option<Outliving>,
    /// The version that clients see.
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
    /// The default settings, with this store.
    pub fn new(store: Arc<dyn Store>, agents: Vec<Arc<dyn Agent>>) -> Self {
        // The daemon has a fixed port. There may be many programs: each uses a free port and reports it.
        let anywhere_here = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Self {
            store,
            agents,
            door: DoorSettings { listen: vec![anywhere_here], ..DoorSettings::default() },
            policy: Policy::default(),
            authenticator: None,
            outliving: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Logs in memory, lost when the program ends. For tests.
    pub fn in_memory(agents: Vec<Arc<dyn Agent>>) -> Self {
        Self::new(Arc::new(MemoryStore::new()), agents)
    }

    /// Logs in a database at this path, which is created if missing. Blocks during the migration of an old database.
    pub fn in_file(path: &Path, agents: Vec<Arc<dyn Agent>>) -> Result<Self, StoreError> {
        Ok(Self::new(Arc::new(SqliteStore::open(path, Durability::Normal)?), agents))
    }

    /// Authenticates users only with the program's own accounts: tokens are then invalid, and none can be created.
    #[must_use]
    pub fn with_authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Agents go on when the program ends without [`Portolan::shutdown`], and its next start takes them over.
    #[must_use]
    pub fn with_outliving(mut self, outliving: Outliving) -> Self {
        self.outliving = Some(outliving);
        self
    }

    /// The host names of the program's own server.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.door.hosts.extend(hosts);
        self
    }
}

/// Why a door cannot open.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The daemon cannot listen on an address, or not with these settings.
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
    /// The addresses of the open doors.
    listening: Arc<OnceCell<Vec<Listening>>>,
    open: Arc<Mutex<Option<Open>>>,
    holders: Option<Holders>,
}

impl Portolan {
    /// Builds everything, with the native protocol. Sessions that a crash left open are settled in the background.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::open_with(settings, Vec::new()).await
    }

    /// The same, with more frontends: those of [`portolan_frontends::catalogue`](crate::frontends), the program's own,
    /// or both.
    pub async fn open_with(settings: Settings, frontends: Vec<Box<dyn Frontend>>) -> Result<Self, OpenError> {
        let Settings { store, agents, door, policy, authenticator, outliving, version } = settings;
        let (incarnation, home) = (None, None);
        let (agents, holders) = match &outliving {
            Some(outliving) => {
                let (agents, holders) = outliving.held(agents);
                outliving::sweep(&holders).await;
                (agents, Some(holders))
            }
            None => (agents, None),
        };
        let settings =
            HostSettings { store, agents, door, policy, authenticator, version, incarnation, home };
        let host = Host::open(settings).await?;
        if let Some(holders) = &holders {
            // Every session that was left open has been opened: nobody wants the agents that still wait.
            for session in holders.end_strays().await {
                tracing::warn!(%session, "an agent that belongs to no session was ended");
            }
        }
        let frontends = [native::frontend()].into_iter().chain(frontends).collect();
        let house = Arc::new(host.mount(frontends).await?);
        Ok(Self { house, listening: Arc::default(), open: Arc::default(), holders })
    }

    fn host(&self) -> &Host {
        self.house.host()
    }

    /// Every route of the frontends with its access checks: merge it into the program's own router, or serve it
    /// directly. All routes but the page's static files need a token.
    ///
    /// Add a [`door::Arrival`](crate::door::Arrival) to a request if the program knows how the request arrived;
    /// otherwise only the hosts of the settings count.
    pub fn router(&self) -> Router {
        self.house.router()
    }

    /// The same routes without access checks, for [`door::serve`](crate::door::serve()), which adds the checks itself.
    pub fn routes(&self) -> Router {
        self.house.routes()
    }

    /// Opens the doors of the settings, as the daemon does: the main listener, and the frontends' own listeners.
    /// Returns the address of the main listener, with the chosen port, and informs owners with
    /// [`DaemonEvent::DoorOpened`]. A second call returns the same address.
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

    /// The address for a browser, such as `http://127.0.0.1:40123`; `None` while no door of [`Portolan::listen`] is
    /// open.
    pub fn url(&self) -> Option<String> {
        let open = self.listening.get().filter(|_| !self.host().stopping.is_cancelled())?;
        open.iter().find_map(Listening::url)
    }

    /// The checks of the door, for [`door::serve`](crate::door::serve()).
    pub fn access(&self) -> Arc<AccessCheck> {
        Arc::clone(self.house.access())
    }

    /// The registry of all sessions: everything that frontends call.
    pub fn registry(&self) -> &Registry {
        &self.host().registry
    }

    /// A client for the program itself, as an owner of all sessions. Entries show it as a person with this name.
    pub fn client(&self, name: &str) -> Client {
        Client::owner(self.host().registry.clone(), name)
    }

    /// Creates a token for somebody else. Returns the secret for `Authorization: Bearer`, which is never shown again.
    /// Refused if [`Settings::authenticator`] is set.
    pub async fn token(&self, name: &str, role: Role) -> Result<String, Refusal> {
        let (made, secret) = self.host().tokens.create(name, role, None, None).await?;
        let created = DaemonEvent::TokenCreated { token: made.token, name: made.name, role };
        // The token exists even if the log cannot be written.
        if let Err(refusal) = self.host().registry.note(None, created).await {
            tracing::warn!(%refusal, "a new token is not in the log");
        }
        Ok(secret)
    }

    /// Stops everything in order: running turns get `grace`, then their agents are stopped, clients are informed, open
    /// doors are closed, and the store is flushed. Returns what did not stop.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        self.house.close();
        let problems = self.house.end_sessions(grace).await;
        self.closed(problems).await
    }

    /// Like [`Portolan::shutdown`], but agents go on running if [`Settings::outliving`] is set; the next start takes them
    /// over.
    pub async fn leave(&self, grace: Duration) -> Vec<String> {
        self.house.close();
        let problems = self.house.leave_sessions(grace).await;
        self.closed(problems).await
    }

    async fn closed(&self, mut problems: Vec<String>) -> Vec<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        problems.extend(self.house.closed(open).await);
        if let Some(holders) = &self.holders {
            holders.finished().await;
        }
        problems
    }
}
