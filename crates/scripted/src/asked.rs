//! The content of a request, independent of any API: rules match on it and placeholders are filled from it.

use std::collections::HashMap;

/// One request for an answer of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The requested model's name.
    pub model: String,
    /// The system prompt, as one text.
    pub system: String,
    /// All prompts, oldest first, without the notes that an agent adds by itself. One entry per text: prompts that were
    /// never answered share a message with those that follow, and are still separate prompts.
    pub prompts: Vec<String>,
    /// Turns of the model since the last prompt: how far the tool loop has come.
    pub turns: usize,
    /// Notes that the agent sent to the model by itself since the model's last turn: reminders, news of background
    /// work.
    pub notes: Vec<String>,
    /// Results of tools since the model's last turn. Empty if a prompt came last.
    pub results: Vec<ToolResult>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// Images in the conversation.
    pub images: usize,
    /// Documents in the conversation.
    pub documents: usize,
    /// Streamed, or in one piece.
    pub delivery: Delivery,
    /// The agent's names for its session and its subagent, if the API carries them; otherwise empty.
    pub session: String,
    /// Roughly how many tokens the request has.
    pub tokens: u64,
}

impl Asked {
    /// The last prompt.
    pub fn prompt(&self) -> &str {
        self.prompts.last().map_or("", String::as_str)
    }

    /// The turn of the model begins: what came before its last input is settled.
    pub(crate) fn begin_turn(&mut self) {
        self.turns += 1;
        self.results.clear();
        self.notes.clear();
    }

    /// Adds the result of a tool, whose name is among the known calls.
    pub(crate) fn add_result(&mut self, id: &str, calls: &HashMap<String, String>, text: String) {
        let name = calls.get(id).cloned().unwrap_or_default();
        self.results.push(ToolResult { id: id.to_owned(), name, text, is_error: false });
    }

    /// A request on the side, such as for a title: it offers the model no tools.
    pub fn is_aside(&self) -> bool {
        self.tools.is_empty()
    }
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The tool's name; empty if the conversation does not show the call.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether it was marked as an error.
    pub is_error: bool,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// As a stream of events.
    Streamed,
    /// As one body.
    #[default]
    Whole,
}

/// The approximate tokens of this many bytes: the usual four bytes to one, never zero.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64 / 4).max(1)
}
