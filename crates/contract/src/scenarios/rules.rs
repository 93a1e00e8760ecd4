//! Rules, deadlines and unattended sessions: what is decided without a person.

use portolan_core::{
    Action, Actor, Event,
    capabilities::RulesBind,
    policy::{Effect, Mode, RuleDraft, rule::ScopeDraft},
    request::{Answer, Outcome},
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must, session::Session};

/// The prompts, each with the file that its command creates.
const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";
const LATE: &str = "late";

/// What a file holds that no agent may read.
const SECRET: &str = "hunter2";

/// The model creates a file by the shell for each of these words in a prompt.
fn play(bench: &Bench, words: &[&str]) {
    bench.play(script(bench, words));
}

fn script(bench: &Bench, words: &[&str]) -> Script {
    words.iter().fold(Script::new(), |script, word| {
        let call = (bench.profile().shell)(&format!("touch {word}.txt"));
        script.on(contains(format!("make the {word} file"))).reply(tools([call])).then(text("I tried."))
    })
}

fn prompt(word: &str) -> String {
    format!("make the {word} file")
}

async fn rule(bench: &Bench, session: &mut Session, effect: Effect, word: &str) -> Result<(), Fault> {
    rule_for(bench, session, effect, &format!("touch {word}.txt")).await
}

async fn rule_for(bench: &Bench, session: &mut Session, effect: Effect, command: &str) -> Result<(), Fault> {
    let shell = bench.profile().shell_name();
    let rule = Box::new(RuleDraft {
        effect,
        text: format!("{shell}({command})"),
        scope: ScopeDraft::Session { session: session.id() },
        overridable: false,
        expires_in_seconds: None,
        comment: None,
        matches: vec![],
        does_not_match: vec![],
    });
    session.carry_out(Action::AddRule { rule }).await.map(drop)
}

/// Waits for the next request that nobody was asked about.
async fn decided(session: &mut Session) -> Result<(Answer, Actor), Fault> {
    session
        .until("a decision without a person", |event| match event {
            Event::RequestDecided { outcome: Outcome::Answered { answer, by }, .. } => {
                Some((answer.clone(), by.clone()))
            }
            _ => None,
        })
        .await
}

fn nobody_was_asked(session: &Session) -> Result<(), Fault> {
    let asked = session.seen().any(|event| matches!(event, Event::RequestOpened { .. }));
    must!(!asked, "a person was asked");
    Ok(())
}

pub(super) async fn answers(bench: &Bench) -> Result<(), Fault> {
    play(bench, &[ALLOWED, DENIED, LATE]);
    let mut session = bench.session().await?;
    session.ready().await?;
    rule(bench, &mut session, Effect::Allow, ALLOWED).await?;
    rule(bench, &mut session, Effect::Deny, DENIED).await?;

    session.prompt(&prompt(ALLOWED)).await?;
    let (answer, by) = decided(&mut session).await?;
    must!(matches!(answer, Answer::Allow { .. }), "the rule answered {answer:?}");
    must!(
        matches!(&by, Actor::Policy { rule, .. } if rule.starts_with("allow ")),
        "it was decided by {by:?}"
    );
    session.turn_end().await?;
    must!(bench.has_file("allowed.txt"), "the allowed command did not run");

    session.prompt(&prompt(DENIED)).await?;
    let (answer, by) = decided(&mut session).await?;
    must!(matches!(answer, Answer::Deny { .. }), "the rule answered {answer:?}");
    must!(matches!(&by, Actor::Policy { rule, .. } if rule.starts_with("deny ")), "it was decided by {by:?}");
    session.turn_end().await?;
    must!(!bench.has_file("denied.txt"), "the denied command ran");
    nobody_was_asked(&session)?;

    session.carry_out(Action::SetDeadline { request: None, seconds: Some(1) }).await?;
    session.prompt(&prompt(LATE)).await?;
    let request = session.request().await?;
    must!(request.deadline.is_some(), "the request has no deadline");
    session
        .until("the deadline", |event| match event {
            Event::RequestClosed { request: of, outcome: Outcome::Expired } if *of == request.request => {
                Some(())
            }
            _ => None,
        })
        .await?;
    session.turn_end().await?;
    must!(!bench.has_file("late.txt"), "the command of the expired request ran");
    Ok(())
}

pub(super) async fn stop_bypass(bench: &Bench) -> Result<(), Fault> {
    let read = (bench.profile().shell)("cat secret.txt");
    let script = script(bench, &[ALLOWED, DENIED]);
    bench.play(script.on(contains("read the secret")).reply(tools([read])).then(text("I tried.")));
    let can = bench.capabilities();
    let bypass = can.mode_means.iter().find(|(_, means)| **means == Mode::BypassPermissions);
    let Some((bypass, _)) = bypass else { return Ok(()) };
    let mut session = bench.session().await?;
    session.ready().await?;
    rule(bench, &mut session, Effect::Deny, DENIED).await?;
    session.carry_out(Action::SetMode { mode: bypass.clone() }).await?;
    session.prompt(&prompt(ALLOWED)).await?;
    let (answer, _) = decided(&mut session).await?;
    must!(matches!(answer, Answer::Allow { .. }), "the mode {bypass} answered {answer:?}");
    session.turn_end().await?;
    must!(bench.has_file("allowed.txt"), "the mode {bypass} did not allow a command");
    session.prompt(&prompt(DENIED)).await?;
    let (answer, _) = decided(&mut session).await?;
    must!(matches!(answer, Answer::Deny { .. }), "the rule answered {answer:?}");
    session.turn_end().await?;
    must!(!bench.has_file("denied.txt"), "the denied command ran");
    if can.rules == RulesBind::Enforced {
        // Claude Code reads files without asking, in every mode.
        stop_reading(bench, &mut session).await?;
    }
    nobody_was_asked(&session)?;
    let mode = session.state().await?.summary.mode;
    must!(mode.as_deref() == Some(bypass), "in the end the mode is {mode:?}");
    Ok(())
}

/// A deny rule also stops a command that the agent would not ask about.
async fn stop_reading(bench: &Bench, session: &mut Session) -> Result<(), Fault> {
    let secret = bench.folder().join("secret.txt");
    std::fs::write(&secret, SECRET).map_err(|error| Fault::wrong(format!("no secret: {error}")))?;
    rule_for(bench, session, Effect::Deny, "cat secret.txt").await?;
    session.prompt("read the secret").await?;
    let (answer, _) = decided(session).await?;
    must!(matches!(answer, Answer::Deny { .. }), "the rule answered {answer:?}");
    session.turn_end().await?;
    let is_told = |event: &Event| match event {
        Event::ToolResult { content, .. } => format!("{content:?}").contains(SECRET),
        _ => false,
    };
    must!(!session.seen().any(is_told), "the denied file was read");
    Ok(())
}

pub(super) async fn unattended(bench: &Bench) -> Result<(), Fault> {
    play(bench, &[DENIED]);
    let spec = portolan_core::SessionSpec { unattended: true, ..bench.spec() };
    let mut session = bench.session_from(spec).await?;
    session.ready().await?;
    session.prompt(&prompt(DENIED)).await?;
    let (answer, _) = decided(&mut session).await?;
    let Answer::Deny { message: Some(why), .. } = &answer else {
        return Err(Fault::wrong(format!("the request was answered with {answer:?}")));
    };
    must!(why.ends_with("nobody is asked in an unattended session"), "the reason is {why:?}");
    session.turn_end().await?;
    must!(!bench.has_file("denied.txt"), "the command ran");
    nobody_was_asked(&session)
}
