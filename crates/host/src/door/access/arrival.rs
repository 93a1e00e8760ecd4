//! How a request came in: by which connection, and from where as seen past a proxy.

use std::net::{IpAddr, SocketAddr};

use crate::door::authority::{Authority, Scheme};

/// How a connection came in. The listener puts it on every request; an embedding program may do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Over TCP.
    Tcp {
        /// From where.
        peer: SocketAddr,
        /// To which of our addresses.
        local: SocketAddr,
        /// By TLS.
        secure: bool,
    },
    /// Over the Unix socket, by a process of our own user that passed the peer check.
    Unix,
    /// Nobody told. Only configured hosts and a token count.
    Unknown,
}

/// A request as seen past a proxy.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::door) struct Seen {
    /// Who asks; the client's own address where a proxy we trust tells it.
    pub(in crate::door) address: Option<IpAddr>,
    pub(in crate::door) scheme: Scheme,
    /// The name by which we were called; none over the Unix socket.
    pub(in crate::door) host: Option<Authority>,
}
