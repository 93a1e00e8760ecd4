//! The suite itself: it must be able to fail. It tells an agent that works from one that does wrong, one that offers
//! less, and one that never answers; nothing hangs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use portolan_contract::{
    Finding, Place, Scenario, Subject, Verdict,
    profile::{self, Profile},
    run,
};
use portolan_core::{
    Capabilities, Event,
    event::{AgentInfo, Content, ExitReason, ToolOutcome, TurnOutcome, TurnResult},
};
use portolan_testkit::agents::{Played, Puppet, Strings, exit, message};

/// What the agent of a test does with a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Says this text in pieces, then whole.
    Says(&'static str),
    /// Says pieces that are not the whole.
    Garbles,
    /// Says the right text, and gives the result of a tool that it never called.
    Strays,
    /// Never becomes ready.
    Sleeps,
    /// Becomes ready, and never answers.
    Sulks,
    /// Ends at once.
    Dies,
}

/// The text that the scenario `text` expects.
const WORDS: &str = "Hello from the script, in more than one piece.";

fn parrot(habit: Habit) -> Puppet {
    let capabilities = Capabilities { streaming: true, ..Capabilities::default() };
    Puppet::new("claude").with_capabilities(capabilities).playing(move |strings| {
        Box::pin(async move {
            if matches!(habit, Habit::Dies | Habit::Sleeps) {
                strings.started().await;
            }
            match habit {
                Habit::Dies => exit(ExitReason::Failed, "it fell off its perch"),
                Habit::Sleeps => std::future::pending().await,
                Habit::Says(_) | Habit::Garbles | Habit::Strays | Habit::Sulks => {
                    let agent_session = Some("parrot".into());
                    strings.ready_as(AgentInfo { agent_session, ..AgentInfo::default() }).await;
                    if habit == Habit::Sulks {
                        std::future::pending::<()>().await;
                    }
                    strings.act(move |strings, _| Box::pin(spoken(habit, strings))).await
                }
            }
        })
    })
}

async fn spoken(habit: Habit, strings: &mut Strings) -> Played {
    let words = if let Habit::Says(words) = habit { words } else { WORDS };
    let (first, rest) = words.split_at(5);
    let item = strings.name();
    strings.begin_item(&item).await;
    strings.delta(&item, first).await;
    strings.delta(&item, if habit == Habit::Garbles { "squawk" } else { rest }).await;
    strings.event(message(item, Content::text(words))).await;
    if habit == Habit::Strays {
        let (tool, outcome) = ("never-called".to_owned(), ToolOutcome::Done);
        let (content, changes) = (vec![], vec![]);
        strings.event(Event::ToolResult { tool, parent: None, outcome, content, changes }).await;
    }
    Ok(TurnResult::bare(TurnOutcome::Completed))
}

async fn tried(habit: Habit, scenario: &str, leftovers: fn(&str) -> Vec<String>) -> Finding {
    tried_as(&profile::CLAUDE, habit, scenario, leftovers).await
}

async fn tried_as(
    profile: &Profile,
    habit: Habit,
    scenario: &str,
    leftovers: fn(&str) -> Vec<String>,
) -> Finding {
    let subject = Subject {
        title: "Parrot".into(),
        profile: *profile,
        make: Box::new(move |_: &Place| Ok(Arc::new(parrot(habit)))),
        leftovers,
        tool_server: None,
    };
    let scenario = Scenario::named(scenario).unwrap();
    let heard = Mutex::new(0);
    let mut findings = run(&Arc::new(subject), &[scenario], 1, |_| *heard.lock().unwrap() += 1).await;
    assert_eq!((findings.len(), *heard.lock().unwrap()), (1, 1));
    findings.remove(0)
}

const NONE: fn(&str) -> Vec<String> = |_| Vec::new();

fn why(finding: &Finding) -> &str {
    match &finding.verdict {
        Verdict::Fails { why } => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_correct_agent_works() {
    let finding = tried(Habit::Says(WORDS), "text", NONE).await;
    assert_eq!((finding.verdict, finding.transcript), (Verdict::Works, Vec::<String>::new()));
}

#[tokio::test]
async fn an_agent_that_says_something_else_fails_with_the_reason_and_the_transcript() {
    let finding = tried(Habit::Says("Polly wants a cracker."), "text", NONE).await;
    assert_eq!(why(&finding), "the message is [Text { text: \"Polly wants a cracker.\" }]");
    assert!(finding.transcript.iter().any(|line| line.contains("\"type\":\"turn_started\"")));
}

#[tokio::test]
async fn pieces_that_differ_from_the_whole_fail() {
    let finding = tried(Habit::Garbles, "text", NONE).await;
    assert_eq!(why(&finding), "what streamed is [\"Hello\", \"squawk\"]");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_fails_in_time() {
    let began = tokio::time::Instant::now();
    let finding = tried(Habit::Sulks, "text", NONE).await;
    assert_eq!(why(&finding), "the beginning of a turn did not come, and nothing else came for 40 s");
    assert!(began.elapsed() < Duration::from_mins(1), "it took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_starts_fails_after_more_time_than_any_adapter_gives() {
    let finding = tried(Habit::Sleeps, "text", NONE).await;
    assert_eq!(why(&finding), "the beginning of a turn did not come, and nothing else came for 200 s");
}

#[tokio::test]
async fn an_agent_that_ends_fails_at_once_with_its_last_output() {
    let finding = tried(Habit::Dies, "text", NONE).await;
    assert_eq!(why(&finding), "the agent ended before the beginning of a turn came: it fell off its perch");
}

#[tokio::test]
async fn a_scenario_that_an_agent_does_not_offer_is_not_run() {
    let finding = tried(Habit::Sleeps, "image", NONE).await;
    assert_eq!(finding.verdict, Verdict::NotOffered { why: "pictures".into() });
}

#[tokio::test]
async fn a_scenario_that_the_suite_cannot_play_is_not_tested() {
    let profile = Profile { subagent: None, untested: &["subagent"], ..profile::CLAUDE };
    let finding = tried_as(&profile, Habit::Sleeps, "subagent", NONE).await;
    assert_eq!(finding.verdict, Verdict::NotTested { why: "subagents".into() });
}

#[tokio::test]
async fn a_process_left_behind_fails_a_scenario_that_went_well() {
    let finding = tried(Habit::Says(WORDS), "text", |_| vec!["4242 sleep".into()]).await;
    assert_eq!(why(&finding), "left processes behind: 4242 sleep");
}

#[tokio::test]
async fn entries_that_do_not_fit_together_fail_a_scenario_that_went_well() {
    let finding = tried(Habit::Strays, "text", NONE).await;
    let expected = "a result belongs to the call never-called, which was never made (and 0 more breaches)";
    assert!(why(&finding).ends_with(expected), "{}", why(&finding));
}
