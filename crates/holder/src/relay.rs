//! The relay: what a session says and hears, over the connection to its agent's holder.
//!
//! The holder keeps what is not recorded, and the session counts reports, so the relay may lose its connection at any
//! moment. If the holder itself is dead, the relay reads the spool to its end before the session learns of the end.

mod ending;

use std::{collections::VecDeque, io, time::Duration};

use bytes::BytesMut;
use portolan_core::{
    Generation, SessionId,
    event::ExitReason,
    ports::{Instruction, InstructionId, Launch, Report},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::OwnedWriteHalf,
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::ending::Ended;
use crate::{
    connect::Connection,
    frames::{Frame, FromHolder, Launching, ToHolder, WINDOW, put_message},
    held::Holders,
    lock::Lock,
    place::{Place, Process, remark_about},
};

/// How long a holder may take from its start until it answers. It takes milliseconds, unless the machine is overloaded.
const STARTING: Duration = Duration::from_secs(20);

/// Between two tries to reach a holder that is starting.
const BETWEEN: Duration = Duration::from_millis(2);

/// A connection that ended although the holder lives is made again this many times.
const TRIES: usize = 3;

/// How long the holder of a lost connection may take to release its lock: it writes its last reports.
const DYING: Duration = Duration::from_secs(5);

/// How long the last acknowledgement may take. The spool keeps the reports in any case.
const LAST_RECORD: Duration = Duration::from_secs(10);

/// A holder that lives is asked first whether it takes its daemon back: a dead one releases its lock at once.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The session's queues, seen from the agent's side.
#[derive(Debug)]
pub(crate) struct SessionSide {
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) told: mpsc::Receiver<Instruction>,
    pub(crate) recorded: watch::Receiver<u64>,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
}

/// Why a connection is over.
#[derive(Debug)]
enum Over {
    /// The session wants no more reports. The agent goes on.
    SessionLeft,
    /// The agent has ended, and everything is recorded.
    Finished,
    /// The holder closed the connection, or is dead.
    Lost,
}

/// What happened at the connection.
enum Step {
    /// It is dealt with.
    Done,
    SessionLeft,
    Told(Option<Instruction>),
    Heard(io::Result<Option<Frame<FromHolder>>>),
}

#[derive(Debug)]
pub(crate) struct Relay {
    holders: Holders,
    session: SessionId,
    generation: Generation,
    side: SessionSide,
    /// The number of the last report that the session got.
    received: u64,
    /// Reports for which the session's queue had no room yet.
    pending: VecDeque<Report>,
    /// Instructions that went to the holder, which has not passed them on yet.
    unconfirmed: VecDeque<Instruction>,
    has_exited: bool,
}

impl Relay {
    pub(crate) fn new(
        holders: Holders,
        session: SessionId,
        generation: Generation,
        side: SessionSide,
        received: u64,
    ) -> Self {
        let (pending, unconfirmed) = (VecDeque::new(), VecDeque::new());
        Self { holders, session, generation, side, received, pending, unconfirmed, has_exited: false }
    }

    /// Starts a holder, and relays until the end.
    pub(crate) async fn start(mut self, launch: Launch, place: Place) {
        match self.launch(launch, place).await {
            Ok(connection) => self.go_on(connection).await,
            Err(error) => {
                // The agent may have begun before the error.
                if let Ok(_lock) = self.holders.end(self.session, Duration::ZERO).await {
                    self.holders.clear(self.session);
                }
                let message = format!("the process that holds the agent could not be started: {error}");
                self.exit(ExitReason::NotStarted, message, String::new()).await;
            }
        }
    }

    /// Relays over this connection until the end.
    pub(crate) async fn go_on(mut self, mut connection: Connection) {
        loop {
            match self.relay(connection).await {
                Over::SessionLeft | Over::Finished => return,
                Over::Lost => {}
            }
            match self.connect_again().await {
                Ok(again) => connection = again,
                Err(lock) => return self.bury(lock, Ended::UnderDaemon).await,
            }
        }
    }

    // ------------------------------------------------------------------------------------ the start

    async fn launch(&self, launch: Launch, place: Place) -> io::Result<Connection> {
        let (holders, session) = (&self.holders, self.session);
        let settings = holders.settings();
        holders.run().make()?;
        // Never two agents for one conversation: the holder of an earlier start must be gone, whoever started it.
        if Lock::is_held(&holders.run().lock(session)) {
            tracing::warn!(%session, "an earlier holder still lives, and is ended");
            let _lock = holders.end(session, Duration::ZERO).await?;
            holders.clear(session);
        }
        holders.adopt(session);
        let name = launch.spec.name.clone().unwrap_or_else(|| launch.spec.agent.clone());
        let mut started = place.start(holders.run(), &settings.program, session, &name).await?;
        let mut connection = self.first_connection(started.process.take()).await?;
        let remark = started.remark.or_else(|| remark_about(connection.status.holder_pid));
        let context = settings.context.clone();
        let (linger, tmux, incarnation) = (settings.linger, started.tmux, settings.incarnation.clone());
        let launching = Launching { launch, context, linger, tmux, remark, incarnation };
        match connection.become_daemon(&ToHolder::Launch(Box::new(launching))).await {
            Ok(_) => Ok(connection),
            Err(error) => Err(io::Error::other(format!("{error} {}", self.log_tail()).trim().to_owned())),
        }
    }

    async fn first_connection(&self, mut process: Option<Process>) -> io::Result<Connection> {
        let (run, version) = (self.holders.run(), &self.holders.settings().version);
        let deadline = Instant::now() + STARTING;
        loop {
            if run.socket(self.session).exists() {
                match Connection::open(run, self.session, version).await {
                    Ok(connection) if connection.status.generation.is_none() => return Ok(connection),
                    Ok(_) => return Err(io::Error::other("another holder has this session")),
                    // The socket of an earlier holder, until the new one has replaced it.
                    Err(_) => {}
                }
            }
            if let Some(ended) = process.as_mut().filter(|process| process.is_finished()) {
                let status = ended.await.map_err(io::Error::other)??;
                let said = self.log_tail();
                return Err(io::Error::other(format!("it ended at once ({status}): {}", said.trim())));
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
            }
            sleep(BETWEEN).await;
        }
    }

    // ------------------------------------------------------------------------------------- the work

    async fn relay(&mut self, connection: Connection) -> Over {
        let Connection { mut reader, mut writer, .. } = connection;
        let mut out = BytesMut::new();
        let (mut more_told, mut is_watched, mut stops, mut kills) = (true, true, true, true);
        loop {
            let Self { side, pending, .. } = self;
            let has_window = self.unconfirmed.len() < WINDOW;
            // Every arm is cancel-safe: an unfinished arm has no effect.
            let next = tokio::select! {
                room = side.reports.reserve(), if !pending.is_empty() => match (room, pending.pop_front()) {
                    (Ok(room), Some(report)) => {
                        room.send(report);
                        Step::Done
                    }
                    _ => Step::SessionLeft,
                },
                () = side.reports.closed(), if pending.is_empty() => Step::SessionLeft,
                frame = reader.next::<FromHolder>(), if pending.is_empty() => Step::Heard(frame),
                instruction = side.told.recv(), if more_told && has_window => Step::Told(instruction),
                changed = side.recorded.changed(), if is_watched => {
                    is_watched = changed.is_ok();
                    put(&mut out, &ToHolder::Recorded(*side.recorded.borrow_and_update()));
                    Step::Done
                }
                written = writer.write_buf(&mut out), if !out.is_empty() => {
                    if !matches!(written, Ok(1..)) {
                        // What the holder wrote before its end may still be read.
                        out.clear();
                    }
                    Step::Done
                }
                () = side.stop.cancelled(), if stops => {
                    stops = false;
                    put(&mut out, &ToHolder::Stop {});
                    Step::Done
                }
                () = side.kill.cancelled(), if kills => {
                    kills = false;
                    put(&mut out, &ToHolder::Kill {});
                    Step::Done
                }
            };
            match next {
                Step::Done => {}
                Step::SessionLeft => return self.leave(&mut writer, out).await,
                Step::Told(Some(instruction)) => {
                    put(&mut out, &ToHolder::Instruct(instruction.clone()));
                    self.unconfirmed.push_back(instruction);
                }
                Step::Told(None) => more_told = false,
                Step::Heard(first) => {
                    let mut frame = first;
                    loop {
                        if let Some(over) = self.hear(frame) {
                            return over;
                        }
                        if !self.pending.is_empty() {
                            break;
                        }
                        match reader.ready() {
                            Ok(None) => break,
                            next => frame = next,
                        }
                    }
                }
            }
        }
    }

    /// Takes a frame. `Some`: the connection is over.
    fn hear(&mut self, frame: io::Result<Option<Frame<FromHolder>>>) -> Option<Over> {
        match frame {
            Ok(Some(Frame::Report(number, report))) => {
                // The session has this one already.
                if number <= self.received {
                    return None;
                }
                self.miss(number - 1);
                self.received = number;
                self.has_exited |= matches!(report, Report::Exited(_));
                self.pass_on(report);
            }
            Ok(Some(Frame::Unreadable(Some(number)))) => self.miss(number),
            // The next report shows what is missing.
            Ok(Some(Frame::Unreadable(None))) => {}
            Ok(Some(Frame::Message(FromHolder::Passed(_)))) => {
                self.unconfirmed.pop_front();
            }
            Ok(Some(Frame::Message(other))) => {
                tracing::debug!(?other, "a holder said something unexpected");
            }
            Ok(None) if self.has_exited => return Some(Over::Finished),
            Ok(None) => return Some(Over::Lost),
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "the connection to a holder failed");
                return Some(if self.has_exited { Over::Finished } else { Over::Lost });
            }
        }
        None
    }

    /// The reports up to this number are missing, if they did not come.
    fn miss(&mut self, up_to: u64) {
        let reports = up_to.saturating_sub(self.received);
        if reports > 0 {
            self.received = up_to;
            self.pass_on(Report::Missing { reports });
        }
    }

    /// Gives the session a report, now or as soon as there is room.
    fn pass_on(&mut self, report: Report) {
        if !self.pending.is_empty() {
            self.pending.push_back(report);
            return;
        }
        // A closed queue is noticed at the next wait.
        if let Err(TrySendError::Full(report) | TrySendError::Closed(report)) =
            self.side.reports.try_send(report)
        {
            self.pending.push_back(report);
        }
    }

    /// The session takes no more reports. Tells the holder what is recorded.
    async fn leave(&mut self, writer: &mut OwnedWriteHalf, mut out: BytesMut) -> Over {
        if self.has_exited {
            // The commit with the last report may be on its way.
            let all = self.side.recorded.wait_for(|recorded| *recorded >= self.received);
            let _ = timeout(LAST_RECORD, all).await;
        }
        put(&mut out, &ToHolder::Recorded(*self.side.recorded.borrow()));
        // The holder may be gone.
        let _ = timeout(DYING, writer.write_all(&out)).await;
        if self.has_exited { Over::Finished } else { Over::SessionLeft }
    }

    /// Connects again if the holder lives; else the session's lock.
    async fn connect_again(&mut self) -> Result<Connection, Lock> {
        let holders = self.holders.clone();
        let kill = self.side.kill.clone();
        let mut tries = 0;
        loop {
            let patience = if tries == 0 { AT_ONCE } else { DYING };
            let free = tokio::select! {
                free = holders.lock_within(self.session, patience) => free,
                () = kill.cancelled() => Ok(None),
            };
            match free {
                Ok(Some(lock)) => return Err(lock),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(session = %self.session, %error, "the lock of a holder cannot be read");
                }
            }
            if kill.is_cancelled() || tries >= TRIES {
                tracing::error!(session = %self.session, "a holder that cannot be reached is ended");
                match holders.end(self.session, Duration::ZERO).await {
                    Ok(lock) => return Err(lock),
                    // Not even SIGKILL ends it: it waits for a disk.
                    Err(_) => sleep(DYING).await,
                }
            }
            match self.take_again().await {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "the daemon cannot connect to a holder again");
                }
            }
            tries += 1;
        }
    }

    async fn take_again(&mut self) -> io::Result<Connection> {
        let run = self.holders.run();
        let mut connection = Connection::open(run, self.session, &self.holders.settings().version).await?;
        let wish = ToHolder::Take {
            generation: self.generation,
            recorded: *self.side.recorded.borrow(),
            received: self.received,
            unsettled: self.unconfirmed.iter().map(|instruction| instruction.id).collect(),
            incarnation: self.holders.settings().incarnation.clone(),
        };
        let taken = connection.become_daemon(&wish).await?;
        // Nobody knows whether an instruction without an id has arrived. It must not reach the agent twice: the agent
        // asks again for what it waits for, and a late interrupt would hit the next turn.
        let is_new = |id| id != InstructionId::UNRECORDED && !taken.instructions.contains(&id);
        self.unconfirmed.retain(|instruction| is_new(instruction.id));
        for instruction in &self.unconfirmed {
            connection.send(&ToHolder::Instruct(instruction.clone())).await?;
        }
        Ok(connection)
    }
}

fn put(out: &mut BytesMut, message: &ToHolder) {
    if let Err(error) = put_message(out, message) {
        tracing::error!(%error, "a message to a holder cannot be written");
    }
}
