//! Agents that outlive the program: each runs in a process of its own, its holder, and the next start of the program
//! takes it over.
//!
//! A holder is the program itself, started again with the arguments of [`Outliving::program`] and the session's id. The
//! program recognizes these arguments at the beginning of its `main` and calls [`hold`].

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use portolan_agents::sweep_sparing;
use portolan_core::{
    SessionId,
    ports::{Agent, AgentLink, Launch},
};
use portolan_holder::{Hold, Holders, RunFolder};
pub use portolan_holder::{HoldError, Linger, Place};
use serde_json::Value;

/// The files of the holders, in the program's folder.
const RUN: &str = "run";

/// The key of the program's folder, in the folder of the holders' files.
const KEY: &str = "key";

/// Holders show it; whether a holder and the program understand each other depends on the version of their protocol.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How agents outlive the program.
#[derive(Clone, Debug)]
pub struct Outliving {
    /// What becomes a holder: a program and its arguments, without the session's id, which comes last.
    pub program: Vec<OsString>,
    /// Where holders run.
    pub place: Place,
    /// How long agents go on without the program.
    pub linger: Linger,
    run: RunFolder,
    key: String,
}

impl Outliving {
    /// The files of the holders are in this folder, which only one program may use at a time; the folder of the
    /// program's database is a good place. `arguments` are those by which the program recognizes that it is a holder.
    pub fn in_folder(
        folder: &Path,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> io::Result<Self> {
        let run = RunFolder::at(folder.canonicalize()?.join(RUN));
        run.make()?;
        let key = kept_key(run.path())?;
        // This very program, even if its file was replaced by a newer one since.
        let itself = OsString::from("/proc/self/exe");
        Ok(Self {
            program: [itself].into_iter().chain(arguments.into_iter().map(Into::into)).collect(),
            place: Place::Holder,
            linger: Linger::default(),
            run,
            key,
        })
    }

    /// The key for the [`Supervision`](portolan_agents::Supervision) of the program's agents. Every process of an agent
    /// carries the key, so that processes that a crash left behind are found.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same agents, but in holders; and what knows their holders.
    pub(crate) fn held(&self, agents: Vec<Arc<dyn Agent>>) -> (Vec<Arc<dyn Agent>>, Holders) {
        let holders = Holders::new(portolan_holder::Settings {
            run: self.run.clone(),
            home_key: self.key.clone(),
            version: VERSION.to_owned(),
            program: self.program.clone(),
            context: Value::Null,
            linger: self.linger,
            incarnation: self.key.clone(),
        });
        let held = |agent| Arc::new(holders.held(agent, self.place)) as Arc<dyn Agent>;
        (agents.into_iter().map(held).collect(), holders)
    }
}

/// Holds the agent of a session until the agent has ended. Call it in a process that was started as
/// [`Outliving::program`]; the session's id is the process' last argument. `start` gets the key for the agent's
/// [`Supervision`](portolan_agents::Supervision), and starts the agent that the launch names.
pub async fn hold(
    session: SessionId,
    start: impl FnOnce(&str, Launch) -> Result<AgentLink, String> + Send,
) -> Result<(), HoldError> {
    // The environment of a holder may hold secrets: other programs of the user must not read its memory.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(io::Error::from)?;
    // The working folder of a holder is the folder of the holders' files, so that the folder may be moved.
    let run = RunFolder::at(".");
    let key = fs::read_to_string(run.path().join(KEY))?;
    let hold = Hold { run, session, home_key: key.clone(), version: VERSION.to_owned() };
    portolan_holder::hold(hold, move |launch, _| start(&key, launch)).await
}

/// Ends what an earlier start of the program left behind. Agents with a living holder go on.
pub(crate) async fn sweep(holders: &Holders) {
    let (key, spared): (String, BTreeSet<SessionId>) = (holders.home_key().to_owned(), holders.living());
    let swept = tokio::task::spawn_blocking(move || sweep_sparing(&key, &spared)).await;
    for swept in swept.unwrap_or_default() {
        tracing::warn!(pid = swept.process.pid, name = swept.name, "a process of an earlier start was ended");
    }
}

/// The key of the folder: made once, then read.
fn kept_key(run: &Path) -> io::Result<String> {
    let path = run.join(KEY);
    let made = fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
    match made {
        Ok(mut file) => {
            let key = uuid::Uuid::new_v4().simple().to_string();
            file.write_all(key.as_bytes())?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_to_string(&path),
        Err(error) => Err(error),
    }
}
