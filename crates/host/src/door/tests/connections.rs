//! Connections that do too much or too little, or stay too long.

use std::time::Duration;

use super::*;

/// Long enough for a slow machine, short enough for a test that fails.
const SOON: Duration = Duration::from_secs(20);

async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    // A reset is a close too.
    let _ = tokio::time::timeout(SOON, read).await.expect("the connection stays open");
    bytes
}

#[tokio::test]
async fn a_client_that_dribbles_its_head_is_cut_off() {
    let stand = Stand::with(|settings| settings.limits.head = Duration::from_millis(200)).await;
    let mut silent = TcpStream::connect(stand.address).await.unwrap();
    let mut dribbling = TcpStream::connect(stand.address).await.unwrap();
    dribbling.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
    assert!(!String::from_utf8(until_closed(&mut dribbling).await).unwrap().contains(" 200 "));
    assert_eq!(until_closed(&mut silent).await, b"");
    assert_eq!(stand.ask("GET /healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn a_client_that_dribbles_its_body_is_cut_off() {
    let stand = Stand::with(|settings| settings.limits.body = Duration::from_millis(200)).await;
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let head = format!(
        "POST /api/v1/echo HTTP/1.1\r\nHost: {}\r\n{}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        stand.address,
        stand.bearer()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(parse(&until_closed(&mut stream).await).refused(), invalid(408));
}

#[tokio::test]
async fn a_flood_of_headers_is_refused() {
    let stand = Stand::new().await;
    let long = format!("X-Long: {}", "a".repeat(40 * 1024));
    assert_eq!(stand.ask("GET /healthz", &[&long]).await.status, 431);
    let many: Vec<_> = (0..70).map(|n| format!("X-{n}: a")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(stand.ask("GET /healthz", &many).await.status, 431);
    assert_eq!(stand.ask("GET /healthz", &many[..40]).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let stand = Stand::with(|settings| settings.limits.body_bytes = 1000).await;
    let bearer = stand.bearer();
    let body = |bytes: usize| format!(r#""{}""#, "a".repeat(bytes - 2));
    assert_eq!(stand.post("/api/v1/echo", &[&bearer], &body(1000)).await.body, body(1000));
    assert_eq!(stand.post("/api/v1/echo", &[&bearer], &body(1001)).await.refused(), invalid(413));
    let host = format!("Host: {}", stand.address);
    let lines = [host.as_str(), &bearer, "Content-Type: application/json", "Transfer-Encoding: chunked"];
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1001, body(1001));
    let answer = stand.ask_raw("POST /api/v1/echo", &lines, &chunked).await;
    assert_eq!(answer.refused(), invalid(413), "one that does not say how long it is");
}

#[tokio::test]
async fn a_stranger_can_make_the_server_keep_no_more_than_a_ticket() {
    let stand = Stand::with(|settings| settings.limits.head = Duration::from_millis(200)).await;
    let login = |bytes: usize| format!(r#"{{"ticket":"{}"}}"#, "a".repeat(bytes));
    assert_eq!(stand.post("/api/v1/login", &[], &login(4000)).await.status, 401);
    assert_eq!(stand.post("/api/v1/login", &[], &login(5000)).await.refused(), invalid(413));
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let head = format!(
        "POST /api/v1/login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        stand.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(parse(&until_closed(&mut stream).await).refused(), invalid(408));
}

#[tokio::test]
async fn a_body_that_nests_too_deep_is_refused() {
    let stand = Stand::new().await;
    let bearer = stand.bearer();
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(stand.post("/api/v1/echo", &[&bearer], &nested(JSON_DEPTH)).await.body, nested(JSON_DEPTH));
    assert_eq!(stand.post("/api/v1/echo", &[&bearer], &nested(JSON_DEPTH + 1)).await.refused(), invalid(400));
}

#[tokio::test]
async fn bytes_that_are_not_http_are_answered_and_harm_nobody() {
    let stand = Stand::new().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = until_closed(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{bytes:?} {answer:?}");
    }
    assert_eq!(stand.ask("GET /healthz", &[]).await.status, 200);
}

/// A connection that has sent one request and stays open.
async fn stay(stand: &Stand) -> TcpStream {
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", stand.address);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream
}

async fn until_there_is_room(stand: &Stand) {
    let asked = async {
        while stand.ask("GET /healthz", &[]).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, asked).await.expect("no place is free again");
}

#[tokio::test]
async fn one_connection_too_many_is_turned_away_until_another_ends() {
    let stand = Stand::with(|settings| settings.limits.connections = 2).await;
    let first = stay(&stand).await;
    let _second = stay(&stand).await;
    let answer = stand.ask("GET /healthz", &[]).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")));
    drop(first);
    until_there_is_room(&stand).await;
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place() {
    let settings = DoorSettings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        limits: DoorLimits { connections: 1, ..DoorLimits::default() },
        ..DoorSettings::default()
    };
    let stand = Stand::new().await;
    let upgrade = |mut request: axum::extract::Request| async move {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = hyper_util::rt::TokioIo::new(upgraded.await.unwrap());
            stream.write_all(b"up").await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
        });
        (http::StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "echo")])
    };
    let router = Router::new().route("/ws", get(upgrade)).route("/healthz", get(|| async { "ok" }));
    let shutdown = CancellationToken::new();
    let serving = serve(&settings, stand.access.clone(), router, shutdown.clone()).await.unwrap();
    let ListenAddress::Tcp(address) = serving.addresses[0].address else { panic!("no address") };
    let ask = || async move {
        let stream = TcpStream::connect(address).await.unwrap();
        exchange(stream, "GET /healthz", &[&format!("Host: {address}")], "").await.status
    };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {address}\r\n{}\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        stand.bearer()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\nup") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
    assert_eq!(ask().await, 503);
    drop(stream);
    let free = async {
        while ask().await != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, free).await.expect("its place is free again");
    shutdown.cancel();
    serving.closed().await;
}

#[tokio::test]
async fn closing_lets_a_running_request_end_and_takes_no_new_ones() {
    let stand = Stand::new().await;
    let mut running = TcpStream::connect(stand.address).await.unwrap();
    let head = format!(
        "POST /api/v1/echo HTTP/1.1\r\nHost: {}\r\n{}\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\
         Expect: 100-continue\r\n\r\n",
        stand.address,
        stand.bearer()
    );
    running.write_all(head.as_bytes()).await.unwrap();
    // The server sends this when the route asks for the body: from here on the request runs.
    let mut go_on = [0; 25];
    running.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let idle = stay(&stand).await;
    let address = stand.address;
    stand.shutdown.cancel();
    let closing = tokio::spawn(stand.close());
    running.write_all(b"true").await.unwrap();
    let answer = parse(&until_closed(&mut running).await);
    assert_eq!((answer.status, answer.body.as_str()), (200, "true"));
    tokio::time::timeout(SOON, closing).await.expect("it does not close").unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let stand = Stand::new().await;
    let settings =
        DoorSettings { listen: vec![ListenAddress::Tcp(stand.address)], ..DoorSettings::default() };
    let error = Door::bind(&settings).await.unwrap_err();
    assert!(
        matches!(&error, DoorError::Taken(ListenAddress::Tcp(taken)) if *taken == stand.address),
        "{error}"
    );
    let settings = DoorSettings { listen: vec![], ..DoorSettings::default() };
    assert!(matches!(Door::bind(&settings).await, Err(DoorError::Nowhere)));
}
