//! Bench: the environment of one scenario. A scripted model, an empty home, an empty folder, a registry over a store in
//! memory, and the agent under test. Everything in it is gone when it closes, or the scenario fails.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use portolan_core::{
    Capabilities, CommandId, Principal, Role, SessionId, SessionSpec, TokenId,
    access::Bypass,
    event::Content,
    ports::{Agent, Clock, Store},
    registry::Registry,
    session::machine::Policy,
};
use portolan_scripted::{ClosedPort, Recorded, Script, Server, text};
use portolan_store::MemoryStore;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{Fault, Model, Place, Profile, Subject, session::Session, transcript::Transcript};

/// How long everything may take to end after the scenario: the stop ladder of an agent and a little more.
const CLOSING: Duration = Duration::from_secs(40);

/// How long an agent may take to write a message to disk.
const SAVING: Duration = Duration::from_secs(90);

/// How often to look for an expected file.
pub(crate) const LOOK: Duration = Duration::from_millis(25);

/// The environment of one scenario.
#[derive(Debug)]
pub struct Bench {
    pub(crate) subject: Arc<Subject>,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) model: Server,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) transcript: Transcript,
    registry: OnceCell<Registry>,
    place: Place,
    folder: PathBuf,
    /// Holds the port at which no model listens, if the scenario needs that.
    _nowhere: Option<ClosedPort>,
    folders: TempDir,
}

impl Bench {
    pub(crate) async fn set_up(
        subject: Arc<Subject>,
        model_at: Model,
        transcript: Transcript,
    ) -> Result<Self, Fault> {
        let folders = tempfile::Builder::new().prefix("portolan-contract-").tempdir()?;
        // By its real path: agents report theirs, and the two are compared.
        let top = folders.path().canonicalize()?;
        let (home, folder) = (top.join("home"), top.join("work"));
        std::fs::create_dir(&home)?;
        std::fs::create_dir(&folder)?;
        let started = Server::start(Script::new()).await;
        let model = started.map_err(|error| Fault::wrong(format!("the scripted model: {error}")))?;
        let nowhere = match model_at {
            Model::Scripted => None,
            Model::Unreachable => Some(ClosedPort::take()?),
        };
        let base_url = nowhere.as_ref().map_or_else(|| model.base_url(), ClosedPort::base_url);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment = (subject.profile.environment)(&home, &base_url, path);
        let key = format!("contract-{}", uuid::Uuid::new_v4().simple());
        let place = Place { key, home, base_url, environment };
        let agent = (subject.make)(&place).map_err(Fault::Wrong)?;
        let store = Arc::new(MemoryStore::new());
        let registry = OnceCell::new();
        Ok(Self {
            subject,
            agent,
            model,
            store,
            transcript,
            registry,
            place,
            folder,
            _nowhere: nowhere,
            folders,
        })
    }

    /// The agent's names for things.
    pub fn profile(&self) -> &Profile {
        &self.subject.profile
    }

    /// The capabilities of the agent.
    pub fn capabilities(&self) -> Capabilities {
        self.agent.capabilities()
    }

    /// The key that marks its processes.
    pub(crate) fn key(&self) -> &str {
        &self.place.key
    }

    /// The folder that sessions work in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The model plays this script from now on. Requests on the side, such as for a title, are answered as well.
    pub fn play(&self, script: Script) {
        self.model.play(script.asides(text("scripted")));
    }

    /// The requests to the model so far.
    pub fn asked(&self) -> Vec<Arc<Recorded>> {
        self.model.requests()
    }

    /// The registry; opened at the first call.
    pub async fn registry(&self) -> Result<Registry, Fault> {
        let open = || open(Arc::clone(&self.store), Arc::clone(&self.agent));
        Ok(self.registry.get_or_try_init(open).await?.clone())
    }

    /// The spec of a plain session.
    pub fn spec(&self) -> SessionSpec {
        SessionSpec { agent: self.profile().agent.into(), cwd: self.folder.clone(), ..SessionSpec::default() }
    }

    /// A plain session.
    pub async fn session(&self) -> Result<Session, Fault> {
        self.session_from(self.spec()).await
    }

    /// A session with a first prompt.
    pub async fn session_saying(&self, prompt: &str) -> Result<Session, Fault> {
        self.session_from(SessionSpec { prompt: vec![Content::text(prompt)], ..self.spec() }).await
    }

    /// A session made from `spec`.
    pub async fn session_from(&self, spec: SessionSpec) -> Result<Session, Fault> {
        let registry = self.registry().await?;
        let summary = registry.create(&owner(), CommandId::random(), spec).await?;
        Session::join(registry, summary.session, self.transcript.clone()).await
    }

    /// A session that exists already.
    pub async fn session_of(&self, session: SessionId) -> Result<Session, Fault> {
        Session::join(self.registry().await?, session, self.transcript.clone()).await
    }

    /// Whether such a file is in the session's folder.
    pub fn has_file(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Waits for a file in the session's folder.
    pub async fn has_file_within(&self, name: &str, patience: Duration) -> bool {
        let look = async {
            while !self.has_file(name) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(patience, look).await.is_ok()
    }

    /// Waits until the agent has this text of a conversation on disk.
    pub async fn saved(&self, agent_session: &str, words: &str) -> Result<(), Fault> {
        let saved = || (self.profile().saved)(&self.place.home, agent_session, words);
        let look = async {
            while !saved() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let looked = tokio::time::timeout(SAVING, look).await;
        looked.map_err(|_| {
            Fault::wrong(format!("the conversation was not on disk after {} s", SAVING.as_secs()))
        })
    }

    /// Ends everything. A fault names what did not end, or was left behind.
    pub(crate) async fn close(self) -> Result<(), Fault> {
        let Self { subject, agent, model, transcript, registry, place, folders, .. } = self;
        for request in model.requests() {
            let asked = request.asked.as_ref().map_or_else(String::new, |asked| {
                let results: Vec<&str> = asked.results.iter().map(|result| result.text.as_str()).collect();
                format!("model {}, prompt {:?}, results {results:?}", asked.model, asked.prompt())
            });
            let line =
                format!("model < {} {} {asked} > {:?}", request.method, request.path, request.answered);
            transcript.add(&line);
        }
        let mut stuck = Vec::new();
        if let Some(registry) = registry.into_inner() {
            match tokio::time::timeout(CLOSING, registry.shutdown(Duration::ZERO)).await {
                Ok(names) => stuck.extend(names),
                Err(_) => stuck.push("the registry".to_owned()),
            }
        }
        drop(agent);
        if tokio::time::timeout(CLOSING, model.shutdown()).await.is_err() {
            stuck.push("the scripted model".to_owned());
        }
        let (leftovers, key) = (subject.leftovers, place.key);
        let left = tokio::task::spawn_blocking(move || {
            let left = leftovers(&key);
            // Files that cannot be removed stay in the system's temporary folder; they are not a fault of the agent.
            drop(folders);
            left
        });
        let left = left.await.map_err(|error| Fault::wrong(format!("looking for leftovers: {error}")))?;
        if !stuck.is_empty() {
            return Err(Fault::wrong(format!("did not end: {}", stuck.join(", "))));
        }
        if !left.is_empty() {
            return Err(Fault::wrong(format!("left processes behind: {}", left.join(", "))));
        }
        Ok(())
    }
}

/// A registry over `store` with only this agent.
pub(crate) async fn open(
    store: Arc<MemoryStore>,
    agent: Arc<dyn Agent>,
) -> Result<Registry, portolan_core::ports::StoreError> {
    let store: Arc<dyn Store> = store;
    // Modes that ask nothing are tried too.
    let policy = Policy { bypass: Bypass::ForOwners, ..Policy::default() };
    Registry::open(store, vec![agent], Clock::system(), policy).await
}

/// The user of every scenario.
pub(crate) fn owner() -> Principal {
    let token = TokenId::random();
    Principal { token, name: "contract".into(), role: Role::Owner, sessions: None, via: "contract".into() }
}
