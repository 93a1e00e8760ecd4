//! The contract suite on the real Claude Code, in the two pinned versions that stand for its two roads: the newest over
//! its pipes, and the last that dials in. Offline: the model is scripted, the home is empty, the key opens nothing.
//!
//! `SCENARIO=name` runs that one alone and compares nothing. `UPDATE=1` writes docs/compatibility.md.

mod support;

use std::{path::PathBuf, sync::Arc, time::Duration};

use portolan_agents::{
    Supervision,
    child::Ladder,
    claude::{Claude, Config, Way},
    dial_in::DialIn,
    sweep,
};
use portolan_contract::{Scenario, Subject, profile, run, table::Column};

use support::{listener, npm::Pinned, page};

/// Scenarios of one version at once. They mostly wait; more would only make two cores slower.
const AT_ONCE: usize = 3;

const fn claude(version: &'static str) -> Pinned {
    Pinned {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version,
        // The second is the program itself, for where npm runs no install scripts.
        programs: &[".bin/claude", "@anthropic-ai/claude-code-linux-x64/claude"],
    }
}

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
        Arc::new(agent) as Arc<dyn portolan_core::ports::Agent>
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

// covers: 003-170
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_roads_of_claude_code_do_what_the_page_says() {
    let dial_in = listener::listen().await;
    let wanted = std::env::var("SCENARIO").ok();
    let scenarios: Vec<_> = Scenario::all()
        .into_iter()
        .filter(|scenario| {
            wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|name| name == scenario.name))
        })
        .collect();
    let mut columns = Vec::new();
    for (version, way) in [("2.1.325", Way::Stdio), ("2.1.120", Way::Websocket)] {
        let install = tokio::task::spawn_blocking(move || claude(version).program());
        let program = install.await.expect("no panic").expect("the pinned version");
        let subject = subject(program, version, way, dial_in.clone());
        let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
        columns.push(Column { title: subject.title.clone(), findings });
    }
    page::tell(&columns);
    let unknown =
        columns.iter().flat_map(|column| &column.findings).any(|finding| !finding.unknown.is_empty());
    assert!(!unknown, "a pinned version says what its adapter does not know; see above");
    if wanted.is_none() {
        page::compare("claude", "Claude Code", &columns);
    }
}
