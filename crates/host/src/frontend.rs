//! The port of the north: what a frontend gets, and what it returns.

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::Router;
use portolan_core::{DaemonEvent, ports::Boxed};

use crate::{
    Host,
    door::{AccessCheck, Admit, Listening},
};

/// A protocol that clients speak.
///
/// Before a route of a frontend runs, the door has found out who the client is. The door ends every request, response
/// body and WebSocket when the client's access ends, when the client reads nothing any more, and when the host stops: a
/// frontend cannot forget it.
pub trait Frontend: fmt::Debug + Send {
    /// The frontend's table in portolan.toml, and its name in the daemon's log.
    fn name(&self) -> &'static str;

    /// Addresses of the frontend besides the main listener. They are taken before anything is opened, so that an
    /// unavailable address costs nothing.
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Mounts the frontend on this host.
    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>>;
}

/// Why a frontend cannot be mounted, for people, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{frontend}] {message}")]
pub struct MountError {
    /// The frontend.
    pub frontend: &'static str,
    /// The reason.
    pub message: String,
}

/// A mounted frontend: its places on the host, and what the host does for it.
#[derive(Default)]
pub struct Mounted {
    /// Its place on the main listener.
    pub main: Option<Place>,
    /// Its place on its own addresses.
    pub own: Option<Place>,
    /// Listeners that the frontend opened by itself, without the door: their settings, for the daemon's log.
    pub opened: Vec<DaemonEvent>,
    /// Called before the doors open, with the addresses of the main listener.
    pub start: Option<Start>,
    /// Called when the host begins to stop, before sessions end.
    pub stop: Option<Box<dyn FnOnce() + Send>>,
    /// Ends when everything of the frontend has ended; the host waits for it after the sessions have ended.
    pub ended: Option<Boxed<'static, ()>>,
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted")
            .field("main", &self.main)
            .field("own", &self.own)
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

/// A frontend's part of one listener.
pub struct Place {
    /// How strangers are admitted there, besides by a token in the request.
    pub admits: Vec<Admit>,
    /// Clients on this machine need no token.
    pub tokenless: bool,
    /// Makes the routes, after the checks of that listener exist.
    pub routes: Routes,
}

/// Starts a frontend, with these addresses of the main listener.
pub type Start = Box<dyn FnOnce(&[Listening]) + Send>;

/// Makes the routes of a place behind the checks of its listener.
pub type Routes = Box<dyn FnOnce(&Arc<AccessCheck>) -> Router + Send>;

impl Place {
    /// A place with a token in every request.
    pub fn new(routes: impl FnOnce(&Arc<AccessCheck>) -> Router + Send + 'static) -> Self {
        Self { admits: Vec::new(), tokenless: false, routes: Box::new(routes) }
    }

    /// Also admits strangers in this way.
    #[must_use]
    pub fn admitting(mut self, admit: Admit) -> Self {
        self.admits.push(admit);
        self
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("admits", &self.admits)
            .field("tokenless", &self.tokenless)
            .finish_non_exhaustive()
    }
}
