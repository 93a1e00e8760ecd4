//! Lines to a daemon: a Unix socket, TCP or TLS, and the token.

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream, UnixStream},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, client::IntoClientRequest as _, protocol::WebSocketConfig},
};

use crate::{Error, tls};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest frame that the daemon may send: a page of history with large entries.
const FRAME_BYTES: usize = 256 * 1024 * 1024;

/// A byte stream to the daemon over any transport.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The result of [`Dial::line`].
pub type Dialling<'a> = Pin<Box<dyn Future<Output = Result<Line, Error>> + Send + 'a>>;

/// Why a line is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A client wants to reach the daemon.
    First,
    /// A connection was lost. A daemon that was stopped stays stopped.
    Again,
}

/// A way to a daemon. [`Address`] is the plain one; a program may bring its own, such as one that starts the daemon
/// first.
pub trait Dial: fmt::Debug + Send + Sync {
    /// A new line to the daemon.
    fn line(&self, attempt: Attempt) -> Dialling<'_>;
}

/// A token's text; never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// This text, without the white space around it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A daemon's address and token.
#[derive(Clone, Debug)]
pub enum Address {
    /// The daemon's Unix socket, where the system identifies the caller. A token is only needed to act as another
    /// account.
    Socket {
        /// The socket.
        path: PathBuf,
        /// The token of the account to act as.
        token: Option<Token>,
    },
    /// The daemon's URL.
    Url {
        /// The URL, such as `https://host:7420`.
        url: String,
        /// The token.
        token: Token,
        /// Certificates to trust in addition to the system's.
        ca_file: Option<PathBuf>,
        /// How many unread bytes the kernel keeps; the kernel's default when absent.
        receive_buffer: Option<u32>,
    },
}

impl Address {
    /// A daemon by its URL.
    pub fn url(url: impl Into<String>, token: Token) -> Self {
        Self::Url { url: url.into(), token, ca_file: None, receive_buffer: None }
    }
}

impl Dial for Address {
    fn line(&self, _: Attempt) -> Dialling<'_> {
        Box::pin(async move {
            match self {
                Self::Socket { path, token } => by_socket(path, token.clone()).await,
                Self::Url { url, token, ca_file, receive_buffer } => {
                    by_url(url, token, ca_file.as_deref(), *receive_buffer).await
                }
            }
        })
    }
}

/// A byte stream to the daemon, the daemon's name, and the token to send.
pub struct Line {
    pub(crate) stream: Box<dyn Stream>,
    /// The scheme of a WebSocket, and the authority.
    scheme: &'static str,
    pub(crate) authority: String,
    /// The prefix of every path.
    pub(crate) prefix: String,
    token: Option<Token>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({}://{}{})", self.scheme, self.authority, self.prefix)
    }
}

impl Line {
    /// The header with the token, if there is one.
    pub(crate) fn authorization(&self) -> Result<Option<http::HeaderValue>, Error> {
        let Some(Token(token)) = &self.token else { return Ok(None) };
        let mut value = http::HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Invalid("the token holds characters that a token cannot have".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

#[cfg(test)]
impl Line {
    /// A line over this stream, without a token.
    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            scheme: "ws",
            authority: "localhost".into(),
            prefix: String::new(),
            token: None,
        }
    }
}

async fn by_socket(path: &Path, token: Option<Token>) -> Result<Line, Error> {
    let stream = UnixStream::connect(path).await.map_err(|error| {
        Error::Unreachable(format!("no daemon answers at the socket `{}`: {error}", path.display()))
    })?;
    Ok(Line {
        stream: Box::new(stream),
        scheme: "ws",
        authority: "localhost".into(),
        prefix: String::new(),
        token,
    })
}

async fn by_url(
    url: &str,
    token: &Token,
    ca_file: Option<&Path>,
    receive_buffer: Option<u32>,
) -> Result<Line, Error> {
    let uri: http::Uri = url.parse().map_err(|_| bad_url(url))?;
    let host = uri.host().ok_or_else(|| bad_url(url))?;
    let (secure, usual_port) = match uri.scheme_str() {
        Some("http" | "ws") => (false, 80),
        Some("https" | "wss") => (true, 443),
        _ => return Err(bad_url(url)),
    };
    if !secure && !is_loopback(host) {
        return Err(Error::Invalid(format!(
            "`{url}` would send the token over the network without encryption; use an https address"
        )));
    }
    let port = uri.port_u16().unwrap_or(usual_port);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = match tokio::time::timeout(CONNECT, connect(bare, port, receive_buffer)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(Error::Unreachable(format!("no daemon answers at `{url}`: {error}"))),
        Err(_) => return Err(Error::Unreachable(format!("no daemon answers at `{url}`"))),
    };
    // Keys and answers are small and must not wait for more data.
    let _ = stream.set_nodelay(true);
    let scheme = if secure { "wss" } else { "ws" };
    let stream: Box<dyn Stream> =
        if secure { Box::new(tls::wrap(stream, bare, ca_file).await?) } else { Box::new(stream) };
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok(Line { stream, scheme, authority: format!("{host}:{port}"), prefix, token: Some(token.clone()) })
}

async fn connect(host: &str, port: u16, receive_buffer: Option<u32>) -> std::io::Result<TcpStream> {
    let Some(bytes) = receive_buffer else { return TcpStream::connect((host, port)).await };
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in tokio::net::lookup_host((host, port)).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Before connecting: the other side learns the size then.
        socket.set_recv_buffer_size(bytes)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bad_url(url: &str) -> Error {
    Error::Invalid(format!(
        "`{url}` is not the address of a daemon; use an address such as https://host:7420"
    ))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Makes a WebSocket from a line.
pub(crate) async fn shake_hands(line: Line) -> Result<WebSocketStream<Box<dyn Stream>>, Error> {
    let Line { scheme, authority, prefix, .. } = &line;
    let address = format!("{scheme}://{authority}{prefix}/ws");
    let mut request = address.as_str().into_client_request().map_err(|_| bad_url(&address))?;
    if let Some(value) = line.authorization()? {
        request.headers_mut().insert(http::header::AUTHORIZATION, value);
    }
    let config =
        WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES));
    match client_async_with_config(request, line.stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(refused(&response)),
        Err(error) => {
            Err(Error::Unreachable(format!("the daemon does not speak Portolan's protocol: {error}")))
        }
    }
}

/// The meaning of an HTTP answer to the upgrade.
fn refused(response: &tungstenite::handshake::client::Response) -> Error {
    let said = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let said: String = serde_json::from_str::<serde_json::Value>(&said)
        .ok()
        .and_then(|body| {
            let error = body.get("error").unwrap_or(&body);
            Some(error.get("message")?.as_str()?.to_owned())
        })
        .unwrap_or_else(|| said.trim().chars().take(300).collect());
    let status = response.status();
    match status.as_u16() {
        // The answer's own words are for authors of clients.
        401 => Error::NotLetIn,
        429 if said.is_empty() => {
            Error::Unreachable("the daemon got too many connection attempts; wait a minute".into())
        }
        _ if said.is_empty() => Error::Unreachable(format!("the daemon refused the connection: {status}")),
        _ => Error::Unreachable(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_not_sent_over_the_network_without_encryption() {
        let error =
            Address::url("http://192.0.2.1:7420", Token::new("t")).line(Attempt::First).await.unwrap_err();
        assert!(error.to_string().contains("without encryption"), "{error}");
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", Token::new("hidden")), "(secret)");
    }
}
