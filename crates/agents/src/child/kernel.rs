//! The only place with unsafe code: two facts about a child that only the kernel can guarantee.
//!
//! The child dies with the thread that started it, which the child itself must request between fork and exec; and a
//! handle becomes readable when the child has ended.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::Command,
};

/// Ties the life of the child of `command` to the thread that starts it.
#[expect(unsafe_code, reason = "only code between fork and exec can set a child's parent-death signal")]
pub(super) fn die_with_this_thread(command: &mut Command) {
    let parent = getpid();
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe calls are
    // allowed. It makes two system calls (prctl, getppid) through rustix, which are plain wrappers, and builds
    // errors from numbers; it neither allocates, nor locks, nor touches memory that another thread may have
    // held at the fork.
    unsafe {
        command.pre_exec(move || die_with(parent));
    }
}

fn die_with(parent: Pid) -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above: then nobody would send the signal.
    if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

/// Watches a handle of a process; none if the runtime cannot.
#[expect(unsafe_code, reason = "the runtime cannot check that a handle stays open while it is watched")]
pub(super) fn watch(handle: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, owned by nobody else, gives the same number at every call, and is dropped only
    // together with the `AsyncFd` that takes it.
    unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }.ok()
}
