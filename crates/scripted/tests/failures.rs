//! The ways an API goes wrong, as a client sees them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod client;

use std::time::{Duration, Instant};

use client::{SOON, ask, finish, open, request, said, say, start};
use portolan_scripted::{
    Answered, ClosedPort, FailureKind, Script, Server, ServerError, ServerSettings, fail, hang, text,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

fn error_of(answer: &client::Answer) -> Value {
    let mut body = answer.json();
    assert!(body["request_id"].as_str().unwrap().starts_with("req_"));
    assert_eq!(Some(body["request_id"].as_str().unwrap()), answer.header("request-id"));
    body.as_object_mut().unwrap().remove("request_id");
    body
}

#[tokio::test]
async fn every_failure_has_the_status_and_type_of_the_api() {
    let expected = [
        (FailureKind::BadRequest, 400, "invalid_request_error"),
        (FailureKind::PromptTooLong, 400, "invalid_request_error"),
        (FailureKind::NoCredit, 400, "invalid_request_error"),
        (FailureKind::Unauthorized, 401, "authentication_error"),
        (FailureKind::Forbidden, 403, "permission_error"),
        (FailureKind::NotFound, 404, "not_found_error"),
        (FailureKind::TooLarge, 413, "request_too_large"),
        (FailureKind::RateLimited, 429, "rate_limit_error"),
        (FailureKind::Internal, 500, "api_error"),
        (FailureKind::Overloaded, 529, "overloaded_error"),
    ];
    let server = start(Script::new()).await;
    for (kind, status, name) in expected {
        server.play(Script::new().then(fail(kind).message("because")));
        let answer = say(&server, &request("go")).await;
        assert_eq!(answer.status, status);
        assert_eq!(
            error_of(&answer),
            json!({"type": "error", "error": {"type": name, "message": "because"}})
        );
    }
}

#[tokio::test]
async fn a_rate_limit_says_when_to_try_again_and_then_lets_in() {
    let limited = fail(FailureKind::RateLimited)
        .retry_after(7)
        .header("anthropic-ratelimit-unified-status", "rejected");
    let server = start(Script::new().then(limited).then(text("now"))).await;
    let answer = say(&server, &request("go")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")));
    assert_eq!(answer.header("anthropic-ratelimit-unified-status"), Some("rejected"));
    assert_eq!(said(&server, &request("go")).await, "now");
}

#[tokio::test]
async fn a_cut_stream_ends_inside_its_last_block() {
    let server = start(Script::new().then(text("one two").chunks_of(4).cut()).then(text("again"))).await;
    let answer = say(&server, &request("go")).await;
    assert!(!answer.whole);
    assert_eq!(
        answer.event_types(),
        ["message_start", "content_block_start", "ping", "content_block_delta", "content_block_delta"]
    );
    assert_eq!(said(&server, &request("go")).await, "again");
}

#[tokio::test]
async fn a_whole_body_can_be_cut_too() {
    let server = start(Script::new().then(text("one two").cut())).await;
    let mut body = request("go");
    body["stream"] = Value::Bool(false);
    let answer = say(&server, &body).await;
    assert!(!answer.whole && serde_json::from_str::<Value>(&answer.body).is_err());
}

#[tokio::test]
async fn an_error_can_come_inside_a_stream() {
    let server = start(Script::new().then(text("one").breaks_with(FailureKind::Overloaded))).await;
    let answer = say(&server, &request("go")).await;
    assert!(answer.whole);
    let last = answer.events().pop().unwrap();
    assert_eq!(last["error"], json!({"type": "overloaded_error", "message": "Overloaded"}));
    assert_eq!(
        answer.event_types(),
        ["message_start", "content_block_start", "ping", "content_block_delta", "error"]
    );
}

#[tokio::test]
async fn a_slow_stream_sends_each_delta_in_its_time() {
    let delay = Duration::from_millis(60);
    let server = start(Script::new().then(text("12345").chunks_of(1).each_after(delay))).await;
    let began = Instant::now();
    let mut stream = open(server.address(), "POST", "/v1/messages", "", &request("go").to_string()).await;
    let mut first = vec![0; 64 * 1024];
    let length = stream.read(&mut first).await.unwrap();
    let first = String::from_utf8_lossy(&first[..length]).into_owned();
    assert!(first.contains("message_start") && !first.contains("message_stop"), "{first}");
    let mut rest = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(rest.contains("message_stop"));
    assert!(began.elapsed() >= delay * 5);
}

#[tokio::test]
async fn a_hanging_reply_ends_with_its_client() {
    let server = start(Script::new().then(hang())).await;
    let stream = open(server.address(), "POST", "/v1/messages", "", &request("go").to_string()).await;
    server.wait_for(1, SOON).await.unwrap();
    assert_eq!(server.connections(), 1);
    drop(stream);
    no_connections(&server).await;
}

#[tokio::test]
async fn a_stalled_stream_ends_with_its_client() {
    let server = start(Script::new().then(text("one two").stall())).await;
    let mut stream = open(server.address(), "POST", "/v1/messages", "", &request("go").to_string()).await;
    let mut seen = String::new();
    while !seen.contains("one two") {
        let mut piece = [0; 4096];
        let length = tokio::time::timeout(SOON, stream.read(&mut piece)).await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    assert!(!seen.contains("content_block_stop"));
    drop(stream);
    no_connections(&server).await;
}

async fn no_connections(server: &Server) {
    let gone = async {
        while server.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the connection ends with its client");
}

#[tokio::test]
async fn shutting_down_closes_the_port_and_every_connection() {
    let server = start(Script::new().then(hang())).await;
    let address = server.address();
    let body = request("go").to_string();
    let mut hanging = open(address, "POST", "/v1/messages", "", &body).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    server.wait_for(1, SOON).await.unwrap();
    tokio::time::timeout(SOON, server.shutdown()).await.unwrap();
    for stream in [&mut hanging, &mut idle] {
        let read = tokio::time::timeout(SOON, stream.read(&mut [0; 16])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn dropping_the_server_closes_the_port_and_a_new_one_can_take_it() {
    let server = start(Script::new()).await;
    let address = server.address();
    drop(server);
    let settings = ServerSettings { address, key: None };
    let again = async {
        loop {
            // The task of the listener closes it a little later.
            match Server::start_with(Script::new(), settings.clone()).await {
                Ok(server) => break server,
                Err(ServerError::Listen { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert_eq!(tokio::time::timeout(SOON, again).await.unwrap().address(), address);
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let port = ClosedPort::take().unwrap();
    assert_eq!(port.base_url(), format!("http://{}", port.address()));
    let refused = TcpStream::connect(port.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn only_loopback_is_bound() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let settings = ServerSettings { address: address.parse().unwrap(), key: None };
        let refused = Server::start_with(Script::new(), settings).await.unwrap_err();
        assert!(matches!(refused, ServerError::NotLoopback(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_required_key_is_asked_for_in_either_form() {
    let settings = ServerSettings { key: Some("right".to_owned()), ..ServerSettings::default() };
    let server = Server::start_with(Script::new().then(text("in")), settings).await.unwrap();
    let body = request("go").to_string();
    let mut statuses = Vec::new();
    for headers in ["", "x-api-key: wrong\r\n", "x-api-key: right\r\n", "authorization: Bearer right\r\n"] {
        statuses.push(ask(&server, "POST", "/v1/messages", headers, &body).await.status);
    }
    assert_eq!(statuses, [401, 401, 200, 200]);
    assert_eq!(server.requests()[0].answered, Answered::Refused(401));
}

#[tokio::test]
async fn unknown_paths_are_not_found_in_the_api_s_form() {
    let server = start(Script::new()).await;
    let answer = ask(&server, "GET", "/api/hello", "", "").await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        error_of(&answer),
        json!({"type": "error", "error": {"type": "not_found_error", "message": "Not found"}})
    );
    let head = ask(&server, "HEAD", "/", "", "").await;
    assert_eq!((head.status, head.body.as_str()), (404, ""));
}

#[tokio::test]
async fn an_invalid_body_is_refused_with_the_reason() {
    let server = start(Script::new()).await;
    for (body, reason) in [
        ("not json", "The request body is not valid JSON"),
        ("", "The request body is not valid JSON"),
        ("{}", "model: Field required"),
        ("null", "model: Field required"),
        (r#"{"model":"m"}"#, "messages: Field required"),
    ] {
        let answer = ask(&server, "POST", "/v1/messages", "", body).await;
        let error = error_of(&answer);
        assert_eq!((answer.status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
        assert!(error["error"]["message"].as_str().unwrap().starts_with(reason), "{error}");
    }
}

#[tokio::test]
async fn unusual_messages_are_read_as_far_as_possible() {
    let server = start(Script::new().then(text("[{last_user}]"))).await;
    let mut body = request("x");
    body["messages"] = json!([7, null, {"role": "oracle"}, {"role": "user", "content": [1, {"type": "text"}, {"type": "text", "text": "hi"}]}]);
    body["tools"] = json!({"not": "a list"});
    assert_eq!(said(&server, &body).await, "[hi]");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = start(Script::new()).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head =
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 33554433\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = finish(stream).await;
    assert_eq!((answer.status, &error_of(&answer)["error"]["type"]), (413, &json!("request_too_large")));
}
