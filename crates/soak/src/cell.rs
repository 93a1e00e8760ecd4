//! A cell: a home on its own disk, which can be filled and made read-only without harm to anything else.
//!
//! A process that only sleeps holds a mount namespace with a small tmpfs; daemons and commands run inside. Other
//! processes see its files through `/proc`. A cell needs root, or a system that allows user namespaces.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use portolan_testkit::daemon::PATIENCE;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    link::Door,
    place::{self, Kill},
};

/// A home on its own disk.
#[derive(Debug)]
pub struct Cell {
    holder: Child,
    /// Whether the cell also has a user namespace.
    by_user: bool,
    folder: TempDir,
    /// The folder that agents work in: outside of the small disk.
    pub work: TempDir,
    program: PathBuf,
    daemon: Option<Child>,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its output.
    pub said: String,
}

impl Cell {
    /// A new cell, with a disk of this many mebibytes.
    pub fn new(mebibytes: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mount = format!(
            "mount -t tmpfs -o size={mebibytes}m,mode=0700 tmpfs \"$0\" && echo ready && exec sleep 100000"
        );
        for (flags, by_user) in [("-m", false), ("-rm", true)] {
            let mut command = Command::new("unshare");
            command.args([flags, "--propagation", "private", "sh", "-c", &mount]).arg(folder.path());
            let mut holder = start(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
            let mut line = String::new();
            let output = holder.stdout.take().context("no output")?;
            BufReader::new(output).read_line(&mut line)?;
            if line.trim() == "ready" {
                let work = tempfile::tempdir()?;
                let program = place::program()?;
                let cell = Self { holder, by_user, folder, work, program, daemon: None };
                let settings = "[listen]\naddress = \"127.0.0.1:0\"\n[limits]\nshutdown_grace_seconds = 1\n\
                                [agents.demo.env]\nDEMO_PACE_MS = \"2\"\n";
                fs::write(cell.path("portolan.toml"), settings)?;
                return Ok(cell);
            }
            let _ = holder.kill();
            let _ = holder.wait();
        }
        bail!("no disk can be mounted: this needs root, or user namespaces")
    }

    /// A file of the home, as seen from outside.
    pub fn path(&self, name: &str) -> PathBuf {
        let home = self.folder.path().strip_prefix("/").unwrap_or(self.folder.path());
        Path::new(&format!("/proc/{}/root", self.holder.id())).join(home).join(name)
    }

    /// A command inside of the cell.
    fn inside(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("-t").arg(self.holder.id().to_string()).arg("-m");
        if self.by_user {
            command.args(["-U", "--preserve-credentials"]);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORTOLAN_") {
                command.env_remove(name);
            }
        }
        command.arg("--").arg(program).args(arguments);
        command.env("PORTOLAN_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command of the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Result<CommandResult> {
        self.ran(self.inside(&self.program, arguments))
    }

    /// Runs another program inside to its end.
    pub fn run_other(&self, program: &str, arguments: &[&str]) -> Result<CommandResult> {
        self.ran(self.inside(Path::new(program), arguments))
    }

    #[expect(clippy::unused_self, reason = "a command of this cell")]
    fn ran(&self, mut command: Command) -> Result<CommandResult> {
        let output = tokio::task::block_in_place(|| command.output())?;
        let said = [output.stdout, output.stderr].concat();
        Ok(CommandResult { code: output.status.code(), said: String::from_utf8_lossy(&said).into_owned() })
    }

    /// Tries to start the daemon: returns a door, or the output of the daemon if it ended.
    pub fn try_up(&mut self) -> Result<std::result::Result<Door, CommandResult>> {
        let said = self.work.path().join("said.txt");
        let output = fs::File::create(&said)?;
        let mut command = self.inside(&self.program, &["up", "--no-open"]);
        let mut child = start(command.stdout(output.try_clone()?).stderr(output))?;
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
                return Ok(Err(CommandResult { code: status.code(), said }));
            }
            if let Some(door) = self.door(child.id()) {
                self.daemon = Some(child);
                return Ok(Ok(door));
            }
            ensure!(std::time::Instant::now() < deadline, "the daemon neither starts nor ends");
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(10)));
        }
    }

    /// Starts the daemon.
    pub fn up(&mut self) -> Result<Door> {
        match self.try_up()? {
            Ok(door) => Ok(door),
            Err(ran) => bail!("the daemon did not start: {ran:?}"),
        }
    }

    fn door(&self, pid: u32) -> Option<Door> {
        let record: Value = serde_json::from_slice(&fs::read(self.path("daemon.json")).ok()?).ok()?;
        let address = record["url"].as_str()?.strip_prefix("http://")?.to_owned();
        let token = fs::read_to_string(self.path("token")).ok()?.trim().to_owned();
        let healthy = record["pid"] == pid && !token.is_empty() && is_healthy(&address);
        healthy.then_some(Door { address, token })
    }

    /// Kills the daemon.
    pub fn kill(&mut self) -> Kill {
        let at = place::now();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        Kill { at, dead: place::now() }
    }

    /// Stops the daemon in order.
    pub fn down(&mut self) -> Result<()> {
        let ran = self.run(&["down"])?;
        ensure!(ran.code == Some(0), "down failed: {ran:?}");
        let mut daemon = self.daemon.take().context("no daemon runs")?;
        let status = tokio::task::block_in_place(|| daemon.wait())?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }

    /// Fills the disk completely.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = fs::OpenOptions::new().create(true).append(true).open(self.path("ballast"))?;
        for size in [64 * 1024, 1] {
            let block = vec![b'#'; size];
            while ballast.write_all(&block).is_ok() {}
        }
        Ok(())
    }

    /// Frees the space again.
    pub fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.path("ballast"))?)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Does the daemon answer there? The daemon writes its file before it accepts connections.
fn is_healthy(address: &str) -> bool {
    use std::io::Read as _;
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let asked = stream.write_all(
        format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    let mut answer = [0; 12];
    asked.is_ok() && stream.read_exact(&mut answer).is_ok() && answer.ends_with(b"200")
}

#[expect(clippy::disallowed_methods, reason = "starts the program under test and its holder, not an agent")]
fn start(command: &mut Command) -> std::io::Result<Child> {
    command.spawn()
}
