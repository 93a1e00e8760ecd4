//! Builds a prompt from the input of a page: the user's text, and before it the page's context and the tools that the
//! agent can call. Pure.
//!
//! The part before the text is a separate piece with its own address, so that the history, the session's name and other
//! clients can distinguish it from the user's text.

use std::fmt::Write as _;

use portolan_core::event::Content;
use serde_json::Value;

use super::wire::{ContextEntry, Part, Parts, SentMessage, Source};

/// The address of the page's part before the user's text.
pub const PAGE_URI: &str = "copilotkit:page";

/// The most that a page may put before a prompt. It comes with every run, and the model reads every byte of it.
pub const CONTEXT_BYTES: usize = 256 * 1024;

const STATE: &str = "[CURRENT WORKSPACE STATE — what the user's page shows at this moment. It may differ from what you \
                     were told before, and then this is right:]";

const ACTIONS: &str = "[AVAILABLE FRONTEND ACTIONS — these are tools that run in the user's page. Call them like any \
                       other tool, by the names given here; each gives back what really happened in the page:]";

/// A page's tool as the agent knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The name by which the agent calls it.
    pub name: String,
    /// Its description.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// The part before the user's text; nothing if the page sends no context.
pub fn block(context: &[ContextEntry], actions: &[Action]) -> Option<String> {
    let mut text = String::new();
    if !context.is_empty() {
        text.push_str(STATE);
        for ContextEntry { description, value } in context {
            let value = value.words();
            // Writing into memory cannot fail.
            let _ = write!(text, "\n[{description}]\n{value}\n");
        }
    }
    if !actions.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(ACTIONS);
        for Action { name, description, parameters } in actions {
            let _ = write!(text, "\n- `{name}`: {description}");
            if !parameters.is_null() {
                let _ = write!(text, "\n  takes, as JSON Schema: {parameters}");
            }
        }
        text.push('\n');
    }
    if text.len() > CONTEXT_BYTES {
        let mut end = CONTEXT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n[the rest of it was too long]\n");
    }
    (!text.is_empty()).then_some(text)
}

/// The prompt of a run. A slash command goes alone: agents recognise it only at the beginning.
pub fn prompt(words: Vec<Content>, before: Option<String>) -> Vec<Content> {
    let is_command = matches!(&*words, [Content::Text { text }] if text.starts_with('/'));
    let before = before.filter(|_| !is_command).map(|text| Content::Resource {
        uri: PAGE_URI.into(),
        name: Some("The user's page".into()),
        text: Some(text),
    });
    before.into_iter().chain(words).collect()
}

/// The content of a user's message, or why it is refused.
pub fn user_words(message: &SentMessage) -> Result<Vec<Content>, String> {
    let Some(content) = &message.content else { return Ok(vec![]) };
    if let Some(text) = content.string() {
        return Ok(vec![Content::text(text)]);
    }
    if !content.text().starts_with('[') {
        return Err("a user's message must be text or a list of parts".into());
    }
    let parts: Parts = content.read().map_err(|error| {
        format!("a part of the message cannot be read: {}", portolan_host::door::reason(&error))
    })?;
    parts.0.into_iter().map(part).collect()
}

fn part(part: Part) -> Result<Content, String> {
    let Part { kind, text, source, data, url, mime_type, filename } = part;
    let (data, url, mime) = match source {
        Some(Source::Data { value, mime_type: own }) => (Some(value), url, own.or(mime_type)),
        Some(Source::Url { value }) => (data, Some(value), mime_type),
        None => (data, url, mime_type),
    };
    match (kind.as_str(), data, url) {
        ("text", ..) => text.map(Content::text).ok_or_else(|| "a text part needs a `text`".into()),
        ("image" | "binary", Some(data), _) => {
            let media_type = mime.unwrap_or_else(|| "image/png".into());
            if !media_type.starts_with("image/") {
                return Err(format!(
                    "a prompt takes text and images, not `{}`",
                    super::parse::shown(&media_type, 40)
                ));
            }
            Ok(Content::Image { media_type, data })
        }
        (_, None, Some(uri)) => Ok(Content::Resource { uri, name: filename, text: None }),
        _ => Err(format!("a prompt takes text and images, not a part `{}`", super::parse::shown(&kind, 40))),
    }
}

/// The user's part of a prompt, as the history shows it.
pub fn own_words(content: &[Content]) -> String {
    let piece = |piece: &Content| match piece {
        Content::Resource { uri, .. } if uri == PAGE_URI => None,
        Content::Text { text } | Content::Thinking { text } => Some(text.clone()),
        Content::Image { media_type, .. } => Some(format!("[{media_type}]")),
        Content::Resource { uri, name, .. } => Some(format!("[{}]", name.as_deref().unwrap_or(uri))),
        Content::Data { data } => Some(data.to_string()),
        Content::RedactedThinking | Content::Other { .. } => None,
    };
    content.iter().filter_map(piece).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agui::wire::Raw;

    fn entry(description: &str, value: Value) -> ContextEntry {
        ContextEntry { description: description.into(), value: Raw::from(&value) }
    }

    // covers: 004-023, 004-124, 004-125
    #[test]
    fn the_page_s_state_and_tools_stand_before_the_words() {
        let context = [
            entry("scratchpad", json!("Current content")),
            entry("tasks", json!("[{\"id\":\"1\"}]")),
            entry("old", json!({"a": 1})),
        ];
        let action = Action {
            name: "mcp__copilotkit-frontend__setColor".into(),
            description: "Set the page's color".into(),
            parameters: json!({"type": "object"}),
        };
        let text = block(&context, &[action]).unwrap();
        assert_eq!(
            text,
            format!(
                "{STATE}\n[scratchpad]\nCurrent content\n\n[tasks]\n[{{\"id\":\"1\"}}]\n\n[old]\n{{\"a\":1}}\n\n{ACTIONS}\n\
                 - `mcp__copilotkit-frontend__setColor`: Set the page's color\n  takes, as JSON Schema: {{\"type\":\"object\"}}\n"
            )
        );
        assert!(
            STATE.starts_with("[CURRENT WORKSPACE STATE — ")
                && ACTIONS.starts_with("[AVAILABLE FRONTEND ACTIONS — ")
        );
        assert_eq!(block(&[], &[]), None);
        let prompt = prompt(vec![Content::text("make it blue")], Some(text.clone()));
        let before = Content::Resource {
            uri: PAGE_URI.into(),
            name: Some("The user's page".into()),
            text: Some(text),
        };
        assert_eq!(prompt, [before, Content::text("make it blue")]);
        assert_eq!(own_words(&prompt), "make it blue", "only the user's own words are the user's");
    }

    #[test]
    fn a_slash_command_goes_alone() {
        let words = vec![Content::text("/compact")];
        assert_eq!(prompt(words.clone(), Some("state".into())), words);
    }

    #[test]
    fn a_page_that_says_too_much_is_cut_at_a_character() {
        let text = block(&[entry("d", json!("é".repeat(CONTEXT_BYTES)))], &[]).unwrap();
        assert!(text.len() < CONTEXT_BYTES + 64 && text.ends_with("too long]\n"));
    }

    #[test]
    fn parts_of_either_generation_become_words_and_pictures() {
        let message = |parts: Value| SentMessage {
            role: "user".into(),
            content: Some(Raw::from(&parts)),
            ..SentMessage::default()
        };
        let image = Content::Image { media_type: "image/png".into(), data: "AAAA".into() };
        let link = Content::Resource { uri: "https://x.example/a.png".into(), name: None, text: None };
        assert_eq!(
            user_words(&message(json!([
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
                {"type": "binary", "mimeType": "image/png", "data": "AAAA"},
                {"type": "image", "source": {"type": "url", "value": "https://x.example/a.png"}},
            ]))),
            Ok(vec![Content::text("look"), image.clone(), image, link])
        );
        for parts in [
            json!([{"type": "audio", "source": {"type": "data", "value": "AAAA", "mimeType": "audio/wav"}}]),
            json!([{"type": "binary", "mimeType": "application/pdf", "data": "AAAA"}]),
            json!([{"type": "text"}]),
            json!([7]),
            json!({"a": 1}),
        ] {
            assert!(user_words(&message(parts.clone())).is_err(), "{parts}");
        }
    }
}
