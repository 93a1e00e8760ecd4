//! The two links alone, without a driver: what they bring, in which order, and what they take.

use std::{
    future::poll_fn,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use portolan_core::SessionId;

use super::{Arrival, DialInLink, Ends, Inbound, Input, Link as _, Outbound, PipeLink, Source};
use crate::{
    child::{Child, Pipes, Program},
    dial_in::{Admitted, DialIn},
};

const SESSION: SessionId = SessionId::from_u128(9);

/// Short, so that a test can go beyond it.
const MAX_LINE: usize = 32;

async fn shell(script: &str) -> (Child, Pipes) {
    let path = std::env::var_os("PATH").unwrap();
    let environment = crate::environment(&[("PATH".into(), path)], &indexmap::IndexMap::new()).unwrap();
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let program = Program { agent: "shell".into(), command, folder: PathBuf::new(), environment };
    Child::start(program, "test", SESSION).await.unwrap()
}

/// An agent that dials in, and its process, which does nothing.
struct Dialling {
    _child: Child,
    dial_in: DialIn,
    secret: String,
    ends: Ends,
}

async fn dialling() -> Dialling {
    let dial_in = DialIn::new();
    dial_in.listens_at("ws://127.0.0.1:1");
    let expected = dial_in.expect(SESSION).unwrap();
    let secret = expected.secret.reveal().to_owned();
    let (child, pipes) = shell("exec sleep 600").await;
    let ends = Box::new(DialInLink::new(expected)).open(pipes, MAX_LINE);
    Dialling { _child: child, dial_in, secret, ends }
}

impl Dialling {
    fn dial(&self) -> Admitted {
        self.dial_in.admit(SESSION, &self.secret).unwrap()
    }
}

/// The next arrival, as text.
async fn next(source: &mut dyn Source) -> String {
    loop {
        if let Some(arrival) = source.next_arrival() {
            return match arrival {
                Arrival::Said(Inbound::Line(line)) => line.to_owned(),
                other => format!("{other:?}"),
            };
        }
        poll_fn(|context| source.poll_more(context)).await;
    }
}

fn line(text: &str) -> Outbound {
    Outbound::Line(text.as_bytes().to_vec())
}

/// Whether somebody was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Takes once, with nobody to wake.
fn take(input: &mut dyn Input, outbound: &Outbound, taken: usize) -> Poll<Option<usize>> {
    let mut context = Context::from_waker(Waker::noop());
    input.poll_take(&mut context, outbound, taken).map(Result::ok)
}

#[tokio::test]
async fn the_last_line_of_a_pipe_comes_before_its_end_and_the_end_comes_once() {
    let (_child, pipes) = shell("printf 'one\\n\\ntwo\\nhalf'").await;
    let Ends { mut source, input: _ } = Box::new(PipeLink).open(pipes, MAX_LINE);
    for expected in ["one", "two", "half", "Ended"] {
        assert_eq!(next(&mut *source).await, expected);
    }
    source.finish();
    assert_eq!(source.next_arrival(), None);
}

#[tokio::test]
async fn a_finished_pipe_gives_the_unfinished_line() {
    let (_child, pipes) = shell("printf 'one\\nhalf'; exec sleep 600").await;
    let Ends { mut source, input: _ } = Box::new(PipeLink).open(pipes, MAX_LINE);
    assert_eq!(next(&mut *source).await, "one");
    assert_eq!(source.next_arrival(), None);
    source.finish();
    assert_eq!(source.next_arrival(), Some(Arrival::Said(Inbound::Line("half"))));
}

#[tokio::test]
async fn lines_that_are_no_text_arrive_as_unreadable_or_too_long() {
    let (_child, pipes) = shell("printf '\\377\\n'; printf '%040d\\n' 1; printf 'text\\n'").await;
    let Ends { mut source, input: _ } = Box::new(PipeLink).open(pipes, MAX_LINE);
    assert_eq!(next(&mut *source).await, r#"Unreadable { bytes: [255], why: "it is not UTF-8" }"#);
    let beyond = next(&mut *source).await;
    assert!(beyond.starts_with("TooLong { length: 40, head: [48, 48"), "{beyond}");
    assert_eq!(next(&mut *source).await, "text");
}

#[tokio::test]
async fn a_full_pipe_takes_a_part_and_then_nothing_while_its_agent_is_still_read() {
    let (_child, pipes) = shell("echo one; sleep 0.1; echo two; exec sleep 600").await;
    let Ends { mut source, mut input } = Box::new(PipeLink).open(pipes, MAX_LINE);
    let much = Outbound::Line(vec![b'x'; 4 * 1024 * 1024]);
    let mut taken = 0;
    while let Poll::Ready(count) = take(&mut *input, &much, taken) {
        taken += count.unwrap();
    }
    assert!(taken > 0 && taken < much.bytes().len(), "{taken}");
    assert_eq!(input.unread(), Some(taken as u64), "the agent reads nothing");
    for expected in ["one", "two"] {
        assert_eq!(next(&mut *source).await, expected);
    }
}

#[tokio::test]
async fn a_lost_connection_is_reported_before_the_line_that_it_cut_off() {
    let mut agent = dialling().await;
    let source = &mut *agent.ends.source;
    let first = agent.dial_in.admit(SESSION, &agent.secret).unwrap();
    first.incoming.frame(Bytes::from_static(b"one\nhal")).await;
    drop(first);
    for expected in ["Connected", "one", "Lost", "hal"] {
        assert_eq!(next(source).await, expected);
    }
    let second = agent.dial_in.admit(SESSION, &agent.secret).unwrap();
    second.incoming.frame(Bytes::from_static(b"f\n")).await;
    for expected in ["Connected", "f"] {
        assert_eq!(next(source).await, expected);
    }
}

#[tokio::test]
async fn a_connection_that_replaces_another_cuts_its_line_off_too() {
    let mut agent = dialling().await;
    let mut first = agent.dial();
    assert_eq!(next(&mut *agent.ends.source).await, "Connected");
    first.incoming.frame(Bytes::from_static(b"hal")).await;
    let second = agent.dial();
    second.incoming.frame(Bytes::from_static(b"f\n")).await;
    for expected in ["Connected", "hal", "f"] {
        assert_eq!(next(&mut *agent.ends.source).await, expected);
    }
    assert_eq!(first.outgoing.frame().await, None, "the first is closed");
}

#[tokio::test]
async fn messages_wait_for_a_connection_and_go_over_it_whole() {
    let mut agent = dialling().await;
    assert_eq!(take(&mut *agent.ends.input, &line("one\n"), 0), Poll::Pending, "nobody is connected");
    let mut connection = agent.dial();
    assert_eq!(next(&mut *agent.ends.source).await, "Connected");
    assert_eq!(take(&mut *agent.ends.input, &line("one\n"), 0), Poll::Ready(Some(4)));
    assert_eq!(connection.outgoing.frame().await.as_deref(), Some(b"one\n".as_slice()));
    assert_eq!(agent.ends.input.unread(), None, "nobody can see what was read from a connection");
    drop(connection);
    assert_eq!(
        take(&mut *agent.ends.input, &line("two\n"), 0),
        Poll::Pending,
        "it is gone, and that is not reported yet"
    );
    assert_eq!(next(&mut *agent.ends.source).await, "Lost");
    assert_eq!(take(&mut *agent.ends.input, &line("two\n"), 0), Poll::Pending);
}

#[tokio::test]
async fn a_connection_that_takes_nothing_wakes_the_waiter_once_it_does() {
    let mut agent = dialling().await;
    let mut connection = agent.dial();
    assert_eq!(next(&mut *agent.ends.source).await, "Connected");
    let input = &mut *agent.ends.input;
    let mut frames = 0;
    while take(input, &line("x\n"), 0).is_ready() {
        frames += 1;
        assert!(frames < 1000, "a queue without a bound");
    }
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let (outbound, mut context) = (line("last\n"), Context::from_waker(&waker));
    assert!(input.poll_take(&mut context, &outbound, 0).is_pending());
    assert!(!woken.0.load(Ordering::SeqCst));
    assert_eq!(connection.outgoing.frame().await.as_deref(), Some(b"x\n".as_slice()));
    assert!(woken.0.load(Ordering::SeqCst), "there is room, and nobody was woken");
    assert_eq!(take(input, &outbound, 0), Poll::Ready(Some(5)));
}

#[tokio::test]
async fn a_closed_input_closes_the_connection_and_every_later_one() {
    let mut agent = dialling().await;
    let mut first = agent.dial();
    assert_eq!(next(&mut *agent.ends.source).await, "Connected");
    let Dialling { ends: Ends { mut source, input }, dial_in, secret, .. } = agent;
    drop(input);
    assert_eq!(first.outgoing.frame().await, None);
    let mut second = dial_in.admit(SESSION, &secret).unwrap();
    assert_eq!(next(&mut *source).await, "Connected");
    assert_eq!(second.outgoing.frame().await, None);
    second.incoming.frame(Bytes::from_static(b"last words\n")).await;
    assert_eq!(next(&mut *source).await, "last words", "it is heard all the same");
}

#[tokio::test]
async fn an_agent_that_is_not_expected_any_more_has_ended() {
    let mut agent = dialling().await;
    let connection = agent.dial();
    connection.incoming.frame(Bytes::from_static(b"half")).await;
    assert_eq!(next(&mut *agent.ends.source).await, "Connected");
    let _another = agent.dial_in.expect(SESSION).unwrap();
    for expected in ["half", "Ended"] {
        assert_eq!(next(&mut *agent.ends.source).await, expected);
    }
}
