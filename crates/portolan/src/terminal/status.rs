//! The status line: the state of the session.

use portolan_core::{
    log::delivery::Presence,
    session::state::{State, Status, Summary},
};

use super::{
    clean,
    style::{Line, Style},
    tools,
};

/// A word for the state of a session.
pub(crate) fn word(summary: &Summary) -> &'static str {
    match summary.status {
        Status::Starting => "starting",
        Status::Connected => "ready",
        Status::Active => "working",
        Status::Idle => "idle",
        Status::Disconnected => "disconnected",
        Status::Terminated if summary.asleep => "asleep",
        Status::Terminated => "ended",
        Status::Error => "failed",
    }
}

/// A cost in dollars.
pub(crate) fn cost(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// The session's mode, with the mode that the agent has put itself into.
pub(crate) fn mode(state: &State) -> Option<String> {
    let own =
        state.agent.own_mode.as_deref().map(|own| format!("the agent's own mode: {}", clean::line(own)));
    match (state.summary.mode.as_deref(), own) {
        (Some(mode), Some(own)) => Some(format!("mode {} ({own})", clean::line(mode))),
        (Some(mode), None) => Some(format!("mode {}", clean::line(mode))),
        (None, Some(own)) => Some(format!("mode default ({own})")),
        (None, None) => None,
    }
}

/// Model, mode, context, cost, and who else reads the session.
pub(crate) fn line(state: &State, present: &[Presence]) -> Line {
    let summary = &state.summary;
    let mut parts = vec![match &state.activity {
        Some(activity) if summary.status == Status::Active => clean::line(activity),
        _ => word(summary).to_owned(),
    }];
    parts.extend(summary.model.as_deref().map(clean::line));
    parts.extend(mode(state));
    if let Some(used) = state.context_used.filter(|_| state.context_window > 0) {
        parts.push(format!("context {}%", used.saturating_mul(100) / state.context_window));
    }
    parts.extend(summary.cost_usd.map(cost));
    match summary.parked() {
        Some(parked) => parts.push(parked),
        None if summary.queued > 0 => {
            parts.push(format!("{} queued", tools::count(summary.queued as usize, "prompt")));
        }
        None => {}
    }
    if state.requests.len() > 1 {
        parts.push(format!("{} requests wait", state.requests.len()));
    }
    let mut line = Line::new(Style::Dim, parts.join(" · "));
    if present.len() > 1 {
        line = line.and(Style::Dim, format!(" · here: {}", names(present)));
    }
    line
}

/// The readers of a session.
pub(crate) fn names(present: &[Presence]) -> String {
    let names: Vec<String> = present
        .iter()
        .map(|one| format!("{} ({}, {})", clean::line(&one.name), clean::line(&one.via), one.role))
        .collect();
    names.join(", ")
}
