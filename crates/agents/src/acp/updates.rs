//! The agent's updates of its session: `session/update` of every kind. Updates from before the session had an id wait
//! for it; unknown updates are kept as they are.

use portolan_core::{
    Event,
    capabilities::CommandInfo,
    event::{AgentInfo, ItemKind, Level, PlanStep},
};
use serde_json::{Value, value::RawValue};

use super::{
    messages::Ending,
    translate::{Translate, notice},
    wire::{self, list, some_text, text},
};
use crate::driver::Output;

/// Updates that are part of the conversation: a loaded session replays them.
pub(super) const CONVERSATION: &[&str] = &[
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
];

impl Translate {
    pub(super) fn update(&mut self, params: Option<&RawValue>, line: &str, out: &mut Output) {
        let agent = self.setup.agent.clone();
        let params: Value = wire::open(params).unwrap_or_default();
        let kind = text(&params["update"], "sessionUpdate");
        let named = format!("session/update {kind}");
        match self.session.id() {
            None => {
                if !self.session.keep_early(line) {
                    out.unknown(&agent, &named, line);
                }
                return;
            }
            // From an unknown session, such as a subagent's.
            Some(id) if params["sessionId"] != id => return out.unknown(&agent, &named, line),
            Some(_) => {}
        }
        if self.session.replays() && CONVERSATION.contains(&kind.as_str()) {
            self.session.past_told(&kind);
            return self.more_past(out);
        }
        self.told_update(&kind, &params["update"], line, out);
    }

    pub(super) fn told_update(&mut self, kind: &str, update: &Value, line: &str, out: &mut Output) {
        if CONVERSATION.contains(&kind) {
            self.sign_of_life(out);
        }
        match kind {
            // Portolan's own prompt, which the log has.
            "user_message_chunk" => {}
            "agent_message_chunk" => {
                self.usage_beside(update, out);
                self.chunk(ItemKind::Text, update, out);
            }
            "agent_thought_chunk" => self.chunk(ItemKind::Thinking, update, out),
            "tool_call" | "tool_call_update" => self.tool_told(update, line, out),
            "plan" => self.plan_told(update, out),
            "available_commands_update" => Self::commands_told(update, out),
            "current_mode_update" => self.mode_told(&text(update, "currentModeId"), out),
            "config_option_update" => self.settings_told(update, out),
            "usage_update" => self.usage_told(update, out),
            // Portolan names the session. Codex' adapter reports a failed turn as ended; only this update shows the
            // failure.
            "session_info_update" => {
                if update
                    .pointer("/_meta/codex/threadStatus/type")
                    .is_some_and(|status| status == "systemError")
                {
                    self.turns.mark_failed();
                }
            }
            "notice" => {
                let level = if update["severity"] == "info" { Level::Info } else { Level::Warning };
                let details = some_text(update, "description").map(|more| format!(": {more}"));
                notice(level, format!("{}{}", text(update, "title"), details.unwrap_or_default()), out);
            }
            "compaction_update" => self.compaction_told(update, out),
            "compaction_summary_chunk" => {}
            _ => out.unknown(&self.setup.agent, &format!("session/update {kind}"), line),
        }
    }

    /// Qwen reports the usage of a request together with an empty piece of text.
    fn usage_beside(&mut self, update: &Value, out: &mut Output) {
        let Some(usage) = wire::tokens(&update["_meta"]["usage"]) else { return };
        self.turns.used(usage);
        let model = self.settings.model().map(str::to_owned);
        out.event(Event::Usage { usage, model, parent: None, context_window: None, context_only: false });
    }

    fn plan_told(&mut self, update: &Value, out: &mut Output) {
        let parent = self.owner(update, out);
        let step = |entry: &Value| PlanStep { text: text(entry, "content"), status: text(entry, "status") };
        let steps = list(update, "entries").iter().map(step).collect();
        out.event(Event::Plan { steps, parent });
    }

    fn commands_told(update: &Value, out: &mut Output) {
        let command = |told: &Value| {
            Some(CommandInfo {
                name: some_text(told, "name")?,
                description: text(told, "description"),
                argument_hint: some_text(&told["input"], "hint"),
            })
        };
        let commands = list(update, "availableCommands").iter().filter_map(command).collect();
        let info = AgentInfo { commands: Some(commands), ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    fn compaction_told(&mut self, update: &Value, out: &mut Output) {
        match update["status"].as_str() {
            Some("in_progress") => {
                self.end_all_words(Ending::Whole, out);
                out.event(Event::Activity { activity: Some("compacting".into()) });
            }
            Some("completed") => {
                out.event(Event::Activity { activity: None });
                out.event(Event::Compacted { trigger: None, tokens_before: None, tokens_after: None });
            }
            _ => {
                out.event(Event::Activity { activity: None });
                let why = some_text(update, "error").unwrap_or_else(|| text(update, "status"));
                notice(Level::Warning, format!("the context was not made smaller: {why}"), out);
            }
        }
    }
}
