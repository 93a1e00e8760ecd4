//! Serving: accepts connections, each in its own task, within the limits of the settings.
//!
//! No client can block the accept loop: handshakes, peer checks and requests all happen in the connection's task. A
//! place is held until the connection's last byte, also after an upgrade.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, response::IntoResponse as _};
use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_core::RefusalCode;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use tracing::Instrument as _;

use super::{
    access::{AccessCheck, Arrival},
    bind::{Door, DoorError, Listening},
    denied::Denied,
    guard::guard,
    leash::{Leashed, Leashes},
    places::{Counted, Places},
    settings::{DoorLimits, DoorSettings, PeerCheck},
};

/// How often the checks forget what has expired and write what was postponed.
const TIDY: Duration = Duration::from_mins(1);
/// The pause after the system had no file descriptor left for a connection, so that others can end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The open door.
#[derive(Debug)]
pub struct Serving {
    /// The addresses it listens on.
    pub addresses: Vec<Listening>,
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl Serving {
    /// Ends everything that is still open, including WebSockets, each with a moment to end by itself. Returns when the
    /// door is closed and every connection has ended. Call it after `shutdown`, and after frontends have informed their
    /// clients.
    pub async fn closed(self) {
        self.end.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the task that serves the listeners failed");
        }
    }
}

/// Binds, then serves `router` behind the checks until `shutdown`. Pass the router without the guard: this function
/// adds it.
pub async fn serve(
    settings: &DoorSettings,
    access: Arc<AccessCheck>,
    router: Router,
    shutdown: CancellationToken,
) -> Result<Serving, DoorError> {
    Ok(Door::bind(settings).await?.serve(access, router, shutdown))
}

#[derive(Clone)]
struct Shared {
    router: Router,
    limits: Arc<DoorLimits>,
    places: Places,
    tls: Option<TlsAcceptor>,
    peer_check: PeerCheck,
    access: Arc<AccessCheck>,
    tasks: TaskTracker,
    leashes: Leashes,
    stop: CancellationToken,
}

impl Door {
    /// Serves `router` behind the checks until `shutdown`. Then it accepts no new connections, and open requests get a
    /// moment.
    pub fn serve(self, access: Arc<AccessCheck>, router: Router, shutdown: CancellationToken) -> Serving {
        let addresses = self.addresses();
        let settings = self.settings;
        let proxies = if settings.behind_proxy { settings.proxies } else { Vec::new() };
        let (limits, tasks, end) = (Arc::new(settings.limits), TaskTracker::new(), CancellationToken::new());
        let shared = Shared {
            router: guard(router, access.clone()),
            places: Places::new(&limits, proxies),
            leashes: Leashes { tasks: tasks.clone(), end: end.clone(), limits: Arc::clone(&limits) },
            limits,
            tls: self.tls.map(TlsAcceptor::from),
            peer_check: settings.peer_check,
            access: Arc::clone(&access),
            tasks,
            stop: shutdown,
        };
        for (listener, local) in self.tcp {
            let span = tracing::info_span!("listener", %local);
            shared.tasks.spawn(accept_tcp(listener, shared.clone()).instrument(span));
        }
        for (listener, file) in self.unix {
            let shared_here = shared.clone();
            let accept = async move {
                accept_unix(listener, shared_here).await;
                drop(file);
            };
            shared.tasks.spawn(accept.instrument(tracing::info_span!("listener", local = "unix")));
        }
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(TIDY);
            // Both arms are cancel-safe: a lost tick comes again.
            while !shared.stop.is_cancelled() {
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    _ = tick.tick() => access.tidy().await,
                }
            }
            shared.tasks.close();
            shared.tasks.wait().await;
            access.tidy().await;
        });
        Serving { addresses, task, end }
    }
}

async fn accept_tcp(listener: TcpListener, shared: Shared) {
    loop {
        // Both arms are cancel-safe.
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                rest(error).await;
                continue;
            }
        };
        let Some(place) = shared.places.take(peer.ip()) else {
            turn_away(&stream, peer);
            continue;
        };
        let shared_here = shared.clone();
        shared.tasks.spawn(async move {
            if let Err(error) = tcp_connection(Counted::new(stream, place), peer, shared_here).await {
                tracing::debug!(%peer, %error, "connection ended");
            }
        });
    }
}

async fn tcp_connection(stream: Counted<TcpStream>, peer: SocketAddr, shared: Shared) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    let local = stream.get_ref().local_addr()?;
    let arrival = |secure| Arrival::Tcp { peer, local, secure };
    let Some(tls) = shared.tls.clone() else { return http(stream, Some(arrival(false)), shared).await };
    let handshake = tokio::time::timeout(shared.limits.handshake, tls.accept(stream));
    // Cancel-safe, because nobody needs a connection whose handshake was cut short by the end.
    let stream = tokio::select! {
        () = shared.stop.cancelled() => return Ok(()),
        stream = handshake => stream.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"))??,
    };
    http(stream, Some(arrival(true)), shared).await
}

async fn accept_unix(listener: UnixListener, shared: Shared) {
    loop {
        // Both arms are cancel-safe.
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                rest(error).await;
                continue;
            }
        };
        let Some(place) = shared.places.take_unix() else {
            tracing::warn!("too many connections on the socket");
            continue;
        };
        let shared_here = shared.clone();
        shared.tasks.spawn(async move {
            let arrival = is_welcome(&stream, &shared_here).then_some(Arrival::Unix);
            if let Err(error) = http(Counted::new(stream, place), arrival, shared_here).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

/// Whether the process at the other end is allowed.
fn is_welcome(stream: &UnixStream, shared: &Shared) -> bool {
    let Ok(peer) = stream.peer_cred() else { return false };
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    let welcome = is_ours(peer.uid(), pid, rustix::process::geteuid().as_raw(), &shared.peer_check);
    if !welcome {
        tracing::warn!(uid = peer.uid(), pid, "a process was refused at the socket");
        shared.access.refused_at_the_socket(peer.uid(), pid);
    }
    welcome
}

/// A process of our user that is not an agent's. A process that we cannot see (another pid namespace) has no pid for
/// us, or 0: it could belong to anyone.
pub(super) fn is_ours(uid: u32, pid: Option<u32>, own_uid: u32, peer_check: &PeerCheck) -> bool {
    uid == own_uid && pid.is_some_and(|pid| pid > 0 && peer_check(pid))
}

/// Speaks HTTP on a connection; without an arrival, only to refuse.
async fn http<S>(stream: S, arrival: Option<Arrival>, shared: Shared) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = shared.router;
    let leash = shared.leashes.leash();
    let stream = Leashed::new(stream, leash.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, arrival, leash) = (router.clone(), arrival.clone(), leash.clone());
        async move {
            let Some(arrival) = arrival else { return Ok(refused_peer().into_response()) };
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(arrival);
            request.extensions_mut().insert(leash);
            router.oneshot(request).await
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head)
        .max_header_size(shared.limits.head_bytes)
        .max_headers(shared.limits.headers)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    // The other arm does not drop the connection: it continues below.
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(io::Error::other),
        () = shared.stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(shared.limits.drain, connection)
        .await
        .map_or(Ok(()), |ended| ended.map_err(io::Error::other))
}

fn refused_peer() -> Denied {
    Denied::new(
        StatusCode::FORBIDDEN,
        RefusalCode::Forbidden,
        "this process may not use the socket: the process belongs to another user, or an agent started the process; \
         use Portolan from your own terminal",
    )
}

/// Informs a client that there is no room, with one write that does not wait.
fn turn_away(stream: &TcpStream, peer: SocketAddr) {
    const NO_ROOM: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    tracing::debug!(%peer, "no room for another connection");
    // Over TLS these bytes are meaningless, and the client sees the connection close anyway.
    let _ = stream.try_write(NO_ROOM);
}

/// A client that left before it was accepted is ignored; a lack of file descriptors is logged and needs a pause.
async fn rest(error: io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
