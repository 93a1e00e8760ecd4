//! Agents that dial in: a connection that comes, goes and comes back. The process is real.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use portolan_core::{
    Capabilities, Event, Generation, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{ExitReason, Level},
    ports::{AgentLink, Instruction, InstructionId, Launch, Order, Report},
};
use serde_json::json;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Job, Output, Settles, Translator, Write,
    run::{Driver, Tokens},
    start,
};
use crate::{
    Supervision,
    child::{Child, Ladder, Program},
    dial_in::{Admitted, DialIn},
    link::{DialInLink, Outbound, PipeLink},
};

const SESSION: SessionId = SessionId::from_u128(9);

/// Longer than any test.
const LONG: Duration = Duration::from_mins(1);

/// Reports what happens to it.
struct Echo;

impl Translator for Echo {
    fn start(&mut self, out: &mut Output) {
        out.write(&json!("start"));
        out.ready();
    }
    fn line(&mut self, line: &str, out: &mut Output) {
        out.event(Event::Notice { level: Level::Info, text: line.to_owned() });
    }
    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        out.write_and_consume(instruction.id, &json!("instructed"));
    }
    fn link_restored(&mut self, out: &mut Output) {
        out.write(&json!("restored"));
    }
}

struct Session {
    link: AgentLink,
    dial_in: DialIn,
    secret: String,
}

fn supervision() -> Supervision {
    let path = std::env::var_os("PATH").unwrap();
    let mut supervision = Supervision::new("test", vec![("PATH".into(), path)]);
    supervision.ladder =
        Ladder { ask: Duration::from_millis(50), close: Duration::from_millis(50), ..Ladder::default() };
    supervision
}

/// A program that prints nothing and does nothing.
fn sleeper(supervision: &Supervision) -> Program {
    let environment = crate::environment(&supervision.environment, &indexmap::IndexMap::new()).unwrap();
    Program {
        agent: "echo".into(),
        command: vec!["sleep".into(), "600".into()],
        folder: PathBuf::new(),
        environment,
    }
}

fn session(link_down: Duration) -> Session {
    let dial_in = DialIn::new();
    dial_in.listens_at("ws://127.0.0.1:1");
    let expected = dial_in.expect(SESSION).unwrap();
    let secret = expected.secret.reveal().to_owned();
    let supervision = Supervision { link_down, ..supervision() };
    let program = sleeper(&supervision);
    let launch = Launch {
        session: SESSION,
        generation: Generation(1),
        spec: Arc::new(SessionSpec::default()),
        resume: None,
    };
    let job = Job {
        agent: "echo".into(),
        launch,
        program: Ok(program),
        link: Box::new(DialInLink::new(expected)),
        version: None,
        protocol: NativeProtocol::NdjsonWs,
        capabilities: Capabilities::default(),
        translator: Box::new(Echo),
        desk: None,
    };
    Session { link: start(job, Arc::new(supervision)), dial_in, secret }
}

impl Session {
    fn dial(&self) -> Admitted {
        self.dial_in.admit(SESSION, &self.secret).unwrap()
    }

    /// The next report that is not about the start.
    async fn report(&mut self) -> Report {
        loop {
            match self.link.reports.recv().await.unwrap() {
                Report::Started { .. } | Report::Ready => {}
                report => return report,
            }
        }
    }
}

fn notice(text: &str) -> Report {
    let event = Event::Notice { level: Level::Info, text: text.into() };
    Report::Event { event, raw: None }
}

async fn next(admitted: &mut Admitted) -> String {
    String::from_utf8(admitted.outgoing.frame().await.unwrap().to_vec()).unwrap()
}

// covers: 000-007, 000-008, 000-083
#[tokio::test]
async fn any_frames_are_read_line_by_line_and_each_sent_line_has_its_newline() {
    let mut session = session(LONG);
    let mut agent = session.dial();
    assert_eq!(next(&mut agent).await, "\"start\"\n");
    for frame in ["{\"a\":1}\n\n{\"b\":2}\n", "{\"c\"", ":3}\n"] {
        assert!(agent.incoming.frame(Bytes::from_static(frame.as_bytes())).await);
    }
    for text in ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"] {
        assert_eq!(session.report().await, notice(text));
    }
}

// covers: 000-004, 004-007
#[tokio::test]
async fn a_lost_connection_is_reported_and_waiting_messages_go_over_the_next() {
    let mut session = session(LONG);
    let mut agent = session.dial();
    assert_eq!(next(&mut agent).await, "\"start\"\n");
    // Half a line must not be joined to the next connection's first line.
    agent.incoming.frame(Bytes::from_static(b"{\"half\"")).await;
    drop(agent);
    assert!(matches!(session.report().await, Report::LinkLost { .. }));
    assert_eq!(session.report().await, notice("{\"half\""));
    let order = Order::Interrupt;
    session.link.instructions.send(Instruction { id: InstructionId(5), order }).await.unwrap();
    let mut agent = session.dial();
    assert_eq!(session.report().await, Report::LinkRestored);
    let mut lines = vec![next(&mut agent).await, next(&mut agent).await];
    lines.sort();
    assert_eq!(lines, ["\"instructed\"\n", "\"restored\"\n"]);
    assert_eq!(session.report().await, Report::Delivered(InstructionId(5)));
    assert_eq!(session.report().await, Report::Consumed { instruction_id: InstructionId(5), result: None });
    agent.incoming.frame(Bytes::from_static(b"{}\n")).await;
    assert_eq!(session.report().await, notice("{}"));
}

#[tokio::test]
async fn a_second_connection_replaces_the_first() {
    let mut session = session(LONG);
    let mut first = session.dial();
    assert_eq!(next(&mut first).await, "\"start\"\n");
    let mut second = session.dial();
    assert!(matches!(session.report().await, Report::LinkLost { .. }));
    assert_eq!(session.report().await, Report::LinkRestored);
    assert_eq!(next(&mut second).await, "\"restored\"\n");
    assert_eq!(first.outgoing.frame().await, None, "the first is closed");
}

#[tokio::test]
async fn a_link_that_stays_down_ends_the_agent() {
    let mut session = session(Duration::from_millis(100));
    drop(session.dial());
    let exit = loop {
        if let Report::Exited(exit) = session.report().await {
            break exit;
        }
    };
    assert_eq!(exit.reason, ExitReason::LinkDown);
    assert!(exit.message.contains("stayed down"), "{}", exit.message);
    assert!(session.dial_in.admit(SESSION, &session.secret).is_none(), "it is not expected any more");
}

#[tokio::test]
async fn the_end_of_the_process_and_not_of_its_connection_is_the_end() {
    let mut session = session(LONG);
    let mut agent = session.dial();
    assert_eq!(next(&mut agent).await, "\"start\"\n");
    session.link.stop.cancel();
    assert_eq!(agent.outgoing.frame().await, None, "a stop closes the connection for good");
    let exit = loop {
        if let Report::Exited(exit) = session.report().await {
            break exit;
        }
    };
    assert_eq!((exit.reason, exit.signal), (ExitReason::Stopped, Some(15)));
}

// covers: 000-074
#[tokio::test]
async fn an_end_that_the_waiter_missed_is_found_by_the_next_look() {
    let supervision = Arc::new(Supervision { liveness: Duration::from_millis(50), ..supervision() });
    let (mut child, pipes) = Child::start(sleeper(&supervision), "test", SESSION).await.unwrap();
    child.blind();
    child.kill();
    // The agent dials in, so its closed output shows nothing either.
    let dial_in = DialIn::new();
    dial_in.listens_at("ws://127.0.0.1:1");
    let link = Box::new(DialInLink::new(dial_in.expect(SESSION).unwrap()));
    let (told, _reports) = mpsc::channel(8);
    let (_instructions, wanted) = mpsc::channel(8);
    let tokens = Tokens { stop: CancellationToken::new(), kill: CancellationToken::new() };
    let driver = Driver::new("echo".into(), Box::new(Echo), &supervision, told, Report::Ready);
    let exit = tokio::time::timeout(LONG, driver.run(child, pipes, link, wanted, tokens)).await.unwrap();
    assert_eq!((exit.reason, exit.signal), (ExitReason::Failed, Some(9)));
}

/// Gives up on an agent that sends anything.
struct Impatient;

impl Translator for Impatient {
    fn start(&mut self, out: &mut Output) {
        out.ready();
    }
    fn line(&mut self, _line: &str, out: &mut Output) {
        out.give_up("it cannot be worked with");
    }
    fn instruct(&mut self, _instruction: Instruction, _out: &mut Output) {}
}

// It used to wait until the next look at the process: half a minute in which nothing happened.
#[tokio::test]
async fn an_agent_that_is_given_up_is_ended_at_once() {
    let supervision = Arc::new(Supervision { liveness: Duration::from_hours(1), ..supervision() });
    let command = ["sh", "-c", "echo {}; exec sleep 600"].map(Into::into).to_vec();
    let program = Program { command, ..sleeper(&supervision) };
    let (child, pipes) = Child::start(program, "test", SESSION).await.unwrap();
    let (told, mut reports) = mpsc::channel(8);
    tokio::spawn(async move { while reports.recv().await.is_some() {} });
    let (_instructions, wanted) = mpsc::channel(8);
    let tokens = Tokens { stop: CancellationToken::new(), kill: CancellationToken::new() };
    let driver = Driver::new("echo".into(), Box::new(Impatient), &supervision, told, Report::Ready);
    let run = driver.run(child, pipes, Box::new(PipeLink), wanted, tokens);
    let exit = tokio::time::timeout(LONG, run).await.unwrap();
    assert_eq!((exit.reason, exit.signal), (ExitReason::Misbehaved, Some(15)));
}

/// Answers every line with far more text.
struct Generous;

impl Translator for Generous {
    fn start(&mut self, out: &mut Output) {
        out.ready();
    }
    fn line(&mut self, _line: &str, out: &mut Output) {
        let outbound = Outbound::Line(vec![b'x'; 1024 * 1024]);
        out.writes.push(Write { outbound, instruction_id: None, settles: Settles::Later });
    }
    fn instruct(&mut self, _instruction: Instruction, _out: &mut Output) {}
}

#[tokio::test]
async fn an_agent_that_asks_and_never_reads_the_answers_is_ended_with_the_reason() {
    let supervision = Arc::new(supervision());
    let script = "i=0; while [ $i -lt 100 ]; do echo {}; i=$((i + 1)); done; exec sleep 600";
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let program = Program { command, ..sleeper(&supervision) };
    let (child, pipes) = Child::start(program, "test", SESSION).await.unwrap();
    let (told, mut reports) = mpsc::channel(8);
    tokio::spawn(async move { while reports.recv().await.is_some() {} });
    let (_instructions, wanted) = mpsc::channel(8);
    let tokens = Tokens { stop: CancellationToken::new(), kill: CancellationToken::new() };
    let driver = Driver::new("echo".into(), Box::new(Generous), &supervision, told, Report::Ready);
    let run = driver.run(child, pipes, Box::new(PipeLink), wanted, tokens);
    let exit = tokio::time::timeout(LONG, run).await.unwrap();
    assert_eq!(exit.reason, ExitReason::Misbehaved);
    assert!(exit.message.contains("64 MiB") && exit.message.contains("unread"), "{}", exit.message);
}

#[tokio::test]
async fn messages_that_a_killed_agent_never_read_are_refused_and_read_ones_are_consumed() {
    for (script, reads) in [("echo $$; exec sleep 600", false), ("echo $$; exec cat >/dev/null", true)] {
        let supervision = Arc::new(supervision());
        let command = ["sh", "-c", script].map(Into::into).to_vec();
        let program = Program { command, ..sleeper(&supervision) };
        let (child, pipes) = Child::start(program, "test", SESSION).await.unwrap();
        let (told, mut reports) = mpsc::channel(64);
        let (instructions, wanted) = mpsc::channel(8);
        let tokens = Tokens { stop: CancellationToken::new(), kill: CancellationToken::new() };
        let driver = Driver::new("echo".into(), Box::new(Echo), &supervision, told, Report::Ready);
        let run = tokio::spawn(driver.run(child, pipes, Box::new(PipeLink), wanted, tokens));
        let pid = loop {
            if let Report::Event { event: Event::Notice { text, .. }, .. } = reports.recv().await.unwrap() {
                break text.trim().parse::<i32>().unwrap();
            }
        };
        let instruction_id = InstructionId(7);
        instructions.send(Instruction { id: instruction_id, order: Order::Interrupt }).await.unwrap();
        while reports.recv().await.unwrap() != Report::Delivered(instruction_id) {}
        if reads {
            assert_eq!(reports.recv().await, Some(Report::Consumed { instruction_id, result: None }));
        }
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let mut rest = Vec::new();
        while let Some(report) = reports.recv().await {
            rest.push(report);
        }
        let error = "the agent ended before it read the message".to_owned();
        let refused = Report::Rejected { instruction_id, error };
        assert_eq!(rest, if reads { vec![] } else { vec![refused] });
        tokio::time::timeout(LONG, run).await.unwrap().unwrap();
    }
}

#[test]
fn a_process_is_checked_every_thirty_seconds_by_default() {
    assert_eq!(supervision().liveness, Duration::from_secs(30));
}
