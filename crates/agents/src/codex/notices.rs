//! Reports of Codex that people should know: goals, limits, hooks, other models, logins of MCP servers.

use portolan_core::{
    Event,
    event::{HookStatus, Level},
};
use serde_json::{Value, json};

use super::{
    translate::{Translate, notice},
    wire::{Told, some_text, text},
};
use crate::driver::Output;

/// The use of a limit, in percent, that is worth a notice at each of these marks.
const NEAR_LIMIT: [u64; 3] = [75, 90, 100];

impl Translate {
    /// Reported with every use of tokens: only a change of its content counts.
    pub(super) fn goal_updated(&mut self, goal: &Value, out: &mut Output) {
        let told = (text(goal, "objective"), text(goal, "status"));
        if told.0.is_empty() || self.threads.goal.as_ref() == Some(&told) {
            return;
        }
        notice(Level::Info, Some(format!("the goal is {}: {}", told.1, told.0)), out);
        self.threads.goal = Some(told);
    }

    /// Also reported when a thread is resumed that never had a goal.
    pub(super) fn goal_cleared(&mut self, out: &mut Output) {
        if self.threads.goal.take().is_some() {
            notice(Level::Info, Some("the goal was removed".into()), out);
        }
    }

    pub(super) fn rerouted(told: &Told, out: &mut Output) {
        let why = told.reason.as_str().map(|why| format!(" ({why})")).unwrap_or_default();
        let text = format!("Codex answers with `{}` instead of `{}`{why}", told.to_model, told.from_model);
        notice(Level::Warning, Some(text), out);
    }

    pub(super) fn server_logged_in(told: &Told, out: &mut Output) {
        let name = told.name.as_deref().unwrap_or_default();
        let (level, text) = if told.success == Some(true) {
            (Level::Info, format!("logged in to the MCP server `{name}`"))
        } else {
            let why = told.error.as_str().unwrap_or("no reason given");
            (Level::Warning, format!("the login to the MCP server `{name}` failed: {why}"))
        };
        notice(level, Some(text), out);
    }

    /// A hook of the user has begun or ended.
    pub(super) fn hooked(told: &Told, out: &mut Output) {
        let run = &told.run;
        let begins = run["status"] == "running";
        let data = (!begins).then(|| json!({ "status": run["status"], "said": run["entries"] }));
        out.event(Event::Hook {
            hook: text(run, "id"),
            name: some_text(run, "statusMessage").unwrap_or_else(|| text(run, "sourcePath")),
            event: text(run, "eventName"),
            status: if begins { HookStatus::Started } else { HookStatus::Completed },
            data,
        });
    }

    pub(super) fn limits(&mut self, limits: &Value, out: &mut Output) {
        for window in ["primary", "secondary"] {
            let told = &limits[window];
            let Some(used) = told["usedPercent"].as_f64().map(|used| used.clamp(0.0, 1000.0) as u64) else {
                continue;
            };
            let before = self.threads.limits.insert(window.into(), used).unwrap_or_default();
            let crossed = NEAR_LIMIT.iter().any(|mark| before < *mark && used >= *mark);
            if crossed {
                let minutes = told["windowDurationMins"].as_u64();
                let of =
                    minutes.map(|minutes| format!(" of {} hours", minutes.div_ceil(60))).unwrap_or_default();
                let text = format!("{used} % of the account's limit{of} is used");
                notice(Level::Warning, Some(text), out);
            }
        }
    }
}
