//! Where a holder runs: alone in the background, or in a window of tmux, where a person sees it and can end it.
//!
//! systemd ends every process of a service when the service stops. So a daemon that is part of a service starts holders
//! outside of it, and if that is not possible, the session says so.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt as _,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use portolan_core::SessionId;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, task::JoinHandle, time::timeout};

use crate::{
    RunFolder,
    cgroup::{Containment, Service},
    tmux::{self, Server},
};

/// What starts a program in a scope of systemd, outside of any service.
const SCOPE: &[&str] = &["systemd-run", "--user", "--scope", "--collect", "--quiet", "--"];

/// How long systemd may take to make a scope. It answers at once, unless the machine is overloaded.
const SCOPING: Duration = Duration::from_secs(5);

/// Variables that a holder keeps of its daemon's environment. The agent gets the user's whole environment over the
/// socket; what the holder itself has, other users' tools could show. None of these holds a secret: in a window of
/// tmux, they stand on a command line for a moment.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TMUX_TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "RUST_BACKTRACE",
];

/// Where holders run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the background, each alone.
    #[default]
    Holder,
    /// Each in a window of the tmux session `portolan`.
    Tmux,
    /// In tmux if a tmux server of this user runs, else in the background.
    Auto,
}

/// The end of a process that this process started.
pub(crate) type Process = JoinHandle<io::Result<ExitStatus>>;

/// Where a holder was started.
#[derive(Debug)]
pub(crate) struct Started {
    /// The holder, if this process started it.
    pub(crate) process: Option<Process>,
    /// The tmux window, if it runs in one.
    pub(crate) tmux: Option<String>,
    /// What the user should know about the place.
    pub(crate) remark: Option<String>,
}

/// A holder that is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) run: &'a RunFolder,
    /// Becomes the holder; it gets the session's id as its last argument.
    pub(crate) program: &'a [OsString],
    pub(crate) session: SessionId,
    /// For the name of a window.
    pub(crate) name: &'a str,
}

/// Where this process is, and what it hands down to holders.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) containment: Containment,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Place {
    /// Starts the holder of a session. `program` becomes the holder; it gets the session's id as its last argument.
    pub(crate) async fn start(
        self,
        run: &RunFolder,
        program: &[OsString],
        session: SessionId,
        name: &str,
    ) -> io::Result<Started> {
        self.start_in(&Surroundings::here(), Wanted { run, program, session, name }).await
    }

    async fn start_in(self, here: &Surroundings, wanted: Wanted<'_>) -> io::Result<Started> {
        match self {
            Self::Holder => here.start_alone(wanted).await,
            Self::Tmux => {
                if let Some(server) = tmux::usable(here).await? {
                    return server.start(here, wanted).await;
                }
                let why = "agents of Portolan started every tmux server that runs here, and their end would end this \
                           agent too";
                Ok(here.start_alone(wanted).await?.remarking(why))
            }
            Self::Auto => match Self::try_users_tmux(here, wanted).await {
                Ok(Some(started)) => Ok(started),
                Ok(None) => here.start_alone(wanted).await,
                Err(error) => Ok(here.start_alone(wanted).await?.remarking(&error.to_string())),
            },
        }
    }

    /// In the user's tmux server; `None` if the user has none.
    async fn try_users_tmux(here: &Surroundings, wanted: Wanted<'_>) -> io::Result<Option<Started>> {
        if !tmux::runs_for_the_user(here).await? {
            return Ok(None);
        }
        Server::Users.start(here, wanted).await.map(Some)
    }
}

impl Started {
    /// Says why a holder is not in tmux.
    fn remarking(self, why: &str) -> Self {
        let why = format!("this agent runs in the background and not in a window of tmux: {why}");
        let remark = Some(match self.remark {
            Some(other) => format!("{why}; {other}"),
            None => why,
        });
        Self { remark, ..self }
    }
}

impl Surroundings {
    /// Those of this process.
    fn here() -> Self {
        let kept = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        Self { containment: Containment::of_this_process(), environment: kept.collect() }
    }

    /// A command that hands down only what a holder keeps.
    pub(crate) fn command(&self, words: &[OsString]) -> io::Result<Command> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    /// The words that start a program outside of this process' service: none if it is in no service. Or the service
    /// that cannot be left, and why.
    pub(crate) async fn outside(&self) -> Result<Vec<OsString>, (&Service, String)> {
        let Containment::Service(service) = &self.containment else { return Ok(Vec::new()) };
        let scope: Vec<OsString> = SCOPE.iter().map(OsString::from).collect();
        match self.try_scope(&scope).await {
            Ok(()) => Ok(scope),
            Err(why) => Err((service, why)),
        }
    }

    /// systemd may be installed, but not serve this user: a program that does nothing is tried first, because a holder
    /// that does not start would cost a session its agent.
    async fn try_scope(&self, scope: &[OsString]) -> Result<(), String> {
        let words: Vec<OsString> = scope.iter().cloned().chain([OsString::from("true")]).collect();
        let mut command = self.command(&words).map_err(|error| error.to_string())?;
        let output = match timeout(SCOPING, command.kill_on_drop(true).output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err("`systemd-run` was not found; install it".into());
            }
            Ok(Err(error)) => return Err(format!("`systemd-run` cannot be run: {error}")),
            Err(_) => return Err("`systemd-run` does not answer".into()),
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`systemd-run --user --scope` failed ({}): {}", output.status, said.trim()))
    }

    async fn start_alone(&self, wanted: Wanted<'_>) -> io::Result<Started> {
        let (words, remark) = match self.outside().await {
            Ok(nothing) if nothing.is_empty() => (wanted.program.to_vec(), None),
            Ok(scope) => (scope.into_iter().chain(elsewhere(wanted.program)).collect(), None),
            Err((service, why)) => (wanted.program.to_vec(), Some(ends_with(service, &why))),
        };
        Ok(Started { process: Some(self.spawn(wanted, &words)?), tmux: None, remark })
    }

    /// Starts a process that outlives this one. Its own group keeps it from the signals of this process' terminal.
    #[expect(clippy::disallowed_methods, reason = "a holder is no agent: it must outlive this process")]
    fn spawn(&self, wanted: Wanted<'_>, words: &[OsString]) -> io::Result<Process> {
        let log = open_log(wanted)?;
        let mut command = self.command(words)?;
        command
            .arg(wanted.session.to_string())
            .current_dir(wanted.run.path())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        let mut holder = command.spawn()?;
        // While this process lives, a holder that has ended must not stay in the list of processes.
        Ok(tokio::spawn(async move { holder.wait().await }))
    }
}

/// The file of what the holder writes about itself.
pub(crate) fn open_log(wanted: Wanted<'_>) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(wanted.run.log(wanted.session))
}

/// A command that starts this very program, even if its file was replaced since. `program` is the path by which this
/// process reaches itself; another process needs the number.
pub(crate) fn elsewhere(program: &[OsString]) -> Vec<OsString> {
    let mut program = program.to_vec();
    if let Some(first) = program.first_mut().filter(|first| *first == "/proc/self/exe") {
        *first = format!("/proc/{}/exe", std::process::id()).into();
    }
    program
}

/// What the user should know about a holder with this number: whether it stayed in the daemon's service.
pub(crate) fn remark_about(pid: u32) -> Option<String> {
    remark_between(&Containment::of_this_process(), &Containment::of_process(pid))
}

fn remark_between(daemon: &Containment, holder: &Containment) -> Option<String> {
    match (daemon, holder) {
        (Containment::Service(service), Containment::Service(of_holder)) if service == of_holder => {
            Some(ends_with(service, "the agent is a part of the service"))
        }
        _ => None,
    }
}

fn ends_with(service: &Service, why: &str) -> String {
    format!("this agent ends when the service `{}` stops: {why}", service.unit)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;
    use crate::cgroup::Manager;

    const UNIT: &str = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/portolan.service\n";
    const SCOPE_OF_ITS_OWN: &str =
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1f.scope\n";

    pub(crate) fn in_service(path: &str) -> Surroundings {
        let service = Service { unit: "portolan.service".into(), manager: Manager::User };
        Surroundings {
            containment: Containment::Service(service),
            environment: vec![("PATH".into(), path.into())],
        }
    }

    /// A program in this folder.
    pub(crate) fn install(folder: &Path, name: &str, script: &str) {
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What a holder wrote, which writes its arguments; what the user learns; and what `systemd-run` wrote.
    async fn started_beside(systemd_run: Option<&str>) -> (String, Option<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        if let Some(script) = systemd_run {
            install(folder.path(), "systemd-run", script);
        }
        let run = RunFolder::at(folder.path());
        let session = SessionId::from_u128(7);
        let program = ["/bin/sh", "-c", "echo \"$0 $1\" >told"].map(OsString::from);
        let program: Vec<OsString> = program.into_iter().chain(["hold".into()]).collect();
        let wanted = Wanted { run: &run, program: &program, session, name: "" };
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        // The machine of these tests may have a `systemd-run` of its own.
        let path = if systemd_run.is_some() { path } else { folder.path().display().to_string() };
        let started = in_service(&path).start_alone(wanted).await.unwrap();
        assert_eq!(started.tmux, None);
        assert!(started.process.unwrap().await.unwrap().unwrap().success());
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let told = read("told");
        assert_eq!(told, format!("hold {session}\n"));
        (told, started.remark, read("systemd"))
    }

    #[tokio::test]
    async fn a_holder_leaves_its_daemons_service_by_a_scope_of_its_own() {
        let record = "echo \"$1 $2 $3 $4 $5\" >>\"$(dirname \"$0\")/systemd\"; shift 5; exec \"$@\"";
        let (_, remark, systemd) = started_beside(Some(record)).await;
        let asked = "--user --scope --collect --quiet --\n";
        assert_eq!((remark, systemd), (None, asked.repeat(2)), "tried first, then used");
    }

    #[tokio::test]
    async fn an_agent_starts_and_the_session_says_so_if_systemd_makes_no_scope() {
        for (systemd_run, why) in [
            (None, "`systemd-run` was not found; install it"),
            (
                Some("echo 'Failed to connect to bus: No medium found' >&2; exit 1"),
                "`systemd-run --user --scope` failed (exit status: 1): Failed to connect to bus: No medium found",
            ),
        ] {
            let (_, remark, _) = started_beside(systemd_run).await;
            let expected = format!("this agent ends when the service `portolan.service` stops: {why}");
            assert_eq!(remark, Some(expected));
        }
    }

    // No service manager runs where these tests run: the files are written down from machines that have one.
    #[test]
    fn the_session_says_so_if_its_holder_stayed_in_the_daemons_service() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            Containment::of(&file)
        };
        let (daemon, scope) = (of("daemon", UNIT), of("scope", SCOPE_OF_ITS_OWN));
        let other = of("other", &UNIT.replace("portolan.service", "tmux.service"));
        let expected =
            "this agent ends when the service `portolan.service` stops: the agent is a part of the service";
        assert_eq!(remark_between(&daemon, &of("holder", UNIT)).as_deref(), Some(expected));
        assert_eq!(remark_between(&daemon, &scope), None);
        assert_eq!(remark_between(&daemon, &other), None);
        assert_eq!(remark_between(&scope, &scope), None);
    }

    #[tokio::test]
    async fn auto_takes_the_background_without_tmux_and_says_so_if_tmux_refuses() {
        for (script, remark) in [
            ("echo 'no server running on /tmp/x' >&2; exit 1", None),
            // It answers, and opens no window.
            (
                "[ \"$1\" = display-message ] && exec echo $$; echo 'no space for new pane' >&2; exit 1",
                Some(
                    "this agent runs in the background and not in a window of tmux: tmux refused: no space for new pane",
                ),
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            install(folder.path(), "tmux", script);
            let run = RunFolder::at(folder.path());
            let program = ["/bin/true".into()];
            let wanted =
                Wanted { run: &run, program: &program, session: SessionId::from_u128(7), name: "mast" };
            let path = format!("{}:/usr/bin:/bin", folder.path().display());
            let here = Surroundings {
                containment: Containment::Free,
                environment: vec![("PATH".into(), path.into())],
            };
            let started = Place::Auto.start_in(&here, wanted).await.unwrap();
            assert!(started.process.is_some());
            assert_eq!((started.tmux, started.remark.as_deref()), (None, remark));
        }
    }

    #[test]
    fn another_process_starts_this_program_by_its_number() {
        let number = format!("/proc/{}/exe", std::process::id());
        let asked = ["/proc/self/exe", "hold"].map(OsString::from);
        assert_eq!(elsewhere(&asked), [number, "hold".into()].map(OsString::from));
        let other = ["/usr/bin/portolan", "hold"].map(OsString::from);
        assert_eq!(elsewhere(&other), other);
    }
}
