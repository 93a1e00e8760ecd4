//! Prompts that come while a turn runs.

use std::time::Duration;

use portolan_core::{
    Action, Event, capabilities::PromptQueue, command::Stage, event::TurnOutcome, request::Answer,
    session::state::Status,
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must};

/// Between the pieces of the first answer: together about a second, during which the other prompts come.
const PACE: Duration = Duration::from_millis(50);

/// How long a tool that was allowed may take to begin.
const BEGINNING: Duration = Duration::from_secs(30);

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
    // Agents may take the two waiting prompts in one turn or in two: the model must get both.
    let ends = |event: &Event| match event {
        Event::TurnEnded { result, .. } => Some(result.outcome),
        _ => None,
    };
    loop {
        let outcome = session.until("the end of a later turn", ends).await?;
        must!(outcome == TurnOutcome::Completed, "a later turn ended as {outcome:?}");
        let summary = session.state().await?.summary;
        let at_rest = summary.queued == 0 && summary.status == Status::Idle;
        if at_rest && was_told(bench, "second words") && was_told(bench, "third words") {
            return Ok(());
        }
    }
}

/// Whether the model got this text of the user.
fn was_told(bench: &Bench, words: &str) -> bool {
    bench.model.requests().iter().any(|request| request.body.to_string().contains(words))
}

pub(super) async fn steered(bench: &Bench) -> Result<(), Fault> {
    let waits = (bench.profile().shell)("touch begun.txt; while [ ! -e go.txt ]; do sleep 0.1; done");
    let script = Script::new()
        .on(contains("second words"))
        .reply(text("With both in mind."))
        .on(contains("first words"))
        .reply(tools([waits]))
        .then(text("With the first alone."));
    bench.play(script);
    let mut session = bench.session_saying("first words").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let begun = bench.has_file_within("begun.txt", BEGINNING).await;
    must!(begun, "the tool did not begin within {} s", BEGINNING.as_secs());
    let second = session.prompt("second words").await?;
    let waiting = session.state().await?.summary.queued;
    must!(waiting == 1, "{waiting} prompts wait instead of one");
    session.carry_out(Action::Steer { prompt: second }).await?;
    session.settled(second).await?;
    let again = session.submit(Action::Steer { prompt: second }).await;
    must!(again.is_err(), "the same prompt was taken into the turn twice");
    std::fs::write(bench.folder().join("go.txt"), "")?;
    let said = session.completes().await?;
    must!(said == "With both in mind.", "the turn ended with {said:?}");
    let state = session.state().await?;
    must!(state.summary.turns == 1, "there were {} turns instead of one", state.summary.turns);
    let said = |event: &&Event| matches!(event, Event::Prompt { command, .. } if *command == second);
    let times = session.seen().filter(said).count();
    must!(times == 1, "the prompt is in the log {times} times");
    Ok(())
}

pub(super) async fn during_a_tool(bench: &Bench) -> Result<(), Fault> {
    let waits = (bench.profile().shell)("touch begun.txt; while [ ! -e go.txt ]; do sleep 0.1; done");
    let script = Script::new().on(contains("first words")).reply(tools([waits])).then(text("First."));
    bench.play(script.otherwise(text("Noted.")));
    let mut session = bench.session_saying("first words").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let begun = bench.has_file_within("begun.txt", BEGINNING).await;
    must!(begun, "the tool did not begin within {} s", BEGINNING.as_secs());
    let second = session.prompt("second words").await?;
    // If Portolan holds the prompt back, it is sent after the turn has ended.
    if bench.capabilities().prompt_queue == PromptQueue::Agent {
        session
            .until("the prompt on its way", |event| match event {
                Event::Receipt { command, stage } => {
                    (*command == second && *stage == Stage::Delivered).then_some(())
                }
                _ => None,
            })
            .await?;
    }
    std::fs::write(bench.folder().join("go.txt"), "")?;
    // Into the running turn or into a new one: the agent decides.
    session.settled(second).await?;
    loop {
        session.completes().await?;
        if was_told(bench, "second words") {
            break;
        }
    }
    let state = session.state().await?;
    must!(state.summary.queued == 0, "{} prompts still wait", state.summary.queued);
    Ok(())
}
