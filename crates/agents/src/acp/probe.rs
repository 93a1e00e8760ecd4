//! Looking for an ACP agent without starting it where that can be helped: which program, which version? Whether it is
//! logged in only a session tells.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use portolan_core::ports::{Probe, Road};

use super::{Config, catalogue::Known, launch};
use crate::{
    Supervision,
    child::{Program, ask::ask},
};

/// How long `--version` may take. A cold start of a large program on a busy machine takes many seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest description of a package that is read.
const LARGEST_PACKAGE: u64 = 1024 * 1024;

/// What a look found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The program and its arguments.
    pub(super) command: Vec<OsString>,
    pub(super) version: Option<String>,
}

/// A program, when it was last changed, and its version.
type KnownVersion = (PathBuf, Option<SystemTime>, Option<String>);

/// Looks, and remembers the version of a program that has not changed since.
#[derive(Debug)]
pub(super) struct Prober {
    kind: String,
    command: Vec<OsString>,
    env: IndexMap<String, String>,
    known: &'static Known,
    supervision: Arc<Supervision>,
    version: Mutex<Option<KnownVersion>>,
}

impl Prober {
    pub(super) fn new(config: &Config, known: &'static Known, supervision: Arc<Supervision>) -> Self {
        Self {
            kind: config.kind.clone(),
            command: launch::command(config, known),
            env: config.env.clone(),
            known,
            supervision,
            version: Mutex::default(),
        }
    }

    pub(super) fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().cloned().unwrap_or_default();
        let own = self.env.get("PATH").map(OsString::from);
        let users = || self.supervision.environment.iter().find(|(name, _)| name == "PATH");
        let path = own.or_else(|| users().map(|(_, value)| value.clone()));
        which::which_in(&name, path.as_ref(), Path::new("/")).map_err(|_| {
            format!(
                "agent `{0}` not found: no program `{1}`; install it ({2}) or set `agents.{0}.command`",
                self.kind,
                name.to_string_lossy(),
                self.known.install
            )
        })
    }

    /// What to start.
    pub(super) async fn found(&self) -> Result<Found, String> {
        let program = self.program()?;
        let mut command = vec![program.clone().into_os_string()];
        command.extend(self.command.iter().skip(1).cloned());
        let changed = std::fs::metadata(&program).ok().and_then(|metadata| metadata.modified().ok());
        let known = {
            let known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
            known.as_ref().filter(|(of, when, _)| *of == program && *when == changed).map(|it| it.2.clone())
        };
        if let Some(version) = known {
            return Ok(Found { command, version });
        }
        let version = match packaged(&program) {
            Some(version) => Some(version),
            None => self.ask_version(&program).await,
        };
        let mut known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((program, changed, version.clone()));
        Ok(Found { command, version })
    }

    /// Only of one that is known: what a stranger makes of `--version` nobody can say.
    async fn ask_version(&self, program: &Path) -> Option<String> {
        self.known.tested?;
        let environment = launch::environment(&self.supervision, &self.env, self.known).ok()?;
        let command = vec![program.into(), "--version".into()];
        let program = Program { agent: self.kind.clone(), command, folder: PathBuf::new(), environment };
        let said = ask(program, &self.supervision.home_key, PATIENCE).await.ok()?;
        said.output.lines().find_map(version)
    }

    pub(super) async fn look(&self) -> Result<Probe, String> {
        let found = self.found().await?;
        let program = found.command.first().map(|program| program.to_string_lossy().into_owned());
        let mut message = format!("`{}`, over ACP", program.as_deref().unwrap_or_default());
        match (&found.version, self.known.tested) {
            (Some(version), Some(tested)) if is_older(version, tested) => {
                message +=
                    &format!("; older than {tested}, which was tested: update it ({})", self.known.install);
            }
            (_, Some(_)) => {}
            (_, None) => message += "; nobody has tested it",
        }
        if !self.known.remark.is_empty() {
            message += &format!("; {}", self.known.remark);
        }
        message += &format!("; not logged in? {}", self.known.login);
        let why = if self.known.kind.is_empty() { "by its configuration" } else { "it speaks ACP itself" };
        Ok(Probe {
            available: true,
            message,
            version: found.version,
            program,
            road: Some(Road { name: "acp".into(), why: why.into() }),
            login: None,
        })
    }
}

/// The version in the description of the npm package that a script is part of. Nothing has to be started for it.
fn packaged(program: &Path) -> Option<String> {
    let script = program.canonicalize().ok()?;
    let is_script = script.extension().is_some_and(|it| it == "js" || it == "mjs" || it == "cjs");
    let within = |folder: &&Path| folder.components().any(|part| part.as_os_str() == "node_modules");
    let mut folders = script.ancestors().skip(1).take_while(within);
    let description = folders.find_map(|folder| {
        let file = folder.join("package.json");
        let fits = std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() <= LARGEST_PACKAGE);
        fits.then(|| std::fs::read(file).ok()).flatten()
    });
    let description: serde_json::Value = serde_json::from_slice(&description.filter(|_| is_script)?).ok()?;
    description["version"].as_str().map(str::to_owned)
}

/// The first word that looks like a version: `gemini 0.61.0`, ` 1.34.0`, `v1.2.3`.
fn version(line: &str) -> Option<String> {
    let word = |word: &str| {
        let word = word.trim_start_matches('v').trim_end_matches(['.', ',']);
        (word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
            .then(|| word.to_owned())
    };
    line.split_whitespace().find_map(word)
}

/// Is one version before another? By its numbers; what cannot be read is not.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let plain = version.split(['-', '+']).next()?;
        plain.split('.').map(|part| part.parse().ok()).collect()
    };
    match (numbers(version), numbers(than)) {
        (Some(version), Some(than)) => version < than,
        _ => false,
    }
}
