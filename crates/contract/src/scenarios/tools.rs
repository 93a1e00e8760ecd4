//! Features around the tools: background work, rewinds, the context.

use std::time::Duration;

use portolan_core::{
    Action, Event,
    event::{TaskStatus, TurnOrigin},
    request::Answer,
};
use portolan_scripted::{Script, contains, text, tools};
use rustix::process::{Pid, test_kill_process};

use crate::{Bench, Fault, bench::LOOK, fault::must};

/// How long a command may take to begin after it was allowed, or to end after it was stopped.
const STEP: Duration = Duration::from_secs(30);

pub(super) async fn compaction(bench: &Bench) -> Result<(), Fault> {
    let Some((command, told)) = bench.profile().compact else { return Ok(()) };
    let script = Script::new()
        .on(contains(told))
        .reply(text("<summary>Much was said about the sea.</summary>"))
        .on(contains("go on"))
        .reply(text("Going on."))
        .on(contains("tell me much"))
        .reply(text("Much about the sea. ".repeat(50)));
    bench.play(script);
    let mut session = bench.session().await?;
    session.exchange("tell me much").await?;
    session.prompt(command).await?;
    session
        .until("the smaller context", |event| matches!(event, Event::Compacted { .. }).then_some(()))
        .await?;
    session.turn_end().await?;
    let said = session.exchange("go on").await?;
    must!(said == "Going on.", "the next turn said {said:?}");
    Ok(())
}

pub(super) async fn context(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("say something")).reply(text("Something.")));
    let mut session = bench.session().await?;
    session.exchange("say something").await?;
    let told = session.carry_out(Action::Context).await?;
    let is_told = told.as_ref().is_some_and(|told| told.as_object().is_some_and(|told| !told.is_empty()));
    must!(is_told, "the context is reported as {told:?}");
    Ok(())
}

pub(super) async fn background(bench: &Bench) -> Result<(), Fault> {
    let Some(background) = bench.profile().background else { return Ok(()) };
    let script = Script::new()
        .on(contains("begin a long task"))
        .reply(tools([background("while [ ! -e go.txt ]; do sleep 0.1; done; touch done.txt")]))
        .then(text("It has begun."));
    bench.play(script.otherwise(text("So it is done.")));
    let mut session = bench.session_saying("begin a long task").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let said = session.completes().await?;
    must!(said == "It has begun.", "the turn said {said:?}");
    let running = session.state().await?.tasks;
    must!(running.len() == 1, "the tasks at work are {running:?}");
    std::fs::write(bench.folder().join("go.txt"), "")?;
    let (mut ended, mut began) = (false, false);
    session
        .until("the end of the task and the turn that follows it", |event| {
            match event {
                Event::TaskChanged { task } => ended |= task.status == TaskStatus::Completed,
                Event::TurnStarted { origin: TurnOrigin::Agent, .. } => began = true,
                _ => {}
            }
            (ended && began).then_some(())
        })
        .await?;
    session.completes().await?;
    must!(bench.has_file("done.txt"), "the task did not do its work");
    let left = session.state().await?.tasks;
    must!(left.is_empty(), "tasks are still at work: {left:?}");
    Ok(())
}

pub(super) async fn stop_task(bench: &Bench) -> Result<(), Fault> {
    let Some(background) = bench.profile().background else { return Ok(()) };
    let script = Script::new()
        .on(contains("begin a long task"))
        .reply(tools([background("echo $$ > pid.part; mv pid.part pid.txt; exec tail -f /dev/null")]))
        .then(text("It has begun."))
        .on(contains("go on"))
        .reply(text("Going on."));
    bench.play(script.otherwise(text("So it was stopped.")));
    let mut session = bench.session_saying("begin a long task").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    session.completes().await?;
    let running = session.state().await?.tasks;
    let [task] = running.as_slice() else {
        return Err(Fault::wrong(format!("the tasks at work are {running:?}")));
    };
    must!(bench.has_file_within("pid.txt", STEP).await, "the task did not begin within {} s", STEP.as_secs());
    let pid = std::fs::read_to_string(bench.folder().join("pid.txt"))?;
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Fault::wrong("the task wrote no process id"))?;
    let name = task.task.clone();
    session.carry_out(Action::StopTask { task: name.clone() }).await?;
    let status = session
        .until("the end of the task", |event| match event {
            Event::TaskChanged { task } if task.task == name && task.status != TaskStatus::Running => {
                Some(task.status)
            }
            _ => None,
        })
        .await?;
    must!(status == TaskStatus::Stopped, "the task ended as {status:?} instead of stopped");
    let gone = tokio::time::timeout(STEP, async {
        while test_kill_process(pid).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    });
    must!(gone.await.is_ok(), "the task's process still runs {} s after the stop", STEP.as_secs());
    let left = session.state().await?.tasks;
    must!(left.is_empty(), "tasks are still at work: {left:?}");
    // The agent may answer this or not; the session goes on.
    session.prompt("go on").await?;
    session
        .until("the next answer", |event| match event {
            Event::Message { content, .. } if portolan_core::event::plain_text(content) == "Going on." => {
                Some(())
            }
            _ => None,
        })
        .await
}

pub(super) async fn rewind(bench: &Bench) -> Result<(), Fault> {
    let file = bench.folder().join("log.txt");
    let write = |words: &str| tools([(bench.profile().write)(&file, words)]);
    let script = Script::new()
        .on(contains("write the first"))
        .reply(write("first\n"))
        .then(text("First."))
        .on(contains("write the second"))
        .reply(write("second\n"))
        .then(text("Second."));
    bench.play(script);
    let mut session = bench.session().await?;
    let mut prompts = Vec::new();
    for words in ["write the first", "write the second"] {
        prompts.push(session.prompt(words).await?);
        let request = session.request().await?;
        session.answer(&request, Answer::allow()).await?;
        session.completes().await?;
    }
    let now = || std::fs::read_to_string(&file).unwrap_or_default();
    must!(now() == "second\n", "the file holds {:?}", now());
    let to = prompts[1];
    session.carry_out(Action::Rewind { to, dry_run: true }).await?;
    must!(now() == "second\n", "a dry run changed the file to {:?}", now());
    session.carry_out(Action::Rewind { to, dry_run: false }).await?;
    must!(now() == "first\n", "after the rewind the file holds {:?}", now());
    Ok(())
}
