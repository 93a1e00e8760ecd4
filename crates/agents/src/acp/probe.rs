//! Looks for an ACP agent, without starting it if possible: which program, which version? Only a session shows whether
//! it is logged in.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::ports::{Probe, Transport};

use super::{Config, catalogue::Known, launch};
use crate::{
    Supervision,
    child::{Program, ask::ask},
};

/// How long `--version` may take. A cold start of a large program on a busy machine takes many seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest package description that is read.
const LARGEST_PACKAGE: u64 = 1024 * 1024;

/// The result of a look.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The program and its arguments.
    pub(super) command: Vec<OsString>,
    pub(super) version: Option<String>,
}

/// Looks for the program, and asks the program for its version again only after the program has changed.
#[derive(Debug)]
pub(super) struct Prober {
    kind: String,
    command: Vec<OsString>,
    env: IndexMap<String, String>,
    known: &'static Known,
    supervision: Arc<Supervision>,
}

impl Prober {
    pub(super) fn new(config: &Config, known: &'static Known, supervision: Arc<Supervision>) -> Self {
        Self {
            kind: config.kind.clone(),
            command: launch::command(config, known),
            env: config.env.clone(),
            known,
            supervision,
        }
    }

    pub(super) fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().cloned().unwrap_or_default();
        self.supervision.program(&name, &self.env).ok_or_else(|| {
            format!(
                "agent `{0}` not found: no program `{1}`; install it ({2}) or set `agents.{0}.command`",
                self.kind,
                name.to_string_lossy(),
                self.known.install
            )
        })
    }

    /// The program with its arguments.
    pub(super) fn command(&self) -> Result<Vec<OsString>, String> {
        let mut command = vec![self.program()?.into_os_string()];
        command.extend(self.command.iter().skip(1).cloned());
        Ok(command)
    }

    /// The variables of the configuration.
    pub(super) fn env(&self) -> &IndexMap<String, String> {
        &self.env
    }

    /// What to start.
    pub(super) async fn found(&self) -> Result<Found, String> {
        let program = self.program()?;
        let command = self.command()?;
        let version = match packaged(&program) {
            Some(version) => Some(version),
            None => self.supervision.versions.of(&self.kind, &program, self.ask_version(&program)).await,
        };
        Ok(Found { command, version })
    }

    /// Only for a known agent: a stranger may do anything with `--version`.
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
        let old = found.version.as_deref().and_then(|version| too_old(&self.kind, version, self.known));
        let untested = self.known.tested.is_none().then(|| "untested".to_owned());
        let remark = Some(self.known.remark.to_owned()).filter(|remark| !remark.is_empty());
        let login = Some(format!("not logged in? {}", self.known.login));
        let first = format!("`{}`, over ACP", program.as_deref().unwrap_or_default());
        let parts = [Some(first), old, untested, remark, login];
        let message = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let why =
            if self.known.kind.is_empty() { "set in the configuration" } else { "the agent speaks ACP" };
        Ok(Probe {
            available: true,
            message,
            version: found.version,
            program,
            transport: Some(Transport { name: "acp".into(), why: why.into() }),
            login: None,
        })
    }
}

/// The version in the description of the npm package that a script is part of. Nothing has to be started.
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

/// The notice for a version that is older than the tested version.
pub(super) fn too_old(title: &str, version: &str, known: &Known) -> Option<String> {
    let tested = known.tested.filter(|tested| is_older(version, tested))?;
    let install = known.install;
    Some(format!(
        "{title} {version} is older than the tested version {tested}; if it fails, update it ({install})"
    ))
}

/// Whether one version is older than another, by its numbers; an unreadable version is not.
fn is_older(version: &str, than: &str) -> bool {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let plain = version.split(['-', '+']).next()?;
        plain.split('.').map(|part| part.parse().ok()).collect()
    };
    match (numbers(version), numbers(than)) {
        (Some(version), Some(than)) => version < than,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::catalogue;

    #[test]
    fn the_version_of_a_script_is_read_from_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/@harbour/agent");
        std::fs::create_dir_all(package.join("dist/bin")).unwrap();
        std::fs::write(package.join("package.json"), r#"{"name":"@harbour/agent","version":"1.2.3"}"#)
            .unwrap();
        let script = package.join("dist/bin/agent.js");
        std::fs::write(&script, "").unwrap();
        let link = folder.path().join("agent");
        std::os::unix::fs::symlink(&script, &link).unwrap();
        assert_eq!(packaged(&link).as_deref(), Some("1.2.3"));
        // A program that is not a script may have any package around it.
        std::fs::write(package.join("dist/bin/native"), "").unwrap();
        assert_eq!(packaged(&package.join("dist/bin/native")), None);
    }

    #[test]
    fn versions_are_found_in_output_and_compared_by_their_numbers() {
        for (line, expected) in [
            ("0.61.0", Some("0.61.0")),
            (" goose 1.34.0", Some("1.34.0")),
            ("GitHub Copilot CLI v1.0.102.", Some("1.0.102")),
            ("no version 7 here", None),
        ] {
            assert_eq!(version(line).as_deref(), expected, "{line}");
        }
        assert!(
            is_older("0.9.0", "0.61.0") && !is_older("0.61.0", "0.61.0") && !is_older("1.0.0-beta", "0.61.0")
        );
        assert!(!is_older("unknown", "0.61.0"));
    }

    #[tokio::test]
    async fn a_look_reports_the_program_and_an_old_version() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/gemini");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("package.json"), r#"{"version":"0.1.0"}"#).unwrap();
        let script = package.join("gemini.js");
        std::fs::write(&script, "").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        let command = vec![script.clone().into_os_string(), "--acp".into()];
        let config = Config { kind: "gemini".into(), command, ..Config::default() };
        let probe = Prober::new(&config, catalogue::known("gemini"), supervision).look().await.unwrap();
        assert_eq!(probe.version.as_deref(), Some("0.1.0"));
        assert!(probe.message.contains("older than the tested version 0.61.0"), "{}", probe.message);
    }
}
