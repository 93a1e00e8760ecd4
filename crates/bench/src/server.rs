//! The two servers under test: Portolan's real binary, and the floor. Each start has its own folder; dropping a server
//! ends its process.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long a server may take to answer, or to end. Far longer than it should.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time between two checks whether the server is up: short compared with the measured times.
const LOOK: Duration = Duration::from_micros(200);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only copies.
    Floor,
    /// The product.
    Portolan,
    /// The product, with agents that outlive the daemon.
    Held,
}

impl Kind {
    /// Both, in the order in which they are measured.
    pub(crate) const BOTH: [Self; 2] = [Self::Floor, Self::Portolan];
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    child: Child,
    /// Exists until the server is dropped, or started again in it.
    folder: Option<TempDir>,
    /// Host and port.
    pub(crate) address: String,
    /// The token, if the server needs one.
    pub(crate) token: Option<String>,
    /// From the start of its process to its first answer.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts a server in a new folder.
    pub(crate) fn start(kind: Kind, program: &Path) -> Result<Self> {
        Self::start_in(kind, program, tempfile::tempdir()?)
    }

    #[expect(clippy::disallowed_methods, reason = "the bench starts the servers it measures")]
    fn start_in(kind: Kind, program: &Path, folder: TempDir) -> Result<Self> {
        let ourselves = std::env::current_exe()?;
        let record = folder.path().join("daemon.json");
        let mut command = match kind {
            Kind::Floor => {
                let mut command = Command::new(&ourselves);
                command.arg("floor").arg(&record);
                command
            }
            Kind::Portolan | Kind::Held => {
                let agent = serde_json::json!([ourselves, "agent"]);
                let outlive = kind == Kind::Held;
                let settings = format!(
                    "[listen]\naddress = \"127.0.0.1:0\"\n\n[limits]\nagents_at_once = 0\n\n[agents]\noutlive = {outlive}\n\n[agents.claude]\ncommand = {agent}\ntransport = \"stdio\"\n"
                );
                fs::write(folder.path().join("portolan.toml"), settings)?;
                let mut command = Command::new(program);
                command.args(["up", "--no-open"]);
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORTOLAN_") {
                command.env_remove(name);
            }
        }
        let said = fs::File::create(folder.path().join("said"))?;
        command
            .env("PORTOLAN_HOME", folder.path())
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said);
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
        let mut server = Self {
            kind,
            child,
            folder: Some(folder),
            address: String::new(),
            token: None,
            ready_after: Duration::ZERO,
        };
        server.address = server.listening(&record, began)?;
        server.answers()?;
        server.ready_after = began.elapsed();
        if kind != Kind::Floor {
            let token = fs::read_to_string(server.folder().join("token"))?;
            server.token = Some(token.trim().to_owned());
        }
        Ok(server)
    }

    /// Ends the server and starts it again in the same folder.
    pub(crate) fn restart(self, program: &Path) -> Result<Self> {
        let kind = self.kind;
        let folder = self.stop().context("the folder of the server is gone")?;
        Self::start_in(kind, program, folder)
    }

    fn listening(&mut self, record: &Path, began: Instant) -> Result<String> {
        loop {
            let written = fs::read(record).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            let ours = written.filter(|record| record["pid"] == self.child.id());
            if let Some(url) = ours.as_ref().and_then(|record| record["url"].as_str()) {
                return Ok(url.trim_start_matches("http://").to_owned());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", self.said());
            }
            if began.elapsed() > PATIENCE {
                bail!("the server did not start: {}", self.said());
            }
            thread::sleep(LOOK);
        }
    }

    /// One HTTP request and its answer.
    fn answers(&self) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).with_context(|| format!("no answer: {}", self.said()))?;
        if &begin != b"HTTP/1.1 200" {
            bail!("the server answered `{}`", String::from_utf8_lossy(&begin));
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder().join("said")).unwrap_or_default()
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default()
    }

    /// Time on the processor, of all its threads.
    pub(crate) fn processor_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let nanoseconds = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or_default() * 1024
    }

    /// Memory that each holder of an agent shares with no other process, in bytes.
    pub(crate) fn memory_of_holders(&self, program: &Path) -> Result<Vec<u64>> {
        let told =
            Command::new(program).args(["ps", "--json"]).env("PORTOLAN_HOME", self.folder()).output()?;
        let running: Vec<Value> = serde_json::from_slice(&told.stdout).context("`portolan ps` failed")?;
        Ok(running.iter().filter_map(|agent| agent["holder_memory"].as_u64()).collect())
    }

    fn stop(mut self) -> Option<TempDir> {
        self.end();
        self.folder.take()
    }

    fn end(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = match self.kind {
            Kind::Floor => Signal::KILL,
            // Also ends agents that outlive it.
            Kind::Portolan | Kind::Held => Signal::INT,
        };
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            // The process may be gone already.
            let _ = kill_process(pid, signal);
        }
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
