//! The endpoint where agents dial in: `/ws/cli/SESSION` on the main listener.
//!
//! Only the agent that is expected for the session may connect, with the secret of that start. The secret is checked
//! before the upgrade. The door checks Host and Origin first, as for every request. The endpoint only forwards frames.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{
        Path, Request, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket},
    },
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use portolan_agents::dial_in::{Admitted, CLOSE_FOR_GOOD, DialIn};
use portolan_core::{SessionId, ports::Boxed};
use portolan_host::{
    Frontend, Host, MountError, Mounted, Place, Start,
    door::{Admit, Listening},
};
use tokio::sync::Semaphore;

const PREFIX: &str = "/ws/cli/";

/// The largest frame that an agent may send: the largest allowed line.
const FRAME_BYTES: usize = portolan_wire::ndjson::MAX_LINE;

/// Connections to a port of one's own that have not shown their secret. The agent needs one; further ones wait in the
/// listener's queue.
const STRANGERS: usize = 8;

/// How long a connection to a port of one's own may take to send the head of its request. An agent sends it at once.
const HEAD: Duration = Duration::from_secs(5);

/// After an error of the listener, such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Paths that need their own secret instead of a token.
pub(crate) fn is_open(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|session| session.parse::<SessionId>().is_ok())
}

/// The endpoint where agents dial in, on the main listener.
pub(crate) fn frontend(dial_in: DialIn) -> Box<dyn Frontend> {
    Box::new(DialInFrontend(dial_in))
}

#[derive(Debug)]
struct DialInFrontend(DialIn);

impl Frontend for DialInFrontend {
    fn name(&self) -> &'static str {
        "dial-in"
    }

    fn mount(self: Box<Self>, _: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        let Self(dial_in) = *self;
        let announced = dial_in.clone();
        let main = Some(Place::new(move |_| routes(dial_in)).admitting(Admit::open(is_open)));
        let start: Option<Start> = Some(Box::new(move |listening| announce(&announced, listening)));
        Box::pin(std::future::ready(Ok(Mounted { main, start, ..Mounted::default() })))
    }
}

/// The route.
pub(crate) fn routes(dial_in: DialIn) -> Router {
    Router::new().route("/ws/cli/{session}", get(enter)).with_state(dial_in)
}

/// Sets the address where agents dial in: an address of this machine that needs no certificate. Without such an
/// address, agents cannot dial in.
pub(crate) fn announce(dial_in: &DialIn, listening: &[Listening]) {
    let plain = listening.iter().filter_map(Listening::url).find_map(|url| {
        let rest = url.strip_prefix("http://")?;
        Some(format!("ws://{rest}"))
    });
    if let Some(base) = plain {
        dial_in.listens_at(base);
    }
}

/// Takes agents on a port of its own, for a process without the daemon's listener. Returns the address.
pub(crate) fn listen_on_loopback(dial_in: &DialIn) -> io::Result<String> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = routes(dial_in.clone())
        .layer(middleware::from_fn(move |request, next| direct(address, request, next)));
    // This task ends with the program.
    tokio::spawn(serve(listener, routes));
    Ok(format!("ws://{address}"))
}

/// Serves connections of this machine, of which any user can make any number.
async fn serve(listener: tokio::net::TcpListener, routes: Router) {
    let room = Arc::new(Semaphore::new(STRANGERS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection ended");
            }
            // An agent that was let in needs no place any more.
            drop(place);
        });
    }
}

/// Refuses what a browser sends: a page elsewhere, or a name that was made to point here.
async fn direct(address: SocketAddr, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let is_direct = host == Some(&*address.to_string()) && !request.headers().contains_key(header::ORIGIN);
    if is_direct { next.run(request).await } else { StatusCode::FORBIDDEN.into_response() }
}

async fn enter(
    State(dial_in): State<DialIn>,
    Path(session): Path<String>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let admitted = session
        .parse::<SessionId>()
        .ok()
        .zip(bearer)
        .and_then(|(session, bearer)| dial_in.admit(session, bearer));
    let Some(admitted) = admitted else {
        return (StatusCode::UNAUTHORIZED, "no agent is expected here with that secret").into_response();
    };
    upgrade
        .max_message_size(FRAME_BYTES)
        .max_frame_size(FRAME_BYTES)
        .on_upgrade(|socket| pass(socket, admitted))
}

/// Forwards frames both ways until either side is gone.
async fn pass(mut socket: WebSocket, admitted: Admitted) {
    let Admitted { incoming, mut outgoing } = admitted;
    loop {
        tokio::select! {
            frame = socket.recv() => {
                let bytes = match frame {
                    Some(Ok(Message::Text(text))) => text.into(),
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if !incoming.frame(bytes).await {
                    return;
                }
            }
            frame = outgoing.frame() => {
                let Some(frame) = frame else {
                    let close = CloseFrame { code: CLOSE_FOR_GOOD, reason: "the session has ended".into() };
                    // The agent may be gone already.
                    let _ = socket.send(Message::Close(Some(close))).await;
                    return;
                };
                let text = String::from_utf8_lossy(&frame).into_owned();
                if socket.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::Instant,
    };

    use super::*;

    /// The status of the answer to a request.
    async fn answered(address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    // covers: 000-076, 004-002
    #[tokio::test]
    async fn a_browser_cannot_use_the_port_of_a_holder() {
        let session = SessionId::new();
        let base = listen_on_loopback(&DialIn::new()).unwrap();
        let address = base.strip_prefix("ws://").unwrap();
        let status = async |headers: &str| {
            let request = format!("GET /ws/cli/{session} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
            answered(address, &request).await
        };
        let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        assert_eq!(status(&format!("Host: rebound.example\r\n{upgrade}")).await, "403");
        assert_eq!(status(&format!("Host: {address}\r\nOrigin: http://{address}\r\n{upgrade}")).await, "403");
        assert_ne!(
            status(&format!("Host: {address}\r\n{upgrade}")).await,
            "403",
            "the secret is checked next"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_at_the_port_of_a_holder_are_few_and_must_speak_at_once() {
        let base = listen_on_loopback(&DialIn::new()).unwrap();
        let address = base.strip_prefix("ws://").unwrap();
        let began = Instant::now();
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        assert_eq!(answered(address, &request).await, "404");
        assert!(began.elapsed() < HEAD, "an empty port answers at once");
        let lasting = request.replace("Connection: close\r\n", "");
        assert_eq!(answered(address, &lasting).await, "404", "and closes when no further request comes");
        let mut silent = Vec::new();
        for _ in 0..STRANGERS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let began = Instant::now();
        assert_eq!(answered(address, &request).await, "404");
        assert!(began.elapsed() >= HEAD, "it had to wait until the silent ones were gone");
        for mut stream in silent {
            let mut said = Vec::new();
            stream.read_to_end(&mut said).await.unwrap();
            assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 408"), "{said:?}");
        }
    }

    #[test]
    fn only_the_dial_in_path_of_a_session_needs_no_token() {
        assert!(is_open(&format!("/ws/cli/{}", SessionId::new())));
        for path in ["/ws", "/ws/cli", "/ws/cli/", "/ws/cli/1", "/ws/cli/../sessions", "/api/v1/sessions"] {
            assert!(!is_open(path), "{path}");
        }
    }
}
