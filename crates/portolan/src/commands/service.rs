//! service: makes systemd run the daemon for this user.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::Context;
use crate::{
    arguments::Service,
    failure::{Failure, Outcome},
    home::{HOME_VARIABLE, Home},
    output::{self, Format},
};

/// The unit's name.
const UNIT: &str = "portolan.service";

pub(super) fn run(context: &Context, verb: Service) -> Outcome {
    match verb {
        Service::Install { print, no_start } => install(context, print, no_start),
        Service::Uninstall => uninstall(context),
        Service::Status => status(context),
    }
}

fn install(context: &Context, print: bool, no_start: bool) -> Outcome {
    let home = Home::find()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("the path of this program cannot be found: {error}")))?;
    let unit = unit(&program, &home)?;
    if print {
        return match context.format() {
            Format::Json => output::json(&json!({"unit": unit})),
            Format::Plain => output::raw(unit.as_bytes()),
        };
    }
    let path = path()?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("`{}`: {error}", folder.display())))?;
    }
    crate::home::replace(&path, unit.as_bytes())
        .map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))?;
    if !no_start {
        start().map_err(|why| {
            let path = path.display();
            Failure::new(format!(
                "`{path}` is written, but systemd did not start the daemon: {why}; `portolan up --detach` runs the daemon \
                without systemd"
            ))
        })?;
    }
    match context.format() {
        Format::Json => output::json(&json!({"unit": path, "started": !no_start})),
        Format::Plain => {
            output::note(format!(
                "`{}` is written{}",
                path.display(),
                if no_start { "" } else { " and started" }
            ));
            output::note("`loginctl enable-linger` lets the daemon run while you are not logged in");
            Ok(())
        }
    }
}

fn start() -> Outcome {
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", UNIT])
}

fn uninstall(context: &Context) -> Outcome {
    let path = path()?;
    if !path.exists() {
        return Err(Failure::not_found(format!("`{}` does not exist", path.display())));
    }
    // Remove the file even if systemd does not answer.
    let stopped = systemctl(&["disable", "--now", UNIT]);
    std::fs::remove_file(&path).map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))?;
    if stopped.is_ok() {
        systemctl(&["daemon-reload"])?;
    }
    match context.format() {
        Format::Json => output::json(&json!({"removed": path})),
        Format::Plain => {
            output::note(format!("`{}` is removed", path.display()));
            Ok(())
        }
    }
}

fn status(context: &Context) -> Outcome {
    let path = path()?;
    let active = std::process::Command::new("systemctl")
        .args(["--user", "is-active", UNIT])
        .output()
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|word| !word.is_empty())
        .unwrap_or_else(|| "unknown".into());
    let installed = path.exists();
    match context.format() {
        Format::Json => output::json(&json!({"unit": path, "installed": installed, "state": active})),
        Format::Plain => {
            let installed = if installed { "installed" } else { "not installed" };
            output::line(format!("{}: {installed}, {active}", path.display()))
        }
    }
}

/// Whether this process is the daemon that systemd runs.
pub(super) fn runs(pid: u32) -> bool {
    let shown = std::process::Command::new("systemctl")
        .args(["--user", "show", "--property", "MainPID", "--value", UNIT])
        .output();
    shown.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == pid.to_string())
}

/// Lets systemd restart the daemon.
pub(super) fn restart(context: &Context) -> Outcome {
    systemctl(&["restart", UNIT])?;
    match context.format() {
        Format::Json => output::json(&json!({"restarted": UNIT})),
        Format::Plain => {
            output::note(format!("systemd restarted `{UNIT}`"));
            Ok(())
        }
    }
}

fn path() -> Outcome<PathBuf> {
    let folders =
        directories::BaseDirs::new().ok_or_else(|| Failure::new("this user has no home folder; set HOME"))?;
    Ok(folders.config_dir().join("systemd/user").join(UNIT))
}

fn systemctl(arguments: &[&str]) -> Outcome {
    let run = std::process::Command::new("systemctl")
        .arg("--user")
        .args(arguments)
        .output()
        .map_err(|error| Failure::new(format!("systemctl: {error}")))?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    Err(Failure::new(format!("systemctl {}: {}", arguments.join(" "), said.trim())))
}

/// The text of the unit. `KillMode=mixed`: systemd signals the daemon, which ends its agents in order, except those that
/// outlive it: their holders have scopes of their own. systemd kills every process that is left in the unit.
fn unit(program: &Path, home: &Home) -> Outcome<String> {
    Ok(format!(
        "[Unit]\n\
         Description=Portolan: coding agents and their live sessions\n\
         Documentation=https://github.com/portolan-dev/portolan\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={} up --no-open\n\
         Environment={}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         KillMode=mixed\n\
         TimeoutStopSec=45\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        quoted(&program.display().to_string())?,
        quoted(&format!("{HOME_VARIABLE}={}", home.path().display()))?,
    ))
}

/// A word quoted for systemd, with special characters escaped.
fn quoted(word: &str) -> Outcome<String> {
    if word.chars().any(char::is_control) {
        return Err(Failure::usage(format!(
            "`{}` holds a control character, which a systemd unit cannot hold; use another path",
            word.escape_debug()
        )));
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    Ok(format!("\"{escaped}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_quotes_its_words() {
        let folder = Path::new("/home/a b/100%");
        let text = unit(Path::new("/opt/x y/portolan"), &Home::at(folder)).unwrap();
        assert!(text.contains("ExecStart=\"/opt/x y/portolan\" up --no-open\n"), "{text}");
        assert!(text.contains("Environment=\"PORTOLAN_HOME=/home/a b/100%%\"\n"), "{text}");
        assert!(text.contains("KillMode=mixed\n"));
        assert!(quoted("a\nExecStart=evil").is_err());
    }
}
