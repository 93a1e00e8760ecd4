//! The contract suite on the real Codex, in the pinned version, through its app-server. Offline: the model is scripted,
//! the home is empty, the key opens nothing.
//!
//! `SCENARIO=name` runs that one alone and compares nothing. `UPDATE=1` writes docs/compatibility.md.

// What stands for Claude Code's second road is not needed here.
#[allow(dead_code, reason = "shared with the tests of other agents")]
#[path = "support/page.rs"]
mod page;

use std::{path::PathBuf, sync::Arc};

use portolan_agents::{
    Supervision,
    claude::prices::Price,
    codex::{Codex, Config},
    sweep,
};
use portolan_contract::{
    Bench, Fault, Model, Scenario, Subject, Verdict, profile, run, scenarios,
    table::{self, Column},
};
use portolan_core::{
    SessionSpec,
    event::Content,
    request::{Answer, Ask, Choice, Question},
};
use portolan_scripted::{Script, contains, text, tools};
use portolan_testkit::npm::codex;
use serde_json::json;

/// Scenarios at once. They mostly wait; more would only make two cores slower.
const AT_ONCE: usize = 3;

const PINNED: &str = "0.166.0";

fn subject(program: PathBuf) -> Arc<Subject> {
    let make = move |place: &portolan_contract::Place| {
        let supervision = Supervision::new(place.key.clone(), place.environment.clone());
        // Codex tells no money, and there is no list of prices.
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
async fn codex_does_what_the_page_says() {
    let subject = subject(installed().await);
    let wanted = std::env::var("SCENARIO").ok();
    let scenarios: Vec<_> = Scenario::all()
        .into_iter()
        .filter(|scenario| {
            wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|name| name == scenario.name))
        })
        .collect();
    let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
    let columns = [Column { title: subject.title.clone(), findings }];
    println!("{}", page::told(&columns));
    let unknown =
        columns.iter().flat_map(|column| &column.findings).any(|finding| !finding.unknown.is_empty());
    assert!(!unknown, "the pinned version says what its adapter does not know; see above");
    if wanted.is_some() {
        return;
    }
    let ran = table::section("codex", "Codex", &columns);
    let stands = page::section("codex", &ran).expect("docs/compatibility.md");
    assert_eq!(
        stands, ran,
        "docs/compatibility.md is not what ran; see above why, then run this test with UPDATE=1 and commit the page"
    );
}

#[test]
fn what_doctor_tells_to_install_is_what_runs_here() {
    assert!(profile::CODEX.install.ends_with(&format!("@{PINNED}")), "{}", profile::CODEX.install);
}

/// A scenario of Codex' own.
macro_rules! own {
    ($name:literal, $says:literal, $play:path) => {
        Scenario {
            name: $name,
            says: $says,
            core: false,
            model: Model::Scripted,
            limit: scenarios::LIMIT,
            offered: |_, _| Ok(()),
            play: |bench| Box::pin($play(bench)),
        }
    };
}

static OWN: [Scenario; 3] = [
    own!("trust", "A session that may write does not make Codex trust the folder for good.", trust),
    own!("schema", "The last message is the result where a schema was asked for.", schema),
    own!("plan-question", "Questions that it asks while it plans are answered.", plan_question),
];

async fn trust(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("hello")).reply(text("Here.")));
    let config = bench.folder().join("../home/.codex/config.toml");
    let before = std::fs::read_to_string(&config)?;
    for mode in ["auto", "full-access"] {
        let prompt = vec![Content::text("hello")];
        let spec = SessionSpec { mode: Some(mode.into()), prompt, ..bench.spec() };
        let mut session = bench.session_from(spec).await?;
        session.completes().await?;
        let set = session.state().await?.summary.mode;
        if set.as_deref() != Some(mode) {
            return Err(Fault::wrong(format!("the mode is {set:?} instead of {mode}")));
        }
    }
    let after = std::fs::read_to_string(&config)?;
    if before == after {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the user's configuration is now {after}")))
    }
}

async fn schema(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("how deep")).reply(text("{\"fathoms\": 6}")));
    let schema = json!({ "type": "object", "properties": { "fathoms": { "type": "integer" } },
        "required": ["fathoms"], "additionalProperties": false });
    let prompt = vec![Content::text("how deep is it")];
    let spec = SessionSpec { json_schema: Some(schema), prompt, ..bench.spec() };
    let result = bench.session_from(spec).await?.turn_end().await?;
    if result.structured == Some(json!({ "fathoms": 6 })) {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the result is {:?}", result.structured)))
    }
}

async fn plan_question(bench: &Bench) -> Result<(), Fault> {
    let choice = |label: &str| Choice { label: label.into(), description: Some(format!("to take {label}")) };
    let question = Question {
        question: "Which colour?".into(),
        header: Some("Colour".into()),
        choices: vec![choice("Red"), choice("Green")],
        multiple: false,
        free_text: true,
        secret: false,
    };
    let call = profile::codex::ask(std::slice::from_ref(&question));
    let script = Script::new().on(contains("ask me")).reply(tools([call]));
    bench.play(script.then(text("you said: {last_tool_result}")));
    let prompt = vec![Content::text("ask me")];
    let mut session =
        bench.session_from(SessionSpec { mode: Some("plan".into()), prompt, ..bench.spec() }).await?;
    let request = session.request().await?;
    if !matches!(&request.ask, Ask::Question { questions } if questions[0].question == "Which colour?") {
        return Err(Fault::wrong(format!("asked {}", request.ask.title())));
    }
    let answers = [("Which colour?".to_owned(), vec!["Green".to_owned()])].into_iter().collect();
    session.answer(&request, Answer::Choices { answers }).await?;
    let said = session.completes().await?;
    if said.contains("Green") { Ok(()) } else { Err(Fault::wrong(format!("the model was told: {said}"))) }
}

// covers: 003-025, 003-035
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_plans_fits_schemas_and_leaves_the_users_configuration_alone() {
    let subject = subject(installed().await);
    let findings = run(&subject, &OWN.iter().collect::<Vec<_>>(), AT_ONCE, |_| {}).await;
    let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict.clone()).collect();
    let columns = [Column { title: subject.title.clone(), findings }];
    assert_eq!(verdicts, [Verdict::Works, Verdict::Works, Verdict::Works], "{}", page::told(&columns));
}
