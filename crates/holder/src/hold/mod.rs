//! The holder: one process that runs one agent, and keeps the agent's reports until a daemon has recorded them.
//!
//! One task owns everything: the agent's link, the spool and the connection of the daemon. A new daemon replaces the
//! connection of the last one; who only asks replaces nobody. Without a daemon a running turn may end and open requests
//! wait; policy is the daemon's, so whatever needs it waits too.

mod daemon;
mod ending;
mod launch;
mod signals;
mod visitors;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::BufMut as _;
use portolan_core::{
    Event, SessionId,
    event::{HolderInfo, Level},
    ports::{AgentLink, Instruction, InstructionId, Launch, Report},
};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};

use self::{
    daemon::{DaemonConnection, Parts},
    launch::{launch, listen, not_started},
    signals::Signals,
    visitors::{Visit, Wants},
};
use crate::{
    RunFolder,
    business::Business,
    frames::{FromHolder, Launching, Linger, State, Status, ToHolder, WINDOW},
    lock::Lock,
    spool::Spool,
};

/// How long a holder whose agent has ended waits until the disk and its daemon have its last reports.
const LAST_RECORD: Duration = Duration::from_secs(10);

/// How often a disk that takes no more is tried again.
const DISK: Duration = Duration::from_millis(250);

/// Reports that are taken from the agent at once.
const BATCH: usize = 64;

/// Instructions that wait for the agent. A daemon sends only as many as [`WINDOW`]; several daemons may have come and
/// gone while the agent read nothing.
const WAITING: usize = 16 * WINDOW;

/// The longest text that pieces of an item are merged to while no daemon is there.
const MERGED: usize = 32 * 1024;

/// What a holder is started for.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The folder of the holders' files. It must be this process' working folder, so that it may be moved.
    pub run: RunFolder,
    /// The session.
    pub session: SessionId,
    /// The key of the home, which every process of its agents carries.
    pub home_key: String,
    /// The program's version.
    pub version: String,
}

/// Why a holder could not begin.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Another holder has this session.
    #[error("another holder has the session `{0}`")]
    Held(SessionId),
    /// The files of the holder cannot be used.
    #[error("the files of the holder cannot be used: {0}")]
    Files(#[from] io::Error),
}

/// Holds one agent until it has ended. `make` starts the agent; it gets the launch and what the daemon's program gave
/// for it, or says why the agent cannot be started.
pub async fn hold(
    hold: Hold,
    make: impl FnOnce(Launch, Value) -> Result<AgentLink, String> + Send,
) -> Result<(), HoldError> {
    let lock = Lock::take(&hold.run.lock(hold.session))?.ok_or(HoldError::Held(hold.session))?;
    let listener = listen(&hold)?;
    let (visits, mut visiting) = mpsc::channel(visitors::WAITING);
    let answering = tokio::spawn(visitors::welcome(listener, hold.home_key.clone(), visits));
    let mut signals = Signals::listen()?;
    let since_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let mut status = Status {
        version: hold.version.clone(),
        holder_pid: std::process::id(),
        since_ms,
        ..Status::unknown(hold.session)
    };
    if let Some((launching, connection)) = launch(&status, &mut visiting, &mut signals).await {
        let Launching { launch, context, linger, tmux, remark, incarnation } = launching;
        status.agent = Some(launch.spec.agent.clone());
        status.generation = Some(launch.generation);
        status.cwd = Some(launch.spec.cwd.clone());
        status.tmux = tmux;
        let spool = Spool::create(&hold.run.spool(hold.session), launch.generation)?;
        let link = make(launch, context).unwrap_or_else(not_started);
        let mut holder = Holder {
            status,
            link: Some(link),
            spool,
            business: Business::default(),
            daemon: None,
            waiting: VecDeque::new(),
            written_to_any: 0,
            last_delta: None,
            linger,
            incarnation,
            away_since: Instant::now(),
            away_untold: Duration::ZERO,
            left_out: 0,
            idle_since: None,
            exited_at: None,
            write_again_at: None,
        };
        holder.take(connection, BTreeSet::new(), 0, 0);
        if let Some(text) = remark {
            holder.keep(std::iter::once(warning(text)));
        }
        if holder.run(&mut visiting, &mut signals).await == Left::Nothing {
            hold.run.clear(hold.session);
        }
    } else {
        hold.run.clear(hold.session);
    }
    answering.abort();
    drop(lock);
    Ok(())
}

/// What a holder leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Every report is recorded.
    Nothing,
    /// The spool has reports for the next daemon.
    Reports,
}

struct Holder {
    status: Status,
    /// Until the agent has ended.
    link: Option<AgentLink>,
    spool: Spool,
    business: Business,
    daemon: Option<DaemonConnection>,
    /// Instructions for which the agent had no room yet. They stay when their connection is gone.
    waiting: VecDeque<Instruction>,
    /// The number of the last report that was written to any connection. Later ones may still be merged.
    written_to_any: u64,
    /// The text of the last report, if it is a piece of an item.
    last_delta: Option<(String, String)>,
    linger: Linger,
    /// The incarnation of the home that launched the agent.
    incarnation: String,
    /// Since when no daemon is connected.
    away_since: Instant,
    /// How long no daemon was connected, as far as no daemon has recorded it.
    away_untold: Duration,
    /// Last reports that had no room.
    left_out: u64,
    /// Since when the agent has nothing to do.
    idle_since: Option<Instant>,
    exited_at: Option<Instant>,
    /// When the disk is tried again.
    write_again_at: Option<Instant>,
}

impl Holder {
    async fn run(mut self, visiting: &mut mpsc::Receiver<Visit>, signals: &mut Signals) -> Left {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.fill();
            if self.is_over() {
                return if self.is_recorded() { Left::Nothing } else { Left::Reports };
            }
            let due = self.next_due();
            let ends = self.is_ending();
            let Self { link, daemon, waiting, spool, .. } = &mut self;
            let (reports, instructions) =
                link.as_mut().map(|link| (&mut link.reports, &link.instructions)).unzip();
            // An agent that is being ended must come to its end, whether or not its last reports have room.
            let takes_reports = reports.is_some() && (ends || !spool.is_full());
            let Parts { reader, writing } = DaemonConnection::parts(daemon);
            // Every arm is cancel-safe: an unfinished arm has no effect.
            tokio::select! {
                count = receive(reports, &mut batch), if takes_reports => {
                    if count == 0 {
                        self.ended();
                    }
                    self.keep(batch.drain(..));
                }
                message = daemon::next(reader) => self.hear(message),
                written = daemon::write(writing) => {
                    if let Err(error) = written {
                        tracing::warn!(%error, "the connection of the daemon failed");
                        self.lost();
                    }
                }
                passed = daemon::pass(waiting, instructions) => {
                    if let Some(daemon) = self.daemon.as_mut().filter(|_| passed) {
                        daemon.confirm();
                    }
                }
                visit = visiting.recv() => match visit {
                    Some(visit) => self.visited(visit),
                    None => return Left::Reports,
                },
                () = signals.next() => self.end("its holder got a signal"),
                () = until(due) => self.on_time(),
            }
        }
    }

    // ------------------------------------------------------------------------------------- reports

    /// Keeps reports of the agent, and sends them on.
    fn keep(&mut self, reports: impl Iterator<Item = Report>) {
        let mut has_exited = false;
        for mut report in reports {
            if let Report::Started { holder, .. } = &mut report {
                let (pid, tmux) = (self.status.holder_pid, self.status.tmux.clone());
                *holder = Some(HolderInfo { pid, tmux });
            }
            let is_exit = matches!(report, Report::Exited(_));
            has_exited |= is_exit;
            self.note(&report);
            if self.is_ending() && self.spool.is_overfull() && !is_exit {
                self.left_out += 1;
                continue;
            }
            if is_exit && self.left_out > 0 {
                let text =
                    format!("the last {} reports of the agent had no room and are missing", self.left_out);
                self.add(warning(text));
            }
            let report = self.merge(&report).unwrap_or_else(|| {
                self.last_delta = delta(&report);
                report
            });
            self.add(report);
        }
        self.write();
        if has_exited {
            self.ended();
        }
    }

    /// Adds a report to the spool, and sends it on.
    fn add(&mut self, report: Report) {
        let added = self.spool.add(report).or_else(|error| {
            tracing::error!(%error, "a report could not be kept");
            self.spool.add(warning(format!("a report of the agent could not be kept: {error}")))
        });
        match added {
            Err(error) => tracing::error!(%error, "nothing can be kept"),
            Ok(frame) => {
                // A connection that has everything so far gets the frame without a look at the disk.
                if let Some(daemon) = &mut self.daemon
                    && daemon.has_room()
                    && daemon.position + frame.len() as u64 == self.spool.end()
                {
                    daemon.out.put_slice(&frame);
                    daemon.position += frame.len() as u64;
                    self.written_to_any = self.spool.last();
                }
            }
        }
    }

    fn note(&mut self, report: &Report) {
        self.business.report(self.spool.last() + 1, report);
        match report {
            Report::Started { pid, .. } => self.status.agent_pid = *pid,
            Report::Ready => self.status.state = State::Running,
            _ => {}
        }
        self.look_for_rest();
    }

    /// A piece of an item, joined with the piece before it, if no connection has that one yet.
    fn merge(&mut self, report: &Report) -> Option<Report> {
        let Report::Event { event: Event::Delta { item, text }, raw: None } = report else { return None };
        let (known, so_far) = self.last_delta.as_mut()?;
        let fits = known == item && so_far.len() + text.len() <= MERGED;
        if !fits || self.daemon.is_some() || self.written_to_any >= self.spool.last() {
            return None;
        }
        self.spool.take_back_last();
        so_far.push_str(text);
        let event = Event::Delta { item: item.clone(), text: so_far.clone() };
        Some(Report::Event { event, raw: None })
    }

    fn write(&mut self) {
        if let Err(error) = self.spool.write() {
            if self.write_again_at.is_none() {
                tracing::warn!(%error, "the spool cannot be written; reports wait in memory");
            }
            self.write_again_at = Some(Instant::now() + DISK);
        } else {
            self.write_again_at = None;
        }
    }

    fn ended(&mut self) {
        self.link = None;
        self.status.state = State::Exited;
        self.exited_at.get_or_insert_with(Instant::now);
    }

    fn is_recorded(&self) -> bool {
        self.spool.unrecorded() == 0
    }

    /// Gives the connection more of the spool.
    fn fill(&mut self) {
        let Some(daemon) = &mut self.daemon else { return };
        while daemon.has_room() && daemon.position < self.spool.end() {
            match self.spool.read(daemon.position, daemon::FILL) {
                Ok(bytes) => {
                    daemon.position += bytes.len() as u64;
                    daemon.out.put_slice(&bytes);
                    // A piece of a report may be written: none of what is here may change any more.
                    self.written_to_any = self.spool.last();
                }
                Err(error) => {
                    tracing::error!(%error, "the spool cannot be read");
                    self.lost();
                    return;
                }
            }
        }
    }

    // -------------------------------------------------------------------------------------- daemon

    fn visited(&mut self, visit: Visit) {
        let Wants { message, connection } = match visit {
            Visit::Asks(answer) => {
                // The asker may have left.
                let _ = answer.send(self.status_now());
                return;
            }
            Visit::Wants(wants) => *wants,
        };
        match message {
            ToHolder::Take { incarnation, .. } if incarnation != self.incarnation => {
                connection.refuse("the home's database was restored since the agent began");
            }
            ToHolder::Take { generation, recorded, received, unsettled, .. }
                if Some(generation) == self.status.generation && received <= self.spool.last() =>
            {
                // The old connection is closed unread before it is said which instructions have arrived.
                self.lost();
                self.take(connection, unsettled, recorded, received);
            }
            ToHolder::Take { .. } => connection.refuse("the holder does not hold that start of the agent"),
            ToHolder::Launch(_) => connection.refuse("the agent is launched already"),
            ToHolder::Stop {} => self.stop("the daemon asked the agent to stop"),
            ToHolder::Kill {} => self.kill(),
            ToHolder::Hello { .. } | ToHolder::Instruct(_) | ToHolder::Recorded(_) => {
                connection.refuse("this connection is not the daemon's");
            }
        }
    }

    /// From now on this connection is the daemon's.
    fn take(
        &mut self,
        mut connection: DaemonConnection,
        unsettled: BTreeSet<InstructionId>,
        recorded: u64,
        received: u64,
    ) {
        self.recorded(recorded);
        let taken = self.business.taken(&unsettled);
        self.away_untold += self.away_since.elapsed();
        let away_ms = self.away_untold.as_millis() as u64;
        connection.tell(&FromHolder::Taken { taken, away_ms });
        connection.begin(self.waiting.len(), recorded);
        match self.spool.after(received) {
            Ok(position) => connection.position = position,
            Err(error) => {
                tracing::error!(%error, "the spool cannot be read");
                self.away_since = Instant::now();
                return;
            }
        }
        self.daemon = Some(connection);
        let unanswered = self.business.unanswered(received);
        self.keep(unanswered.into_iter());
    }

    fn hear(&mut self, message: io::Result<Option<ToHolder>>) {
        match message {
            Ok(Some(ToHolder::Instruct(instruction))) => {
                let is_new = self.business.instruct(&instruction);
                self.look_for_rest();
                if is_new {
                    self.waiting.push_back(instruction);
                }
                if self.waiting.len() > WAITING {
                    tracing::warn!("the daemon sends more instructions than it may");
                    self.lost();
                }
            }
            Ok(Some(ToHolder::Recorded(reports))) => {
                // The first commit of a daemon also holds the later deadlines.
                if self.daemon.as_ref().is_some_and(|daemon| reports > daemon.recorded_before) {
                    self.away_untold = Duration::ZERO;
                }
                self.recorded(reports);
            }
            Ok(Some(ToHolder::Stop {})) => self.stop("the daemon asked the agent to stop"),
            Ok(Some(ToHolder::Kill {})) => self.kill(),
            Ok(Some(ToHolder::Hello { .. } | ToHolder::Launch(_) | ToHolder::Take { .. })) => {
                tracing::warn!("the daemon sent a message that it may send only at first");
                self.lost();
            }
            Ok(None) => self.lost(),
            Err(error) => {
                tracing::warn!(%error, "the connection of the daemon failed");
                self.lost();
            }
        }
    }

    fn recorded(&mut self, reports: u64) {
        let reports = reports.min(self.spool.last());
        self.business.recorded(reports);
        if let Err(error) = self.spool.recorded(reports) {
            tracing::warn!(%error, "the spool could not be shortened");
        }
    }

    /// The daemon's connection is gone.
    fn lost(&mut self) {
        if self.daemon.take().is_some() {
            self.away_since = Instant::now();
        }
    }

    fn status_now(&self) -> Status {
        Status {
            idle: self.business.is_idle(),
            connected: self.daemon.is_some(),
            reports: self.spool.last(),
            unrecorded_bytes: self.spool.unrecorded(),
            ..self.status.clone()
        }
    }
}

fn warning(text: String) -> Report {
    Report::Event { event: Event::Notice { level: Level::Warning, text }, raw: None }
}

/// The item and the text of a piece.
fn delta(report: &Report) -> Option<(String, String)> {
    match report {
        Report::Event { event: Event::Delta { item, text }, raw: None } => Some((item.clone(), text.clone())),
        _ => None,
    }
}

async fn receive(reports: Option<&mut mpsc::Receiver<Report>>, into: &mut Vec<Report>) -> usize {
    match reports {
        Some(reports) => reports.recv_many(into, BATCH).await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
