//! The turn: its beginning, its requests, and its end with everything closed.

use portolan_core::{
    Event,
    event::{Content, ErrorInfo, ItemKind, ToolOutcome, TurnOutcome, TurnResult},
    request::{Answer, Ask},
};
use tokio::sync::oneshot;

use super::Stage;
use crate::demo::{
    play::{permit::Waiting, scenes::structured},
    wire::FromAgent,
};

impl Stage {
    pub(in crate::demo::play) fn begin_turn(&self, prompt: Option<u64>, content: &[Content]) {
        self.with(|inner| {
            inner.prompt = prompt.unwrap_or(inner.prompt);
            inner.fast = false;
            inner.last_words = None;
            let read = content.iter().map(|piece| match piece {
                Content::Text { text } => text.len(),
                // A picture counts as many tokens.
                _ => 6000,
            });
            inner.ledger.begin_turn(read.sum());
        });
    }

    /// The turn continues with another prompt.
    pub(in crate::demo::play) fn steered(&self, prompt: Option<u64>) {
        self.with(|inner| {
            inner.prompt = prompt.unwrap_or(inner.prompt);
            inner.fast = false;
        });
    }

    /// Closes everything that is still open: the scene is over, finished or not.
    pub(in crate::demo::play) fn close_all(&self) {
        let (items, waiting) = self.with(|inner| {
            let items: Vec<_> = inner.items.iter().map(|(name, open)| (name.clone(), open.kind)).collect();
            (items, std::mem::take(&mut inner.waiting))
        });
        for key in waiting.into_keys() {
            self.emit(&FromAgent::Withdraw { key });
        }
        for (item, kind) in items {
            // A tool's output is closed by the tool's result.
            if kind != ItemKind::ToolOutput {
                self.finish_as(&item, true);
            }
        }
        let tools: Vec<_> = self.with(|inner| inner.tools.keys().rev().cloned().collect());
        for tool in tools {
            self.result(&tool, ToolOutcome::Interrupted, vec![], vec![]);
        }
        let subagents = self.with(|inner| std::mem::take(&mut inner.subagents));
        for subagent in subagents.into_iter().rev() {
            self.event(Event::SubagentEnded {
                subagent,
                outcome: ToolOutcome::Interrupted,
                summary: None,
                work: None,
            });
        }
    }

    pub(in crate::demo::play) fn result_text(&self) -> Option<String> {
        self.with(|inner| inner.last_words.clone())
    }

    /// The result of the turn.
    pub(in crate::demo::play) fn result_of_turn(
        &self,
        outcome: TurnOutcome,
        error: Option<ErrorInfo>,
    ) -> TurnResult {
        let text = self.result_text();
        let mut result = self.with(|inner| inner.ledger.result(&inner.model, outcome));
        if let (TurnOutcome::Completed, Some(schema)) =
            (outcome, self.with(|inner| inner.spec.json_schema.clone()))
        {
            match structured::example(&schema) {
                Some(value) => result.structured = Some(value),
                None => result.outcome = TurnOutcome::StructuredOutputFailed,
            }
        }
        TurnResult { error, text, stop_reason: Some("end_turn".into()), ..result }
    }

    /// Opens a request, and waits for the answer.
    pub(in crate::demo::play) async fn ask(
        &self,
        ask: Ask,
        parent: Option<&str>,
        tool: Option<&str>,
    ) -> Answer {
        let key = format!("ask-{}", self.name());
        let (answer, outcome) = oneshot::channel();
        self.with(|inner| inner.waiting.insert(key.clone(), Waiting { answer, tool: tool.map(Into::into) }));
        self.emit(&FromAgent::Ask {
            key,
            ask: Box::new(ask),
            parent: parent.map(Into::into),
            tool: tool.map(Into::into),
        });
        self.flush();
        // The sender is dropped only when the turn is over, and then this ends too.
        outcome.await.unwrap_or(Answer::deny(None))
    }
}
