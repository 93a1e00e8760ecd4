//! Agents that outlive the daemon: how the daemon starts the processes that hold them, and what such a process runs.
//!
//! A holder is this program with the hidden verb `hold`, in the folder `run` of the home. Everything that it needs to
//! make its agent arrives over its socket, because settings and environment may hold secrets.

use std::{ffi::OsString, sync::Arc, time::Duration};

use portolan_agents::dial_in::DialIn;
use portolan_core::{
    SessionId,
    ports::{AgentLink, Launch},
};
use portolan_holder::{Hold, Holders, Linger, Place, RunFolder, hold};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{assembly, descriptors, dial_in, logging};
use crate::{
    config::{self, Settings},
    failure::{Failure, Outcome},
    home::{Home, identity::Identity},
    output,
    target::VERSION,
};

/// What a holder needs to make its agent.
#[derive(Debug, Serialize, Deserialize)]
struct Context {
    settings: Settings,
    /// The user's environment, as it was when the daemon started.
    environment: Vec<(OsString, OsString)>,
}

/// The holders of this home.
pub(crate) fn holders(settings: &Settings, home: &Home, home_key: &str) -> Outcome<Holders> {
    let context = Context { settings: settings.clone(), environment: std::env::vars_os().collect() };
    let minutes = u64::from(settings.agents.idle_without_daemon_minutes);
    let hours = u64::from(settings.agents.without_daemon_hours);
    Ok(Holders::new(portolan_holder::Settings {
        run: RunFolder::at(home.run()),
        home_key: home_key.to_owned(),
        version: VERSION.to_owned(),
        // This very program, even if its file was replaced by a newer one since.
        program: ["/proc/self/exe", "hold"].map(OsString::from).into(),
        context: without_nulls(serde_json::to_value(context)?),
        linger: Linger {
            idle: Duration::from_secs(minutes * 60),
            at_most: Duration::from_secs(hours * 3600),
        },
        incarnation: Identity::read(home).map(|identity| identity.incarnation).unwrap_or_default(),
    }))
}

/// The settings are read as from portolan.toml, where a value that is not set is absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

/// Holders for a program that only asks them, or ends them.
pub(crate) fn asked(home: &Home) -> Holders {
    let key = Identity::read(home).map(|identity| identity.key).unwrap_or_default();
    Holders::new(portolan_holder::Settings {
        run: RunFolder::at(home.run()),
        home_key: key,
        version: VERSION.to_owned(),
        program: Vec::new(),
        context: Value::Null,
        linger: Linger::default(),
        incarnation: String::new(),
    })
}

/// Where holders run.
pub(crate) fn place(settings: &Settings) -> Place {
    match settings.agents.place {
        config::Place::Holder => Place::Holder,
        config::Place::Tmux => Place::Tmux,
        config::Place::Auto => Place::Auto,
    }
}

/// Holds the agent of a session until it has ended. The working folder is the folder `run` of a home.
pub(crate) async fn run(session: SessionId) -> Outcome {
    let home = Home::above_working_folder();
    let identity = Identity::read(&home).ok_or_else(|| {
        Failure::usage("the daemon starts `portolan hold`; `portolan new` starts a session with its agent")
    })?;
    // The memory of this process holds the user's environment: other programs of the user must not read it.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    logging::start_on_stderr()?;
    descriptors::raise();
    // For the person who sees this in a window of tmux; otherwise nobody reads it.
    output::offer(&format!(
        "Portolan holds the agent of session {session} here; closing this window ends the agent.\n"
    ));
    let home_key = identity.key;
    let key = home_key.clone();
    let held = Hold { run: RunFolder::at("."), session, home_key, version: VERSION.to_owned() };
    let held = hold(held, move |launch, context| make(launch, context, key));
    held.await.map_err(|error| Failure::new(error.to_string()))
}

/// Starts the agent, with the settings of the daemon that launched it.
fn make(launch: Launch, context: Value, home_key: String) -> Result<AgentLink, String> {
    let Context { settings, environment } =
        serde_json::from_value(context).map_err(|error| format!("the settings cannot be read: {error}"))?;
    let supervision = assembly::supervision(&settings, home_key, environment);
    let dial_in = DialIn::new();
    // Only old versions of Claude Code dial in. Without a listener, Claude Code uses its pipes.
    let taking = dial_in.clone();
    dial_in.listens_when_needed(move || dial_in::listen_on_loopback(&taking));
    let agents = assembly::catalogue(&settings, supervision, &dial_in).map_err(|failure| failure.message)?;
    let agent = agents.into_iter().find(|agent| agent.kind() == launch.spec.agent);
    let agent = agent.ok_or_else(|| format!("there is no agent `{}`", launch.spec.agent))?;
    Ok(Arc::clone(&agent).start(launch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_reads_the_settings_that_the_daemon_sent() {
        let text = "[listen]\nhosts = [\"a\"]\n[agents]\noutlive = true\n[agents.mine]\ncommand = [\"x\"]\nenv = { A = \"b\" }\n";
        for text in ["", text] {
            let settings: Settings = toml::from_str(text).unwrap();
            let environment = vec![("PATH".into(), "/bin".into())];
            let sent = serde_json::to_value(Context {
                settings: settings.clone(),
                environment: environment.clone(),
            });
            let read: Context = serde_json::from_value(without_nulls(sent.unwrap())).unwrap();
            assert_eq!((read.settings, read.environment), (settings, environment));
        }
    }
}
