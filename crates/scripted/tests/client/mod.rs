//! A raw HTTP/1.1 client: the bytes as they came, and whether the body is complete.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{net::SocketAddr, time::Duration};

use portolan_scripted::{Script, Server};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Longer than anything here takes, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Whether the body is complete.
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The data of every event, checked to be named as its `event:` line says.
    pub(crate) fn events(&self) -> Vec<Value> {
        let event = |text: &str| {
            let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name);
            data
        };
        self.body.split_terminator("\n\n").map(event).collect()
    }

    /// The data of every event of an API whose events have no names; data that is not JSON comes as a string.
    pub(crate) fn unnamed(&self) -> Vec<Value> {
        let data = |text: &str| {
            let data = text.strip_prefix("data: ").unwrap();
            serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))
        };
        self.body.split_terminator("\n\n").map(data).collect()
    }

    pub(crate) fn event_types(&self) -> Vec<String> {
        self.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) async fn start(script: Script) -> Server {
    Server::start(script).await.unwrap()
}

pub(crate) async fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

pub(crate) async fn ask(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    finish(open(server.address(), method, path, headers, body).await).await
}

/// Reads to the end of the connection, however it ends.
pub(crate) async fn finish(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(SOON, async {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..length]);
        }
    });
    read.await.expect("the server ends the connection");
    let text = String::from_utf8(bytes).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let (body, whole) = if chunked { dechunk(rest) } else { (rest.to_owned(), true) };
    Answer { status, headers, body, whole }
}

fn dechunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        body.push_str(&more[..length]);
        rest = &more[length + 2..];
    }
    (body, false)
}

/// A request as an agent makes it: one tool on offer, streamed.
pub(crate) fn request(prompt: &str) -> Value {
    json!({
        "model": "claude-test",
        "max_tokens": 100,
        "stream": true,
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": prompt}],
    })
}

/// The next request of a tool loop: the model's turn, and the results of its tools.
pub(crate) fn and_then(mut request: Value, calls: &[(&str, &str)], results: &[(&str, &str)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name)| json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
        .collect();
    let results: Vec<Value> = results
        .iter()
        .map(|(id, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text}))
        .collect();
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": calls}));
    messages.push(json!({"role": "user", "content": results}));
    request
}

pub(crate) async fn say(server: &Server, body: &Value) -> Answer {
    ask(server, "POST", "/v1/messages?beta=true", "x-api-key: fake\r\n", &body.to_string()).await
}

/// The text of a streamed answer.
pub(crate) async fn said(server: &Server, body: &Value) -> String {
    let answer = say(server, body).await;
    answer.events().iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

/// Sends a request to an API other than the Messages API, as its clients do.
pub(crate) async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    let headers = "authorization: Bearer fake\r\nx-goog-api-key: fake\r\n";
    ask(server, "POST", path, headers, &body.to_string()).await
}
