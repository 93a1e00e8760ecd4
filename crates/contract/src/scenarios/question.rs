//! Questions and plans.

use portolan_core::{
    SessionSpec,
    event::Content,
    request::{Answer, Ask, Choice, Question, Scope},
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must, session::Session};

fn question(question: &str, header: &str, choices: [&str; 3], multiple: bool) -> Question {
    let choice = |label: &str| Choice { label: label.into(), description: Some(format!("to take {label}")) };
    Question {
        question: question.into(),
        header: Some(header.into()),
        choices: choices.map(choice).to_vec(),
        multiple,
        free_text: true,
        secret: false,
    }
}

pub(super) async fn all_kinds(bench: &Bench) -> Result<(), Fault> {
    let Some(ask) = bench.profile().ask else { return Ok(()) };
    let asked = [
        question("Which colour?", "Colour", ["Red", "Green", "Blue"], false),
        question("Which sails?", "Sails", ["Jib", "Main", "Genoa"], true),
        question("Which harbour?", "Harbour", ["Genoa town", "Venice", "Lisbon"], false),
    ];
    let script = Script::new()
        .on(contains("ask me"))
        .reply(tools([ask(&asked)]))
        .then(text("you said: {last_tool_result}"));
    bench.play(script);
    let mut session = bench.session_saying("ask me").await?;
    let request = session.request().await?;
    let Ask::Question { questions } = &request.ask else {
        return Err(Fault::wrong(format!(
            "the agent asked for {} instead of questions",
            request.ask.title()
        )));
    };
    let shape = |questions: &[Question]| -> Vec<(String, Vec<String>, bool)> {
        let labels =
            |question: &Question| question.choices.iter().map(|choice| choice.label.clone()).collect();
        questions
            .iter()
            .map(|question| (question.question.clone(), labels(question), question.multiple))
            .collect()
    };
    must!(shape(questions) == shape(&asked), "the questions are {questions:?}");
    let answers = [
        ("Which colour?".to_owned(), vec!["Green".to_owned()]),
        ("Which sails?".to_owned(), vec!["Jib".to_owned(), "Genoa".to_owned()]),
        ("Which harbour?".to_owned(), vec!["one of my own: Ragusa".to_owned()]),
    ];
    session.answer(&request, Answer::Choices { answers: answers.into_iter().collect() }).await?;
    let said = session.completes().await?;
    for expected in ["Green", "Jib", "Genoa", "one of my own: Ragusa"] {
        must!(said.contains(expected), "`{expected}` did not reach the model, which got: {said}");
    }
    must!(!said.contains("Venice"), "the model got a choice that nobody made: {said}");
    Ok(())
}

async fn planning(bench: &Bench) -> Result<Session, Fault> {
    let Some(plan) = bench.profile().plan else { return Err(Fault::NotOffered("plans to approve".into())) };
    let script = Script::new()
        .on(contains("make a plan"))
        .reply(tools([(plan.call)("1. Weigh anchor. 2. Set sail.")]))
        .then(text("after the plan: {last_tool_result}"));
    bench.play(script);
    let prompt = vec![Content::text("make a plan")];
    let spec = SessionSpec { mode: Some(plan.mode.into()), prompt, ..bench.spec() };
    bench.session_from(spec).await
}

pub(super) async fn approve_plan(bench: &Bench) -> Result<(), Fault> {
    let mut session = planning(bench).await?;
    let planning = session.state().await?.summary.mode;
    let request = session.request().await?;
    must!(
        matches!(request.ask, Ask::Plan { .. }),
        "the agent asked for {} instead of a plan",
        request.ask.title()
    );
    let edits = bench.profile().modes.map(|(_, edits)| edits.to_owned());
    let answer = Answer::Allow { input: None, scope: Scope::Once, mode: edits.clone(), option: None };
    session.answer(&request, answer).await?;
    session.completes().await?;
    let mode = session.state().await?.summary.mode;
    must!(mode == edits && mode != planning, "after the approval the mode is {mode:?}");
    Ok(())
}

pub(super) async fn keep_planning(bench: &Bench) -> Result<(), Fault> {
    let mut session = planning(bench).await?;
    let request = session.request().await?;
    must!(
        matches!(request.ask, Ask::Plan { .. }),
        "the agent asked for {} instead of a plan",
        request.ask.title()
    );
    session.answer(&request, Answer::deny(Some("look at the tides first".into()))).await?;
    let said = session.completes().await?;
    must!(said.contains("look at the tides first"), "the model got: {said}");
    let mode = session.state().await?.summary.mode;
    let expected = bench.profile().plan.map(|plan| plan.mode);
    must!(mode.as_deref() == expected, "after the denial the mode is {mode:?}");
    Ok(())
}
