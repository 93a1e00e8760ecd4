//! Scenes that ask: questions, a plan, a form.

use portolan_core::{
    Event,
    event::{Content, Setting, ToolKind, ToolOutcome},
    request::{Answer, Ask, Choice, Question},
};
use serde_json::json;

use super::super::{
    controls,
    stage::{Played, Stage},
};

fn choice(label: &str, description: &str) -> Choice {
    Choice { label: label.into(), description: Some(description.into()) }
}

fn questions() -> Vec<Question> {
    vec![
        Question {
            question: "Where shall we sail?".into(),
            header: Some("Course".into()),
            choices: vec![
                choice("Genoa", "where many portolans were drawn"),
                choice("Majorca", "where the finest were"),
                choice("Stay here", "the tea is still warm"),
            ],
            multiple: false,
            free_text: false,
            secret: false,
        },
        Question {
            question: "What do we take along?".into(),
            header: Some("Cargo".into()),
            choices: vec![
                choice("Charts", "to know where"),
                choice("Biscuits", "to last"),
                choice("A cat", "for the mice"),
            ],
            multiple: true,
            free_text: true,
            secret: false,
        },
        Question {
            question: "What is the ship called?".into(),
            header: Some("Name".into()),
            choices: vec![],
            multiple: false,
            free_text: true,
            secret: false,
        },
    ]
}

/// Three questions at once: one choice, several choices, free text.
pub(super) async fn question(stage: &Stage) -> Played {
    stage.say("Three questions: one choice, several choices, and free text.").await?;
    let told = ask_questions(stage).await;
    stage.say(&told).await
}

pub(super) async fn ask_questions(stage: &Stage) -> String {
    let questions = questions();
    let input = json!({ "questions": questions });
    let tool = stage.call(None, "AskUserQuestion", ToolKind::Think, "three questions", &input, &[]).await;
    let answer = stage.ask(Ask::Question { questions }, None, Some(&tool)).await;
    let (outcome, told) = match answer {
        Answer::Choices { answers } => {
            let said: Vec<_> = answers
                .iter()
                .map(|(question, chosen)| format!("- {question} **{}**", chosen.join(", ")))
                .collect();
            (ToolOutcome::Done, format!("Noted:\n\n{}", said.join("\n")))
        }
        Answer::Deny { message, .. } => {
            let why = message.map(|why| format!(" You said: {why}")).unwrap_or_default();
            (ToolOutcome::Denied, format!("You gave no answer, so I choose for you.{why}"))
        }
        Answer::Allow { .. } | Answer::Content { .. } | Answer::Output { .. } => {
            (ToolOutcome::Failed, "The answer does not fit the question.".into())
        }
    };
    stage.result(&tool, outcome, vec![Content::text(told.clone())], vec![]);
    told
}

const PLAN: &str = "## A plan\n\n1. Draw the coast, harbour by harbour.\n2. Join them with straight courses.\n\
                    3. Check every course by sailing it.\n\nNothing runs until you approve it.";

pub(super) async fn plan(stage: &Stage) -> Played {
    stage.say("Here is a plan. It waits for your approval.").await?;
    let told = ask_plan(stage).await;
    stage.say(&told).await
}

pub(super) async fn ask_plan(stage: &Stage) -> String {
    let input = json!({ "plan": PLAN });
    let tool = stage.call(None, "ExitPlanMode", ToolKind::Think, "plan to approve", &input, &[]).await;
    let answer = stage.ask(Ask::Plan { plan: Some(PLAN.into()), input }, None, Some(&tool)).await;
    let (outcome, told) = match answer {
        Answer::Allow { mode, .. } => {
            // An approved plan is carried out: the agent leaves plan mode.
            let mode =
                mode.or_else(|| stage.with(|inner| (inner.mode == "plan").then(|| "default".to_owned())));
            let on = match mode.map(|mode| controls::set_mode(stage, mode.clone()).map(|_| mode)) {
                Some(Ok(mode)) => {
                    stage.event(Event::SettingChanged { setting: Setting::Mode { mode: mode.clone() } });
                    format!(" The mode is now {mode}.")
                }
                Some(Err(why)) => format!(" ({why}.)"),
                None => String::new(),
            };
            (ToolOutcome::Done, format!("Approved. We sail at dawn.{on}"))
        }
        Answer::Deny { message: Some(why), .. } => {
            (ToolOutcome::Denied, format!("The plan is denied: {why}"))
        }
        Answer::Deny { .. } => (ToolOutcome::Denied, "The plan is denied.".into()),
        Answer::Choices { .. } | Answer::Content { .. } | Answer::Output { .. } => {
            (ToolOutcome::Failed, "The answer does not fit the question.".into())
        }
    };
    stage.result(&tool, outcome, vec![Content::text(told.clone())], vec![]);
    told
}

/// A tool server wants data.
pub(super) async fn elicit(stage: &Stage) -> Played {
    stage.say("An MCP server wants something from you: a form.").await?;
    let schema = json!({
        "type": "object",
        "properties": {
            "berth": { "type": "integer", "title": "Berth", "minimum": 1, "maximum": 40 },
            "overnight": { "type": "boolean", "title": "Stay overnight?" },
        },
        "required": ["berth"],
    });
    let ask = Ask::Elicitation {
        server: "harbour".into(),
        message: "Which berth would you like?".into(),
        schema: Some(schema),
        url: None,
    };
    let told = match stage.ask(ask, None, None).await {
        Answer::Content { content } => format!("The harbour master writes it down: `{content}`"),
        _ => "You gave no answer.".into(),
    };
    stage.say(&told).await
}
