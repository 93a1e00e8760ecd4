//! Output: items that stream word by word, and the cost of each step.

use portolan_core::event::{Content, ItemKind};

use super::{OpenItem, Played, Stage, Stop};
use crate::demo::wire::FromAgent;

impl Stage {
    pub(in crate::demo::play) fn begin(&self, item: &str, kind: ItemKind, parent: Option<&str>) {
        let open = OpenItem { kind, parent: parent.map(Into::into), text: String::new() };
        self.with(|inner| inner.items.insert(item.into(), open));
        let message = matches!(kind, ItemKind::Text | ItemKind::Thinking).then(|| format!("m{item}"));
        self.emit(&FromAgent::Begin { item: item.into(), kind, message, parent: parent.map(Into::into) });
    }

    pub(in crate::demo::play) fn more(&self, item: &str, text: &str) {
        self.with(|inner| {
            if let Some(open) = inner.items.get_mut(item) {
                open.text.push_str(text);
            }
        });
        self.emit(&FromAgent::More { item: item.into(), text: text.into() });
    }

    /// Ends a text or thinking item with the streamed text.
    pub(in crate::demo::play) fn finish(&self, item: &str) {
        self.finish_as(item, false);
    }

    pub(super) fn finish_as(&self, item: &str, interrupted: bool) {
        let Some(open) = self.with(|inner| inner.items.shift_remove(item)) else { return };
        let content = match open.kind {
            ItemKind::Thinking => vec![Content::Thinking { text: open.text }],
            _ if open.text.is_empty() => vec![],
            _ => vec![Content::text(open.text)],
        };
        self.say_whole(item, open.parent.as_deref(), content, interrupted);
    }

    /// A finished message that did not stream, or the end of a streamed message.
    pub(in crate::demo::play) fn say_whole(
        &self,
        item: &str,
        parent: Option<&str>,
        content: Vec<Content>,
        interrupted: bool,
    ) {
        let model = self.with(|inner| {
            if let (None, Some(Content::Text { text })) = (parent, content.last()) {
                inner.last_words = Some(text.clone());
            }
            let written = content.iter().map(|piece| match piece {
                Content::Text { text } | Content::Thinking { text } => text.len(),
                _ => 0,
            });
            inner.ledger.wrote(&inner.model, written.sum());
            inner.model.clone()
        });
        self.emit(&FromAgent::Say {
            item: item.into(),
            message: Some(format!("m{item}")),
            parent: parent.map(Into::into),
            model: Some(model),
            content,
            interrupted,
        });
    }

    /// Streams text, word by word.
    pub(in crate::demo::play) async fn say(&self, text: &str) -> Played {
        self.stream(ItemKind::Text, None, text).await
    }

    /// Streams thinking, unless its budget is zero.
    pub(in crate::demo::play) async fn think(&self, parent: Option<&str>, text: &str) -> Played {
        if self.with(|inner| inner.thinking) == Some(0) {
            return Ok(());
        }
        self.stream(ItemKind::Thinking, parent, text).await
    }

    pub(in crate::demo::play) async fn stream(
        &self,
        kind: ItemKind,
        parent: Option<&str>,
        text: &str,
    ) -> Played {
        let item = self.name();
        self.begin(&item, kind, parent);
        for piece in text.split_inclusive(' ') {
            self.more(&item, piece);
            self.pause(1).await;
        }
        self.finish(&item);
        self.step(parent)
    }

    /// One step is done: counts its usage, and checks whether the session's limits allow another.
    fn step(&self, parent: Option<&str>) -> Played {
        let (event, stop) = self.with(|inner| {
            let event = inner.ledger.step(&inner.model, parent);
            let over = |limit: Option<u32>| limit.is_some_and(|limit| inner.ledger.steps() >= limit);
            let spent = |limit: Option<f64>| limit.is_some_and(|limit| inner.ledger.turn_cost() >= limit);
            let stop = match () {
                () if over(inner.spec.max_turns) => Some(Stop::MaxTurns),
                () if spent(inner.spec.max_budget_usd) => Some(Stop::MaxBudget),
                () => None,
            };
            (event, stop)
        });
        self.event(event);
        stop.map_or(Ok(()), Err)
    }
}
