//! Starts a daemon in the background and waits until the daemon is ready; otherwise reports why it is not.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use portolan_host::door::Reach;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use super::{lock::Lock, logging};
use crate::{
    failure::{Exit, Failure, Outcome},
    home::{Home, Record},
};

/// How long a daemon may take to be ready. A start takes milliseconds, unless a migration copies a large database.
const READY: Duration = Duration::from_secs(20);

/// How long a daemon that is stopping may take to release its home: its grace time and the stop ladder.
const ENDING: Duration = Duration::from_secs(30);

/// How long one check waits for an answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// How many lines of the log are shown when the daemon did not start.
const TAIL: usize = 15;

/// Starts a daemon if none runs. Returns when the daemon accepts connections.
pub(crate) async fn start(home: &Home) -> Outcome {
    start_with(home, &[], Ends::AsUnreachable).await
}

/// How to report that a daemon did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With the exit code of the daemon: the user asked for a start.
    AsItself,
    /// As an unreachable daemon: the user asked for something else.
    AsUnreachable,
}

/// The same, with more arguments for `up`.
pub(crate) async fn start_with(home: &Home, arguments: &[String], ends: Ends) -> Outcome {
    home.make()?;
    if wait_for_the_last(home).await {
        return Ok(());
    }
    let mut child = spawn(home, arguments)?;
    let deadline = Instant::now() + READY;
    loop {
        // A daemon that another client started is fine: two clients may start one at the same moment.
        if answers(home).await {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            if answers(home).await {
                return Ok(());
            }
            let exit = match (ends, status.code()) {
                (Ends::AsUnreachable, _) => Exit::Unreachable,
                (Ends::AsItself, Some(code)) if code == Exit::Usage as i32 => Exit::Usage,
                (Ends::AsItself, _) => Exit::Failed,
            };
            return Err(explain(home, &mut child, exit));
        }
        if Instant::now() >= deadline {
            return Err(Failure::unreachable(format!(
                "the daemon (pid {}) is not ready after {} s; `portolan logs` shows what it does",
                child.id(),
                READY.as_secs()
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A daemon that is stopping still holds its home. `true` if a daemon answers after all.
async fn wait_for_the_last(home: &Home) -> bool {
    let deadline = Instant::now() + ENDING;
    while Lock::holder(home).is_some() && Instant::now() < deadline {
        if answers(home).await {
            return true;
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

/// Does the daemon answer a request? Accepting a connection is not enough: the daemon binds its port before it opens
/// the store, so that no other program gets the port, and it ends if the store cannot be opened.
async fn answers(home: &Home) -> bool {
    Record::read(home).is_some() && timeout(ANSWER, asks(home)).await.is_ok_and(|answer| answer.is_ok())
}

async fn asks(home: &Home) -> std::io::Result<()> {
    const GOOD: &[u8] = b"HTTP/1.1 200";
    let reach = Reach::to(&home.socket())?;
    let mut door = UnixStream::connect(reach.path()).await?;
    door.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = [0; GOOD.len()];
    door.read_exact(&mut answer).await?;
    if answer == GOOD { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

#[expect(clippy::disallowed_methods, reason = "the daemon is not an agent: it must outlive this process")]
fn spawn(home: &Home, arguments: &[String]) -> Outcome<Child> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("the path of this program cannot be found: {error}")))?;
    let mut command = Command::new(program);
    command
        .args(["up", "--no-open", "--log-file"])
        .args(arguments)
        .current_dir(home.path())
        .env(crate::home::HOME_VARIABLE, home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // These variables are for this client, not for the daemon.
    for variable in ["PORTOLAN_URL", "PORTOLAN_TOKEN", "PORTOLAN_TOKEN_FILE", "PORTOLAN_CA_FILE"] {
        command.env_remove(variable);
    }
    command.spawn().map_err(|error| Failure::new(format!("the daemon cannot be started: {error}")))
}

/// Why a daemon ended before it was ready: its error message, otherwise the end of its log.
fn explain(home: &Home, child: &mut Child, exit: Exit) -> Failure {
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    let said = said.trim();
    let said = said.strip_prefix("portolan: ").unwrap_or(said);
    if !said.is_empty() {
        return Failure { exit, message: said.to_owned() };
    }
    let log = logging::tail(&home.daemon_log(), TAIL).unwrap_or_default();
    Failure { exit, message: format!("the daemon did not start; the end of its log:\n{log}") }
}
