//! Pinned programs from npm, by exact version, in a cache outside the clone: a second run is quick.
//!
//! An installation is made beside its place and moved there when it is whole, so a half one is never used. Processes
//! that want the same wait for each other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A program that npm installs.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// What the folder in the cache is called.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
    /// Just this one. A range would give whatever an old npm or Node picks.
    pub version: &'static str,
    /// Where the program can be, below `node_modules`. The first that says its version is taken.
    pub programs: &'static [&'static str],
}

/// Claude Code. The second place is the program itself, for where npm runs no install scripts.
pub const fn claude(version: &'static str) -> Pinned {
    Pinned {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version,
        programs: &[".bin/claude", "@anthropic-ai/claude-code-linux-x64/claude"],
    }
}

/// Codex. The first place is the program itself, not the script that starts it.
pub const fn codex(version: &'static str) -> Pinned {
    Pinned {
        name: "codex",
        package: "@openai/codex",
        version,
        programs: &[
            "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
            ".bin/codex",
        ],
    }
}

impl Pinned {
    /// The program; installs it first where it is not in the cache.
    pub fn program(&self) -> Result<PathBuf, String> {
        let cache = cache();
        fs::create_dir_all(&cache).map_err(|error| format!("`{}`: {error}", cache.display()))?;
        let place = cache.join(format!("{}-{}", self.name, self.version));
        // Held until this returns: another process that wants the same waits here.
        let lock = fs::File::create(place.with_extension("lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        if let Some(program) = self.installed(&place) {
            return Ok(program);
        }
        let unfinished = tempfile::Builder::new()
            .prefix(&format!("{}-unfinished-", self.name))
            .tempdir_in(&cache)
            .map_err(|error| error.to_string())?;
        self.install(unfinished.path())?;
        // Whatever lies there does not work.
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|error| format!("`{}`: {error}", place.display()))?;
        }
        fs::rename(unfinished.path(), &place).map_err(|error| error.to_string())?;
        self.installed(&place)
            .ok_or_else(|| format!("{} was installed but does not say its version", self.spec()))
    }

    fn spec(&self) -> String {
        format!("{}@{}", self.package, self.version)
    }

    /// The program in `place`, where it runs and is of this version.
    fn installed(&self, place: &Path) -> Option<PathBuf> {
        let modules = place.join("node_modules");
        let says_version = |program: &PathBuf| {
            let home = tempfile::tempdir().ok();
            let mut command = Command::new(program);
            command.arg("--version").env("HOME", home.as_ref().map_or(Path::new("/"), |home| home.path()));
            let output = command.output().ok();
            output.is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains(self.version))
        };
        self.programs.iter().map(|program| modules.join(program)).find(says_version)
    }

    fn install(&self, folder: &Path) -> Result<(), String> {
        let output = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-update-notifier", "--save-exact", "--prefix"])
            .arg(folder)
            .arg(self.spec())
            .current_dir(folder)
            .output()
            .map_err(|error| {
                format!("npm cannot be started ({error}); the suite needs it for {}", self.spec())
            })?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("npm could not install {}: {}", self.spec(), String::from_utf8_lossy(&output.stderr)))
    }
}

/// `$PORTOLAN_TEST_CACHE`, else the user's cache.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").unwrap_or_else(std::env::temp_dir).join(".cache");
    set("PORTOLAN_TEST_CACHE")
        .unwrap_or_else(|| set("XDG_CACHE_HOME").unwrap_or_else(home).join("portolan-tools"))
}
