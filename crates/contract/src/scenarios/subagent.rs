//! Subagents.

use portolan_core::{
    Event,
    event::{ToolOutcome, plain_text},
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must};

pub(super) async fn one(bench: &Bench) -> Result<(), Fault> {
    let Some(subagent) = bench.profile().subagent else { return Ok(()) };
    let script = Script::new()
        .on(contains("sound the depth"))
        .reply(tools([(bench.profile().shell)("echo six-fathoms")]))
        .then(text("It is: {last_tool_result}"))
        .on(contains("send someone"))
        .reply(tools([subagent("sounding", "sound the depth")]))
        .then(text("Someone was sent."));
    bench.play(script.otherwise(text("Noted.")));
    let mut session = bench.session_saying("send someone").await?;
    let (name, description) = session
        .until("the beginning of a subagent", |event| match event {
            Event::SubagentStarted { subagent, description, .. } => {
                Some((subagent.clone(), description.clone()))
            }
            _ => None,
        })
        .await?;
    must!(description == "sounding", "the subagent is described as {description:?}");
    let (outcome, summary) = session
        .until("the end of the subagent", |event| match event {
            Event::SubagentEnded { subagent, outcome, summary, .. } if *subagent == name => {
                Some((*outcome, summary.clone()))
            }
            _ => None,
        })
        .await?;
    must!(outcome == ToolOutcome::Done, "the subagent ended as {outcome:?}: {summary:?}");
    let below = |parent: &Option<String>| parent.as_ref() == Some(&name);
    let called = session.seen().any(|event| matches!(event, Event::ToolCall { parent, .. } if below(parent)));
    must!(called, "the subagent's tool call is not shown as its own");
    let result = session.seen().any(|event| match event {
        Event::ToolResult { parent, content, .. } => {
            below(parent) && plain_text(content).contains("six-fathoms")
        }
        _ => false,
    });
    must!(result, "the result of the subagent's tool is not shown as its own");
    let state = session.state().await?;
    must!(state.subagents.is_empty(), "subagents are still at work: {:?}", state.subagents);
    Ok(())
}
