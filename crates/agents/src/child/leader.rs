//! The first process of a child's group. Dropping it ends the group, at any point after its start: whoever wanted the child
//! may have gone before the child was handed over.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

#[derive(Debug)]
pub(super) struct Leader {
    pub(super) child: Child,
    /// Saved at the start, because it cannot be asked for once the leader is gone.
    group: Pid,
}

impl Leader {
    /// A process that was started as the first of a group of its own.
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
        // Reaped: the number may be another's by now. What is left is found by its marker.
        if self.child.id().is_some() {
            // Gone already is what we want.
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
