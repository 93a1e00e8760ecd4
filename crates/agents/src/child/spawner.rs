//! The thread that starts every child.
//!
//! Linux sends the parent-death signal when the *thread* that forked ends, not the process. So all children are
//! started from one thread that lives as long as the process does; a worker of the runtime may come and go.

use std::{io, sync::OnceLock, thread};

use tokio::{
    process::Command,
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::{kernel, leader::Leader};

/// Starts that wait for the thread. A start takes about a millisecond; further starts wait in their own tasks.
const STARTS: usize = 64;

/// The thread that starts every child. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Spawner {
    starts: mpsc::Sender<Start>,
}

struct Start {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Leader>>,
}

impl Spawner {
    /// The spawner of this process; the thread begins with the first call and never ends.
    pub(super) fn get() -> io::Result<Self> {
        static SPAWNER: OnceLock<Spawner> = OnceLock::new();
        if let Some(spawner) = SPAWNER.get() {
            return Ok(spawner.clone());
        }
        let (starts, queue) = mpsc::channel(STARTS);
        let this = SPAWNER.get_or_init(|| Self { starts: starts.clone() });
        // Only the caller whose sender became the sender of the process starts a thread for it.
        if this.starts.same_channel(&starts) {
            thread::Builder::new().name("spawner".into()).spawn(move || start_all(queue))?;
        }
        Ok(this.clone())
    }

    /// Starts a child in its own process group that dies with this process.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Leader> {
        command.process_group(0);
        kernel::die_with_this_thread(&mut command);
        let (started, outcome) = oneshot::channel();
        let gone = |()| io::Error::other("the thread that starts children is gone");
        self.starts
            .send(Start { command, runtime: Handle::current(), started })
            .await
            .map_err(|_| gone(()))?;
        outcome.await.map_err(|_| gone(()))?
    }
}

fn start_all(mut queue: mpsc::Receiver<Start>) {
    while let Some(Start { mut command, runtime, started }) = queue.blocking_recv() {
        let _inside = runtime.enter();
        #[expect(clippy::disallowed_methods, reason = "this is the one place that starts children")]
        let child = command.spawn();
        // If the caller no longer waits, the group ends here, with all processes that the child has started meanwhile.
        let _ = started.send(child.and_then(Leader::new));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        future::Future as _,
        pin::pin,
        task::{Context, Waker},
        time::{Duration, Instant},
    };

    use super::*;

    #[tokio::test]
    async fn a_child_without_a_waiter_ends_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let until = |count: usize| {
            let began = Instant::now();
            let here = |pid: fs::DirEntry| fs::read_link(pid.path().join("cwd")).is_ok_and(|cwd| cwd == path);
            let running = || fs::read_dir("/proc").unwrap().flatten().map(here).filter(|here| *here).count();
            while running() != count {
                assert!(began.elapsed() < Duration::from_secs(20), "{} run, not {count}", running());
                thread::sleep(Duration::from_millis(5));
            }
        };
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & wait"]).current_dir(folder.path()).kill_on_drop(true);
        let spawner = Spawner::get().unwrap();
        {
            let mut start = pin!(spawner.spawn(command));
            // The child may have come already; then its leader has no owner in a moment.
            let _started = start.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            until(2);
        }
        until(0);
    }
}
