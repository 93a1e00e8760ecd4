//! The first process of a child's group. Dropping it ends the group, at any point after its start: the caller may be
//! gone before the child was handed over.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

#[derive(Debug)]
pub(super) struct Leader {
    pub(super) child: Child,
    /// Saved at the start, because it cannot be queried after the leader has ended.
    group: Pid,
}

impl Leader {
    /// A process that was started as the first process of its own group.
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let group = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        Ok(Self { child, group })
    }

    pub(super) fn pid(&self) -> Pid {
        self.group
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        // Reaped: the number may belong to another process by now. The marker finds the rest of the group.
        if self.child.id().is_some() {
            // An error means that the group has ended, as wanted.
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
