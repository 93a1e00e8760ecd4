//! Requests in the protocol's two forms: a custom event, or an interrupt.

use portolan_core::{
    Millis, RequestId, SessionId,
    request::{Answer, Ask, Outcome, Request},
};
use serde_json::{Value, json};

use crate::agui::wire::{AguiEvent, Interrupt};

/// The tool with which Claude asks its user. Apps know the questions of every agent by this name.
const QUESTION_TOOL: &str = "AskUserQuestion";

/// The tool with which Claude asks to approve its plan; likewise.
const PLAN_TOOL: &str = "ExitPlanMode";

/// The name of a request on the wire.
pub fn request_id(request: RequestId) -> String {
    request.to_string()
}

/// The request with all details.
pub(super) fn particulars(session: SessionId, request: &Request) -> Value {
    let (tool_name, tool_input) = match &request.ask {
        Ask::Permission { tool_name, input, .. } => (tool_name.as_str(), input.clone()),
        Ask::Plan { plan, input } => {
            let mut input = if input.is_object() { input.clone() } else { json!({}) };
            if let (Some(plan), None) = (plan, input.get("plan")) {
                input["plan"] = json!(plan);
            }
            (PLAN_TOOL, input)
        }
        Ask::Question { questions } => {
            let one = |question: &portolan_core::request::Question| {
                json!({
                    "question": question.question, "header": question.header, "multiSelect": question.multiple,
                    "options": question.choices, "freeText": question.free_text, "secret": question.secret,
                })
            };
            (QUESTION_TOOL, json!({"questions": questions.iter().map(one).collect::<Vec<_>>()}))
        }
        Ask::Elicitation { server, message, schema, url } => {
            (server.as_str(), json!({"message": message, "schema": schema, "url": url}))
        }
        Ask::Hook { event, input } => (event.as_str(), input.clone()),
        Ask::Other { name, body } => (name.as_str(), body.clone()),
    };
    let mut value = json!({
        "requestId": request_id(request.request), "sessionId": session, "kind": request.ask.kind(),
        "toolName": tool_name, "toolInput": tool_input, "title": request.ask.title(), "digest": request.digest,
    });
    let mut put = |name: &str, more: Option<Value>| {
        if let Some(more) = more {
            value[name] = more;
        }
    };
    put("toolCallId", request.tool.as_ref().map(|tool| json!(tool)));
    put("subagentRunId", request.parent.as_ref().map(|parent| json!(parent)));
    put("expiresAt", request.deadline.map(|deadline| json!(iso(deadline))));
    put("risk", request.policy.as_ref().map(|judgement| json!(judgement.risk)));
    if let Ask::Permission { description, reason, changes, options, .. } = &request.ask {
        put("description", description.as_ref().map(|text| json!(text)));
        put("reason", reason.as_ref().map(|text| json!(text)));
        put("changes", (!changes.is_empty()).then(|| json!(changes)));
        put("options", (!options.is_empty()).then(|| json!(options)));
    }
    value
}

/// The custom event of a request.
pub(super) fn asked(session: SessionId, request: &Request) -> AguiEvent {
    let value = particulars(session, request);
    if let Ask::Hook { event, input } = &request.ask {
        let value = json!({
            "requestId": request_id(request.request), "sessionId": session, "hookEvent": event, "input": input,
        });
        return AguiEvent::Custom { name: "hook_callback".into(), value };
    }
    AguiEvent::Custom { name: "tool_approval_request".into(), value }
}

/// The custom event that a request is closed.
pub(super) fn resolved(session: SessionId, request: &Request, outcome: &Outcome) -> AguiEvent {
    let (word, by) = match outcome {
        Outcome::Answered { answer: Answer::Deny { .. }, by } => ("denied", Some(by.to_string())),
        Outcome::Answered { answer: Answer::Allow { .. }, by } => ("allowed", Some(by.to_string())),
        // A question, a form or a hook is neither allowed nor denied.
        Outcome::Answered { by, .. } => ("answered", Some(by.to_string())),
        Outcome::Expired => ("expired", None),
        Outcome::Interrupted { by } => ("interrupted", Some(by.to_string())),
        Outcome::Withdrawn => ("withdrawn", None),
        Outcome::AgentGone { .. } => ("agent_gone", None),
    };
    let value = json!({
        "requestId": request_id(request.request), "sessionId": session, "kind": request.ask.kind(),
        "outcome": word, "by": by,
    });
    AguiEvent::Custom { name: "tool_approval_resolved".into(), value }
}

/// The interrupt of a request.
pub(super) fn interrupt(session: SessionId, request: &Request) -> Interrupt {
    Interrupt {
        id: request_id(request.request),
        reason: request.ask.kind().to_owned(),
        message: Some(request.ask.title()),
        tool_call_id: request.tool.clone(),
        response_schema: schema(&request.ask),
        expires_at: request.deadline.map(iso),
        metadata: particulars(session, request),
    }
}

/// The schema of an answer.
fn schema(ask: &Ask) -> Value {
    match ask {
        Ask::Permission { .. } | Ask::Plan { .. } => json!({
            "type": "object", "required": ["approved"], "properties": {
                "approved": {"type": "boolean"}, "message": {"type": "string"}, "updatedInput": {"type": "object"},
            },
        }),
        Ask::Question { .. } => json!({
            "type": "object", "required": ["answers"], "properties": {
                "answers": {"type": "object", "additionalProperties": {"type": ["string", "array"]}},
            },
        }),
        Ask::Elicitation { schema, .. } => {
            let content = schema.clone().unwrap_or_else(|| json!({"type": "object"}));
            json!({"type": "object", "properties": {"content": content}})
        }
        Ask::Hook { .. } | Ask::Other { .. } => json!({"type": "object", "properties": {"output": {}}}),
    }
}

/// A time as ISO 8601, UTC.
fn iso(at: Millis) -> String {
    let (days, rest) = (at.0.div_euclid(86_400_000), at.0.rem_euclid(86_400_000));
    // Days since 1970 into a date of the Gregorian calendar, counted from the March before year 0.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_form_that_clients_read() {
        assert_eq!(iso(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(Millis(951_827_696_789)), "2000-02-29T12:34:56.789Z");
        assert_eq!(iso(Millis(1_794_700_799_999)), "2026-11-14T23:59:59.999Z");
    }
}
