//! The parts put together, for a program that is not the daemon.
//!
//! Owns the store, the registry and the keeper of the door. Listens nowhere by itself: the program serves the router, or
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
    ports::{Agent, Clock, Store, StoreError},
    registry::Registry,
    session::machine::Policy,
};
use portolan_frontends::native::{self, Metrics, Native};
use portolan_store::{Durability, MemoryStore, SqliteStore};
use tokio::sync::OnceCell;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::Client;
use portolan_host::door::{
    self, BadName, Door, DoorError, DoorSettings, Keeper, ListenAddress, Listening, Serving, Tickets, Tokens,
    guard,
};

/// How long connections and the store may take to close once every agent has ended.
const CLOSING: Duration = Duration::from_secs(10);

/// What Portolan is made from.
#[derive(Clone)]
pub struct Settings {
    /// Where the logs are kept.
    pub store: Arc<dyn Store>,
    /// The agents that sessions may use: those of [`portolan_agents::catalogue`], one's own, or both.
    pub agents: Vec<Arc<dyn Agent>>,
    /// What the keeper of the door believes. A program that serves the router itself names its own hosts here, such as
    /// `localhost:8080`: a request under any other name is refused, so that no page of a stranger can reach it.
    /// [`Portolan::listen`] listens where this says: a free port of 127.0.0.1 where nothing else is said.
    pub door: DoorSettings,
    /// What sessions may do, and when requests are denied by themselves.
    pub policy: Policy,
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

    /// The names under which the program's own server is reached.
    #[must_use]
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.door.hosts.extend(hosts);
        self
    }
}

/// Why Portolan cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A host or an origin in the settings is none.
    #[error(transparent)]
    Name(#[from] BadName),
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be had, or not in this way.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// Portolan stops, or cannot write down that it listens.
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
    native: Native,
    door: Arc<DoorSettings>,
    /// Where the door is open, once it is.
    listening: Arc<OnceCell<Vec<Listening>>>,
    serving: Arc<Mutex<Option<Serving>>>,
}

impl Portolan {
    /// Puts everything together. Sessions that a crash left open are settled in the background.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let Settings { store, agents, door, policy, version } = settings;
        let clock = Clock::system();
        let tokens = Tokens::open(Arc::clone(&store), clock.clone()).await?;
        let tickets = Tickets::open(Arc::clone(&store), clock.clone(), tokens.clone()).await?;
        let (reporter, notes) = door::reporter();
        let keeper = Keeper::new(&door, tokens.clone(), tickets, clock.clone())?
            .with_reporter(reporter)
            .with_open_paths(native::is_open);
        let registry = Registry::open(store, agents, clock, policy).await?;
        let native = Native {
            registry,
            keeper: Arc::new(keeper),
            tokens,
            version,
            incarnation: None,
            metrics: Metrics::new(),
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        let (registry, stopping) = (native.registry.clone(), native.stopping.clone());
        native.connections.spawn(async move {
            // It also ends with the keeper, where nobody shuts anything down.
            tokio::select! {
                () = stopping.cancelled() => {}
                () = notes.write(registry) => {}
            }
        });
        Ok(Self { native, door: Arc::new(door), listening: Arc::default(), serving: Arc::default() })
    }

    /// Every route of the native protocol with its guard: to be merged into, or served as, the program's own router. A
    /// token is asked for on all of them but the page's static files.
    ///
    /// Put a [`door::Arrival`] on requests where the program knows how they came in; without one,
    /// only the hosts of the settings count.
    pub fn router(&self) -> Router {
        guard(self.routes(), Arc::clone(&self.native.keeper))
    }

    /// The same routes bare, for [`door::serve`](crate::door::serve()), which puts the guard on itself.
    pub fn routes(&self) -> Router {
        native::routes(self.native.clone())
    }

    /// Opens the door of the settings, as the daemon does: one listener for REST and WebSocket. Gives where it listens,
    /// with the port that was picked, and tells owners by [`DaemonEvent::DoorOpened`]. Asked again, it gives the same.
    pub async fn listen(&self) -> Result<Vec<Listening>, ListenError> {
        if self.native.stopping.is_cancelled() {
            return Err(Refusal::new(RefusalCode::ShuttingDown, "Portolan is shutting down").into());
        }
        self.listening.get_or_try_init(|| self.open_door()).await.cloned()
    }

    async fn open_door(&self) -> Result<Vec<Listening>, ListenError> {
        let door = Door::bind(&self.door).await?;
        let addresses = door.addresses();
        // Connections wait; they are let in once it is in the log that the door is open.
        self.native.registry.note(None, door::opened(&self.door, &addresses)).await?;
        let serving = door.serve(self.keeper(), self.routes(), self.native.stopping.clone());
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        Ok(addresses)
    }

    /// What a browser opens, such as `http://127.0.0.1:40123`; none while no door of [`Portolan::listen`] is open.
    pub fn url(&self) -> Option<String> {
        let open = self.listening.get().filter(|_| !self.native.stopping.is_cancelled())?;
        open.iter().find_map(Listening::url)
    }

    /// The keeper of the door, for [`door::serve`](crate::door::serve()).
    pub fn keeper(&self) -> Arc<Keeper> {
        Arc::clone(&self.native.keeper)
    }

    /// Every session by its id: the whole of what frontends call.
    pub fn registry(&self) -> &Registry {
        &self.native.registry
    }

    /// The program itself as an owner of all sessions. Entries name it as a person of this name.
    pub fn client(&self, name: &str) -> Client {
        Client::owner(self.native.registry.clone(), name)
    }

    /// A token for somebody else, as the secret to be sent as `Authorization: Bearer`. It is told this once.
    pub async fn token(&self, name: &str, role: Role) -> Result<String, Refusal> {
        let (made, secret) = self.native.tokens.create(name, role, None, None).await?;
        let created = DaemonEvent::TokenCreated { token: made.token, name: made.name, role };
        // The token is there whether or not the log can take a line about it.
        if let Err(refusal) = self.native.registry.note(None, created).await {
            tracing::warn!(%refusal, "a new token is not in the log");
        }
        Ok(secret)
    }

    /// Ends everything in order: running turns get `grace`, then their agents are stopped, clients are told, the door is
    /// closed where one is open, and the store is written to the end. Gives what did not stop.
    pub async fn shutdown(&self, grace: Duration) -> Vec<String> {
        let mut stuck = self.native.registry.shutdown(grace).await;
        self.native.stopping.cancel();
        let close = async {
            self.native.closed().await;
            let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(serving) = serving {
                serving.closed().await;
            }
            self.native.registry.store().flush().await
        };
        match tokio::time::timeout(CLOSING, close).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => stuck.push(format!("the store was not written to the end: {error}")),
            Err(_) => stuck.push(format!("connections did not close within {} s", CLOSING.as_secs())),
        }
        stuck
    }
}
