//! The signals that end a holder's agent.

use std::{fs::File, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The machine shuts down, or a person ends the holder.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// A closed terminal ends the agent: a window of tmux. Without a terminal, a hang-up only says that the daemon died
    /// while this process was stopped.
    has_terminal: bool,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            has_terminal: File::open("/dev/tty").is_ok(),
        })
    }

    /// The next of these signals. Cancel-safe.
    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => if self.has_terminal { return },
            }
        }
    }
}
