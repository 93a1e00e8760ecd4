//! Which entries are records of the audit, and what a record says about its entry. No I/O, no clock.

use serde::Deserialize;
use serde_json::Value;

use super::{AuditLog, AuditQuery, AuditRecord};
use crate::{
    Action, Actor, DaemonEvent, Event, LogId, Millis, RequestId, Seq, SessionId, Stored,
    access::PolicySource,
    event::Setting,
    policy::RuleId,
    ports::Placed,
    request::{Answer, Outcome, Request, brief},
};

/// The most bytes that the event of a record holds: a page of records stays small.
const EVENT: usize = 2 * 1024;

/// The most characters of a record's line.
const LINE: usize = 300;

/// Where the kind of an event is looked for. Only the number, the time and the actor come before it.
const HEAD: usize = 4 * 1024;

/// The shortest beginning of a token's id that names the token.
const SHORTEST_TOKEN: usize = 4;

/// The kinds of a session's events that are records. Answers are in the daemon's log.
const OF_SESSIONS: [&str; 7] = [
    "command_accepted",
    "request_decided",
    "rule_added",
    "rule_removed",
    "deadline_changed",
    "budget_reached",
    "setting_changed",
];

/// The kind of the event in a frame, found without reading all of the frame: most entries are no records.
pub fn kind(entry: &Stored) -> Option<&str> {
    const BEFORE: &[u8] = br#""event":{"type":""#;
    // Inside a text of the frame the quotes would be escaped, so the first place is the event.
    let head = &entry.frame[..entry.frame.len().min(HEAD)];
    let begin = head.windows(BEFORE.len()).position(|part| part == BEFORE)? + BEFORE.len();
    let length = head[begin..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&head[begin..begin + length]).ok()
}

/// May the entry be a record, as far as its kind says?
pub fn may_be(placed: &Placed) -> bool {
    let kind = kind(&placed.entry);
    match placed.log {
        // The line of a session in lists changes with everything that happens in the session.
        LogId::Daemon => kind != Some("session_changed"),
        LogId::Session(_) => kind.is_some_and(|kind| OF_SESSIONS.contains(&kind)),
    }
}

#[derive(Deserialize)]
struct Frame {
    seq: Seq,
    at: Millis,
    #[serde(default)]
    by: Value,
    event: Value,
}

/// What an entry adds to a record.
#[derive(Default)]
struct Found {
    session: Option<SessionId>,
    by: Option<Actor>,
    what: Option<String>,
    text: Option<String>,
    rules: Vec<RuleId>,
    request: Option<RequestId>,
}

/// The record of an entry; `None` if the entry is no record.
pub fn record(placed: &Placed) -> Option<AuditRecord> {
    if !may_be(placed) {
        return None;
    }
    let Frame { seq, at, by, mut event } = serde_json::from_slice(&placed.entry.frame).ok()?;
    let by: Option<Actor> = serde_json::from_value(by).ok();
    if by == Some(Actor::Imported) {
        return None;
    }
    let (log, session, found) = match placed.log {
        // An event of a newer version is a record too: the audit leaves nothing out of the daemon's log.
        LogId::Daemon => {
            let found = serde_json::from_value(event.clone()).map(of_daemon).unwrap_or_default();
            (AuditLog::Daemon, found.session, found)
        }
        LogId::Session(session) => {
            (AuditLog::Session, Some(session), of_session(serde_json::from_value(event.clone()).ok()?)?)
        }
    };
    let kind = event["type"].as_str().unwrap_or("unknown").to_owned();
    let shortened = shorten(&mut event);
    let nobody = if log == AuditLog::Daemon { Actor::Daemon } else { Actor::Agent };
    let text = found.text.unwrap_or_else(|| fields(&event));
    Some(AuditRecord {
        position: placed.position,
        log,
        session,
        seq,
        at,
        by: found.by.or(by).unwrap_or(nobody),
        what: found.what.unwrap_or(kind),
        text: line(&text),
        rules: found.rules,
        request: found.request,
        event,
        shortened,
    })
}

fn of_daemon(event: DaemonEvent) -> Found {
    let about = |session| Found { session: Some(session), ..Found::default() };
    match event {
        DaemonEvent::SessionCreated { summary } | DaemonEvent::SessionChanged { summary } => {
            let text = format!("{}: {}", summary.agent, summary.name);
            Found { text: Some(text), ..about(summary.session) }
        }
        DaemonEvent::SessionDeleted { session } => about(session),
        DaemonEvent::RequestOpened { session, request } => {
            Found { by: Some(Actor::Agent), ..of_request(Some(session), &request) }
        }
        DaemonEvent::RequestDeadline { session, request, .. } => {
            Found { request: Some(request), ..about(session) }
        }
        DaemonEvent::RequestClosed { session, request, outcome } => Found {
            by: Some(who_ended(&outcome)),
            text: Some(format!("request {request}: {}", how_ended(&outcome))),
            request: Some(request),
            ..about(session)
        },
        DaemonEvent::RuleSaved { rule } | DaemonEvent::RuleRemoved { rule } => Found {
            text: Some(format!("{} ({})", rule.line(), rule.scope)),
            rules: vec![rule.rule],
            ..Found::default()
        },
        DaemonEvent::BudgetSaved { budget } | DaemonEvent::BudgetRemoved { budget } => {
            Found { text: Some(format!("{} ({})", budget.limits, budget.scope)), ..Found::default() }
        }
        DaemonEvent::Started { .. }
        | DaemonEvent::Stopping
        | DaemonEvent::TokenCreated { .. }
        | DaemonEvent::TokenRevoked { .. }
        | DaemonEvent::TokenRotated { .. }
        | DaemonEvent::DoorOpened { .. }
        | DaemonEvent::LoggedIn { .. }
        | DaemonEvent::LoggedOut { .. }
        | DaemonEvent::AccessRefused { .. }
        | DaemonEvent::AutoApproval { .. }
        | DaemonEvent::AccountChanged { .. } => Found::default(),
    }
}

fn of_session(event: Event) -> Option<Found> {
    let found = match event {
        Event::CommandAccepted { action, .. } => of_command(&action)?,
        Event::RequestDecided { request, outcome } => {
            let told = of_request(None, &request);
            let text = format!("{}: {}", request.ask.title(), how_ended(&outcome));
            Found { by: Some(who_ended(&outcome)), text: Some(text), ..told }
        }
        Event::RuleAdded { tool_name, rule } => Found {
            text: Some(rule.as_ref().map_or(tool_name, |rule| rule.line())),
            rules: rule.map(|rule| rule.rule).into_iter().collect(),
            ..Found::default()
        },
        Event::RuleRemoved { tool_name, rule } => {
            Found { text: Some(tool_name), rules: rule.into_iter().collect(), ..Found::default() }
        }
        Event::DeadlineChanged { request, .. } => Found { request, ..Found::default() },
        Event::BudgetReached { standing } => Found {
            by: Some(Actor::policy(PolicySource::Budget, standing.name())),
            text: Some(standing.words()),
            ..Found::default()
        },
        Event::SettingChanged { setting: Setting::Mode { mode } } => {
            Found { what: Some("mode_changed".into()), text: Some(mode), ..Found::default() }
        }
        _ => return None,
    };
    Some(found)
}

/// A command; `None` if another entry says who did it and what came of it.
fn of_command(action: &Action) -> Option<Found> {
    let text = match action {
        Action::Answer { .. }
        | Action::AddRule { .. }
        | Action::RemoveRule { .. }
        | Action::SetDeadline { .. } => return None,
        Action::Prompt { content } => crate::event::plain_text(content),
        other => fields(&serde_json::to_value(other).unwrap_or_default()),
    };
    Some(Found { what: Some(action.name().to_string()), text: Some(text), ..Found::default() })
}

fn of_request(session: Option<SessionId>, request: &Request) -> Found {
    let rules = request.policy.as_ref().map(|judgement| &*judgement.rules).unwrap_or_default();
    Found {
        session,
        text: Some(request.ask.title()),
        rules: rules.iter().map(|rule| rule.rule.clone()).collect(),
        request: Some(request.request),
        ..Found::default()
    }
}

fn who_ended(outcome: &Outcome) -> Actor {
    match outcome {
        Outcome::Answered { by, .. } | Outcome::Interrupted { by } => by.clone(),
        Outcome::Expired => Actor::Deadline,
        Outcome::Withdrawn | Outcome::AgentGone { .. } => Actor::Agent,
    }
}

fn how_ended(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered { answer: Answer::Deny { .. }, .. } => "denied",
        Outcome::Answered { answer: Answer::Allow { .. }, .. } => "allowed",
        Outcome::Answered { .. } => "answered",
        Outcome::Expired => "expired",
        Outcome::Interrupted { .. } => "interrupted",
        Outcome::Withdrawn => "withdrawn by the agent",
        Outcome::AgentGone { .. } => "not answered, the agent ended",
    }
}

/// The fields of an event besides its kind, as JSON.
fn fields(event: &Value) -> String {
    let Value::Object(all) = event else { return event.to_string() };
    let rest: serde_json::Map<_, _> = all
        .iter()
        .filter(|(name, _)| *name != "type")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if rest.is_empty() { String::new() } else { Value::Object(rest).to_string() }
}

/// The beginning of a text, in one line.
fn line(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

/// Cuts off what makes an event too long; says whether it did.
fn shorten(event: &mut Value) -> bool {
    if event.to_string().len() <= EVENT {
        return false;
    }
    brief::shorten(event);
    if event.to_string().len() > EVENT {
        *event = serde_json::json!({ "type": event["type"] });
    }
    true
}

impl AuditQuery {
    /// Is this one of the wanted records?
    pub fn wants(&self, record: &AuditRecord) -> bool {
        self.since.is_none_or(|since| record.at >= since)
            && self.session.is_none_or(|session| record.session == Some(session))
            && self.rule.as_ref().is_none_or(|rule| record.rules.contains(rule))
            && self.who.as_ref().is_none_or(|who| who.trim().is_empty() || is_by(record, who.trim()))
    }
}

fn is_by(record: &AuditRecord, who: &str) -> bool {
    let wanted = who.to_lowercase();
    let is_it = |text: &str| text.to_lowercase() == wanted;
    let is_actor = match &record.by {
        Actor::Person { token, name, via } => {
            name.to_lowercase().contains(&wanted)
                || is_it(via)
                || (who.len() >= SHORTEST_TOKEN && token.as_str().starts_with(who))
        }
        Actor::Policy { rule, .. } => wanted == "rule" || rule.to_lowercase().contains(&wanted),
        Actor::Deadline | Actor::Agent | Actor::Daemon | Actor::Imported => is_it(&record.by.to_string()),
    };
    // A browser or a device that has no token yet is known by its address only.
    let is_address =
        || ["address", "from", "browser"].iter().any(|name| record.event[*name].as_str().is_some_and(is_it));
    is_actor || is_address()
}

#[cfg(test)]
mod tests;
