//! Permission: allowed, edited, denied, always, several at once.

use portolan_core::{
    Actor, Event,
    event::{ToolOutcome, TurnOutcome, plain_text},
    request::{Answer, Ask, Outcome, Request, Scope},
};
use portolan_scripted::{Block, Reply, Script, Step, contains, text, tools};

use crate::{
    Bench, Fault,
    fault::must,
    profile::{Denial, TwoAtOnce},
    session::Session,
};

/// The model calls the shell once, then reports the result.
fn one_call(bench: &Bench, command: &str) -> Script {
    let call = (bench.profile().shell)(command);
    Script::new()
        .on(contains("use the shell"))
        .reply(tools([call]))
        .then(text("the tool said: {last_tool_result}"))
}

fn shell(bench: &Bench) -> String {
    bench.profile().shell_name()
}

/// Waits for the result of the tool of a request.
async fn result_of(session: &mut Session, request: &Request) -> Result<(ToolOutcome, String), Fault> {
    let tool = request.tool.clone();
    session
        .until("the result of the tool", |event| match event {
            Event::ToolResult { tool: of, outcome, content, .. }
                if tool.as_ref().is_none_or(|tool| tool == of) =>
            {
                Some((*outcome, plain_text(content)))
            }
            _ => None,
        })
        .await
}

pub(super) async fn allow(bench: &Bench) -> Result<(), Fault> {
    bench.play(one_call(bench, "touch allowed.txt"));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&shell(bench)).await?;
    let Ask::Permission { input, description, .. } = &request.ask else { return Ok(()) };
    // Some agents report the input, some only a line for people.
    let asked = format!("{input} {}", description.as_deref().unwrap_or_default());
    must!(asked.contains("touch allowed.txt"), "the request does not show the command: {asked}");
    must!(!bench.has_file("allowed.txt"), "the command ran before it was allowed");
    let waiting = session.state().await?.summary.waiting;
    must!(waiting == 1, "{waiting} requests wait instead of one");
    session.answer(&request, Answer::allow()).await?;
    let outcome = session
        .until("the end of the request", |event| match event {
            Event::RequestClosed { request: of, outcome } if *of == request.request => Some(outcome.clone()),
            _ => None,
        })
        .await?;
    must!(
        matches!(&outcome, Outcome::Answered { answer: Answer::Allow { .. }, by: Actor::Person { .. } }),
        "the request ended as {outcome:?}"
    );
    let (outcome, said) = result_of(&mut session, &request).await?;
    must!(outcome == ToolOutcome::Done, "the tool ended as {outcome:?}: {said}");
    session.completes().await?;
    must!(bench.has_file("allowed.txt"), "the command did not run");
    Ok(())
}

pub(super) async fn edited_input(bench: &Bench) -> Result<(), Fault> {
    bench.play(one_call(bench, "touch original.txt"));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&shell(bench)).await?;
    let edited = (bench.profile().shell)("touch edited.txt; echo this-was-edited").input;
    let answer = Answer::Allow { input: Some(edited), scope: Scope::Once, mode: None, option: None };
    session.answer(&request, answer).await?;
    let said = session.completes().await?;
    must!(said.contains("this-was-edited"), "the model got: {said}");
    must!(bench.has_file("edited.txt"), "the edited command did not run");
    must!(!bench.has_file("original.txt"), "the original command ran");
    Ok(())
}

/// The shell is called and denied, with a reason; returns the session after the tool has ended.
async fn denied(bench: &Bench) -> Result<Session, Fault> {
    let call = (bench.profile().shell)("touch denied.txt");
    // Some agents send the reason as the tool's result, some beside it.
    let told = text("the tool said: {last_tool_result} {last_note}");
    let script = Script::new().on(contains("use the shell")).reply(tools([call])).then(told);
    bench.play(script.on(contains("go on")).reply(text("Going on.")));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&shell(bench)).await?;
    session.answer(&request, Answer::deny(Some("not in this harbour".into()))).await?;
    let (outcome, said) = result_of(&mut session, &request).await?;
    must!(outcome == ToolOutcome::Denied, "the tool ended as {outcome:?}: {said}");
    Ok(session)
}

pub(super) async fn deny(bench: &Bench) -> Result<(), Fault> {
    let mut session = denied(bench).await?;
    match bench.profile().denial {
        Denial::Reasoned | Denial::Plain => {
            session.completes().await?;
            let told = session.seen().any(|event| match event {
                Event::Message { content, .. } => plain_text(content).starts_with("the tool said: "),
                _ => false,
            });
            must!(told, "after the denial the model was not asked again");
        }
        Denial::EndsTurn => {
            let result = session.turn_end().await?;
            let ended = matches!(result.outcome, TurnOutcome::Completed | TurnOutcome::Interrupted);
            must!(ended && result.error.is_none(), "the turn ended as {:?}", result.outcome);
        }
    }
    must!(!bench.has_file("denied.txt"), "the denied command ran");
    let said = session.exchange("go on").await?;
    must!(said == "Going on.", "the next turn said {said:?}");
    Ok(())
}

pub(super) async fn deny_with_reason(bench: &Bench) -> Result<(), Fault> {
    let mut session = denied(bench).await?;
    let said = session.completes().await?;
    must!(said.contains("not in this harbour"), "the model got: {said}");
    Ok(())
}

pub(super) async fn deny_and_interrupt(bench: &Bench) -> Result<(), Fault> {
    let script = one_call(bench, "touch denied.txt");
    bench.play(script.on(contains("go on")).reply(text("Going on.")));
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&shell(bench)).await?;
    let answer = Answer::Deny { message: Some("stop".into()), interrupt: true, option: None };
    session.answer(&request, answer).await?;
    session.interrupted().await?;
    must!(!bench.has_file("denied.txt"), "the denied command ran");
    let said = session.exchange("go on").await?;
    must!(said == "Going on.", "the next turn said {said:?}");
    Ok(())
}

pub(super) async fn always(bench: &Bench) -> Result<(), Fault> {
    let shell_call = |command: &str| tools([(bench.profile().shell)(command)]);
    let written = bench.folder().join("written.txt");
    let script = Script::new()
        .on(contains("use the shell"))
        .reply(shell_call("touch first.txt"))
        .then(shell_call("touch second.txt"))
        .then(text("Done."))
        .on(contains("write a file"))
        .reply(tools([(bench.profile().write)(&written, "words")]))
        .then(text("Not done."));
    bench.play(script);
    let mut session = bench.session_saying("use the shell").await?;
    let request = session.permission(&shell(bench)).await?;
    let mode = session.state().await?.summary.mode;
    let answer = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    session.answer(&request, answer).await?;
    session.completes().await?;
    must!(bench.has_file("first.txt") && bench.has_file("second.txt"), "the commands did not run");
    let asked = people_were_asked(&session);
    must!(asked == 1, "people were asked {asked} times instead of once");
    let state = session.state().await?;
    must!(state.rules == [shell(bench)], "the session's rules are {:?}", state.rules);
    must!(state.summary.mode == mode, "the mode changed from {mode:?} to {:?}", state.summary.mode);
    // Only this tool was allowed: another tool needs permission as before.
    session.prompt("write a file").await?;
    let request = session.permission(&bench.profile().write_name()).await?;
    session.answer(&request, Answer::deny(None)).await?;
    session.turn_end().await?;
    must!(!written.exists(), "the denied file was written");
    Ok(())
}

/// Requests that no rule answered.
fn people_were_asked(session: &Session) -> usize {
    session.seen().filter(|event| matches!(event, Event::RequestOpened { .. })).count()
}

pub(super) async fn two_at_once(bench: &Bench) -> Result<(), Fault> {
    let shell_call = |command: &str| (bench.profile().shell)(command);
    let both: Vec<_> = match (bench.profile().two_at_once, bench.profile().subagent) {
        (Some(TwoAtOnce::Subagents), Some(subagent)) => {
            vec![subagent("the first", "errand number one"), subagent("the second", "errand number two")]
        }
        _ => vec![shell_call("touch one.txt"), shell_call("touch two.txt")],
    };
    let script = Script::new()
        .on(contains("errand number one"))
        .reply(tools([shell_call("touch one.txt")]))
        .then(text("One is done."))
        .on(contains("errand number two"))
        .reply(tools([shell_call("touch two.txt")]))
        .then(text("Two is done."))
        .on(contains("both at once"))
        .reply(Step::from(Reply::Say(portolan_scripted::Message {
            blocks: both.into_iter().map(Block::Tool).collect(),
            ..portolan_scripted::Message::default()
        })))
        .then(text("Both are on their way."));
    bench.play(script.otherwise(text("Noted.")));
    let mut session = bench.session_saying("both at once").await?;
    let first = session.permission(&shell(bench)).await?;
    let second = session.permission(&shell(bench)).await?;
    let waiting = session.state().await?.summary.waiting;
    must!(waiting == 2, "{waiting} requests wait instead of two");
    // In the reverse order.
    session.answer(&second, Answer::allow()).await?;
    let together = bench.profile().two_at_once == Some(TwoAtOnce::CallsTogether);
    if !together {
        let (outcome, said) = result_of(&mut session, &second).await?;
        must!(outcome == ToolOutcome::Done, "the second tool ended as {outcome:?}: {said}");
    }
    let state = session.state().await?;
    must!(
        state.requests.iter().map(|open| open.request).eq([first.request]),
        "after the second answer these wait: {:?}",
        state.requests
    );
    session.answer(&first, Answer::allow()).await?;
    if together {
        session.completes().await?;
    } else {
        let (outcome, said) = result_of(&mut session, &first).await?;
        must!(outcome == ToolOutcome::Done, "the first tool ended as {outcome:?}: {said}");
    }
    must!(bench.has_file("one.txt") && bench.has_file("two.txt"), "the commands did not both run");
    Ok(())
}
