//! The daemon's side: an agent like any other, whose process belongs to a holder.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionId, SessionSpec,
    ports::{
        Account, Agent, AgentLink, Boxed, INSTRUCTIONS, Launch, LeftRunning, Means, Past, Probe, REPORTS,
        Rejoined,
    },
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

use crate::{
    RunFolder,
    connect::Connection,
    frames::{Linger, PROTOCOL, Status, ToHolder},
    lock::{Attempt, Lock},
    place::Place,
    relay::{Ended, Relay, SessionSide},
    spool::Left,
};

/// How long an agent that nobody wants may take to end by its stop ladder.
const STOPPING: Duration = Duration::from_secs(10);

/// How long a holder may take to end once its agent was killed.
const KILLING: Duration = Duration::from_secs(15);

/// How long the relays may take at the end of the daemon.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Between two looks at a lock.
const LOOK: Duration = Duration::from_millis(5);

/// A holder that lives must answer. It is asked so many times before the session is given up.
const TRIES: usize = 3;

/// What every holder is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the holders' files.
    pub run: RunFolder,
    /// The key of the home, which every process of its agents carries.
    pub home_key: String,
    /// The program's version.
    pub version: String,
    /// What becomes a holder: a program and its arguments, without the session's id, which comes last.
    pub program: Vec<OsString>,
    /// What the program needs to make an agent. It goes over the socket, because it may hold secrets.
    pub context: Value,
    /// How long agents go on without a daemon.
    pub linger: Linger,
}

/// The holders of a home. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Holders {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Sessions whose holders this daemon started or took over.
    ours: Mutex<BTreeSet<SessionId>>,
    relays: TaskTracker,
}

impl Holders {
    /// The holders in this folder.
    pub fn new(settings: Settings) -> Self {
        Self { shared: Arc::new(Shared { settings, ours: Mutex::default(), relays: TaskTracker::new() }) }
    }

    /// The same agent, but its processes belong to holders.
    pub fn held(&self, agent: Arc<dyn Agent>, place: Place) -> Held {
        Held { agent, holders: self.clone(), place }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn run(&self) -> &RunFolder {
        &self.shared.settings.run
    }

    fn ours(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.shared.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn(&self, relay: impl Future<Output = ()> + Send + 'static) {
        self.shared.relays.spawn(relay);
    }

    /// Waits until every holder knows what is recorded. Call it when the sessions have ended.
    pub async fn finished(&self) {
        self.shared.relays.close();
        // A holder that learns it too late keeps its reports, and the next daemon finds them.
        let _ = tokio::time::timeout(LAST_WORDS, self.shared.relays.wait()).await;
    }

    pub(crate) fn adopt(&self, session: SessionId) {
        self.ours().insert(session);
    }

    /// The sessions with a living holder. Their agents must not be ended as left behind.
    pub fn living(&self) -> BTreeSet<SessionId> {
        let run = self.run();
        run.sessions().into_iter().filter(|session| Lock::is_held(&run.lock(*session))).collect()
    }

    /// Asks every living holder. One that does not answer has no status.
    pub async fn statuses(&self) -> Vec<(SessionId, Option<Status>)> {
        let mut found = Vec::new();
        for session in self.living() {
            found.push((session, self.status(session).await));
        }
        found
    }

    /// The status of a session's holder, if it lives and answers.
    pub async fn status(&self, session: SessionId) -> Option<Status> {
        let opened = Connection::open(self.run(), session, &self.settings().version).await;
        opened.ok().map(|connection| connection.status)
    }

    /// Ends the agents that no session has taken over, and removes the files of dead holders. Call it when every
    /// session that was left open has been opened.
    pub async fn end_strays(&self) -> Vec<SessionId> {
        let mut ended = Vec::new();
        for session in self.run().sessions() {
            if self.ours().contains(&session) {
                continue;
            }
            match Lock::attempt(&self.run().lock(session)) {
                Ok(Attempt::Ours(_lock)) => self.clear(session),
                Ok(Attempt::Held) => match self.end(session, STOPPING).await {
                    Ok(_lock) => {
                        self.clear(session);
                        ended.push(session);
                    }
                    Err(error) => {
                        tracing::warn!(%session, %error, "an agent that belongs to no session could not be ended");
                    }
                },
                Err(error) => tracing::warn!(%session, %error, "the files of a holder cannot be used"),
            }
        }
        ended
    }

    /// The key of the home.
    pub fn home_key(&self) -> &str {
        &self.settings().home_key
    }

    /// Ends all living holders with their agents at once. Returns their number.
    pub async fn kill_all(&self) -> usize {
        let living = self.living();
        let ends = living.iter().map(async |session| self.end(*session, Duration::ZERO).await.map(drop));
        futures_util::future::join_all(ends).await.into_iter().flatten().count()
    }

    /// Ends the agents of all living holders. For a daemon that is gone, or ends at once.
    pub async fn end_all(&self) -> Vec<SessionId> {
        let living = self.living();
        let ends = living.iter().map(async |session| self.end(*session, STOPPING).await.map(drop));
        let results = futures_util::future::join_all(ends).await;
        living.into_iter().zip(results).filter_map(|(session, ended)| ended.ok().map(|()| session)).collect()
    }

    /// Ends a session's holder with its agent: by the stop ladder if `patience` is not zero, then at once. Returns the
    /// session's lock; what the agent reported is still there.
    pub(crate) async fn end(&self, session: SessionId, patience: Duration) -> io::Result<Lock> {
        for (message, patience) in [(ToHolder::Stop {}, patience), (ToHolder::Kill {}, KILLING)] {
            if patience.is_zero() {
                continue;
            }
            if let Ok(mut connection) = Connection::open(self.run(), session, &self.settings().version).await
            {
                // It may have ended meanwhile.
                let _ = connection.send(&message).await;
            }
            if let Some(lock) = self.lock_within(session, patience).await? {
                self.sweep(session).await;
                return Ok(lock);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the holder does not end"))
    }

    /// The session's lock, as soon as its holder has ended.
    pub(crate) async fn lock_within(
        &self,
        session: SessionId,
        patience: Duration,
    ) -> io::Result<Option<Lock>> {
        let deadline = Instant::now() + patience;
        loop {
            match Lock::attempt(&self.run().lock(session))? {
                Attempt::Ours(lock) => return Ok(Some(lock)),
                Attempt::Held if Instant::now() >= deadline => return Ok(None),
                Attempt::Held => sleep(LOOK).await,
            }
        }
    }

    /// Ends what a dead holder's agent left behind. The caller has the session's lock.
    pub(crate) async fn sweep(&self, session: SessionId) {
        let home_key = self.settings().home_key.clone();
        let sweep = move || portolan_agents::sweep_session(&home_key, session);
        let swept = tokio::task::spawn_blocking(sweep).await;
        for swept in swept.unwrap_or_default() {
            tracing::warn!(%session, pid = swept.process.pid, name = swept.name, "a process of a dead holder was ended");
        }
    }

    /// Removes the files of a dead holder. The caller has the session's lock.
    pub(crate) fn clear(&self, session: SessionId) {
        self.run().clear(session);
    }
}

/// An agent whose processes belong to holders, so that they outlive the daemon.
#[derive(Debug)]
pub struct Held {
    agent: Arc<dyn Agent>,
    holders: Holders,
    place: Place,
}

/// Both ends of the queues between a session and its relay.
fn queues(recorded: u64) -> (AgentLink, SessionSide) {
    let (instructions, told) = mpsc::channel(INSTRUCTIONS);
    let (reporter, reports) = mpsc::channel(REPORTS);
    let (recorder, recorded) = watch::channel(recorded);
    let mut link = AgentLink::new(instructions, reports);
    link.recorded = Some(recorder);
    let side =
        SessionSide { reports: reporter, told, recorded, stop: link.stop.clone(), kill: link.kill.clone() };
    (link, side)
}

impl Held {
    async fn take_over(&self, left: LeftRunning) -> io::Result<Option<Rejoined>> {
        let LeftRunning { session, generation, recorded, unsettled } = left;
        let holders = &self.holders;
        if !holders.run().lock(session).exists() {
            return Ok(None);
        }
        let mut problem = None;
        for _ in 0..TRIES {
            if let Attempt::Ours(lock) = Lock::attempt(&holders.run().lock(session))? {
                holders.sweep(session).await;
                let spool = holders.run().spool(session);
                if Left::open(&spool, generation, recorded).is_none_or(Left::ends_here) {
                    holders.clear(session);
                    return Ok(None);
                }
                // What reached the agent is unknown for ever: the end of the agent settles it.
                let taken = unsettled.into_iter().collect();
                let (link, side) = queues(recorded);
                let relay = Relay::new(holders.clone(), session, generation, side, recorded);
                holders.spawn(relay.bury(lock, Ended::WithoutDaemon));
                return Ok(Some(Rejoined { link, taken, away: Duration::ZERO }));
            }
            let opened = Connection::open(holders.run(), session, &holders.settings().version).await;
            let mut connection = match opened {
                Ok(connection) => connection,
                Err(error) => {
                    problem = Some(error);
                    continue;
                }
            };
            let status = &connection.status;
            if status.generation != Some(generation) || status.protocol != PROTOCOL {
                tracing::info!(%session, version = status.version, "a holder that cannot be taken over is ended");
                // A holder that was never launched has nothing to lose.
                let patience = if status.generation.is_some() { STOPPING } else { Duration::ZERO };
                drop(connection);
                drop(holders.end(session, patience).await?);
                continue;
            }
            let unsettled: BTreeSet<_> = unsettled.iter().copied().collect();
            let wish = ToHolder::Take { generation, recorded, received: recorded, unsettled };
            match connection.become_daemon(&wish).await {
                Ok(taken) => {
                    holders.adopt(session);
                    let (link, side) = queues(recorded);
                    let relay = Relay::new(holders.clone(), session, generation, side, recorded);
                    holders.spawn(relay.go_on(connection));
                    return Ok(Some(Rejoined { link, taken: taken.instructions, away: taken.away }));
                }
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the holder does not end")))
    }
}

impl Agent for Held {
    fn kind(&self) -> &str {
        self.agent.kind()
    }

    fn title(&self) -> String {
        self.agent.title()
    }

    fn capabilities(&self) -> Capabilities {
        self.agent.capabilities()
    }

    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        self.agent.environment(spec)
    }

    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        self.agent.asks_nothing(means)
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        self.agent.probe()
    }

    fn past(&self) -> Option<Arc<dyn Past>> {
        self.agent.past()
    }

    fn account(&self) -> Option<Arc<dyn Account>> {
        self.agent.account()
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let (link, side) = queues(0);
        let relay = Relay::new(self.holders.clone(), launch.session, launch.generation, side, 0);
        self.holders.spawn(relay.start(launch, self.place));
        link
    }

    fn rejoin(&self, left: LeftRunning) -> Boxed<'_, Option<Rejoined>> {
        Box::pin(async move {
            let session = left.session;
            self.take_over(left).await.unwrap_or_else(|error| {
                tracing::error!(%session, %error, "a running agent cannot be taken over, and is ended");
                None
            })
        })
    }
}
