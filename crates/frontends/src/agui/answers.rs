//! Answers to requests: the input of a client in either form becomes an [`Answer`] that fits the request. Pure.

use indexmap::IndexMap;
use portolan_core::{
    Action, Refusal, RefusalCode, RequestId,
    request::{Answer, Ask, Question, Scope},
    session::state::State,
};
use serde_json::{Value, json};

use super::wire::{Approval, Raw, Resume, ResumeStatus};

/// The longest answer to an interrupt: a form, or an edited file text.
const PAYLOAD_BYTES: usize = 512 * 1024;

/// The request of an approval. A name that cannot be a request id counts as a closed request.
pub fn request_of(approval: &Approval) -> Result<RequestId, NoAnswer> {
    let name = match &approval.request_id {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => {
            let message = "name the request: `requestId`, from `tool_approval_request`";
            return Err(NoAnswer::Invalid(message.into()));
        }
    };
    named(&name).ok_or_else(|| {
        let message = format!("no request `{}` waits in this session", super::parse::shown(&name, 60));
        NoAnswer::Refused(Refusal::new(RefusalCode::NotFound, message))
    })
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub enum NoAnswer {
    /// There is no open request for it.
    Refused(Refusal),
    /// The answer is invalid.
    Invalid(String),
}

/// The action of an approval, for an open request. An unknown request is never answered: a request that opens at this
/// moment must be shown first.
pub fn action(state: &State, request: RequestId, approval: &Approval) -> Result<Action, NoAnswer> {
    let Some(open) = state.requests.iter().find(|open| open.request == request) else {
        let closed = state.closed_requests.iter().rev().find(|closed| closed.request == request);
        let missing =
            || Refusal::new(RefusalCode::NotFound, format!("no request {request} waits in this session"));
        let refusal = closed.map_or_else(missing, |closed| {
            Refusal::already_closed(request, closed.tool_name.as_deref(), closed.outcome.clone())
        });
        return Err(NoAnswer::Refused(refusal));
    };
    let answer = answer(&open.ask, approval).map_err(NoAnswer::Invalid)?;
    // The answer counts only for the request that was checked.
    let digest = approval.digest.clone().or_else(|| Some(open.digest.clone()));
    Ok(Action::Answer { request, digest, answer, persist: None })
}

/// The request with that name.
pub fn named(text: &str) -> Option<RequestId> {
    text.parse().ok().map(RequestId)
}

/// The answer in a resume, or why it is invalid.
pub fn resumed(ask: &Ask, resume: &Resume) -> Result<Answer, String> {
    match resume.status {
        ResumeStatus::Cancelled => Ok(Answer::deny(Some("the user did not answer".into()))),
        ResumeStatus::Resolved => given(ask, &resume.payload),
    }
}

/// The answer in a payload, or why it is invalid.
fn given(ask: &Ask, payload: &Raw) -> Result<Answer, String> {
    if payload.text().len() > PAYLOAD_BYTES {
        return Err(format!("an answer has at most {} KiB", PAYLOAD_BYTES / 1024));
    }
    let payload: Value = payload.read().map_err(|_| "`payload` cannot be read".to_owned())?;
    let approval = match &payload {
        Value::Bool(approved) => Approval { approved: Some(*approved), ..Approval::default() },
        Value::String(word) => match (ask, yes_or_no(word)) {
            (Ask::Question { .. }, _) => Approval { answers: Some(json!(word)), ..Approval::default() },
            (Ask::Elicitation { .. }, None) => Approval { content: Some(json!(word)), ..Approval::default() },
            (_, approved) => Approval { approved, behavior: Some(word.clone()), ..Approval::default() },
        },
        // An empty answer is not an approval; for a hook it means no output.
        Value::Null => Approval::default(),
        Value::Object(_) => {
            let mut approval: Approval =
                serde_json::from_value(payload.clone()).map_err(|_| "`payload` cannot be read".to_owned())?;
            // An app may send only the answers, or only the form.
            let says_nothing =
                approval == Approval { request_id: approval.request_id.clone(), ..Approval::default() };
            if says_nothing {
                match ask {
                    Ask::Question { .. } => approval.answers = Some(payload.clone()),
                    Ask::Elicitation { .. } => approval.content = Some(payload.clone()),
                    Ask::Hook { .. } | Ask::Other { .. } => approval.output = Some(payload.clone()),
                    Ask::Permission { .. } | Ask::Plan { .. } => {}
                }
            }
            approval
        }
        _ => return Err("`payload` must be true, false, a string or an object".into()),
    };
    answer(ask, &approval)
}

fn yes_or_no(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "allow" | "yes" | "approve" | "approved" | "accept" | "true" => Some(true),
        "deny" | "no" | "reject" | "rejected" | "decline" | "cancel" | "false" => Some(false),
        _ => None,
    }
}

/// The answer in an approval, or why it is invalid.
pub fn answer(ask: &Ask, approval: &Approval) -> Result<Answer, String> {
    let behaviour = match approval.behavior.as_deref() {
        None => approval.approved,
        Some(word) => Some(yes_or_no(word).ok_or("`behavior` must be `allow` or `deny`")?),
    };
    if behaviour == Some(false) {
        return Ok(Answer::Deny {
            message: approval.message.clone(),
            interrupt: approval.interrupt.unwrap_or(false),
            option: approval.option.clone(),
        });
    }
    match ask {
        Ask::Permission { .. } | Ask::Plan { .. } => {
            // An option may mean a denial, so `behavior` is required.
            if behaviour != Some(true) {
                return Err("give `behavior`: `allow` or `deny`".into());
            }
            let scope = match approval.scope.as_deref() {
                None | Some("once") => Scope::Once,
                Some("session") => Scope::Session,
                Some(_) => return Err("`scope` must be `once` or `session`".into()),
            };
            Ok(Answer::Allow {
                // If absent, the original input counts: an approval never runs a tool with empty input.
                input: approval.updated_input.clone().filter(|input| !input.is_null()),
                scope,
                mode: approval.mode.clone(),
                option: approval.option.clone(),
            })
        }
        Ask::Question { questions } => {
            let inside = approval.updated_input.as_ref().and_then(|input| input.get("answers"));
            let given = approval.answers.as_ref().or(inside);
            let given = given.ok_or("give `answers`: one key for each question")?;
            Ok(Answer::Choices { answers: choices(questions, given)? })
        }
        Ask::Elicitation { .. } => {
            let content = approval.content.clone().or_else(|| approval.updated_input.clone());
            if content.is_none() && behaviour != Some(true) {
                return Err("give `content`, or `behavior`: `allow` or `deny`".into());
            }
            Ok(Answer::Content { content: content.unwrap_or_else(|| json!({})) })
        }
        Ask::Hook { .. } => {
            let output = approval.output.clone().or_else(|| approval.updated_input.clone());
            Ok(Answer::Output { output: output.unwrap_or_else(|| json!({})) })
        }
        Ask::Other { .. } => {
            let output = approval.output.clone().or_else(|| approval.updated_input.clone());
            output
                .map(|output| Answer::Output { output })
                .ok_or_else(|| "give `output`, in the form that the agent expects".into())
        }
    }
}

/// Answers by question: an object by the question's text, a list in order, or one text for a single question.
fn choices(questions: &[Question], given: &Value) -> Result<IndexMap<String, Vec<String>>, String> {
    let words = |value: &Value| -> Result<Vec<String>, String> {
        match value {
            Value::String(text) => Ok(vec![text.clone()]),
            Value::Array(list) => list
                .iter()
                .map(|one| one.as_str().map(str::to_owned).ok_or_else(|| "a choice must be text".to_owned()))
                .collect(),
            Value::Bool(_) | Value::Number(_) => Ok(vec![value.to_string()]),
            Value::Null | Value::Object(_) => Err("an answer must be a string or a list of strings".into()),
        }
    };
    let split = |question: &Question, words: Vec<String>| match (&*words, question.multiple) {
        // Several choices may come as one text, as Claude itself writes them.
        ([text], true) if text.contains(',') => {
            let labels: Vec<String> = text.split(',').map(|label| label.trim().to_owned()).collect();
            let known = |label: &String| question.choices.iter().any(|choice| choice.label == *label);
            if labels.iter().all(known) { labels } else { words }
        }
        _ => words,
    };
    match given {
        Value::Object(by_text) => by_text
            .iter()
            .map(|(text, value)| {
                let question = questions.iter().find(|question| question.question == *text);
                let question = question
                    .ok_or_else(|| format!("there is no question `{}`", super::parse::shown(text, 60)))?;
                Ok((text.clone(), split(question, words(value)?)))
            })
            .collect(),
        Value::Array(in_order) if in_order.len() <= questions.len() => questions
            .iter()
            .zip(in_order)
            .map(|(q, value)| Ok((q.question.clone(), split(q, words(value)?))))
            .collect(),
        Value::String(_) => match questions {
            [only] => Ok(IndexMap::from_iter([(only.question.clone(), split(only, words(given)?))])),
            _ => Err("there are several questions; give `answers` with one key for each question".into()),
        },
        _ => Err("`answers` must be an object with one key for each question".into()),
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::request::Choice;

    use super::*;

    fn permission() -> Ask {
        Ask::permission("Bash", json!({"command": "ls"}))
    }

    fn questions() -> Ask {
        let choice = |label: &str| Choice { label: label.into(), description: None };
        let question = |text: &str, multiple| Question {
            question: text.into(),
            header: None,
            choices: vec![choice("A"), choice("B")],
            multiple,
            free_text: true,
            secret: false,
        };
        Ask::Question { questions: vec![question("Which?", false), question("What?", true)] }
    }

    fn said(body: Value) -> Approval {
        serde_json::from_value(body).unwrap()
    }

    fn resume(payload: Value) -> Resume {
        Resume { interrupt_id: "7".into(), status: ResumeStatus::Resolved, payload: Raw::from(&payload) }
    }

    fn chosen(pairs: &[(&str, &[&str])]) -> Answer {
        let own = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Answer::Choices {
            answers: pairs.iter().map(|(text, words)| ((*text).to_owned(), own(words))).collect(),
        }
    }

    // covers: 004-031
    #[test]
    fn an_approval_without_edited_input_runs_the_original() {
        let allow = |input| Answer::Allow { input, scope: Scope::Once, mode: None, option: None };
        assert_eq!(answer(&permission(), &said(json!({"behavior": "allow"}))), Ok(allow(None)));
        let edited = json!({"behavior": "allow", "updatedInput": {"command": "ls -l"}});
        assert_eq!(answer(&permission(), &said(edited)), Ok(allow(Some(json!({"command": "ls -l"})))));
        let always = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
        assert_eq!(answer(&permission(), &said(json!({"approved": true, "scope": "session"}))), Ok(always));
        let deny = Answer::Deny { message: Some("no".into()), interrupt: true, option: None };
        let no = json!({"behavior": "deny", "message": "no", "interrupt": true});
        assert_eq!(answer(&permission(), &said(no)), Ok(deny));
        assert!(answer(&permission(), &said(json!({}))).is_err(), "silence is no yes");
        assert!(answer(&permission(), &said(json!({"behavior": "perhaps"}))).is_err());
        assert!(answer(&permission(), &said(json!({"behavior": "allow", "scope": "world"}))).is_err());
    }

    #[test]
    fn questions_are_answered_by_text_in_order_or_as_claude_writes_them() {
        let both = chosen(&[("Which?", &["A"]), ("What?", &["A", "B"])]);
        for body in [
            json!({"answers": {"Which?": "A", "What?": ["A", "B"]}}),
            json!({"answers": ["A", ["A", "B"]]}),
            json!({"behavior": "allow", "updatedInput": {"questions": [], "answers": {"Which?": "A", "What?": "A, B"}}}),
        ] {
            assert_eq!(answer(&questions(), &said(body.clone())), Ok(both.clone()), "{body}");
        }
        assert_eq!(
            answer(&questions(), &said(json!({"answers": {"What?": "own, words"}}))),
            Ok(chosen(&[("What?", &["own, words"])]))
        );
        for body in [
            json!({}),
            json!({"answers": "A"}),
            json!({"answers": {"Who?": "A"}}),
            json!({"answers": {"Which?": {}}}),
        ] {
            assert!(answer(&questions(), &said(body.clone())).is_err(), "{body}");
        }
    }

    #[test]
    fn a_resume_says_it_in_many_ways() {
        let yes = Answer::allow();
        for payload in [json!(true), json!("allow"), json!("Yes"), json!({"approved": true})] {
            assert_eq!(resumed(&permission(), &resume(payload.clone())), Ok(yes.clone()), "{payload}");
        }
        for payload in [json!(false), json!("deny"), json!({"approved": false}), json!({"behavior": "deny"})]
        {
            assert_eq!(resumed(&permission(), &resume(payload.clone())), Ok(Answer::deny(None)), "{payload}");
        }
        let left = Resume { status: ResumeStatus::Cancelled, ..resume(json!(null)) };
        assert!(matches!(resumed(&permission(), &left), Ok(Answer::Deny { .. })));
        for payload in [json!({"x": 1}), json!(7), json!("perhaps"), json!([]), json!(null)] {
            assert!(resumed(&permission(), &resume(payload.clone())).is_err(), "{payload}");
        }
        let answers = chosen(&[("Which?", &["B"])]);
        assert_eq!(resumed(&questions(), &resume(json!({"answers": {"Which?": "B"}}))), Ok(answers.clone()));
        assert_eq!(resumed(&questions(), &resume(json!({"Which?": "B"}))), Ok(answers));
        let form = Ask::Elicitation { server: "s".into(), message: "m".into(), schema: None, url: None };
        assert_eq!(
            resumed(&form, &resume(json!({"berth": 7}))),
            Ok(Answer::Content { content: json!({"berth": 7}) })
        );
        let hook = Ask::Hook { event: "PreToolUse".into(), input: json!({}) };
        assert_eq!(resumed(&hook, &resume(json!(null))), Ok(Answer::Output { output: json!({}) }));
        let newer = Ask::Other { name: "newer".into(), body: json!([]) };
        assert!(answer(&newer, &said(json!({"behavior": "allow"}))).is_err(), "it needs more than a yes");
        assert!(resumed(&newer, &resume(json!({"output": 1}))).is_ok());
    }

    #[test]
    fn a_request_is_named_by_text_or_by_number() {
        assert_eq!(request_of(&said(json!({"requestId": "7"}))), Ok(RequestId(7)));
        assert_eq!(request_of(&said(json!({"requestId": 7}))), Ok(RequestId(7)));
        for body in [json!({}), json!({"requestId": ""}), json!({"requestId": [7]})] {
            assert!(matches!(request_of(&said(body.clone())), Err(NoAnswer::Invalid(_))), "{body}");
        }
        for body in [json!({"requestId": "x"}), json!({"requestId": -1}), json!({"requestId": 1.5})] {
            let refused = request_of(&said(body.clone()));
            assert!(
                matches!(&refused, Err(NoAnswer::Refused(refusal)) if refusal.code == RefusalCode::NotFound),
                "{body}: {refused:?}"
            );
        }
    }
}
