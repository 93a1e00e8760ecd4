//! What to start for a session, and what it begins with.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{Capabilities, Millis, ports::Launch};

use super::{
    Config, Serves,
    catalogue::Known,
    desk::{Desk, House, Rooms},
    translate::{Begin, Setup},
};
use crate::{
    Environment, Supervision,
    child::{Program, environment as variables},
    driver,
    prices::Prices,
};

/// How long an agent may take to begin. The slowest took 43 s for its first start, on a busy machine.
pub(super) const START: Duration = Duration::from_mins(2);

/// A conversation usually begins at most this long after its session: the agent is started at once.
const BEGINS_WITHIN: i64 = 15_000;

const MINUTE: i64 = 60_000;

/// How long a conversation is too young to be resumed, at most.
pub(super) const YOUNG: Duration = Duration::from_secs(61);

/// The past counts as complete when the agent was quiet for this long. It comes in one go.
pub(super) const QUIET: Duration = Duration::from_millis(500);

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

/// Everything that a start depends on.
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
            too_young: self.too_young(Millis::now()),
            exchanges: self.launch.resume.as_ref().map_or(0, |point| point.exchanges),
        }
    }

    /// How long to wait until the minute is over in which the conversation of this session may have begun, if a resume
    /// in that minute would harm it.
    fn too_young(&self, now: Millis) -> Option<Duration> {
        let made = self.launch.session.made_at().filter(|_| self.known.loses_young)?;
        let Begin::Resume { own: true, .. } = self.begin() else { return None };
        let minute = |at: i64| at.div_euclid(MINUTE);
        let began = minute(made.0)..=minute(made.0.saturating_add(BEGINS_WITHIN));
        // One more second, for clocks and for files that are named a little after they are begun.
        let left = MINUTE - now.0.rem_euclid(MINUTE) + 1000;
        began.contains(&minute(now.0)).then(|| Duration::from_millis(left.unsigned_abs()))
    }

    /// What Portolan does for the agent, if the agent wants it and the configuration allows it.
    fn serves(&self) -> Serves {
        let Serves { files, terminals } = self.config.serves;
        Serves { files: files && self.known.uses_files, terminals }
    }

    /// The desk for that work.
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

/// Some agents refuse a folder that is not absolute; others resolve it against their own folder.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_core::{
        Generation, SessionId, SessionSpec,
        ports::{Launch, ResumePoint},
    };

    use super::*;
    use crate::acp::catalogue;

    /// A session that was made at 12:00:50 of some day.
    const MADE: i64 = 1_767_355_250_000;

    fn waits(kind: &str, generation: u32, resume: bool, now: i64) -> Option<Duration> {
        let point = ResumePoint {
            agent_session: "S".into(),
            fork: false,
            at_message: None,
            last_message: None,
            exchanges: 0,
        };
        let millis = u128::from(MADE.unsigned_abs());
        let launch = Launch {
            // The id's version carries the time of creation.
            session: SessionId::from_u128((millis << 80) | (7 << 76) | (2 << 62)),
            generation: Generation(generation),
            spec: Arc::new(SessionSpec::default()),
            resume: resume.then_some(point),
        };
        let (config, supervision) = (Config::default(), Supervision::new("test", vec![]));
        let known = catalogue::known(kind);
        Plan { launch: &launch, config: &config, known, supervision: &supervision }.too_young(Millis(now))
    }

    #[test]
    fn a_young_conversation_waits_for_the_end_of_its_minute() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(waits("gemini", 2, true, MADE + 5000), seconds(6));
        // The conversation may have begun in the next minute.
        assert_eq!(waits("gemini", 2, true, MADE + 12_000), seconds(59));
        assert_eq!(waits("gemini", 2, true, MADE + 70_000), None, "it is old enough");
        assert_eq!(waits("gemini", 1, false, MADE), None, "it begins again");
        assert_eq!(waits("gemini", 1, true, MADE), None, "another's, which is older");
        assert_eq!(waits("qwen", 2, true, MADE), None, "it has no such fault");
    }
}
