//! Scenes with subagents: a tree, each with its own stream; two requests at once.

use portolan_core::{
    Event,
    event::{Content, ItemKind, ToolKind, ToolOutcome, WorkDone},
};
use serde_json::json;

use super::{
    super::stage::{Played, Stage},
    tools,
};

/// The team of the subagents, so that screens can show them together.
const TEAM: &str = "survey";

struct Role {
    kind: &'static str,
    description: &'static str,
    prompt: &'static str,
}

const SCOUT: Role = Role {
    kind: "scout",
    description: "Look at the coast",
    prompt: "List the folder and report its contents.",
};
const SCRIBE: Role =
    Role { kind: "scribe", description: "Write it down", prompt: "Finish the haiku in harbour.txt." };
const CABIN_BOY: Role =
    Role { kind: "scout", description: "Climb the mast", prompt: "Report what you see from up there." };

/// Starts a subagent by a tool call; its name is the call's name.
async fn begin(stage: &Stage, parent: Option<&str>, role: &Role) -> String {
    let input = json!({ "description": role.description, "subagent_type": role.kind, "prompt": role.prompt, "team_name": TEAM });
    let tool = stage.call(parent, "Agent", ToolKind::Subagent, role.description, &input, &[]).await;
    let model = stage.with(|inner| inner.model.clone());
    stage.subagent_started(
        &tool,
        Event::SubagentStarted {
            subagent: tool.clone(),
            parent: parent.map(Into::into),
            subagent_type: Some(role.kind.into()),
            description: role.description.into(),
            prompt: Some(role.prompt.into()),
            model: Some(model),
            background: false,
            team: Some(TEAM.into()),
        },
    );
    tool
}

fn end(stage: &Stage, subagent: &str, summary: &str, tool_uses: u64) {
    let work = WorkDone { tokens: 900 + 40 * tool_uses, tool_uses, duration_ms: 1500 };
    stage.subagent_ended(
        subagent,
        Event::SubagentEnded {
            subagent: subagent.into(),
            outcome: ToolOutcome::Done,
            summary: Some(summary.into()),
            work: Some(work),
        },
    );
    stage.result(subagent, ToolOutcome::Done, vec![Content::text(summary)], vec![]);
}

/// Looks at the folder; asks first.
async fn scout(stage: &Stage) -> Played {
    let me = begin(stage, None, &SCOUT).await;
    stage.stream(ItemKind::Text, Some(&me), "Scout here. I am going ashore, if I may.").await?;
    let summary = match tools::run_ls(stage, Some(&me), "ls").await {
        Some(count) => format!("the scout saw {count} names"),
        None => "the scout was not let ashore".into(),
    };
    end(stage, &me, &summary, 1);
    Ok(())
}

/// Writes; asks first.
async fn scribe(stage: &Stage) -> Played {
    let me = begin(stage, None, &SCRIBE).await;
    stage
        .stream(ItemKind::Text, Some(&me), "Scribe here. One line is missing; I have just the words.")
        .await?;
    let summary = if tools::propose(stage, Some(&me)).await {
        "the haiku is finished"
    } else {
        "the haiku stays a fragment"
    };
    end(stage, &me, summary, 1);
    Ok(())
}

/// A subagent that starts its own subagent.
async fn lookout(stage: &Stage) -> Played {
    let me = begin(
        stage,
        None,
        &Role { kind: "scout", description: "Keep watch", prompt: "Send someone up the mast." },
    )
    .await;
    stage.think(Some(&me), "I could climb myself. But then, what is the cabin boy for?").await?;
    let boy = begin(stage, Some(&me), &CABIN_BOY).await;
    stage
        .stream(
            ItemKind::Text,
            Some(&boy),
            "From up here: water, water, a gull, and a very small log with many cursors.",
        )
        .await?;
    end(stage, &boy, "a gull was sighted", 0);
    stage.stream(ItemKind::Text, Some(&me), "He saw a gull. All is well.").await?;
    end(stage, &me, "all is well", 1);
    Ok(())
}

/// Two subagents, each with its own request, open at the same time.
pub(super) async fn two_requests(stage: &Stage) -> Played {
    stage.say("Two subagents set out together. Both will ask you something; answer in any order.").await?;
    together(stage).await?;
    stage.say("Both are back. Each request had one answer, whichever screen it came from.").await
}

pub(super) async fn together(stage: &Stage) -> Played {
    let (first, second) = tokio::join!(scout(stage), scribe(stage));
    first.and(second)
}

/// A tree of subagents that makes no request.
pub(super) async fn tree(stage: &Stage) -> Played {
    stage.say("A lookout, who sends someone else up the mast. Each has a stream of its own.").await?;
    let extra: Vec<_> = stage.with(|inner| inner.spec.subagents.keys().cloned().collect());
    lookout(stage).await?;
    if !extra.is_empty() {
        stage.say(&format!("You also gave me these: {}. They would be next.", extra.join(", "))).await?;
    }
    stage.say("The crew is complete again.").await
}
