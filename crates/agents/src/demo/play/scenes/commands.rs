//! Slash commands, and what was used.

use portolan_core::{Event, event::AgentInfo};

use super::super::stage::{Played, Stage};

/// What can be asked for.
pub(super) const ASK_FOR: &str = "Ask me for any of these:\n\n\
    - **show me everything**: the tour, in half a minute\n\
    - **hello**, **think**: words, streamed\n\
    - **tool**, **edit**: a command and a diff to approve\n\
    - **two**: two requests at once\n\
    - **page**: a tool of the app that you use me from\n\
    - **question**, **plan**, **form**: other things to answer\n\
    - **subagents**: a small team at work\n\
    - **todo**, **background**: steps and tasks\n\
    - **retry**, **error**, **hooks**: when things go wrong, or nearly\n\
    - **usage**, **long 1000**, **slow**, **json**: the rest\n\n\
    A picture comes back to you. `/help`, `/compact`, `/clear` and `/cost` work. Say **fast** to skip the pauses.\n\n\
    For the curious, and for tests: **hang**, **crash**, **flood 20**, **flood-lines 10000**, **garbage**, \
    **ignore-term**, **orphans**. They really misbehave; the session shows what happened, and `stop` cleans up.";

pub(super) async fn help(stage: &Stage) -> Played {
    stage.say(ASK_FOR).await
}

pub(super) async fn unknown(stage: &Stage, name: &str) -> Played {
    stage.say(&format!("I do not know `/{name}`. There are `/help`, `/compact`, `/clear` and `/cost`.")).await
}

pub(super) async fn compact(stage: &Stage, keep: &str) -> Played {
    stage.event(Event::Activity { activity: Some("compacting".into()) });
    stage.pause(20).await;
    let (before, after) = stage.with(|inner| inner.ledger.compact());
    stage.event(Event::Compacted {
        trigger: Some("manual".into()),
        tokens_before: Some(before),
        tokens_after: Some(after),
    });
    stage.event(Event::Activity { activity: None });
    let kept = if keep.is_empty() { String::new() } else { format!(" I kept in mind: {keep}.") };
    stage.say(&format!("The conversation took {before} tokens and takes {after} now.{kept}")).await
}

pub(super) async fn clear(stage: &Stage) -> Played {
    let session = format!("demo-{}", uuid::Uuid::new_v4().simple());
    stage.with(|inner| {
        inner.session.clone_from(&session);
        inner.ledger.clear();
    });
    stage.event(Event::ConversationReset { agent_session: Some(session.clone()), reason: None });
    stage.event(Event::AgentInfo {
        info: Box::new(AgentInfo { agent_session: Some(session), ..AgentInfo::default() }),
    });
    stage.say("The conversation is empty now. (The log of this session keeps everything.)").await
}

pub(super) async fn usage(stage: &Stage) -> Played {
    let (turns, usage, dollars) = stage.with(|inner| inner.ledger.so_far());
    let model = stage.with(|inner| inner.model.clone());
    stage
        .say(&format!(
            "So far: {turns} turns with {model}, {} tokens read, {} from the cache, {} written. A real model would \
             have charged about ${dollars:.4}; I cost nothing.",
            usage.input, usage.cache_read, usage.output
        ))
        .await
}
