//! A port of loopback without a listener: connections to it are refused for as long as this is held.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port that refuses every connection, and that no other program gets meanwhile.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    // Bound and never listening: the system refuses connections, and keeps the number taken.
    _socket: TcpSocket,
}

impl ClosedPort {
    /// Takes a free port.
    pub fn take() -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// The address without a listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a base URL for an agent.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }
}
