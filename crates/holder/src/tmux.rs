//! Windows of tmux for holders.
//!
//! A tmux server that an agent started is not used: it carries the agent's marker, so it ends with that agent, and every
//! holder in it counts as an agent. A window's program otherwise inherits the environment of the server; a holder gets
//! only what it keeps.

use std::{ffi::OsString, io, time::Duration};

use tokio::time::timeout;

use crate::place::{Started, Surroundings, Wanted, elsewhere, open_log};

/// The tmux session with the windows of all holders.
const SESSION: &str = "portolan";

/// How long tmux may take. It answers at once, unless its server hangs.
const ANSWER: Duration = Duration::from_secs(5);

/// Runs a program whose errors go to the file named first.
const WITH_LOG: &str = "log=$1; shift; exec \"$@\" 2>>\"$log\"";

/// A tmux server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The one that the user's own `tmux` reaches.
    Users,
    /// The server `portolan`, only for holders: `tmux -L portolan`.
    Own,
}

/// The server for holders, which may not run yet. `None` if agents started both.
pub(crate) async fn usable(here: &Surroundings) -> io::Result<Option<Server>> {
    for server in [Server::Users, Server::Own] {
        if !server.process(here).await?.is_some_and(portolan_agents::is_marked) {
            return Ok(Some(server));
        }
    }
    Ok(None)
}

/// Whether the user's server runs, and is not an agent's.
pub(crate) async fn runs_for_the_user(here: &Surroundings) -> io::Result<bool> {
    Ok(Server::Users.process(here).await?.is_some_and(|server| !portolan_agents::is_marked(server)))
}

impl Server {
    /// The words of a command to this server.
    fn words(self, command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let server: &[&str] = match self {
            Self::Users => &["tmux"],
            Self::Own => &["tmux", "-L", SESSION],
        };
        server.iter().map(OsString::from).chain(command).collect()
    }

    /// The server's process, if the server runs; an error if it does not answer.
    async fn process(self, here: &Surroundings) -> io::Result<Option<u32>> {
        match tell(here, &self.words(["display-message", "-p", "#{pid}"].map(OsString::from))).await {
            Ok(said) => Ok(said.trim().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
            // No server, or no tmux: whoever opens a window learns that.
            Err(_) => Ok(None),
        }
    }

    /// Starts a holder in a window of its own.
    pub(crate) async fn start(self, here: &Surroundings, wanted: Wanted<'_>) -> io::Result<Started> {
        let id = wanted.session.to_string();
        let window = window_name(wanted.name, &id);
        open_log(wanted)?;
        let mut holder: Vec<OsString> = ["/bin/sh", "-c", WITH_LOG, "sh"].map(OsString::from).into();
        holder.push(wanted.run.log(wanted.session).into());
        holder.extend(["/usr/bin/env", "-i"].map(OsString::from));
        for (name, value) in &here.environment {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            holder.push(variable);
        }
        holder.extend(elsewhere(wanted.program));
        holder.push(id.into());
        let target = format!("={SESSION}:");
        let into = |first: &[&str]| {
            let named = ["-d", "-n", &window, "-c"].map(OsString::from);
            let at = [wanted.run.path().into(), OsString::from("--")];
            let first = first.iter().map(OsString::from);
            self.words(first.chain(named).chain(at).chain(holder.iter().cloned()))
        };
        let existing = into(&["new-window", "-t", &target]);
        // The first session of a server starts the server, which must not become a part of the daemon's service. If
        // that is not possible, a look at the holder's control group finds it.
        let outside = here.outside().await.unwrap_or_default();
        let new: Vec<OsString> = outside.into_iter().chain(into(&["new-session", "-s", SESSION])).collect();
        // Several agents may start at once: the session may begin to exist between two of these.
        let mut opened = Err(io::ErrorKind::Other.into());
        for words in [&existing, &new, &existing, &new, &existing] {
            opened = tell(here, words).await;
            if opened.is_ok() {
                break;
            }
        }
        opened?;
        let remark = (self == Self::Own).then(|| {
            format!(
                "the window of this agent is in a tmux server of its own (`tmux -L {SESSION} attach`), because an agent \
                 of Portolan started the tmux server that runs here"
            )
        });
        Ok(Started { process: None, tmux: Some(format!("{SESSION}:{window}")), remark })
    }
}

/// Runs a command of tmux, and returns what it printed.
async fn tell(here: &Surroundings, words: &[OsString]) -> io::Result<String> {
    let mut command = here.command(words)?;
    let output = match timeout(ANSWER, command.kill_on_drop(true).output()).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(io::Error::other(
                "`tmux` was not found; install it, or set `agents.place` to `holder`",
            ));
        }
        Ok(output) => output?,
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "tmux does not answer")),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("tmux refused: {why}")))
}

/// The name of a session's window. A dot and a colon have a meaning in the names of tmux.
fn window_name(name: &str, id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(24).collect();
    let id = &id[id.len().saturating_sub(6)..];
    let name = name.trim_matches('-');
    if name.is_empty() { id.to_owned() } else { format!("{name}-{id}") }
}

#[cfg(test)]
mod tests {
    use portolan_core::SessionId;

    use super::*;
    use crate::{
        RunFolder,
        place::tests::{in_service, install},
    };

    #[tokio::test]
    async fn a_tmux_server_that_a_service_starts_is_outside_of_the_service_and_a_window_inherits_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // No session exists until one is made.
        install(folder.path(), "tmux", "echo \"tmux $*\" >>\"${0%/*}/ran\"; [ \"$1\" = new-session ]");
        install(folder.path(), "systemd-run", "echo \"scope $6\" >>\"${0%/*}/ran\"; shift 5; exec \"$@\"");
        let run = RunFolder::at(folder.path());
        let session = SessionId::from_u128(7);
        let program = ["portolan", "hold"].map(OsString::from);
        let wanted = Wanted { run: &run, program: &program, session, name: "mast" };
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let started = Server::Users.start(&in_service(&path), wanted).await.unwrap();
        assert_eq!((started.tmux.as_deref(), started.remark), (Some("portolan:mast-000007"), None));
        let (at, log) = (folder.path().display(), run.log(session));
        let window = format!(
            "-d -n mast-000007 -c {at} -- /bin/sh -c {WITH_LOG} sh {} /usr/bin/env -i PATH={path} portolan hold {session}",
            log.display()
        );
        let expected = format!(
            "scope true\ntmux new-window -t =portolan: {window}\nscope tmux\ntmux new-session -s portolan {window}\n"
        );
        assert_eq!(std::fs::read_to_string(folder.path().join("ran")).unwrap(), expected);
    }

    #[test]
    fn a_windows_name_is_the_sessions_without_characters_that_tmux_reads() {
        let id = "0190b1e2-0000-7000-8000-0123456789ab";
        assert_eq!(window_name("fix: the login.rs", id), "fix--the-login-rs-6789ab");
        assert_eq!(window_name("", id), "6789ab");
        assert_eq!(window_name("…", id), "6789ab");
        assert_eq!(window_name(&"x".repeat(60), id), format!("{}-6789ab", "x".repeat(24)));
    }
}
