//! Everyone who connects to a holder, until it is clear what they want.
//!
//! A connection begins with a hello, which is answered with the holder's status. Whoever only asks leaves then, and has
//! displaced nobody. Any other first wish goes to the holder together with the connection. Agents are refused: an agent
//! that could speak to its own holder could approve its own requests.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::daemon::DaemonConnection;
use crate::frames::{Frame, FromHolder, Reader, Status, ToHolder, put_message};

/// Visits that wait for the holder. It answers at once, so more than a few mean a fault.
pub(super) const WAITING: usize = 8;

/// Connections that may be here at the same time. Further ones wait for their turn in the listener's queue.
const AT_ONCE: usize = 16;

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// After an error of the listener, such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// What a connection wants of the holder.
#[derive(Debug)]
pub(super) enum Visit {
    /// The status.
    Asks(oneshot::Sender<Status>),
    /// Something else.
    Wants(Box<Wants>),
}

/// A wish, and the connection that it came over.
#[derive(Debug)]
pub(super) struct Wants {
    pub(super) message: ToHolder,
    pub(super) connection: DaemonConnection,
}

/// Takes connections for as long as the holder lives.
pub(super) async fn welcome(listener: UnixListener, home_key: String, visits: mpsc::Sender<Visit>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (home_key, visits) = (home_key.clone(), visits.clone());
                tokio::spawn(async move {
                    let _place = place;
                    match timeout(2 * PATIENCE, admit(stream, &home_key, &visits)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::warn!(%error, "a connection was closed"),
                        Err(_) => tracing::warn!("a connection did not say what it wants"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "connections cannot be taken now");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

async fn admit(stream: UnixStream, home_key: &str, visits: &mpsc::Sender<Visit>) -> io::Result<()> {
    check_peer(&stream, home_key)?;
    let (from, mut to) = stream.into_split();
    let mut reader = Reader::new(from);
    let Some(Frame::Message(ToHolder::Hello { .. })) = reader.next::<ToHolder>().await? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a connection must begin with a hello"));
    };
    let (answer, asked) = oneshot::channel();
    if visits.send(Visit::Asks(answer)).await.is_err() {
        return Ok(());
    }
    let Ok(status) = asked.await else { return Ok(()) };
    let mut out = BytesMut::new();
    put_message(&mut out, &FromHolder::Status(status))?;
    to.write_all(&out).await?;
    let Some(frame) = reader.next::<ToHolder>().await? else { return Ok(()) };
    let Frame::Message(message) = frame else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a visitor sends no reports"));
    };
    let connection = DaemonConnection::new(reader, to);
    // The holder is ending: the connection closes.
    let _ = visits.send(Visit::Wants(Box::new(Wants { message, connection }))).await;
    Ok(())
}

/// The folder of the socket belongs to this user alone. The system user may do what it wants anyway.
fn check_peer(stream: &UnixStream, home_key: &str) -> io::Result<()> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()));
    let peer = stream.peer_cred()?;
    let own = rustix::process::getuid().as_raw();
    if peer.uid() != own && peer.uid() != 0 {
        return refused("another user connected");
    }
    let Some(pid) = peer.pid().and_then(|pid| u32::try_from(pid).ok()) else {
        return refused("the connected process is unknown");
    };
    // What a process was that has ended already cannot be known.
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        return refused("the connected process has ended");
    }
    if portolan_agents::descends_from_agent(pid, home_key) {
        return refused("an agent connected");
    }
    Ok(())
}
