//! ps: the running agents, each with its processes. Needs no daemon: the processes that hold agents answer by
//! themselves.

use std::{collections::BTreeMap, path::PathBuf};

use futures_util::future::join_all;
use portolan_core::{Millis, SessionId, session::state::Summary};
use portolan_holder::{RunFolder, State, Status, Written};
use serde::Serialize;

use super::{
    Context,
    lifecycle::in_time,
    sessions::{age, shortened},
};
use crate::{
    daemon::{holding, lock::Lock},
    failure::Outcome,
    home::{Home, rfc3339},
    output::{self, Format},
    target::{Start, Target},
    terminal::clean,
};

/// How many sessions are asked about. The limit of running agents is far below.
const SESSIONS: u32 = 1000;

/// The unit in which Linux shows times to programs, on every machine.
const TICKS_PER_SECOND: i64 = 100;

/// A running agent.
#[derive(Debug, Serialize)]
struct Running {
    session: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    agent_pid: Option<u32>,
    /// The process that holds the agent; absent if the agent ends with the daemon.
    holder_pid: Option<u32>,
    state: State,
    cwd: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tmux: Option<String>,
    since: Option<String>,
    #[serde(skip)]
    started: Option<Millis>,
    link: Link,
    /// Memory of the agent's process and of its holder that they share with no other process, in bytes.
    agent_memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_memory: Option<u64>,
    /// Reports of the agent that no daemon has recorded yet, in bytes.
    unrecorded: u64,
}

/// Whether a daemon has the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Link {
    /// A daemon is connected.
    Connected,
    /// No daemon is connected: the agent waits for the next one.
    Alone,
    /// The holder lives and does not answer.
    Silent,
}

impl Link {
    fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Alone => "without a daemon",
            Self::Silent => "does not answer",
        }
    }
}

pub(super) async fn ps(context: &Context) -> Outcome {
    let target = Target::find(&context.global, Start::Never)?;
    let mut running = BTreeMap::new();
    if let Some(home) = target.home() {
        held(home, &mut running).await;
    }
    if target.home().is_none_or(|home| Lock::holder(home).is_some()) {
        match in_time(in_the_daemon(&target, &mut running)).await {
            // What holders say needs no daemon.
            Err(failure) if !running.is_empty() => {
                output::note(format!("agents that end with the daemon are not listed: {}", failure.message));
            }
            outcome => outcome?,
        }
    }
    let running: Vec<Running> = running.into_values().collect();
    match context.format() {
        Format::Json => output::json(&running),
        Format::Plain if running.is_empty() => {
            output::note("no agent runs");
            Ok(())
        }
        Format::Plain => output::raw(output::table(&rows(&running)).as_bytes()),
    }
}

/// The agents that outlive the daemon. All are asked at once: one that hangs delays nobody else.
async fn held(home: &Home, running: &mut BTreeMap<SessionId, Running>) {
    let holders = holding::asked(home);
    let asked = holders.living().into_iter().map(async |session| (session, holders.status(session).await));
    let answers = join_all(asked).await;
    let living = holders.living();
    let run = RunFolder::at(home.run());
    // A holder that gave no answer and has ended meanwhile does not hang.
    let answers =
        answers.into_iter().filter(|(session, status)| status.is_some() || living.contains(session));
    running.extend(answers.map(|(session, status)| {
        let one = status.map_or_else(|| Running::silent(session, run.written(session)), Running::held);
        (session, one)
    }));
}

/// The agents that end with the daemon, as the daemon knows them.
async fn in_the_daemon(target: &Target, running: &mut BTreeMap<SessionId, Running>) -> Outcome {
    let is_here = target.home().is_some();
    let mut client = target.connect().await?;
    let sessions = client.list(None, SESSIONS).await?.sessions;
    for summary in sessions.into_iter().filter(Summary::is_live) {
        if running.contains_key(&summary.session) {
            continue;
        }
        let (_, state) = client.state(summary.session).await?;
        let Some(pid) = state.pid else { continue };
        let started = Some(pid).filter(|_| is_here).and_then(started);
        running.insert(
            summary.session,
            Running {
                session: summary.session,
                agent: Some(summary.agent),
                agent_pid: Some(pid),
                holder_pid: None,
                state: State::Running,
                cwd: Some(summary.cwd),
                tmux: None,
                since: Some(rfc3339(started.unwrap_or(summary.created_at))),
                started,
                link: Link::Connected,
                agent_memory: Some(pid).filter(|_| is_here).and_then(memory),
                holder_memory: None,
                unrecorded: 0,
            },
        );
    }
    client.close().await;
    Ok(())
}

impl Running {
    fn held(status: Status) -> Self {
        let started = Millis(status.since_ms);
        Self {
            session: status.session,
            agent: status.agent,
            agent_pid: status.agent_pid,
            holder_pid: Some(status.holder_pid),
            state: status.state,
            cwd: status.cwd,
            tmux: status.tmux,
            since: Some(rfc3339(started)),
            started: Some(started),
            link: if status.connected { Link::Connected } else { Link::Alone },
            agent_memory: status.agent_pid.and_then(memory),
            holder_memory: memory(status.holder_pid),
            unrecorded: status.unrecorded_bytes,
        }
    }

    /// A holder that does not answer, as its files show it.
    fn silent(session: SessionId, Written { holder_pid, since_ms }: Written) -> Self {
        let started = since_ms.map(Millis);
        Self {
            session,
            agent: None,
            agent_pid: None,
            holder_pid,
            state: State::Running,
            cwd: None,
            tmux: None,
            since: started.map(rfc3339),
            started,
            link: Link::Silent,
            agent_memory: None,
            holder_memory: holder_pid.and_then(memory),
            unrecorded: 0,
        }
    }
}

fn rows(running: &[Running]) -> Vec<Vec<String>> {
    let ids = shortened(&running.iter().map(|one| one.session.to_string()).collect::<Vec<_>>());
    let mut rows = vec![
        ["ID", "AGENT", "STATE", "PID", "HOLDER", "MEMORY", "AGE", "LINK", "FOLDER"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let number = |pid: Option<u32>| pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let now = Millis::now();
    for (one, id) in running.iter().zip(ids) {
        let state = match one.state {
            State::Starting => "starting",
            State::Running => "running",
            State::Exited => "exited",
        };
        let memory = one.agent_memory.map(|agent| agent + one.holder_memory.unwrap_or_default());
        let mut link = one.link.word().to_owned();
        if let Some(window) = &one.tmux {
            link = format!("{link}, tmux {}", clean::line(window));
        }
        rows.push(vec![
            id,
            one.agent.as_deref().map(clean::line).unwrap_or_default(),
            state.to_owned(),
            number(one.agent_pid),
            number(one.holder_pid),
            memory.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20)),
            one.started.map_or_else(|| "-".to_owned(), |started| age(now.0 - started.0)),
            link,
            one.cwd.as_ref().map(|cwd| clean::line(&cwd.display().to_string())).unwrap_or_default(),
        ]);
    }
    rows
}

/// Memory that a process shares with no other, in bytes.
fn memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// When a process of this machine started.
fn started(pid: u32) -> Option<Millis> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The 22nd field; the name, in brackets, may hold blanks.
    let ticks: i64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    Some(Millis(Millis::now().0 - (uptime * 1000.0) as i64 + ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_of_its_own_and_started_a_moment_ago() {
        let pid = std::process::id();
        assert!(memory(pid).unwrap() > 0);
        let age = Millis::now().0 - started(pid).unwrap().0;
        assert!((-100..600_000).contains(&age), "{age}");
        assert_eq!((memory(0), started(0)), (None, None));
    }
}
