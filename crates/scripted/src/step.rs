//! Step: one answer of the model, and its possible failures. Builders that read as a sentence.
//!
//! Independent of any API; a dialect turns it into bytes. As JSON, a step is the flat form of `step_data.rs`.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{asked::tokens_of, step_data::StepData};

/// Characters in one delta unless the step sets another number: small enough that a sentence comes in several deltas.
const CHUNK: usize = 24;

/// One answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StepData", into = "StepData")]
pub struct Step {
    /// The answer.
    pub reply: Reply,
    /// The wait before the first byte.
    pub wait: Duration,
    /// Further response headers, such as an API's rate-limit figures.
    pub headers: BTreeMap<String, String>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A turn of the model.
    Say(Message),
    /// An error in place of an answer.
    Fail(Failure),
    /// Nothing, until the client leaves or the server stops.
    Hang,
}

/// A turn of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// What it says and calls, in order.
    pub blocks: Vec<Block>,
    /// Its reported tokens; if absent, an estimate from the texts.
    pub usage: Option<Usage>,
    /// Why it ends; if absent, tool use if a tool is called, otherwise the end of the turn.
    pub stop: Option<StopReason>,
    /// How fast it comes.
    pub pace: Pace,
    /// Whether the stream is complete.
    pub ending: Ending,
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// Text for the user.
    Text {
        /// The text; may hold placeholders.
        text: String,
    },
    /// Thinking that is shown.
    Thinking {
        /// The text; may hold placeholders.
        text: String,
        /// The proof that the API expects back.
        #[serde(default = "signature")]
        signature: String,
    },
    /// Thinking that is hidden.
    Redacted {
        /// Opaque.
        data: String,
    },
    /// A tool call.
    Tool(Call),
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its input; strings in it may contain placeholders.
    #[serde(default = "no_input")]
    pub input: Value,
    /// Its id; if absent, a new id for every reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Read, not from the cache.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_creation: u64,
}

/// Why a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model is done.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// The model ran out of tokens.
    MaxTokens,
    /// The model reached a stop sequence.
    StopSequence,
    /// It refused.
    Refusal,
}

/// How fast a turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Characters in one delta; zero is everything in one delta.
    pub chunk: usize,
    /// The wait before each delta.
    pub delay: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { chunk: CHUNK, delay: Duration::ZERO }
    }
}

/// Whether a stream is complete. All but the first are cut off inside the last block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The stream is complete.
    #[default]
    Whole,
    /// The connection is closed.
    Cut,
    /// Nothing more comes, until the client leaves or the server stops.
    Stall,
    /// An error comes inside the stream, and the stream ends.
    Error(Failure),
}

/// An error of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// Its text; if absent, the API's own text for this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When to try again, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// The common errors of model APIs. A dialect gives each its status and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request is invalid.
    BadRequest,
    /// The conversation does not fit the model's window.
    PromptTooLong,
    /// The account has no credit left.
    NoCredit,
    /// The key is wrong.
    Unauthorized,
    /// The key does not allow this.
    Forbidden,
    /// No such path or model.
    NotFound,
    /// The body is too large.
    TooLarge,
    /// Too many requests.
    RateLimited,
    /// The API broke.
    Internal,
    /// The API is overloaded.
    Overloaded,
}

impl From<FailureKind> for Failure {
    fn from(kind: FailureKind) -> Self {
        Self { kind, message: None, retry_after: None }
    }
}

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

fn signature() -> String {
    "c2NyaXB0ZWQ=".to_owned()
}

/// The model says this.
pub fn text(text: impl Into<String>) -> Step {
    Block::Text { text: text.into() }.into()
}

/// The model thinks this, and shows it.
pub fn thinking(text: impl Into<String>) -> Step {
    Block::Thinking { text: text.into(), signature: signature() }.into()
}

/// The model thinks, and hides the text.
pub fn redacted(data: impl Into<String>) -> Step {
    Block::Redacted { data: data.into() }.into()
}

/// The model calls a tool.
pub fn tool(name: impl Into<String>, input: Value) -> Step {
    Block::Tool(call(name, input)).into()
}

/// The model calls several tools at once.
pub fn tools(calls: impl IntoIterator<Item = Call>) -> Step {
    Reply::Say(Message { blocks: calls.into_iter().map(Block::Tool).collect(), ..Message::default() }).into()
}

/// One of several tool calls.
pub fn call(name: impl Into<String>, input: Value) -> Call {
    Call { name: name.into(), input, id: None }
}

/// The API answers with an error.
pub fn fail(failure: impl Into<Failure>) -> Step {
    Reply::Fail(failure.into()).into()
}

/// The API never answers.
pub fn hang() -> Step {
    Reply::Hang.into()
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Self {
        Self { reply, wait: Duration::ZERO, headers: BTreeMap::new() }
    }
}

impl From<Block> for Step {
    fn from(block: Block) -> Self {
        Reply::Say(Message { blocks: vec![block], ..Message::default() }).into()
    }
}

impl Step {
    /// Adds the content of `more` to the same turn. The failures and the ending are those of `self`.
    pub fn and(mut self, more: Step) -> Self {
        if let (Reply::Say(message), Reply::Say(more)) = (&mut self.reply, more.reply) {
            message.blocks.extend(more.blocks);
        }
        self
    }

    /// With these reported tokens.
    pub fn usage(self, usage: Usage) -> Self {
        self.saying(|message| message.usage = Some(usage))
    }

    /// Ends for this reason.
    pub fn stop(self, reason: StopReason) -> Self {
        self.saying(|message| message.stop = Some(reason))
    }

    /// Comes in deltas of this many characters; zero is everything in one delta.
    pub fn chunks_of(self, characters: usize) -> Self {
        self.saying(|message| message.pace.chunk = characters)
    }

    /// Waits before each delta.
    pub fn each_after(self, delay: Duration) -> Self {
        self.saying(|message| message.pace.delay = delay)
    }

    /// Waits before the first byte.
    pub fn after(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Cut off: the connection closes inside the last block.
    pub fn cut(self) -> Self {
        self.saying(|message| message.ending = Ending::Cut)
    }

    /// Cut off: nothing more comes inside the last block.
    pub fn stall(self) -> Self {
        self.saying(|message| message.ending = Ending::Stall)
    }

    /// Cut off with an error event inside the last block.
    pub fn breaks_with(self, failure: impl Into<Failure>) -> Self {
        self.saying(|message| message.ending = Ending::Error(failure.into()))
    }

    /// With this text of the error, if it is one.
    pub fn message(self, text: impl Into<String>) -> Self {
        self.failing(|failure| failure.message = Some(text.into()))
    }

    /// With this many seconds until the next try, if it is an error.
    pub fn retry_after(self, seconds: u64) -> Self {
        self.failing(|failure| failure.retry_after = Some(seconds))
    }

    /// With a further response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Whether it calls a tool, so that playing it again would never end.
    pub(crate) fn calls_tools(&self) -> bool {
        matches!(&self.reply, Reply::Say(message) if message.calls_tools())
    }

    /// Whether it gives the agent a whole turn, after which the agent goes on; otherwise the agent makes the same
    /// request again.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(&self.reply, Reply::Say(message) if message.ending == Ending::Whole)
    }

    fn saying(mut self, change: impl FnOnce(&mut Message)) -> Self {
        if let Reply::Say(message) = &mut self.reply {
            change(message);
        }
        self
    }

    fn failing(mut self, change: impl FnOnce(&mut Failure)) -> Self {
        if let Reply::Fail(failure) = &mut self.reply {
            change(failure);
        }
        self
    }
}

impl Message {
    fn calls_tools(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Tool(_)))
    }

    /// Why it ends.
    pub fn stop_reason(&self) -> StopReason {
        self.stop.unwrap_or(if self.calls_tools() { StopReason::ToolUse } else { StopReason::EndTurn })
    }

    /// Its tokens, for a request with this many tokens.
    pub fn usage_for(&self, input: u64) -> Usage {
        let written = |block: &Block| match block {
            Block::Text { text } | Block::Thinking { text, .. } => text.len(),
            Block::Redacted { data } => data.len(),
            Block::Tool(call) => call.name.len() + call.input.to_string().len(),
        };
        let output = || tokens_of(self.blocks.iter().map(written).sum());
        self.usage.unwrap_or_else(|| Usage { input, output: output(), ..Usage::default() })
    }
}

impl Pace {
    /// Cuts `text` into deltas, between characters. An empty text has no delta.
    pub fn deltas<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let chunk = if self.chunk == 0 { usize::MAX } else { self.chunk };
        let mut rest = text;
        std::iter::from_fn(move || {
            let end = rest.char_indices().nth(chunk).map_or(rest.len(), |(at, _)| at);
            let (delta, more) = rest.split_at(end);
            rest = more;
            (!delta.is_empty()).then_some(delta)
        })
    }
}
