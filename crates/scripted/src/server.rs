//! The server: a listener on loopback, its bounds, and its end.
//!
//! It binds only to loopback, whatever the settings say. When it is shut down or dropped, the port is closed and every
//! connection with it; hanging replies end too.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    record::{Record, Recorded, WaitError},
    respond::respond,
    script::{Playing, Script},
};

/// Connections at once: an agent with all its subagents has a few dozen. Further connections wait in the system's
/// queue.
const CONNECTIONS: usize = 256;
/// A connection without a new request for this long is closed. Long, so that an agent never finds a connection closed
/// that it wants to use again.
const IDLE: Duration = Duration::from_mins(10);
/// The pause after the system had no file descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of the server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address: loopback; port 0 is a free port.
    pub address: SocketAddr,
    /// The key that every request must carry; none accepts every request with any key.
    pub key: Option<String>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), key: None }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is not loopback, so others could reach it.
    #[error("the scripted API listens on loopback only, not on `{0}`; use 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The system refused.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// A running scripted API. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: ServerSettings,
    pub(crate) record: Record,
    playing: Mutex<Playing>,
}

impl Shared {
    pub(crate) fn playing(&self) -> MutexGuard<'_, Playing> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Starts on a free port of loopback.
    pub async fn start(script: Script) -> Result<Self, ServerError> {
        Self::start_with(script, ServerSettings::default()).await
    }

    /// Starts as `settings` say.
    pub async fn start_with(script: Script, settings: ServerSettings) -> Result<Self, ServerError> {
        let asked = settings.address;
        if !asked.ip().is_loopback() {
            return Err(ServerError::NotLoopback(asked));
        }
        let refused = |source| ServerError::Listen { address: asked, source };
        let listener = TcpListener::bind(asked).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let shared =
            Arc::new(Shared { settings, record: Record::new(), playing: Mutex::new(Playing::new(script)) });
        let server = Self { address, shared, stop: CancellationToken::new(), tasks: TaskTracker::new() };
        server.tasks.spawn(accept(
            listener,
            server.shared.clone(),
            server.stop.clone(),
            server.tasks.clone(),
        ));
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The API's base URL for an agent.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Plays another script from its beginning, from the next request on.
    pub fn play(&self, script: Script) {
        *self.shared.playing() = Playing::new(script);
    }

    /// The requests so far, oldest first; only the newest if there are very many.
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        self.shared.record.requests()
    }

    /// Waits until `count` requests have come since the start.
    pub async fn wait_for(&self, count: u64, within: Duration) -> Result<Vec<Arc<Recorded>>, WaitError> {
        self.shared.record.wait(within, |requests, came| (came >= count).then(|| requests.to_vec())).await
    }

    /// Waits for a request for which `wanted` holds; an earlier request counts.
    pub async fn wait_until(
        &self,
        within: Duration,
        wanted: impl Fn(&Recorded) -> bool,
    ) -> Result<Arc<Recorded>, WaitError> {
        self.shared
            .record
            .wait(within, |requests, _| requests.iter().find(|request| wanted(request)).cloned())
            .await
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        // One task is the listener.
        self.tasks.len().saturating_sub(1)
    }

    /// Closes the port and every connection. Nothing of the server is left when it returns.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Both arms are cancel-safe: a permit or a connection that is not taken stays for the next time.
        let next = async {
            let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((listener.accept().await?.0, place))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let (shared, stop) = (shared.clone(), stop.clone());
                tasks.spawn(async move {
                    // A connection is dropped half-way when the server stops.
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = connection(stream, shared) => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Small events must leave at once; without this they only come later.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small packets may be held back");
    }
    let service = service_fn(|request| respond(&shared, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}
