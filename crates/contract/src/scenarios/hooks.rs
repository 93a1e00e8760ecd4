//! Hooks: the agent stops at a point in its work and waits for its user's answer.

use portolan_core::{
    Event, SessionSpec,
    event::ToolOutcome,
    request::{Answer, Ask, Request},
    spec::HookDefinition,
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must, profile::HookCall, session::Session};

pub(super) async fn before_a_tool(bench: &Bench) -> Result<(), Fault> {
    let Some(hook) = bench.profile().hook else { return Ok(()) };
    let shell = bench.profile().shell;
    let script = Script::new()
        .on(contains("try it"))
        .reply(tools([shell("touch refused.txt")]))
        .then(text("the tool said: {last_tool_result}"))
        .on(contains("try again"))
        .reply(tools([shell("touch allowed.txt")]))
        .then(text("Done."));
    bench.play(script);
    let hooks = vec![HookDefinition {
        event: hook.event.into(),
        matcher: Some(shell("").name),
        timeout_seconds: None,
    }];
    let mut session = bench.session_from(SessionSpec { hooks, ..bench.spec() }).await?;

    session.prompt("try it").await?;
    let request = called(&mut session, &hook, "touch refused.txt").await?;
    session.answer(&request, Answer::deny(Some("the tide is too low".into()))).await?;
    let outcome = session
        .until("the end of the tool", |event| match event {
            Event::ToolResult { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .await?;
    must!(outcome != ToolOutcome::Done, "the tool that the hook refused ended as {outcome:?}");
    let said = session.completes().await?;
    must!(said.contains("the tide is too low"), "the model got: {said}");
    must!(!bench.has_file("refused.txt"), "the refused command ran");

    session.prompt("try again").await?;
    let request = called(&mut session, &hook, "touch allowed.txt").await?;
    session.answer(&request, Answer::Output { output: (hook.allow)() }).await?;
    session.completes().await?;
    must!(bench.has_file("allowed.txt"), "the allowed command did not run");
    let others = session.seen().filter(|event| match event {
        Event::RequestOpened { request } => !matches!(request.ask, Ask::Hook { .. }),
        _ => false,
    });
    must!(others.count() == 0, "a request was opened although the hook had decided");
    Ok(())
}

/// Waits for the hook, which must show this command.
async fn called(session: &mut Session, hook: &HookCall, command: &str) -> Result<Request, Fault> {
    let request = session.request().await?;
    let Ask::Hook { event, input } = &request.ask else {
        return Err(Fault::wrong(format!("the agent asked for {} instead of a hook", request.ask.title())));
    };
    must!(event == hook.event, "the hook is shown as {event}");
    must!(input.to_string().contains(command), "the hook does not show the command: {input}");
    Ok(request)
}
