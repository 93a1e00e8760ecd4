//! The end of an agent, as its session learns it: everything that the agent reported, then why it ended.

use std::time::Duration;

use portolan_core::{
    event::{Exit, ExitReason, Level},
    ports::Report,
};
use tokio::time::{sleep, timeout};

use super::{DYING, LAST_RECORD, Relay};
use crate::{
    lock::Lock,
    spool::{Left, Next},
};

/// How often a holder of another version is asked whether its agent has come to rest.
const REST: Duration = Duration::from_secs(1);

/// The end of a dead holder's own log that its session gets.
const LOG_TAIL: usize = 4096;

/// When a holder died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// While this daemon was connected to it.
    UnderDaemon,
    /// While no daemon ran.
    WithoutDaemon,
    /// When it had come to rest, because it was of another version.
    OtherVersion,
}

impl Relay {
    // ----------------------------------------------------------------------------- another version

    /// The holder does not understand this daemon, and works: waits until its agent has nothing to do, ends it, and
    /// gives the session what it reported. The next prompt resumes the conversation.
    pub(crate) async fn wait_for_rest(mut self, version: String) {
        let text = format!(
            "version {version} of Portolan runs this agent, and this version cannot speak with it; the agent ends when \
             it has nothing to do, and everything that it says is shown then"
        );
        self.pass_on(Report::Remark { level: Level::Warning, text });
        let (holders, session) = (self.holders.clone(), self.session);
        let lock = loop {
            let (stop, kill) = (self.side.stop.clone(), self.side.kill.clone());
            let free = tokio::select! {
                free = holders.lock_within(session, REST) => free,
                () = stop.cancelled() => holders.end(session, DYING).await.map(Some),
                () = kill.cancelled() => holders.end(session, Duration::ZERO).await.map(Some),
                () = self.side.reports.closed() => return,
            };
            match free {
                Ok(Some(lock)) => break lock,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%session, %error, "a holder of another version cannot be ended");
                    sleep(DYING).await;
                }
            }
            if holders.status(session).await.is_some_and(|status| status.idle)
                && let Ok(lock) = holders.end(session, DYING).await
            {
                break lock;
            }
        };
        self.bury(lock, Ended::OtherVersion).await;
    }

    // -------------------------------------------------------------------------------------- the end

    /// The holder is dead, and this process has its lock: gives the session the rest of the reports, then the end.
    pub(crate) async fn bury(mut self, lock: Lock, ended: Ended) {
        self.holders.sweep(self.session).await;
        let spool = self.holders.run().spool(self.session);
        if let Some(mut left) = Left::open(&spool, self.generation, self.received) {
            loop {
                let report = match left.next() {
                    Next::Report(report) => *report,
                    Next::Gap { missing } => Report::Missing { reports: missing },
                    Next::Damaged => {
                        let text =
                            "the last report of the agent cannot be read: its holder ended while writing it";
                        Report::Remark { level: Level::Warning, text: text.into() }
                    }
                    Next::End => break,
                };
                self.has_exited |= matches!(report, Report::Exited(_));
                self.received = left.number().max(self.received);
                if self.side.reports.send(report).await.is_err() {
                    // The session is gone; the next daemon reads the rest.
                    return;
                }
                if self.has_exited {
                    break;
                }
            }
        }
        let last = self.received;
        if !self.has_exited {
            let (reason, message) = match ended {
                Ended::UnderDaemon => {
                    (ExitReason::Failed, "the process that held the agent ended unexpectedly")
                }
                Ended::WithoutDaemon => (ExitReason::DaemonGone, "the agent ended while no daemon ran"),
                Ended::OtherVersion => (
                    ExitReason::Stopped,
                    "another version of Portolan ran the agent, so that it ended at rest",
                ),
            };
            let said = self.log_tail();
            self.exit(reason, message.to_owned(), said).await;
        }
        let all = self.side.recorded.wait_for(|recorded| *recorded >= last);
        if timeout(LAST_RECORD, all).await.is_ok_and(|recorded| recorded.is_ok()) {
            self.holders.clear(self.session);
        }
        drop(lock);
    }

    pub(super) async fn exit(&mut self, reason: ExitReason, message: String, stderr: String) {
        let exit = Exit { reason, code: None, signal: None, message, stderr };
        self.has_exited = true;
        // The session may be gone.
        let _ = self.side.reports.send(Report::Exited(exit)).await;
    }

    /// The end of what the holder wrote about itself.
    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(self.holders.run().log(self.session)).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}
