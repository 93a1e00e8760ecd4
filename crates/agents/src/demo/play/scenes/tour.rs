//! The tour: everything in one turn.

use portolan_core::Event;

use super::{
    super::stage::{Played, Stage},
    asking, subagents, tools, trouble,
};

const STEPS: [&str; 6] = [
    "Say hello",
    "Ask before acting",
    "Two at once",
    "Questions and a plan",
    "Weather a storm",
    "Say what it cost",
];

pub(super) async fn play(stage: &Stage) -> Played {
    tools::steps(stage, &STEPS, 0);
    stage
        .say(
            "Welcome aboard. I am the demo agent: a script. No account, no network, and nothing on \
             your machine is changed. In the next half minute you will see what a session can do.",
        )
        .await?;
    stage.think(None, "The user watches, perhaps on two screens. This is thinking; I keep it short.").await?;

    tools::steps(stage, &STEPS, 1);
    stage
        .say("First, a command. I ask before I act; any screen may answer, the first answer counts.")
        .await?;
    match tools::run_ls(stage, None, "ls").await {
        Some(count) => stage.say(&format!("{count} names. Now a change to a file, as a diff:")).await?,
        None => {
            stage.say("Denied. The log keeps the denial. Now a change to a file, as a diff:").await?;
        }
    }
    tools::propose(stage, None).await;

    tools::steps(stage, &STEPS, 2);
    stage.say("Now two subagents, each with a question of its own. Answer in any order.").await?;
    subagents::together(stage).await?;

    tools::steps(stage, &STEPS, 3);
    stage.say("Some questions need more than an approval or a denial.").await?;
    let told = asking::ask_questions(stage).await;
    stage.say(&told).await?;
    stage.say("And a plan, which waits for your approval:").await?;
    let told = asking::ask_plan(stage).await;
    stage.say(&told).await?;

    tools::steps(stage, &STEPS, 4);
    stage.say("Now a failure with a retry:").await?;
    trouble::stumble(stage, 1).await;
    trouble::small_print(stage).await;
    tools::begin_background(stage).await;

    tools::steps(stage, &STEPS, 5);
    let (_, usage, dollars) = stage.with(|inner| inner.ledger.so_far());
    let calls = stage.with(|inner| inner.ledger.calls());
    stage
        .say(&format!(
            "That was {calls} tool calls and {} tokens written; a real model would have charged about \
             ${dollars:.4}. I cost nothing.",
            usage.output
        ))
        .await?;
    tools::steps(stage, &STEPS, STEPS.len());
    stage.event(Event::Activity { activity: None });
    stage
        .say(
            "Everything you saw is one log with many cursors: attach again and it is all there, in order, nothing \
             twice. Say `/help` for what else I can do. In a moment I begin \
             one more turn by myself: the background task still runs.",
        )
        .await
}
