//! The MCP server for agents at [`PATH`] and their session's id. Only a request with the secret of that start of the
//! agent gets an answer; the door checks the secret before it reads a body.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
    routing::any,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use portolan_core::{RefusalCode, SessionId};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    },
    service::{NotificationContext, RequestContext},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::{
            SessionManager as _,
            local::{LocalSessionManager, SessionConfig},
        },
    },
};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Counter, FrontendTools};
use portolan_host::door::{Denied, KnownBySecret, Secret, SecretVerdict};

/// The path of the server; a session's id follows.
pub const PATH: &str = "/mcp/page-tools/";

/// The largest message of an agent: the arguments of a call, with a large margin.
const MESSAGE_BYTES: usize = 1024 * 1024;

/// How many connections one agent may have. It has one; with each reconnect it leaves the old connection behind.
const CONNECTIONS: usize = 4;

/// How many unfinished connections are allowed in addition. An agent makes one at a time.
const UNFINISHED: usize = 8;

/// The field where Claude Code sends the id of its model's call.
const CALL_ID: &str = "claudecode/toolUseId";

/// The instructions of the server for the model.
const INSTRUCTIONS: &str = "These tools run in the web page that the user has open: they read and change what the user \
     sees there. A call returns what the page answered.";

/// The endpoint of one session's agent.
pub(super) struct Place {
    service: StreamableHttpService<Server, LocalSessionManager>,
    connections: Arc<LocalSessionManager>,
    peers: Arc<Peers>,
    begun: Arc<Begun>,
    counter: Arc<Counter>,
    _end: DropGuard,
}

/// Unfinished connections, with their start times.
type Begun = Mutex<Vec<(Arc<str>, Instant)>>;

/// The agent's connections, oldest first, by their names in requests.
type Peers = Mutex<Vec<(Arc<str>, Peer<RoleServer>)>>;

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Place {
    pub(super) fn new(counter: Arc<Counter>) -> Self {
        let mut connections = LocalSessionManager::default();
        let mut config = SessionConfig::default();
        // An agent may be silent for hours; its connections end with its session, and there are few.
        config.keep_alive = None;
        connections.session_config = config;
        let connections = Arc::new(connections);
        let peers = Arc::new(Peers::default());
        let end = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            // The door has checked the Host and the origin of the request.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MESSAGE_BYTES)
            .with_cancellation_token(end.clone());
        let begun = Arc::new(Begun::default());
        let server = Server {
            counter: Arc::clone(&counter),
            peers: Arc::clone(&peers),
            begun: Arc::clone(&begun),
            connections: Arc::clone(&connections),
        };
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&connections), config);
        Self { service, connections, peers, begun, counter, _end: end.drop_guard() }
    }

    /// Notifies the agent that the list of tools has changed.
    pub(super) async fn tell_changed(&self) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, peer) in peers {
            // A connection that is gone needs no notification.
            let _ = peer.notify_tool_list_changed().await;
        }
    }

    async fn answer(&self, mut request: Request) -> Response {
        let is_new = request.method() == http::Method::POST && connection(request.headers()).is_none();
        if is_new {
            self.give_up_begun().await;
            if self.connections.sessions.read().await.len() >= CONNECTIONS + UNFINISHED {
                let message = "too many connections are being made";
                let denied = Denied::new(StatusCode::SERVICE_UNAVAILABLE, RefusalCode::Busy, message);
                return denied.into_response();
            }
        }
        let list = List::default();
        request.extensions_mut().insert(list.clone());
        let response = self.service.handle(request).await;
        if is_new && let Some(id) = connection(response.headers()) {
            let begun = (id.into(), Instant::now());
            self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(begun);
        }
        let counter = Arc::clone(&self.counter);
        response.map(|body| Body::new(Going { body: Body::new(body), list, counter }))
    }

    /// Ends old unfinished connections, to free their places.
    async fn give_up_begun(&self) {
        let patience = self.counter.limits.connect;
        let late: Vec<_> = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.extract_if(.., |(_, since)| since.elapsed() >= patience).collect()
        };
        for (id, _) in late {
            // The connection may have ended by itself.
            let _ = self.connections.close_session(&id).await;
        }
    }
}

/// The number of the offer in an answer to the agent; 0 if it contains none.
#[derive(Clone, Debug, Default)]
struct List(Arc<AtomicU64>);

/// An answer that is being sent. When all of it is sent, the agent has the list in it.
struct Going {
    body: Body,
    list: List,
    counter: Arc<Counter>,
}

impl HttpBody for Going {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.counter.has_fetched(self.list.0.load(Ordering::Relaxed));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn connection(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

impl FrontendTools {
    /// The route, for the main listener.
    pub fn routes(&self) -> Router {
        Router::new().route(&format!("{PATH}{{session}}"), any(enter)).with_state(self.clone())
    }

    /// Whether a request has the secret of the agent of its endpoint; for the checks of the main listener.
    pub fn check_secret(&self, parts: &Parts) -> SecretVerdict {
        let Some(session) = parts.uri.path().strip_prefix(PATH) else { return SecretVerdict::NotMine };
        let known = session.parse().ok().and_then(|session| self.page(session));
        let expected = known.and_then(|page| page.told(|told| told.secret.map(|(_, digest)| digest)));
        let shown = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
            .map(|secret| Secret::sent(secret).digest());
        match (expected, shown) {
            (Some(expected), Some(shown)) if bool::from(expected.same(&shown)) => SecretVerdict::Right,
            _ => SecretVerdict::Wrong,
        }
    }
}

async fn enter(
    State(tools): State<FrontendTools>,
    Path(session): Path<String>,
    request: Request,
) -> Response {
    // The door has checked the secret. Without a door, every request is refused.
    let page = session.parse::<SessionId>().ok().and_then(|session| tools.page(session));
    match page.filter(|_| request.extensions().get::<KnownBySecret>().is_some()) {
        Some(page) => page.place.answer(request).await,
        None => Denied::unauthenticated().into_response(),
    }
}

/// The MCP handler of one connection of the agent.
#[derive(Clone)]
struct Server {
    counter: Arc<Counter>,
    peers: Arc<Peers>,
    begun: Arc<Begun>,
    connections: Arc<LocalSessionManager>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(super::SERVER, env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    /// The connections that can get a notification of a changed list.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let parts = context.extensions.get::<Parts>();
        let Some(id) = parts.and_then(|parts| connection(&parts.headers)) else { return };
        let id: Arc<str> = id.into();
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).retain(|(begun, _)| *begun != id);
        let oldest = {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.push((Arc::clone(&id), context.peer));
            (peers.len() > CONNECTIONS).then(|| peers.remove(0).0)
        };
        if let Some(oldest) = oldest {
            // The connection may have ended by itself.
            let _ = self.connections.close_session(&oldest).await;
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (number, tools) = self.counter.look(|number, offer| (number, offer.tools.clone()));
        let list = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<List>());
        if let Some(List(list)) = list {
            list.store(number, Ordering::Relaxed);
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let failed = |why: String| Ok(CallToolResult::error(vec![ContentBlock::text(why)]).into());
        if !self.counter.look(|_, offer| offer.has(&call.name)) {
            return failed(format!("the page has no tool `{}` at the moment", call.name));
        }
        let id = context.meta.get(CALL_ID).or_else(|| call.meta.as_ref()?.get(CALL_ID));
        let Some(id) = id.and_then(|id| id.as_str()).filter(|id| !id.is_empty()) else {
            return failed(
                "this agent does not say which call this is, so the page cannot run it".to_owned(),
            );
        };
        // Cancel-safe: dropping a call ends its wait.
        let outcome = tokio::select! {
            outcome = self.counter.desk.call(id, &self.counter.limits) => outcome,
            () = context.ct.cancelled() => return failed("the call was cancelled".to_owned()),
        };
        match outcome {
            Ok(result) => Ok(CallToolResult::success(vec![ContentBlock::text(result)]).into()),
            Err(why) => failed(why.to_string()),
        }
    }
}
