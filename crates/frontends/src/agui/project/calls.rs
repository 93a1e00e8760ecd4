//! Tool calls and their results. A page's own tool has the page's name, and the page gives its result.

use portolan_core::event::{Content, ToolOutcome};
use serde_json::Value;

use super::{
    Projector, Voice,
    items::{Shown, Told, shown},
};
use crate::agui::wire::AguiEvent;

/// The most that is sent of a tool's result. Clients send the whole thread back with every run; the log has the whole
/// result.
const RESULT_BYTES: usize = 32 * 1024;

/// How many calls are kept: more than a turn makes at once.
const CALLS: usize = 1024;

/// Where a call was shown to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// In this run.
    Here,
    /// In an earlier run.
    Earlier,
    /// Nowhere: the call began in another client's turn.
    Nowhere,
}

/// The progress of a call's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// The input is streaming.
    Streams,
    /// The input is complete.
    Complete,
}

/// A call without its result.
#[derive(Debug)]
pub(super) struct Call {
    name: String,
    is_page_tool: bool,
    shown: Where,
    input: Input,
}

impl Call {
    /// A new run begins.
    pub(super) fn is_earlier(&mut self) {
        if self.shown == Where::Here {
            self.shown = Where::Earlier;
        }
    }
}

/// The id of the message with a call's result.
pub(in crate::agui) fn result_id(tool: &str) -> String {
    format!("{tool}:result")
}

impl Projector {
    /// A call that was made before this stream of events began.
    pub(super) fn saw_call(&mut self, tool: &str, name: &str) {
        self.know_call(tool, name, Where::Earlier, Input::Complete);
    }

    fn know_call(&mut self, tool: &str, name: &str, shown: Where, input: Input) {
        let page = self.names.of(name);
        let is_page_tool = page.is_some();
        if self.calls.len() >= CALLS {
            self.calls.shift_remove_index(0);
        }
        let name = page.unwrap_or_else(|| name.to_owned());
        self.calls.insert(tool.to_owned(), Call { name, is_page_tool, shown, input });
    }

    /// Whether every one of these calls was shown to the page, complete, in this run.
    pub fn has_shown(&self, calls: &[String]) -> bool {
        let shown = |call: &Call| call.shown == Where::Here && call.input == Input::Complete;
        calls.iter().all(|call| self.calls.get(call).is_some_and(shown))
    }

    /// The input of this call streams as that item: the tool name is known before the input is complete.
    pub(super) fn name_item(&mut self, item: &str, tool: &str, name: &str) {
        if let Some(open) = self.open.get_mut(item)
            && open.told == Told::Unnamed
        {
            open.told = Told::Arguments(tool.to_owned());
            self.know_call(tool, name, Where::Here, Input::Streams);
        }
    }

    pub(super) fn begin_call(&self, tool: &str, tag: Option<String>, out: &mut Vec<AguiEvent>) {
        let tool_call_name = self.calls.get(tool).map(|call| call.name.clone()).unwrap_or_default();
        out.push(AguiEvent::ToolCallStart {
            tool_call_id: tool.to_owned(),
            tool_call_name,
            subagent_run_id: tag,
        });
    }

    pub(super) fn tool_call(
        &mut self,
        tool: &str,
        item: Option<&str>,
        parent: Option<&str>,
        name: &str,
        input: &Value,
        out: &mut Vec<AguiEvent>,
    ) {
        let skipped = item.is_some_and(|item| self.skipped.remove(item));
        let streamed = item.is_some_and(|item| self.open.contains_key(item));
        if !streamed && (skipped || self.voice == Voice::Quiet) {
            return self.know_call(tool, name, Where::Nowhere, Input::Complete);
        }
        let named = item
            .and_then(|item| self.open.get(item))
            .is_some_and(|open| matches!(open.told, Told::Arguments(_)));
        if let (Some(item), true) = (item, named) {
            // The arguments were sent as they streamed; if none were sent, all of them are sent now.
            let nothing = self.open.get(item).is_none_or(|open| open.text.is_empty());
            self.begin_item(item, out);
            if nothing {
                self.delta(item, &arguments(input), out);
            }
            self.end_item(item, out);
            self.know_call(tool, name, Where::Here, Input::Complete);
            return;
        }
        if let Some(item) = item {
            self.end_item(item, out);
        }
        self.know_call(tool, name, Where::Here, Input::Complete);
        let tag = self.subagents.enter(parent, out);
        self.begin_call(tool, tag.clone(), out);
        let tool_call_id = tool.to_owned();
        let delta = arguments(input);
        out.push(AguiEvent::ToolCallArgs {
            tool_call_id: tool_call_id.clone(),
            delta,
            subagent_run_id: tag.clone(),
        });
        out.push(AguiEvent::ToolCallEnd { tool_call_id, subagent_run_id: tag });
    }

    pub(super) fn tool_result(
        &mut self,
        tool: &str,
        parent: Option<&str>,
        outcome: ToolOutcome,
        content: &[Content],
        out: &mut Vec<AguiEvent>,
    ) {
        let call = self.calls.shift_remove(tool);
        let is_told = match call {
            // The page ran the tool and has the result. A call that ended in the run in which it was shown never
            // reached the page: without a result, the page would still run it.
            Some(Call { is_page_tool: true, shown, .. }) => shown == Where::Here,
            Some(Call { shown, .. }) => shown != Where::Nowhere,
            None => self.voice == Voice::Full,
        };
        if is_told {
            let tag = self.subagents.enter(parent, out);
            out.push(result(tool, result_text(outcome, content), tag));
        }
    }

    /// The input of a call was cut off: there is no call, and the page must not run half of it.
    pub(super) fn call_cut_off(&mut self, tool: &str, out: &mut Vec<AguiEvent>) {
        if self.calls.shift_remove(tool).is_some_and(|call| call.shown == Where::Here) {
            out.push(result(tool, "the call was cut off".into(), None));
        }
    }
}

fn result(tool: &str, content: String, subagent_run_id: Option<String>) -> AguiEvent {
    let (message_id, tool_call_id) = (result_id(tool), tool.to_owned());
    AguiEvent::ToolCallResult { message_id, tool_call_id, content, role: "tool".into(), subagent_run_id }
}

/// Arguments as JSON text; none at all is the empty object.
pub(in crate::agui) fn arguments(input: &Value) -> String {
    if input.is_null() { "{}".into() } else { input.to_string() }
}

/// The output of a tool, as text of limited length.
pub(in crate::agui) fn result_text(outcome: ToolOutcome, content: &[Content]) -> String {
    let pieces = content.iter().filter_map(|piece| match shown(piece)? {
        Shown::Text(text) | Shown::Reasoning(text) => Some(text),
    });
    let mut text = pieces.collect::<Vec<_>>().join("\n");
    if text.len() > RESULT_BYTES {
        let mut end = RESULT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n[…]");
    }
    if text.is_empty() {
        failure(outcome).unwrap_or_default().clone_into(&mut text);
    }
    text
}

/// Why a tool failed.
pub(in crate::agui) fn failure(outcome: ToolOutcome) -> Option<&'static str> {
    match outcome {
        ToolOutcome::Done => None,
        ToolOutcome::Failed => Some("the tool failed"),
        ToolOutcome::Denied => Some("the tool was not allowed"),
        ToolOutcome::Interrupted => Some("the tool was cut off"),
    }
}
