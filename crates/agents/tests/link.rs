//! A link that Portolan does not have, over queues in memory, made with the public interface alone. The driver runs an
//! agent over it and needs no knowledge of it: a new link is a separate file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use portolan_agents::{
    Supervision,
    child::Pipes,
    driver::{self, Output, Translator},
    link::{Arrival, Ends, Inbound, Input, Link, Outbound, Source},
};
use portolan_core::{
    Event,
    event::{ExitReason, Level},
    ports::{Instruction, Order, REPORTS, Report},
};
use serde_json::json;
use tokio::sync::mpsc;

use self::support::{Session, eventually, notices, supervision};

/// Pieces that may wait in memory for the driver. Far more than the reports that may wait for a session.
const QUEUE: usize = 4 * REPORTS;

/// What this link brings.
#[derive(Debug)]
enum Piece {
    Text(String),
    /// A line whose end has not come.
    Begun(String),
    Raw(Vec<u8>),
    Connected,
    Lost,
}

#[derive(Debug)]
struct MemoryLink {
    pieces: mpsc::Receiver<Piece>,
    given: Arc<AtomicUsize>,
    valve: Valve,
}

impl Link for MemoryLink {
    fn open(self: Box<Self>, pipes: Pipes, _max_line: usize) -> Ends {
        let Self { pieces, given, valve } = *self;
        let source = Memory { pieces, given, here: None, begun: None, current: Vec::new(), _pipes: pipes };
        Ends { source: Box::new(source), input: Box::new(ThroughValve(valve)) }
    }
}

#[derive(Debug)]
struct Memory {
    pieces: mpsc::Receiver<Piece>,
    given: Arc<AtomicUsize>,
    here: Option<Piece>,
    begun: Option<String>,
    /// The bytes that the last arrival borrowed.
    current: Vec<u8>,
    _pipes: Pipes,
}

impl Source for Memory {
    fn next_arrival(&mut self) -> Option<Arrival<'_>> {
        let piece = self.here.take()?;
        self.given.fetch_add(1, Ordering::SeqCst);
        match piece {
            Piece::Text(text) => {
                self.current = text.into_bytes();
                Some(Arrival::Said(Inbound::Line(std::str::from_utf8(&self.current).unwrap())))
            }
            Piece::Begun(text) => {
                self.begun = Some(text);
                None
            }
            Piece::Raw(bytes) => {
                self.current = bytes;
                Some(Arrival::Unreadable { bytes: &self.current, why: "it is raw" })
            }
            Piece::Connected => Some(Arrival::Connected),
            Piece::Lost => Some(Arrival::Lost),
        }
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // A dropped sender is ignored: this link does not end before its agent.
        let Some(piece) = ready!(self.pieces.poll_recv(context)) else { return Poll::Pending };
        self.here = Some(piece);
        Poll::Ready(())
    }

    fn finish(&mut self) {
        self.here = self.begun.take().map(Piece::Text);
    }
}

/// Lets through as much as the test allows.
#[derive(Clone, Debug, Default)]
struct Valve(Arc<Mutex<Flow>>);

#[derive(Debug, Default)]
struct Flow {
    /// How many bytes may still go through.
    room: usize,
    /// At most this many bytes go through at once, if it is not zero.
    piece: usize,
    through: Vec<u8>,
    is_broken: bool,
    is_closed: bool,
    waiting: Option<Waker>,
}

impl Valve {
    fn change(&self, change: impl FnOnce(&mut Flow)) {
        let mut flow = self.0.lock().unwrap();
        change(&mut flow);
        if let Some(waiting) = flow.waiting.take() {
            waiting.wake();
        }
    }

    fn through(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().through.clone()).unwrap()
    }

    fn is_closed(&self) -> bool {
        self.0.lock().unwrap().is_closed
    }
}

#[derive(Debug)]
struct ThroughValve(Valve);

impl Drop for ThroughValve {
    fn drop(&mut self) {
        self.0.change(|flow| flow.is_closed = true);
    }
}

impl Input for ThroughValve {
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        outbound: &Outbound,
        taken: usize,
    ) -> Poll<io::Result<usize>> {
        let mut flow = self.0.0.lock().unwrap();
        if flow.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let rest = outbound.rest(taken);
        let most = if flow.piece == 0 { rest.len() } else { flow.piece };
        let count = rest.len().min(most).min(flow.room);
        if count == 0 {
            flow.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        flow.room -= count;
        flow.through.extend_from_slice(&rest[..count]);
        Poll::Ready(Ok(count))
    }
}

/// Reports what happens to it.
struct Watcher;

fn notice(out: &mut Output, text: &str) {
    out.event(Event::Notice { level: Level::Info, text: text.into() });
}

impl Translator for Watcher {
    fn start(&mut self, out: &mut Output) {
        out.ready();
    }
    fn line(&mut self, line: &str, out: &mut Output) {
        notice(out, line);
    }
    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        out.write_for(instruction.id, &json!("instructed"));
    }
    fn link_lost(&mut self, out: &mut Output) {
        notice(out, "the translator knows of the loss");
    }
    fn link_restored(&mut self, out: &mut Output) {
        notice(out, "the translator knows of the return");
    }
}

struct Agent {
    session: Session,
    pieces: mpsc::Sender<Piece>,
    given: Arc<AtomicUsize>,
    valve: Valve,
}

/// An agent over this link, ready. Its process does nothing.
async fn agent(room: usize, supervision: Supervision) -> Agent {
    let (pieces, brought) = mpsc::channel(QUEUE);
    let (given, valve) = (Arc::new(AtomicUsize::new(0)), Valve::default());
    valve.change(|flow| flow.room = room);
    let link = MemoryLink { pieces: brought, given: Arc::clone(&given), valve: valve.clone() };
    let job = support::job(&["sleep", "600"], &supervision, Box::new(link), Box::new(Watcher));
    let mut session = Session::of(driver::start(job, Arc::new(supervision)));
    session.until(|report| *report == Report::Ready).await;
    Agent { session, pieces, given, valve }
}

impl Agent {
    async fn bring(&self, piece: Piece) {
        self.pieces.send(piece).await.unwrap();
    }

    async fn says(&self, text: &str) {
        self.bring(Piece::Text(text.into())).await;
    }

    /// The reports up to the notice with this text.
    async fn until_notice(&mut self, text: &str) -> Vec<Report> {
        let from = self.session.seen.len();
        self.session.until(|report| notices(std::slice::from_ref(report)) == [text]).await;
        self.session.seen[from..].to_vec()
    }
}

// ------------------------------------------------------------------------------------------ both directions

#[tokio::test]
async fn lines_come_and_go_over_a_link_that_the_driver_does_not_know() {
    let mut agent = agent(usize::MAX, supervision()).await;
    agent.says("one").await;
    agent.says("two").await;
    assert_eq!(notices(&agent.until_notice("two").await), ["one", "two"]);
    let instruction_id = agent.session.order(Order::Interrupt).await;
    agent.session.until(|report| *report == Report::Delivered(instruction_id)).await;
    assert_eq!(agent.valve.through(), "\"instructed\"\n");
    assert!(!agent.valve.is_closed());
    let exit = agent.session.stop().await;
    assert_eq!((exit.reason, agent.valve.is_closed()), (ExitReason::Stopped, true));
}

#[tokio::test]
async fn an_agent_that_takes_no_input_is_still_read() {
    let mut agent = agent(3, supervision()).await;
    let instruction_id = agent.session.order(Order::Interrupt).await;
    eventually("a part is taken", || agent.valve.through() == "\"in").await;
    agent.says("heard").await;
    let heard = agent.until_notice("heard").await;
    assert!(!heard.contains(&Report::Delivered(instruction_id)), "{heard:?}");
    agent.valve.change(|flow| flow.room = usize::MAX);
    agent.session.until(|report| *report == Report::Delivered(instruction_id)).await;
    assert_eq!(agent.valve.through(), "\"instructed\"\n");
}

#[tokio::test]
async fn a_message_that_is_taken_in_pieces_is_delivered_once_with_its_last_piece() {
    let mut agent = agent(usize::MAX, supervision()).await;
    agent.valve.change(|flow| flow.piece = 1);
    let first = agent.session.order(Order::Interrupt).await;
    let second = agent.session.order(Order::Interrupt).await;
    let from = agent.session.seen.len();
    agent.session.until(|report| *report == Report::Delivered(second)).await;
    assert_eq!(agent.session.seen[from..], [Report::Delivered(first), Report::Delivered(second)]);
    assert_eq!(agent.valve.through(), "\"instructed\"\n\"instructed\"\n");
}

#[tokio::test]
async fn a_broken_input_refuses_the_instruction_and_the_agent_is_still_read() {
    let mut agent = agent(usize::MAX, supervision()).await;
    agent.valve.change(|flow| flow.is_broken = true);
    let refused = agent.session.ask_of(Order::Interrupt).await;
    assert_eq!(refused, Err("the agent no longer reads its input".into()));
    assert!(agent.valve.is_closed());
    agent.says("still here").await;
    agent.until_notice("still here").await;
}

#[tokio::test]
async fn a_session_that_is_slow_holds_the_link_back_and_loses_nothing() {
    let mut agent = agent(usize::MAX, supervision()).await;
    let said: Vec<_> = (0..2 * REPORTS).map(|number| number.to_string()).collect();
    for text in &said {
        agent.says(text).await;
    }
    // One more than the session's mailbox holds: this report waits in the driver.
    eventually("the mailbox is full", || agent.given.load(Ordering::SeqCst) > REPORTS).await;
    assert_eq!(agent.given.load(Ordering::SeqCst), REPORTS + 1);
    assert_eq!(notices(&agent.until_notice(said.last().unwrap()).await), said);
}

#[tokio::test]
async fn unreadable_lines_are_kept_and_do_not_reach_the_translator() {
    let mut agent = agent(usize::MAX, supervision()).await;
    agent.bring(Piece::Raw(vec![0xff])).await;
    agent.says(&"[".repeat(1000)).await;
    agent.says("end").await;
    let told = notices(&agent.until_notice("end").await);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("cannot read (1 bytes, it is raw)"), "{told:?}");
    assert!(told[1].contains("cannot read (1000 bytes, "), "{told:?}");
}

// ------------------------------------------------------------------------------------------- its connection

fn lost(reason: &str) -> Report {
    Report::LinkLost { reason: reason.into() }
}

fn noticed(text: &str) -> Report {
    let event = Event::Notice { level: Level::Info, text: text.into() };
    Report::Event { event, raw: None }
}

#[tokio::test]
async fn a_connection_that_goes_and_comes_back_is_reported_and_the_first_one_is_not() {
    let mut agent = agent(usize::MAX, supervision()).await;
    agent.bring(Piece::Connected).await;
    agent.says("up").await;
    assert_eq!(agent.until_notice("up").await, [noticed("up")]);

    agent.bring(Piece::Lost).await;
    agent.bring(Piece::Connected).await;
    agent.says("back").await;
    let (loss, back) = ("the translator knows of the loss", "the translator knows of the return");
    let told = agent.until_notice("back").await;
    let expected =
        [lost("the agent's connection closed"), noticed(loss), Report::LinkRestored, noticed(back)];
    assert_eq!(told, [&expected[..], &[noticed("back")]].concat());

    agent.bring(Piece::Connected).await;
    agent.says("anew").await;
    let told = agent.until_notice("anew").await;
    let expected =
        [lost("the agent opened a new connection"), noticed(loss), Report::LinkRestored, noticed(back)];
    assert_eq!(told, [&expected[..], &[noticed("anew")]].concat());
}

#[tokio::test]
async fn a_link_that_stays_down_ends_the_agent() {
    let link_down = Duration::from_millis(50);
    let mut agent = agent(usize::MAX, Supervision { link_down, ..supervision() }).await;
    agent.bring(Piece::Connected).await;
    agent.bring(Piece::Lost).await;
    assert_eq!(agent.session.exit().await.reason, ExitReason::LinkDown);
}

#[tokio::test]
async fn output_before_the_end_of_the_process_is_taken_with_the_unfinished_line() {
    let mut agent = agent(usize::MAX, supervision()).await;
    let from = agent.session.seen.len();
    agent.says("one").await;
    agent.bring(Piece::Begun("half".into())).await;
    agent.session.link.kill.cancel();
    assert_eq!(agent.session.exit().await.reason, ExitReason::Stopped);
    assert_eq!(notices(&agent.session.seen[from..]), ["one", "half"]);
}
