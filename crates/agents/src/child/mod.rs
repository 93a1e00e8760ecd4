//! A child: one supervised process of an agent.
//!
//! Owns the process, its group, its pipes, its stderr tail and its end. Shows only byte streams and an exit, so that a
//! holder process that outlives the daemon could replace it. Knows no protocol, and no shell: programs are started by
//! argument vectors.

pub(crate) mod ask;
pub mod environment;
mod kernel;
mod leader;
pub mod mask;
pub mod processes;
mod spawner;
pub(crate) mod stderr;
mod sweeper;
mod versions;

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use portolan_core::SessionId;
use rustix::process::{PidfdFlags, Signal, pidfd_open};
use tokio::{
    io::unix::AsyncFd,
    process::{ChildStdin, ChildStdout, Command},
};

use self::{
    environment::Environment, leader::Leader, mask::Masker, processes::Process, spawner::Spawner,
    stderr::Tail,
};
pub use self::{stderr::STDERR_TAIL, versions::Versions};

/// How often to look for the end of a child if the kernel has no handles to wait on.
const WITHOUT_HANDLE: Duration = Duration::from_millis(100);

/// How long the kernel may take to end a process that was killed. A process that hangs in a device or a dead network
/// folder can take for ever; Portolan does not wait for that.
const REAP: Duration = Duration::from_secs(10);

/// The stop ladder: how long each step may take before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// After the agent was asked in its own protocol.
    pub ask: Duration,
    /// After its stdin was closed.
    pub close: Duration,
    /// Between SIGTERM and SIGKILL.
    pub terminate: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { ask: Duration::from_secs(2), close: Duration::from_secs(2), terminate: Duration::from_secs(5) }
    }
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The agent's kind, for messages.
    pub agent: String,
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// The folder that it works in; the folder of this process if empty.
    pub folder: PathBuf,
    /// Its environment.
    pub environment: Environment,
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program was not found.
    #[error("agent `{agent}` not found: no program `{program}`; install it or set `agents.{agent}.command`")]
    NotFound {
        /// Which agent.
        agent: String,
        /// The program.
        program: String,
    },
    /// The folder cannot be used.
    #[error("the folder `{}` cannot be used", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The system refused.
    #[error("agent `{agent}` cannot be started: `{program}`")]
    System {
        /// Which agent.
        agent: String,
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
}

/// A running child. Dropping it kills its group; [`Child::end`] also ends everything that it left behind.
#[derive(Debug)]
pub struct Child {
    leader: Leader,
    process: Process,
    /// Readable once the process has ended, reaped or not. Absent on kernels without such handles.
    handle: Option<AsyncFd<OwnedFd>>,
    marker: String,
    masker: Masker,
    tail: Tail,
}

/// The byte streams of a child.
#[derive(Debug)]
pub struct Pipes {
    /// Its input.
    pub input: ChildStdin,
    /// Its output.
    pub output: ChildStdout,
}

impl Child {
    /// Starts a program for a session of the home with this key.
    pub async fn start(
        program: Program,
        home_key: &str,
        session: SessionId,
    ) -> Result<(Self, Pipes), StartError> {
        let marker = processes::new_marker(home_key, session);
        let executable = locate(&program)?;
        let system = |source| StartError::System {
            agent: program.agent.clone(),
            program: executable.display().to_string(),
            source,
        };
        let mut command = Command::new(&executable);
        command
            .args(&program.command[1..])
            .env_clear()
            .envs(program.environment.variables.iter().map(|(name, value)| (name, value)))
            .env(environment::MARKER, &marker)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Reaps it if it is dropped before it has ended.
            .kill_on_drop(true);
        if !program.folder.as_os_str().is_empty() {
            command.current_dir(&program.folder);
        }
        let mut leader = Spawner::get().map_err(system)?.spawn(command).await.map_err(system)?;
        let unpiped = || system(io::Error::other("its pipes are missing"));
        let pid = leader.pid().as_raw_nonzero().get().cast_unsigned();
        let child = &mut leader.child;
        let (input, output) =
            (child.stdin.take().ok_or_else(unpiped)?, child.stdout.take().ok_or_else(unpiped)?);
        let tail = Tail::of(child.stderr.take().ok_or_else(unpiped)?);
        let handle = pidfd_open(leader.pid(), PidfdFlags::NONBLOCK).ok().and_then(kernel::watch);
        // A child that has ended keeps its entry until it is reaped, which only happens here.
        let process = Process::of(pid).unwrap_or(Process { pid, started: 0 });
        let masker = Masker::new(&program.environment.variables);
        Ok((Self { leader, process, handle, marker, masker, tail }, Pipes { input, output }))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Waits until the child has ended. Does not reap it if possible: until it is reaped, its group's number cannot
    /// pass to another group. Cancel-safe.
    pub async fn ended(&self) {
        if let Some(handle) = &self.handle {
            drop(handle.readable().await);
            return;
        }
        while !self.has_ended() {
            tokio::time::sleep(WITHOUT_HANDLE).await;
        }
    }

    /// From now on [`Child::ended`] notices nothing: it watches the test itself.
    #[cfg(test)]
    pub(crate) fn blind(&mut self) {
        self.handle =
            pidfd_open(rustix::process::getpid(), PidfdFlags::NONBLOCK).ok().and_then(kernel::watch);
        assert!(self.handle.is_some(), "a handle of a process");
    }

    /// Whether it has ended without [`Child::ended`] noticing. The safety net for the waiter.
    pub fn has_ended(&self) -> bool {
        !self.process.runs()
    }

    /// Asks the child and its group to end.
    pub fn terminate(&self) {
        self.leader.signal(Signal::TERM);
    }

    /// Ends the child and its group.
    pub fn kill(&self) {
        self.leader.signal(Signal::KILL);
    }

    /// Every process that it started and that is still connected to it.
    pub(crate) async fn descendants(&self) -> Vec<Process> {
        let pid = self.process.pid;
        tokio::task::spawn_blocking(move || processes::descendants(pid)).await.unwrap_or_default()
    }

    /// Ends the child with everything that it started, and returns how it ended and its last output.
    pub(crate) async fn end(mut self, stragglers: Vec<Process>) -> (io::Result<ExitStatus>, String) {
        self.kill();
        let status = tokio::time::timeout(REAP, self.leader.child.wait())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        for straggler in stragglers {
            straggler.kill();
        }
        for swept in sweeper::sweep(self.marker).await {
            crate::counters::SWEPT.add(1);
            tracing::warn!(
                pid = swept.process.pid,
                name = swept.name,
                "ended a process that the agent left behind"
            );
        }
        (status, self.tail.finish(&self.masker).await)
    }
}

/// Finds the program, so that "not found" names it.
fn locate(program: &Program) -> Result<PathBuf, StartError> {
    if !program.folder.as_os_str().is_empty() {
        let metadata = std::fs::metadata(&program.folder);
        let metadata = metadata
            .and_then(|it| if it.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) });
        metadata.map_err(|source| StartError::Folder { folder: program.folder.clone(), source })?;
    }
    let path = program.environment.variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let name = program.command.first().cloned().unwrap_or_default();
    which::which_in(&name, path, Path::new("/")).map_err(|_| StartError::NotFound {
        agent: program.agent.clone(),
        program: name.to_string_lossy().into_owned(),
    })
}
