//! The port of the north: what a frontend is given, and what it gives back.

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::Router;
use portolan_core::{DaemonEvent, ports::Boxed};

use crate::{
    Host,
    door::{AccessCheck, Admit, Listening},
};

/// A protocol that clients speak.
///
/// The door has found out who someone is before a route of a frontend runs, and ends every request, response body and
/// WebSocket when what let it in ends, when its client takes nothing any more, and when the host stops: a frontend cannot
/// forget it.
pub trait Frontend: fmt::Debug + Send {
    /// Its table in portolan.toml, and its name in the daemon's log.
    fn name(&self) -> &'static str;

    /// Addresses of its own, beside the main listener. They are taken before anything is opened, so that one that cannot
    /// be had costs nothing.
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Stands on this host from now on.
    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>>;
}

/// A frontend cannot stand on the host: why, for people, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{frontend}] {message}")]
pub struct MountError {
    /// Which frontend.
    pub frontend: &'static str,
    /// Why.
    pub message: String,
}

/// What a frontend has on the host, and what is to be done for it.
#[derive(Default)]
pub struct Mounted {
    /// On the main listener.
    pub main: Option<Place>,
    /// On the addresses of its own.
    pub own: Option<Place>,
    /// Listeners that it has opened by itself, without the door: how they are set, for the daemon's log.
    pub opened: Vec<DaemonEvent>,
    /// Called before the doors open, with the addresses of the main listener.
    pub start: Option<Start>,
    /// Called when the host begins to stop, before sessions end.
    pub stop: Option<Box<dyn FnOnce() + Send>>,
    /// Ends once everything of the frontend has ended; waited for after sessions have.
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

/// What a frontend has on one listener.
pub struct Place {
    /// How strangers are admitted there, beside a token in the request.
    pub admits: Vec<Admit>,
    /// Whoever comes from this machine needs no token.
    pub tokenless: bool,
    /// Its routes, once the checks of that listener are there.
    pub routes: Routes,
}

/// Starts a frontend, at these addresses of the main listener.
pub type Start = Box<dyn FnOnce(&[Listening]) + Send>;

/// Makes the routes of a place behind the checks of its listener.
pub type Routes = Box<dyn FnOnce(&Arc<AccessCheck>) -> Router + Send>;

impl Place {
    /// With a token in every request.
    pub fn new(routes: impl FnOnce(&Arc<AccessCheck>) -> Router + Send + 'static) -> Self {
        Self { admits: Vec::new(), tokenless: false, routes: Box::new(routes) }
    }

    /// Strangers are admitted in this way, too.
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
