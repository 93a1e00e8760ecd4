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
            "Welcome aboard. I am the demo agent: a script with good manners. No account, no network, and nothing on \
             your machine is changed. In the next half minute you will see what a session can do.",
        )
        .await?;
    stage.think(None, "They are watching, perhaps on two screens at once. I should show that this is thinking, and keep it short.").await?;

    tools::steps(stage, &STEPS, 1);
    stage
        .say("First, a command. I ask before I act; any screen may answer, the first answer counts.")
        .await?;
    match tools::run_ls(stage, None, "ls").await {
        Some(count) => stage.say(&format!("{count} names. Now a change to a file, as a diff:")).await?,
        None => {
            stage.say("No, then. That is respected, and noted. Now a change to a file, as a diff:").await?;
        }
    }
    tools::propose(stage, None).await;

    tools::steps(stage, &STEPS, 2);
    stage.say("Now two subagents, each with a question of its own. Answer in any order.").await?;
    subagents::together(stage).await?;

    tools::steps(stage, &STEPS, 3);
    stage.say("Some questions need more than yes or no.").await?;
    let told = asking::ask_questions(stage).await;
    stage.say(&told).await?;
    stage.say("And a plan, which waits for your word:").await?;
    let told = asking::ask_plan(stage).await;
    stage.say(&told).await?;

    tools::steps(stage, &STEPS, 4);
    stage.say("Things go wrong at sea. A retry:").await?;
    trouble::stumble(stage, 1).await;
    trouble::small_print(stage).await;
    tools::begin_background(stage).await;

    tools::steps(stage, &STEPS, 5);
    let (_, usage, dollars) = stage.with(|inner| inner.ledger.so_far());
    let calls = stage.with(|inner| inner.ledger.calls());
    stage
        .say(&format!(
            "That was {calls} tool calls and {} tokens written; a real model would have charged about ${dollars:.4}. I \
             work for nothing.",
            usage.output
        ))
        .await?;
    tools::steps(stage, &STEPS, STEPS.len());
    stage.event(Event::Activity { activity: None });
    stage
        .say(
            "Everything you saw is one log with many cursors: attach again and it is all there, in order, nothing \
             twice. Say `/help` for what else I can do. In a moment I shall speak once more by myself: the tide is \
             still out.",
        )
        .await
}
