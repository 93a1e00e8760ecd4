//! Tool calls: their starts and their results.

use portolan_core::event::{Content, FileChange, ToolKind, ToolOutcome};
use serde_json::Value;

use super::{Layout, Transcript};
use crate::terminal::{
    diff,
    style::Line,
    tools::{self, Call},
};

/// How many lines of a diff are shown at first; Ctrl-O shows the rest.
const DIFF_LINES: usize = 40;

impl Transcript {
    pub(super) fn tool_call(&mut self, tool: &str, kind: ToolKind, call: Call, input: &Value) -> Vec<Line> {
        let shown = tools::called(&call).indented(call.depth * 2);
        self.calls.insert(tool.to_owned(), (call, input.clone()));
        match self.layout {
            Layout::Live => Vec::new(),
            // The subagent of this call has its own lines.
            Layout::Plain if kind == ToolKind::Subagent => Vec::new(),
            Layout::Plain => self.other(vec![shown]),
        }
    }

    pub(super) fn tool_result(
        &mut self,
        tool: &str,
        parent: Option<&str>,
        outcome: ToolOutcome,
        content: &[Content],
        changes: &[FileChange],
    ) -> Vec<Line> {
        self.items.shift_remove(tool);
        let (mut call, input) = self.calls.shift_remove(tool).unwrap_or_else(|| {
            let depth = self.depth(parent);
            (Call { name: "tool".into(), what: String::new(), changes: Vec::new(), depth }, Value::Null)
        });
        if !changes.is_empty() {
            call.changes = changes.to_vec();
        }
        let indent = call.depth * 2;
        if self.parents.contains_key(tool) {
            // The subagent's own line shows how it ended.
            self.last_call = Some((call, input, content.to_vec()));
            return Vec::new();
        }
        let mut lines = vec![
            tools::ended(&call, outcome, content).cut(self.columns.saturating_sub(indent)).indented(indent),
        ];
        let asked = self.shown_changes.remove(tool);
        if outcome == ToolOutcome::Done && !asked {
            lines.extend(
                diff::lines(&call.changes, DIFF_LINES).into_iter().map(|line| line.indented(indent + 2)),
            );
        }
        self.last_call = Some((call, input, content.to_vec()));
        self.other(lines)
    }
}
