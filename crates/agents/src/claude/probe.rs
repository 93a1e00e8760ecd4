//! Looks for Claude Code without starting a turn: which program, which version, which transport and why, and whether it
//! is logged in.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use portolan_core::ports::{self, Probe};
use portolan_wire::ndjson;
use serde::Deserialize;

use super::{Config, KIND, Version, Way, launch};
use crate::{
    Supervision,
    child::{Program, ask::ask},
    dial_in::DialIn,
};

/// How long `claude --version` may take. A cold start of the native program reads 350 MB from disk.
const PATIENCE: Duration = Duration::from_secs(15);

/// The result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The program.
    pub program: PathBuf,
    /// Its version.
    pub version: Version,
    /// Its transport.
    pub way: Way,
    /// Why this transport.
    pub why: String,
    /// Whether it is logged in, and how.
    pub login: Login,
}

/// Whether it is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Yes, and how.
    Yes(String),
    /// No.
    No,
    /// This version does not report it.
    Unknown,
}

/// What to do if it is not logged in.
const LOG_IN: &str = "run `claude /login`, or set ANTHROPIC_API_KEY for the daemon";

impl Found {
    fn transport(&self) -> &'static str {
        match self.way {
            Way::Stdio => "stdio",
            Way::Websocket => "WebSocket",
        }
    }

    /// The result in the form for all agents.
    pub(super) fn probe(&self) -> Probe {
        Probe {
            available: true,
            version: Some(self.version.to_string()),
            message: self.to_string(),
            program: Some(self.program.display().to_string()),
            transport: Some(ports::Transport { name: self.transport().into(), why: self.why.clone() }),
            login: match &self.login {
                Login::Yes(how) => Some(ports::Login::LoggedIn { how: how.clone() }),
                Login::No => Some(ports::Login::LoggedOut { way_out: LOG_IN.into() }),
                Login::Unknown => None,
            },
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, over {} ({})", self.program.display(), self.transport(), self.why)?;
        match &self.login {
            Login::Yes(how) => write!(f, "; logged in ({how})"),
            Login::No => write!(f, "; not logged in: {LOG_IN}"),
            Login::Unknown => Ok(()),
        }
    }
}

/// Looks for the program, and remembers its version until the program changes.
#[derive(Debug)]
pub(super) struct Prober {
    command: Vec<OsString>,
    transport: Option<Way>,
    /// Variables that its sessions get on top of the user's environment.
    env: IndexMap<String, String>,
    supervision: Arc<Supervision>,
    dial_in: DialIn,
    versions: Mutex<HashMap<PathBuf, (Stamp, Version)>>,
}

/// When a program was last changed, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(Option<SystemTime>, u64);

impl Stamp {
    fn of(program: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(program).ok()?;
        Some(Self(metadata.modified().ok(), metadata.len()))
    }
}

impl Prober {
    pub(super) fn new(config: &Config, supervision: Arc<Supervision>, dial_in: DialIn) -> Self {
        Self {
            command: launch::command(config),
            transport: config.transport,
            env: config.env.clone(),
            supervision,
            dial_in,
            versions: Mutex::default(),
        }
    }

    /// The version found last.
    pub(super) fn known(&self) -> Option<Version> {
        let program = self.program().ok()?;
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&program).map(|(_, version)| *version)
    }

    /// The probe if no session can be started, with the reason.
    pub(super) fn unusable(&self, message: String) -> Probe {
        Probe {
            message,
            version: self.known().map(|version| version.to_string()),
            program: self.program().ok().map(|program| program.display().to_string()),
            ..Probe::default()
        }
    }

    fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().cloned().unwrap_or_default();
        self.supervision.program(&name, &self.env).ok_or_else(|| {
            format!(
                "agent `{KIND}` not found: no program `{}`; install it (`npm install -g @anthropic-ai/claude-code`) \
                 or set `agents.{KIND}.command`",
                name.to_string_lossy()
            )
        })
    }

    async fn ask(&self, arguments: &[&str]) -> Result<crate::child::ask::Said, String> {
        let mut command = self.command.clone();
        command.extend(arguments.iter().map(Into::into));
        let environment = launch::environment(&self.supervision, &self.env)?;
        let program = Program { agent: KIND.into(), command, folder: PathBuf::new(), environment };
        ask(program, &self.supervision.home_key, PATIENCE).await
    }

    /// The installed version; or the way out if the program is another one, or too old.
    pub(super) async fn version(&self) -> Result<Version, String> {
        let version = self.any_version().await?;
        if version < Version::OLDEST {
            return Err(format!(
                "Claude Code {version} is too old: Portolan needs {} or newer; update it \
                 (`npm install -g @anthropic-ai/claude-code`) or set `agents.{KIND}.command` to a newer one",
                Version::OLDEST
            ));
        }
        Ok(version)
    }

    async fn any_version(&self) -> Result<Version, String> {
        let program = self.program()?;
        let stamp = Stamp::of(&program);
        let known = {
            let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions.get(&program).filter(|(then, _)| Some(*then) == stamp).map(|(_, version)| *version)
        };
        if let Some(version) = known {
            return Ok(version);
        }
        let said = self.ask(&["--version"]).await?;
        if said.code != Some(0) {
            let code =
                said.code.map_or_else(|| "by a signal".into(), |code| format!("with exit code {code}"));
            return Err(format!("`{} --version` ended {code}: {}", program.display(), said.stderr.trim()));
        }
        let version = Version::told(&said.output).ok_or_else(|| {
            format!(
                "`{}` is not Claude Code: `--version` prints `{}`; set `agents.{KIND}.command` to the program of Claude \
                 Code",
                program.display(),
                ndjson::head(said.output.trim().as_bytes())
            )
        })?;
        if let Some(stamp) = stamp {
            let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            versions.insert(program, (stamp, version));
        }
        Ok(version)
    }

    /// The transport of a version, and why.
    pub(super) fn way(&self, version: Option<Version>) -> (Way, String) {
        choose(self.transport, version, self.dial_in.is_open())
    }

    pub(super) async fn look(&self) -> Result<Found, String> {
        let program = self.program()?;
        let version = self.version().await?;
        let (way, why) = self.way(Some(version));
        Ok(Found { program, version, way, why, login: self.login().await })
    }

    async fn login(&self) -> Login {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            logged_in: bool,
            #[serde(default)]
            auth_method: Option<String>,
        }
        let Ok(said) = self.ask(&["auth", "status", "--json"]).await else { return Login::Unknown };
        match serde_json::from_str::<Status>(&said.output) {
            Ok(Status { logged_in: true, auth_method }) => {
                Login::Yes(auth_method.unwrap_or_else(|| "method unknown".into()))
            }
            Ok(Status { logged_in: false, .. }) => Login::No,
            Err(_) => Login::Unknown,
        }
    }
}

/// By the version, unless the configuration names a transport: old versions dial in, newer versions refuse to and use
/// pipes.
fn choose(asked: Option<Way>, version: Option<Version>, can_dial_in: bool) -> (Way, String) {
    let dials_in = version.is_some_and(Version::dials_in);
    let last = Version::LAST_TO_DIAL_IN;
    match (asked, version) {
        (Some(Way::Stdio), _) => (Way::Stdio, "set in the configuration".into()),
        (Some(Way::Websocket), Some(version)) if !dials_in => (
            Way::Stdio,
            format!(
                "the configuration asks for WebSocket, but {version} refuses WebSocket; {last} was the last version \
                 that accepted it"
            ),
        ),
        (_, None) => (Way::Stdio, "every version supports stdio, and this version is unknown".into()),
        (None, Some(version)) if !dials_in => (
            Way::Stdio,
            format!("version {version} cannot use WebSocket; {last} was the last version that could"),
        ),
        (_, Some(version)) if !can_dial_in => (
            Way::Stdio,
            format!("version {version} supports WebSocket, but Portolan has no address for Claude Code"),
        ),
        (Some(Way::Websocket), _) => (Way::Websocket, "set in the configuration".into()),
        (None, Some(version)) => (Way::Websocket, format!("version {version} still supports WebSocket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_uses_the_environment_of_its_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("claude");
        let text = "case \"$1\" in\n--version) echo '2.1.325 (Claude Code)' ;;\n\
                    *) echo \"{\\\"loggedIn\\\": ${HARBOUR_LOGIN:-false}, \\\"authMethod\\\": \\\"harbour\\\"}\" ;;\nesac\n";
        std::fs::write(&script, text).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        let login = async |env: IndexMap<String, String>| {
            let command = vec!["sh".into(), script.clone().into_os_string()];
            let config = Config { command, env, ..Config::default() };
            Prober::new(&config, Arc::clone(&supervision), DialIn::new()).look().await.unwrap().login
        };
        assert_eq!(login(IndexMap::new()).await, Login::No);
        let configured = [("HARBOUR_LOGIN".to_owned(), "true".to_owned())].into();
        assert_eq!(login(configured).await, Login::Yes("harbour".into()));
    }

    #[tokio::test]
    async fn another_program_and_a_too_old_version_are_not_ready_and_name_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        for (prints, says, version) in [
            (
                "1.0.30 (Claude Code)",
                "Claude Code 1.0.30 is too old: Portolan needs 1.0.128 or newer; update it",
                Some("1.0.30"),
            ),
            (
                "sleep (GNU coreutils) 9.1",
                "is not Claude Code: `--version` prints `sleep (GNU coreutils) 9.1`",
                None,
            ),
            ("", "is not Claude Code", None),
        ] {
            let script = folder.path().join("claude");
            std::fs::write(&script, format!("echo '{prints}'\n")).unwrap();
            let command = vec!["sh".into(), script.into_os_string()];
            let claude = super::super::Claude::new(
                Config { command, ..Config::default() },
                Arc::clone(&supervision),
                DialIn::new(),
            );
            let probe = ports::Agent::probe(&claude).await;
            assert!(!probe.available && probe.message.contains(says), "{probe:?}");
            assert!(probe.message.contains("`agents.claude.command`"), "{probe:?}");
            assert_eq!(probe.version.as_deref(), version);
            assert!(probe.program.is_some(), "it is there, and cannot be used");
        }
    }

    // covers: 004-110
    #[test]
    fn the_transport_follows_from_the_version_and_the_configuration() {
        let (old, new) = (Some(Version(2, 1, 120)), Some(Version(2, 1, 121)));
        let way = |asked, version, listens| choose(asked, version, listens).0;
        assert_eq!(way(None, new, true), Way::Stdio);
        assert_eq!(way(None, old, true), Way::Websocket);
        assert_eq!(way(None, old, false), Way::Stdio);
        assert_eq!(way(None, None, true), Way::Stdio);
        assert_eq!(way(Some(Way::Websocket), old, true), Way::Websocket);
        assert_eq!(way(Some(Way::Websocket), new, true), Way::Stdio);
        assert_eq!(way(Some(Way::Websocket), old, false), Way::Stdio);
        assert_eq!(way(Some(Way::Stdio), old, true), Way::Stdio);
        assert!(choose(Some(Way::Websocket), new, true).1.contains("2.1.121 refuses WebSocket"));
    }
}
