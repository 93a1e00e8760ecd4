//! The contract suite on the real Codex, in the pinned version, through its app-server. Offline: the model is scripted,
//! the home is empty, the key is fake.
//!
//! `SCENARIO=name` runs only that scenario and compares nothing. `UPDATE=1` writes docs/compatibility.md.

// The listener for Claude Code's second transport is not needed here.
#[allow(dead_code, reason = "shared with the tests of other agents")]
#[path = "support/page.rs"]
mod page;

#[path = "codex/own.rs"]
mod own;
#[path = "codex/schema.rs"]
mod schema;

use std::{path::PathBuf, sync::Arc};

use portolan_agents::{
    Supervision,
    codex::{Codex, Config},
    prices::Price,
    sweep,
};
use portolan_contract::{Scenario, Subject, Verdict, profile, run, scenarios, table::Column};
use portolan_core::ports::{Agent as _, PastQuery};
use portolan_testkit::npm::codex;

/// Scenarios at once. They mostly wait; more would only slow two cores down.
const AT_ONCE: usize = 3;

const PINNED: &str = "0.166.0";

fn subject(program: PathBuf) -> Arc<Subject> {
    let make = move |place: &portolan_contract::Place| {
        let supervision = Supervision::new(place.key.clone(), place.environment.clone());
        // Codex reports no cost, and Portolan has no price list for it.
        let price = Price { input: 1.0, output: 8.0, cache_write: 0.0, cache_read: 0.1 };
        let config = Config {
            command: vec![program.clone().into()],
            prices: [("gpt-".to_owned(), price)].into_iter().collect(),
            ..Config::default()
        };
        let agent = Codex::new(config, Arc::new(supervision));
        Ok(Arc::new(agent) as Arc<dyn portolan_core::ports::Agent>)
    };
    Arc::new(Subject {
        title: format!("{PINNED}, app-server"),
        profile: profile::CODEX,
        make: Box::new(make),
        leftovers: |key| {
            sweep(key).iter().map(|swept| format!("{} {}", swept.process.pid, swept.name)).collect()
        },
        tool_server: Some(vec![env!("CARGO_BIN_EXE_contract-tool-server").to_owned()]),
    })
}

async fn installed() -> PathBuf {
    let install = tokio::task::spawn_blocking(|| codex(PINNED).program());
    install.await.unwrap_or_else(|error| panic!("{error}")).unwrap_or_else(|error| panic!("{error:#}"))
}

// covers: 003-022, 003-030, 003-117
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_matches_the_page() {
    let subject = subject(installed().await);
    let scenarios = page::chosen(Scenario::all());
    let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
    let columns = [Column { title: subject.title.clone(), findings }];
    println!("{}", page::told(&columns));
    page::compare("codex", "Codex", &columns);
}

#[test]
fn the_version_that_doctor_recommends_is_the_version_that_runs_here() {
    assert!(profile::CODEX.install.ends_with(&format!("@{PINNED}")), "{}", profile::CODEX.install);
}

// covers: 003-025, 003-035, 003-038, 003-039, 003-044, 003-050, 003-052
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_only_for_codex_pass_and_the_users_configuration_is_unchanged() {
    let subject = subject(installed().await);
    let own: Vec<_> = own::OWN.iter().chain([&scenarios::FIRST_MODE]).collect();
    let findings = run(&subject, &own, AT_ONCE, |_| {}).await;
    let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict.clone()).collect();
    let columns = [Column { title: subject.title.clone(), findings }];
    assert_eq!(verdicts, vec![Verdict::Works; own.len()], "{}", page::told(&columns));
}

// Two processes of Codex that create the databases of one home at once: one of them ends with an error. The daemon's
// first look at the account and the first session did that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_start_at_once_in_a_new_home_all_answer() {
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    // No model is asked.
    let environment = (profile::CODEX.environment)(home.path(), "http://127.0.0.1:9", path);
    let config = Config { command: vec![installed().await.into()], ..Config::default() };
    let agent = Codex::new(config, Arc::new(Supervision::new("a-new-home", environment)));
    let lists = (0..4).map(|_| tokio::spawn(agent.past().unwrap().list(PastQuery::default())));
    for list in lists.collect::<Vec<_>>() {
        assert_eq!(list.await.unwrap().unwrap(), []);
    }
}
