//! Tools: the programs that the checks need besides the Rust toolchain, and how each is installed.
//!
//! An installed tool is used as it is. A missing tool is built from crates.io at a pinned version into a cache outside
//! of the clone, so that a second clone need not build it again.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::project::{cargo, run, works};

/// A third-party cargo subcommand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// The crate and the program.
    name: &'static str,
    /// The version to install if the tool is missing.
    version: &'static str,
}

/// Runs tests: one process for each test, timeouts, groups.
pub(crate) const NEXTEST: Tool = Tool { name: "cargo-nextest", version: "0.9.143" };
/// Checks licences, bans and sources of dependencies.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Debian packages that tests use, each with a program that shows whether the package is installed.
const PACKAGES: [(&str, &str); 3] = [
    // The demo agent leaves a process behind with it, to test that no process outlives a session.
    ("util-linux", "setsid"),
    // Counts instructions, so that a slower hot path is found on any machine, however busy.
    ("valgrind", "valgrind"),
    // Shows our page, and hostile pages that imitate it.
    ("chromium", "chromium"),
];

impl Tool {
    /// The program if it is installed: on PATH, or in our cache.
    pub(crate) fn found(self) -> Option<PathBuf> {
        [PathBuf::from(self.name), cache().join("bin").join(self.name)]
            .into_iter()
            .find(|program| works(Command::new(program).arg("--version")))
    }

    /// The program; installs it first if it is missing.
    pub(crate) fn get(self) -> Result<PathBuf> {
        if let Some(program) = self.found() {
            return Ok(program);
        }
        let cache = cache();
        fs::create_dir_all(&cache).with_context(|| format!("cannot make `{}`", cache.display()))?;
        println!("{} is not installed; building {} into {}", self.name, self.version, cache.display());
        // Unoptimised: the tools run for seconds, an optimised build would take minutes.
        run(cargo(["install", self.name, "--version", self.version, "--locked", "--debug", "--root"])
            .arg(&cache)
            // A separate folder: the workspace's profiles and locks must not interfere.
            .arg("--target-dir")
            .arg(cache.join("build"))
            .current_dir(&cache))?;
        // The build leaves gigabytes that nobody needs again.
        let _ = fs::remove_dir_all(cache.join("build"));
        self.found().with_context(|| format!("{} was installed but does not run", self.name))
    }
}

/// The folder for tools, outside of the clone.
fn cache() -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from).join(".cache");
    env::var_os("XDG_CACHE_HOME")
        .filter(|v| !v.is_empty())
        .map_or_else(home, PathBuf::from)
        .join("portolan-tools")
}

/// Installs everything that `cargo xtask test` needs.
pub(crate) fn prepare() -> Result<()> {
    component("fmt", "rustfmt")?;
    component("clippy", "clippy")?;
    packages()?;
    if let Err(error) = NEXTEST.get() {
        // Slower and without timeouts, but every test still runs.
        println!("continuing with `cargo test`: {error:#}");
    }
    Ok(())
}

/// A part of the Rust toolchain that a minimal installation lacks.
fn component(subcommand: &str, name: &str) -> Result<()> {
    if works(&mut cargo([subcommand, "--version"])) {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", name]))
        .with_context(|| format!("install the Rust component `{name}`"))
}

fn packages() -> Result<()> {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !on_path(program)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !is_root() || !on_path("apt-get") {
        bail!("the tests need {names}; install with `sudo apt-get install {names}` or your system's own way");
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
