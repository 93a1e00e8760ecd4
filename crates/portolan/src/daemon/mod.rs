//! The daemon's life: one per home, found by its file, ended in order.
//!
//! - [`lock`]: only one at a time
//! - [`detach`]: how a client starts one in the background
//! - [`logging`]: what it says, and where
//! - [`descriptors`]: how many files it may have open
//! - [`assembly`]: core, store, agents and frontends put together
//! - [`dial_in`]: where an agent that dials in comes to
//! - [`watch`]: whether the home is still its own
//! - [`run`]: from the first lock to the last flush

pub(crate) mod assembly;
pub(crate) mod descriptors;
pub(crate) mod detach;
pub(crate) mod dial_in;
pub(crate) mod lock;
pub(crate) mod logging;
pub(crate) mod run;
pub(crate) mod watch;

/// Does this process live? One that is only waiting to be collected does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    match rustix::process::test_kill_process(pid) {
        Ok(()) => !is_zombie(pid),
        Err(error) => error == rustix::io::Errno::PERM,
    }
}

fn is_zombie(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name stands in brackets and may hold anything; the state follows the last one.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
