//! Where the door listens, what it trusts, and every limit, each with its reason.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

/// The largest WebSocket frame from a client, in bytes. A prompt may hold images: the agents take pictures of about 5
/// MiB, which base64 makes 6.7 MiB; 8 MiB holds one with its prompt and still limits a client's memory here.
pub const FRAME_BYTES: usize = 8 * 1024 * 1024;

/// How deep JSON from outside may nest, from clients as well as agents.
pub const JSON_DEPTH: usize = portolan_wire::limits::MAX_DEPTH;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and port; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A Unix socket, for the same user only.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("`unix:` needs a path after it".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let literal = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        literal.as_deref().unwrap_or(text).parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is not an address; use IP:PORT such as 127.0.0.1:7420 or [::1]:7420, or unix:PATH"
            )
        })
    }
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its issuers.
    pub certificate: PathBuf,
    /// The private key, which only the owner may read.
    pub key: PathBuf,
}

/// Whether a process (by its pid) may use the Unix socket. The binary refuses processes inside an agent's tree.
pub type PeerCheck = Arc<dyn Fn(u32) -> bool + Send + Sync>;

/// All settings of the door.
#[derive(Clone)]
pub struct DoorSettings {
    /// The addresses to listen on. Anything but loopback needs `tls`.
    pub listen: Vec<ListenAddress>,
    /// Use TLS on every TCP address. The Unix socket stays without TLS.
    pub tls: Option<TlsFiles>,
    /// More accepted host names, `name` or `name:port`, besides the address of the connection. Without a port: the
    /// listener's port or the scheme's default. `localhost` is not accepted by itself: if only one of its addresses is
    /// bound, another user's program can have the other.
    pub hosts: Vec<String>,
    /// More origins whose pages may use this server, such as `https://example.org`.
    pub origins: Vec<String>,
    /// A reverse proxy is in front of us, terminates TLS, and connects from one of `proxies`. Only from those addresses
    /// are `X-Forwarded-For`, `-Proto` and `-Host` trusted: the first for limits per address, the others to know our
    /// own page's origin. Both `Host` and `X-Forwarded-Host` must be names of ours. This does not change where we may
    /// listen: a proxy on another machine must connect over TLS.
    pub behind_proxy: bool,
    /// The addresses from which the proxies connect; at least one behind a proxy. Every program that connects from such
    /// an address is trusted.
    pub proxies: Vec<IpAddr>,
    /// Which processes may use the Unix socket.
    pub peer_check: PeerCheck,
    /// The limits.
    pub limits: DoorLimits,
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)))],
            tls: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            behind_proxy: false,
            proxies: Vec::new(),
            peer_check: Arc::new(|_| true),
            limits: DoorLimits::default(),
        }
    }
}

impl fmt::Debug for DoorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorSettings")
            .field("listen", &self.listen)
            .field("tls", &self.tls)
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("behind_proxy", &self.behind_proxy)
            .field("proxies", &self.proxies)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The limits of the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// The largest number of TCP connections. A thousand readers with a connection each fit; file descriptors still
    /// suffice.
    pub connections: usize,
    /// The largest number of these from one address that is not loopback: more than a household behind one router
    /// needs.
    pub connections_per_address: usize,
    /// The largest number of Unix connections. Counted separately, so that a flood over TCP never locks the owner out.
    pub unix_connections: usize,
    /// The time for a request's head, and for an idle connection. A slow client holds its place no longer.
    pub head: Duration,
    /// The time for a request's body: enough for the longest body over a slow phone.
    pub body: Duration,
    /// The time for a TLS handshake.
    pub handshake: Duration,
    /// The time for open requests when we stop, and for WebSockets when the door is closed for good.
    pub drain: Duration,
    /// The time for a frontend to send the reason when a guest's stay is over: one write, and a client that reads it.
    pub farewell: Duration,
    /// A client that reads nothing of its answer is dropped after this time, whatever it asked for. Frontends that can
    /// inform such a client do so much earlier, and then give it a minute to read that.
    pub stalled: Duration,
    /// The largest head of a request, in bytes. Our own clients stay under 4 KiB; browsers bring the cookies of every
    /// local port.
    pub head_bytes: usize,
    /// The largest number of header lines of a request.
    pub headers: usize,
    /// The largest body of a request, in bytes: it fits the same prompt as a frame.
    pub body_bytes: usize,
    /// How many wrong credentials an address may show within a minute before it is locked out.
    pub failures: u32,
    /// The length of the first lockout; each later one is twice as long, up to [`DoorLimits::LONGEST_LOCKOUT`].
    pub lockout: Duration,
    /// The sustained rate of one token, in requests per second. A page or a script at full speed stays below it.
    pub requests_per_second: u32,
    /// The largest burst of requests of one token.
    pub request_burst: u32,
}

impl DoorLimits {
    /// The longest lockout: a client that was locked out by mistake can come back within a quarter of an hour.
    pub const LONGEST_LOCKOUT: Duration = Duration::from_mins(15);
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 256,
            unix_connections: 1024,
            head: Duration::from_secs(15),
            body: Duration::from_mins(2),
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            farewell: Duration::from_secs(5),
            stalled: Duration::from_secs(90),
            head_bytes: 32 * 1024,
            headers: 64,
            body_bytes: FRAME_BYTES,
            failures: 10,
            lockout: Duration::from_mins(1),
            requests_per_second: 200,
            request_burst: 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_and_nonsense_is_explained() {
        for text in ["127.0.0.1:7420", "[::1]:0", "unix:/run/portolan.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:80".parse(), Ok(ListenAddress::Tcp("127.0.0.1:80".parse().unwrap())));
        assert!("unix:".parse::<ListenAddress>().is_err());
        assert!("7420".parse::<ListenAddress>().unwrap_err().contains("use IP:PORT"));
    }
}
