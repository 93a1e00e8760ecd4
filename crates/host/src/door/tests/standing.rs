//! A client's access ends while it is connected: its requests, streams and sockets end with it, whatever a frontend
//! does.

use std::{convert::Infallible, sync::atomic::AtomicUsize, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use portolan_core::{Role, ports::Boxed};

use super::*;
use crate::door::Upgrade;
use portolan_testkit::armed::Armed;

/// Long enough for a slow machine, short enough for a test that fails.
const SOON: Duration = Duration::from_secs(20);

/// A frontend written by the guide: it knows nothing of tokens that end, of stalls, or of the daemon's end.
#[derive(Clone, Default)]
struct Toy {
    access: Option<Arc<AccessCheck>>,
    /// Bodies that were read to their end and acted on.
    acted: Arc<AtomicUsize>,
    /// Streams and sockets that are open.
    open: Arc<AtomicUsize>,
}

impl Toy {
    fn router(self) -> Router {
        Router::new()
            .route("/toy/act", post(act))
            .route("/toy/wait", get(wait))
            .route("/toy/stream", get(stream))
            .route("/toy/socket", get(socket))
            .route("/toy/late", get(late))
            .with_state(self)
    }

    fn opened(&self) -> Opened {
        self.open.fetch_add(1, Ordering::SeqCst);
        Opened(Arc::clone(&self.open))
    }

    async fn until_open(&self, count: usize) {
        let waiting = async {
            while self.open.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never {count} open"));
    }
}

struct Opened(Arc<AtomicUsize>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn act(State(toy): State<Toy>, body: Bytes) -> String {
    toy.acted.fetch_add(1, Ordering::SeqCst);
    format!("{} bytes", body.len())
}

async fn wait(State(toy): State<Toy>) -> &'static str {
    let _open = toy.opened();
    std::future::pending().await
}

async fn stream(State(toy): State<Toy>) -> Response {
    let chunks = futures_util::stream::unfold(toy.opened(), |open| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024])), open))
    });
    Response::new(Body::from_stream(chunks))
}

async fn socket(State(toy): State<Toy>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let (response, upgraded) = Upgrade::of(&mut parts).unwrap().accept();
    tokio::spawn(async move {
        let _open = toy.opened();
        let Some(mut io) = upgraded.await else { return };
        while io.write_all(b"entry\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    response
}

/// A route that asks for the token itself, in the first message on the socket.
async fn late(State(toy): State<Toy>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let stranger = parts.extensions.get::<Stranger>().cloned().unwrap();
    let (response, upgraded) = Upgrade::of(&mut parts).unwrap().accept();
    tokio::spawn(async move {
        let _open = toy.opened();
        let Some(mut io) = upgraded.await else { return };
        let mut secret = [0; 68];
        io.read_exact(&mut secret).await.unwrap();
        let secret = std::str::from_utf8(&secret).unwrap();
        let access = toy.access.unwrap();
        let (who, _) = access.introduce(&stranger, secret).unwrap();
        io.write_all(who.name.as_bytes()).await.unwrap();
        while io.write_all(b"entry\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    response
}

/// The toy behind the door of a stand.
struct Shop {
    stand: Stand,
    toy: Toy,
    address: SocketAddr,
    serving: Serving,
}

impl Shop {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl Fn(&mut DoorLimits)) -> Self {
        let stand = Stand::new().await;
        let mut settings =
            DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
        change(&mut settings.limits);
        let tickets = stand.access.tickets().clone();
        let access = AccessCheck::new(&settings, stand.tokens.clone(), tickets, Clock::system()).unwrap();
        let access = Arc::new(access.admitting(Admit::late(|path| path == "/toy/late")).unwrap());
        let toy = Toy { access: Some(access.clone()), ..Toy::default() };
        let router = toy.clone().router();
        let serving = serve(&settings, access, router, stand.shutdown.clone()).await.unwrap();
        let ListenAddress::Tcp(address) = serving.addresses[0].address else { unreachable!() };
        Self { stand, toy, address, serving }
    }

    /// A request whose head is sent, and that asks for more.
    async fn begin(&self, request: &str, lines: &[&str]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{request} HTTP/1.1\r\nHost: {}\r\n", self.address);
        let upgrades = lines.contains(&UPGRADE);
        // Otherwise an answer is followed by the silence of a connection that waits for the next request.
        for line in lines.iter().chain((!upgrades).then_some(&"Connection: close")) {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn armed(&self, path: &str, lines: &[&str]) -> Armed {
        Armed::new(self.address, path, lines, "{\"name\":1}").await
    }

    async fn socket(&self, path: &str, lines: &[&str]) -> TcpStream {
        let upgrade = [
            "Upgrade: websocket",
            UPGRADE,
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ];
        self.begin(&format!("GET {path}"), &[&upgrade[..], lines].concat()).await
    }

    /// A client for each kind of access, and how that access ends.
    async fn everyone(&self) -> Vec<(&'static str, Vec<String>, Boxed<'_, ()>)> {
        let (tokens, tickets) = (&self.stand.tokens, self.stand.access.tickets());
        let bearer = |secret: &str| vec![format!("Authorization: Bearer {secret}")];
        let (ada, secret) = tokens.create("ada", Role::Owner, None, None).await.unwrap();
        let revoked = bearer(&secret);
        let (cookie, key) = self.stand.browser().await;
        let name = tickets.browsers()[0].browser.clone();
        let (kept_cookie, kept_key) = self.stand.browser().await;
        let owner = tokens.standing(&Tokens::owner_id()).unwrap().principal;
        let device = Device {
            name: "phone".into(),
            role: Role::Operator,
            sessions: None,
            expires_in: None,
            tokens: tokens.clone(),
        };
        let (ticket, _) = tickets.create_for(&owner, device).unwrap();
        let phone = tickets.redeem(&ticket, Caller::default()).await.unwrap().unwrap();
        let paired = vec![
            format!("Cookie: {COOKIE}={}", phone.cookie.expose()),
            format!("X-Portolan-Key: {}", phone.key.expose()),
        ];
        let device = phone.made.unwrap().1.token;
        let path = self.stand.home.path().join("token");
        vec![
            (
                "a token that is revoked",
                revoked,
                Box::pin(async move {
                    tokens.revoke(&ada.token).await.unwrap();
                }),
            ),
            (
                "a browser that is logged out",
                vec![cookie, key],
                Box::pin(async move {
                    tickets.log_out(&name).await.unwrap();
                }),
            ),
            (
                "a paired device that is revoked",
                paired,
                Box::pin(async move {
                    tokens.revoke(&device).await.unwrap();
                }),
            ),
            // Last: this ends the owner's secret, and every login with it.
            ("a browser whose token gets another secret", vec![kept_cookie, kept_key], Box::pin(async {})),
            (
                "a secret that is replaced",
                bearer(self.stand.owner.expose()),
                Box::pin(async move {
                    self.stand.pass(1);
                    tokens.rotate_owner(&path).await.unwrap();
                }),
            ),
        ]
    }
}

const UPGRADE: &str = "Connection: upgrade";

/// Everything that still arrives, up to the end of the connection.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("it goes on");
    bytes
}

fn lines(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_request_whose_body_is_complete_after_its_guest_lost_access_does_nothing() {
    let shop = Shop::new().await;
    let mut armed = Vec::new();
    for (what, who, end) in shop.everyone().await {
        armed.push((what, shop.armed("/toy/act", &lines(&who)).await, end));
    }
    let (mut streams, mut ends) = (Vec::new(), Vec::new());
    for (what, stream, end) in armed {
        streams.push((what, stream));
        ends.push(end);
    }
    for end in ends {
        end.await;
    }
    for (what, stream) in streams {
        let (status, answer) = stream.finish().await;
        assert_eq!(status, 401, "{what}: {answer}");
        assert!(answer.contains("during the request"), "{what}: {answer}");
    }
    assert_eq!(shop.toy.acted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_body_that_is_complete_too_late_is_an_error_even_if_nobody_ends_the_request() {
    let gone = CancellationToken::new();
    let (send, receive) = tokio::sync::mpsc::channel::<Bytes>(4);
    let chunks = futures_util::stream::unfold(receive, |mut receive| async {
        Some((Ok::<_, Infallible>(receive.recv().await?), receive))
    });
    let body = lasting::request(Body::from_stream(chunks), Stay::until(gone.clone()));
    send.send(Bytes::from_static(b"{")).await.unwrap();
    let collecting = tokio::spawn(collect(body));
    while send.capacity() < 4 {
        tokio::task::yield_now().await;
    }
    gone.cancel();
    drop(send);
    assert_eq!(collecting.await.unwrap().unwrap_err().status, http::StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_stream_that_its_frontend_never_ends_is_ended_when_its_guest_loses_access() {
    let shop = Shop::new().await;
    let (mut ends, mut running) = (Vec::new(), Vec::new());
    for (what, who, end) in shop.everyone().await {
        let who = lines(&who);
        for (path, stream) in [
            ("wait", shop.begin("GET /toy/wait", &who).await),
            ("stream", shop.begin("GET /toy/stream", &who).await),
            ("socket", shop.socket("/toy/socket", &who).await),
        ] {
            running.push((what, path, stream));
        }
        ends.push(end);
    }
    shop.toy.until_open(running.len()).await;
    for end in ends {
        end.await;
    }
    for (what, path, mut stream) in running {
        let rest = rest(&mut stream).await;
        if path == "wait" {
            assert_eq!(parse(&rest).refused(), forbidden(401), "{what}");
        } else if path == "stream" {
            assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "{what}: a stream that is cut does not look complete");
        }
    }
    shop.toy.until_open(0).await;
}

#[tokio::test]
async fn a_socket_that_showed_its_token_late_ends_with_that_token_too() {
    let shop = Shop::new().await;
    let (ada, secret) = shop.stand.tokens.create("ada", Role::Viewer, None, None).await.unwrap();
    let mut stream = shop.socket("/toy/late", &[]).await;
    stream.write_all(secret.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"adaentry\nentry\n") {
        seen.push(stream.read_u8().await.unwrap());
    }
    shop.stand.tokens.revoke(&ada.token).await.unwrap();
    rest(&mut stream).await;
    shop.toy.until_open(0).await;
}

#[tokio::test]
async fn a_stream_that_its_frontend_never_ends_is_ended_when_the_door_is_closed() {
    let shop = Shop::with(|limits| limits.drain = Duration::from_millis(100)).await;
    let bearer = shop.stand.bearer();
    let mut running = [
        shop.begin("GET /toy/wait", &[&bearer]).await,
        shop.begin("GET /toy/stream", &[&bearer]).await,
        shop.socket("/toy/socket", &[&bearer]).await,
        shop.socket("/toy/late", &[]).await,
    ];
    shop.toy.until_open(4).await;
    shop.stand.shutdown.cancel();
    let reading = async {
        for stream in &mut running {
            rest(stream).await;
        }
    };
    let closing = tokio::time::timeout(SOON, shop.serving.closed());
    let (closed, ()) = tokio::join!(closing, reading);
    closed.expect("the door stays open");
    shop.toy.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped_whatever_it_asked_for() {
    let shop = Shop::with(|limits| limits.stalled = Duration::from_millis(200)).await;
    let bearer = shop.stand.bearer();
    let stream = shop.begin("GET /toy/stream", &[&bearer]).await;
    let socket = shop.socket("/toy/socket", &[&bearer]).await;
    shop.toy.until_open(2).await;
    // The stream fills the kernel's buffer; the socket writes little, and is not stalled.
    shop.toy.until_open(1).await;
    drop((stream, socket));
}

#[tokio::test]
async fn a_request_that_ends_its_own_login_is_answered() {
    let shop = Shop::new().await;
    let (cookie, key) = shop.stand.browser().await;
    assert_eq!(shop.stand.post(LOGOUT_PATH, &[&cookie, &key], "").await.status, 204);
    assert_eq!(shop.stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 401);
}

#[tokio::test]
async fn without_the_doors_listener_a_guest_gets_a_socket_only_from_a_frontend_that_ends_it() {
    let shop = Shop::new().await;
    let answer = |farewell: Option<Farewell>| {
        let route = get(move || async move {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            farewell.map(|farewell| response.extensions_mut().insert(farewell));
            response
        });
        let router = guard(Router::new().route("/toy/socket", route), shop.stand.access.clone());
        let request = Request::builder()
            .uri("/toy/socket")
            .header("host", "127.0.0.1:7420")
            .header("authorization", shop.stand.bearer().strip_prefix("Authorization: ").unwrap())
            .extension(Arrival::Tcp {
                peer: "127.0.0.1:50000".parse().unwrap(),
                local: "127.0.0.1:7420".parse().unwrap(),
                secure: false,
            })
            .body(Body::empty())
            .unwrap();
        tower::ServiceExt::oneshot(router, request)
    };
    assert_eq!(answer(None).await.unwrap().status(), http::StatusCode::NOT_IMPLEMENTED);
    assert_eq!(answer(Some(Farewell)).await.unwrap().status(), http::StatusCode::SWITCHING_PROTOCOLS);
}
