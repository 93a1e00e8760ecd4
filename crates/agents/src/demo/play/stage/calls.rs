//! Tools and subagents: calls, results, and the files that a call would change.

use portolan_core::{
    Event,
    event::{Content, FileChange, ItemKind, ToolKind, ToolOutcome},
};
use serde_json::{Value, json};

use super::Stage;
use crate::demo::wire::FromAgent;

impl Stage {
    /// Calls a tool; its input streams first.
    pub(in crate::demo::play) async fn call(
        &self,
        parent: Option<&str>,
        name: &str,
        kind: ToolKind,
        title: &str,
        input: &Value,
        changes: &[FileChange],
    ) -> String {
        let (tool, item) = (self.name(), self.name());
        self.begin(&item, ItemKind::ToolInput, parent);
        self.event(Event::ToolNamed { item: item.clone(), tool: tool.clone(), name: name.into() });
        let text = input.to_string();
        let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        for piece in [&text[..half], &text[half..]] {
            self.more(&item, piece);
            self.pause(2).await;
        }
        self.with(|inner| {
            inner.items.shift_remove(&item);
            inner.tools.insert(tool.clone(), parent.map(Into::into));
            inner.ledger.called();
        });
        self.emit(&FromAgent::Call {
            tool: tool.clone(),
            item: Some(item),
            parent: parent.map(Into::into),
            name: name.into(),
            kind,
            title: Some(title.into()),
            input: input.clone(),
            changes: changes.to_vec(),
        });
        tool
    }

    /// A tool has finished.
    pub(in crate::demo::play) fn result(
        &self,
        tool: &str,
        outcome: ToolOutcome,
        content: Vec<Content>,
        changes: Vec<FileChange>,
    ) {
        let Some(parent) = self.with(|inner| {
            inner.items.shift_remove(tool);
            inner.tools.shift_remove(tool)
        }) else {
            return;
        };
        self.emit(&FromAgent::Result { tool: tool.into(), parent, outcome, content, changes });
    }

    pub(in crate::demo::play) fn subagent_started(&self, subagent: &str, event: Event) {
        self.with(|inner| inner.subagents.push(subagent.into()));
        self.event(event);
    }

    pub(in crate::demo::play) fn subagent_ended(&self, subagent: &str, event: Event) {
        self.with(|inner| inner.subagents.retain(|open| open != subagent));
        self.event(event);
    }

    /// A file would be changed now: remembered for a rewind.
    pub(in crate::demo::play) fn edited(&self, change: FileChange) {
        self.with(|inner| {
            let (added, removed) = change.diff.as_deref().map_or((0, 0), |diff| {
                let count = |sign| diff.lines().skip(3).filter(|line| line.starts_with(sign)).count() as u64;
                (count('+'), count('-'))
            });
            inner.ledger.edited(added, removed);
            inner.edits.push((inner.prompt, change));
        });
    }
}

/// A tool's input, for a command.
pub(in crate::demo::play) fn command_input(command: &str, description: &str) -> Value {
    json!({ "command": command, "description": description })
}
