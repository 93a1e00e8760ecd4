//! The rules that both client generations enforce on a run, from their verdicts on 77 sequences: a sequence that breaks
//! a run of either client breaks here. The stricter client counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The event types that both clients know, with the required fields.
const TYPES: &[(&str, &[&str])] = &[
    ("RUN_STARTED", &["threadId", "runId"]),
    ("RUN_FINISHED", &["threadId", "runId"]),
    ("RUN_ERROR", &["message"]),
    ("TEXT_MESSAGE_START", &["messageId", "role"]),
    ("TEXT_MESSAGE_CONTENT", &["messageId", "delta"]),
    ("TEXT_MESSAGE_END", &["messageId"]),
    ("TOOL_CALL_START", &["toolCallId", "toolCallName"]),
    ("TOOL_CALL_ARGS", &["toolCallId", "delta"]),
    ("TOOL_CALL_END", &["toolCallId"]),
    ("TOOL_CALL_RESULT", &["messageId", "toolCallId", "content"]),
    ("STATE_SNAPSHOT", &[]),
    ("MESSAGES_SNAPSHOT", &[]),
    ("REASONING_START", &["messageId"]),
    ("REASONING_MESSAGE_START", &["messageId", "role"]),
    ("REASONING_MESSAGE_CONTENT", &["messageId", "delta"]),
    ("REASONING_MESSAGE_END", &["messageId"]),
    ("REASONING_END", &["messageId"]),
    ("SUBAGENT_STARTED", &["subagentRunId", "name"]),
    ("SUBAGENT_FINISHED", &["subagentRunId"]),
    ("SUBAGENT_ERROR", &["subagentRunId", "message"]),
    ("CUSTOM", &["name"]),
];

#[derive(Debug, Default)]
struct Run {
    started: bool,
    over: bool,
    /// By kind and id, with the subagent that opened it.
    open: BTreeMap<(&'static str, String), Option<String>>,
    subagents: BTreeMap<String, bool>,
}

/// The verdict of a client on the events of one response.
pub(super) fn verify(events: &[Value]) -> Result<(), String> {
    let mut run = Run::default();
    for event in events {
        shape(event)?;
        run.take(event).map_err(|why| format!("{why}: {event}"))?;
    }
    if run.started && !run.over {
        return Err("the body ended before the run did".into());
    }
    Ok(())
}

fn shape(event: &Value) -> Result<(), String> {
    let kind = event["type"].as_str().unwrap_or_default();
    let Some((_, required)) = TYPES.iter().find(|(known, _)| *known == kind) else {
        return Err(format!("no event that both generations know: {event}"));
    };
    for field in *required {
        if !event[field].is_string() {
            return Err(format!("`{field}` must be a text: {event}"));
        }
    }
    let fields = event.as_object().ok_or("an event is an object")?;
    let null = fields.iter().find(|(name, value)| value.is_null() && *name != "value" && *name != "snapshot");
    if let Some((name, _)) = null {
        return Err(format!("`{name}` is null: {event}"));
    }
    match kind {
        "CUSTOM" if !fields.contains_key("value") => Err("CUSTOM without a value".into()),
        "STATE_SNAPSHOT" if !fields.contains_key("snapshot") => Err("no snapshot".into()),
        "TEXT_MESSAGE_START"
            if !["assistant", "user"].contains(&event["role"].as_str().unwrap_or_default()) =>
        {
            Err(format!("the role: {event}"))
        }
        "REASONING_MESSAGE_START" if event["role"] != "reasoning" => Err(format!("the role: {event}")),
        "RUN_FINISHED" => match event.get("outcome") {
            None => Ok(()),
            Some(outcome) => interrupts(outcome),
        },
        "MESSAGES_SNAPSHOT" => messages(&event["messages"]),
        _ => Ok(()),
    }
}

fn interrupts(outcome: &Value) -> Result<(), String> {
    let fields: BTreeSet<&str> =
        outcome.as_object().ok_or("an outcome is an object")?.keys().map(String::as_str).collect();
    if outcome["type"] != "interrupt" || fields != BTreeSet::from(["type", "interrupts"]) {
        return Err(format!("an outcome that one generation does not know: {outcome}"));
    }
    let all = outcome["interrupts"].as_array().ok_or("interrupts is a list")?;
    let good =
        |one: &Value| one["id"].is_string() && one["reason"].is_string() && one["responseSchema"].is_object();
    if all.is_empty() || !all.iter().all(good) { Err(format!("interrupts: {outcome}")) } else { Ok(()) }
}

fn messages(messages: &Value) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    for message in messages.as_array().ok_or("messages is a list")? {
        let id = message["id"].as_str().ok_or_else(|| format!("no id: {message}"))?;
        if !ids.insert(id) {
            return Err(format!("two messages `{id}`"));
        }
        let text = message["content"].is_string();
        let good = match message["role"].as_str().unwrap_or_default() {
            "user" | "reasoning" => text,
            "tool" => text && message["toolCallId"].is_string(),
            // Absent, but never null.
            "assistant" => {
                let calls = message["toolCalls"].as_array();
                let sound = |call: &Value| {
                    call["id"].is_string()
                        && call["type"] == "function"
                        && call["function"]["arguments"].is_string()
                };
                (text || message.get("content").is_none())
                    && calls.is_none_or(|calls| calls.iter().all(sound))
            }
            _ => false,
        };
        if !good {
            return Err(format!("a message: {message}"));
        }
    }
    Ok(())
}

impl Run {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        let kind = event["type"].as_str().unwrap_or_default();
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        if self.over {
            return Err("an event after the end of the run".into());
        }
        if !self.started && kind != "RUN_STARTED" {
            return Err("the first event is not RUN_STARTED".into());
        }
        let tag = event.get("subagentRunId").and_then(Value::as_str).map(str::to_owned);
        if let Some(tag) = &tag
            && !kind.starts_with("SUBAGENT")
            && self.subagents.get(tag) != Some(&true)
        {
            return Err("a subagent that is not open".into());
        }
        match kind {
            "RUN_STARTED" if self.started => return Err("RUN_STARTED in a run".into()),
            "RUN_STARTED" => self.started = true,
            "RUN_ERROR" => self.over = true,
            "RUN_FINISHED" => {
                self.over = true;
                if !self.open.is_empty() {
                    return Err(format!("still open: {:?}", self.open));
                }
                if let Some((name, _)) = self.subagents.iter().find(|(_, open)| **open) {
                    return Err(format!("the subagent {name} is still open"));
                }
            }
            "TEXT_MESSAGE_START" => self.open("text", text("messageId"), tag)?,
            "TEXT_MESSAGE_CONTENT" => self.is_open("text", &text("messageId"), tag.as_deref())?,
            "TEXT_MESSAGE_END" => self.close("text", &text("messageId"), tag.as_deref())?,
            "REASONING_START" => self.open("span", text("messageId"), tag)?,
            "REASONING_MESSAGE_START" => self.open("reasoning", text("messageId"), tag)?,
            "REASONING_MESSAGE_CONTENT" => self.is_open("reasoning", &text("messageId"), tag.as_deref())?,
            "REASONING_MESSAGE_END" => self.close("reasoning", &text("messageId"), tag.as_deref())?,
            "REASONING_END" => self.close("span", &text("messageId"), tag.as_deref())?,
            "TOOL_CALL_START" => self.open("call", text("toolCallId"), tag)?,
            "TOOL_CALL_ARGS" => self.is_open("call", &text("toolCallId"), tag.as_deref())?,
            "TOOL_CALL_END" => self.close("call", &text("toolCallId"), tag.as_deref())?,
            "SUBAGENT_STARTED" => {
                if self.subagents.insert(text("subagentRunId"), true).is_some() {
                    return Err("a subagent's name is used again".into());
                }
                let parent = event.get("parentSubagentRunId").and_then(Value::as_str);
                if parent.is_some_and(|parent| self.subagents.get(parent) != Some(&true)) {
                    return Err("its parent is not open".into());
                }
            }
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                if self.subagents.insert(text("subagentRunId"), false) != Some(true) {
                    return Err("a subagent that is not open".into());
                }
                if let Some(left) = self.open.iter().find(|(_, by)| **by == Some(text("subagentRunId"))) {
                    return Err(format!("{left:?} of it is still open"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, sort: &'static str, id: String, tag: Option<String>) -> Result<(), String> {
        match self.open.insert((sort, id), tag) {
            None => Ok(()),
            Some(_) => Err("it is open already".into()),
        }
    }

    fn is_open(&self, sort: &'static str, id: &str, tag: Option<&str>) -> Result<(), String> {
        match self.open.get(&(sort, id.to_owned())) {
            None => Err("it is not open".into()),
            Some(opener) if opener.as_deref() != tag => Err("another subagent opened it".into()),
            Some(_) => Ok(()),
        }
    }

    fn close(&mut self, sort: &'static str, id: &str, tag: Option<&str>) -> Result<(), String> {
        self.is_open(sort, id, tag)?;
        self.open.remove(&(sort, id.to_owned()));
        Ok(())
    }
}

/// What a page shows after some responses, as the clients apply them: text by message, in order; calls by name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Shown {
    /// Role, id, text; a call's arguments are its text.
    pub(super) messages: Vec<(String, String, String)>,
}

impl Shown {
    fn place(&mut self, role: &str, id: &str) -> &mut String {
        let place = self.messages.iter().position(|(_, known, _)| known == id).unwrap_or_else(|| {
            self.messages.push((role.to_owned(), id.to_owned(), String::new()));
            self.messages.len() - 1
        });
        &mut self.messages[place].2
    }

    /// Applies a response.
    pub(super) fn apply(&mut self, events: &[Value]) {
        for event in events {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap_or_default() {
                "TEXT_MESSAGE_START" => drop(self.place(&text("role"), &text("messageId")).len()),
                "TEXT_MESSAGE_CONTENT" => self.place("?", &text("messageId")).push_str(&text("delta")),
                "REASONING_MESSAGE_START" => drop(self.place("reasoning", &text("messageId")).len()),
                "REASONING_MESSAGE_CONTENT" => self.place("?", &text("messageId")).push_str(&text("delta")),
                "TOOL_CALL_START" => drop(self.place(&text("toolCallName"), &text("toolCallId")).len()),
                "TOOL_CALL_ARGS" => self.place("?", &text("toolCallId")).push_str(&text("delta")),
                "TOOL_CALL_RESULT" => self.place("tool", &text("messageId")).push_str(&text("content")),
                "MESSAGES_SNAPSHOT" => {
                    self.messages.clear();
                    for message in event["messages"].as_array().into_iter().flatten() {
                        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                        let call = &message["toolCalls"][0]["function"];
                        let (role, text) = match call["name"].as_str() {
                            Some(name) => (name.to_owned(), of(&call["arguments"])),
                            None => (of(&message["role"]), of(&message["content"])),
                        };
                        self.messages.push((role, of(&message["id"]), text));
                    }
                }
                _ => {}
            }
        }
    }
}
