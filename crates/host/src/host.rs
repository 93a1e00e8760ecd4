//! Combines Portolan's parts: sessions, tokens, the doors and the frontends behind them. The daemon and programs that
//! embed Portolan open the same host, each with its own frontends.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::Router;
use portolan_core::{
    DaemonEvent,
    ports::{Agent, Boxed, Clock, Store, StoreError},
    registry::Registry,
    session::machine::Policy,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Frontend, MountError, Mounted, Place, Start,
    door::{
        self, AccessCheck, Authenticator, BadName, Door, DoorError, DoorSettings, ListenAddress, Listening,
        Notes, Reporter, Serving, Tickets, Tokens, guard,
    },
};

/// How long connections and the store may take to close after every agent has ended.
pub const CLOSING: Duration = Duration::from_secs(10);

/// How long the start waits for each entry about a door: a commit takes far less than a millisecond.
const NOTED: Duration = Duration::from_secs(1);

/// The settings of a host.
#[derive(Clone)]
pub struct HostSettings {
    /// The store of the logs.
    pub store: Arc<dyn Store>,
    /// The agents that sessions may use.
    pub agents: Vec<Arc<dyn Agent>>,
    /// The settings of the main listener.
    pub door: DoorSettings,
    /// The rules for sessions.
    pub policy: Policy,
    /// Finds out who a client is, instead of the tokens in the store.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// The version that clients see.
    pub version: String,
    /// The incarnation that clients see: another one means that the logs were replaced. Absent if unknown.
    pub incarnation: Option<String>,
    /// The folder with Portolan's own files, if there is one.
    pub home: Option<PathBuf>,
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSettings")
            .field("agents", &self.agents)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}

/// The base of the frontends. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    /// Every session by its id.
    pub registry: Registry,
    /// Finds out who a client is: the tokens, or what the embedding program brought.
    pub authenticator: Arc<dyn Authenticator>,
    /// The tokens.
    pub tokens: Arc<Tokens>,
    /// The tickets and browsers.
    pub tickets: Arc<Tickets>,
    /// The clock.
    pub clock: Clock,
    /// The settings of the main listener.
    pub door: Arc<DoorSettings>,
    /// The version that clients see.
    pub version: String,
    /// The incarnation: another one means that the logs were replaced.
    pub incarnation: Option<String>,
    /// The folder with Portolan's own files: no frontend approves a change in it by itself.
    pub home: Option<PathBuf>,
    /// Cancelled when every session has ended: connections then send the reason and close.
    pub stopping: CancellationToken,
    /// Every open connection and event stream; the host waits for them at the end.
    pub connections: TaskTracker,
    /// Cancelled when the host begins to stop: nobody is let in any more, and tasks end.
    pub closing: CancellationToken,
    /// Background work, until `closing`.
    pub tasks: TaskTracker,
    reporter: Reporter,
}

/// Why a host cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A host or an origin in the settings is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A frontend cannot be mounted.
    #[error(transparent)]
    Frontend(#[from] MountError),
    /// A frontend's setting is invalid.
    #[error("[{frontend}] {error}")]
    Setting {
        /// The frontend.
        frontend: &'static str,
        /// The reason.
        error: BadName,
    },
}

/// The own addresses of a frontend.
#[derive(Clone, Debug)]
struct Own {
    frontend: &'static str,
    addresses: Vec<SocketAddr>,
}

impl Own {
    fn of(frontends: &[Box<dyn Frontend>]) -> Vec<Self> {
        let own = frontends.iter().map(|one| Self { frontend: one.name(), addresses: one.addresses() });
        own.filter(|own| !own.addresses.is_empty()).collect()
    }
}

/// Every address of the host, taken and not yet open: connections wait.
#[derive(Debug)]
pub struct Bound {
    main: Door,
    own: Vec<(&'static str, Door)>,
}

/// An address is not available.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address of the main listener.
    #[error(transparent)]
    Main(#[from] DoorError),
    /// An address of a frontend.
    #[error("[{frontend}] {error}")]
    Own {
        /// The frontend.
        frontend: &'static str,
        /// The reason.
        error: DoorError,
    },
}

impl Bound {
    /// Takes every address, of the main listener and of these frontends, or none.
    pub async fn bind(door: &DoorSettings, frontends: &[Box<dyn Frontend>]) -> Result<Self, BindError> {
        Self::take(door, &Own::of(frontends)).await
    }

    async fn take(door: &DoorSettings, wanted: &[Own]) -> Result<Self, BindError> {
        let main = Door::bind(door).await?;
        let mut own = Vec::new();
        for Own { frontend, addresses } in wanted {
            let (frontend, listen) = (*frontend, addresses.iter().copied().map(ListenAddress::Tcp).collect());
            let settings = DoorSettings { listen, ..door.clone() };
            let bound = Door::bind(&settings).await.map_err(|error| BindError::Own { frontend, error })?;
            own.push((frontend, bound));
        }
        Ok(Self { main, own })
    }

    /// The addresses of the main listener.
    pub fn addresses(&self) -> Vec<Listening> {
        self.main.addresses()
    }
}

/// A listener with everything on it.
#[derive(Debug)]
struct Listener {
    frontend: Option<&'static str>,
    access: Arc<AccessCheck>,
    routes: Router,
    origins: Vec<String>,
    tokenless: bool,
}

/// A host with its frontends, not yet open.
#[derive(Debug)]
pub struct House {
    host: Host,
    main: Listener,
    own: Vec<Listener>,
    opened: Vec<DaemonEvent>,
    lives: Mutex<Vec<Life>>,
    wanted: Vec<Own>,
}

/// What the host does for one frontend while it lives.
#[derive(Default)]
struct Life {
    start: Option<Start>,
    stop: Option<Box<dyn FnOnce() + Send>>,
    ended: Option<Boxed<'static, ()>>,
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").finish_non_exhaustive()
    }
}

impl Host {
    /// Opens the store's sessions and tokens. Sessions that a crash left open are settled in the background.
    pub async fn open(settings: HostSettings) -> Result<Self, OpenError> {
        let HostSettings { store, agents, door, policy, authenticator, version, incarnation, home } =
            settings;
        let clock = Clock::system();
        let (tokens, authenticator) = if let Some(brought) = authenticator {
            (Tokens::unused(Arc::clone(&store), clock.clone()), brought)
        } else {
            let tokens = Tokens::open(Arc::clone(&store), clock.clone()).await?;
            (Arc::clone(&tokens), tokens as Arc<dyn Authenticator>)
        };
        let tickets = Tickets::open(Arc::clone(&store), clock.clone(), Arc::clone(&authenticator)).await?;
        let (reporter, notes) = door::reporter();
        let registry = Registry::open(store, agents, clock.clone(), policy).await?;
        let host = Self {
            registry,
            authenticator,
            tokens,
            tickets,
            clock,
            door: Arc::new(door),
            version,
            incarnation,
            home,
            stopping: CancellationToken::new(),
            connections: TaskTracker::new(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            reporter,
        };
        host.write_notes(notes);
        Ok(host)
    }

    /// Writes the doors' events to the log while any listener reports.
    fn write_notes(&self, notes: Notes) {
        let (registry, stopping) = (self.registry.clone(), self.stopping.clone());
        self.connections.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = notes.write(registry) => {}
            }
        });
    }

    /// Starts a task that ends when the host begins to stop. A panic in the task is logged and ends only the task.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Mounts these frontends on the host, each on the main listener and on its own.
    pub async fn mount(self, frontends: Vec<Box<dyn Frontend>>) -> Result<House, OpenError> {
        let (mut main, wanted) = (Vec::new(), Own::of(&frontends));
        let (mut own, mut opened, mut lives) = (Vec::new(), Vec::new(), Vec::new());
        for frontend in frontends {
            let name = frontend.name();
            let mounted: Mounted = frontend.mount(&self).await?;
            main.extend(mounted.main.map(|place| (name, place)));
            if let Some(place) = mounted.own {
                own.push(self.listener(Some(name), vec![(name, place)])?);
            }
            opened.extend(mounted.opened);
            lives.push(Life { start: mounted.start, stop: mounted.stop, ended: mounted.ended });
        }
        let main = self.listener(None, main)?;
        Ok(House { host: self, main, own, opened, lives: Mutex::new(lives), wanted })
    }

    fn listener(
        &self,
        frontend: Option<&'static str>,
        places: Vec<(&'static str, Place)>,
    ) -> Result<Listener, OpenError> {
        let mut access = AccessCheck::new(
            &self.door,
            Arc::clone(&self.authenticator),
            Arc::clone(&self.tickets),
            self.clock.clone(),
        )?
        .with_reporter(self.reporter.clone());
        let mut origins = self.door.origins.clone();
        for (frontend, place) in &places {
            for admit in &place.admits {
                origins.extend(admit.origins().iter().cloned());
                let refused = |error| OpenError::Setting { frontend, error };
                access = access.admitting(admit.clone()).map_err(refused)?;
            }
        }
        let access = Arc::new(access);
        let tokenless = places.iter().any(|(_, place)| place.tokenless);
        let routes = places
            .into_iter()
            .fold(Router::new(), |routes, (_, place)| routes.merge((place.routes)(&access)));
        Ok(Listener { frontend, access, routes, origins, tokenless })
    }
}

impl House {
    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The checks of the main listener.
    pub fn access(&self) -> &Arc<AccessCheck> {
        &self.main.access
    }

    /// Everything on the main listener, behind its guard, for a program that serves it by itself.
    pub fn router(&self) -> Router {
        guard(self.routes(), Arc::clone(&self.main.access))
    }

    /// The same without the guard, for [`door::serve`](crate::door::serve()), which adds it.
    pub fn routes(&self) -> Router {
        self.main.routes.clone()
    }

    /// Takes every address, or none. The daemon uses [`Bound::bind`], before it opens its store.
    pub async fn bind(&self) -> Result<Bound, BindError> {
        Bound::take(&self.host.door, &self.wanted).await
    }

    /// Starts every frontend and opens every door. The log says that a door is open before anyone comes in.
    pub async fn open(&self, bound: Bound) -> Open {
        let addresses = bound.addresses();
        let mut doors = vec![self.main.opened(&self.host.door, &addresses)];
        let mut own = Vec::new();
        for (name, door) in bound.own {
            // A frontend without a place there serves nobody, and its address is released.
            let Some(listener) = self.own.iter().find(|listener| listener.frontend == Some(name)) else {
                continue;
            };
            doors.push(listener.opened(&self.host.door, &door.addresses()));
            own.push((listener, door));
        }
        doors.extend(self.opened.iter().cloned());
        for opened in doors {
            self.host.note_door(opened).await;
        }
        // Before anyone comes in: an agent that is started at once must know where to connect.
        for start in self.take(|life| life.start.take()) {
            start(&addresses);
        }
        let serve = |listener: &Listener, door: Door| {
            if let Some(frontend) = listener.frontend {
                for url in door.addresses().iter().filter_map(Listening::url) {
                    let tokenless = listener.tokenless;
                    tracing::info!(frontend, url, tokenless, "a frontend has a listener of its own");
                }
            }
            let closing = self.host.closing.clone();
            door.serve(Arc::clone(&listener.access), listener.routes.clone(), closing)
        };
        let mut serving = vec![serve(&self.main, bound.main)];
        serving.extend(own.into_iter().map(|(listener, door)| serve(listener, door)));
        Open { addresses, serving }
    }

    /// A part of every frontend's life, if the frontend has it.
    fn take<T>(&self, of: impl FnMut(&mut Life) -> Option<T>) -> Vec<T> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().filter_map(of).collect()
    }

    /// Begins to stop: nobody new is let in, and tasks end. Sessions continue until [`House::end_sessions`].
    pub fn close(&self) {
        self.host.closing.cancel();
        for stop in self.take(|life| life.stop.take()) {
            stop();
        }
    }

    /// Ends every session; running turns get `grace`. Returns what did not stop.
    pub async fn end_sessions(&self, grace: Duration) -> Vec<String> {
        let stuck = self.host.registry.shutdown(grace).await;
        stuck.into_iter().map(|name| format!("the agent of {name} did not stop")).collect()
    }

    /// Like [`House::end_sessions`], but agents that outlive the daemon go on running.
    pub async fn leave_sessions(&self, grace: Duration) -> Vec<String> {
        let stuck = self.host.registry.leave(grace).await;
        stuck.into_iter().map(|name| format!("the agent of {name} did not stop")).collect()
    }

    /// Closes every connection with its reason, and writes the store to its end. Call it after the sessions have ended.
    /// Returns what went wrong.
    pub async fn closed(&self, open: Option<Open>) -> Option<String> {
        let host = &self.host;
        host.stopping.cancel();
        let close = async {
            let serving = open.map(|open| open.serving).unwrap_or_default();
            futures_util::future::join_all(serving.into_iter().map(Serving::closed)).await;
            host.connections.close();
            host.connections.wait().await;
            for ended in self.take(|life| life.ended.take()) {
                ended.await;
            }
            host.tasks.close();
            host.tasks.wait().await;
            host.registry.store().flush().await
        };
        match tokio::time::timeout(CLOSING, close).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the store was not completely written: {error}")),
            Err(_) => Some(format!("connections or the store did not close within {} s", CLOSING.as_secs())),
        }
    }
}

/// The open doors of a house.
#[derive(Debug)]
pub struct Open {
    /// The addresses of the main listener.
    pub addresses: Vec<Listening>,
    serving: Vec<Serving>,
}

impl Listener {
    /// The settings of the listener, for the log.
    fn opened(&self, settings: &DoorSettings, addresses: &[Listening]) -> DaemonEvent {
        let settings = DoorSettings { origins: self.origins.clone(), ..settings.clone() };
        let mut opened = door::opened(&settings, addresses);
        if let DaemonEvent::DoorOpened { frontend, tokenless, .. } = &mut opened {
            *frontend = self.frontend.map(str::to_owned);
            *tokenless = self.tokenless;
        }
        opened
    }
}

impl Host {
    async fn note_door(&self, opened: DaemonEvent) {
        match tokio::time::timeout(NOTED, self.registry.note(None, opened)).await {
            Ok(Ok(_)) => {}
            Ok(Err(refusal)) => {
                tracing::warn!(%refusal, "the settings of a listener are not in the daemon's log");
            }
            Err(_) => tracing::warn!(
                "the settings of a listener are not in the daemon's log yet: the store is slow"
            ),
        }
    }
}
