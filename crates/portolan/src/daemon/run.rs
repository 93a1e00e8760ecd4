//! The daemon from its first lock to its last flush.
//!
//! Order of the start: lock, bind, daemon.json; then the store, the end of processes that an earlier daemon left
//! behind, the registry, and the door opens; then the daemon checks its agents. SIGTERM and SIGHUP stop the daemon in
//! order and leave agents running that outlive it; SIGINT also ends those. A second signal ends everything at once.

use std::{sync::Arc, time::Duration};

use portolan_agents::dial_in::DialIn;
use portolan_core::{
    Millis,
    ports::Secret,
    registry::{AgentDescription, Registry},
};
use portolan_holder::Holders;
use portolan_host::{Bound, House, Open, door::Listening};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{assembly, descriptors, holding, lock::Lock, watch};
use crate::{
    config::Settings,
    failure::{Failure, Outcome},
    home::{
        self, Home, Record,
        identity::{Established, Identity},
        rfc3339,
    },
    target::VERSION,
    way_out,
};

/// How often the daemon writes its sign of life to daemon.json.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How often the daemon looks for old sessions to delete.
const PRUNING: Duration = Duration::from_hours(1);

/// How long the end may take after the second signal.
const AT_ONCE: Duration = Duration::from_secs(3);

/// What the daemon knows when it is ready.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The URL of the daemon.
    pub(crate) url: String,
    /// A ticket for a browser.
    pub(crate) ticket: Option<Secret>,
    /// The agents, checked.
    pub(crate) agents: Vec<AgentDescription>,
}

/// Runs the daemon until a signal stops it. `options` are those of the command line. Calls `ready` when the daemon is up and has checked its agents.
pub(crate) async fn run(
    settings: Settings,
    home: Home,
    options: Vec<String>,
    ready: impl FnOnce(Ready),
) -> Outcome {
    home.make()?;
    let lock = Arc::new(Lock::take_or_explain(&home)?);
    if let Some(old) = Record::read(&home) {
        // Nobody holds the lock, so the daemon that wrote this file crashed or was killed.
        tracing::info!(pid = old.pid, "an earlier daemon crashed or was killed; its file is replaced");
    }
    let mut signals = Signals::listen()?;
    let Established { mut identity, former_key } = Identity::establish(&home)?;
    let key = identity.key.clone();
    let mut door_settings = assembly::door_settings(&settings, &home, &key)?;
    let connections = &mut door_settings.limits.connections;
    *connections = descriptors::connections(*connections, descriptors::raise());
    let dial_in = DialIn::new();
    let frontends = assembly::frontends(&settings, &dial_in);
    let bound = Bound::bind(&door_settings, &frontends).await;
    let bound = bound.map_err(|error| Failure::new(way_out::of_bind(&error)))?;
    let addresses = bound.addresses();
    let url = addresses.iter().find_map(Listening::url).unwrap_or_default();
    let listen = addresses.iter().find(|one| one.url().is_some()).map(|one| one.address.to_string());
    let record = Record { options, ..Record::now(&url, listen.as_deref().unwrap_or_default()) };
    let cleanup = Cleanup { home: home.clone(), lock: Arc::clone(&lock) };
    record.write(&home)?;

    let holders = holding::holders(&settings, &home, &key)?;
    end_leftovers(holders.clone(), former_key.into_iter().chain([key])).await;
    let parts = (frontends, &dial_in, &holders);
    let house = assembly::build(&settings, &home, &mut identity, door_settings, parts).await?;
    let host = house.host().clone();
    let open = house.open(bound).await;
    tracing::info!(url, version = VERSION, pid = std::process::id(), home = %home.path().display(), "ready");

    let lost = CancellationToken::new();
    host.spawn(heartbeat(record, home.clone(), Arc::clone(&lock)));
    let (registry, tokens) = (host.registry.clone(), Arc::clone(&host.tokens));
    host.spawn(watch::watch(home.clone(), Arc::clone(&lock), tokens, registry, lost.clone()));
    host.spawn(prune(settings.clone(), host.registry.clone()));

    let ticket = host.tickets.create(&assembly::owner()).ok().map(|(ticket, _)| Secret::new(ticket));
    let early = tokio::select! {
        agents = host.registry.probe() => {
            ready(Ready { url, ticket, agents });
            None
        }
        signal = signals.next() => {
            tracing::info!(signal = signal.name(), "stopping before the agents were checked");
            Some(signal)
        }
    };
    let signal = if let Some(signal) = early {
        signal
    } else {
        tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal = signal.name(), "stopping; a second signal ends everything at once");
                signal
            }
            // Nobody can reach the agents of a lost home.
            () = lost.cancelled() => Stopping::EndAgents,
        }
    };
    let grace = settings.limits.shutdown_grace();
    let ended = end(&house, open, signal, grace, &mut signals, &holders).await;
    drop((cleanup, lock));
    tracing::info!(home = %home.path().display(), "stopped");
    if lost.is_cancelled() { Err(watch::lost_home(&home)) } else { ended }
}

/// Ends what an earlier daemon left running. No agent may start before the processes of an earlier daemon are gone: they
/// use the same folders. Agents with a living holder go on.
async fn end_leftovers(holders: Holders, left_by: impl Iterator<Item = String>) {
    let left_by: Vec<_> = left_by.collect();
    let sweep = tokio::task::spawn_blocking(move || {
        let living = holders.living();
        left_by.iter().flat_map(|key| portolan_agents::sweep_sparing(key, &living)).collect::<Vec<_>>()
    });
    for swept in sweep.await.unwrap_or_default() {
        let pid = swept.process.pid;
        tracing::warn!(pid, name = swept.name, "a process of an earlier daemon was ended");
    }
}

/// Stops everything in order, or at once when the second signal comes.
async fn end(
    house: &House,
    open: Open,
    signal: Stopping,
    grace: Duration,
    signals: &mut Signals,
    holders: &Holders,
) -> Outcome {
    // Accept no new connections; open connections close when their sessions have ended.
    house.close();
    let shutdown = async {
        match signal {
            Stopping::KeepAgents(_) => house.leave_sessions(grace).await,
            Stopping::EndAgents => house.end_sessions(grace).await,
        }
    };
    tokio::pin!(shutdown);
    let mut problems = tokio::select! {
        stuck = &mut shutdown => stuck,
        signal = signals.next() => {
            tracing::warn!(signal = signal.name(), "the second signal: everything ends at once");
            let ended = holders.kill_all().await;
            let key = holders.home_key().to_owned();
            let swept = tokio::task::spawn_blocking(move || portolan_agents::sweep(&key)).await.unwrap_or_default();
            tracing::info!(processes = swept.len(), holders = ended, "agents were ended");
            match tokio::time::timeout(AT_ONCE, &mut shutdown).await {
                Ok(stuck) => stuck,
                Err(_) => vec!["sessions did not end in time".to_owned()],
            }
        }
    };
    problems.extend(house.closed(Some(open)).await);
    holders.finished().await;
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(problems.join("\n"))) }
}

async fn heartbeat(mut record: Record, home: Home, lock: Arc<Lock>) {
    let mut beat = tokio::time::interval(HEARTBEAT);
    beat.tick().await;
    loop {
        beat.tick().await;
        if !lock.is_of(&home) {
            // The home belongs to another daemon now, which writes its own file.
            return;
        }
        record.heartbeat_at = rfc3339(Millis::now());
        if let Err(error) = record.write(&home) {
            tracing::warn!(%error, "daemon.json could not be written");
        }
    }
}

async fn prune(settings: Settings, registry: Registry) {
    let age = settings.retention.age_days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
    let bytes = settings.retention.max_size_mb.map(|mb| mb.saturating_mul(1024 * 1024));
    if age.is_none() && bytes.is_none() {
        return;
    }
    let mut look = tokio::time::interval(PRUNING);
    loop {
        look.tick().await;
        match registry.prune(age, bytes).await {
            Ok(0) => {}
            Ok(sessions) => tracing::info!(sessions, "old sessions were deleted"),
            Err(error) => tracing::warn!(%error, "old sessions could not be deleted"),
        }
    }
}

impl Record {
    /// The record of a daemon that starts now in this process.
    fn now(url: &str, listen: &str) -> Self {
        let now = rfc3339(Millis::now());
        Self {
            pid: std::process::id(),
            url: url.to_owned(),
            listen: listen.to_owned(),
            version: VERSION.to_owned(),
            started_at: now.clone(),
            heartbeat_at: now,
            options: Vec::new(),
        }
    }
}

/// Removes the files that only a running daemon has, however the daemon's function ends.
struct Cleanup {
    home: Home,
    lock: Arc<Lock>,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // The door removes the socket.
        if self.lock.is_of(&self.home) {
            home::remove(&self.home.record());
        }
    }
}

/// The signals that end the daemon.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Outcome<Self> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::new(format!("signals cannot be received: {error}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// What the next signal asks for.
    async fn next(&mut self) -> Stopping {
        tokio::select! {
            _ = self.terminate.recv() => Stopping::KeepAgents("SIGTERM"),
            _ = self.interrupt.recv() => Stopping::EndAgents,
            _ = self.hang_up.recv() => Stopping::KeepAgents("SIGHUP"),
        }
    }
}

/// What happens to running agents at the end of the daemon. Agents that cannot outlive it end in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    /// They go on, after this signal: a service manager, an upgrade or a closed terminal ends only the daemon.
    KeepAgents(&'static str),
    /// They end, after SIGINT: a person ended Portolan.
    EndAgents,
}

impl Stopping {
    fn name(self) -> &'static str {
        match self {
            Self::KeepAgents(name) => name,
            Self::EndAgents => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 003-154
    #[tokio::test(start_paused = true)]
    async fn the_heartbeat_keeps_the_file_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let record =
            Record { heartbeat_at: "never".into(), ..Record::now("http://127.0.0.1:1", "127.0.0.1:1") };
        record.write(&home).unwrap();
        let lock = Arc::new(Lock::take_or_explain(&home).unwrap());
        let beating = tokio::spawn(heartbeat(record.clone(), home.clone(), lock));
        tokio::time::sleep(HEARTBEAT / 2).await;
        assert_eq!(Record::read(&home), Some(record.clone()), "not yet");
        tokio::time::sleep(HEARTBEAT).await;
        let now = Record::read(&home).unwrap();
        assert_ne!(now.heartbeat_at, "never");
        assert_eq!(Record { heartbeat_at: "never".into(), ..now }, record, "nothing else has changed");
        beating.abort();
    }
}
