//! Where the daemon is and how to get in: the Unix socket of the home folder first, else a URL and a token.
//!
//! A token comes from a file or from the variable PORTOLAN_TOKEN, never from the command line, where every
//! other process could read it.

use std::{path::PathBuf, time::Duration};

use portolan_frontends::door::Reach;
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, client::IntoClientRequest as _, protocol::WebSocketConfig},
};

use super::{FRAME_BYTES, Stream, tls};
use crate::{
    arguments::Global,
    daemon::{detach, lock::Lock},
    failure::{Failure, Outcome},
    home::{Home, Record},
};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Whether a daemon is started where none runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It is.
    IfNeeded,
    /// It is not.
    Never,
}

/// Where the daemon is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    place: Place,
    start: Start,
}

#[derive(Clone, Debug)]
enum Place {
    Local { home: Home, token: Option<Secret> },
    Remote { url: String, token: Secret, ca_file: Option<PathBuf> },
}

/// A token's text; never printed.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Target {
    /// What the command line and the environment say.
    pub(crate) fn find(global: &Global, start: Start) -> Outcome<Self> {
        let token = match (&global.token_file, std::env::var("PORTOLAN_TOKEN")) {
            (Some(file), _) => Some(read_token(file)?),
            (None, Ok(token)) if !token.trim().is_empty() => Some(Secret(token.trim().to_owned())),
            _ => None,
        };
        let place = match (global.url.clone().filter(|url| !url.is_empty()), token) {
            (None, token) => Place::Local { home: Home::find()?, token },
            (Some(url), Some(token)) => Place::Remote { url, token, ca_file: global.ca_file.clone() },
            (Some(_), None) => {
                return Err(Failure::usage(
                    "a daemon by URL needs a token; name its file with `--token-file`, or set PORTOLAN_TOKEN",
                ));
            }
        };
        Ok(Self { place, start })
    }

    /// The same place, but no daemon is started there.
    pub(crate) fn without_start(&self) -> Self {
        Self { start: Start::Never, ..self.clone() }
    }

    /// The home folder, where the daemon is this user's own.
    pub(crate) fn home(&self) -> Option<&Home> {
        match &self.place {
            Place::Local { home, .. } => Some(home),
            Place::Remote { .. } => None,
        }
    }

    /// A WebSocket to the daemon, before the greeting.
    pub(crate) async fn open(&self) -> Outcome<WebSocketStream<Box<dyn Stream>>> {
        match tokio::time::timeout(CONNECT + Duration::from_secs(20), self.open_in_time()).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::unreachable("the daemon does not answer; `portolan logs` may tell why")),
        }
    }

    async fn open_in_time(&self) -> Outcome<WebSocketStream<Box<dyn Stream>>> {
        shake_hands(self.line().await?).await
    }

    /// A line to the daemon, on which nothing was said yet.
    pub(super) async fn line(&self) -> Outcome<Line> {
        match &self.place {
            Place::Remote { url, token, ca_file } => by_url(url, token, ca_file.as_deref()).await,
            Place::Local { home, token } => {
                if let Some(line) = local(home, token.as_ref()).await? {
                    return Ok(line);
                }
                if self.start == Start::Never {
                    return Err(no_daemon(home));
                }
                detach::start(home).await?;
                local(home, token.as_ref()).await?.ok_or_else(|| no_daemon(home))
            }
        }
    }
}

/// A byte stream to the daemon, what it is called there, and the token to show.
pub(super) struct Line {
    pub(super) stream: Box<dyn Stream>,
    /// The scheme of a WebSocket, and the authority.
    scheme: &'static str,
    pub(super) authority: String,
    /// What stands before every path.
    pub(super) prefix: String,
    token: Option<Secret>,
}

impl Line {
    /// The header that shows the token, where there is one to show.
    pub(super) fn authorization(&self) -> Outcome<Option<http::HeaderValue>> {
        let Some(Secret(token)) = &self.token else { return Ok(None) };
        let mut value = http::HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Failure::usage("the token holds characters that no token has"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

fn no_daemon(home: &Home) -> Failure {
    Failure::unreachable(format!("no daemon runs for `{}`; `portolan up` starts one", home.path().display()))
}

fn read_token(file: &std::path::Path) -> Outcome<Secret> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("the token file `{}`: {error}", file.display())))?;
    Ok(Secret(text.trim().to_owned()))
}

/// The daemon of this home: its socket, else its address. `None` where none runs.
async fn local(home: &Home, token: Option<&Secret>) -> Outcome<Option<Line>> {
    let reach = Reach::to(&home.socket());
    if let Ok(reach) = &reach
        && let Ok(stream) = UnixStream::connect(reach.path()).await
    {
        // Over the socket the system tells who we are; a token is only for being someone else.
        return Ok(Some(Line {
            stream: Box::new(stream),
            scheme: "ws",
            authority: "localhost".into(),
            prefix: String::new(),
            token: token.cloned(),
        }));
    }
    let Some(record) = Record::read(home) else { return Ok(None) };
    // Only the one who holds the lock gets the token. A daemon that was killed leaves its file behind, and both its
    // pid and its port may be another user's by now.
    if !is_of_the_holder(home, &record) || !listens(&record.url).await {
        return Ok(None);
    }
    let token = match token {
        Some(token) => token.clone(),
        None => read_token(&home.token())?,
    };
    let own = home.path().join("tls-cert.pem");
    by_url(&record.url, &token, own.exists().then_some(own.as_path())).await.map(Some)
}

/// Did the daemon that runs now write this?
fn is_of_the_holder(home: &Home, record: &Record) -> bool {
    Lock::holder(home).is_some_and(|holder| holder.pid == Some(record.pid))
}

/// Does anyone listen there? A daemon that is stopping does not.
async fn listens(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    match uri.as_ref().and_then(|uri| Some((uri.host()?.trim_matches(['[', ']']), uri.port_u16()?))) {
        Some(address) => TcpStream::connect(address).await.is_ok(),
        None => false,
    }
}

/// A daemon by its address.
async fn by_url(url: &str, token: &Secret, ca_file: Option<&std::path::Path>) -> Outcome<Line> {
    let uri: http::Uri = url.parse().map_err(|_| bad_url(url))?;
    let host = uri.host().ok_or_else(|| bad_url(url))?;
    let (secure, usual_port) = match uri.scheme_str() {
        Some("http" | "ws") => (false, 80),
        Some("https" | "wss") => (true, 443),
        _ => return Err(bad_url(url)),
    };
    if !secure && !is_loopback(host) {
        return Err(Failure::usage(format!(
            "`{url}` would send the token over the network in the clear; use an https address"
        )));
    }
    let port = uri.port_u16().unwrap_or(usual_port);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = match tokio::time::timeout(CONNECT, TcpStream::connect((bare, port))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return Err(Failure::unreachable(format!("no daemon answers at `{url}`: {error}")));
        }
        Err(_) => return Err(Failure::unreachable(format!("no daemon answers at `{url}`"))),
    };
    // Keys and answers are small and must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let scheme = if secure { "wss" } else { "ws" };
    let stream: Box<dyn Stream> =
        if secure { Box::new(tls::wrap(stream, bare, ca_file).await?) } else { Box::new(stream) };
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok(Line { stream, scheme, authority: format!("{host}:{port}"), prefix, token: Some(token.clone()) })
}

fn bad_url(url: &str) -> Failure {
    Failure::usage(format!("`{url}` is no address of a daemon; use one such as https://host:7420"))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn shake_hands(line: Line) -> Outcome<WebSocketStream<Box<dyn Stream>>> {
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
        Err(error) => Err(Failure::unreachable(format!("the daemon does not speak our protocol: {error}"))),
    }
}

/// What an HTTP answer to the upgrade means.
fn refused(response: &tungstenite::handshake::client::Response) -> Failure {
    let said = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let said: String = serde_json::from_str::<serde_json::Value>(&said)
        .ok()
        .and_then(|body| {
            let error = body.get("error").unwrap_or(&body);
            Some(error.get("message")?.as_str()?.to_owned())
        })
        .unwrap_or_else(|| said.trim().chars().take(300).collect());
    let status = response.status();
    let words = match status.as_u16() {
        // What it says is meant for whoever writes a client.
        401 => "the daemon does not take this token: it is wrong, expired or revoked; its owner makes another with \
                `portolan token create`"
            .to_owned(),
        429 if said.is_empty() => "the daemon has had too many tries; wait a minute".to_owned(),
        _ if said.is_empty() => format!("the daemon refused the connection: {status}"),
        _ => said,
    };
    Failure::unreachable(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_not_sent_over_the_network_in_the_clear() {
        let error = by_url("http://192.0.2.1:7420", &Secret("t".into()), None).await.err().unwrap();
        assert!(error.message.contains("in the clear"), "{error}");
    }

    #[tokio::test]
    async fn whoever_listens_where_a_killed_daemon_did_is_not_given_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let stranger = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let record = Record {
            // A number that is alive: the system gives them out again.
            pid: std::process::id(),
            url: format!("http://{}", stranger.local_addr().unwrap()),
            listen: String::new(),
            version: String::new(),
            started_at: String::new(),
            heartbeat_at: String::new(),
        };
        record.write(&home).unwrap();
        assert!(local(&home, Some(&Secret("t".into()))).await.unwrap().is_none());
        assert!(tokio::time::timeout(Duration::from_millis(50), stranger.accept()).await.is_err());
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", Secret("hidden".into())), "(secret)");
    }
}
