//! Where the daemon is and how to connect: first the Unix socket of the home folder, otherwise a URL and a token.
//!
//! A token comes from a file or from the variable PORTOLAN_TOKEN, never from the command line, where every
//! other process could read it.

use std::sync::Arc;

use portolan_client::{Address, Attempt, Client, Dial, Dialling, Error, Line, Token};
use portolan_host::door::Reach;
use portolan_protocol::ClientInfo;
use tokio::net::TcpStream;

use crate::{
    arguments::Global,
    daemon::{detach, lock::Lock},
    failure::{Failure, Outcome},
    home::{Home, Record},
};

/// The version of this program. A daemon of another version causes a warning. The variable at build time is for tests of
/// upgrades, which need two versions of one source.
pub(crate) const VERSION: &str = match option_env!("PORTOLAN_BUILD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Whether to start a daemon if none runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Start a daemon.
    IfNeeded,
    /// Start no daemon.
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
    Local { home: Home, token: Option<Token> },
    Remote(Address),
}

impl Target {
    /// The target that the command line and the environment name.
    pub(crate) fn find(global: &Global, start: Start) -> Outcome<Self> {
        let token = match (&global.token_file, std::env::var("PORTOLAN_TOKEN")) {
            (Some(file), _) => Some(read_token(file)?),
            (None, Ok(token)) if !token.trim().is_empty() => Some(Token::new(&token)),
            _ => None,
        };
        let place = match (global.url.clone().filter(|url| !url.is_empty()), token) {
            (None, token) => Place::Local { home: Home::find()?, token },
            (Some(url), Some(token)) => {
                let ca_file = global.ca_file.clone();
                Place::Remote(Address::Url { url, token, ca_file, receive_buffer: None })
            }
            (Some(_), None) => {
                return Err(Failure::usage(
                    "a daemon at a URL needs a token; give it with `--token-file FILE`, or set PORTOLAN_TOKEN",
                ));
            }
        };
        Ok(Self { place, start })
    }

    /// The home folder, if the daemon is this user's own.
    pub(crate) fn home(&self) -> Option<&Home> {
        match &self.place {
            Place::Local { home, .. } => Some(home),
            Place::Remote(_) => None,
        }
    }

    async fn dial(&self, attempt: Attempt) -> Outcome<Result<Line, Error>> {
        let (home, token) = match &self.place {
            Place::Remote(address) => return Ok(address.line(attempt).await),
            Place::Local { home, token } => (home, token.as_ref()),
        };
        if let Some(line) = local(home, token).await? {
            return Ok(line);
        }
        // A daemon that was stopped while a client was connected stays stopped.
        if self.start == Start::Never || attempt == Attempt::Again {
            return Err(no_daemon(home));
        }
        detach::start(home).await?;
        local(home, token).await?.ok_or_else(|| no_daemon(home))
    }

    /// Sends one HTTP request. `None` if the daemon does not know the path.
    pub(crate) async fn request(
        &self,
        method: http::Method,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> Outcome<Option<serde_json::Value>> {
        Ok(portolan_client::request(self, method, path, body).await?)
    }

    /// Connects. Starts the daemon if none runs and the target allows a start.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        let who = ClientInfo { name: "cli".into(), version: VERSION.into() };
        let client = Client::connect(Arc::new(self.clone()), who).await?;
        let version = &client.server().version;
        if version != VERSION {
            crate::output::note(format!(
                "warning: the daemon is version {version}, this program is version {VERSION}; `portolan restart` \
                 starts version {VERSION}"
            ));
        }
        Ok(client)
    }
}

impl Dial for Target {
    fn line(&self, attempt: Attempt) -> Dialling<'_> {
        Box::pin(async move {
            match self.dial(attempt).await {
                Ok(line) => line,
                // The failure has its own exit code and message.
                Err(failure) => Err(Error::NotStarted(Box::new(failure))),
            }
        })
    }
}

fn no_daemon(home: &Home) -> Failure {
    Failure::unreachable(format!("no daemon runs for `{}`; `portolan up` starts one", home.path().display()))
}

fn read_token(file: &std::path::Path) -> Outcome<Token> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("the token file `{}` cannot be read: {error}", file.display()))
    })?;
    Ok(Token::new(&text))
}

/// The daemon of this home: its socket, otherwise its address. `None` if no daemon runs.
async fn local(home: &Home, token: Option<&Token>) -> Outcome<Option<Result<Line, Error>>> {
    let reach = Reach::to(&home.socket());
    if let Ok(reach) = &reach {
        let socket = Address::Socket { path: reach.path().to_owned(), token: token.cloned() };
        if let Ok(line) = socket.line(Attempt::First).await {
            return Ok(Some(Ok(line)));
        }
    }
    let Some(record) = Record::read(home) else { return Ok(None) };
    // Only the process that holds the lock gets the token. A killed daemon leaves its file behind, and another user may
    // have its pid and its port by now.
    if !is_of_the_holder(home, &record) || !listens(&record.url).await {
        return Ok(None);
    }
    let token = match token {
        Some(token) => token.clone(),
        None => read_token(&home.token())?,
    };
    let own = home.path().join("tls-cert.pem");
    let ca_file = own.exists().then_some(own);
    let address = Address::Url { url: record.url, token, ca_file, receive_buffer: None };
    Ok(Some(address.line(Attempt::First).await))
}

/// Did the running daemon write this record?
fn is_of_the_holder(home: &Home, record: &Record) -> bool {
    Lock::holder(home).is_some_and(|holder| holder.pid == Some(record.pid))
}

/// Does a process listen at this address? A daemon that is stopping does not.
async fn listens(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    match uri.as_ref().and_then(|uri| Some((uri.host()?.trim_matches(['[', ']']), uri.port_u16()?))) {
        Some(address) => TcpStream::connect(address).await.is_ok(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_stranger_on_the_port_of_a_killed_daemon_does_not_get_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let stranger = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let record = Record {
            // A pid of a running process: the system reuses pids.
            pid: std::process::id(),
            url: format!("http://{}", stranger.local_addr().unwrap()),
            listen: String::new(),
            version: String::new(),
            started_at: String::new(),
            heartbeat_at: String::new(),
            options: Vec::new(),
        };
        record.write(&home).unwrap();
        assert!(local(&home, Some(&Token::new("t"))).await.unwrap().is_none());
        assert!(tokio::time::timeout(Duration::from_millis(50), stranger.accept()).await.is_err());
    }
}
