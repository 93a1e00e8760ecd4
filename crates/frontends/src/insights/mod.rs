//! The insights dashboard: sessions as trees of agents, over one WebSocket of plain JSON messages.
//!
//! docs/frontends/insights.md specifies it. It stands at `/ws/insights` on the main listener and, where configured, at
//! the root of a listener of its own. The door has checked Host and Origin before anything here runs; a token may also
//! come as the first message, since pages cannot set headers on a WebSocket. Text goes out in complete blocks
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
pub(crate) mod tests;
pub mod wire;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, header},
    routing::get,
};
use portolan_core::{RefusalCode, registry::Registry};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use self::enter::Visitor;
use portolan_host::door::Upgrade;
use portolan_host::door::{
    Arrival, BEARER_PROTOCOL, Denied, Farewell, Guest, Keeper, Stay, Stranger, protocols,
};

/// Where it stands on the main listener.
pub const PATH: &str = "/ws/insights";

/// Where it stands on a listener of its own, beside [`PATH`].
pub const OWN_PATH: &str = "/";

/// What the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The agent of a session whose maker names none.
    pub agent: String,
    /// Clients of this machine that show no token may come in, as operators. For a listener of its own only.
    pub anonymous_loopback: Anonymous,
}

/// Whether clients without a token may come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Nobody.
    #[default]
    Refused,
    /// From this machine.
    FromLoopback,
}

impl Default for Settings {
    fn default() -> Self {
        Self { agent: "claude".into(), anonymous_loopback: Anonymous::Refused }
    }
}

/// Everything the dashboard needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Insights {
    /// The sessions.
    pub registry: Registry,
    /// The keeper of the door it stands behind.
    pub keeper: Arc<Keeper>,
    /// What the configuration says.
    pub settings: Arc<Settings>,
    /// Cancel it once the registry has shut down: connections then close.
    pub stopping: CancellationToken,
    /// Every connection that is open.
    pub connections: TaskTracker,
}

/// A WebSocket may come here before it has shown its token; for the keeper of the main listener.
pub fn is_late(path: &str) -> bool {
    path == PATH
}

/// The same for the keeper of a listener of its own.
pub fn is_late_on_own(path: &str) -> bool {
    path == PATH || path == OWN_PATH
}

/// The route on the main listener.
pub fn routes(insights: Insights) -> Router {
    Router::new().route(PATH, get(websocket)).with_state(insights)
}

/// The routes on a listener of its own.
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

/// The sub-protocol that is spoken, out of those offered: browsers close a connection where none of theirs is named.
/// One that carries no token is named before the one that does.
fn spoken(headers: &axum::http::HeaderMap) -> Option<HeaderValue> {
    let plain = protocols(headers).find(|protocol| !protocol.starts_with(BEARER_PROTOCOL));
    let protocol = plain.or_else(|| protocols(headers).next())?;
    HeaderValue::from_str(protocol).ok()
}
