//! The insights dashboard: sessions as trees of agents, over one WebSocket of plain JSON messages.
//!
//! docs/frontends/insights.md specifies it. It is at `/ws/insights` on the main listener and, if configured, at the
//! root of its own listener. The door checks Host and Origin before this code runs; a token may also come as the first
//! message, because pages cannot set headers on a WebSocket. Text goes out in complete blocks
//! ([`Mode::Items`](portolan_core::log::delivery::Mode::Items)) unless the client asks for deltas
//! ([`Mode::Every`](portolan_core::log::delivery::Mode::Every)).

mod act;
mod connection;
mod enter;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod parse;
pub mod project;
mod questions;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(test)]
mod tests;
pub mod wire;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, header},
    routing::get,
};
use portolan_core::{RefusalCode, ports::Boxed, registry::Registry};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use self::enter::Visitor;
use portolan_host::{
    Frontend, Host, MountError, Mounted, Place,
    door::{
        AccessCheck, Admit, Arrival, BEARER_PROTOCOL, Denied, Farewell, Guest, Stay, Stranger, Upgrade,
        protocols,
    },
    settings::optional_address,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The path on the main listener.
pub const PATH: &str = "/ws/insights";

/// The path on its own listener, in addition to [`PATH`].
pub const OWN_PATH: &str = "/";

/// `[insights]` in portolan.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// An extra listener only for the insights dashboard, such as `127.0.0.1:8765`. Default: none. The main listener
    /// always serves the dashboard at `/ws/insights`. An address that other machines can reach needs TLS.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// On `insights.listen`, accept clients of this machine without a token, as operators. Every program on this
    /// machine can then prompt and approve, agents included.
    pub allow_anonymous_loopback: bool,
    /// The agent of a session that a dashboard creates without naming an agent.
    pub agent: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { listen: None, allow_anonymous_loopback: false, agent: "claude".into() }
    }
}

/// Everything the dashboard needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Insights {
    /// The sessions.
    pub registry: Registry,
    /// The access checks of its listener.
    pub access: Arc<AccessCheck>,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// Cancel it once the registry has shut down: connections then close.
    pub stopping: CancellationToken,
    /// Every connection that is open.
    pub connections: TaskTracker,
}

/// The dashboard, on the main listener and on its own listener. On its own listener, the root is the dashboard, not the
/// page.
pub fn frontend(settings: Settings) -> Box<dyn Frontend> {
    Box::new(Dashboard(settings))
}

#[derive(Debug)]
struct Dashboard(Settings);

impl Frontend for Dashboard {
    fn name(&self) -> &'static str {
        "insights"
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.0.listen.into_iter().collect()
    }

    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        let Self(settings) = *self;
        // The main listener always requires a token, whatever the setting for the dashboard's own listener.
        let on_main = Settings { allow_anonymous_loopback: false, ..settings.clone() };
        let of = host.clone();
        let main = Place::new(move |access| routes(Insights::new(&of, access, on_main)));
        let (of, listen, tokenless) = (host.clone(), settings.listen, settings.allow_anonymous_loopback);
        let mut own = Place::new(move |access| own_routes(Insights::new(&of, access, settings)));
        own.tokenless = tokenless;
        Box::pin(std::future::ready(Ok(Mounted {
            main: Some(main.admitting(Admit::late(is_late))),
            own: listen.map(|_| own.admitting(Admit::late(is_late_on_own))),
            ..Mounted::default()
        })))
    }
}

impl Insights {
    /// Behind these checks, with the sessions of the host.
    fn new(host: &Host, access: &Arc<AccessCheck>, settings: Settings) -> Self {
        Self {
            registry: host.registry.clone(),
            access: Arc::clone(access),
            settings: Arc::new(settings),
            stopping: host.stopping.clone(),
            connections: host.connections.clone(),
        }
    }
}

/// Paths where a WebSocket may open before it has sent its token; for the checks of the main listener.
pub fn is_late(path: &str) -> bool {
    path == PATH
}

/// The same for the checks of its own listener.
pub fn is_late_on_own(path: &str) -> bool {
    path == PATH || path == OWN_PATH
}

/// The route on the main listener.
pub fn routes(insights: Insights) -> Router {
    Router::new().route(PATH, get(websocket)).with_state(insights)
}

/// The routes on its own listener.
pub fn own_routes(insights: Insights) -> Router {
    Router::new().route(PATH, get(websocket)).route(OWN_PATH, get(websocket)).with_state(insights)
}

async fn websocket(State(insights): State<Insights>, request: Request) -> Result<Response<Body>, Denied> {
    let (mut parts, _) = request.into_parts();
    let visitor = if let Some(Guest(who)) = parts.extensions.get::<Guest>() {
        let stay = parts.extensions.get::<Stay>().cloned().unwrap_or_default();
        Visitor::Known(who.clone(), stay)
    } else {
        let stranger = parts.extensions.get::<Stranger>().cloned().ok_or_else(Denied::unauthenticated)?;
        let arrival = parts.extensions.get::<Arrival>().cloned().unwrap_or(Arrival::Unknown);
        Visitor::Stranger(stranger, arrival)
    };
    let protocol = spoken(&parts.headers);
    let upgrade = Upgrade::of(&mut parts)
        .map_err(|(status, message)| Denied::new(status, RefusalCode::Invalid, message))?;
    let (mut response, upgraded) = upgrade.accept();
    response.extensions_mut().insert(Farewell);
    if let Some(protocol) = protocol {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let tracker = insights.connections.clone();
    let serve = async move {
        if let Some(io) = upgraded.await {
            connection::serve(insights, visitor, io).await;
        }
    };
    tracker.spawn(serve.instrument(tracing::debug_span!("insights connection")));
    Ok(response)
}

/// Selects an offered sub-protocol: browsers close a connection if the answer names none of theirs. Prefers a
/// sub-protocol without a token.
fn spoken(headers: &axum::http::HeaderMap) -> Option<HeaderValue> {
    let plain = protocols(headers).find(|protocol| !protocol.starts_with(BEARER_PROTOCOL));
    let protocol = plain.or_else(|| protocols(headers).next())?;
    HeaderValue::from_str(protocol).ok()
}
