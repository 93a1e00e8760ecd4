//! service: makes systemd run the daemon for this user.

use std::path::{Path, PathBuf};

use portolan_holder::{self as holder, Containment, Manager};
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

/// The service whose main process this daemon is. A daemon that a terminal or a job of a service started is not.
pub(super) fn that_runs(pid: u32) -> Option<holder::Service> {
    main_of(pid, Containment::of_process(pid), main_process)
}

fn main_of(
    pid: u32,
    containment: Containment,
    main_process: impl Fn(&holder::Service) -> Option<u32>,
) -> Option<holder::Service> {
    match containment {
        Containment::Service(service) if main_process(&service) == Some(pid) => Some(service),
        Containment::Service(_) | Containment::Free => None,
    }
}

/// The main process of a service, as systemd knows it.
fn main_process(service: &holder::Service) -> Option<u32> {
    let mut command = std::process::Command::new("systemctl");
    if service.manager == Manager::User {
        command.arg("--user");
    }
    let shown = command.args(["show", "--property", "MainPID", "--value", &service.unit]).output().ok()?;
    String::from_utf8_lossy(&shown.stdout).trim().parse().ok()
}

/// Lets systemd restart the daemon. Only an administrator can restart a service of the machine.
pub(super) fn restart(context: &Context, service: &holder::Service) -> Outcome {
    let unit = &service.unit;
    if service.manager == Manager::System {
        return Err(Failure::new(format!(
            "systemd runs the daemon as the system service `{unit}`, so `portolan restart` cannot restart the daemon; run \
             `sudo systemctl restart {unit}`; agents whose processes are outside of the service continue"
        )));
    }
    systemctl(&["restart", unit])?;
    match context.format() {
        Format::Json => output::json(&json!({"restarted": unit})),
        Format::Plain => {
            output::note(format!("systemd restarted `{unit}`"));
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
    use clap::Parser as _;

    use super::*;

    #[test]
    fn only_the_main_process_of_a_service_is_left_to_systemd() {
        let service = holder::Service { unit: "portolan.service".into(), manager: Manager::User };
        let within = || Containment::Service(service.clone());
        assert_eq!(main_of(7, within(), |_| Some(7)), Some(service.clone()));
        assert_eq!(main_of(7, within(), |_| Some(8)), None, "a job of another service started it");
        assert_eq!(main_of(7, within(), |_| None), None, "systemd does not answer");
        assert_eq!(main_of(7, Containment::Free, |_| Some(7)), None);
    }

    #[test]
    fn a_service_of_the_machine_is_not_restarted_by_hand_and_the_way_out_is_said() {
        let service = holder::Service { unit: "harbour.service".into(), manager: Manager::System };
        let arguments = crate::arguments::Arguments::try_parse_from(["portolan", "restart"]).unwrap();
        let context = Context { global: arguments.global };
        let failure = restart(&context, &service).unwrap_err();
        assert!(failure.message.contains("`sudo systemctl restart harbour.service`"), "{failure}");
    }

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
