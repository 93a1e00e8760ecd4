//! The history of a session as one list of messages, with the same ids as in the stream: however often a page connects,
//! nothing is doubled.

use std::collections::{HashMap, HashSet};

use portolan_core::{Action, Actor, Event, Seq, command::ActionName, session::state::State};

use super::{
    PageNames,
    calls::{arguments, failure, result_id, result_text},
    items::{Shown, piece_id, shown},
};
use crate::agui::{
    VIA,
    context::own_words,
    wire::{FunctionCall, Message, ToolCall},
};

/// The most entries in a history. With more, a page gets the newest.
pub const HISTORY_ENTRIES: u32 = 5000;

/// The most bytes of a history. Clients send all of it back with every run, and refuse an event above 10 MiB.
pub const HISTORY_BYTES: usize = 2 * 1024 * 1024;

/// How many prompt ids are kept until the prompts are sent; more than may wait.
const PROMPTS: usize = 1024;

/// The ids of user messages: the page's own id if the message came from a page.
#[derive(Debug, Default)]
pub(super) struct PromptIds(HashMap<Seq, String>);

impl PromptIds {
    pub(super) fn of(state: &State) -> Self {
        let mut ids = Self::default();
        for open in state.commands.iter().filter(|open| open.name == ActionName::Prompt) {
            ids.keep(open.seq, Some(&open.by), open.key.id.as_str());
        }
        ids
    }

    /// About how many bytes they take.
    pub(super) fn weight(&self) -> usize {
        self.0.values().map(|id| id.len() + 64).sum()
    }

    fn keep(&mut self, command: Seq, by: Option<&Actor>, id: &str) {
        if self.0.len() >= PROMPTS {
            self.0.clear();
        }
        let from_a_page = matches!(by, Some(Actor::Person { via, .. }) if via == VIA);
        let id = if from_a_page { id.to_owned() } else { format!("prompt-{command}") };
        self.0.insert(command, id);
    }

    /// Reads an entry.
    pub(super) fn note(&mut self, seq: Seq, by: Option<&Actor>, event: &Event) {
        if let Event::CommandAccepted { key, action } = event
            && matches!(**action, Action::Prompt { .. })
        {
            self.keep(seq, by, key.id.as_str());
        }
    }

    /// The message id of this prompt, which is being sent now.
    pub(super) fn take(&mut self, command: Seq, seq: Seq) -> String {
        self.0.remove(&command).unwrap_or_else(|| format!("prompt-{seq}"))
    }
}

/// A history under construction.
#[derive(Debug)]
pub struct History {
    names: PageNames,
    ids: PromptIds,
    messages: Vec<Message>,
    used: HashSet<String>,
}

impl History {
    /// An empty history.
    pub fn new(names: PageNames) -> Self {
        Self { names, ids: PromptIds::default(), messages: Vec::new(), used: HashSet::new() }
    }

    /// One entry.
    pub fn take(&mut self, seq: Seq, by: Option<&Actor>, event: &Event) {
        self.ids.note(seq, by, event);
        match event {
            Event::Prompt { command, content } => {
                let id = self.ids.take(*command, seq);
                self.user(id, own_words(content));
            }
            Event::Message { item, content, .. } => {
                for (index, piece) in content.iter().enumerate() {
                    let id = piece_id(item, index);
                    match shown(piece) {
                        Some(Shown::Text(text)) if !text.is_empty() => {
                            let id = self.unique(id);
                            self.messages.push(Message::Assistant {
                                id,
                                content: Some(text),
                                tool_calls: vec![],
                            });
                        }
                        Some(Shown::Reasoning(content)) if !content.is_empty() => {
                            let id = self.unique(id);
                            self.messages.push(Message::Reasoning { id, content });
                        }
                        _ => {}
                    }
                }
            }
            Event::ToolCall { tool, name, input, .. } => {
                let name = self.names.of(name).unwrap_or_else(|| name.clone());
                let function = FunctionCall { name, arguments: arguments(input) };
                let call = ToolCall { id: tool.clone(), kind: "function".into(), function };
                let id = self.unique(tool.clone());
                self.messages.push(Message::Assistant { id, content: None, tool_calls: vec![call] });
            }
            Event::ToolResult { tool, outcome, content, .. } => {
                let id = self.unique(result_id(tool));
                self.messages.push(Message::Tool {
                    id,
                    tool_call_id: tool.clone(),
                    content: result_text(*outcome, content),
                    error: failure(*outcome).map(Into::into),
                });
            }
            // Only messages, calls and results are history.
            _ => {}
        }
    }

    fn user(&mut self, id: String, content: String) {
        if !content.is_empty() {
            let id = self.unique(id);
            self.messages.push(Message::User { id, content });
        }
    }

    /// A page would merge two messages with one id.
    fn unique(&mut self, id: String) -> String {
        let mut name = id.clone();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            count += 1;
            name = format!("{id}#{count}");
        }
        name
    }

    /// The whole history, with the waiting prompts; only the newest part if it is too long.
    pub fn into_messages(mut self, state: &State) -> Vec<Message> {
        for open in state.commands.iter().filter(|open| open.is_queued_prompt()) {
            self.ids.keep(open.seq, Some(&open.by), open.key.id.as_str());
            let id = self.ids.take(open.seq, open.seq);
            self.user(id, own_words(&open.content));
        }
        let mut bytes = 0;
        let mut first = self.messages.len();
        for (index, message) in self.messages.iter().enumerate().rev() {
            bytes += serde_json::to_vec(message).map_or(0, |text| text.len());
            if bytes > HISTORY_BYTES {
                break;
            }
            first = index;
        }
        let mut messages = self.messages.split_off(first);
        // A result without its call is dropped.
        let mut calls = HashSet::new();
        messages.retain(|message| match message {
            Message::Assistant { tool_calls, .. } => {
                calls.extend(tool_calls.iter().map(|call| call.id.clone()));
                true
            }
            Message::Tool { tool_call_id, .. } => calls.contains(tool_call_id),
            Message::User { .. } | Message::Reasoning { .. } => true,
        });
        messages
    }
}
