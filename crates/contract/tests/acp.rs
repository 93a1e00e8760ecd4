//! The contract suite on real agents over ACP, in their pinned versions. Offline: the model is scripted, the home is
//! empty, the key is fake.
//!
//! `SCENARIO=name` runs only that scenario and compares nothing. `UPDATE=1` writes docs/compatibility.md.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::large_types_passed_by_value,
    reason = "a test, which prints what ran; profiles are passed once"
)]

// The listener for Claude Code's second transport is not needed here.
#[allow(dead_code, reason = "shared with the tests of other agents")]
#[path = "support/page.rs"]
mod page;

use std::{ffi::OsString, sync::Arc, time::Duration};

use portolan_agents::{
    Supervision,
    acp::{Acp, Config, Serves, catalogue},
    child::Versions,
    sweep,
};
use portolan_contract::{
    Bench, Fault, Model, Place, Profile, Scenario, Subject, Verdict, profile, run, scenarios, table::Column,
};
use portolan_core::{
    Action, CommandId, Event, Principal, RefusalCode, Role, SessionSpec, TokenId,
    event::{Content, plain_text},
    ports::Agent,
    registry::{PastListing, TakeUp},
    request::Answer,
};
use portolan_scripted::{Script, contains, conversation_contains, hang, text, tools};
use portolan_testkit::npm::{self, Pinned};

/// Scenarios at once. They mostly wait; more would only slow two cores down.
const AT_ONCE: usize = 3;

/// How long an agent may take to report that a turn has stopped. Shorter than for a user, so that an agent that never
/// reports it costs the suite little.
const PATIENCE: Duration = Duration::from_secs(15);

const AGENTS: [(Profile, Pinned); 6] = [
    (profile::GEMINI, npm::GEMINI),
    (profile::QWEN, npm::QWEN),
    (profile::OPENCODE, npm::OPENCODE),
    (profile::GOOSE, npm::GOOSE),
    (profile::CLAUDE_AGENT_ACP, npm::CLAUDE_AGENT_ACP),
    (profile::CODEX_ACP, npm::CODEX_ACP),
];

fn subject(profile: Profile, version: &str, command: Vec<OsString>) -> Arc<Subject> {
    // One agent works for more than a second to report its version, so the scenarios share the known versions.
    let versions = Versions::default();
    let make = move |place: &Place| {
        let mut supervision = Supervision::new(place.key.clone(), place.environment.clone());
        supervision.answer = PATIENCE;
        supervision.versions = versions.clone();
        // The defaults of a daemon. No prices: only the agent can report the cost of a turn.
        let config = Config {
            kind: profile.agent.to_owned(),
            command: command.clone(),
            serves: Serves { files: true, terminals: true },
            ..Config::default()
        };
        Ok(Arc::new(Acp::new(config, &supervision)) as Arc<dyn Agent>)
    };
    Arc::new(Subject {
        title: format!("{version}, ACP"),
        profile,
        make: Box::new(make),
        leftovers: |key| {
            sweep(key).iter().map(|swept| format!("{} {}", swept.process.pid, swept.name)).collect()
        },
        tool_server: Some(vec![env!("CARGO_BIN_EXE_contract-tool-server").to_owned()]),
    })
}

/// The program with the arguments that the catalogue starts it with.
async fn installed(profile: Profile, pinned: Pinned) -> Vec<OsString> {
    let install = tokio::task::spawn_blocking(move || pinned.command());
    let command = install.await.unwrap_or_else(|error| panic!("{error}"));
    let mut command = command.unwrap_or_else(|error| panic!("{error}"));
    command.extend(catalogue::known(profile.agent).command.iter().skip(1).map(OsString::from));
    command
}

/// A conversation that no agent has.
const NOWHERE: &str = "01a00000-0000-7000-8000-000000000000";

/// Agents that do not list past conversations.
const WITHOUT_LIST: &[&str] = &["gemini"];

/// A scenario only for these agents.
macro_rules! own {
    ($name:literal, $says:literal, $play:path) => {
        Scenario {
            name: $name,
            says: $says,
            core: false,
            model: Model::Scripted,
            // An agent is started up to four times, and one needs half a minute for each start on a busy machine.
            limit: scenarios::LIMIT.saturating_mul(2),
            offered: |_, _| Ok(()),
            play: |bench| Box::pin($play(bench)),
        }
    };
}

static OWN: [Scenario; 5] = [
    own!(
        "unknown-session",
        "A conversation that the agent does not have is not resumed, and an error says so.",
        unknown_session
    ),
    own!("past", "A past conversation is listed, and imported with its messages.", past),
    own!("modes", "The agent has the documented modes, and begins in a mode that asks.", modes),
    own!("silent", "A notice says that the agent is silent while its model does not answer.", silent),
    own!(
        "unsaid-reason",
        "A notice says that the reason of a denial did not reach the agent.",
        unsaid_reason
    ),
];

/// The modes of each agent, and its mode when a session begins.
const MODES: [(&str, &[&str], &str); 6] = [
    ("gemini", &["default", "autoEdit", "yolo", "plan"], "default"),
    ("qwen", &["plan", "default", "auto-edit", "auto", "yolo"], "default"),
    ("opencode", &["build", "plan"], "build"),
    ("goose", &["auto", "approve", "smart_approve", "chat"], "approve"),
    ("claude-agent-acp", &["default", "acceptEdits", "plan", "auto"], "default"),
    ("codex-acp", &["read-only", "workspace-write", "agent", "agent-full-access"], "read-only"),
];

async fn modes(bench: &Bench) -> Result<(), Fault> {
    let mut session = bench.session().await?;
    session.ready().await?;
    let state = session.state().await?;
    let known = MODES.iter().find(|(agent, ..)| *agent == bench.profile().agent);
    let Some((_, modes, first)) = known else { return Err(Fault::wrong("an agent without a list of modes")) };
    let told = state.capabilities.supported_permission_modes.unwrap_or_default();
    if told != *modes || state.summary.mode.as_deref() != Some(first) {
        return Err(Fault::wrong(format!("the agent has {told:?}, and is in {:?}", state.summary.mode)));
    }
    Ok(())
}

async fn silent(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().otherwise(hang()));
    let mut session = bench.session_saying("are you there").await?;
    session.may_take_long();
    session
        .until("that it is silent", |event| match event {
            Event::Notice { text, .. } if text.contains("has said nothing for") => Some(()),
            _ => None,
        })
        .await?;
    session.submit(Action::Interrupt).await?;
    session.interrupted().await
}

async fn unsaid_reason(bench: &Bench) -> Result<(), Fault> {
    let call = (bench.profile().shell)("touch denied.txt");
    bench.play(Script::new().on(contains("use the shell")).reply(tools([call])).then(text("Very well.")));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&bench.profile().shell_name()).await?;
    session.answer(&request, Answer::deny(Some("not in this harbour".into()))).await?;
    session
        .until("that the reason was not passed on", |event| match event {
            Event::Notice { text, .. } if text.contains("not in this harbour") => Some(()),
            _ => None,
        })
        .await
}

async fn past(bench: &Bench) -> Result<(), Fault> {
    let script = Script::new().on(contains("how deep")).reply(text("Six fathoms."));
    let remembers = conversation_contains("how deep").and_contains("go on");
    bench.play(script.on(remembers).reply(text("Going on.")).on(contains("go on")).reply(text("With what?")));
    let mut session = bench.session_saying("how deep is it").await?;
    session.completes().await?;
    let kept = session.state().await?.summary.agent_session.unwrap_or_default();
    bench.saved(&kept, "Six fathoms.").await?;
    session.carry_out(Action::Stop).await?;
    let who = Principal {
        token: TokenId::random(),
        name: "test".into(),
        role: Role::Owner,
        sessions: None,
        via: "test".into(),
    };
    let registry = bench.registry().await?;
    // A conversation that a session already has is not imported again.
    registry.delete(&who, session.id()).await?;
    let agent = Some(bench.profile().agent.to_owned());
    let listing = PastListing { agent, limit: 10, ..PastListing::default() };
    let listed = match registry.past(&who, listing).await {
        Err(refusal) if refusal.code == RefusalCode::Unsupported => {
            return Err(Fault::NotOffered(refusal.message));
        }
        listed => listed?,
    };
    let found = listed.iter().find(|row| row.past.past == kept);
    let folder = found.and_then(|row| row.past.cwd.as_deref());
    if folder != Some(bench.folder()) {
        return Err(Fault::wrong(format!("the conversation `{kept}` is listed as {listed:?}")));
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
            Event::Prompt { content, .. } | Event::Message { content, .. } => Some(plain_text(content)),
            _ => None,
        })
        .collect();
    // Some agents put more text around the prompt.
    if !["how deep is it", "Six fathoms."].iter().all(|part| words.iter().any(|word| word.contains(part))) {
        return Err(Fault::wrong(format!("of {told} entries these are messages: {words:?}")));
    }
    let said = again.completes().await?;
    if said == "Going on." { Ok(()) } else { Err(Fault::wrong(format!("the agent went on with {said:?}"))) }
}

async fn unknown_session(bench: &Bench) -> Result<(), Fault> {
    let spec = SessionSpec { resume: Some(NOWHERE.into()), ..bench.spec() };
    let mut session = bench.session_from(spec).await?;
    let exit = session
        .until("the end of the agent", |event| match event {
            Event::AgentExited { exit, .. } => Some(Some(exit.clone())),
            Event::AgentReady { .. } => Some(None),
            _ => None,
        })
        .await?;
    match exit {
        Some(exit) if exit.reason.is_error() && exit.message.contains("could not begin") => Ok(()),
        exit => Err(Fault::wrong(format!("the agent went on, or gave no error: {exit:?}"))),
    }
}

async fn does_what_the_page_says(agent: &str) {
    let (profile, pinned) =
        AGENTS.into_iter().find(|(profile, _)| profile.agent == agent).expect("one of these");
    let subject = subject(profile, pinned.program_version(), installed(profile, pinned).await);
    // First, because they mostly wait.
    let own = OWN.iter().chain([&scenarios::FIRST_MODE]);
    let scenarios = page::chosen(own.chain(Scenario::all()));
    let findings = run(&subject, &scenarios, AT_ONCE, |_| {}).await;
    let columns = [Column { title: subject.title.clone(), findings }];
    println!("{}", page::told(&columns));
    for finding in &columns[0].findings {
        if finding.scenario.name == scenarios::FIRST_MODE.name {
            assert!(
                !matches!(finding.verdict, Verdict::Fails { .. }),
                "the agent acts without asking; see above"
            );
        }
        let Some(own) = OWN.iter().find(|own| own.name == finding.scenario.name) else { continue };
        let without = own.name == "past" && WITHOUT_LIST.contains(&agent);
        let as_it_should = match finding.verdict {
            Verdict::Works => !without,
            Verdict::NotOffered { .. } => without,
            Verdict::NotTested { .. } | Verdict::Fails { .. } => false,
        };
        assert!(as_it_should, "{}; see above", own.says);
    }
    for finding in &columns[0].findings {
        if let ("resume-twice", Verdict::Fails { why }) = (finding.scenario.name, &finding.verdict) {
            // The agent went on as if it remembered.
            assert!(
                why.contains(scenarios::FORGOTTEN_ALOUD),
                "the agent has forgotten, and nothing shows it; see above"
            );
        }
    }
    page::compare(agent, profile.title, &columns);
}

// covers: 003-020, 003-021, 003-022, 003-024, 003-029
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_matches_the_page() {
    does_what_the_page_says("gemini").await;
}

// covers: 003-017, 003-020, 003-021, 003-024, 003-141
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qwen_matches_the_page() {
    does_what_the_page_says("qwen").await;
}

// covers: 003-011, 003-019, 003-020, 003-021, 003-024, 003-026, 003-031
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_matches_the_page() {
    does_what_the_page_says("opencode").await;
}

// covers: 003-012, 003-020, 003-021, 003-024
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goose_matches_the_page() {
    does_what_the_page_says("goose").await;
}

// covers: 003-011, 003-023
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_acp_adapter_of_claude_code_matches_the_page() {
    does_what_the_page_says("claude-agent-acp").await;
}

// covers: 003-011, 003-117
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_acp_adapter_of_codex_matches_the_page() {
    does_what_the_page_says("codex-acp").await;
}

#[test]
fn the_tested_version_of_the_catalogue_is_the_version_that_runs_here() {
    for (profile, pinned) in AGENTS {
        let known = catalogue::known(profile.agent);
        assert_eq!(known.tested, Some(pinned.program_version()), "{}", profile.agent);
        assert_eq!(known.title, profile.title);
        assert!(profile.install.ends_with(&format!("@{}", pinned.version)), "{}", profile.install);
        assert!(
            known.install.ends_with(pinned.package),
            "{} is not the version that runs here",
            known.install
        );
    }
}
