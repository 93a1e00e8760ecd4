//! The beginning of a holder: it listens, waits for its launch, and makes the link to its agent.

use std::{io, time::Duration};

use portolan_core::ports::{AgentLink, Report};
use tokio::{net::UnixListener, sync::mpsc, time::Instant};

use super::{
    Hold,
    daemon::DaemonConnection,
    signals::Signals,
    visitors::{Visit, Wants},
};
use crate::frames::{Launching, Status, ToHolder};

/// How long a new holder waits for its launch. The daemon that started it sends the launch at once, or has died.
const LAUNCH: Duration = Duration::from_secs(30);

/// Listens on the session's socket. The path is relative, and so is short and holds after a move of the home.
pub(super) fn listen(hold: &Hold) -> io::Result<UnixListener> {
    let socket = hold.run.socket(hold.session);
    // Whoever had this socket is dead: this process has the lock.
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(socket)
}

/// Waits for the launch. `None`: nobody launches, or the holder is to end.
pub(super) async fn launch(
    status: &Status,
    visiting: &mut mpsc::Receiver<Visit>,
    signals: &mut Signals,
) -> Option<(Launching, DaemonConnection)> {
    let deadline = Instant::now() + LAUNCH;
    loop {
        let visit = tokio::select! {
            visit = visiting.recv() => visit?,
            () = signals.next() => return None,
            () = tokio::time::sleep_until(deadline) => return None,
        };
        let Wants { message, connection } = match visit {
            Visit::Asks(answer) => {
                // The asker may have left.
                let _ = answer.send(status.clone());
                continue;
            }
            Visit::Wants(wants) => *wants,
        };
        match message {
            ToHolder::Launch(launching) => return Some((*launching, connection)),
            ToHolder::Stop {} | ToHolder::Kill {} => return None,
            _ => connection.refuse("the agent is not launched"),
        }
    }
}

/// The link to an agent that could not be made: it reports only why.
pub(super) fn not_started(why: String) -> AgentLink {
    let (instructions, _) = mpsc::channel(1);
    let (reporter, reports) = mpsc::channel(1);
    let exit = portolan_core::event::Exit {
        reason: portolan_core::event::ExitReason::NotStarted,
        code: None,
        signal: None,
        message: why,
        stderr: String::new(),
    };
    // The queue is empty.
    let _ = reporter.try_send(Report::Exited(exit));
    AgentLink::new(instructions, reports)
}
