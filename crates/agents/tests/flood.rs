//! A flood does not cost memory. Alone in its test program, because it checks the memory of the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use portolan_agents::Supervision;
use portolan_core::event::{ExitReason, TurnOutcome};
use support::{Session, notices, said, spec, supervision};

/// The peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn short_lines() -> Supervision {
    Supervision { max_line: 1024 * 1024, ..supervision() }
}

#[tokio::test]
async fn a_line_without_end_costs_no_memory_and_the_session_goes_on() {
    let mut session = Session::demo_with(spec(), short_lines(), None).await;
    session.turn("hello").await;
    let before = peak();
    let (reports, result) = session.turn("flood 200").await;
    assert!(peak() - before < 8 * 1024, "{} KiB more for a flood of 200 MiB", peak() - before);
    assert_eq!(result.outcome, TurnOutcome::Completed);
    let told = notices(&reports);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("demo sent a line of 209715200 bytes, which Portolan skipped"), "{told:?}");
    assert_eq!(said(&reports).last().unwrap(), "That was one line. It is gone, and I am still here.");
    session.stop().await;
}

#[tokio::test]
async fn a_flood_without_end_ends_the_agent() {
    let mut session = Session::demo_with(spec(), short_lines(), None).await;
    session.prompt("flood 100000").await;
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::Misbehaved);
    assert_eq!(exit.message, "agent `demo` was ended: it wrote a line of more than 256 MiB");
}
