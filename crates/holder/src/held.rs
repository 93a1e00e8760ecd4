//! The daemon's side: an agent like any other, whose process belongs to a holder.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use portolan_core::{
    SessionId, delegates_agent,
    ports::{Agent, AgentLink, Boxed, INSTRUCTIONS, Launch, LeftRunning, REPORTS, Rejoined},
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

/// How long a process may take to be gone after SIGKILL.
const DYING: Duration = Duration::from_secs(5);

/// How long the relays may take at the end of the daemon.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Between two looks at a lock.
const LOOK: Duration = Duration::from_millis(5);

/// A holder that lives must let a daemon in. After so many tries its agent is ended.
const TRIES: usize = 3;

/// A holder that does not answer at all is asked fewer times, because each time takes long.
const SILENT_TRIES: usize = 2;

/// Between two tries.
const BETWEEN: Duration = Duration::from_millis(100);

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
    /// The incarnation of the home: another one means that the home's database was replaced, and that what a running
    /// holder counts is no longer what the database counts.
    pub incarnation: String,
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
        Held { agent, holders: self.clone(), starts: Some(place) }
    }

    /// The same agent. What an earlier daemon left running in holders is taken over; what starts from now on ends with
    /// this daemon.
    pub fn taken_over(&self, agent: Arc<dyn Agent>) -> Held {
        Held { agent, holders: self.clone(), starts: None }
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
        let asked = self.living().into_iter().map(async |session| (session, self.status(session).await));
        futures_util::future::join_all(asked).await
    }

    /// The status of a session's holder, if it lives and answers.
    pub async fn status(&self, session: SessionId) -> Option<Status> {
        let opened = Connection::open(self.run(), session, &self.settings().version).await;
        opened.ok().map(|connection| connection.status)
    }

    /// Ends the agents that no session has taken over, and removes the files of dead holders. Call it when every
    /// session that was left open has been opened.
    pub async fn end_strays(&self) -> Vec<SessionId> {
        let sessions = self.run().sessions().into_iter().filter(|session| !self.ours().contains(session));
        let ends = sessions.map(async |session| self.end_stray(session).await.then_some(session));
        futures_util::future::join_all(ends).await.into_iter().flatten().collect()
    }

    /// Ends the agent of a session that no session has taken over. `false`: none ran.
    async fn end_stray(&self, session: SessionId) -> bool {
        match Lock::attempt(&self.run().lock(session)) {
            Ok(Attempt::Ours(_lock)) => {
                self.sweep(session).await;
                self.clear(session);
                false
            }
            Ok(Attempt::Held) => match self.end(session, STOPPING).await {
                Ok(_lock) => {
                    self.clear(session);
                    true
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "an agent that belongs to no session could not be ended");
                    false
                }
            },
            Err(error) => {
                tracing::warn!(%session, %error, "the files of a holder cannot be used");
                false
            }
        }
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

    /// Ends a session's holder with its agent: by the stop ladder if `patience` is not zero, then at once, then with a
    /// signal if the holder does not answer. Returns the session's lock; what the agent reported is still there.
    pub(crate) async fn end(&self, session: SessionId, patience: Duration) -> io::Result<Lock> {
        for (message, patience) in [(ToHolder::Stop {}, patience), (ToHolder::Kill {}, KILLING)] {
            if patience.is_zero() {
                continue;
            }
            match Connection::open(self.run(), session, &self.settings().version).await {
                // It may have ended meanwhile.
                Ok(mut connection) => drop(connection.send(&message).await),
                // It hangs: no message ends it.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => break,
                // It has ended, or has no socket yet.
                Err(_) => {}
            }
            if let Some(lock) = self.lock_within(session, patience).await? {
                self.sweep(session).await;
                return Ok(lock);
            }
        }
        self.force(session);
        match self.lock_within(session, DYING).await? {
            Some(lock) => {
                self.sweep(session).await;
                Ok(lock)
            }
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the holder does not end")),
        }
    }

    /// Ends the process that has the session's lock with SIGKILL. Its agent has a parent-death signal.
    fn force(&self, session: SessionId) {
        let owner =
            Lock::owner(&self.run().lock(session)).and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let Some(pid) = owner else { return };
        // The handle names this very process, even if another one gets its number after the look at its arguments.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let is_holder =
            line.strip_suffix(b"\0").is_some_and(|line| line.ends_with(session.to_string().as_bytes()));
        if is_holder {
            tracing::error!(%session, pid = pid.as_raw_nonzero(), "a holder that does not answer is killed");
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
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
    /// Where new holders start, if they do.
    starts: Option<Place>,
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
        let (session, holders) = (left.session, &self.holders);
        if !holders.run().lock(session).exists() {
            return Ok(None);
        }
        let (mut tries, mut silent) = (0, 0);
        while tries < TRIES && silent < SILENT_TRIES {
            if tries > 0 {
                sleep(BETWEEN).await;
            }
            tries += 1;
            if let Attempt::Ours(lock) = Lock::attempt(&holders.run().lock(session))? {
                return Ok(self.buried(left, lock).await);
            }
            let error = match Connection::open(holders.run(), session, &holders.settings().version).await {
                Ok(connection) => match self.join(&left, connection).await {
                    Ok(Some(rejoined)) => return Ok(Some(rejoined)),
                    Ok(None) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            silent += usize::from(error.kind() == io::ErrorKind::TimedOut);
            tracing::warn!(%session, %error, "a holder does not let this daemon in");
        }
        // It has the lock, so nobody may settle the session; and what its agent reported must not be lost.
        tracing::error!(%session, "an agent whose holder lets no daemon in is ended");
        let lock = holders.end(session, Duration::ZERO).await?;
        Ok(self.buried(left, lock).await)
    }

    /// Joins a living holder. `None`: the holder is of no use, and was ended.
    async fn join(&self, left: &LeftRunning, mut connection: Connection) -> io::Result<Option<Rejoined>> {
        let LeftRunning { session, generation, recorded, ref unsettled } = *left;
        let holders = &self.holders;
        let status = &connection.status;
        if status.generation != Some(generation) {
            // A holder that was never launched has nothing to lose.
            let patience = if status.generation.is_some() { STOPPING } else { Duration::ZERO };
            drop(connection);
            drop(holders.end(session, patience).await?);
            return Ok(None);
        }
        let (link, side) = queues(recorded);
        let relay = Relay::new(holders.clone(), session, generation, side, recorded);
        let unsettled: BTreeSet<_> = unsettled.iter().copied().collect();
        if status.protocol != PROTOCOL {
            tracing::info!(%session, version = status.version, "a holder of another version is waited for");
            holders.adopt(session);
            holders.spawn(relay.wait_for_rest(status.version.clone()));
            return Ok(Some(Rejoined { link, taken: unsettled, away: Duration::ZERO }));
        }
        let incarnation = holders.settings().incarnation.clone();
        let wish = ToHolder::Take { generation, recorded, received: recorded, unsettled, incarnation };
        let taken = connection.become_daemon(&wish).await?;
        holders.adopt(session);
        holders.spawn(relay.go_on(connection));
        Ok(Some(Rejoined { link, taken: taken.instructions, away: taken.away }))
    }

    /// The holder is dead: what it left is read, if there is anything.
    async fn buried(&self, left: LeftRunning, lock: Lock) -> Option<Rejoined> {
        let LeftRunning { session, generation, recorded, unsettled } = left;
        let holders = &self.holders;
        holders.sweep(session).await;
        let spool = holders.run().spool(session);
        if Left::open(&spool, generation, recorded).is_none_or(Left::ends_here) {
            holders.clear(session);
            return None;
        }
        // What reached the agent is unknown for ever: the end of the agent settles it.
        let taken = unsettled.into_iter().collect();
        let (link, side) = queues(recorded);
        let relay = Relay::new(holders.clone(), session, generation, side, recorded);
        holders.spawn(relay.bury(lock, Ended::WithoutDaemon));
        Some(Rejoined { link, taken, away: Duration::ZERO })
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is missing here is not passed on")]
impl Agent for Held {
    delegates_agent!(agent: kind, title, capabilities, environment, asks_nothing, rule_for, probe, past, account);

    fn start(&self, launch: Launch) -> AgentLink {
        let Some(place) = self.starts else { return Arc::clone(&self.agent).start(launch) };
        let (link, side) = queues(0);
        let relay = Relay::new(self.holders.clone(), launch.session, launch.generation, side, 0);
        self.holders.spawn(relay.start(launch, place));
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
