//! Agents over ACP as real processes: a small agent in a shell script, with the files and commands that Portolan
//! handles for it; and the transports to an agent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::{ffi::OsString, fs, path::Path, sync::Arc};

use portolan_agents::{
    acp::{Acp, Config, Serves},
    claude::{self, Claude},
    codex::{self, Codex},
    dial_in::DialIn,
    transports::WithFallback,
};
use portolan_core::{
    Event, SessionSpec,
    capabilities::NativeProtocol,
    event::{ErrorKind, ExitReason, TurnOutcome},
    ports::{Agent, Order, Report},
    request::Answer,
    spec::SystemPrompt,
};

use self::support::{Session, launch, notices, runs, said, supervision};

/// Answers every client's requests, and does what a prompt says.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
words() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'; }
end() { say '{"jsonrpc":"2.0","id":'"$prompt"',"result":{"stopReason":"'"$1"'"}}'; }
say 'a banner that nobody asked for'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}' ;;
    *'"method":"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"S"}}' ;;
    *'"method":"session/load"'*) words 'told before'; say '{"jsonrpc":"2.0","id":'"$id"',"result":{}}'; words 'told late' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      case "$line" in
        *write*) say '{"jsonrpc":"2.0","id":0,"method":"fs/write_text_file","params":{"sessionId":"S","path":"'"$PWD"'/made.txt","content":"made\n"}}' ;;
        *escape*) say '{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"sessionId":"S","path":"/etc/hostname"}}' ;;
        *run*) say '{"jsonrpc":"2.0","id":0,"method":"terminal/create","params":{"sessionId":"S","command":"sleep","args":["600"]}}' ;;
        *slow*) words 'I begin' ;;
        *) words 'hello'; end end_turn ;;
      esac ;;
    *'"method":"session/cancel"'*) end cancelled ;;
    '{"id":0,'*) words "$(printf '%s' "$line" | tr -d '\\"')"; end end_turn ;;
  esac
done
"#;

struct Place {
    folder: tempfile::TempDir,
    command: Vec<OsString>,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("agent.sh");
    fs::write(&script, AGENT).unwrap();
    Place { command: vec!["sh".into(), script.into_os_string()], folder }
}

fn spec(folder: &Path) -> SessionSpec {
    SessionSpec { agent: "harbour".into(), cwd: folder.to_owned(), ..SessionSpec::default() }
}

fn acp(command: Vec<OsString>) -> Acp {
    let serves = Serves { files: true, terminals: true };
    Acp::new(Config { kind: "harbour".into(), command, serves, ..Config::default() }, &supervision())
}

async fn ready(agent: &impl Agent, spec: SessionSpec) -> Session {
    let mut session = Session::of(agent.start(launch(spec)));
    session.until(|report| *report == Report::Ready).await;
    session
}

// covers: 003-017, 003-141
#[tokio::test]
async fn an_agent_needs_only_a_command() {
    let place = place();
    let agent = acp(place.command.clone());
    let probe = agent.probe().await;
    assert!(probe.available, "{probe:?}");
    assert_eq!(probe.transport.unwrap().name, "acp");
    let mut session = ready(&agent, spec(place.folder.path())).await;
    let started = session
        .seen
        .iter()
        .any(|report| matches!(report, Report::Started { protocol: NativeProtocol::Acp, .. }));
    assert!(started && notices(&session.seen)[0].contains("a banner"), "{:?}", session.seen);
    let (reports, result) = session.turn("hello").await;
    assert_eq!((said(&reports), result.outcome), (vec!["hello".to_owned()], TurnOutcome::Completed));
    assert_eq!(session.stop().await.reason, ExitReason::Stopped);
}

/// A turn in which Portolan asks once about what it is to do, and gets a yes.
async fn allowed_turn(session: &mut Session, text: &str) -> Vec<Report> {
    let from = session.seen.len();
    session.prompt(text).await;
    let (key, ask) = session.request().await;
    session.answer(key, ask, Answer::allow()).await;
    session.result().await;
    session.seen[from..].to_vec()
}

// covers: 003-062
#[tokio::test]
async fn nothing_is_written_or_run_for_an_agent_that_is_denied() {
    let place = place();
    let mut session = ready(&acp(place.command.clone()), spec(place.folder.path())).await;
    for prompt in ["write", "run"] {
        let from = session.seen.len();
        session.prompt(prompt).await;
        let (key, ask) = session.request().await;
        session.answer(key, ask, Answer::deny(Some("not today".into()))).await;
        session.result().await;
        assert!(said(&session.seen[from..])[0].contains("not today"), "{:?}", &session.seen[from..]);
    }
    assert!(!place.folder.path().join("made.txt").exists());
    session.stop().await;
}

// covers: 003-062
#[tokio::test]
async fn files_are_written_for_an_agent_only_inside_the_folder() {
    let place = place();
    let mut session = ready(&acp(place.command.clone()), spec(place.folder.path())).await;
    let reports = allowed_turn(&mut session, "write").await;
    assert!(said(&reports)[0].contains("result"), "{reports:?}");
    assert_eq!(fs::read_to_string(place.folder.path().join("made.txt")).unwrap(), "made\n");
    let (reports, _) = session.turn("escape").await;
    assert!(said(&reports)[0].contains("outside the folders"), "{reports:?}");
    session.stop().await;
}

// covers: 003-063
#[tokio::test]
async fn a_command_that_was_run_for_an_agent_ends_with_it() {
    let place = place();
    let mut session = ready(&acp(place.command.clone()), spec(place.folder.path())).await;
    let reports = allowed_turn(&mut session, "run").await;
    assert!(said(&reports)[0].contains("terminal-1"), "{reports:?}");
    let marked = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let named = |pid: &std::path::PathBuf| {
            fs::read(pid.join("cmdline")).is_ok_and(|line| line == b"sleep\x00600\x00")
        };
        let folder = place.folder.path().canonicalize().unwrap();
        let here = |pid: &std::path::PathBuf| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == folder);
        all.map(|entry| entry.path()).filter(|pid| named(pid) && here(pid)).count()
    };
    support::eventually("the command runs", || marked() == 1).await;
    session.stop().await;
    assert_eq!(marked(), 0, "it was left behind");
    assert!(!runs(session.pid));
}

// covers: 003-057
#[tokio::test]
async fn an_interrupt_stops_the_turn() {
    let place = place();
    let mut session = ready(&acp(place.command.clone()), spec(place.folder.path())).await;
    session.prompt("slow").await;
    session.until(|report| matches!(report, Report::Event { event: Event::Delta { .. }, .. })).await;
    session.ask_of(Order::Interrupt).await.unwrap();
    assert_eq!(session.result().await.outcome, TurnOutcome::Interrupted);
    session.stop().await;
}

#[tokio::test]
async fn a_resumed_conversation_is_not_shown_twice() {
    let place = place();
    let point = portolan_core::ports::ResumePoint {
        agent_session: "S".into(),
        fork: false,
        at_message: None,
        last_message: None,
        exchanges: 0,
    };
    let launch = portolan_core::ports::Launch { resume: Some(point), ..launch(spec(place.folder.path())) };
    let mut session = Session::of(acp(place.command.clone()).start(launch));
    session.until(|report| *report == Report::Ready).await;
    let (_, result) = session.turn("hello").await;
    assert_eq!(result.text.as_deref(), Some("hello"));
    assert_eq!(said(&session.seen), ["hello"], "{:?}", session.seen);
    session.stop().await;
}

#[tokio::test]
async fn the_error_for_a_missing_agent_says_how_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Acp::new(
        Config { kind: "goose".into(), command: vec!["no-such-goose".into()], ..Config::default() },
        &supervision(),
    );
    let probe = agent.probe().await;
    assert!(!probe.available && probe.message.contains("npm install -g @aaif/goose"), "{probe:?}");
    let mut session = Session::of(agent.start(launch(spec(folder.path()))));
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::NotStarted);
    assert!(exit.message.contains("agents.goose.command"), "{}", exit.message);
}

#[tokio::test]
async fn an_agent_that_needs_a_login_ends_with_the_way_to_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"read -r line; echo '{"id":1,"result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"A key"}]}}'
        read -r line; echo '{"id":2,"error":{"code":-32000,"message":"Authentication required"}}'; read -r line"#;
    let agent = acp(vec!["sh".into(), "-c".into(), script.into()]);
    let mut session = Session::of(agent.start(launch(spec(folder.path()))));
    let exit = session.exit().await;
    assert_eq!(exit.reason, ExitReason::Misbehaved);
    assert!(exit.message.contains("not logged in"), "{}", exit.message);
    let failed = support::events(&session.seen).into_iter().find_map(|event| match event {
        Event::Failure { error, recoverable: false } => Some(error),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.kind, ErrorKind::Auth);
    assert!(failed.way_out.unwrap().contains("A key"));
}

// ------------------------------------------------------------------------------------------ transports

fn missing_claude() -> Claude {
    let config = claude::Config { command: vec!["no-such-claude".into()], ..claude::Config::default() };
    Claude::new(config, Arc::new(supervision()), DialIn::new())
}

#[tokio::test]
async fn an_agent_without_its_own_program_is_reached_over_acp_with_a_notice() {
    let place = place();
    let transports = WithFallback::new(missing_claude(), acp(place.command.clone()));
    assert_eq!(transports.kind(), "claude");
    let probe = transports.probe().await;
    assert!(probe.available && probe.message.contains("no-such-claude"), "{probe:?}");
    assert!(probe.transport.unwrap().name.starts_with("acp"));
    let mut session = ready(&transports, spec(place.folder.path())).await;
    let told = notices(&session.seen);
    assert!(told[0].contains("no-such-claude") && told[0].contains("ACP instead"), "{told:?}");
    let (_, result) = session.turn("hello").await;
    assert_eq!(result.text.as_deref(), Some("hello"));
    session.stop().await;
    // What this transport cannot do is refused, not dropped.
    let system_prompt = Some(SystemPrompt::Append("be brief".into()));
    let spec = SessionSpec { system_prompt, ..spec(place.folder.path()) };
    let exit = Session::of(transports.start(launch(spec))).exit().await;
    assert!(exit.message.contains("system_prompt"), "{}", exit.message);
}

#[tokio::test]
async fn if_no_transport_works_the_agents_own_protocol_reports_what_is_missing() {
    let nothing = || acp(vec!["no-such-adapter".into()]);
    let config = codex::Config { command: vec!["no-such-codex".into()], ..codex::Config::default() };
    let codex = Codex::new(config, Arc::new(supervision()));
    for message in [
        WithFallback::new(missing_claude(), nothing()).probe().await.message,
        WithFallback::new(codex, nothing()).probe().await.message,
    ] {
        assert!(message.contains("no-such-c") && !message.contains("adapter"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let exit = Session::of(WithFallback::new(missing_claude(), nothing()).start(launch(spec(folder.path()))))
        .exit()
        .await;
    assert!(exit.message.contains("no-such-claude"), "{}", exit.message);
}

#[tokio::test]
async fn an_answer_after_the_agent_is_gone_is_refused_and_nothing_hangs() {
    let place = place();
    let mut session = ready(&acp(place.command.clone()), spec(place.folder.path())).await;
    session.prompt("slow").await;
    session.until(|report| matches!(report, Report::TurnStarted { .. })).await;
    let ask = portolan_core::request::Ask::Plan { plan: None, input: serde_json::Value::Null };
    let refused =
        session.ask_of(Order::Answer { key: "7".into(), ask: Box::new(ask), answer: Answer::allow() }).await;
    assert!(refused.unwrap_err().contains("no longer waits"));
    session.link.kill.cancel();
    assert_eq!(session.exit().await.reason, ExitReason::Stopped);
}
