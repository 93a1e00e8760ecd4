//! The contract suite on the real Claude Code, in the two pinned versions for its two transports: the newest over its pipes,
//! and the last that dials in. Offline: the model is scripted, the home is empty, the key is fake.
//!
//! `SCENARIO=name` runs only that scenario and compares nothing. `UPDATE=1` writes docs/compatibility.md.

#[path = "claude/page_tools.rs"]
mod page_tools;
mod support;

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use portolan_agents::{
    Supervision,
    child::Ladder,
    claude::{Claude, Config, Way},
    dial_in::DialIn,
    sweep,
};
use portolan_contract::{
    Bench, Fault, Model, Scenario, Subject, Verdict, profile, run, scenarios, table::Column,
};
use portolan_core::{Event, event::plain_text, request::Answer};
use portolan_scripted::{Script, contains, text, tools};
use portolan_testkit::npm::claude;
use support::{listener::Listener, page};

/// Scenarios of one version at once. They mostly wait; more would only slow two cores down.
const AT_ONCE: usize = 3;

/// The newest, over its pipes; and the last that dials in.
const PINNED: [(&str, Way); 2] = [("2.1.325", Way::Stdio), ("2.1.120", Way::Websocket)];

fn subject(program: PathBuf, version: &str, way: Way, dial_in: DialIn) -> Arc<Subject> {
    subject_by(vec![program.into()], version, way, dial_in)
}

fn subject_by(command: Vec<OsString>, version: &str, way: Way, dial_in: DialIn) -> Arc<Subject> {
    let transport = match way {
        Way::Stdio => "stdio",
        Way::Websocket => "WebSocket",
    };
    let make = move |place: &portolan_contract::Place| {
        let mut supervision = Supervision::new(place.key.clone(), place.environment.clone());
        // An agent over a socket does not notice that its pipe was closed; the test does not wait for that.
        let rung = Duration::from_millis(500);
        supervision.ladder = Ladder { ask: rung, close: rung, ..Ladder::default() };
        let config = Config { command: command.clone(), transport: Some(way), ..Config::default() };
        let agent = Claude::new(config, Arc::new(supervision), dial_in.clone());
        Ok(Arc::new(agent) as Arc<dyn portolan_core::ports::Agent>)
    };
    Arc::new(Subject {
        title: format!("{version}, {transport}"),
        profile: profile::CLAUDE,
        make: Box::new(make),
        leftovers: |key| {
            sweep(key).iter().map(|swept| format!("{} {}", swept.process.pid, swept.name)).collect()
        },
        tool_server: Some(vec![env!("CARGO_BIN_EXE_contract-tool-server").to_owned()]),
    })
}

async fn installed(version: &'static str) -> PathBuf {
    let install = tokio::task::spawn_blocking(move || claude(version).program());
    install.await.unwrap_or_else(|error| panic!("{error}")).unwrap_or_else(|error| panic!("{error:#}"))
}

// covers: 000-002, 002-001, 002-075, 003-099
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_transports_of_claude_code_match_the_page() {
    let dial_in = Listener::listen().await.expect("a free port").dial_in;
    let scenarios = page::chosen(Scenario::all());
    let mut columns = Vec::new();
    for (version, way) in PINNED {
        let subject = subject(installed(version).await, version, way, dial_in.clone());
        let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
        columns.push(Column { title: subject.title.clone(), findings });
    }
    println!("{}", page::told(&columns));
    page::compare("claude", "Claude Code", &columns);
}

/// The listener whose connections the next scenario cuts. A scenario knows no listener; this test has only this one.
static LISTENER: OnceLock<Listener> = OnceLock::new();

static LINK: Scenario = Scenario {
    name: "link",
    says: "A lost connection comes back, open requests still wait, and no message is repeated.",
    core: false,
    model: Model::Scripted,
    limit: scenarios::LIMIT,
    offered: |_, _| Ok(()),
    play: |bench| Box::pin(link_is_cut(bench)),
};

async fn link_is_cut(bench: &Bench) -> Result<(), Fault> {
    let call = (bench.profile().shell)("touch allowed.txt");
    let first = text("I ask first.").and(tools([call]));
    bench.play(Script::new().on(contains("use the shell")).reply(first).then(text("It is done.")));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.request().await?;
    LISTENER.get().ok_or_else(|| Fault::wrong("no listener"))?.cut();
    session
        .until("the loss of the link", |event| matches!(event, Event::LinkLost { .. }).then_some(()))
        .await?;
    session.until("its return", |event| matches!(event, Event::LinkRestored).then_some(())).await?;
    let waiting: Vec<_> = session.state().await?.requests.iter().map(|open| open.request).collect();
    if waiting != [request.request] {
        return Err(Fault::wrong(format!("after the link came back these wait: {waiting:?}")));
    }
    session.answer(&request, Answer::allow()).await?;
    session.completes().await?;
    // Once more, between two turns.
    LISTENER.get().ok_or_else(|| Fault::wrong("no listener"))?.cut();
    session.until("its second return", |event| matches!(event, Event::LinkRestored).then_some(())).await?;
    bench.play(Script::new().on(contains("go on")).reply(text("Going on.")));
    session.exchange("go on").await?;
    let said: Vec<String> = session
        .seen()
        .filter_map(|event| match event {
            Event::Message { content, .. } => Some(plain_text(content)),
            Event::ToolCall { name, .. } => Some(name.clone()),
            _ => None,
        })
        .collect();
    if said != ["I ask first.", "Bash", "It is done.", "Going on."] {
        return Err(Fault::wrong(format!("what was said is {said:?}")));
    }
    Ok(())
}

/// The log lines of the daemon.
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Logged;

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// covers: 000-095
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_loses_nothing_repeats_nothing_and_is_in_the_log() {
    let log = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO);
    log.with_writer(|| Logged).init();
    let listener = Listener::listen().await.expect("a free port");
    let dial_in = listener.dial_in.clone();
    LISTENER.set(listener).expect("set once");
    let (version, way) = PINNED[1];
    let subject = subject(installed(version).await, version, way, dial_in);
    let findings = run(&subject, &[&LINK], 1, |_| {}).await;
    let column = Column { title: version.into(), findings };
    let verdicts: Vec<_> = column.findings.iter().map(|finding| finding.verdict.clone()).collect();
    assert_eq!(verdicts, [Verdict::Works], "{}", page::told(&[column]));

    let logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let logged = String::from_utf8_lossy(&logged);
    let lines = |words: &str| logged.lines().filter(|line| line.contains(words)).collect::<Vec<_>>();
    assert!(lines("agent dialled in").len() >= 3, "once, and after each cut: {logged}");
    assert!(lines("connection to the agent lost").len() >= 2, "{logged}");
    let told = lines("agent described itself");
    assert!(
        told.iter().any(|line| line.contains("agent_session=Some") && line.contains("model=Some")),
        "{logged}"
    );
    let ended = lines("agent exited");
    assert!(matches!(ended[..], [line] if line.contains("code=") || line.contains("signal=")), "{logged}");
}

/// Begins in the mode `auto` if no mode is named, and runs commands without asking.
const ACTS_UNASKED: &str = "2.1.300";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_begins_in_a_mode_that_asks() {
    let dial_in = Listener::listen().await.expect("a free port").dial_in;
    let asks: Vec<_> =
        Scenario::all().into_iter().filter(|scenario| scenario.name == "permission-allow").collect();
    let scenarios: Vec<_> = asks.into_iter().chain([&scenarios::FIRST_MODE]).collect();
    for (version, way) in PINNED.into_iter().chain([(ACTS_UNASKED, Way::Stdio)]) {
        let subject = subject(installed(version).await, version, way, dial_in.clone());
        let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
        let column = Column { title: version.into(), findings };
        let verdicts: Vec<_> = column.findings.iter().map(|finding| finding.verdict.clone()).collect();
        assert_eq!(verdicts, [Verdict::Works, Verdict::Works], "{}", page::told(&[column]));
    }
}

static WRONG_FORMAT: Scenario = Scenario {
    name: "wrong-format",
    says: "A CLI that is set to another format ends, and its own error says why.",
    core: false,
    model: Model::Scripted,
    limit: scenarios::LIMIT,
    offered: |_, _| Ok(()),
    play: |bench| Box::pin(ends_with_its_own_words(bench)),
};

async fn ends_with_its_own_words(bench: &Bench) -> Result<(), Fault> {
    let mut session = bench.session_saying("are you there").await?;
    let exit = session
        .until("the end of the CLI", |event| match event {
            Event::AgentExited { exit, .. } => Some(exit.clone()),
            _ => None,
        })
        .await?;
    if !exit.reason.is_error() || exit.code != Some(1) || !exit.stderr.contains("stream-json") {
        return Err(Fault::wrong(format!("the CLI ended like this: {exit:?}")));
    }
    Ok(())
}

/// Runs the CLI with another value for one flag: `text`.
const OTHERWISE: &str = r#"program=$1 flag=$2; shift 2; last=
for word in "$@"; do
    shift
    if [ "$last" = "$flag" ]; then set -- "$@" text; else set -- "$@" "$word"; fi
    last=$word
done
exec "$program" "$@""#;

// covers: 000-012
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cli_with_another_format_ends_and_says_why() {
    let dial_in = Listener::listen().await.expect("a free port").dial_in;
    let [(newest, pipes), (last, dials)] = PINNED;
    for (version, way, flag) in [
        (newest, pipes, "--output-format"),
        (last, dials, "--output-format"),
        (last, dials, "--input-format"),
    ] {
        let program = installed(version).await.into_os_string();
        let words = ["sh", "-c", OTHERWISE, "sh"].map(OsString::from).into_iter();
        let command = words.chain([program, flag.into()]).collect();
        let findings =
            run(&subject_by(command, version, way, dial_in.clone()), &[&WRONG_FORMAT], 1, |_| {}).await;
        let column = Column { title: format!("{version} {flag}"), findings };
        let verdicts: Vec<_> = column.findings.iter().map(|finding| finding.verdict.clone()).collect();
        assert_eq!(verdicts, [Verdict::Works], "{}", page::told(&[column]));
    }
}

#[test]
fn the_version_that_doctor_recommends_is_the_version_that_runs_here() {
    assert!(profile::CLAUDE.install.ends_with(&format!("@{}", PINNED[0].0)), "{}", profile::CLAUDE.install);
}
