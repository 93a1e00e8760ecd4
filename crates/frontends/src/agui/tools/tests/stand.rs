//! An agent that accepts MCP servers, a listener with its checks, and a bare client, as a hostile program would use.

use std::sync::Arc;

use axum::body::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use indexmap::IndexMap;
use portolan_core::{
    Action, Capabilities, CommandId, Role, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{AgentInfo, Content, TurnOutcome, TurnResult, plain_text},
    ports::Order,
    registry::Registry,
    session::{
        machine::Policy,
        state::{State, Status},
    },
    spec::SpecOption,
};
pub(super) use portolan_testkit::sessions::{PATIENCE, owner};
use portolan_testkit::{
    agents::{Puppet, Told, permission},
    sessions::until,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::super::{FrontendTools, Limits, Offered, PATH, PageTool};
use crate::testing::Behind;
use portolan_host::door::{Admit, Door, Listening};

/// Accepts MCP servers and connects to none. A prompt is the name of a tool that the agent asks permission for.
fn recluse() -> Puppet {
    let capabilities = Capabilities {
        mcp: true,
        mcp_changes: true,
        interrupt: true,
        native_protocol: NativeProtocol::Demo,
        options: vec![SpecOption::Cwd, SpecOption::Prompt],
        ..Capabilities::default()
    };
    Puppet::new("recluse").with_capabilities(capabilities).playing(|strings| {
        Box::pin(async move {
            strings.ready_as(AgentInfo::default()).await;
            strings
                .act(|strings, content| {
                    Box::pin(async move {
                        let ask = permission(&plain_text(&content), json!({}));
                        strings.answer_to(ask, None, None).await?;
                        Ok(TurnResult::bare(TurnOutcome::Completed))
                    })
                })
                .await
        })
    })
}

/// Everything behind the listener.
pub(super) struct Stand {
    pub(super) tools: FrontendTools,
    pub(super) registry: Registry,
    pub(super) owner_secret: String,
    address: String,
    orders: Told,
    stopping: CancellationToken,
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Stand {
    pub(super) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub(super) async fn with(limits: Limits) -> Self {
        let agent = recluse();
        let orders = agent.told();
        let behind = Behind::new(vec![Arc::new(agent)], Policy::default()).await;
        let Behind { registry, tokens, door: settings, .. } = &behind;
        let tools = FrontendTools::new(registry.clone(), limits);
        let checking = tools.clone();
        let access = behind
            .access()
            .await
            .admitting(Admit::secret(move |parts| checking.check_secret(parts)))
            .unwrap();
        let stopping = CancellationToken::new();
        let door = Door::bind(settings).await.unwrap();
        let serving = door.serve(Arc::new(access), tools.routes(), stopping.clone());
        let base = serving.addresses.iter().find_map(Listening::url).unwrap();
        tools.listens_at(base.clone());
        tools.start(&TaskTracker::new(), stopping.clone());
        let (_, owner_secret) = tokens.create("ada", Role::Owner, None, None).await.unwrap();
        let address = base.strip_prefix("http://").unwrap().to_owned();
        Self { tools, registry: registry.clone(), owner_secret, address, orders, stopping }
    }

    pub(super) async fn session(&self) -> SessionId {
        let spec = SessionSpec { agent: "recluse".into(), cwd: "/".into(), ..SessionSpec::default() };
        let session = self.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session;
        self.until(session, |state| state.summary.status == Status::Connected).await;
        session
    }

    /// Waits until a session matches.
    pub(super) async fn until(&self, session: SessionId, fits: impl Fn(&State) -> bool) -> Arc<State> {
        until(&self.registry, session, fits).await
    }

    pub(super) async fn act(&self, session: SessionId, action: Action) {
        self.registry.submit(&owner(), session, CommandId::random(), action).await.unwrap();
    }

    pub(super) async fn prompt(&self, session: SessionId, text: &str) {
        self.act(session, Action::Prompt { content: vec![Content::text(text)] }).await;
    }

    /// Offers tools, while an agent fetches the list as soon as it is registered. Returns the agent's connection.
    pub(super) async fn offer(&self, session: SessionId, names: &[&str]) -> (Offered, Connection) {
        let before = self.orders.borrow().len();
        let offering = self.tools.offer(session, names.iter().map(|name| tool(name)).collect());
        let agent = async {
            let mut orders = self.orders.subscribe();
            orders.wait_for(|orders| orders.len() > before).await.unwrap();
            let mut connection = self.connection(session);
            connection.handshake().await;
            connection.ask("tools/list", json!({})).await;
            connection
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(offering, agent) }).await.unwrap()
    }

    /// The last servers that the agent got.
    pub(super) fn servers(&self) -> IndexMap<String, Value> {
        let orders = self.orders.borrow();
        let set = |order: &Order| match order {
            Order::McpSet(servers) => Some(servers.clone()),
            _ => None,
        };
        orders.iter().rev().find_map(set).unwrap_or_default()
    }

    pub(super) fn orders(&self) -> Vec<Order> {
        self.orders.borrow().clone()
    }

    /// A connection of the session's agent, with its secret.
    pub(super) fn connection(&self, session: SessionId) -> Connection {
        let server = &self.servers()["copilotkit-frontend"];
        assert_eq!(server["url"], format!("http://{}{PATH}{session}", self.address));
        let secret = server["headers"]["Authorization"].as_str().unwrap().to_owned();
        self.connection_with(session, &secret)
    }

    pub(super) fn connection_with(&self, session: SessionId, authorization: &str) -> Connection {
        Connection {
            address: self.address.clone(),
            path: format!("{PATH}{session}"),
            authorization: authorization.to_owned(),
            id: None,
            asked: 0,
        }
    }
}

pub(super) fn tool(name: &str) -> PageTool {
    PageTool { name: name.into(), description: format!("does {name}"), parameters: Value::Null }
}

/// A client of the endpoint, one request per connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    address: String,
    path: String,
    authorization: String,
    id: Option<String>,
    asked: u64,
}

impl Connection {
    pub(super) async fn send(
        &self,
        method: Method,
        body: impl Into<Bytes>,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.path)
            .header("host", &self.address)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if !self.authorization.is_empty() {
            request = request.header("authorization", &self.authorization);
        }
        if let Some(id) = &self.id {
            request = request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25");
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let driving = tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        driving.abort();
        (parts.status, parts.headers, body.unwrap_or_default())
    }

    /// Sends a request and returns the answer: the one message of the body, as JSON or as an event.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let (status, headers, body) = self.send(Method::POST, message.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        if let Some(id) = headers.get("mcp-session-id") {
            self.id = Some(id.to_str().unwrap().to_owned());
        }
        let mut events = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        let found = events.rfind(|data| !data.is_empty()).unwrap_or(&body).to_owned();
        serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {body:?}"))
    }

    /// Returns the server's info.
    pub(super) async fn handshake(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let said = self.ask("initialize", params).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let (status, _, body) = self.send(Method::POST, initialized.to_string()).await;
        assert_eq!((status, body.as_str()), (StatusCode::ACCEPTED, ""));
        said["result"].clone()
    }

    /// Calls a tool as Claude Code does.
    pub(super) async fn call(&mut self, name: &str, id: &str) -> (bool, String) {
        let meta = json!({ "claudecode/toolUseId": id, "progressToken": 1 });
        let said = self.ask("tools/call", json!({ "name": name, "arguments": {}, "_meta": meta })).await;
        let result = &said["result"];
        let is_error = result["isError"].as_bool().unwrap_or_default();
        (is_error, result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    }
}

impl Connection {
    /// Opens the stream of notifications, and waits for one with this text.
    pub(super) async fn hears(&self, words: &str) -> bool {
        let mut request = Request::builder()
            .uri(&self.path)
            .header("host", &self.address)
            .header("accept", "text/event-stream")
            .header("authorization", &self.authorization);
        if let Some(id) = &self.id {
            request = request.header("mcp-session-id", id);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let _driving = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
        let mut body = sender.send_request(request).await.unwrap().into_body();
        let mut heard = String::new();
        while let Some(Ok(frame)) = body.frame().await {
            heard.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap_or(&Bytes::new())));
            if heard.contains(words) {
                return true;
            }
        }
        false
    }
}
