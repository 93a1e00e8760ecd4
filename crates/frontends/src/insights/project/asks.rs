//! Requests in the protocol's two forms: permissions, which are allowed or denied, and questions, which are answered
//! with text.

use std::collections::HashSet;

use portolan_core::{
    RequestId,
    event::FileChange,
    request::{Answer, Ask, Outcome, Request},
};
use serde_json::{Map, Value, json};

use super::text::object;
use crate::insights::wire::{
    AgentQuestion, PermissionRequest, PermissionResolved, QuestionOption, QuestionResolved, ServerMessage,
};

/// The choice that declines a form of a tool server.
const DECLINE: &str = "Decline";

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Yes or no.
    Permission,
    /// This many questions, each answered with text.
    Questions(usize),
}

/// The form of this request.
pub fn sort(ask: &Ask) -> Sort {
    match ask {
        Ask::Question { questions } => Sort::Questions(questions.len()),
        Ask::Elicitation { .. } => Sort::Questions(1),
        Ask::Permission { .. } | Ask::Plan { .. } | Ask::Hook { .. } | Ask::Other { .. } => Sort::Permission,
    }
}

/// The id of one question of a request; counted from 0.
pub fn question_id(request: RequestId, index: usize) -> String {
    format!("{request}.{}", index + 1)
}

/// The messages that ask the request. `call` is the id of its call, as the client knows it.
pub(super) fn asked(session: &str, agent: &str, request: &Request, call: Option<&str>) -> Vec<ServerMessage> {
    let permission = |tool_name: String, tool_input: Map<String, Value>| {
        vec![ServerMessage::PermissionRequest(PermissionRequest {
            session_id: session.to_owned(),
            agent_id: agent.to_owned(),
            permission_id: request.request.to_string(),
            tool_name,
            tool_input,
            tool_use_id: request.tool.clone().unwrap_or_default(),
        })]
    };
    let question = |index: usize, question: String, options: Vec<QuestionOption>| {
        ServerMessage::AgentQuestion(AgentQuestion {
            session_id: session.to_owned(),
            agent_id: agent.to_owned(),
            question_id: question_id(request.request, index),
            question,
            options,
        })
    };
    match &request.ask {
        Ask::Permission { tool_name, input, changes, .. } => {
            let mut input = object(input);
            // Some agents send the changes nowhere else.
            if !changes.iter().all(|change| is_told(change, &input)) {
                // Our own types always serialise.
                input.insert("changes".into(), serde_json::to_value(changes).unwrap_or_default());
            }
            permission(call.unwrap_or(tool_name).to_owned(), input)
        }
        Ask::Plan { plan, input } => {
            let mut input = object(input);
            if let (Some(plan), false) = (plan, input.contains_key("plan")) {
                input.insert("plan".into(), plan.clone().into());
            }
            permission(call.unwrap_or("ExitPlanMode").to_owned(), input)
        }
        Ask::Hook { event, input } => permission(format!("Hook {event}"), object(input)),
        Ask::Other { name, body } => permission(name.clone(), object(body)),
        Ask::Question { questions } => {
            let one = |(index, asked): (usize, &portolan_core::request::Question)| {
                let options = asked.choices.iter().map(|choice| QuestionOption {
                    label: choice.label.clone(),
                    description: choice.description.clone(),
                });
                question(index, asked.question.clone(), options.collect())
            };
            questions.iter().enumerate().map(one).collect()
        }
        Ask::Elicitation { server, message, schema, url } => {
            let mut text = format!("{server}: {message}");
            if let Some(url) = url {
                text = format!("{text}\n\n{url}");
            }
            if let Some(schema) = schema {
                text = format!("{text}\n\nAnswer with JSON that fits: {schema}");
            }
            let decline = QuestionOption { label: DECLINE.into(), description: Some("do not answer".into()) };
            vec![question(0, text, vec![decline])]
        }
    }
}

/// How a request ended.
pub(super) struct Resolved {
    approved: Option<bool>,
    reason: String,
}

impl Resolved {
    /// As core reports it.
    pub(super) fn by(outcome: &Outcome) -> Self {
        let (approved, reason) = match outcome {
            Outcome::Answered { answer, by } => {
                (Some(!matches!(answer, Answer::Deny { .. })), format!("answered by {by}"))
            }
            Outcome::Expired => (None, "nobody answered in time".into()),
            Outcome::Interrupted { by } => (None, format!("interrupted by {by}")),
            Outcome::Withdrawn => (None, "the agent withdrew the request".into()),
            Outcome::AgentGone { reason } => (None, format!("the agent that asked has ended: {reason}")),
        };
        Self { approved, reason }
    }

    /// Its session was killed.
    pub(super) fn killed() -> Self {
        Self { approved: None, reason: "the session was killed".into() }
    }
}

/// The messages that a request is closed.
pub(super) fn resolved(session: &str, agent: &str, request: &Request, how: &Resolved) -> Vec<ServerMessage> {
    let (approved, reason) = (how.approved, how.reason.clone());
    let (session_id, agent_id) = (session.to_owned(), agent.to_owned());
    match sort(&request.ask) {
        Sort::Permission => {
            let permission_id = request.request.to_string();
            vec![ServerMessage::PermissionResolved(PermissionResolved {
                session_id,
                agent_id,
                permission_id,
                approved,
                reason,
            })]
        }
        Sort::Questions(count) => (0..count)
            .map(|index| {
                ServerMessage::QuestionResolved(QuestionResolved {
                    session_id: session_id.clone(),
                    agent_id: agent_id.clone(),
                    question_id: question_id(request.request, index),
                    reason: reason.clone(),
                })
            })
            .collect(),
    }
}

/// The answer that a text gives to a form of a tool server, or why it is not an answer.
pub fn elicitation_answer(schema: Option<&Value>, text: &str) -> Result<Answer, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case(DECLINE) {
        return Ok(Answer::deny(None));
    }
    if let Ok(content @ Value::Object(_)) = serde_json::from_str(text) {
        return Ok(Answer::Content { content });
    }
    let fields = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    match fields.map(Map::len) {
        // A plain confirmation.
        None | Some(0) => Ok(Answer::Content { content: json!({}) }),
        // One field needs no JSON around it.
        Some(1) => {
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            let content =
                fields.into_iter().flatten().map(|(name, _)| (name.clone(), value.clone())).collect();
            Ok(Answer::Content { content: Value::Object(content) })
        }
        Some(_) => Err("this form has several fields; answer with a JSON object, or `Decline`".into()),
    }
}

/// Does the input contain every line that a change adds?
fn is_told(change: &FileChange, input: &Map<String, Value>) -> bool {
    fn lines<'a>(value: &'a Value, out: &mut HashSet<&'a str>) {
        match value {
            Value::String(text) => out.extend(text.lines()),
            Value::Array(all) => all.iter().for_each(|one| lines(one, out)),
            Value::Object(all) => all.values().for_each(|one| lines(one, out)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut told = HashSet::new();
    input.values().for_each(|value| lines(value, &mut told));
    // The two lines before the first hunk name the file.
    let mut hunks = change.diff.as_deref().unwrap_or_default().lines().skip(2);
    hunks.all(|line| line.strip_prefix('+').is_none_or(|added| told.contains(added)))
}

#[cfg(test)]
mod tests {
    use portolan_core::event::ChangeKind;

    use super::*;

    #[test]
    fn a_change_that_the_input_does_not_hold_is_told_beside_it() {
        let change = FileChange::new("/a", ChangeKind::Modify, "@@ -1 +1,2 @@\n-x\n+one\n+two\n");
        let input = |value: Value| object(&value);
        assert!(is_told(&change, &input(json!({"file_path": "/a", "new_string": "one\ntwo"}))));
        assert!(is_told(&change, &input(json!({"edits": [{"new": "one"}, {"new": "two"}]}))));
        assert!(!is_told(&change, &input(json!({"paths": ["/a"]}))), "as Codex asks");
        assert!(!is_told(&change, &input(json!({"new_string": "one"}))));
    }
}
