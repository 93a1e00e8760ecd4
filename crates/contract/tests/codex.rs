//! The contract suite on the real Codex, in the pinned version, through its app-server. Offline: the model is scripted,
//! the home is empty, the key opens nothing.
//!
//! `SCENARIO=name` runs that one alone and compares nothing. `UPDATE=1` writes docs/compatibility.md.

// What stands for Claude Code's second road is not needed here.
#[allow(dead_code, reason = "shared with the tests of other agents")]
#[path = "support/page.rs"]
mod page;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

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
    Action, CommandId, Event, Principal, Role, SessionSpec, TokenId,
    event::{Content, ToolOutcome, plain_text},
    registry::{PastListing, TakeUp},
    request::{Answer, Ask, Choice, Question},
};
use portolan_scripted::{Script, call, contains, text, tools};
use portolan_testkit::npm::codex;
use serde_json::{Value, json};

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

static OWN: [Scenario; 5] = [
    own!("trust", "A session that may write does not make Codex trust the folder for good.", trust),
    own!("schema", "The last message is the result where a schema was asked for.", schema),
    own!("plan-question", "Questions that it asks while it plans are answered.", plan_question),
    own!(
        "past",
        "A conversation that Codex has kept is listed, and taken up with what was said in it.",
        past
    ),
    own!("subagent", "A thread that the model starts is a subagent with its own words.", subagent),
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

async fn past(bench: &Bench) -> Result<(), Fault> {
    let shell = (bench.profile().shell)("echo six-fathoms");
    let script = Script::new().on(contains("how deep")).reply(tools([shell])).then(text("Six fathoms."));
    bench.play(script.on(contains("go on")).reply(text("Going on.")));
    let mut session = bench.session_saying("how deep is it").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    session.completes().await?;
    let kept = session.state().await?.summary.agent_session.unwrap_or_default();
    session.carry_out(Action::Stop).await?;
    let who = Principal {
        token: TokenId::random(),
        name: "test".into(),
        role: Role::Owner,
        sessions: None,
        via: "test".into(),
    };
    let registry = bench.registry().await?;
    // What lives here already is not taken up twice.
    registry.delete(&who, session.id()).await?;
    let listed = registry.past(&who, PastListing { limit: 10, ..PastListing::default() }).await?;
    let found = listed.iter().find(|row| row.past.past == kept).map(|row| row.past.title.as_str());
    if found != Some("how deep is it") {
        return Err(Fault::wrong(format!("`{kept}` is listed as {listed:?}")));
    }
    let spec = SessionSpec { prompt: vec![Content::text("go on")], ..bench.spec() };
    let taken = registry.take_up(&who, CommandId::random(), TakeUp { past: kept, copy: false, spec }).await?;
    let mut again = bench.session_of(taken.session.session).await?;
    let told = again
        .until("what was imported", |event| match event {
            Event::Imported { entries, .. } => Some(*entries),
            _ => None,
        })
        .await?;
    let words: Vec<String> = again
        .seen()
        .filter_map(|event| match event {
            Event::Prompt { content, .. }
            | Event::Message { content, .. }
            | Event::ToolResult { content, .. } => Some(plain_text(content).trim().to_owned()),
            _ => None,
        })
        .collect();
    let said = ["how deep is it", "six-fathoms", "Six fathoms."];
    if !said.iter().all(|part| words.iter().any(|word| word == part)) {
        return Err(Fault::wrong(format!("of {told} entries these are words: {words:?}")));
    }
    let said = again.completes().await?;
    if said == "Going on." { Ok(()) } else { Err(Fault::wrong(format!("it went on with {said:?}"))) }
}

async fn subagent(bench: &Bench) -> Result<(), Fault> {
    let spawn = call("multi_agent_v1/spawn_agent", json!({ "message": "sound the depth" }));
    let script = Script::new()
        .on(contains("sound the depth"))
        .reply(text("Six fathoms."))
        .on(contains("send someone"))
        .reply(tools([spawn]))
        .then(text("Someone was sent."));
    bench.play(script.otherwise(text("Noted.")));
    let prompt = vec![Content::text("send someone")];
    let mut session = bench.session_from(SessionSpec { prompt, ..bench.spec() }).await?;
    let begun = session
        .until("the beginning of a subagent", |event| match event {
            Event::SubagentStarted { subagent, prompt, .. } => Some((subagent.clone(), prompt.clone())),
            _ => None,
        })
        .await?;
    let (outcome, summary) = session
        .until("the end of the subagent", |event| match event {
            Event::SubagentEnded { subagent, outcome, summary, .. } if *subagent == begun.0 => {
                Some((*outcome, summary.clone()))
            }
            _ => None,
        })
        .await?;
    let own = |event: &Event| matches!(event, Event::Message { parent: Some(of), content, .. } if *of == begun.0 && plain_text(content) == "Six fathoms.");
    let told = (begun.1.as_deref(), outcome, summary.as_deref(), session.seen().any(own));
    if told == (Some("sound the depth"), ToolOutcome::Done, Some("Six fathoms."), true) {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the subagent was told as {told:?}")))
    }
}

// covers: 003-025, 003-035
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_plans_fits_schemas_and_leaves_the_users_configuration_alone() {
    let subject = subject(installed().await);
    let findings = run(&subject, &OWN.iter().collect::<Vec<_>>(), AT_ONCE, |_| {}).await;
    let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict.clone()).collect();
    let columns = [Column { title: subject.title.clone(), findings }];
    assert_eq!(verdicts, vec![Verdict::Works; OWN.len()], "{}", page::told(&columns));
}

// ------------------------------------------------------------------------------------------ its schema

/// What Codex may tell that nobody here does anything with: it is kept as unknown where it comes. Most belong to methods
/// that Portolan does not use (voice, its own file search, Windows, a desktop app).
const UNUSED: &[&str] = &[
    "account/gatewayOAuth/changed",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "command/exec/outputDelta",
    "externalAgentConfig/import/completed",
    "externalAgentConfig/import/progress",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "mcpServer/event/stream/notification",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "thread/attachment/updated",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/item/completed",
    "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "turn/moderationMetadata",
    "windows/worldWritableWarning",
    "windowsSandbox/setupCompleted",
];

/// The methods that a file of the schema names.
fn methods(folder: &Path, file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let name = |variant: &Value| variant["properties"]["method"]["enum"][0].as_str().map(str::to_owned);
    schema["oneOf"].as_array().into_iter().flatten().filter_map(name).collect()
}

/// The methods that the adapter's sources name: every text of theirs that has the form of one.
fn named() -> BTreeSet<String> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../agents/src/codex")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !matches!(name.as_str(), "tests" | "transcripts") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.extend(source.split('"').filter(|text| is_method(text)).map(str::to_owned));
            }
        }
    }
    found
}

fn is_method(text: &str) -> bool {
    let mut parts = text.split('/').peekable();
    let is_word =
        |part: &str| part.starts_with(char::is_alphabetic) && part.bytes().all(|c| c.is_ascii_alphabetic());
    let single = [
        "error",
        "warning",
        "guardianWarning",
        "configWarning",
        "deprecationNotice",
        "initialize",
        "initialized",
    ];
    // The paths of the native program behind npm's script look the same.
    let is_path = text.contains("codex");
    single.contains(&text) || text.contains('/') && !is_path && parts.all(is_word)
}

// covers: 003-053
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_adapter_says_and_hears_stands_in_the_schema_that_codex_writes_itself() {
    let (program, folder) = (installed().await, tempfile::tempdir().unwrap());
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["app-server", "generate-json-schema", "--experimental", "--out"]).arg(folder.path());
    command
        .env_clear()
        .env("HOME", &home)
        .env("CODEX_HOME", &home)
        .env("PATH", std::env::var_os("PATH").unwrap());
    let written = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let told = methods(folder.path(), "ServerNotification.json");
    let mut known = methods(folder.path(), "ClientRequest.json");
    known.extend(methods(folder.path(), "ClientNotification.json"));
    known.extend(methods(folder.path(), "ServerRequest.json"));
    known.extend(told.iter().cloned());
    let named = named();
    assert!(named.len() > 40, "the sources name only {named:?}");
    let gone: Vec<_> = named.difference(&known).collect();
    assert_eq!(gone, [""; 0], "this version of Codex does not know them");
    let unused: BTreeSet<String> = UNUSED.iter().map(|name| (*name).to_owned()).collect();
    let new: Vec<_> = told.difference(&named).filter(|name| !unused.contains(*name)).collect();
    assert_eq!(new, [""; 0], "this version of Codex tells more: use it, or say here that it is not used");
}
