//! The contract suite on the real Claude Code, in the two pinned versions that stand for its two roads: the newest over
//! its pipes, and the last that dials in. Offline: the model is scripted, the home is empty, the key opens nothing.
//!
//! `SCENARIO=name` runs that one alone and compares nothing. `UPDATE=1` writes docs/compatibility.md.

mod support;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
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
    Bench, Fault, Model, Scenario, Subject, Verdict, profile, run, scenarios,
    table::{self, Column},
};
use portolan_core::{Event, event::plain_text, request::Answer};
use portolan_scripted::{Script, contains, text, tools};
use portolan_testkit::npm::claude;
use support::{listener::Listener, page};

/// Scenarios of one version at once. They mostly wait; more would only make two cores slower.
const AT_ONCE: usize = 3;

/// The newest, over its pipes; and the last that dials in.
const PINNED: [(&str, Way); 2] = [("2.1.325", Way::Stdio), ("2.1.120", Way::Websocket)];

fn subject(program: PathBuf, version: &str, way: Way, dial_in: DialIn) -> Arc<Subject> {
    let road = match way {
        Way::Stdio => "stdio",
        Way::Websocket => "WebSocket",
    };
    let make = move |place: &portolan_contract::Place| {
        let mut supervision = Supervision::new(place.key.clone(), place.environment.clone());
        // An agent over a socket does not see that its pipe was closed; nobody wants to wait for that here.
        let rung = Duration::from_millis(500);
        supervision.ladder = Ladder { ask: rung, close: rung, ..Ladder::default() };
        let config =
            Config { command: vec![program.clone().into()], transport: Some(way), ..Config::default() };
        let agent = Claude::new(config, Arc::new(supervision), dial_in.clone());
        Ok(Arc::new(agent) as Arc<dyn portolan_core::ports::Agent>)
    };
    Arc::new(Subject {
        title: format!("{version}, {road}"),
        profile: profile::CLAUDE,
        make: Box::new(make),
        leftovers: |key| {
            sweep(key).iter().map(|swept| format!("{} {}", swept.process.pid, swept.name)).collect()
        },
        tool_server: Some(vec![env!("CARGO_BIN_EXE_contract-tool-server").to_owned()]),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_roads_of_claude_code_do_what_the_page_says() {
    let dial_in = Listener::listen().await.expect("a free port").dial_in;
    let wanted = std::env::var("SCENARIO").ok();
    let scenarios: Vec<_> = Scenario::all()
        .into_iter()
        .filter(|scenario| {
            wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|name| name == scenario.name))
        })
        .collect();
    let mut columns = Vec::new();
    for (version, way) in PINNED {
        let install = tokio::task::spawn_blocking(move || claude(version).program());
        let program = install.await.expect("no panic").expect("the pinned version");
        let subject = subject(program, version, way, dial_in.clone());
        let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
        columns.push(Column { title: subject.title.clone(), findings });
    }
    println!("{}", page::told(&columns));
    let unknown =
        columns.iter().flat_map(|column| &column.findings).any(|finding| !finding.unknown.is_empty());
    assert!(!unknown, "a pinned version says what its adapter does not know; see above");
    if wanted.is_some() {
        return;
    }
    let ran = table::section("claude", "Claude Code", &columns);
    let stands = page::section("claude", &ran).expect("docs/compatibility.md");
    assert_eq!(
        stands, ran,
        "docs/compatibility.md is not what ran; see above why, then run this test with UPDATE=1 and commit the page"
    );
}

/// The listener whose connections the next scenario cuts. It knows no listener; this test has just the one.
static LISTENER: OnceLock<Listener> = OnceLock::new();

static LINK: Scenario = Scenario {
    name: "link",
    says: "A lost connection comes back, what waited still waits, and nothing is said twice.",
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_costs_nothing_and_repeats_nothing() {
    let listener = Listener::listen().await.expect("a free port");
    let dial_in = listener.dial_in.clone();
    LISTENER.set(listener).expect("set once");
    let (version, way) = PINNED[1];
    let install = tokio::task::spawn_blocking(move || claude(version).program());
    let program = install.await.expect("no panic").expect("the pinned version");
    let findings = run(&subject(program, version, way, dial_in), &[&LINK], 1, |_| {}).await;
    let column = Column { title: version.into(), findings };
    let verdicts: Vec<_> = column.findings.iter().map(|finding| finding.verdict.clone()).collect();
    assert_eq!(verdicts, [Verdict::Works], "{}", page::told(&[column]));
}

#[test]
fn what_doctor_tells_to_install_is_what_runs_here() {
    assert!(profile::CLAUDE.install.ends_with(&format!("@{}", PINNED[0].0)), "{}", profile::CLAUDE.install);
}
