//! Interrupts: while the model writes, while a tool runs, while a request waits.

use std::time::Duration;

use portolan_core::{
    Action, Event,
    event::ToolOutcome,
    request::{Answer, Outcome},
};
use portolan_scripted::{Script, Step, contains, text, tools};

use crate::{Bench, Fault, fault::must, session::Session};

/// How long a tool that was allowed may take to begin.
const BEGINNING: Duration = Duration::from_secs(30);

fn script(first: Step) -> Script {
    Script::new().on(contains("begin")).reply(first).on(contains("go on")).reply(text("Going on."))
}

/// The session takes another prompt normally.
async fn goes_on(session: &mut Session) -> Result<(), Fault> {
    let said = session.exchange("go on").await?;
    must!(said == "Going on.", "the next turn said {said:?}");
    Ok(())
}

pub(super) async fn in_the_stream(bench: &Bench) -> Result<(), Fault> {
    bench.play(script(text("These words come, and then nothing more does.").stall()));
    let mut session = bench.session_saying("begin").await?;
    session.at_work().await?;
    let interrupt = session.submit(Action::Interrupt).await?;
    session.interrupted().await?;
    session.settled(interrupt).await?;
    if bench.capabilities().streaming {
        must!(
            session.kept("These words"),
            "the text before the interrupt is not kept, or not marked as cut off"
        );
    }
    goes_on(&mut session).await
}

pub(super) async fn in_a_tool(bench: &Bench) -> Result<(), Fault> {
    let call = (bench.profile().shell)("touch running.txt; tail -f /dev/null");
    bench.play(script(tools([call])));
    let mut session = bench.session_saying("begin").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let begun = bench.has_file_within("running.txt", BEGINNING).await;
    must!(begun, "the tool did not begin within {} s", BEGINNING.as_secs());
    let interrupt = session.submit(Action::Interrupt).await?;
    let outcome = session
        .until("the end of the tool", |event| match event {
            Event::ToolResult { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .await?;
    must!(outcome == ToolOutcome::Interrupted, "the tool ended as {outcome:?} instead of interrupted");
    session.interrupted().await?;
    session.settled(interrupt).await?;
    goes_on(&mut session).await
}

pub(super) async fn at_a_request(bench: &Bench) -> Result<(), Fault> {
    bench.play(script(tools([(bench.profile().shell)("touch asked.txt")])));
    let mut session = bench.session_saying("begin").await?;
    let request = session.request().await?;
    let interrupt = session.submit(Action::Interrupt).await?;
    let outcome = session
        .until("the end of the request", |event| match event {
            Event::RequestClosed { request: of, outcome } if *of == request.request => Some(outcome.clone()),
            _ => None,
        })
        .await?;
    must!(matches!(outcome, Outcome::Interrupted { .. }), "the request ended as {outcome:?}");
    session.interrupted().await?;
    session.settled(interrupt).await?;
    let late = session.answer(&request, Answer::allow()).await;
    must!(late.is_err(), "an answer after the interrupt was accepted");
    must!(!bench.has_file("asked.txt"), "the command ran");
    goes_on(&mut session).await
}
