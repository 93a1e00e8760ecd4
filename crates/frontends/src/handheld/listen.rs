//! The handheld's own listener: plain TCP, no token. It is the one exception to the door, so it does little, within
//! limits: it checks the device before anything else, even before it reserves a place; it refuses browsers, and serves
//! only one document besides the WebSocket.

use std::{io, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tracing::Instrument as _;

use super::{
    device::{self, Visitor},
    devices::Peer,
    in_flight::InFlight,
    places::{Admission, Place, Places},
    session_slots::SessionSlots,
};
use portolan_host::door::Upgrade;

/// Time for the head of a request; a slow client holds a place no longer.
const HEAD: Duration = Duration::from_secs(10);

/// The longest head of a request. The app's head has 200 bytes.
const HEAD_BYTES: usize = 8 * 1024;

/// The most header lines of a request.
const HEADERS: usize = 32;

/// After this time without a byte, TCP probes whether the device is there: the app answers no ping.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The time between two probes.
const KEEP_ALIVE_STEP: Duration = Duration::from_secs(10);

/// How many probes may stay unanswered.
const KEEP_ALIVE_TRIES: u32 = 3;

/// A device that does not confirm bytes for this time is gone.
const UNCONFIRMED: Duration = Duration::from_secs(30);

/// The kernel's send buffer for a device. Buffered statuses are old when they arrive, so it holds a few statuses, not
/// minutes of them. The app's own buffer has 4,096 bytes.
const SEND_BUFFER: usize = 8 * 1024;

/// The pause after the system had no file descriptor left, so that other connections can end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to an unapproved device. It must not contain `101`, because the app only looks for that.
const HELD: &str = "waiting until an owner approves this device\n";

/// The answer to a web page.
const NO_PAGES: &str = "not for browsers\n";

/// The answer to anything else.
const GREETING: &str = "Portolan, for handhelds\n";

/// Accepts devices until the slots stop. Devices wait in the kernel's queue until the slots are restored: an early
/// device would see empty slots, and could fill them.
pub(super) async fn accept(listener: TcpListener, session_slots: SessionSlots) {
    session_slots.restored().await;
    let places = Places::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a device could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let span = tracing::info_span!("handheld", %peer);
        let (serving, from) = (session_slots.clone(), Peer::of(peer.ip()));
        let admitted = session_slots.devices().admit(from).is_some();
        let admission = if admitted { Admission::Device } else { Admission::Stranger };
        let Some(place) = places.take(from.address, admission) else {
            tracing::debug!(%peer, ?admission, "no room for another connection");
            continue;
        };
        session_slots.spawn_task(
            async move {
                if let Err(error) = connection(stream, from, serving, place).await {
                    tracing::debug!(%error, "connection ended");
                }
            }
            .instrument(span),
        );
    }
}

/// Makes TCP detect that a device is gone.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_STEP)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_TRIES)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(UNCONFIRMED.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    session_slots: SessionSlots,
    place: Place,
) -> io::Result<()> {
    watch_over(&stream)?;
    let entrance =
        Entrance { session_slots, peer, place: Arc::new(place), in_flight: Arc::new(InFlight::of(&stream)?) };
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = entrance.answer(request);
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

/// A connection before its WebSocket upgrade.
struct Entrance {
    session_slots: SessionSlots,
    peer: Peer,
    place: Arc<Place>,
    in_flight: Arc<InFlight>,
}

impl Entrance {
    /// The answer to a request. Checks first whether the device may connect, at every request, because the device may
    /// have been revoked since. A device that was approved since must reconnect, to get a place of its own.
    fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let admitted = self.session_slots.devices().admit(self.peer);
        let Some(who) = admitted.filter(|_| self.place.admission() == Admission::Device) else {
            return text(StatusCode::FORBIDDEN, HELD);
        };
        let (mut parts, _) = request.into_parts();
        // The app sends no Origin; every browser sends one when a page opens a WebSocket.
        if parts.headers.contains_key(header::ORIGIN) {
            return text(StatusCode::FORBIDDEN, NO_PAGES);
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        if parts.uri.path() == "/health" {
            return health(&self.session_slots, &parts.headers);
        }
        if parts.headers.contains_key(header::UPGRADE) {
            let visitor = Visitor { who, peer: self.peer, in_flight: Arc::clone(&self.in_flight) };
            return self.upgrade(visitor, &mut parts);
        }
        text(StatusCode::OK, GREETING)
    }

    fn upgrade(&self, visitor: Visitor, parts: &mut Parts) -> Response<Body> {
        let upgrade = match Upgrade::of(parts) {
            Ok(upgrade) => upgrade,
            Err((status, why)) => return text(status, why),
        };
        let (response, upgraded) = upgrade.accept();
        let (session_slots, place) = (self.session_slots.clone(), Arc::clone(&self.place));
        self.session_slots.tasks().spawn(
            async move {
                let _place = place;
                let Some(io) = upgraded.await else { return };
                device::serve(session_slots, visitor, io).await;
            }
            .in_current_span(),
        );
        response
    }
}

/// The state of the slots. A page that uses a host name for this address (DNS rebinding) gets nothing: the Host must be
/// an address. Not even `localhost`, where another user's page can be.
fn health(session_slots: &SessionSlots, headers: &HeaderMap) -> Response<Body> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let plain = name.trim_start_matches('[').trim_end_matches(']');
    if !plain.is_empty() && plain.parse::<IpAddr>().is_err() {
        return text(StatusCode::FORBIDDEN, NO_PAGES);
    }
    let body = serde_json::to_vec(&session_slots.health()).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn text(status: StatusCode, words: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(words));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    if status == StatusCode::FORBIDDEN {
        // A refused connection keeps no place.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
