//! The lifecycle of the daemon: one per home, found by its file, stopped in order.
//!
//! - [`lock`]: only one daemon at a time
//! - [`detach`]: how a client starts a daemon in the background
//! - [`logging`]: the daemon's log
//! - [`descriptors`]: how many files the daemon may have open
//! - [`assembly`]: builds core, store, agents and frontends
//! - [`dial_in`]: the endpoint where agents dial in
//! - [`holding`]: agents that outlive the daemon
//! - [`watch`]: checks that the home still belongs to this daemon
//! - [`run`]: from the first lock to the last flush

pub(crate) mod assembly;
pub(crate) mod descriptors;
pub(crate) mod detach;
pub(crate) mod dial_in;
pub(crate) mod holding;
pub(crate) mod lock;
pub(crate) mod logging;
pub(crate) mod run;
pub(crate) mod watch;

/// Does this process run? A zombie does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    match rustix::process::test_kill_process(pid) {
        Ok(()) => !is_zombie(pid),
        Err(error) => error == rustix::io::Errno::PERM,
    }
}

fn is_zombie(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name is in brackets and may contain any character; the state follows the last bracket.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
