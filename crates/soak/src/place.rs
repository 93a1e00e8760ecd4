//! The place under test: a home with the real program, and what is visible from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use portolan_testkit::daemon::Home;
use tempfile::TempDir;

use crate::{check::Told, link::Door};

/// The program under test: the one that PORTOLAN_SOAK_PROGRAM names, otherwise the one that was built next to this
/// program.
pub fn program() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PORTOLAN_SOAK_PROGRAM") {
        return Ok(named.into());
    }
    let own = std::env::current_exe()?;
    // Test binaries are one folder deeper than programs.
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("portolan"));
    let found = beside.clone().find(|program| program.is_file());
    if let Some(program) = found {
        return Ok(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--quiet", "--package", "portolan", "--bin", "portolan"]).status();
    match built {
        Ok(status) if status.success() => {}
        other => bail!("portolan could not be built: {other:?}"),
    }
    beside.into_iter().find(|program| program.is_file()).context("portolan was built into another folder")
}

/// A home, the folder its agents work in, and the witness between the daemon and its demo agents.
#[derive(Debug)]
pub struct Place {
    /// The home.
    pub home: Home,
    /// The folder that agents work in; outside of the home, so that the home's files stay the same.
    pub work: TempDir,
    program: PathBuf,
}

impl Place {
    /// A new place; `more` goes into portolan.toml.
    pub fn new(more: &str) -> Result<Self> {
        let program = program()?;
        let place = Self { home: Home::new(&program), work: tempfile::tempdir()?, program };
        place.configure(more);
        fs::write(place.work.path().join("one.txt"), "1")?;
        fs::write(place.work.path().join("two.txt"), "2")?;
        Ok(place)
    }

    /// A place with a fast demo agent, and a witness that records every line to the agent.
    pub fn witnessed() -> Result<Self> {
        let place = Self::new("")?;
        let script = format!("tee -a {} | {} demo-agent", quoted(&place.witness()), quoted(&place.program));
        let command = serde_json::json!(["sh", "-c", script]);
        place.configure(&format!(
            "[agents.demo]\ncommand = {command}\n[agents.demo.env]\nDEMO_PACE_MS = \"4\"\n"
        ));
        Ok(place)
    }

    /// Writes portolan.toml. A daemon that is asked to stop does not wait for endless turns.
    pub fn configure(&self, more: &str) {
        self.home.configure(&format!("[limits]\nshutdown_grace_seconds = 1\n{more}"));
    }

    /// The same place with a program that is installed in a folder of its own, where [`Place::upgrade`] replaces it.
    pub fn installed(self) -> Result<Self> {
        let program = self.work.path().join("portolan");
        fs::copy(&self.program, &program)?;
        let home = Home::new(&program);
        fs::copy(self.home.path().join("portolan.toml"), home.path().join("portolan.toml"))?;
        Ok(Self { home, program, ..self })
    }

    /// Replaces the installed program by this one, as a package manager does, and restarts the daemon with it.
    pub fn upgrade(&self, program: &Path) -> Result<Door> {
        let beside = self.program.with_extension("new");
        fs::copy(program, &beside)?;
        fs::rename(&beside, &self.program)?;
        let ran = tokio::task::block_in_place(|| self.home.run(["restart"]));
        if ran.code != 0 {
            bail!("the restart failed: {ran:?}");
        }
        self.door()
    }

    /// The version that the running daemon reports.
    pub fn version(&self) -> Result<String> {
        let status = tokio::task::block_in_place(|| self.home.json(["status"]));
        status["version"].as_str().map(str::to_owned).context("a daemon without a version")
    }

    /// The program under test.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The file of the witness.
    pub fn witness(&self) -> PathBuf {
        self.work.path().join("witness.jsonl")
    }

    /// The lines that the witness recorded.
    pub fn told(&self) -> Result<Told> {
        let text = match fs::read(self.witness()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => String::from_utf8_lossy(&read?).into_owned(),
        };
        Ok(Told { lines: text.lines().map(str::to_owned).collect() })
    }

    /// Starts the daemon and returns how to connect. Blocks.
    pub fn up(&self) -> Result<(u32, Door)> {
        let pid = tokio::task::block_in_place(|| self.home.up());
        Ok((pid, self.door()?))
    }

    /// How to connect to the running daemon.
    pub fn door(&self) -> Result<Door> {
        let record = self.home.record().context("no daemon runs")?;
        let url = record["url"].as_str().unwrap_or_default();
        let address = url.strip_prefix("http://").context("a daemon without an address")?.to_owned();
        let token = fs::read_to_string(self.home.path().join("token"))?.trim().to_owned();
        Ok(Door { address, token })
    }

    /// Kills the daemon with SIGKILL.
    pub fn kill(&self) -> Kill {
        let at = now();
        tokio::task::block_in_place(|| self.home.kill());
        Kill { at, dead: now() }
    }

    /// Stops the daemon in order.
    pub fn down(&self) -> Result<()> {
        self.stop(&["down"])
    }

    /// Stops the daemon in order, and keeps the agents that outlive it.
    pub fn down_and_keep(&self) -> Result<()> {
        self.stop(&["down", "--keep"])
    }

    /// Stops the daemon in order, and ends all agents, also those that an earlier daemon left running.
    pub fn down_and_end(&self) -> Result<()> {
        self.stop(&["down", "--end"])
    }

    fn stop(&self, arguments: &[&str]) -> Result<()> {
        let ran = tokio::task::block_in_place(|| self.home.run(arguments));
        if ran.code != 0 {
            bail!("down failed: {ran:?}");
        }
        let code = tokio::task::block_in_place(|| self.home.ended());
        if code != 0 {
            bail!("the daemon ended with {code}");
        }
        Ok(())
    }

    /// Checks a copy of the database as the kill left it, so that the next daemon finds the original unchanged.
    pub fn check_database(&self) -> Result<()> {
        check_database(&self.home.path().join("portolan.db"))
    }

    /// Processes of these sessions that still run.
    pub fn leftovers(&self, sessions: &[String]) -> Vec<i32> {
        sessions.iter().flat_map(|session| self.home.agents(session)).collect()
    }
}

/// Checks a copy of this database and of its write-ahead log.
pub fn check_database(database: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.db");
    fs::copy(database, &copy)?;
    let wal = PathBuf::from(format!("{}-wal", database.display()));
    if wal.exists() {
        fs::copy(wal, folder.path().join("copy.db-wal"))?;
    }
    let connection = rusqlite::Connection::open(&copy)?;
    let told: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if told != "ok" {
        bail!("the database is damaged: {told}");
    }
    Ok(())
}

/// When a daemon was killed. Between the two times it may still have written and shown something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Just before.
    pub at: i64,
    /// When the daemon was certainly dead.
    pub dead: i64,
}

/// Milliseconds of the machine's clock, which the daemon's entries also use.
pub fn now() -> i64 {
    portolan_core::Millis::now().0
}

/// The memory of a process, in KiB.
pub fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().next().context("no number")?.parse()?)
}

/// A path as one word of a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
