//! Subagents, if an agent marks their messages. ACP has no standard for subagents: the adapter of Claude Code adds, to
//! each of their messages, the call that started the subagent, and this module reads it.
//!
//! A subagent begins with its first message, and ends with the call that started it. A background subagent begins as
//! soon as its call says so, and ends with the turn: the adapter keeps the turn open for it.

use indexmap::IndexMap;
use portolan_core::{
    Event,
    event::{ToolOutcome, TurnOutcome},
};
use serde_json::Value;

use super::{messages::Ending, translate::Translate, wire::some_text};
use crate::driver::Output;

/// Where agents put the call that started the subagent of this message.
const PARENTS: &[&str] = &["/_meta/claudeCode/parentToolUseId"];

/// Where an update of a call says that the subagent continues after the call has ended.
const BACKGROUND: &str = "/_meta/claudeCode/toolResponse/isAsync";

/// Subagents at work at once. Messages of any further subagent are shown as the agent's own.
const AT_WORK: usize = 256;

/// The running subagents, by the calls that started them.
#[derive(Debug, Default)]
pub(super) struct Subagents(IndexMap<String, EndsWith>);

/// What ends a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndsWith {
    /// The call that started it.
    Call,
    /// The turn: it works in the background.
    Turn,
}

/// The call that started the subagent of this message.
pub(super) fn marked(told: &Value) -> Option<&str> {
    let parent = PARENTS.iter().find_map(|place| told.pointer(place)?.as_str());
    // A call is not its own parent.
    parent.filter(|parent| !parent.is_empty() && told["toolCallId"] != **parent)
}

impl Translate {
    /// The subagent of this message, if any. A new subagent begins here.
    pub(super) fn owner(&mut self, told: &Value, out: &mut Output) -> Option<String> {
        let subagent = marked(told)?;
        if self.subagents.0.contains_key(subagent) {
            return Some(subagent.to_owned());
        }
        // The call may have ended while the subagent still runs.
        let ends = if self.tools.call_of(subagent).is_some() { EndsWith::Call } else { EndsWith::Turn };
        self.subagent_begins(subagent, ends, out).then(|| subagent.to_owned())
    }

    /// This update of a call may say that the call's subagent works in the background.
    pub(super) fn subagent_in_background(&mut self, call: &str, told: &Value, out: &mut Output) {
        if told.pointer(BACKGROUND) != Some(&Value::Bool(true)) {
            return;
        }
        if let Some(ends) = self.subagents.0.get_mut(call) {
            *ends = EndsWith::Turn;
        } else {
            self.subagent_begins(call, EndsWith::Turn, out);
        }
    }

    /// Whether there was room for one more.
    fn subagent_begins(&mut self, subagent: &str, ends: EndsWith, out: &mut Output) -> bool {
        if self.subagents.0.len() >= AT_WORK {
            return false;
        }
        self.subagents.0.insert(subagent.to_owned(), ends);
        self.show_open_call(subagent, out);
        let call = self.tools.call_of(subagent);
        let input = call.map_or(&Value::Null, |call| &call.input);
        let line = call.and_then(super::tools::Call::line).or_else(|| self.tools.line_of(subagent));
        let description = some_text(input, "description").or(line);
        out.event(Event::SubagentStarted {
            subagent: subagent.to_owned(),
            parent: call.and_then(|call| call.parent.clone()),
            subagent_type: some_text(input, "subagent_type"),
            description: description.unwrap_or_else(|| "a subagent".into()),
            prompt: some_text(input, "prompt"),
            model: some_text(input, "model"),
            background: ends == EndsWith::Turn,
            team: None,
        });
        true
    }

    /// The call that started a subagent has ended.
    pub(super) fn subagent_call_ended(&mut self, call: &str, outcome: ToolOutcome, out: &mut Output) {
        if self.subagents.0.get(call) == Some(&EndsWith::Call) {
            self.subagent_ends(call, outcome, out);
        }
    }

    fn subagent_ends(&mut self, subagent: &str, outcome: ToolOutcome, out: &mut Output) {
        if self.subagents.0.shift_remove(subagent).is_some() {
            self.end_words_of(Some(subagent), ending(outcome), out);
            let (subagent, summary) = (subagent.to_owned(), None);
            out.event(Event::SubagentEnded { subagent, outcome, summary, work: None });
        }
    }

    /// The turn is over, and so are its subagents. They end in reverse order.
    pub(super) fn subagents_left(&mut self, turn: TurnOutcome, out: &mut Output) {
        let outcome =
            if turn == TurnOutcome::Completed { ToolOutcome::Done } else { ToolOutcome::Interrupted };
        let left: Vec<_> = self.subagents.0.keys().rev().cloned().collect();
        for subagent in left {
            self.subagent_ends(&subagent, outcome, out);
        }
    }
}

fn ending(outcome: ToolOutcome) -> Ending {
    if outcome == ToolOutcome::Interrupted { Ending::CutOff } else { Ending::Whole }
}
