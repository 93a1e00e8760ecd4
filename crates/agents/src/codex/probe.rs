//! Looks for Codex without starting a turn: which program, which version, and whether it is logged in.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use portolan_core::ports::{Login, Probe, Transport};
use portolan_wire::ndjson;
use tokio::sync::OnceCell;

use super::{Config, KIND, account, asking, launch};
use crate::{
    Supervision,
    child::{
        Program,
        ask::{Said, ask},
    },
};

/// How long `codex --version` may take. A cold start reads a large program from disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// The oldest Codex whose app-server was seen to work with Portolan.
const OLDEST: [u64; 3] = [0, 144, 6];

/// What to do if it is not logged in.
pub(super) const LOG_IN: &str = "log in through Portolan, or run `codex login`; with your own model \
                                 provider in `~/.codex/config.toml`, no login is needed";

/// The result of a look.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The program and its first arguments.
    pub(super) command: Vec<OsString>,
    pub(super) version: String,
    why: &'static str,
}

/// A program, when it was last changed, and its version.
type Known = (PathBuf, Option<SystemTime>, String);

/// Looks for the program, and remembers its version until the program changes.
#[derive(Debug)]
pub(super) struct Prober {
    command: Vec<OsString>,
    env: IndexMap<String, String>,
    supervision: Arc<Supervision>,
    known: Mutex<Option<Known>>,
    /// The homes of Codex, each with whether its databases were looked after.
    homes: Mutex<HashMap<PathBuf, Arc<OnceCell<()>>>>,
}

impl Prober {
    pub(super) fn new(config: &Config, supervision: Arc<Supervision>) -> Self {
        Self {
            command: launch::command(config),
            env: config.env.clone(),
            supervision,
            known: Mutex::default(),
            homes: Mutex::default(),
        }
    }

    pub(super) fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().cloned().unwrap_or_default();
        self.supervision.program(&name, &self.env).ok_or_else(|| {
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

    /// The probe if no session can be started, with the reason.
    pub(super) fn unusable(&self, message: String) -> Probe {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Probe {
            message,
            version: known.map(|(.., version)| version),
            program: self.program().ok().map(|program| program.display().to_string()),
            ..Probe::default()
        }
    }

    /// What to start; or the way out if the program is another one, or too old.
    pub(super) async fn found(&self) -> Result<Found, String> {
        let found = self.any_found().await?;
        if numbers(&found.version).is_none_or(|version| version < OLDEST) {
            let [major, minor, patch] = OLDEST;
            return Err(format!(
                "Codex {} is too old: Portolan needs {major}.{minor}.{patch} or newer; update it (`npm install -g \
                 @openai/codex`) or set `agents.{KIND}.command` to a newer one",
                found.version
            ));
        }
        Ok(found)
    }

    /// The native program, if npm's script starts one.
    async fn any_found(&self) -> Result<Found, String> {
        let program = self.program()?;
        let (program, why) = match launch::native(&program) {
            Some(native) => (native, "the native program that npm's script starts"),
            None => (program, "the installed program"),
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
        let version = version(&said.output).ok_or_else(|| {
            format!(
                "`{}` is not Codex: `--version` prints `{}`; set `agents.{KIND}.command` to the program of Codex",
                program.display(),
                ndjson::head(said.output.trim().as_bytes())
            )
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((program, changed, version.clone()));
        Ok(Found { command, version, why })
    }

    /// An app-server that belongs to no session, and the key of its home.
    pub(super) async fn app_server(&self) -> Result<(Program, String), String> {
        let mut command = self.found().await?.command;
        let environment = launch::environment(&self.supervision, &self.env, command.first().map(Path::new))?;
        command.push("app-server".into());
        let program = Program { agent: KIND.into(), command, folder: PathBuf::new(), environment };
        Ok((program, self.supervision.home_key.clone()))
    }

    /// Lets one Codex create the databases of a new home before any other uses it. When two processes create them at
    /// once, one of the two ends with "failed to initialize sqlite state runtime" (seen with 0.166.0).
    pub(super) async fn prepare_home(&self, program: &Program) {
        let Some(home) = launch::home(&program.environment) else { return };
        let prepared = {
            let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(homes.entry(home.clone()).or_default())
        };
        let create = async {
            if launch::has_databases(&home) {
                return;
            }
            let program = Program { folder: PathBuf::new(), ..program.clone() };
            if let Err(why) = asking::start_once(program, &self.supervision.home_key).await {
                // The next start meets the same trouble and reports it.
                tracing::debug!(home = %home.display(), ?why, "codex did not prepare its home");
            }
        };
        prepared.get_or_init(|| create).await;
    }

    pub(super) async fn look(&self) -> Result<Probe, String> {
        let found = self.found().await?;
        let login = match self.ask(found.command.clone(), &["login", "status"]).await {
            Ok(said) if said.code == Some(0) => {
                let line =
                    said.stderr.lines().chain(said.output.lines()).find(|line| line.contains("Logged in"));
                Some(Login::LoggedIn { how: line.unwrap_or("method unknown").trim().to_owned() })
            }
            // With the user's own model provider no login is needed. Only the app-server knows this.
            Ok(said) if said.output.contains("Not logged in") || said.stderr.contains("Not logged in") => {
                let logged_out = Some(Login::LoggedOut { way_out: LOG_IN.into() });
                account::look(self).await.map_or(logged_out, |state| state.login)
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
            version: Some(found.version),
            program,
            transport: Some(Transport { name: "app-server".into(), why: found.why.into() }),
            login,
        })
    }
}

/// Reads the output of `codex --version`: `codex-cli 0.166.0`. Another program prints something else.
fn version(output: &str) -> Option<String> {
    let mut words = output.split_whitespace().skip_while(|word| *word != "codex-cli").skip(1);
    words.next().filter(|word| numbers(word).is_some()).map(str::to_owned)
}

/// The numbers of a version, without its suffix.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split(['-', '+']).next()?.split('.').map(str::parse);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Some([major, minor, patch]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_sees_the_version_and_the_login_or_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("codex");
        let text = "case \"$1\" in\n--version) echo 'codex-cli 0.166.0' ;;\napp-server) exit 1 ;;\n\
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
    fn prober(folder: &Path, script: &str) -> Prober {
        let file = folder.join("codex");
        std::fs::write(&file, script).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        let command = vec!["sh".into(), file.into_os_string()];
        Prober::new(&Config { command, ..Config::default() }, supervision)
    }

    #[tokio::test]
    async fn another_program_and_a_too_old_version_are_not_ready_and_name_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        for (prints, says, version) in [
            (
                "codex-cli 0.20.0",
                "Codex 0.20.0 is too old: Portolan needs 0.144.6 or newer; update it",
                Some("0.20.0"),
            ),
            (
                "sleep (GNU coreutils) 9.1",
                "is not Codex: `--version` prints `sleep (GNU coreutils) 9.1`",
                None,
            ),
            ("0.166.0", "is not Codex", None),
        ] {
            let prober = prober(folder.path(), &format!("echo '{prints}'\n"));
            let why = prober.look().await.unwrap_err();
            assert!(why.contains(says) && why.contains("`agents.codex.command`"), "{why}");
            let probe = prober.unusable(why);
            assert!(!probe.available && probe.program.is_some(), "{probe:?}");
            assert_eq!(probe.version.as_deref(), version);
        }
    }

    #[tokio::test]
    async fn with_a_model_provider_of_the_users_own_no_login_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        for (needs, expected) in [(false, None), (true, Some(Login::LoggedOut { way_out: LOG_IN.into() }))] {
            let script = format!(
                r#"case "$1" in
                --version) echo 'codex-cli 0.166.0'; exit 0 ;;
                login) echo 'Not logged in' >&2; exit 1 ;;
                esac
                while read -r line; do
                    id=${{line#*\"id\":}}; id=${{id%%[!0-9]*}}
                    case "$line" in
                    *'"account/read"'*) echo "{{\"id\":$id,\"result\":{{\"account\":null,\"requiresOpenaiAuth\":{needs}}}}}" ;;
                    *'"id"'*) echo "{{\"id\":$id,\"result\":{{}}}}" ;;
                    esac
                done"#
            );
            let probe = prober(folder.path(), &script).look().await.unwrap();
            assert_eq!(probe.login, expected, "{}", probe.message);
        }
    }
}
