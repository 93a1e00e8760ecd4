//! The thread that starts every child.
//!
//! Linux sends the parent-death signal when the *thread* that forked ends, not the process. So all children are
//! started from one thread that lives as long as the process does; a worker of the runtime may come and go.

use std::{io, sync::OnceLock, thread};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::kernel;

/// Starts that wait for the thread. A start takes about a millisecond; more than this many at once wait their
/// turn in their own tasks.
const STARTS: usize = 64;

/// The thread that starts every child. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Spawner {
    starts: mpsc::Sender<Start>,
}

struct Start {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    /// The one of this process; the thread begins with the first call and never ends.
    pub(super) fn get() -> io::Result<Self> {
        static SPAWNER: OnceLock<Spawner> = OnceLock::new();
        if let Some(spawner) = SPAWNER.get() {
            return Ok(spawner.clone());
        }
        let (starts, queue) = mpsc::channel(STARTS);
        let this = SPAWNER.get_or_init(|| Self { starts: starts.clone() });
        // Only the caller whose sender became the one of the process starts a thread for it.
        if this.starts.same_channel(&starts) {
            thread::Builder::new().name("spawner".into()).spawn(move || start_all(queue))?;
        }
        Ok(this.clone())
    }

    /// Starts a child in a process group of its own that dies with this process.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
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
        // Nobody waits any more: the child is ended by `kill_on_drop`.
        let _ = started.send(child);
    }
}
