//! Real processes under supervision: how they start, misbehave and end, and that nothing is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::{process::Stdio, sync::Arc, time::Duration};

use portolan_agents::{Supervision, demo::Demo, descends_from_agent, sweep};
use portolan_core::{
    Event, SessionSpec,
    event::{Exit, ExitReason},
    ports::{Agent as _, Order, REPORTS, Report},
};
use support::{
    Plain, Session, demo_command, events, eventually, launch, notices, program, program_in, runs, said, spec,
    supervision,
};

const READY: Plain = Plain { ready_at_once: true };

#[tokio::test]
async fn a_stopped_agent_ends_in_order_and_is_gone() {
    let mut session = Session::demo(spec()).await;
    let exit = session.stop().await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Stopped, Some(0)), "{exit:?}");
    assert!(!runs(session.pid));
}

// covers: 000-070
#[tokio::test]
async fn a_crash_is_reported_with_the_last_output_and_without_secrets() {
    let mut session = Session::demo(spec()).await;
    session.prompt("crash").await;
    assert_eq!(
        session.exit().await,
        Exit {
            reason: ExitReason::Failed,
            code: Some(3),
            signal: None,
            message: "agent `demo` ended with exit code 3".into(),
            stderr: "demo: crashing, as asked\ndemo: API_KEY=***\ndemo: the ship hit a rock".into(),
        }
    );
}

#[tokio::test]
async fn an_agent_that_leaves_in_order_has_finished() {
    let mut session = Session::demo(spec()).await;
    session.prompt("exit 0").await;
    assert_eq!(session.exit().await.reason, ExitReason::Finished);
}

// covers: 000-073, 004-092
#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_killed() {
    let mut session = Session::demo(spec()).await;
    session.prompt("ignore-term").await;
    session.until(|report| matches!(report, Report::Event { event: Event::Message { .. }, .. })).await;
    let exit = session.stop().await;
    assert_eq!((exit.reason, exit.signal), (ExitReason::Stopped, Some(9)), "{exit:?}");
    assert!(exit.stderr.contains("SIGTERM? I did not hear that"), "it was asked first: {exit:?}");
    assert!(!runs(session.pid));
}

#[tokio::test]
async fn an_agent_that_hangs_is_ended_by_sigterm() {
    let mut session = Session::demo(spec()).await;
    session.prompt("hang").await;
    session.until(|report| matches!(report, Report::Event { event: Event::Usage { .. }, .. })).await;
    let exit = session.stop().await;
    assert_eq!((exit.reason, exit.signal), (ExitReason::Stopped, Some(15)), "{exit:?}");
}

#[tokio::test]
async fn kill_does_not_wait_for_anything() {
    let patient = Supervision { ladder: portolan_agents::child::Ladder::default(), ..supervision() };
    let mut session = Session::demo_with(spec(), patient, None).await;
    session.prompt("ignore-term").await;
    session.until(|report| matches!(report, Report::TurnStarted { .. })).await;
    let before = std::time::Instant::now();
    session.link.kill.cancel();
    let exit = session.exit().await;
    assert_eq!((exit.reason, exit.signal), (ExitReason::Stopped, Some(9)));
    assert!(before.elapsed() < Duration::from_secs(2), "took {:?}", before.elapsed());
}

/// The number of the process that the demo's `orphans` left behind.
fn orphan(session: &Session) -> u32 {
    let text = said(&session.seen).pop().unwrap();
    text.split("pid ").nth(1).unwrap().split('.').next().unwrap().parse().unwrap()
}

// covers: 003-152
#[tokio::test]
async fn a_grandchild_in_a_session_of_its_own_dies_with_the_session() {
    let mut session = Session::demo(spec()).await;
    session.turn("orphans").await;
    let orphan = orphan(&session);
    assert!(runs(orphan));
    session.stop().await;
    eventually("the grandchild is gone", || !runs(orphan)).await;
}

#[tokio::test]
async fn a_grandchild_dies_too_when_the_agent_crashes() {
    let mut session = Session::demo(spec()).await;
    session.turn("orphans").await;
    session.prompt("crash").await;
    session.exit().await;
    let orphan = orphan(&session);
    eventually("the grandchild is gone", || !runs(orphan)).await;
}

// covers: 003-094, 003-116
#[tokio::test]
async fn dropping_the_link_leaves_no_process() {
    let mut session = Session::demo(spec()).await;
    session.turn("orphans").await;
    let (agent, orphan) = (session.pid, orphan(&session));
    drop(session);
    eventually("both are gone", || !runs(agent) && !runs(orphan)).await;
}

/// The open files of a process: pipes and sockets by their number, files by their path.
fn open_in(process: &str) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let target = |link: std::fs::DirEntry| std::fs::read_link(link.path()).ok();
    descriptors.filter_map(target).map(|target| target.display().to_string()).collect()
}

// covers: 003-094
#[tokio::test]
async fn dropping_the_link_leaves_no_end_of_its_pipes_open() {
    // This process may have inherited pipes that every child inherits too: those are not the agent's.
    let before = open_in("self");
    let session = Session::demo(spec()).await;
    let (agent, ours) = (session.pid, open_in("self"));
    let mut shared = open_in(&agent.to_string());
    shared.retain(|end| (end.starts_with("pipe:") || end.starts_with("socket:")) && ours.contains(end));
    shared.retain(|end| !before.contains(end));
    assert!(shared.len() >= 3, "its input, its output and its errors: {shared:?}");
    drop(session);
    eventually("the process is gone", || !runs(agent)).await;
    let left = || open_in("self").into_iter().filter(|end| shared.contains(end)).count();
    eventually("our ends are closed", || left() == 0).await;
}

#[tokio::test]
async fn a_grandchild_that_dropped_its_marker_dies_when_its_agent_is_stopped() {
    let script = "env -i setsid sleep 600 & echo $!; wait";
    let mut session = program(&["/bin/sh", "-c", script], supervision(), READY);
    session.until(|report| matches!(report, Report::Event { .. })).await;
    let grandchild: u32 = notices(&session.seen).pop().unwrap().parse().unwrap();
    eventually("it sleeps", || {
        std::fs::read_to_string(format!("/proc/{grandchild}/comm")).is_ok_and(|it| it == "sleep\n")
    })
    .await;
    session.stop().await;
    eventually("it is gone", || !runs(grandchild)).await;
}

#[tokio::test]
async fn what_descends_from_an_agent_is_known_by_its_home() {
    let supervision = supervision();
    let home = supervision.home_key.clone();
    let mut session = Session::demo_with(spec(), supervision, None).await;
    session.turn("orphans").await;
    assert!(descends_from_agent(session.pid, &home));
    assert!(descends_from_agent(orphan(&session), &home));
    assert!(!descends_from_agent(session.pid, "another-home"));
    assert!(!descends_from_agent(std::process::id(), &home));
    session.stop().await;
}

// covers: 000-072
#[tokio::test]
async fn a_missing_program_is_named() {
    let agent = Demo::new(vec!["no-such-program".into()], Arc::new(supervision()));
    let mut session = Session::of(agent.start(launch(spec())));
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::NotStarted);
    assert_eq!(
        exit.message,
        "agent `demo` not found: no program `no-such-program`; install it or set `agents.demo.command`"
    );
    assert_eq!(session.seen.len(), 1, "only the last report");
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let mut session = program_in(&["env"], "/no/such/folder".into(), supervision(), READY);
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::NotStarted);
    assert!(
        exit.message.starts_with("the folder `/no/such/folder` cannot be used: No such file"),
        "{exit:?}"
    );
}

#[tokio::test]
async fn a_session_that_asks_for_code_injection_is_not_started() {
    let asked = SessionSpec { env: [("LD_PRELOAD".into(), "/x.so".into())].into_iter().collect(), ..spec() };
    let agent = Demo::new(demo_command(), Arc::new(supervision()));
    let exit = Session::of(agent.start(launch(asked))).exit().await;
    assert_eq!(exit.reason, ExitReason::NotStarted);
    assert!(exit.message.contains("`LD_PRELOAD` is refused"), "{exit:?}");
}

// covers: 004-109
#[tokio::test]
async fn a_child_works_in_its_folder_with_the_users_environment_less_what_is_denied() {
    let mut supervision = supervision();
    supervision.environment.extend(
        [("PORTOLAN_TOKEN", "secret"), ("LD_PRELOAD", ""), ("NODE_OPTIONS", "--x"), ("KEPT", "yes")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    let home = supervision.home_key.clone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let mut session = program_in(&["/bin/sh", "-c", "pwd; env"], path.clone(), supervision, READY);
    assert_eq!(session.exit().await.reason, ExitReason::Finished);
    let lines = notices(&session.seen);
    assert_eq!(lines[0], path.display().to_string());
    let mut names: Vec<_> = lines[1..].iter().filter_map(|line| line.split('=').next()).collect();
    // Variables that the shell itself adds.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["DEMO_PACE_MS", "KEPT", "PATH", "PORTOLAN_CHILD"]);
    assert!(lines.iter().any(|line| line.starts_with(&format!("PORTOLAN_CHILD={home}."))));
}

// covers: 004-091
#[tokio::test]
async fn an_agent_that_is_never_ready_is_ended() {
    let supervision = Supervision { ready: Duration::from_millis(100), ..supervision() };
    let mut session = program(&["sleep", "600"], supervision, Plain { ready_at_once: false });
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::NotReady);
    assert_eq!(exit.message, "agent `plain` was ended: it was not ready within 0.1 s");
    assert!(!runs(session.pid));
}

#[tokio::test]
async fn an_agent_that_ends_before_it_is_ready_is_reported_with_its_stderr() {
    let script = "echo bad option >&2; exit 1";
    let mut session = program(&["/bin/sh", "-c", script], supervision(), Plain { ready_at_once: false });
    let exit = session.exit().await;
    assert_eq!((exit.reason, exit.code, exit.stderr.as_str()), (ExitReason::NotReady, Some(1), "bad option"));
}

#[tokio::test]
async fn an_agent_that_closes_its_output_and_goes_on_is_ended() {
    let mut session =
        program(&["/bin/sh", "-c", "echo last; exec >&-; exec sleep 600"], supervision(), READY);
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::Misbehaved, "{exit:?}");
    assert_eq!(notices(&session.seen), ["last"]);
    assert!(!runs(session.pid));
}

#[tokio::test]
async fn an_instruction_to_an_agent_that_closed_its_input_is_rejected() {
    let mut session =
        program(&["/bin/sh", "-c", "exec <&-; echo closed; exec sleep 600"], supervision(), READY);
    session.until(|report| matches!(report, Report::Event { .. })).await;
    let instruction_id = session.order(Order::Native("hello".into())).await;
    session
        .until(|report| matches!(report, Report::Rejected { instruction_id: rejected, .. } if *rejected == instruction_id))
        .await;
    session.stop().await;
}

#[tokio::test]
async fn a_fault_in_a_translator_ends_its_agent_and_nothing_else() {
    let mut session = program(&["sleep", "600"], supervision(), READY);
    session.until(|report| *report == Report::Ready).await;
    session.order(Order::Interrupt).await;
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::Failed);
    assert!(exit.message.contains("internal error"), "{exit:?}");
    assert!(!runs(session.pid));
}

#[tokio::test]
async fn the_last_line_of_an_agent_arrives_even_without_a_newline() {
    let mut session = program(&["/bin/sh", "-c", "printf 'one\\ntwo'"], supervision(), READY);
    session.exit().await;
    assert_eq!(notices(&session.seen), ["one", "two"]);
}

#[tokio::test]
async fn a_session_that_does_not_keep_up_makes_the_agent_wait_and_loses_nothing() {
    const LINES: usize = 300_000;
    let mut session = Session::demo(spec()).await;
    session.prompt(&format!("flood-lines {LINES}")).await;
    let pid = session.pid;
    eventually("the queue is full", || session.link.reports.len() == REPORTS).await;
    // The agent now waits at its full pipe: its output no longer grows.
    let written =
        || std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap().lines().nth(1).unwrap().to_owned();
    let mut last = String::new();
    let mut unchanged = 0;
    eventually("the agent waits", || {
        let now = written();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        unchanged > 20
    })
    .await;
    let bytes: usize = last.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(bytes < 2 * 1024 * 1024, "{bytes} bytes were taken from an agent whose session stood still");
    session.result().await;
    let deltas = events(&session.seen).iter().filter(|event| matches!(event, Event::Delta { .. })).count();
    assert_eq!(deltas, LINES);
    session.stop().await;
}

#[tokio::test]
async fn a_full_queue_does_not_keep_an_agent_from_being_stopped() {
    let mut session = Session::demo(spec()).await;
    session.prompt("flood-lines 10000000").await;
    eventually("the queue is full", || session.link.reports.len() == REPORTS).await;
    session.link.stop.cancel();
    let pid = session.pid;
    eventually("it is gone, though nobody reads", || !runs(pid)).await;
    assert_eq!(session.exit().await.reason, ExitReason::Stopped);
}

/// Not a separate test: the daemon of the test below, which is killed.
#[tokio::test]
async fn a_daemon_for_the_test_of_its_death() {
    let Some(home) = std::env::var_os("TEST_HOME_KEY") else { return };
    let supervision = Supervision { home_key: home.into_string().unwrap(), ..supervision() };
    let mut session = Session::demo_with(spec(), supervision, None).await;
    session.turn("orphans").await;
    println!("\nchildren: {} {}", session.pid, orphan(&session));
    std::future::pending::<()>().await;
}

#[test]
fn after_the_daemon_is_killed_its_agent_is_gone_and_the_next_start_sweeps_the_rest() {
    use std::io::BufRead as _;
    let home = supervision().home_key;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_daemon_for_the_test_of_its_death", "--nocapture"])
        .env("TEST_HOME_KEY", &home)
        .stdout(Stdio::piped());
    #[expect(clippy::disallowed_methods, reason = "this process plays the daemon that gets killed")]
    let mut daemon = command.spawn().unwrap();
    let lines = std::io::BufReader::new(daemon.stdout.take().unwrap()).lines();
    let told = lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("children: ").map(str::to_owned))
        .unwrap();
    let pids: Vec<u32> = told.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let &[agent, orphan] = pids.as_slice() else { panic!("{told}") };
    assert!(runs(agent) && runs(orphan));

    daemon.kill().unwrap();
    daemon.wait().unwrap();

    let until = std::time::Instant::now() + Duration::from_secs(10);
    while runs(agent) {
        assert!(std::time::Instant::now() < until, "the agent outlived its daemon");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(runs(orphan), "the signal reaches the agent alone");
    let swept = sweep(&home);
    // By its process: it may be swept before its own program has begun.
    let known: Vec<_> = swept.iter().map(|swept| swept.process.pid).collect();
    assert_eq!(known, [orphan]);
    assert!(!runs(orphan));
}
