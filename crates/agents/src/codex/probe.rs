//! Looking for Codex without starting a turn: which program, which version, logged in?

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use portolan_core::ports::{Login, Probe, Road};

use super::{Config, KIND, launch};
use crate::{
    Supervision,
    child::{
        Program,
        ask::{Said, ask},
    },
};

/// How long `codex --version` may take. A cold start reads a large program from disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to do when it is not logged in.
pub(super) const LOG_IN: &str = "run `portolan account codex login` or `codex login`; a model provider of your own in `~/.codex/config.toml` needs none";

/// What a look found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The program and its first arguments.
    pub(super) command: Vec<OsString>,
    pub(super) version: Option<String>,
    why: &'static str,
}

/// A program, when it was last changed, and its version.
type Known = (PathBuf, Option<SystemTime>, Option<String>);

/// Looks, and remembers the version of a program that has not changed since.
#[derive(Debug)]
pub(super) struct Prober {
    command: Vec<OsString>,
    env: IndexMap<String, String>,
    supervision: Arc<Supervision>,
    known: Mutex<Option<Known>>,
}

impl Prober {
    pub(super) fn new(config: &Config, supervision: Arc<Supervision>) -> Self {
        Self {
            command: launch::command(config),
            env: config.env.clone(),
            supervision,
            known: Mutex::default(),
        }
    }

    pub(super) fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().cloned().unwrap_or_default();
        let own = self.env.get("PATH").map(OsString::from);
        let users = || self.supervision.environment.iter().find(|(name, _)| name == "PATH");
        let path = own.or_else(|| users().map(|(_, value)| value.clone()));
        which::which_in(&name, path.as_ref(), Path::new("/")).map_err(|_| {
            format!(
                "agent `{KIND}` not found: no program `{}`; install it (`npm install -g @openai/codex`) or set \
                 `agents.{KIND}.command`",
                name.to_string_lossy()
            )
        })
    }

    async fn ask(&self, mut command: Vec<OsString>, arguments: &[&str]) -> Result<Said, String> {
        let environment = launch::environment(&self.supervision, &self.env, command.first().map(Path::new))?;
        command.extend(arguments.iter().map(Into::into));
        let program = Program { agent: KIND.into(), command, folder: PathBuf::new(), environment };
        ask(program, &self.supervision.home_key, PATIENCE).await
    }

    /// What to start: the native program, where it is found behind npm's script.
    pub(super) async fn found(&self) -> Result<Found, String> {
        let program = self.program()?;
        let (program, why) = match launch::native(&program) {
            Some(native) => (native, "the native program behind npm's script"),
            None => (program, "the program as it is found"),
        };
        let mut command = vec![program.clone().into_os_string()];
        command.extend(self.command.iter().skip(1).cloned());
        let changed = std::fs::metadata(&program).ok().and_then(|metadata| metadata.modified().ok());
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.as_ref().filter(|(of, when, _)| *of == program && *when == changed).map(|it| it.2.clone())
        };
        if let Some(version) = known {
            return Ok(Found { command, version, why });
        }
        let said = self.ask(command.clone(), &["--version"]).await?;
        if said.code != Some(0) {
            let code =
                said.code.map_or_else(|| "by a signal".into(), |code| format!("with exit code {code}"));
            return Err(format!("`{} --version` ended {code}: {}", program.display(), said.stderr.trim()));
        }
        let version = version(&said.output);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((program, changed, version.clone()));
        Ok(Found { command, version, why })
    }

    /// An app-server that belongs to no session, and the key of the home that it is started for.
    pub(super) async fn app_server(&self) -> Result<(Program, String), String> {
        let mut command = self.found().await?.command;
        let environment = launch::environment(&self.supervision, &self.env, command.first().map(Path::new))?;
        command.push("app-server".into());
        let program = Program { agent: KIND.into(), command, folder: PathBuf::new(), environment };
        Ok((program, self.supervision.home_key.clone()))
    }

    pub(super) async fn look(&self) -> Result<Probe, String> {
        let found = self.found().await?;
        let login = match self.ask(found.command.clone(), &["login", "status"]).await {
            Ok(said) if said.code == Some(0) => {
                let line =
                    said.stderr.lines().chain(said.output.lines()).find(|line| line.contains("Logged in"));
                Some(Login::LoggedIn { how: line.unwrap_or("it does not say how").trim().to_owned() })
            }
            Ok(said) if said.output.contains("Not logged in") || said.stderr.contains("Not logged in") => {
                Some(Login::LoggedOut { way_out: LOG_IN.into() })
            }
            _ => None,
        };
        let program = found.command.first().map(|program| program.to_string_lossy().into_owned());
        let state = match &login {
            Some(Login::LoggedIn { how }) => format!("; logged in ({how})"),
            Some(Login::LoggedOut { way_out }) => format!("; not logged in: {way_out}"),
            None => String::new(),
        };
        Ok(Probe {
            available: true,
            message: format!(
                "`{}`, over stdio ({}){state}",
                program.as_deref().unwrap_or_default(),
                found.why
            ),
            version: found.version,
            program,
            road: Some(Road { name: "app-server".into(), why: found.why.into() }),
            login,
        })
    }
}

/// Reads what `codex --version` prints: `codex-cli 0.166.0`.
fn version(output: &str) -> Option<String> {
    let word =
        output.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_sees_the_version_and_the_login_or_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("codex");
        let text = "case \"$1\" in\n--version) echo 'codex-cli 0.166.0' ;;\n\
                    *) if [ -n \"$HARBOUR\" ]; then echo 'Logged in using an API key' >&2; \
                    else echo 'Not logged in' >&2; exit 1; fi ;;\nesac\n";
        std::fs::write(&script, text).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        let look = async |env: IndexMap<String, String>| {
            let command = vec!["sh".into(), script.clone().into_os_string()];
            let config = Config { command, env, ..Config::default() };
            Prober::new(&config, Arc::clone(&supervision)).look().await.unwrap()
        };
        let out = look(IndexMap::new()).await;
        assert_eq!(out.version.as_deref(), Some("0.166.0"));
        assert_eq!(out.login, Some(Login::LoggedOut { way_out: LOG_IN.into() }));
        let logged_in = look([("HARBOUR".to_owned(), "1".to_owned())].into()).await;
        assert_eq!(logged_in.login, Some(Login::LoggedIn { how: "Logged in using an API key".into() }));
        let missing = Config { command: vec!["no-such-codex".into()], ..Config::default() };
        let missing = Prober::new(&missing, Arc::clone(&supervision)).look().await.unwrap_err();
        assert!(missing.contains("npm install -g @openai/codex"), "{missing}");
    }
}
