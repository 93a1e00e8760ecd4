//! How a request came in: over which connection, and from which address as seen past a proxy.

use std::net::{IpAddr, SocketAddr};

use crate::door::authority::{Authority, Scheme};

/// How a connection came in. The listener puts this on every request; an embedding program may do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Over TCP.
    Tcp {
        /// The client's address.
        peer: SocketAddr,
        /// Our address.
        local: SocketAddr,
        /// Over TLS.
        secure: bool,
    },
    /// Over the Unix socket, by a process of our own user that passed the peer check.
    Unix,
    /// Unknown. Only configured hosts and a token count.
    Unknown,
}

/// A request as seen past a proxy.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::door) struct Seen {
    /// The sender's address; the client's own address if a trusted proxy reports it.
    pub(in crate::door) address: Option<IpAddr>,
    pub(in crate::door) scheme: Scheme,
    /// The name by which the client called us; `None` over the Unix socket.
    pub(in crate::door) host: Option<Authority>,
}
