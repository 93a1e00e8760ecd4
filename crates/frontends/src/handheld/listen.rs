//! The handheld's own listener: plain TCP, no token. The one exception to the door, so it does little and bounds all of
//! it: who may come in is asked before anything else, browsers are turned away, and there is one document beside the
//! WebSocket.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_core::Principal;
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tracing::Instrument as _;

use super::{device, devices::Origin, hub::Hub};
use crate::native::socket::Upgrade;

/// Connections at once: four slots interest one household, not a crowd.
const CONNECTIONS: usize = 32;

/// Time for a request's head; a client that dribbles holds a place no longer.
const HEAD: Duration = Duration::from_secs(10);

/// Bytes of a request's head. The app's has 200.
const HEAD_BYTES: usize = 8 * 1024;

/// Header lines of a request.
const HEADERS: usize = 32;

/// After so long without a byte TCP asks whether the device is there: the app answers no ping.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Between two such questions.
const KEEP_ALIVE_STEP: Duration = Duration::from_secs(10);

/// Questions that may stay unanswered.
const KEEP_ALIVE_TRIES: u32 = 3;

/// Bytes that the device does not confirm for so long mean that it is gone.
const UNCONFIRMED: Duration = Duration::from_secs(30);

/// After the system had no file descriptor left for a connection: a moment for others to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a device that nobody let in is told. It must not hold `101`, which is all that the app looks for.
const HELD: &str = "held at the door until the owner approves this device\n";

/// What a page is told.
const NO_PAGES: &str = "not for browsers\n";

/// What anything else is told.
const GREETING: &str = "Portolan, for handhelds\n";

/// Accepts devices until the hub stops.
pub(super) async fn accept(listener: TcpListener, hub: Hub) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a device could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!(%peer, "no room for another device");
            continue;
        };
        let span = tracing::info_span!("handheld", %peer);
        let serving = hub.clone();
        hub.spawn_task(
            async move {
                if let Err(error) = connection(stream, peer, serving, place).await {
                    tracing::debug!(%error, "connection ended");
                }
            }
            .instrument(span),
        );
    }
}

/// Lets TCP find out by itself that a device is gone.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_STEP)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_TRIES)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(UNCONFIRMED.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    hub: Hub,
    place: OwnedSemaphorePermit,
) -> io::Result<()> {
    watch_over(&stream)?;
    let address = peer.ip().to_canonical();
    let origin = Origin::of(address);
    let place = Arc::new(place);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&hub, address, origin, &place, request);
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    pin!(connection).await.map_err(io::Error::other)
}

/// What a request is answered. Whether the device may be here comes first.
fn answer(
    hub: &Hub,
    peer: IpAddr,
    origin: Origin,
    place: &Arc<OwnedSemaphorePermit>,
    request: Request<Incoming>,
) -> Response<Body> {
    let Some(who) = hub.devices().admit(peer, origin) else {
        return text(StatusCode::FORBIDDEN, HELD);
    };
    let (mut parts, _) = request.into_parts();
    // The app sends no Origin; every browser does that lets a page open a WebSocket.
    if parts.headers.contains_key(header::ORIGIN) {
        return text(StatusCode::FORBIDDEN, NO_PAGES);
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        response.headers_mut().insert(header::ALLOW, http::HeaderValue::from_static("GET"));
        return response;
    }
    if parts.uri.path() == "/health" {
        return health(hub, &parts.headers);
    }
    if parts.headers.contains_key(header::UPGRADE) {
        return upgrade(hub, who, origin, peer, place, &mut parts);
    }
    text(StatusCode::OK, GREETING)
}

fn upgrade(
    hub: &Hub,
    who: Principal,
    origin: Origin,
    peer: IpAddr,
    place: &Arc<OwnedSemaphorePermit>,
    parts: &mut Parts,
) -> Response<Body> {
    let upgrade = match Upgrade::of(parts) {
        Ok(upgrade) => upgrade,
        Err((status, why)) => return text(status, why),
    };
    let (response, upgraded) = upgrade.accept();
    let (serving, place) = (hub.clone(), Arc::clone(place));
    hub.tasks().spawn(
        async move {
            let _place = place;
            let Some(io) = upgraded.await else { return };
            let put_out = serving.devices().until_put_out(peer, origin);
            device::serve(serving.clone(), who, io, put_out).await;
        }
        .in_current_span(),
    );
    response
}

/// What the slots do. A page that was made to look like ours (by a name that leads here) is told nothing: only an
/// address, or localhost, is a name for this.
fn health(hub: &Hub, headers: &HeaderMap) -> Response<Body> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let plain = name.trim_start_matches('[').trim_end_matches(']');
    if !plain.is_empty() && plain != "localhost" && plain.parse::<IpAddr>().is_err() {
        return text(StatusCode::FORBIDDEN, NO_PAGES);
    }
    let body = serde_json::to_vec(&hub.health()).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn text(status: StatusCode, words: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(words));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
