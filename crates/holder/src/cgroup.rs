//! Control groups: whether this process belongs to a service, whose end would end every process in it.
//!
//! `/proc/self/cgroup` decides, not an environment variable: a variable is inherited by processes that left the
//! service long ago. A holder that a service's daemon starts gets a scope of its own, and looks where it is.

use std::{fs, path::Path};

/// Whether a process belongs to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Containment {
    /// No service: the process ends for its own reasons only.
    Free,
    /// This service: when it stops, the service manager ends all its processes.
    Service(Service),
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of its unit, such as `portolan.service`.
    pub unit: String,
    /// Who runs it.
    pub manager: Manager,
}

/// A service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The manager of the machine, for the services of the administrator.
    System,
    /// The manager of one user.
    User,
}

impl Containment {
    /// Of this process.
    pub fn of_this_process() -> Self {
        Self::of(Path::new("/proc/self/cgroup"))
    }

    /// Of another process.
    pub fn of_process(pid: u32) -> Self {
        Self::of(Path::new(&format!("/proc/{pid}/cgroup")))
    }

    pub(crate) fn of(file: &Path) -> Self {
        // A machine without control groups has no services that would end others.
        fs::read_to_string(file).map_or(Self::Free, |text| Self::parse(&text))
    }

    /// Reads the lines `ID:CONTROLLERS:PATH`. The path of version 2 has no controllers; in version 1 the service manager
    /// has a hierarchy of its own.
    fn parse(text: &str) -> Self {
        let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let unified = lines().find(|(controllers, path)| controllers.is_empty() && *path != "/");
        let managers = || lines().find(|(controllers, _)| *controllers == "name=systemd");
        let Some((_, path)) = unified.or_else(managers) else { return Self::Free };
        // The innermost unit counts. The manager of a user is a service too, but its scopes and services are inside.
        let mut units = path.rsplit('/').filter_map(|part| Some((part, part.rsplit_once('.')?.1)));
        match units.find(|(_, kind)| ["service", "scope"].contains(kind)) {
            Some((unit, "service")) => {
                let is_users = units.any(|(outer, kind)| kind == "service" && outer.starts_with("user@"));
                let manager = if is_users { Manager::User } else { Manager::System };
                Self::Service(Service { unit: unit.to_owned(), manager })
            }
            Some(_) | None => Self::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(unit: &str) -> Containment {
        Containment::Service(Service { unit: unit.into(), manager: Manager::System })
    }

    fn users(unit: &str) -> Containment {
        Containment::Service(Service { unit: unit.into(), manager: Manager::User })
    }

    // No service manager runs where these tests run: the files are written down from machines that have one.
    #[test]
    fn the_innermost_unit_of_the_control_group_decides() {
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let cases = [
            ("a user unit", format!("0::{user}/app.slice/portolan.service\n"), users("portolan.service")),
            ("a system unit", "0::/system.slice/portolan.service\n".into(), service("portolan.service")),
            ("a login session", "0::/user.slice/user-1000.slice/session-3.scope\n".into(), Containment::Free),
            (
                "a terminal of a desktop",
                format!("0::{user}/app.slice/app-gnome-org.gnome.Terminal.slice/vte-spawn-1.scope\n"),
                Containment::Free,
            ),
            ("a scope of a holder", format!("0::{user}/app.slice/run-r1f.scope\n"), Containment::Free),
            (
                "a group below the unit",
                "0::/system.slice/portolan.service/agents\n".into(),
                service("portolan.service"),
            ),
            ("a container", "0::/\n".into(), Containment::Free),
            ("no control groups", String::new(), Containment::Free),
            ("garbage", "0:\n::\nx".into(), Containment::Free),
            (
                "version 1",
                "12:pids:/user.slice\n1:name=systemd:/system.slice/portolan.service\n0::/\n".into(),
                service("portolan.service"),
            ),
            (
                "both versions",
                "1:name=systemd:/user.slice/session-1.scope\n0::/system.slice/cron.service\n".into(),
                service("cron.service"),
            ),
        ];
        for (name, text, expected) in cases {
            assert_eq!(Containment::parse(&text), expected, "{name}");
        }
    }

    #[test]
    fn a_process_that_has_ended_belongs_to_no_service() {
        assert_eq!(Containment::of(Path::new("/proc/0/cgroup")), Containment::Free);
    }
}
