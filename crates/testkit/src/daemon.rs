//! The real binary in its own home: starts and ends daemons, runs commands against them, and finds what they leave
//! behind. Dropping it ends everything that it started.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    os::{fd::AsRawFd as _, unix::process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test fails. Far longer than it ever should: a busy machine must not fail a test.
/// Less than the minute after which a test is ended from outside, which would not say what was missing.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `look` finds something.
///
/// # Panics
/// When that takes longer than [`PATIENCE`].
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        thread::sleep(LOOK);
    }
}

/// A home folder and the program that works in it.
#[derive(Debug)]
pub struct Home {
    program: PathBuf,
    path: PathBuf,
    _folder: TempDir,
    daemon: Mutex<Option<Child>>,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// The exit code.
    pub code: i32,
    /// The data.
    pub stdout: String,
    /// The messages.
    pub stderr: String,
}

impl CommandResult {
    fn new(output: &Output) -> Self {
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The data, if the command worked.
    ///
    /// # Panics
    /// When it did not.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }
}

impl Home {
    /// A new home for this program. Its daemon listens on its own port.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self::below(program, "")
    }

    /// The same, at this path below a folder of its own.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[expect(clippy::unwrap_used, reason = "a test without its folder has failed")]
    pub fn below(program: impl Into<PathBuf>, path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = if path.is_empty() { folder.path().to_path_buf() } else { folder.path().join(path) };
        std::fs::create_dir_all(&path).unwrap();
        let home = Self { program: program.into(), path, _folder: folder, daemon: Mutex::new(None) };
        home.configure("");
        home
    }

    /// Writes portolan.toml: a free port, and the settings in `more`.
    ///
    /// # Panics
    /// When it cannot be written.
    #[expect(clippy::unwrap_used, reason = "a test without its configuration has failed")]
    pub fn configure(&self, more: &str) {
        let text = format!("[listen]\naddress = \"127.0.0.1:0\"\n\n{more}\n");
        std::fs::write(self.path().join("portolan.toml"), text).unwrap();
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of daemon.json.
    pub fn record(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.path().join("daemon.json")).ok()?).ok()
    }

    /// A command of the program in this home, without the surrounding configuration.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORTOLAN_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("PORTOLAN_HOME", self.path())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[expect(clippy::unwrap_used, reason = "a test without its program has failed")]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> CommandResult {
        CommandResult::new(&self.command(arguments).output().unwrap())
    }

    /// Runs a command with `--json` and reads its output.
    ///
    /// # Panics
    /// When it fails, or gives no JSON.
    #[expect(clippy::unwrap_used, reason = "a test whose command gives no JSON has failed")]
    pub fn json<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Value {
        let mut command = self.command(["--json"]);
        let ran = CommandResult::new(&command.args(arguments).output().unwrap());
        serde_json::from_str(&ran.ok()).unwrap()
    }

    /// Waits until a session has this status, and returns its state.
    ///
    /// # Panics
    /// When it never has.
    pub fn until_status(&self, session: &str, status: &str) -> Value {
        wait_for(&format!("the session that is {status}"), || {
            let state = self.json(["show", session])["state"].clone();
            (state["summary"]["status"] == status).then_some(state)
        })
    }

    /// Starts a command that keeps running.
    ///
    /// # Panics
    /// When it cannot be started.
    #[expect(clippy::unwrap_used, reason = "a test without its program has failed")]
    #[expect(clippy::disallowed_methods, reason = "tests start the program itself, not an agent")]
    pub fn watch<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Watched {
        let mut child = self.command(arguments).stderr(Stdio::null()).spawn().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::clone(&lines);
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                written.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Watched { child, lines }
    }

    /// Starts the daemon as a child of this test and waits until it accepts connections. Returns its pid.
    ///
    /// # Panics
    /// When it does not.
    pub fn up(&self) -> u32 {
        self.up_with(&[])
    }

    /// The same with further arguments.
    ///
    /// # Panics
    /// When it does not start.
    #[expect(clippy::unwrap_used, reason = "a test without its daemon has failed")]
    #[expect(clippy::disallowed_methods, reason = "tests start the daemon itself, not an agent")]
    pub fn up_with(&self, arguments: &[&str]) -> u32 {
        let mut command = self.command(["up", "--no-open", "--log-file"]);
        let child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        // The address of a socket has room for 108 bytes; a path through the open folder is short.
        let folder = std::fs::File::open(self.path()).unwrap();
        let socket = format!("/proc/self/fd/{}/daemon.sock", folder.as_raw_fd());
        wait_for("the daemon", || {
            let ours = self.record()?.get("pid")?.as_u64()? == u64::from(pid);
            (ours && std::os::unix::net::UnixStream::connect(&socket).is_ok()).then_some(())
        });
        // A connection is accepted before it is answered; a command proves that the daemon answers.
        wait_for("its answer", || (self.run(["status"]).code == 0).then_some(()));
        pid
    }

    /// Sends the daemon a signal.
    ///
    /// # Panics
    /// When there is none.
    #[expect(clippy::unwrap_used, reason = "a test without its daemon has failed")]
    pub fn signal(&self, signal: Signal) {
        let daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(daemon.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until the daemon has ended. Returns its exit code, or 128 and its signal.
    ///
    /// # Panics
    /// When there is none, or it does not end.
    #[expect(clippy::unwrap_used, reason = "a test without its daemon has failed")]
    pub fn ended(&self) -> i32 {
        let mut daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap();
        let status = wait_for("the end of the daemon", || daemon.try_wait().unwrap());
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }

    /// Kills the daemon with `SIGKILL`, and waits until it is gone.
    ///
    /// # Panics
    /// When there is none.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    /// Processes whose environment names this home: the daemon, its clients.
    fn processes(&self) -> Vec<i32> {
        let wanted = format!("PORTOLAN_HOME={}", self.path().display());
        processes_where(|environment| {
            environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
        })
    }

    /// The living processes that hold agents of this home.
    pub fn holders(&self) -> Vec<i32> {
        let files = std::fs::read_dir(self.path().join("run")).into_iter().flatten().flatten();
        let locks =
            files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "lock"));
        let pids = locks.filter_map(|lock| std::fs::read_to_string(lock).ok()?.trim().parse().ok());
        pids.filter(|pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"hold")
        })
        .collect()
    }

    /// Processes of this home's sessions, by the marker that each of them carries.
    ///
    /// # Panics
    /// When a session cannot be listed.
    pub fn agents(&self, session: &str) -> Vec<i32> {
        let wanted = format!(".{session}.");
        processes_where(|environment| {
            environment.split(|byte| *byte == 0).any(|one| {
                let one = String::from_utf8_lossy(one);
                one.starts_with("PORTOLAN_CHILD=") && one.contains(&wanted)
            })
        })
    }
}

fn processes_where(wanted: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            wanted(&environment)
        })
        .collect()
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // A client may have started its own daemon in this home; agents die with their daemon or with their holder.
        for pid in self.processes().into_iter().chain(self.holders()) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A command that keeps running.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Watched {
    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line that holds this text, and returns it.
    ///
    /// # Panics
    /// When none comes.
    pub fn line(&self, text: &str) -> String {
        wait_for(&format!("`{text}`"), || self.lines().into_iter().find(|line| line.contains(text)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
