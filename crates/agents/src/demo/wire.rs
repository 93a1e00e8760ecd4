//! The demo agent's own protocol: one JSON object per line, both ways.
//!
//! Each object has one key, the message's name, with the message's content under it:
//!
//! ```text
//! > {"hello":{"generation":1,"cwd":"/tmp"}}
//! < {"ready":{"session":"demo-…","info":{…}}}
//! > {"prompt":{"id":7,"content":[{"type":"text","text":"say hi"}]}}
//! < {"turn":{}}
//! < {"ack":{"id":7}}
//! < {"begin":{"item":"1.1","kind":"text"}}
//! < {"more":{"item":"1.1","text":"hi"}}
//! < {"say":{"item":"1.1","content":[{"type":"text","text":"hi"}]}}
//! < {"end":{"outcome":"completed"}}
//! ```
//!
//! - The agent is silent until `hello`, and sends `ready` once.
//! - Every message to it with an `id` is answered by exactly one `ack` or `nack` with that id: a prompt when its turn
//!   starts, everything else when it is done.
//! - `steer` is a prompt that enters the running turn: the current text is cut off, and the turn continues with the
//!   prompt. If no turn runs any more, it is a prompt like any other.
//! - Items, tools and subagents are named `<generation>.<number>`; no name is used twice in a session.
//! - `ask` waits for an `answer` with the same key, or is taken back by `withdraw`.
//! - `bye` asks the agent to end, as does the end of its input.
//! - Unknown messages and fields are skipped by both sides.
//!
//! If a thing already has a form in Portolan's vocabulary, this protocol uses that form: the demo is part of Portolan.

use std::path::PathBuf;

use indexmap::IndexMap;
use portolan_core::{
    Event, SessionSpec,
    event::{AgentInfo, Content, FileChange, ItemKind, ToolKind, ToolOutcome, TurnOrigin, TurnResult},
    request::{Answer, Ask},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of Portolan to the demo agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAgent {
    /// The first message.
    Hello(Box<Hello>),
    Prompt {
        id: u64,
        content: Vec<Content>,
    },
    Steer {
        id: u64,
        content: Vec<Content>,
    },
    Answer {
        id: u64,
        key: String,
        answer: Answer,
    },
    Interrupt {
        id: u64,
    },
    SetModel {
        id: u64,
        model: Option<String>,
    },
    SetMode {
        id: u64,
        mode: String,
    },
    SetThinking {
        id: u64,
        tokens: Option<u32>,
    },
    SetEnvironment {
        id: u64,
        variables: IndexMap<String, String>,
    },
    Rewind {
        id: u64,
        prompt: u64,
        dry_run: bool,
    },
    McpStatus {
        id: u64,
    },
    McpReconnect {
        id: u64,
        server: String,
    },
    McpToggle {
        id: u64,
        server: String,
        enabled: bool,
    },
    McpSet {
        id: u64,
        servers: IndexMap<String, Value>,
    },
    McpMessage {
        id: u64,
        server: String,
        message: Value,
    },
    Context {
        id: u64,
    },
    StopTask {
        id: u64,
        task: String,
    },
    Native {
        id: u64,
        body: Value,
    },
    Bye {},
}

/// The session and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hello {
    pub(super) generation: u32,
    pub(super) spec: SessionSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<Resume>,
}

/// A conversation to resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Resume {
    pub(super) session: String,
    pub(super) fork: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
}

/// A message of the demo agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromAgent {
    /// It takes instructions.
    Ready { info: Box<AgentInfo> },
    /// It took the instruction with this id.
    Ack {
        id: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// It refused the instruction.
    Nack { id: u64, error: String },
    /// A turn begins.
    Turn {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<TurnOrigin>,
    },
    /// An item begins to stream.
    Begin {
        item: String,
        kind: ItemKind,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// More text of the item.
    More { item: String, text: String },
    /// The item is finished.
    Say {
        item: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        content: Vec<Content>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A tool is called.
    Call {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        name: String,
        #[serde(default)]
        kind: ToolKind,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        input: Value,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
    },
    /// A tool is finished.
    Result {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        outcome: ToolOutcome,
        content: Vec<Content>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
    },
    /// It waits for an answer.
    Ask {
        key: String,
        ask: Box<Ask>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
    },
    /// It waits no longer.
    Withdraw { key: String },
    /// The turn is over.
    End(Box<TurnResult>),
    /// Any other event, in Portolan's own vocabulary.
    Event(Box<Event>),
}

/// The name of a message whose contents cannot be read; none if it is not a message.
pub(super) fn name_of(line: &str) -> Option<String> {
    let message: IndexMap<String, serde::de::IgnoredAny> = serde_json::from_str(line).ok()?;
    let mut names = message.into_keys();
    match (names.next(), names.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

/// The folder of a session, as the agent shows it.
pub(super) fn folder(spec: &SessionSpec) -> PathBuf {
    if spec.cwd.as_os_str().is_empty() { PathBuf::from(".") } else { spec.cwd.clone() }
}
