//! Behind a real door: who gets access, by header or by the page's cookie and key, and which pages may.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;
use crate::agui::{PATH, routes, rules};
use portolan_host::door::{AccessCheck, Admit, COOKIE, Door, KEY_HEADER, LOGIN_PATH, ListenAddress, Serving};
use portolan_testkit::armed::Armed;

const APP: &str = "http://localhost:5173";

/// The frontend behind a real door.
struct Open {
    stand: Stand,
    address: SocketAddr,
    closing: CancellationToken,
    serving: Serving,
    access: Arc<AccessCheck>,
}

impl Open {
    async fn new() -> Self {
        let stand = Stand::new().await;
        let access = stand.behind.access().await;
        let access = Arc::new(access.admitting(Admit::Below(PATH, rules(&[format!("{APP}/")]))).unwrap());
        let closing = CancellationToken::new();
        let router = routes(stand.agui.clone()).route("/elsewhere", axum::routing::get(|| async { "here" }));
        let serving =
            Door::bind(&stand.behind.door).await.unwrap().serve(access.clone(), router, closing.clone());
        let address = match serving.addresses[0].address {
            ListenAddress::Tcp(address) => address,
            ListenAddress::Unix(_) => panic!("a TCP address was asked for"),
        };
        Self { stand, address, closing, serving, access }
    }

    /// Sends a request and reads all of the answer: its status, its head, its body.
    async fn ask(&self, request: &str, lines: &[&str], body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut text = format!("{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if !body.is_empty() {
            let _ = write!(text, "Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        for line in lines {
            text.push_str(line);
            text.push_str("\r\n");
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    async fn close(self) {
        self.closing.cancel();
        self.stand.agui.stopping.cancel();
        self.serving.closed().await;
    }
}

fn cookie_of(head: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    line.split(';').next().unwrap().to_owned()
}

fn run_of(thread: &str) -> String {
    input(thread, "r1", &[user("u1", "hi")]).to_string()
}

// covers: 004-085
#[tokio::test]
async fn a_token_is_needed_on_every_route() {
    let open = Open::new().await;
    for request in [
        "GET /agui/info",
        "POST /agui",
        "POST /agui/agent/default/run",
        "POST /agui/agent/default/connect",
        "POST /agui/agent/default/stop/t",
        "POST /agui/api/sessions/s/tool-approval",
        "GET /agui/active",
        "POST /agui/x",
    ] {
        for lines in [&[][..], &["Authorization: Bearer wrong"]] {
            assert_eq!(open.ask(request, lines, "").await.0, 401, "{request}");
        }
    }
    assert!(open.stand.sessions().await.is_empty());
    open.close().await;
}

// covers: 004-001
#[tokio::test]
async fn a_token_comes_by_header_or_by_the_page_s_cookie_and_key() {
    let open = Open::new().await;
    let ada = open.stand.ada().await;
    let bearer = format!("Authorization: Bearer {}", ada.secret);
    let (status, head, body) = open.ask("POST /agui/agent/default/run", &[&bearer], &run_of("t1")).await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(body.contains("said: ") && body.contains("RUN_FINISHED"), "{body}");
    let (wrong_cookie, wrong_key) = (format!("Cookie: {COOKIE}=wrong"), format!("{KEY_HEADER}: wrong"));
    assert_eq!(open.ask("GET /agui/info", &[&wrong_cookie, &wrong_key], "").await.0, 401);
    let (ticket, _) = open.access.tickets().create(&ada.who).unwrap();
    let login = json!({"ticket": ticket}).to_string();
    let (status, head, body) = open.ask(&format!("POST {LOGIN_PATH}"), &[], &login).await;
    assert_eq!(status, 200, "{body}");
    let key: Value = serde_json::from_str(body.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let (cookie, key) =
        (format!("Cookie: {}", cookie_of(&head)), format!("{KEY_HEADER}: {}", key["key"].as_str().unwrap()));
    assert_eq!(open.ask("GET /agui/info", &[&cookie], "").await.0, 401, "a cookie alone opens nothing");
    let own = format!("Origin: http://{}", open.address);
    let (status, _, body) =
        open.ask("POST /agui/agent/default/run", &[&cookie, &key, &own], &run_of("t9")).await;
    assert!(status == 200 && body.contains("RUN_FINISHED"), "{status} {body}");
    open.close().await;
}

#[tokio::test]
async fn a_revoked_token_runs_nothing_by_a_request_that_waited_and_its_streams_say_why() {
    let open = Open::new().await;
    let ada = open.stand.ada().await;
    let bearer = format!("Authorization: Bearer {}", ada.secret);
    let path = "/agui/agent/default/run";
    let armed = Armed::new(open.address, path, &[&bearer], &run_of("t1")).await;
    // A run that waits for an agent that never starts.
    let sleeping = Armed::new(open.address, "/agui/agent/sleeper/run", &[&bearer], &run_of("t2")).await;
    let sleeping = tokio::spawn(sleeping.finish());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while open.stand.sessions().await.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it never began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    open.stand.behind.tokens.revoke(&ada.who.token).await.unwrap();
    let (status, answer) = armed.finish().await;
    assert_eq!(status, 401, "{answer}");
    assert_eq!(open.stand.sessions().await.len(), 1, "that of the run before");
    let (status, answer) = sleeping.await.unwrap();
    assert!(status == 200 && answer.contains("\"code\":\"unauthenticated\""), "{answer}");
    open.close().await;
}

#[tokio::test]
async fn an_app_of_a_configured_origin_reaches_the_frontend_and_nothing_else() {
    let open = Open::new().await;
    let ada = open.stand.ada().await;
    let (origin, bearer) = (format!("Origin: {APP}"), format!("Authorization: Bearer {}", ada.secret));
    let allowed = format!("access-control-allow-origin: {APP}");
    let preflight = [
        origin.as_str(),
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization,content-type,x-of-the-app",
    ];
    for path in ["/agui", "/agui/", "/agui/info", "/agui/agent/default/run", "/agui/any/path"] {
        let (status, head, _) = open.ask(&format!("OPTIONS {path}"), &preflight, "").await;
        assert_eq!(status, 204, "{path}");
        assert!(head.contains(&allowed) && head.contains("x-of-the-app") && head.contains("POST"), "{head}");
    }
    let cross = [origin.as_str(), bearer.as_str(), "Sec-Fetch-Site: cross-site"];
    let (status, head, _) = open.ask("POST /agui/agent/default/run", &cross, &run_of("t1")).await;
    assert!(status == 200 && head.contains(&allowed), "a stream is shared with the page: {head}");
    let (status, head, _) = open.ask("POST /agui/agent/nobody/run", &cross, &run_of("t1")).await;
    assert!(status == 404 && head.contains(&allowed), "an error is, too: {head}");
    let (status, head, _) = open.ask("GET /agui/info", &[&origin], "").await;
    assert!(status == 401 && head.contains(&allowed), "an origin is no token: {head}");
    for path in ["/elsewhere", "/aguix", "/api/v1/who", "/"] {
        let (status, head, _) = open.ask(&format!("GET {path}"), &cross, "").await;
        assert!(status == 403 && !head.contains("access-control-allow-origin"), "{path}: {head}");
        assert_eq!(open.ask(&format!("OPTIONS {path}"), &preflight, "").await.0, 403, "{path}");
    }
    for origin in
        ["http://localhost:5174", "https://localhost:5173", "http://localhost:5173.evil.example", "null", "*"]
    {
        let line = format!("Origin: {origin}");
        let (status, head, _) =
            open.ask("POST /agui/agent/default/run", &[&line, &bearer], &run_of("t2")).await;
        assert!(status == 403 && !head.contains("access-control-allow-origin"), "{origin}: {head}");
    }
    open.close().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let open = Open::new().await;
    let ada = open.stand.ada().await;
    let bearer = format!("Authorization: Bearer {}", ada.secret);
    let lines = [bearer.as_str(), "Content-Type: application/json", "Content-Length: 99999999"];
    assert_eq!(open.ask("POST /agui/agent/default/run", &lines, "").await.0, 413);
    open.close().await;
}

#[tokio::test]
async fn every_refusal_has_the_documented_form_and_names_the_narrowest_way_out() {
    let open = Open::new().await;
    let (ada, val) = (open.stand.ada().await, open.stand.someone("val", Role::Viewer).await);
    let bearer = |secret: &str| format!("Authorization: Bearer {secret}");
    let (ada, val) = (bearer(&ada.secret), bearer(&val.secret));
    let stranger = "Origin: http://localhost:9999";
    let cases: [(&[&str], u16, &str, &str); 4] = [
        (&[], 401, "unauthenticated", "a valid token is needed"),
        (&["Authorization: Bearer nonsense"], 401, "unauthenticated", "a valid token is needed"),
        (&[&val], 403, "forbidden", "has viewer; ask an owner for a token with the role operator"),
        (&[&ada, stranger], 403, "forbidden", "add it to `agui.origins`"),
    ];
    for (lines, status, error, words) in cases {
        let (got, head, body) = open.ask("POST /agui/agent/default/run", lines, &run_of("t1")).await;
        assert_eq!(got, status, "{head}");
        let body: Value = serde_json::from_str(&body).unwrap_or_else(|why| panic!("{why}: {body}"));
        assert_eq!((&body["error"], &body["message"]), (&json!(error), &body["details"]), "{body}");
        assert!(body["message"].as_str().unwrap().contains(words), "{body}");
        assert_eq!(body.as_object().unwrap().len(), 3, "{body}");
    }
    let long = [ada.as_str(), "Content-Type: application/json", "Content-Length: 99999999"];
    let (status, _, body) = open.ask("POST /agui/agent/default/run", &long, "").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(status == 413 && body["error"].is_string() && body["message"].is_string(), "{body}");
    // Elsewhere on the listener nothing has changed.
    let (status, _, body) = open.ask("GET /elsewhere", &[&ada, stranger], "").await;
    assert!(status == 403 && body.contains("`listen.origins`") && body.contains("\"code\""), "{body}");
    open.close().await;
}
