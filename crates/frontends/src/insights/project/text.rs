//! Messages of agents and outputs of tools as text; and streaming text.

use std::collections::HashMap;

use portolan_core::event::{Content, ItemKind};
use serde_json::{Map, Value};

use super::{Detail, output};
use crate::insights::wire::{AgentOutput, ContentType};

/// The whole output of a tool, as one text.
pub(super) fn flatten(content: &[Content]) -> String {
    let pieces: Vec<String> = content.iter().filter_map(piece).collect();
    pieces.join("\n")
}

fn piece(content: &Content) -> Option<String> {
    match content {
        Content::Text { text } | Content::Thinking { text } => Some(text.clone()),
        Content::RedactedThinking => None,
        Content::Image { media_type, .. } => Some(format!("[image {media_type}]")),
        Content::Resource { text: Some(text), .. } => Some(text.clone()),
        Content::Resource { uri, text: None, .. } => Some(format!("[{uri}]")),
        Content::Data { data: value } | Content::Other { body: value } => Some(value.to_string()),
    }
}

/// An input as the object that clients expect.
pub(super) fn object(input: &Value) -> Map<String, Value> {
    match input {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("input".to_owned(), other.clone())]),
    }
}

#[derive(Debug)]
struct Open {
    agent: String,
    kind: ContentType,
    told: String,
}

/// The streaming items, if the client asked for streaming.
#[derive(Debug)]
pub(super) struct Streams {
    detail: Detail,
    open: HashMap<String, Open>,
}

impl Streams {
    pub(super) fn new(detail: Detail) -> Self {
        Self { detail, open: HashMap::new() }
    }

    /// Does an item of this kind stream to the client?
    pub(super) fn wants(&self, kind: ItemKind) -> bool {
        self.detail == Detail::Deltas && content_type(kind).is_some()
    }

    pub(super) fn knows(&self, item: &str) -> bool {
        self.open.contains_key(item)
    }

    pub(super) fn begin(&mut self, item: &str, agent: String, kind: ItemKind) {
        if let Some(kind) = content_type(kind) {
            self.open.insert(item.to_owned(), Open { agent, kind, told: String::new() });
        }
    }

    pub(super) fn more(&mut self, session: &str, item: &str, text: &str) -> Option<AgentOutput> {
        let open = self.open.get_mut(item).filter(|_| !text.is_empty())?;
        open.told.push_str(text);
        let told = output(session, &open.agent, text.to_owned(), open.kind);
        Some(AgentOutput { item: Some(item.to_owned()), ..told })
    }

    /// A finished message: the part that was not sent yet.
    pub(super) fn finish(
        &mut self,
        session: &str,
        agent: &str,
        item: &str,
        content: &[Content],
    ) -> Vec<AgentOutput> {
        let mut streamed = self.open.remove(item);
        let mut told = Vec::new();
        for piece in content {
            let (text, kind) = match piece {
                Content::Text { text } => (text.clone(), ContentType::Text),
                Content::Thinking { text } => (text.clone(), ContentType::Thinking),
                Content::Resource { text: Some(text), .. } => (text.clone(), ContentType::Text),
                Content::Data { data } => (data.to_string(), ContentType::Text),
                // Redacted thinking has no text; the protocol has no place for images.
                Content::RedactedThinking
                | Content::Image { .. }
                | Content::Resource { text: None, .. }
                | Content::Other { .. } => continue,
            };
            // Deltas are only hints: if the message differs from its deltas, the whole message is sent.
            let rest = match streamed.take_if(|open| open.kind == kind) {
                Some(open) => text.strip_prefix(open.told.as_str()).unwrap_or(&text).to_owned(),
                None => text,
            };
            if !rest.is_empty() {
                let item = (self.detail == Detail::Deltas).then(|| item.to_owned());
                told.push(AgentOutput { item, ..output(session, agent, rest, kind) });
            }
        }
        told
    }
}

fn content_type(kind: ItemKind) -> Option<ContentType> {
    match kind {
        ItemKind::Text => Some(ContentType::Text),
        ItemKind::Thinking => Some(ContentType::Thinking),
        ItemKind::ToolInput | ItemKind::ToolOutput => None,
    }
}
