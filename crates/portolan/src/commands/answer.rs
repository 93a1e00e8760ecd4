//! approve, deny, answer: answer a request.

use std::path::Path;

use indexmap::IndexMap;
use portolan_client::Client;
use portolan_core::{
    Action, SessionId,
    request::{
        Answer, Ask, Question, Request, Scope,
        persist::{Persist, PersistScope},
    },
};

use super::{
    Context, act, inputs,
    meant::{self, Verb},
};
use crate::{
    arguments::{self, Always, Approve, RuleAt},
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::clean,
};

pub(super) async fn approve(context: &Context, approve: Approve) -> Outcome {
    let input = approve.input.as_deref().map(|input| inputs::json(input, "--input")).transpose()?;
    let answer = Answer::Allow { input, scope: Scope::Once, mode: approve.mode, option: approve.option };
    let mut client = context.client().await?;
    let session = client.resolve(&approve.id).await?;
    let request = meant::request(context, &mut client, session, approve.request, Verb::Approve).await?;
    if let Ask::Question { .. } = request.ask {
        return Err(Failure::usage(format!(
            "request {} is a question; `portolan answer {session} CHOICE` answers it",
            request.request
        )));
    }
    give(context, client, session, request, answer, persisted(approve.persist)).await
}

/// The rule that the answer makes, if the user asks for one.
fn persisted(always: Always) -> Option<Persist> {
    let scope = match always.scope {
        RuleAt::Session => PersistScope::Session,
        RuleAt::Project => PersistScope::Project,
        RuleAt::User => PersistScope::User,
    };
    always.makes_rule.then_some(Persist { scope, rule: always.rule })
}

pub(super) async fn deny(
    context: &Context,
    id: &str,
    request: Option<u64>,
    answer: Answer,
    always: Always,
) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    let request = meant::request(context, &mut client, session, request, Verb::Deny).await?;
    give(context, client, session, request, answer, persisted(always)).await
}

pub(super) async fn answer(context: &Context, mut given: arguments::Answer) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(&given.id).await?;
    let mut named = given.request;
    if named.is_none() && given.choices.len() > 1 {
        // `answer ID REQUEST CHOICE…`: a leading number that names an open request selects that request.
        let leading = given.choices.first().and_then(|first| first.parse().ok());
        let (_, state) = client.state(session).await?;
        if leading.is_some_and(|number| state.requests.iter().any(|request| request.request.0 == number)) {
            named = leading;
            given.choices.remove(0);
        }
    }
    let request = meant::request(context, &mut client, session, named, Verb::Answer).await?;
    let answer = match (given.content, given.output) {
        (Some(content), _) => Answer::Content { content: inputs::json(&content, "--content")? },
        (None, Some(output)) => Answer::Output { output: inputs::json(&output, "--output")? },
        (None, None) => choices(&request, &given.choices, &given.questions)?,
    };
    give(context, client, session, request, answer, None).await
}

/// The answer to questions, from the command line.
fn choices(request: &Request, given: &[String], by_question: &[String]) -> Outcome<Answer> {
    let Ask::Question { questions } = &request.ask else {
        let way = match &request.ask {
            Ask::Permission { .. } | Ask::Plan { .. } => "use `portolan approve` or `portolan deny`",
            Ask::Elicitation { .. } => "give the data with `--content JSON`",
            Ask::Hook { .. } | Ask::Other { .. } => "give the output with `--output JSON`",
            Ask::Question { .. } => "",
        };
        return Err(Failure::usage(format!(
            "request {} is a {}, not a question; {way}",
            request.request,
            request.ask.kind()
        )));
    };
    let mut answers: IndexMap<String, Vec<String>> = IndexMap::new();
    for pair in by_question {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("`{pair}` has no `=`; use --question QUESTION=ANSWER")))?;
        let question = named(questions, name)?;
        answers.entry(question.question.clone()).or_default().push(label(question, value));
    }
    match (given, questions.as_slice()) {
        ([], _) if answers.is_empty() => {
            return Err(Failure::usage("give an answer: choices by label or number, or your own text"));
        }
        ([], _) => {}
        (given, [only]) if only.multiple => {
            answers
                .entry(only.question.clone())
                .or_default()
                .extend(given.iter().map(|one| label(only, one)));
        }
        (given, [only]) => {
            // Several words are one free text, unless each word is a choice.
            answers.insert(only.question.clone(), vec![label(only, &given.join(" "))]);
        }
        (given, several) if given.len() == several.len() => {
            for (question, value) in several.iter().zip(given) {
                let parts: Vec<&str> =
                    if question.multiple { value.split(',').map(str::trim).collect() } else { vec![value] };
                answers.insert(
                    question.question.clone(),
                    parts.iter().map(|part| label(question, part)).collect(),
                );
            }
        }
        (_, several) => {
            return Err(Failure::usage(format!(
                "there are {} questions; give one answer to each, or use --question QUESTION=ANSWER",
                several.len()
            )));
        }
    }
    Ok(Answer::Choices { answers })
}

/// A question by its number, its heading or its text.
fn named<'a>(questions: &'a [Question], name: &str) -> Outcome<&'a Question> {
    let by_number = name.parse::<usize>().ok().and_then(|number| questions.get(number.checked_sub(1)?));
    by_number
        .or_else(|| questions.iter().find(|question| question.question == name))
        .or_else(|| questions.iter().find(|question| question.header.as_deref() == Some(name)))
        .ok_or_else(|| Failure::not_found(format!("there is no question `{name}`")))
}

/// A choice by its number, or by its label in upper or lower case; otherwise the text itself.
fn label(question: &Question, given: &str) -> String {
    let by_number =
        given.parse::<usize>().ok().and_then(|number| question.choices.get(number.checked_sub(1)?));
    let by_label = || question.choices.iter().find(|choice| choice.label.eq_ignore_ascii_case(given));
    by_number.or_else(by_label).map_or_else(|| given.to_owned(), |choice| choice.label.clone())
}

/// Sends the answer with the digest of the request, so that the answer counts for this request only.
async fn give(
    context: &Context,
    mut client: Client,
    session: SessionId,
    request: Request,
    answer: Answer,
    persist: Option<Persist>,
) -> Outcome {
    answer.fits(&request.ask).map_err(Failure::usage)?;
    let rule = match &persist {
        Some(persist) => Some(rule(persist, &request, &answer, session)?),
        None => None,
    };
    let told = match &answer {
        Answer::Allow { scope: Scope::Once, .. } => "allowed",
        Answer::Allow { scope: Scope::Session, .. } => "allowed from now on",
        Answer::Deny { .. } => "denied",
        Answer::Choices { .. } | Answer::Content { .. } | Answer::Output { .. } => "answered",
    };
    let action = Action::Answer { request: request.request, digest: Some(request.digest), answer, persist };
    let receipt = act::carry_out(&mut client, session, action).await?;
    client.close().await;
    if context.format() == Format::Plain {
        // The user may leave out the number of the request, so print which request was answered.
        output::note(format!("{told}: {}", clean::line(&clean::visible(&request.ask.title()))));
        if let Some(rule) = rule {
            output::note(format!("made the rule {}", clean::line(&clean::visible(&rule))));
        }
    }
    act::show(context, session, &receipt)
}

/// The rule that the answer makes, as the user reads it.
fn rule(persist: &Persist, request: &Request, answer: &Answer, session: SessionId) -> Outcome<String> {
    // Only the daemon knows the folder of a project, and it makes the same draft.
    let scope = PersistScope::Session.draft(session, Path::new(""));
    let draft = persist.draft(request, answer, scope).map_err(|refusal| {
        let why = refusal.message;
        Failure::usage(format!("{why}; --rule names a rule"))
    })?;
    let at = match persist.scope {
        PersistScope::Session => "in this session",
        PersistScope::Project => "in this session's folder and below it",
        PersistScope::User => "in every session",
    };
    Ok(format!("`{} {}` {at}", draft.effect, draft.text))
}

#[cfg(test)]
mod tests {
    use portolan_core::request::Choice;

    use super::*;

    fn question(text: &str, multiple: bool) -> Question {
        Question {
            question: text.into(),
            header: Some(format!("{text} head")),
            choices: ["Red", "Blue"].map(|label| Choice { label: label.into(), description: None }).to_vec(),
            multiple,
            free_text: true,
            secret: false,
        }
    }

    fn asks(questions: Vec<Question>) -> Request {
        portolan_testkit::sessions::request(3, Ask::Question { questions })
    }

    fn given(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn answered(request: &Request, words: &[&str], by_question: &[&str]) -> Vec<(String, Vec<String>)> {
        match choices(request, &given(words), &given(by_question)).unwrap() {
            Answer::Choices { answers } => answers.into_iter().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_choice_is_named_by_number_or_label() {
        let one = asks(vec![question("Which?", false)]);
        let expected = |label: &str| vec![("Which?".to_owned(), given(&[label]))];
        assert_eq!(answered(&one, &["2"], &[]), expected("Blue"));
        assert_eq!(answered(&one, &["red"], &[]), expected("Red"));
        assert_eq!(answered(&one, &["something", "else"], &[]), expected("something else"));
        let several = asks(vec![question("Which?", true)]);
        assert_eq!(
            answered(&several, &["1", "blue"], &[]),
            vec![("Which?".to_owned(), given(&["Red", "Blue"]))]
        );
    }

    #[test]
    fn several_questions_take_one_answer_each_or_answers_by_name() {
        let two = asks(vec![question("A?", false), question("B?", false)]);
        let expected = vec![("A?".to_owned(), given(&["Red"])), ("B?".to_owned(), given(&["Blue"]))];
        assert_eq!(answered(&two, &["1", "2"], &[]), expected);
        let mixed = asks(vec![question("A?", false), question("B?", true)]);
        let both = vec![("A?".to_owned(), given(&["Red"])), ("B?".to_owned(), given(&["Red", "Blue"]))];
        assert_eq!(answered(&mixed, &["1", "1, blue"], &[]), both);
        assert_eq!(answered(&two, &[], &["A?=red", "B? head=2"]), expected);
        assert!(choices(&two, &given(&["1"]), &[]).unwrap_err().message.contains("there are 2 questions"));
        assert!(choices(&two, &[], &given(&["C?=1"])).unwrap_err().message.contains("no question `C?`"));
    }
}
