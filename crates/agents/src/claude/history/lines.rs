//! Lines of a conversation's file, one at a time and within the usual limit.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read as _},
    ops::ControlFlow,
    path::Path,
};

use portolan_core::{Millis, event::Content};
use portolan_wire::{
    limits,
    ndjson::{Line, MAX_LINE, Splitter},
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::claude::wire;

/// Calls `take` for each line of text within the first `most` bytes and the limits, until `take` stops it.
pub(super) fn each(
    path: &Path,
    most: usize,
    mut take: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut splitter = Splitter::new(MAX_LINE);
    let mut buffer = vec![0; 64 * 1024];
    let mut left = most;
    let mut within = |line: Line<'_>| {
        if let Line::Text(text) = line
            && limits::check_depth(text.as_bytes(), limits::MAX_DEPTH).is_ok()
        {
            return take(text);
        }
        ControlFlow::Continue(())
    };
    while left > 0 {
        let room = buffer.len().min(left);
        let count = file.read(&mut buffer[..room])?;
        if count == 0 {
            break;
        }
        left -= count;
        splitter.push(&buffer[..count]);
        while let Some(line) = splitter.next_line() {
            if within(line).is_break() {
                return Ok(());
            }
        }
    }
    // A line that is just being written has no end yet; a cut line is not JSON and is ignored.
    if let Some(line) = splitter.finish() {
        // Nothing follows, whether more is wanted or not.
        let _ = within(line);
    }
    Ok(())
}

/// The fields of a line that are read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) cwd: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_result: Option<&'a RawValue>,
    #[serde(default)]
    is_sidechain: Option<bool>,
    #[serde(default)]
    pub(super) is_meta: Option<bool>,
    #[serde(default)]
    pub(super) is_compact_summary: Option<bool>,
    #[serde(borrow, default)]
    summary: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    custom_title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ai_title: Option<Cow<'a, str>>,
}

impl<'a> Told<'a> {
    pub(super) fn of(line: &'a str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Whether the line is part of the conversation: a message or a tool.
    pub(super) fn is_conversation(&self) -> bool {
        matches!(&*self.kind, "user" | "assistant") && self.message.is_some()
    }

    /// Whether the line belongs to a subagent.
    pub(super) fn is_aside(&self) -> bool {
        self.is_sidechain == Some(true)
    }

    pub(super) fn at(&self) -> Option<Millis> {
        let at: jiff::Timestamp = self.timestamp.as_ref()?.parse().ok()?;
        Some(Millis(at.as_millisecond()))
    }

    pub(super) fn title(&self) -> Option<String> {
        match &*self.kind {
            "custom-title" => self.custom_title.as_deref().map(str::to_owned),
            "ai-title" => self.ai_title.as_deref().map(str::to_owned),
            "summary" => self.summary.as_deref().map(str::to_owned),
            _ => None,
        }
    }

    pub(super) fn message_id(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Identified {
            id: String,
        }
        wire::open::<Identified>(self.message).map(|message| message.id)
    }

    /// The user's prompt; `None` if the line is something else: a result, a note of the CLI, a command's output.
    pub(super) fn prompt(&self) -> Option<Vec<Content>> {
        if self.kind != "user" || self.is_meta == Some(true) || self.is_compact_summary == Some(true) {
            return None;
        }
        let message: Value = wire::open(self.message)?;
        let blocks = match &message["content"] {
            Value::String(text) => return said(text).map(|text| vec![text]),
            Value::Array(blocks) => blocks,
            _ => return None,
        };
        let mut content = vec![];
        for block in blocks {
            match block["type"].as_str() {
                Some("tool_result") => return None,
                Some("text") => content.extend(said(block["text"].as_str().unwrap_or_default())),
                Some("image") => {
                    let text = |key: &str| block["source"][key].as_str().map(str::to_owned);
                    if let (Some(media_type), Some(data)) = (text("media_type"), text("data")) {
                        content.push(Content::Image { media_type, data });
                    }
                }
                _ => {}
            }
        }
        (!content.is_empty()).then_some(content)
    }
}

/// A user's text; not the CLI's own text, which stands in tags or brackets.
fn said(text: &str) -> Option<Content> {
    const NOT_SAID: &[&str] = &[
        "<local-command-",
        "<command-name>",
        "<command-message>",
        "<system-reminder>",
        "<task-notification>",
        "<bash-stdout>",
        "[Request interrupted by user",
        "Caveat: The messages below",
    ];
    let begins = text.trim_start();
    let own = !begins.is_empty() && !NOT_SAID.iter().any(|mark| begins.starts_with(mark));
    own.then(|| Content::text(text))
}
