//! The relay: what a session says and hears, over the connection to its agent's holder.
//!
//! The holder keeps what is not recorded, and the session counts reports, so the relay may lose its connection at any
//! moment. If the holder itself is dead, the relay reads the spool to its end before the session learns of the end.

use std::{collections::VecDeque, io, time::Duration};

use bytes::BytesMut;
use portolan_core::{
    Event, Generation, SessionId,
    event::{Exit, ExitReason, Level},
    ports::{Instruction, Launch, Report},
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

use crate::{
    connect::Connection,
    frames::{Frame, FromHolder, Launching, ToHolder, WINDOW, put_message},
    held::Holders,
    lock::Lock,
    place::{Place, Process, remark_about},
    spool::{Left, Next},
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

/// The end of a dead holder's own log that its session gets.
const LOG_TAIL: usize = 4096;

/// The session's queues, seen from the agent's side.
#[derive(Debug)]
pub(crate) struct SessionSide {
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) told: mpsc::Receiver<Instruction>,
    pub(crate) recorded: watch::Receiver<u64>,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
}

/// When a holder died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// While this daemon was connected to it.
    UnderDaemon,
    /// While no daemon ran.
    WithoutDaemon,
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

/// What became of a frame.
enum Heard {
    Taken,
    /// The session's queue has no room for this report yet.
    Full(Box<Report>),
    Over(Over),
}

#[derive(Debug)]
pub(crate) struct Relay {
    holders: Holders,
    session: SessionId,
    generation: Generation,
    side: SessionSide,
    /// The number of the last report that the session got.
    received: u64,
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
        let unconfirmed = VecDeque::new();
        Self { holders, session, generation, side, received, unconfirmed, has_exited: false }
    }

    /// Starts a holder, and relays until the end.
    pub(crate) async fn start(mut self, launch: Launch, place: Place) {
        match self.launch(launch, place).await {
            Ok(connection) => self.go_on(connection).await,
            Err(error) => {
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
        let launching = Launching { launch, context, linger: settings.linger, tmux: started.tmux, remark };
        connection.become_daemon(&ToHolder::Launch(Box::new(launching))).await?;
        Ok(connection)
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
        let mut pending: Option<Report> = None;
        let (mut more_told, mut is_watched, mut stops, mut kills) = (true, true, true, true);
        loop {
            let side = &mut self.side;
            let has_window = self.unconfirmed.len() < WINDOW;
            // Every arm is cancel-safe: an unfinished arm has no effect.
            let next = tokio::select! {
                room = side.reports.reserve(), if pending.is_some() => match (room, pending.take()) {
                    (Ok(room), Some(report)) => {
                        room.send(report);
                        Step::Done
                    }
                    _ => Step::SessionLeft,
                },
                () = side.reports.closed(), if pending.is_none() => Step::SessionLeft,
                frame = reader.next::<FromHolder>(), if pending.is_none() => Step::Heard(frame),
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
                        match self.hear(frame) {
                            Heard::Full(report) => {
                                pending = Some(*report);
                                break;
                            }
                            Heard::Taken => {}
                            Heard::Over(over) => return over,
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

    fn hear(&mut self, frame: io::Result<Option<Frame<FromHolder>>>) -> Heard {
        match frame {
            Ok(Some(Frame::Report(number, report))) => {
                self.received = number;
                self.has_exited |= matches!(report, Report::Exited(_));
                match self.side.reports.try_send(report) {
                    Ok(()) => Heard::Taken,
                    // A closed queue is noticed at the next wait.
                    Err(TrySendError::Full(report) | TrySendError::Closed(report)) => {
                        Heard::Full(Box::new(report))
                    }
                }
            }
            Ok(Some(Frame::Message(FromHolder::Passed(_)))) => {
                self.unconfirmed.pop_front();
                Heard::Taken
            }
            Ok(Some(Frame::Message(other))) => {
                tracing::debug!(?other, "a holder said something unexpected");
                Heard::Taken
            }
            Ok(None) if self.has_exited => Heard::Over(Over::Finished),
            Ok(None) => Heard::Over(Over::Lost),
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "the connection to a holder failed");
                Heard::Over(if self.has_exited { Over::Finished } else { Over::Lost })
            }
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
        let mut tries = 0;
        loop {
            match holders.lock_within(self.session, DYING).await {
                Ok(Some(lock)) => return Err(lock),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(session = %self.session, %error, "the lock of a holder cannot be read");
                }
            }
            match self.take_again().await {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "the daemon cannot connect to a holder again");
                }
            }
            tries += 1;
            if tries >= TRIES {
                tracing::error!(session = %self.session, "a holder that cannot be reached is ended");
                if let Ok(lock) = holders.end(self.session, Duration::ZERO).await {
                    return Err(lock);
                }
            }
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
        };
        let taken = connection.become_daemon(&wish).await?;
        self.unconfirmed.retain(|instruction| !taken.instructions.contains(&instruction.id));
        for instruction in &self.unconfirmed {
            connection.send(&ToHolder::Instruct(instruction.clone())).await?;
        }
        Ok(connection)
    }

    // -------------------------------------------------------------------------------------- the end

    /// The holder is dead, and this process has its lock: gives the session the rest of the reports, then the end.
    pub(crate) async fn bury(mut self, lock: Lock, ended: Ended) {
        self.holders.sweep(self.session).await;
        let spool = self.holders.run().spool(self.session);
        if let Some(mut left) = Left::open(&spool, self.generation, self.received) {
            loop {
                let report = match left.next() {
                    Next::Report(report) => *report,
                    Next::Gap { missing } => missing_notice(Some(missing)),
                    Next::Damaged => missing_notice(None),
                    Next::End => break,
                };
                self.has_exited |= matches!(report, Report::Exited(_));
                self.received = left.number().max(self.received);
                if self.side.reports.send(report).await.is_err() {
                    // The session is gone; the next daemon reads the rest.
                    return;
                }
                if self.has_exited {
                    break;
                }
            }
        }
        let last = self.received;
        if !self.has_exited {
            let (reason, message) = match ended {
                Ended::UnderDaemon => {
                    (ExitReason::Failed, "the process that held the agent ended unexpectedly")
                }
                Ended::WithoutDaemon => (ExitReason::DaemonGone, "the agent ended while no daemon ran"),
            };
            let said = self.log_tail();
            self.exit(reason, message.to_owned(), said).await;
        }
        let all = self.side.recorded.wait_for(|recorded| *recorded >= last);
        if timeout(LAST_RECORD, all).await.is_ok_and(|recorded| recorded.is_ok()) {
            self.holders.clear(self.session);
        }
        drop(lock);
    }

    async fn exit(&mut self, reason: ExitReason, message: String, stderr: String) {
        let exit = Exit { reason, code: None, signal: None, message, stderr };
        self.has_exited = true;
        // The session may be gone.
        let _ = self.side.reports.send(Report::Exited(exit)).await;
    }

    /// The end of what the holder wrote about itself.
    fn log_tail(&self) -> String {
        let log = std::fs::read(self.holders.run().log(self.session)).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

fn missing_notice(missing: Option<u64>) -> Report {
    let text = match missing {
        Some(missing) => {
            format!("{missing} reports of the agent are missing here: they were lost on the disk")
        }
        None => "the last reports of the agent cannot be read: the holder ended while it wrote them".into(),
    };
    Report::Event { event: Event::Notice { level: Level::Warning, text }, raw: None }
}

fn put(out: &mut BytesMut, message: &ToHolder) {
    if let Err(error) = put_message(out, message) {
        tracing::error!(%error, "a message to a holder cannot be written");
    }
}
