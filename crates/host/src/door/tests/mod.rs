//! Tests of the door as a whole, over real sockets on loopback.

mod connections;
mod credentials;
mod embedding;
mod hostile_page;
mod local_socket;
mod login;
mod proxy;
mod standing;
mod tls;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use axum::{
    Router,
    routing::{get, post},
};
use portolan_core::{
    DaemonEvent, Millis,
    ports::{Clock, Store as _},
};
use portolan_store::MemoryStore;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::*;

/// The door's reports to its witness: who, and what.
type Noted = Arc<Mutex<Vec<(Option<String>, DaemonEvent)>>>;

/// A door with routes behind it, open on loopback.
struct Stand {
    address: SocketAddr,
    tokens: Arc<Tokens>,
    access: Arc<AccessCheck>,
    owner: Secret,
    time: Arc<AtomicI64>,
    noted: Noted,
    store: Arc<MemoryStore>,
    home: tempfile::TempDir,
    shutdown: CancellationToken,
    serving: Option<Serving>,
}

impl Stand {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut DoorSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::again(Arc::default(), home, change).await
    }

    /// A daemon on the data of an earlier one.
    async fn again(
        store: Arc<MemoryStore>,
        home: tempfile::TempDir,
        change: impl FnOnce(&mut DoorSettings),
    ) -> Self {
        let time = Arc::new(AtomicI64::new(1_800_000_000_000));
        let now = time.clone();
        let clock = Clock::new(move || Millis(now.load(Ordering::Relaxed)));
        let tokens = Tokens::open(store.clone(), clock.clone()).await.unwrap();
        let owner = tokens.owner_secret_file(&home.path().join("token")).await.unwrap();
        let tickets = Tickets::open(store.clone(), clock.clone(), tokens.clone()).await.unwrap();
        let mut settings =
            DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
        change(&mut settings);
        let noted = Noted::default();
        let notes = Arc::clone(&noted);
        let access = AccessCheck::new(&settings, tokens.clone(), tickets, clock).unwrap().with_witness(
            move |who, event| notes.lock().unwrap().push((who.map(|who| who.name.clone()), event)),
        );
        let access = Arc::new(
            access.admitting(Admit::open(|path| path == "/" || path.starts_with("/assets/"))).unwrap(),
        );
        let shutdown = CancellationToken::new();
        let serving = serve(&settings, access.clone(), routes(), shutdown.clone()).await.unwrap();
        let address = serving.addresses.iter().find_map(|listening| match listening.address {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        let address = address.unwrap_or_else(|| "127.0.0.1:1".parse().unwrap());
        Self { address, tokens, access, owner, time, noted, store, home, shutdown, serving: Some(serving) }
    }

    fn pass(&self, ms: i64) {
        self.time.fetch_add(ms, Ordering::Relaxed);
    }

    /// The reports for the daemon's log.
    fn noted(&self) -> Vec<(Option<String>, DaemonEvent)> {
        self.noted.lock().unwrap().clone()
    }

    fn now(&self) -> Millis {
        Millis(self.time.load(Ordering::Relaxed))
    }

    /// A request with the usual Host; `lines` are further header lines.
    async fn ask(&self, request: &str, lines: &[&str]) -> Answer {
        let host = format!("Host: {}", self.address);
        self.ask_raw(request, &[&[host.as_str()], lines].concat(), "").await
    }

    /// A request as the owner.
    async fn ask_as_owner(&self, request: &str, lines: &[&str]) -> Answer {
        let bearer = self.bearer();
        self.ask(request, &[&[bearer.as_str()], lines].concat()).await
    }

    async fn post(&self, path: &str, lines: &[&str], body: &str) -> Answer {
        let host = format!("Host: {}", self.address);
        let length = format!("Content-Length: {}", body.len());
        let own = [host.as_str(), "Content-Type: application/json", length.as_str()];
        self.ask_raw(&format!("POST {path}"), &[&own[..], lines].concat(), body).await
    }

    async fn ask_raw(&self, request: &str, lines: &[&str], body: &str) -> Answer {
        exchange(TcpStream::connect(self.address).await.unwrap(), request, lines, body).await
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.owner.expose())
    }

    /// Logs a browser in as the owner: its cookie and key lines.
    async fn browser(&self) -> (String, String) {
        let owner = self.tokens.standing(&Tokens::owner_id()).unwrap().principal;
        let (ticket, _) = self.access.tickets().create(&owner).unwrap();
        let answer = self.post(LOGIN_PATH, &[], &format!(r#"{{"ticket":"{ticket}"}}"#)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let key = answer.json()["key"].as_str().unwrap().to_owned();
        (format!("Cookie: {cookie}"), format!("X-Portolan-Key: {key}"))
    }

    async fn close(mut self) -> (Arc<MemoryStore>, tempfile::TempDir) {
        self.shutdown.cancel();
        self.serving.take().unwrap().closed().await;
        (self.store, self.home)
    }
}

/// Everything that the door keeps, as text.
async fn kept(store: &MemoryStore) -> String {
    let mut all = Vec::new();
    for collection in ["tokens", "token_uses", "browsers"] {
        all.extend(store.records(collection).await.unwrap());
    }
    format!("{all:?}")
}

/// One permit for each client that has come to stay. Only one test counts them.
static ARRIVED: Semaphore = Semaphore::const_new(0);

fn routes() -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/", get(|| async { "page" }))
        .route(
            "/api/v1/who",
            get(|Guest(who): Guest| async move { format!("{} {} {}", who.name, who.role, who.via) }),
        )
        .route(
            "/api/v1/stay",
            get(|| async {
                ARRIVED.add_permits(1);
                std::future::pending::<&str>().await
            }),
        )
        .route(
            "/api/v1/named/{name}",
            get(|axum::extract::Path(name): axum::extract::Path<String>| async move { name }),
        )
        // This route checks nothing: only the guard protects it.
        .route("/metrics", get(|| async { "figures" }))
        .route("/api/v1/echo", post(|JsonBody(body): JsonBody<Value>| async move { axum::Json(body) }))
        .route(
            "/ws",
            get(|visitor: Visitor| async move {
                match visitor {
                    Visitor::Known(Guest(who), _) => format!("known {}", who.via),
                    Visitor::Half(_) => "half".to_owned(),
                }
            }),
        )
}

/// The response.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The status and, for our own errors, the code.
    fn refused(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap().to_owned())
    }
}

async fn exchange<S>(mut stream: S, request: &str, lines: &[&str], body: &str) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut text = format!("{request} HTTP/1.1\r\n");
    for line in lines.iter().chain(&["Connection: close"]) {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A server that refused a body unread may reset the connection after its answer.
    let _ = stream.read_to_end(&mut bytes).await;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

fn forbidden(status: u16) -> (u16, String) {
    let code = if status == 401 { "unauthenticated" } else { "forbidden" };
    (status, code.to_owned())
}

fn invalid(status: u16) -> (u16, String) {
    (status, "invalid".to_owned())
}
