//! The native protocol: the full surface, by WebSocket and REST, with events by SSE, and a minimal page that uses it.
//!
//! docs/protocol.md specifies it. The door authenticates clients before this code runs; core decides what they may do.

mod answer;
pub(crate) mod connection;
mod files;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod metrics;
mod page;
pub mod parse;
mod rest;
#[cfg(feature = "schema")]
pub mod schema;
mod sse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use portolan_core::{Millis, Principal, Refusal, ports::Boxed, registry::Registry};
use portolan_host::{
    Frontend, Host, MountError, Mounted, Place,
    door::{AccessCheck, Admit, Tokens},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{metrics::Metrics, page::is_open};

/// The native protocol and the page, on the main listener.
pub fn frontend() -> Box<dyn Frontend> {
    Box::new(NativeFrontend)
}

#[derive(Debug)]
struct NativeFrontend;

impl Frontend for NativeFrontend {
    fn name(&self) -> &'static str {
        "native"
    }

    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        let of = host.clone();
        let place = Place::new(move |access| routes(Native::new(&of, Arc::clone(access))));
        let main = Some(place.admitting(Admit::open(is_open)));
        Box::pin(std::future::ready(Ok(Mounted { main, ..Mounted::default() })))
    }
}

/// Everything the native protocol needs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Native {
    /// The sessions.
    pub registry: Registry,
    /// The checks of the listener: browsers and rates.
    pub access: Arc<AccessCheck>,
    /// The tokens.
    pub tokens: Arc<Tokens>,
    /// The version that clients see.
    pub version: String,
    /// Sent to clients: a new value means that the logs were replaced. Absent if unknown.
    pub incarnation: Option<String>,
    /// The metrics.
    pub metrics: Metrics,
    /// Cancel it once the registry has shut down: connections then say so, and close.
    pub stopping: CancellationToken,
    /// Every connection and event stream that is open.
    pub connections: TaskTracker,
}

impl Native {
    /// Behind these checks, with the sessions of the host.
    pub fn new(host: &Host, access: Arc<AccessCheck>) -> Self {
        Self {
            registry: host.registry.clone(),
            access,
            tokens: Arc::clone(&host.tokens),
            version: host.version.clone(),
            incarnation: host.incarnation.clone(),
            metrics: Metrics::new(),
            stopping: host.stopping.clone(),
            connections: host.connections.clone(),
        }
    }

    /// Returns once every connection and event stream has ended; for after [`Native::stopping`].
    pub async fn closed(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// A one-time ticket with which a browser logs in as `who`, and its expiry.
    fn ticket(&self, who: &Principal) -> Result<(String, Millis), Refusal> {
        self.access.tickets().create(who)
    }
}

/// Every route of the native protocol. The door checks tokens before these handlers run.
pub fn routes(native: Native) -> Router {
    let router = rest::table().fold(Router::new(), |router, route| match route.serve {
        Some(serve) => router.route(route.path, serve()),
        None => router,
    });
    // The files of the page are not in the table of the protocol.
    let files = page::paths().filter(|path| *path != "/");
    let router = files.fold(router, |router, path| router.route(path, axum::routing::get(page::serve)));
    router.fallback(rest::nowhere).method_not_allowed_fallback(rest::wrong_method).with_state(native)
}
