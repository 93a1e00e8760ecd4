//! The example is a working program: its own routes, Portolan's routes, and another client in its session.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../examples/own_server.rs"]
#[expect(dead_code, reason = "its `main` is not called here")]
mod example;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use portolan_embed::{DaemonEvent, SessionSpec};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use example::Program;

async fn get(program: &Program, path: &str, token: Option<&str>) -> (u16, String) {
    get_as(program, program.url.strip_prefix("http://").unwrap(), path, token).await
}

/// The same under another name.
async fn get_as(program: &Program, host: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let address = program.url.strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::get(path).header("host", host);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

// covers: 003-001
#[tokio::test]
async fn the_program_talks_with_its_agent_and_answers_with_its_own_code() {
    let program = Program::start().await.unwrap();
    let seen = program.talk().await.unwrap();
    assert_eq!(
        seen,
        [
            "feathers is there",
            "it says \"hello\"",
            "no to Shout: say it loudly",
            "it says \"(quietly)\"",
            "yes to Shout: say it loudly",
            "it says \"LAND AHOY!\"",
            "Terminated",
        ]
    );
    program.stop().await;
}

// covers: 003-001, 004-101
#[tokio::test]
async fn the_program_serves_its_own_routes_and_portolans_routes_which_need_a_token() {
    let program = Program::start().await.unwrap();
    assert_eq!(get(&program, "/", None).await, (200, "the program's own page\n".into()));
    assert_eq!(get(&program, "/api/v1/sessions", None).await.0, 401);
    let (status, body) = get(&program, "/api/v1/sessions", Some(&program.token)).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["sessions"]), (200, &json!([])), "{body}");
    let (status, body) = get_as(&program, "stranger.example", "/api/v1/sessions", Some(&program.token)).await;
    assert_eq!(status, 421, "{body}");
    program.stop().await;
}

#[tokio::test]
async fn a_client_from_outside_shares_the_session_of_the_program() {
    let program = Program::start().await.unwrap();
    let mut changes = program.me.changes().await.unwrap();
    let spec = SessionSpec { agent: "parrot".into(), cwd: "/".into(), ..SessionSpec::default() };
    let session = program.me.create(spec).await.unwrap();
    loop {
        let change = changes.next().await.unwrap().unwrap();
        if matches!(&change.event, DaemonEvent::SessionCreated { summary } if summary.session == session.id())
        {
            break;
        }
    }
    let mut request = format!("{}/ws", program.url.replace("http", "ws")).into_client_request().unwrap();
    let bearer = format!("Bearer {}", program.token);
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let frames = [
        json!({ "type": "hello", "protocol": 1, "client": { "name": "friend" } }),
        json!({ "type": "attach", "id": "1", "session": session.id(), "start": { "after": 0 } }),
        json!({ "type": "command", "id": "2", "session": session.id(),
            "command": { "name": "prompt", "content": [{ "type": "text", "text": "from outside" }] } }),
    ];
    for frame in frames {
        socket.send(Message::text(frame.to_string())).await.unwrap();
    }
    let said = |frame: &Value| {
        frame["event"]["type"] == "message" && frame["event"]["content"][0]["text"] == "from outside"
    };
    loop {
        let message = socket.next().await.unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        if said(&serde_json::from_str(&text).unwrap()) {
            break;
        }
    }
    program.stop().await;
}
