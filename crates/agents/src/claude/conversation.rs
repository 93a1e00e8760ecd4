//! Messages: what the model writes, and what comes back to it.
//!
//! A message of the model arrives in pieces: its stream, and one `assistant` message per block, *before* that block's
//! end in the stream, all under the same message id. `user` messages are not from the user: they carry results of
//! tools, echoes, summaries, output of commands and marks of an interrupt.

mod stream;

use std::collections::{BTreeMap, HashMap};

use portolan_core::{
    Event, Generation,
    event::{Content, Level, TurnOrigin},
    usage::TokenUsage,
};
use serde_json::Value;

use super::{
    KIND,
    errors::Trouble,
    tools,
    translate::Translate,
    wire::{self, Block, Envelope, Message, TurnEnd, Usage},
};
use crate::driver::Output;

/// The model name on messages that the CLI itself wrote.
const SYNTHETIC: &str = "<synthetic>";

/// The CLI's text for a command without output.
const NOTHING: &str = "(no content)";

/// How the CLI marks an interrupted turn. The rest of the text differs.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Streams that are open, and the names of items.
#[derive(Debug)]
pub(super) struct Conversation {
    generation: Generation,
    items: u64,
    /// By the subagent that writes; the main agent has the empty name.
    streams: HashMap<String, Stream>,
    /// The CLI's output for a change of the model that Portolan made. Some versions print it again later.
    model_echo: Option<String>,
}

/// A message while it is written.
#[derive(Debug, Default)]
struct Stream {
    message: Option<String>,
    model: Option<String>,
    usage: Usage,
    blocks: BTreeMap<u64, OpenBlock>,
}

#[derive(Debug)]
struct OpenBlock {
    item: String,
    /// The block's own name for its kind.
    kind: String,
    /// The call, if the block is one.
    tool: Option<String>,
}

impl Conversation {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, items: 0, streams: HashMap::new(), model_echo: None }
    }

    /// A name that is unique in the session.
    fn next_item(&mut self) -> String {
        self.items += 1;
        format!("{}.{}", self.generation, self.items)
    }

    /// An open block.
    fn block(&mut self, parent: Option<&str>, index: u64) -> Option<&mut OpenBlock> {
        self.streams.get_mut(parent.unwrap_or_default())?.blocks.get_mut(&index)
    }

    /// Whether this is not the message that streams. Then the streaming message was dropped.
    fn is_other(&self, parent: Option<&str>, message: Option<&str>) -> bool {
        let stream = self.streams.get(parent.unwrap_or_default());
        stream.is_some_and(|stream| stream.message.as_deref() != message)
    }

    /// The open block that this finished block ends.
    fn finish(&mut self, parent: Option<&str>, message: Option<&str>, block: &Block) -> Option<String> {
        let stream = self.streams.get_mut(parent.unwrap_or_default())?;
        if stream.message.as_deref() != message {
            return None;
        }
        let fits =
            |open: &OpenBlock| open.kind == block.kind && (open.tool.is_none() || open.tool == block.id);
        let index = stream.blocks.iter().find(|(_, open)| fits(open)).map(|(index, _)| *index)?;
        stream.blocks.remove(&index).map(|open| open.item)
    }
}

impl Translate {
    // -------------------------------------------------------------------------- finished messages

    pub(super) fn assistant(&mut self, envelope: &Envelope<'_>, line: &str, out: &mut Output) {
        let message = envelope.message.and_then(|raw| serde_json::from_str::<Message<'_>>(raw.get()).ok());
        let Some(message) = message else { return out.unknown(KIND, "assistant", line) };
        let parent = envelope.parent_tool_use_id.as_deref().map(str::to_owned);
        if let (Some(agent), Some(parent)) = (&envelope.agent_id, &parent) {
            self.subagents.met(agent, parent);
        }
        let text = wire::open::<String>(message.content);
        let raw_blocks = wire::blocks(message.content);
        if text.is_none() && raw_blocks.is_none() {
            return out.unknown(KIND, "assistant/content", line);
        }
        let mut blocks: Vec<(Block, Value)> = raw_blocks
            .unwrap_or_default()
            .into_iter()
            .map(|raw| (wire::open(Some(raw)).unwrap_or_default(), wire::value(Some(raw))))
            .collect();
        if let Some(text) = text {
            blocks.push((Block { kind: "text".into(), text: Some(text), ..Block::default() }, Value::Null));
        }
        if parent.is_none() {
            self.turn_begins(out);
            self.set_activity(None, out);
        }
        if let Some(word) = wire::open::<String>(envelope.error) {
            let said: Vec<_> = blocks.iter().filter_map(|(block, _)| block.text.clone()).collect();
            let status = wire::open(envelope.api_error_status);
            let trouble = Trouble { word: Some(word), status, text: said.join("\n"), ..Trouble::default() };
            return self.trouble(parent, trouble, out);
        }
        let model = message.model.filter(|model| model != SYNTHETIC);
        if let (Some(parent), Some(model)) = (&parent, &model) {
            self.subagents.writes_with(parent, model);
        }
        let synthetic = model.is_none();
        if self.conversation.is_other(parent.as_deref(), message.id.as_deref()) {
            self.abandon(parent.as_deref(), out);
        }
        // Versions that do not mark the cut-off rest of a message send it after the interrupt.
        let cut_off = envelope.aborted == Some(true)
            || parent.is_none() && !synthetic && self.turn.as_ref().is_some_and(|turn| turn.interrupted);
        for (block, body) in blocks {
            if synthetic && block.text.as_deref() == Some(NOTHING) {
                continue;
            }
            let item = self.conversation.finish(parent.as_deref(), message.id.as_deref(), &block);
            if block.kind == "tool_use" {
                self.tool_call(block, item, message.id.clone(), parent.clone(), out);
                continue;
            }
            let item = item.unwrap_or_else(|| self.conversation.next_item());
            self.has_spoken(parent.as_deref());
            out.event(Event::Message {
                item,
                message: message.id.clone(),
                parent: parent.clone(),
                model: model.clone(),
                content: vec![said(block, body)],
                interrupted: cut_off,
                stop_reason: message.stop_reason.clone(),
            });
        }
    }

    /// A request to the model failed for good. The turn's end reports the failure, if it belongs to the turn.
    fn trouble(&mut self, parent: Option<String>, trouble: Trouble, out: &mut Output) {
        match (&parent, &mut self.turn) {
            (None, Some(turn)) => turn.trouble = Some(trouble),
            _ => out.event(Event::Failure { error: trouble.info(), recoverable: true }),
        }
    }

    fn tool_call(
        &mut self,
        block: Block,
        item: Option<String>,
        message: Option<String>,
        parent: Option<String>,
        out: &mut Output,
    ) {
        let (tool, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
        let input = block.input.unwrap_or_default();
        self.subagents.called(&tool, &name, &input, parent.as_deref());
        let steps = if name == "TodoWrite" { tools::todo(&input) } else { None };
        let begun = self.subagents.begun(&tool, &name, &input, parent.as_deref());
        out.event(Event::ToolCall {
            tool,
            item,
            message,
            parent: parent.clone(),
            kind: tools::kind(&name),
            title: tools::title(&input),
            changes: tools::changes_asked(&name, &input),
            name,
            input,
        });
        if let Some(steps) = steps {
            out.event(Event::Plan { steps, parent });
        }
        out.reports.extend(begun);
    }

    // ------------------------------------------------------------------------------ `user` messages

    pub(super) fn user(&mut self, envelope: &Envelope<'_>, line: &str, out: &mut Output) {
        let message = envelope.message.and_then(|raw| serde_json::from_str::<Message<'_>>(raw.get()).ok());
        let Some(message) = message else { return out.unknown(KIND, "user", line) };
        let parent = envelope.parent_tool_use_id.as_deref().map(str::to_owned);
        if let (Some(agent), Some(parent)) = (&envelope.agent_id, &parent) {
            self.subagents.met(agent, parent);
        }
        if let Some(text) = wire::open::<String>(message.content) {
            return self.user_text(&text, parent.as_deref(), envelope, out);
        }
        let Some(raw_blocks) = wire::blocks(message.content) else {
            return out.unknown(KIND, "user/content", line);
        };
        let all = raw_blocks.len();
        let blocks: Vec<Block> = raw_blocks.into_iter().filter_map(|raw| wire::open(Some(raw))).collect();
        let mut is_understood = blocks.len() == all;
        let results = blocks.iter().filter(|block| block.kind == "tool_result").count();
        if results == 0 && self.is_echo(envelope) {
            let text = blocks.iter().filter_map(|block| block.text.as_deref()).collect::<Vec<_>>().join("\n");
            return self.user_text(&text, parent.as_deref(), envelope, out);
        }
        for block in blocks {
            match block.kind.as_str() {
                "tool_result" => {
                    // The structured result belongs to the message; with several results its owner is unknown.
                    let structured =
                        if results == 1 { wire::value(envelope.tool_use_result) } else { Value::Null };
                    let meta = wire::value(envelope.tool_result_meta);
                    self.tool_result(block, parent.clone(), &structured, &meta, out);
                }
                "text" => {
                    let text = block.text.unwrap_or_default();
                    self.user_text(&text, parent.as_deref(), envelope, out);
                }
                // The content of a prompt, repeated.
                "image" | "document" => {}
                _ => is_understood = false,
            }
        }
        if !is_understood {
            out.unknown(KIND, "user/content", line);
        }
    }

    fn user_text(&mut self, text: &str, parent: Option<&str>, envelope: &Envelope<'_>, out: &mut Output) {
        // A subagent's prompt, known from its call.
        if parent.is_some() {
            return;
        }
        if text.starts_with(INTERRUPTED) {
            if let Some(turn) = &mut self.turn {
                turn.interrupted = true;
            }
            return;
        }
        if let Some(said) = between(text, "local-command-stdout") {
            return self.command_said(said, out);
        }
        if let Some(said) = between(text, "local-command-stderr") {
            let text = said.to_owned();
            return out.event(Event::Notice { level: Level::Warning, text });
        }
        if self.is_echo(envelope) {
            if let Some(uuid) = &envelope.uuid {
                self.prompt_echoed(uuid, out);
            }
            return;
        }
        if !text.is_empty() {
            out.event(Event::Notice { level: Level::Info, text: text.to_owned() });
        }
    }

    /// A command of the CLI printed something.
    fn command_said(&mut self, said: &str, out: &mut Output) {
        // The answer to `set_model` reports the same.
        if self.control.is_setting_model() {
            self.conversation.model_echo = Some(said.to_owned());
        }
        if said.is_empty() || said == NOTHING || self.conversation.model_echo.as_deref() == Some(said) {
            return;
        }
        if self.turn.as_ref().is_none_or(|turn| turn.origin == TurnOrigin::Agent) {
            return out.event(Event::Notice { level: Level::Info, text: said.to_owned() });
        }
        self.says(said, out);
    }

    /// A message of the CLI itself.
    fn says(&mut self, said: &str, out: &mut Output) {
        let item = self.conversation.next_item();
        let content = vec![Content::text(said)];
        self.has_spoken(None);
        out.event(Event::Message {
            item,
            message: None,
            parent: None,
            model: None,
            content,
            interrupted: false,
            stop_reason: None,
        });
    }

    fn has_spoken(&mut self, parent: Option<&str>) {
        if let (None, Some(turn)) = (parent, &mut self.turn) {
            turn.has_spoken = true;
        }
    }

    /// Text that only the end of a turn has: some versions answer an unknown command with nothing else. Witness:
    /// 2.1.120-ws/m-slash-commands.ndjson
    pub(super) fn say_unsaid(&mut self, end: &TurnEnd, out: &mut Output) {
        let is_unsaid = self.turn.as_ref().is_some_and(|turn| !turn.has_spoken);
        let text = end.result.as_deref().filter(|text| !text.is_empty() && *text != NOTHING);
        if let (true, false, None, Some(text)) = (is_unsaid, end.is_error, &end.structured_output, text) {
            self.says(text, out);
        }
    }
}

/// The content of a finished block.
fn said(block: Block, body: Value) -> Content {
    match block.kind.as_str() {
        "text" => Content::Text { text: block.text.unwrap_or_default() },
        "thinking" => match block.thinking.filter(|text| !text.is_empty()) {
            Some(text) => Content::Thinking { text },
            // Thinking of which only the signature is shown.
            None => Content::RedactedThinking,
        },
        "redacted_thinking" => Content::RedactedThinking,
        "image" => picture(block.source.as_ref()).unwrap_or(Content::Other { body }),
        _ => Content::Other { body },
    }
}

/// The content of a tool's result: plain text, or blocks.
pub(super) fn result_content(content: Value) -> Vec<Content> {
    match content {
        Value::Null => vec![],
        Value::String(text) if text.is_empty() => vec![],
        Value::String(text) => vec![Content::Text { text }],
        Value::Array(blocks) => blocks
            .into_iter()
            .map(|body| said(serde_json::from_value(body.clone()).unwrap_or_default(), body))
            .collect(),
        body => vec![Content::Other { body }],
    }
}

fn picture(source: Option<&Value>) -> Option<Content> {
    let text = |key: &str| source?.get(key)?.as_str().map(str::to_owned);
    Some(Content::Image { media_type: text("media_type")?, data: text("data")? })
}

/// The text between the opening and the closing tag.
fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let rest = text.trim_start().strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
    Some(rest.split_once(&format!("</{tag}>")).map_or(rest, |(said, _)| said).trim())
}

/// Tokens in Portolan's form.
pub(super) fn tokens(usage: Usage) -> TokenUsage {
    TokenUsage {
        input: usage.input_tokens.unwrap_or(0),
        output: usage.output_tokens.unwrap_or(0),
        cache_creation: usage.cache_creation_input_tokens.unwrap_or(0),
        cache_read: usage.cache_read_input_tokens.unwrap_or(0),
    }
}
