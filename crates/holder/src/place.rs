//! Where a holder runs: alone in the background, or in a window of tmux, where a person sees it and can end it.

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

use crate::{RunFolder, cgroup::Containment};

/// The tmux session with the windows of all holders.
const TMUX_SESSION: &str = "portolan";

/// How long tmux may take. It answers at once, unless its server hangs.
const TMUX: Duration = Duration::from_secs(5);

/// Variables that a holder keeps of its daemon's environment. The agent gets the user's whole environment over the
/// socket; what the holder itself has, other users' tools could show.
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

impl Place {
    /// Starts the holder of a session. `program` becomes the holder; it gets the session's id as its last argument.
    pub(crate) async fn start(
        self,
        run: &RunFolder,
        program: &[OsString],
        session: SessionId,
        name: &str,
    ) -> io::Result<Started> {
        let in_tmux = match self {
            Self::Holder => false,
            Self::Tmux => true,
            Self::Auto => tmux_runs().await,
        };
        if in_tmux {
            let window = start_in_tmux(run, program, session, name).await?;
            return Ok(Started { process: None, tmux: Some(window), remark: None });
        }
        start_alone(run, program, session)
    }
}

/// An empty environment but for what a holder keeps.
fn kept(command: &mut Command) {
    command.env_clear();
    for name in KEPT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// A command that starts this very program, even if its file was replaced since. `program` is the path by which this
/// process reaches itself; another process needs the number.
fn elsewhere(program: &[OsString]) -> Vec<OsString> {
    let mut program = program.to_vec();
    if let Some(first) = program.first_mut().filter(|first| *first == "/proc/self/exe") {
        *first = format!("/proc/{}/exe", std::process::id()).into();
    }
    program
}

fn start_alone(run: &RunFolder, program: &[OsString], session: SessionId) -> io::Result<Started> {
    let alone = |process, remark| Started { process: Some(process), tmux: None, remark };
    let Containment::Service(unit) = Containment::of_this_process() else {
        return Ok(alone(spawn(run, program, session)?, None));
    };
    if !is_installed("systemd-run") {
        let remark = format!(
            "this agent ends when the service `{unit}` stops, because `systemd-run` was not found; install \
             `systemd-run`"
        );
        return Ok(alone(spawn(run, program, session)?, Some(remark)));
    }
    let scope = ["systemd-run", "--user", "--scope", "--collect", "--quiet", "--"].map(OsString::from);
    let in_scope: Vec<OsString> = scope.into_iter().chain(elsewhere(program)).collect();
    Ok(alone(spawn(run, &in_scope, session)?, None))
}

/// What the user should know about a holder with this number: whether it stayed in the daemon's service.
pub(crate) fn remark_about(pid: u32) -> Option<String> {
    match (Containment::of_this_process(), Containment::of_process(pid)) {
        (Containment::Service(unit), Containment::Service(of_holder)) if unit == of_holder => Some(format!(
            "this agent ends when the service `{unit}` stops: the agent is a part of the service"
        )),
        _ => None,
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Starts a process that outlives this one. Its own group keeps it from the signals of this process' terminal.
#[expect(clippy::disallowed_methods, reason = "a holder is no agent: it must outlive this process")]
fn spawn(run: &RunFolder, program: &[OsString], session: SessionId) -> io::Result<Process> {
    let (first, arguments) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let log = File::options().create(true).append(true).mode(0o600).open(run.log(session))?;
    let mut command = Command::new(first);
    kept(&mut command);
    command
        .args(arguments)
        .arg(session.to_string())
        .current_dir(run.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0);
    let mut holder = command.spawn()?;
    // While this process lives, a holder that has ended must not stay in the list of processes.
    Ok(tokio::spawn(async move { holder.wait().await }))
}

async fn start_in_tmux(
    run: &RunFolder,
    program: &[OsString],
    session: SessionId,
    name: &str,
) -> io::Result<String> {
    let id = session.to_string();
    let window = window_name(name, &id);
    let mut holder = elsewhere(program);
    holder.push(id.into());
    let target = format!("={TMUX_SESSION}:");
    let into = |first: &[&str]| {
        let mut arguments: Vec<OsString> = first.iter().map(OsString::from).collect();
        arguments.extend(["-d", "-n", &window, "-c"].map(OsString::from));
        arguments.push(run.path().into());
        arguments.push("--".into());
        arguments.extend(holder.iter().cloned());
        arguments
    };
    // Several agents may start at once: the session may begin to exist between two of these.
    for _ in 0..2 {
        if tmux(into(&["new-window", "-t", &target])).await.is_ok() {
            return Ok(format!("{TMUX_SESSION}:{window}"));
        }
        if tmux(into(&["new-session", "-s", TMUX_SESSION])).await.is_ok() {
            return Ok(format!("{TMUX_SESSION}:{window}"));
        }
    }
    tmux(into(&["new-window", "-t", &target])).await?;
    Ok(format!("{TMUX_SESSION}:{window}"))
}

/// The name of a session's window. A dot and a colon have a meaning in the names of tmux.
fn window_name(name: &str, id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(24).collect();
    let id = &id[id.len().saturating_sub(6)..];
    let name = name.trim_matches('-');
    if name.is_empty() { id.to_owned() } else { format!("{name}-{id}") }
}

/// Whether a tmux server of this user runs.
async fn tmux_runs() -> bool {
    tmux(vec!["list-sessions".into()]).await.is_ok()
}

async fn tmux(arguments: Vec<OsString>) -> io::Result<()> {
    let mut command = Command::new("tmux");
    kept(&mut command);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(TMUX, command.output()).await {
        Ok(output) => output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("`tmux` was not found; install it, or set `agents.place` to `holder`")
            }
            _ => error,
        })?,
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "tmux does not answer")),
    };
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("tmux refused: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windows_name_is_the_sessions_without_characters_that_tmux_reads() {
        let id = "0190b1e2-0000-7000-8000-0123456789ab";
        assert_eq!(window_name("fix: the login.rs", id), "fix--the-login-rs-6789ab");
        assert_eq!(window_name("", id), "6789ab");
        assert_eq!(window_name("…", id), "6789ab");
        assert_eq!(window_name(&"x".repeat(60), id), format!("{}-6789ab", "x".repeat(24)));
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
