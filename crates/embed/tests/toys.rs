//! A program's own frontend and its own agent: each is a folder and a line in a list.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../examples/echo/mod.rs"]
mod echo;
#[path = "../examples/plain_text/mod.rs"]
mod plain_text;

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use portolan_embed::{Portolan, Role, SessionSpec, Settings, agents::Supervision};

async fn get(portolan: &Portolan, path: &str, token: Option<&str>) -> http::Response<Incoming> {
    let url = portolan.url().unwrap();
    let host = url.strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::get(path).header("host", host);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    sender.send_request(request.body(String::new()).unwrap()).await.unwrap()
}

async fn chunk(body: &mut Incoming) -> Option<String> {
    let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await.expect("nothing came")?;
    Some(String::from_utf8(frame.ok()?.into_data().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn an_own_agent_and_an_own_frontend_work_together_without_knowing_each_other() {
    let path = std::env::var_os("PATH").unwrap();
    let supervision = Arc::new(Supervision::new("toys", vec![("PATH".into(), path)]));
    let settings = Settings::in_memory(vec![Arc::new(echo::Echo(supervision))]);
    let portolan = Portolan::open_with(settings, vec![plain_text::frontend()]).await.unwrap();
    portolan.listen().await.unwrap();
    let token = portolan.token("a friend", Role::Viewer).await.unwrap();
    let me = portolan.client("the program");
    let spec = SessionSpec { agent: "echo".into(), cwd: std::env::temp_dir(), ..SessionSpec::default() };
    let session = me.start(spec).await.unwrap();
    session.prompt("land").await.unwrap();

    let path = format!("/plain/{}", session.id());
    assert_eq!(get(&portolan, &path, None).await.status(), 401, "the door needs a token");
    let answer = get(&portolan, &path, Some(&token)).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"text/plain; charset=utf-8".parse().unwrap())
    );
    let mut body = answer.into_body();
    assert_eq!(chunk(&mut body).await.as_deref(), Some("land\n"));
    session.prompt("ahoy").await.unwrap();
    assert_eq!(chunk(&mut body).await.as_deref(), Some("ahoy\n"));

    assert_eq!(portolan.shutdown(Duration::ZERO).await, [""; 0]);
    assert_eq!(chunk(&mut body).await, None, "the stream ends with the host");
}
