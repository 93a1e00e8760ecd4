//! The stream of a message: its blocks open, grow, and end with the finished block or with the turn.

use std::collections::BTreeMap;

use portolan_core::{Event, event::ItemKind, ports::Report};

use super::{OpenBlock, Stream, tokens};
use crate::{
    claude::{
        KIND,
        translate::Translate,
        wire::{self, Block, Envelope, MessageStart, StreamDelta, StreamEvent, Usage},
    },
    driver::Output,
};

impl Translate {
    pub(in crate::claude) fn stream_event(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        let event = message.event.and_then(|raw| serde_json::from_str::<StreamEvent<'_>>(raw.get()).ok());
        let Some(event) = event else { return out.unknown(KIND, "stream_event", line) };
        let parent = message.parent_tool_use_id.as_deref().map(str::to_owned);
        match &*event.kind {
            "content_block_delta" => {
                let delta = event.delta.and_then(|raw| serde_json::from_str(raw.get()).ok());
                let Some(delta) = delta else { return out.unknown(KIND, "content_block_delta", line) };
                self.more(parent.as_deref(), event.index, delta, line, out);
            }
            "content_block_start" => self.block_starts(parent, &event, out),
            // The finished block has come already, or never will.
            "content_block_stop" | "ping" => {}
            "message_start" => {
                if parent.is_none() {
                    self.turn_begins(out);
                    self.settle_unechoed(out);
                    self.set_activity(None, out);
                }
                self.abandon(parent.as_deref(), out);
                let start: MessageStart = wire::open(event.message).unwrap_or_default();
                let stream = Stream {
                    message: start.id,
                    model: start.model,
                    usage: start.usage,
                    blocks: BTreeMap::new(),
                };
                self.conversation.streams.insert(parent.unwrap_or_default(), stream);
            }
            "message_delta" => self.message_used(parent, &event, out),
            "message_stop" => {
                self.abandon(parent.as_deref(), out);
                self.conversation.streams.remove(parent.as_deref().unwrap_or_default());
            }
            other => out.unknown(KIND, &format!("stream_event {other}"), line),
        }
    }

    fn block_starts(&mut self, parent: Option<String>, event: &StreamEvent<'_>, out: &mut Output) {
        self.open_block(parent, event.index, wire::open(event.content_block).unwrap_or_default(), out);
    }

    fn open_block(&mut self, parent: Option<String>, index: u64, block: Block, out: &mut Output) {
        let kind = match block.kind.as_str() {
            "text" => ItemKind::Text,
            "thinking" => ItemKind::Thinking,
            "tool_use" => ItemKind::ToolInput,
            // Comes whole.
            _ => return,
        };
        let item = self.conversation.next_item();
        let stream = self.conversation.streams.entry(parent.clone().unwrap_or_default()).or_default();
        let message = stream.message.clone();
        let tool = block.id.clone().zip(block.name).filter(|_| kind == ItemKind::ToolInput);
        let open = OpenBlock { item: item.clone(), kind: block.kind, tool: block.id };
        stream.blocks.insert(index, open);
        out.event(Event::ItemStarted { item: item.clone(), kind, message, parent });
        if let Some((tool, name)) = tool {
            out.event(Event::ToolNamed { item, tool, name });
        }
    }

    pub(in crate::claude) fn more(
        &mut self,
        parent: Option<&str>,
        index: u64,
        delta: StreamDelta<'_>,
        line: &str,
        out: &mut Output,
    ) {
        let (text, kind) = match &*delta.kind {
            "text_delta" => (delta.text, "text"),
            "thinking_delta" => (delta.thinking, "thinking"),
            "input_json_delta" => (delta.partial_json, "tool_use"),
            // Nothing for people.
            "signature_delta" | "citations_delta" => return,
            other => return out.unknown(KIND, &format!("content_block_delta {other}"), line),
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        if self.conversation.block(parent, index).is_none() {
            // Text of a block that was never announced still counts.
            let block = Block { kind: kind.into(), ..Block::default() };
            self.open_block(parent.map(str::to_owned), index, block, out);
        }
        let Some(open) = self.conversation.block(parent, index) else { return };
        out.event(Event::Delta { item: open.item.clone(), text: text.into_owned() });
    }

    fn message_used(&mut self, parent: Option<String>, event: &StreamEvent<'_>, out: &mut Output) {
        let Some(stream) = self.conversation.streams.get_mut(parent.as_deref().unwrap_or_default()) else {
            return;
        };
        let told: Usage = wire::open(event.usage).unwrap_or_default();
        let begun = stream.usage;
        let usage = Usage {
            input_tokens: told.input_tokens.or(begun.input_tokens),
            output_tokens: told.output_tokens.or(begun.output_tokens),
            cache_creation_input_tokens: told
                .cache_creation_input_tokens
                .or(begun.cache_creation_input_tokens),
            cache_read_input_tokens: told.cache_read_input_tokens.or(begun.cache_read_input_tokens),
        };
        let model = stream.model.clone();
        let context_window = model.as_ref().and_then(|model| self.tally.window(model));
        out.event(Event::Usage { usage: tokens(usage), model, parent, context_window, context_only: false });
    }

    /// Blocks that streamed and were never finished: the request was cut off, and is made again or given up.
    pub(super) fn abandon(&mut self, parent: Option<&str>, out: &mut Output) {
        let Some(stream) = self.conversation.streams.get_mut(parent.unwrap_or_default()) else { return };
        for (_, open) in std::mem::take(&mut stream.blocks) {
            out.reports.push(Report::CutOff { item: open.item, model: stream.model.clone() });
        }
    }

    /// A turn has ended: the session closes what its streams left open, with the text so far.
    pub(in crate::claude) fn close_streams(&mut self) {
        self.conversation.streams.remove("");
        self.subagents.forget_finished();
        let subagents = &self.subagents;
        self.conversation.streams.retain(|parent, _| subagents.runs(parent));
    }
}
