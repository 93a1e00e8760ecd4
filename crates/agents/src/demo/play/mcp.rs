//! The demo agent's MCP client: as much of streamable HTTP as it needs to call the tools of a server on this machine.
//!
//! So the tools of a page work without an account. Servers that are programs, or on other machines, stay simulated:
//! this agent starts nothing and connects to no other machine.

use std::{cell::RefCell, net::IpAddr, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use portolan_wire::sse::{Decoded, Decoder};
use serde_json::{Map, Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long a server may take to connect and to list its tools. It is on this machine.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a call may take: longer than the limit of a page, which asks a person.
const CALL: Duration = Duration::from_mins(15);

/// The most of an answer that is read.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The most tools of a server that are kept.
const TOOLS: usize = 256;

/// The field that names the agent's call, as Claude Code does.
const CALL_ID: &str = "claudecode/toolUseId";

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Done(String),
    Failed(String),
}

/// A server that really exists.
#[derive(Clone, Debug)]
pub(super) struct Server(Rc<Place>);

#[derive(Debug)]
struct Place {
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
    /// The server's id of the connection.
    connection: RefCell<Option<String>>,
    tools: RefCell<Vec<Tool>>,
}

impl Server {
    /// The server that these settings name, if it can be reached.
    pub(super) fn of(settings: &Value) -> Option<Self> {
        let uri: Uri = settings.get("url")?.as_str()?.parse().ok()?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"))?;
        let address: IpAddr = authority.host().trim_matches(['[', ']']).parse().ok()?;
        if !address.is_loopback() {
            return None;
        }
        let given = settings.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
        let header = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
        Some(Self(Rc::new(Place {
            authority: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)),
            path: uri.path_and_query()?.to_string(),
            headers: given.into_iter().filter_map(header).collect(),
            connection: RefCell::default(),
            tools: RefCell::default(),
        })))
    }

    /// The tools that it listed last.
    pub(super) fn tools(&self) -> Vec<Tool> {
        self.0.tools.borrow().clone()
    }

    /// Connects, or connects again, and asks for its tools.
    pub(super) async fn connect(&self) -> Result<(), String> {
        let connecting = async {
            self.0.connection.replace(None);
            let client = json!({ "name": "portolan-demo", "version": env!("CARGO_PKG_VERSION") });
            let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
            self.ask("initialize", hello).await?;
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
            let listed = self.ask("tools/list", json!({})).await?;
            let listed = listed.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
            let tool = |tool: Value| {
                let text = |name: &str| tool.get(name)?.as_str().map(str::to_owned);
                Some(Tool {
                    name: text("name")?,
                    description: text("description").unwrap_or_default(),
                    schema: tool.get("inputSchema").cloned().unwrap_or_default(),
                })
            };
            self.0.tools.replace(listed.into_iter().filter_map(tool).take(TOOLS).collect());
            Ok::<(), String>(())
        };
        let late = || Err(format!("the server took longer than {} s", CONNECT.as_secs()));
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| late())
    }

    /// Calls a tool, under the id by which the session knows the call.
    pub(super) async fn call(&self, tool: &str, arguments: &Value, id: &str) -> Called {
        let meta = Map::from_iter([(CALL_ID.to_owned(), json!(id))]);
        let call = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let called = match timeout(CALL, self.ask("tools/call", call)).await {
            Ok(Ok(called)) => called,
            Ok(Err(why)) => return Called::Failed(why),
            Err(_) => return Called::Failed("the server did not answer".into()),
        };
        let pieces = called.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
        let texts: Vec<_> = pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect();
        let text = texts.join("\n");
        let failed = called.get("isError").and_then(Value::as_bool).unwrap_or_default();
        if failed { Called::Failed(text) } else { Called::Done(text) }
    }

    /// Sends a request, and returns the result.
    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        // One request at a time on each connection: any id is unique.
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answers = self.send(&question).await?;
        let answer = answers.into_iter().find(|answer| answer.get("id") == Some(&json!(1)));
        let mut answer = answer.ok_or("the server gave no answer")?;
        match answer.get("error") {
            Some(error) => Err(error.get("message").and_then(Value::as_str).unwrap_or("it refused").into()),
            None => Ok(answer.get_mut("result").map(Value::take).unwrap_or_default()),
        }
    }

    /// Sends a message, and returns the messages that come back.
    async fn send(&self, message: &Value) -> Result<Vec<Value>, String> {
        let lost = |error: &dyn std::fmt::Display| format!("the server cannot be reached: {error}");
        let place = &self.0;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&place.path)
            .header(header::HOST, &place.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in &place.headers {
            request = request.header(name, value);
        }
        if let Some(connection) = place.connection.borrow().as_ref() {
            request = request.header("mcp-session-id", connection);
        }
        let request =
            request.body(Full::new(Bytes::from(message.to_string()))).map_err(|error| lost(&error))?;
        let stream = TcpStream::connect(&place.authority).await.map_err(|error| lost(&error))?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, line) = made.map_err(|error| lost(&error))?;
        let _line = AbortOnDropHandle::new(tokio::spawn(line));
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        if let Some(named) = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()) {
            place.connection.replace(Some(named.to_owned()));
        }
        read(response).await
    }
}

/// The messages of an answer: one as JSON, or those of a stream up to the first answer.
async fn read(response: Response<Incoming>) -> Result<Vec<Value>, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the server answered {status}"));
    }
    if status == StatusCode::ACCEPTED {
        return Ok(vec![]);
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let mut body = Limited::new(response.into_body(), ANSWER_BYTES);
    if !is_stream {
        let whole =
            body.collect().await.map_err(|error| format!("the server's answer was cut off: {error}"))?;
        let message = serde_json::from_slice(&whole.to_bytes());
        return message.map(|message| vec![message]).map_err(|_| "the server's answer cannot be read".into());
    }
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the server's answer was cut off: {error}"))?;
        decoder.push(frame.data_ref().map_or(&[][..], |bytes| bytes.as_ref()), |decoded| {
            if let Decoded::Event(event) = decoded
                && let Ok(message) = serde_json::from_str::<Value>(&event.data)
            {
                messages.push(message);
            }
        });
        if messages.iter().any(|message| message.get("id").is_some()) {
            break;
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_on_this_machine_are_reached() {
        let of = |settings: Value| Server::of(&settings).map(|server| server.0.authority.clone());
        assert_eq!(
            of(json!({"type": "http", "url": "http://127.0.0.1:7420/mcp"})).unwrap(),
            "127.0.0.1:7420"
        );
        assert_eq!(of(json!({"url": "http://[::1]/mcp"})).unwrap(), "[::1]:80");
        for elsewhere in [
            json!({}),
            json!({"command": "server"}),
            json!({"url": "https://127.0.0.1/mcp"}),
            json!({"url": "http://192.0.2.7/mcp"}),
            json!({"url": "http://example.org/mcp"}),
            json!({"url": "/mcp"}),
            json!({"url": 7}),
        ] {
            assert_eq!(of(elsewhere.clone()), None, "{elsewhere}");
        }
    }
}
