//! A holder in a thread of its own, with an agent that the test plays. Killing the thread closes the holder's lock and
//! sockets, as the end of its process would.

mod faults;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use portolan_core::{
    Capabilities, Event, Generation, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{Content, Exit, ExitReason, TurnOrigin, TurnOutcome, TurnResult},
    ports::{
        Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, InstructionId, Launch, LeftRunning, Order, Probe,
        REPORTS, Rejoined, Report,
    },
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Holders, Linger, Place, RunFolder, Settings, State,
    connect::Connection,
    frames::{Launching, PROTOCOL, ToHolder},
    hold::{Hold, hold},
    lock::{Attempt, Lock},
    relay::{Relay, SessionSide},
};

const KEY: &str = "a-key-of-no-home";

/// What the test says and hears as the agent.
#[derive(Clone, Debug, Default)]
struct Played {
    told: Arc<Mutex<Vec<Instruction>>>,
    reporter: Arc<Mutex<Option<mpsc::Sender<Report>>>>,
    starts: Arc<Mutex<usize>>,
    /// It does not stop when it is asked to.
    stubborn: bool,
    kill: Arc<Mutex<Option<tokio_util::sync::CancellationToken>>>,
}

impl Played {
    fn start(&self) -> AgentLink {
        let (instructions, mut told) = mpsc::channel::<Instruction>(INSTRUCTIONS);
        let (reporter, reports) = mpsc::channel(REPORTS);
        let link = AgentLink::new(instructions, reports);
        *self.reporter.lock().unwrap() = Some(reporter.clone());
        *self.starts.lock().unwrap() += 1;
        let (heard, stop, kill) = (Arc::clone(&self.told), link.stop.clone(), link.kill.clone());
        let stubborn = self.stubborn;
        *self.kill.lock().unwrap() = Some(kill.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    instruction = told.recv() => match instruction {
                        Some(instruction) => {
                            let id = instruction.id;
                            heard.lock().unwrap().push(instruction);
                            let _ = reporter.send(Report::Delivered(id)).await;
                        }
                        None => return,
                    },
                    () = stop.cancelled(), if !stubborn => break,
                    () = kill.cancelled() => break,
                }
            }
            let _ = reporter.send(Report::Exited(exit(ExitReason::Stopped, "stopped"))).await;
        });
        link
    }

    async fn say(&self, report: Report) {
        let reporter = self.reporter.lock().unwrap().clone().unwrap();
        reporter.send(report).await.unwrap();
    }

    async fn ready(&self) {
        let started = Report::Started {
            holder: None,
            pid: Some(4242),
            version: None,
            protocol: NativeProtocol::Demo,
            capabilities: Box::default(),
        };
        self.say(started).await;
        self.say(Report::Ready).await;
    }

    fn told(&self) -> Vec<u64> {
        self.told.lock().unwrap().iter().map(|instruction| instruction.id.0).collect()
    }
}

fn exit(reason: ExitReason, message: &str) -> Exit {
    Exit { reason, code: None, signal: None, message: message.into(), stderr: String::new() }
}

/// A holder that runs in a thread.
struct Thread {
    killed: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Thread {
    /// Ends it as `kill -9` would.
    fn kill(mut self) {
        drop(self.killed.take());
        self.thread.take().unwrap().join().unwrap();
    }

    /// Waits until it ends by itself.
    async fn ended(mut self) {
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}

struct Rig {
    _folder: tempfile::TempDir,
    run: RunFolder,
    session: SessionId,
    played: Played,
    holders: Holders,
    linger: Linger,
}

/// An agent kind that only a holder starts.
#[derive(Debug)]
struct Kind;

impl Agent for Kind {
    fn kind(&self) -> &'static str {
        "played"
    }
    fn title(&self) -> String {
        "Played".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async { Probe::default() })
    }
    fn start(&self, _: Launch) -> AgentLink {
        panic!("only a holder starts the agent")
    }
}

impl Rig {
    fn new() -> Self {
        Self::with(Linger::default())
    }

    fn with(linger: Linger) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::at(folder.path().join("run"));
        run.make().unwrap();
        let holders = Holders::new(Settings {
            run: run.clone(),
            home_key: KEY.into(),
            version: "1".into(),
            program: vec!["/nonexistent/program".into()],
            context: serde_json::Value::Null,
            linger,
            incarnation: "first".into(),
        });
        let (session, played) = (SessionId::new(), Played::default());
        Self { _folder: folder, run, session, played, holders, linger }
    }

    /// Starts a holder, as the daemon does with a process.
    fn holder(&self) -> Thread {
        let (killed, kill) = oneshot::channel::<()>();
        let (run, session, played) = (self.run.clone(), self.session, self.played.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let hold =
                    hold(Hold { run, session, home_key: KEY.into(), version: "1".into() }, move |_, _| {
                        Ok(played.start())
                    });
                tokio::select! {
                    held = hold => held.unwrap(),
                    _ = kill => {}
                }
            });
            runtime.shutdown_background();
        });
        Thread { killed: Some(killed), thread: Some(thread) }
    }

    async fn connect(&self) -> Connection {
        loop {
            if let Ok(connection) = Connection::open(&self.run, self.session, "1").await {
                return connection;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What a daemon launches the agent with.
    fn launching(&self) -> ToHolder {
        let launch = Launch {
            session: self.session,
            generation: Generation(1),
            spec: Arc::new(SessionSpec { agent: "played".into(), ..SessionSpec::default() }),
            resume: None,
        };
        ToHolder::Launch(Box::new(Launching {
            launch,
            context: serde_json::Value::Null,
            linger: self.linger,
            tmux: None,
            remark: None,
            incarnation: "first".into(),
        }))
    }

    /// Launches the agent as a daemon does. Returns the daemon's end.
    async fn launch(&self) -> AgentLink {
        let mut connection = self.connect().await;
        connection.become_daemon(&self.launching()).await.unwrap();
        self.holders.adopt(self.session);
        let (link, side) = queues(0);
        let relay = Relay::new(self.holders.clone(), self.session, Generation(1), side, 0);
        tokio::spawn(relay.go_on(connection));
        link
    }

    /// A new daemon that has recorded so many reports.
    async fn rejoin(&self, recorded: u64, unsettled: &[u64]) -> Option<Rejoined> {
        let unsettled = unsettled.iter().map(|id| InstructionId(*id)).collect();
        let left = LeftRunning { session: self.session, generation: Generation(1), recorded, unsettled };
        self.holders.held(Arc::new(Kind), Place::Holder).rejoin(left).await
    }

    async fn status(&self) -> crate::Status {
        loop {
            // A holder on a busy machine may need longer than a person would wait.
            if let Some(status) = self.holders.status(self.session).await {
                return status;
            }
        }
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.run.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn queues(recorded: u64) -> (AgentLink, SessionSide) {
    let (instructions, told) = mpsc::channel(INSTRUCTIONS);
    let (reporter, reports) = mpsc::channel(REPORTS);
    let (recorder, recorded) = watch::channel(recorded);
    let mut link = AgentLink::new(instructions, reports);
    link.recorded = Some(recorder);
    let (stop, kill) = (link.stop.clone(), link.kill.clone());
    (link, SessionSide { reports: reporter, told, recorded, stop, kill })
}

fn text(item: &str, text: &str) -> Report {
    Report::Event { event: Event::Delta { item: item.into(), text: text.into() }, raw: None }
}

fn notice(text: &str) -> Report {
    let event = Event::Notice { level: portolan_core::event::Level::Info, text: text.into() };
    Report::Event { event, raw: Some(Bytes::from_static(b"\xff as it came\n")) }
}

fn prompt(id: u64) -> Instruction {
    Instruction { id: InstructionId(id), order: Order::Prompt { content: vec![Content::text("go")] } }
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The next reports, up to one that fits.
async fn reports(link: &mut AgentLink, last: impl Fn(&Report) -> bool) -> Vec<Report> {
    let mut all = Vec::new();
    loop {
        let report = link.reports.recv().await.expect("the last report is the exit");
        let is_last = last(&report);
        all.push(report);
        if is_last {
            return all;
        }
    }
}

fn is_notice(wanted: &str) -> impl Fn(&Report) -> bool {
    move |report| matches!(report, Report::Event { event: Event::Notice { text, .. }, .. } if text == wanted)
}

// covers: 003-158
#[tokio::test]
async fn reports_that_no_daemon_recorded_are_given_to_the_next_daemon() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(notice("one")).await;
    rig.played.say(notice("two")).await;
    let seen = reports(&mut link, is_notice("two")).await;
    assert_eq!(seen.len(), 4);
    // The daemon recorded three of the four, and is gone.
    link.recorded.as_ref().unwrap().send_replace(3);
    drop(link);
    until_alone(&rig).await;
    rig.played.say(notice("three")).await;
    let mut rejoined = rig.rejoin(3, &[]).await.unwrap();
    let rest = reports(&mut rejoined.link, is_notice("three")).await;
    assert_eq!(rest, [notice("two"), notice("three")], "each once, with the agent's original bytes");
    rejoined.link.recorded.as_ref().unwrap().send_replace(5);
    rejoined.link.stop.cancel();
    let end = reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    assert_eq!(end.len(), 1);
    rejoined.link.recorded.as_ref().unwrap().send_replace(6);
    holder.ended().await;
    assert_eq!(rig.files(), [""; 0], "everything is recorded, so nothing is left");
}

async fn until_alone(rig: &Rig) {
    while rig.status().await.connected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_instruction_is_taken_once_however_often_daemons_come() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    link.instructions.send(prompt(7)).await.unwrap();
    reports(&mut link, |report| *report == Report::Delivered(InstructionId(7))).await;
    link.recorded.as_ref().unwrap().send_replace(2);
    drop(link);
    until_alone(&rig).await;
    // The daemon stored 7 and 8 before it was killed; 8 never left it.
    let rejoined = rig.rejoin(2, &[7, 8]).await.unwrap();
    assert_eq!(rejoined.taken, [InstructionId(7)].into());
    rejoined.link.instructions.send(prompt(7)).await.unwrap();
    rejoined.link.instructions.send(prompt(8)).await.unwrap();
    until(|| rig.played.told().contains(&8)).await;
    assert_eq!(rig.played.told(), [7, 8]);
    holder.kill();
}

#[tokio::test]
async fn an_instruction_unread_in_the_old_socket_is_not_taken() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut old = rig.connect().await;
    old.become_daemon(&rig.launching()).await.unwrap();
    // Half a frame: a daemon that was killed while it wrote.
    let mut frame = bytes::BytesMut::new();
    crate::frames::put_message(&mut frame, &ToHolder::Instruct(prompt(3))).unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut old.writer, &frame[..frame.len() - 1]).await.unwrap();
    let rejoined = rig.rejoin(0, &[3]).await.unwrap();
    assert_eq!(rejoined.taken, [].into());
    // What the old daemon still writes goes nowhere.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut old.writer, &frame[frame.len() - 1..]).await;
    rejoined.link.instructions.send(prompt(3)).await.unwrap();
    until(|| !rig.played.told().is_empty()).await;
    rejoined.link.instructions.send(prompt(4)).await.unwrap();
    until(|| rig.played.told().contains(&4)).await;
    assert_eq!(rig.played.told(), [3, 4]);
    holder.kill();
}

#[tokio::test]
async fn a_connection_that_only_asks_does_not_displace_the_daemon() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    for _ in 0..20 {
        let status = rig.status().await;
        assert!(status.connected, "{status:?}");
    }
    rig.played.say(notice("still here")).await;
    reports(&mut link, is_notice("still here")).await;
    let status = rig.status().await;
    assert_eq!(
        (status.state, status.agent_pid, status.generation),
        (State::Running, Some(4242), Some(Generation(1)))
    );
    holder.kill();
}

#[tokio::test]
async fn the_spool_of_a_dead_holder_is_read_to_its_end_before_the_agents_end_is_reported() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(notice("seen")).await;
    reports(&mut link, is_notice("seen")).await;
    link.recorded.as_ref().unwrap().send_replace(2);
    drop(link);
    until_alone(&rig).await;
    rig.played.say(notice("unseen")).await;
    while rig.status().await.reports < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    holder.kill();
    let mut rejoined = rig.rejoin(2, &[9]).await.unwrap();
    assert_eq!(rejoined.taken, [InstructionId(9)].into(), "nobody knows, so the agent's end settles it");
    let rest = reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    let end = Report::Exited(exit(ExitReason::DaemonGone, "the agent ended while no daemon ran"));
    assert_eq!(rest, [notice("seen"), notice("unseen"), end]);
    rejoined.link.recorded.as_ref().unwrap().send_replace(4);
    until(|| rig.files().is_empty()).await;
    assert!(rig.rejoin(4, &[]).await.is_none(), "nothing is left of it");
}

#[tokio::test]
async fn the_death_of_a_holder_under_a_daemon_ends_the_agent_with_everything_it_reported() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(notice("seen")).await;
    reports(&mut link, is_notice("seen")).await;
    holder.kill();
    let rest = reports(&mut link, |report| matches!(report, Report::Exited(_))).await;
    let why = "the process that held the agent ended unexpectedly";
    assert_eq!(rest, [Report::Exited(exit(ExitReason::Failed, why))]);
}

#[tokio::test]
async fn pieces_of_text_are_merged_only_while_no_connection_has_them() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(text("t", "a")).await;
    reports(&mut link, |report| *report == text("t", "a")).await;
    link.recorded.as_ref().unwrap().send_replace(2);
    drop(link);
    until_alone(&rig).await;
    for piece in ["b", "c", "d"] {
        rig.played.say(text("t", piece)).await;
    }
    rig.played.say(text("u", "e")).await;
    rig.played.say(notice("end")).await;
    let mut rejoined = rig.rejoin(2, &[]).await.unwrap();
    let rest = reports(&mut rejoined.link, is_notice("end")).await;
    assert_eq!(rest, [text("t", "a"), text("t", "bcd"), text("u", "e"), notice("end")]);
    holder.kill();
}

#[tokio::test]
async fn a_full_spool_makes_the_agent_wait_and_loses_nothing() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    until_alone(&rig).await;
    let sent = Arc::new(Mutex::new(0_u64));
    let (agent, counter) = (rig.played.clone(), Arc::clone(&sent));
    let large = "x".repeat(1 << 20);
    let talking = tokio::spawn(async move {
        // Twice what the spool and the queue hold, in reports that cannot be merged.
        for number in 0..160 {
            agent.say(notice(&format!("{number} {large}"))).await;
            *counter.lock().unwrap() += 1;
        }
    });
    let mut bytes = 0;
    loop {
        let now = rig.status().await.unrecorded_bytes;
        if now == bytes && now >= 64 << 20 {
            break;
        }
        bytes = now;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A batch may go over the bound; what comes after it waits.
    assert!(bytes < (64 << 20) + (65 << 21), "{bytes}");
    let mut rejoined = rig.rejoin(2, &[]).await.unwrap();
    let mut count = 0;
    while count < 160 {
        match rejoined.link.reports.recv().await.unwrap() {
            Report::Event { event: Event::Notice { text, .. }, .. } => {
                assert!(text.starts_with(&format!("{count} ")), "{}", &text[..10]);
                count += 1;
                rejoined.link.recorded.as_ref().unwrap().send_replace(2 + count);
            }
            other => panic!("{other:?}"),
        }
    }
    talking.await.unwrap();
    holder.kill();
}

#[tokio::test]
async fn an_idle_agent_ends_without_a_daemon_and_a_busy_one_goes_on() {
    let linger = Linger { idle: Duration::from_millis(100), at_most: Duration::from_hours(1) };
    let rig = Rig::with(linger);
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(Report::TurnStarted { origin: TurnOrigin::Agent }).await;
    rig.played.say(notice("at work")).await;
    reports(&mut link, is_notice("at work")).await;
    // As long as a daemon is there, an agent may be idle.
    link.recorded.as_ref().unwrap().send_replace(4);
    drop(link);
    until_alone(&rig).await;
    tokio::time::sleep(3 * linger.idle).await;
    assert_eq!(rig.status().await.state, State::Running, "its turn runs");
    rig.played
        .say(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None })
        .await;
    holder.ended().await;
    let mut rejoined = rig.rejoin(4, &[]).await.unwrap();
    let rest = reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    assert!(matches!(rest[0], Report::TurnEnded { .. }), "{rest:?}");
    assert_eq!(
        rest.last(),
        Some(&Report::Exited(exit(ExitReason::Stopped, "stopped"))),
        "its own last report"
    );
}

#[tokio::test]
async fn every_agent_ends_when_its_time_without_a_daemon_is_over() {
    let at_most = Duration::from_millis(150);
    let rig = Rig::with(Linger { idle: Duration::from_hours(1), at_most });
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(Report::TurnStarted { origin: TurnOrigin::Agent }).await;
    reports(&mut link, |report| matches!(report, Report::TurnStarted { .. })).await;
    drop(link);
    holder.ended().await;
}

#[tokio::test]
async fn the_time_without_a_daemon_is_reported_to_the_next_one() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    until_alone(&rig).await;
    let away = Duration::from_millis(120);
    tokio::time::sleep(away).await;
    let rejoined = rig.rejoin(0, &[]).await.unwrap();
    assert!(rejoined.away >= away && rejoined.away < Duration::from_mins(1), "{:?}", rejoined.away);
    holder.kill();
}

#[tokio::test]
async fn a_holder_that_was_never_launched_is_ended_and_its_session_settled() {
    let rig = Rig::new();
    let holder = rig.holder();
    drop(rig.connect().await);
    assert!(rig.rejoin(0, &[]).await.is_none());
    holder.ended().await;
    assert_eq!(*rig.played.starts.lock().unwrap(), 0);
    assert_eq!(rig.files(), [""; 0]);
}

#[tokio::test]
async fn a_holder_of_another_start_of_the_agent_is_ended() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    let left =
        LeftRunning { session: rig.session, generation: Generation(2), recorded: 0, unsettled: Vec::new() };
    assert!(rig.holders.held(Arc::new(Kind), Place::Holder).rejoin(left).await.is_none());
    holder.ended().await;
}

#[tokio::test]
async fn a_second_holder_for_a_session_starts_no_agent() {
    let rig = Rig::new();
    let holder = rig.holder();
    let _link = rig.launch().await;
    rig.played.ready().await;
    let (run, session) = (rig.run.clone(), rig.session);
    let second = hold(Hold { run, session, home_key: KEY.into(), version: "1".into() }, |_, _| {
        panic!("never two agents for one session")
    });
    let refused = second.await.unwrap_err();
    assert_eq!(refused.to_string(), format!("another holder has the session `{session}`"));
    holder.kill();
}

#[tokio::test]
async fn agents_of_no_session_are_ended_and_files_of_dead_holders_removed() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    // Another daemon, which never heard of the session.
    let holders = Holders::new(rig.holders.settings().clone());
    assert_eq!(holders.living(), [rig.session].into());
    assert_eq!(holders.end_strays().await, [rig.session]);
    holder.ended().await;
    assert_eq!(rig.files(), [""; 0]);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_exit_with_the_reason() {
    let rig = Rig::new();
    let launch = Launch {
        session: rig.session,
        generation: Generation(1),
        spec: Arc::new(SessionSpec::default()),
        resume: None,
    };
    let mut link = rig.holders.held(Arc::new(Kind), Place::Holder).start(launch);
    let Some(Report::Exited(exit)) = link.reports.recv().await else { panic!("an exit") };
    assert_eq!(exit.reason, ExitReason::NotStarted);
    assert!(exit.message.contains("the process that holds the agent could not be started"), "{exit:?}");
}

#[tokio::test]
async fn a_stranger_message_of_a_newer_version_closes_only_its_own_connection() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    let mut other = rig.connect().await;
    let mut frame = bytes::BytesMut::new();
    crate::frames::put_message(&mut frame, &serde_json::json!({"sing": {"song": 1}})).unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut other.writer, &frame).await.unwrap();
    assert!(other.reader.next::<serde_json::Value>().await.unwrap().is_none(), "closed");
    rig.played.say(notice("unmoved")).await;
    reports(&mut link, is_notice("unmoved")).await;
    assert_eq!(rig.status().await.protocol, PROTOCOL);
    holder.kill();
}

#[test]
fn a_lock_belongs_to_one_and_is_free_after_its_file_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let ours = Lock::take(&path).unwrap().unwrap();
    assert!(matches!(Lock::attempt(&path).unwrap(), Attempt::Held));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), std::process::id().to_string());
    assert!(Lock::is_held(&path));
    std::fs::remove_file(&path).unwrap();
    assert!(!Lock::is_held(&path));
    let Attempt::Ours(new) = Lock::attempt(&path).unwrap() else { panic!("a new file") };
    drop(ours);
    assert!(Lock::is_held(&path), "the old lock's end does not free the new one");
    drop(new);
    assert!(!Lock::is_held(&path));
}
