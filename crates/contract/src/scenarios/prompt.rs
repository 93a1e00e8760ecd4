//! Prompts that come while a turn runs.

use std::time::Duration;

use portolan_core::{Event, event::TurnOutcome, session::state::Status};
use portolan_scripted::{Script, contains, text};

use crate::{Bench, Fault, fault::must};

/// Between the pieces of the first answer: together about a second, in which the other prompts come.
const PACE: Duration = Duration::from_millis(50);

pub(super) async fn queued(bench: &Bench) -> Result<(), Fault> {
    let slowly = text("The first answer takes its time to come.").chunks_of(2).each_after(PACE);
    let script = Script::new()
        .on(contains("third words"))
        .reply(text("The third answer."))
        .on(contains("second words"))
        .reply(text("The second answer."))
        .on(contains("first words"))
        .reply(slowly);
    bench.play(script);
    let mut session = bench.session().await?;
    let first = session.prompt("first words").await?;
    session.until("a turn", |event| matches!(event, Event::TurnStarted { .. }).then_some(())).await?;
    let second = session.prompt("second words").await?;
    let third = session.prompt("third words").await?;
    for command in [first, second, third] {
        session.settled(command).await?;
    }
    let said = session.completes().await?;
    must!(said == "The first answer takes its time to come.", "the first turn said {said:?}");
    // Agents may take the two that waited in one turn or in two: what counts is that the model was told both.
    let ends = |event: &Event| match event {
        Event::TurnEnded { result, .. } => Some(result.outcome),
        _ => None,
    };
    loop {
        let outcome = session.until("the end of a later turn", ends).await?;
        must!(outcome == TurnOutcome::Completed, "a later turn ended as {outcome:?}");
        let told = |words: &str| {
            let said = |request: &portolan_scripted::Recorded| {
                request
                    .asked
                    .as_ref()
                    .is_some_and(|asked| asked.prompts.iter().any(|said| said.contains(words)))
            };
            bench.model.requests().iter().any(|request| said(request))
        };
        if told("second words") && told("third words") {
            break;
        }
    }
    let state = session.state().await?;
    must!(state.summary.queued == 0, "{} prompts still wait", state.summary.queued);
    must!(state.summary.status == Status::Idle, "the session is {:?}", state.summary.status);
    Ok(())
}
