//! What to start for a session, and what it begins with.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{Capabilities, ports::Launch};

use super::{
    Config, Serves,
    catalogue::Known,
    desk::{Desk, House, Rooms},
    translate::{Begin, Setup},
};
use crate::{
    Environment, Supervision,
    child::{Program, environment as variables},
    claude::prices::Prices,
    driver,
};

/// How long an agent may take to begin. The slowest took 43 s for its first start, on a busy machine.
pub(super) const START: Duration = Duration::from_mins(2);

/// How long no more of the past must have been told before it counts as told. It comes in one go.
const QUIET: Duration = Duration::from_millis(500);

/// The program and its arguments.
pub(super) fn command(config: &Config, known: &Known) -> Vec<OsString> {
    if config.command.is_empty() {
        return known.command.iter().map(OsString::from).collect();
    }
    config.command.clone()
}

/// The user's environment, plus what the session asks for, plus what the agent needs.
pub(super) fn environment(
    supervision: &Supervision,
    asked: &IndexMap<String, String>,
    known: &Known,
) -> Result<Environment, String> {
    let mut environment =
        variables::environment(&supervision.environment, asked).map_err(|refused| refused.to_string())?;
    for (name, value) in known.env {
        if !environment.variables.iter().any(|(known, _)| known == name) {
            environment.variables.push((name.into(), value.into()));
        }
    }
    environment.variables.sort();
    Ok(environment)
}

/// Everything a start follows from.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) launch: &'a Launch,
    pub(super) config: &'a Config,
    pub(super) known: &'static Known,
    pub(super) supervision: &'a Supervision,
}

impl Plan<'_> {
    /// The program to start.
    pub(super) fn program(&self, command: Vec<OsString>) -> Result<Program, String> {
        let spec = &self.launch.spec;
        let environment = environment(self.supervision, &spec.env, self.known)?;
        Ok(Program { agent: self.config.kind.clone(), command, folder: spec.cwd.clone(), environment })
    }

    /// What the conversation begins with.
    pub(super) fn setup(&self, title: &str, capabilities: Capabilities, notices: Vec<String>) -> Setup {
        let spec = &self.launch.spec;
        Setup {
            agent: self.config.kind.clone(),
            title: title.to_owned(),
            known: self.known,
            generation: self.launch.generation,
            begin: self.begin(),
            folder: absolute(&spec.cwd),
            extra: spec.extra_dirs.iter().map(|folder| absolute(folder)).collect(),
            servers: spec.mcp_servers.iter().map(|(name, server)| (name.clone(), server.clone())).collect(),
            model: spec.model.clone(),
            mode: spec.mode.clone(),
            login: self.config.login.clone(),
            serves: self.serves(),
            capabilities,
            notices,
            prices: Prices::new(self.config.prices.clone()),
            patience: self.supervision.answer,
            start_patience: self.supervision.ready.max(START),
            quiet: QUIET,
        }
    }

    /// What we do for it, where it wants that and the configuration lets us.
    fn serves(&self) -> Serves {
        let Serves { files, terminals } = self.config.serves;
        Serves { files: files && self.known.uses_files, terminals }
    }

    /// Where that is done.
    pub(super) fn desk(&self, program: &Program, setup: &Setup) -> Box<dyn driver::Desk> {
        Box::new(Desk::new(House {
            agent: self.config.kind.clone(),
            session: self.launch.session,
            home_key: self.supervision.home_key.clone(),
            environment: program.environment.clone(),
            rooms: Rooms::new(&setup.folder, &setup.extra),
            serves: setup.serves,
        }))
    }

    fn begin(&self) -> Begin {
        match &self.launch.resume {
            None => Begin::New,
            Some(point) if point.fork => Begin::Fork { session: point.agent_session.clone() },
            Some(point) => {
                Begin::Resume { session: point.agent_session.clone(), own: self.launch.generation.0 > 1 }
            }
        }
    }
}

/// Some agents refuse a folder that is not absolute, others take it for one of theirs.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
